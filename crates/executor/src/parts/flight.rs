//! Operations that a rank has in flight, and the one to which each moment is charged.
//!
//! A moment is charged to the first [`Part`] that has something in flight. Within the part it is
//! charged to the operation that ends first, because that is what the rank waits for next. Which
//! one ends first is known only then. Until then each operation holds the time between its own
//! start and the next one's. The first to end also takes the time of all that started after it.
//! Operations that end at one instant are charged in the order of their nodes, so that the order of
//! events within an instant does not matter.

use stats::{Part, PerPart};
use units::Span;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    /// Operations of each part in the order of their starts, each with the time between its start
    /// and the next one's.
    parts: PerPart<Vec<(u32, Span)>>,
    /// Part and node of what has ended at this instant and is not charged yet.
    ended: Vec<(Part, u32)>,
}

impl InFlight {
    pub(crate) fn begin(&mut self, part: Part, node: u32) {
        self.parts[part].push((node, Span::ZERO));
    }

    /// An operation is over. `charge` reports its time once time goes on.
    pub(crate) fn end(&mut self, part: Part, node: u32) {
        self.ended.push((part, node));
    }

    /// Hands over the nodes that are over, each with its time.
    #[inline]
    pub(crate) fn charge(&mut self, mut to: impl FnMut(u32, Span)) {
        if self.ended.is_empty() {
            return;
        }
        self.ended.sort_unstable();
        for (part, node) in self.ended.drain(..) {
            let flying = &mut self.parts[part];
            let at =
                flying.iter().position(|&(other, _)| other == node).expect("what ends has begun");
            to(node, flying[at..].iter_mut().map(|(_, passed)| std::mem::take(passed)).sum());
            flying.remove(at);
        }
    }

    /// Time passes. Returns the part that it is charged to, if any.
    pub(crate) fn pass(&mut self, span: Span) -> Option<Part> {
        let (part, _) = self.parts.iter().find(|(_, flying)| !flying.is_empty())?;
        self.parts[part].last_mut()?.1 += span;
        Some(part)
    }

    /// Whether something of a part is in flight.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts[part].len() > self.ended.iter().filter(|&&(ended, _)| ended == part).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMM: Part = Part::Communication;

    #[test]
    fn the_first_to_end_is_charged() {
        let mut flight = InFlight::default();
        flight.begin(COMM, 10);
        assert_eq!(flight.pass(Span(5)), Some(COMM));
        flight.begin(COMM, 11);
        flight.pass(Span(7));
        flight.begin(Part::Compute, 12);
        assert_eq!(flight.pass(Span(100)), Some(Part::Compute), "what computes is charged first");
        assert_eq!(over(&mut flight, &[(Part::Compute, 12)]), [(12, Span(100))]);
        flight.pass(Span(1));
        // It had not begun in the first 5, which are charged to the other one.
        assert_eq!(over(&mut flight, &[(COMM, 11)]), [(11, Span(8))]);
        flight.pass(Span(2));
        assert_eq!(over(&mut flight, &[(COMM, 10)]), [(10, Span(7))]);
        assert_eq!(flight.pass(Span(9)), None);
    }

    fn over(flight: &mut InFlight, ended: &[(Part, u32)]) -> Vec<(u32, Span)> {
        ended.iter().for_each(|&(part, node)| flight.end(part, node));
        let mut charged = Vec::new();
        flight.charge(|node, span| charged.push((node, span)));
        charged
    }

    #[test]
    fn what_ends_together_is_charged_in_the_order_of_nodes() {
        for order in [[(COMM, 3), (COMM, 7)], [(COMM, 7), (COMM, 3)]] {
            let mut flight = InFlight::default();
            flight.begin(COMM, 3);
            flight.pass(Span(4));
            flight.begin(COMM, 7);
            flight.pass(Span(5));
            order.iter().for_each(|&(part, node)| flight.end(part, node));
            assert!(!flight.has(COMM), "it is over at once");
            assert_eq!(over(&mut flight, &[]), [(3, Span(9)), (7, Span(0))]);
        }
    }
}
