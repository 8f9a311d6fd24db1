//! What a rank has in flight, and to which operation each moment of it is charged.
//!
//! A moment is charged to the first part of [`PARTS`] that has something in flight, and within it
//! to the operation that ends first: the others are not what the rank waits for next. Which one
//! that is shows when it ends. Until then each operation holds what has passed between its own
//! start and that of the next one; the first to end takes that of all that started after it.
//! Operations that end at one instant are charged in the order of their nodes, so that the order of
//! events within an instant does not matter.

use crate::parts::PARTS;
use units::Span;

/// See the module.
#[derive(Clone, Default)]
pub(super) struct InFlight {
    /// By part: operations in the order of their starts, with what has passed since and before the
    /// next one's.
    parts: [Vec<(u32, Span)>; PARTS],
    /// Part and node of what ended at this instant and has yet to be charged.
    ended: Vec<(usize, u32)>,
}

impl InFlight {
    pub(super) fn begin(&mut self, part: usize, node: u32) {
        self.parts[part].push((node, Span::ZERO));
    }

    /// An operation is over; `charge` says what it is charged once time goes on.
    pub(super) fn end(&mut self, part: usize, node: u32) {
        self.ended.push((part, node));
    }

    /// Hands over nodes that are over, each with what it is charged.
    #[inline]
    pub(super) fn charge(&mut self, mut to: impl FnMut(u32, Span)) {
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

    /// Time goes by; says which part it is, if any.
    pub(super) fn pass(&mut self, span: Span) -> Option<usize> {
        let part = self.parts.iter().position(|flying| !flying.is_empty())?;
        self.parts[part].last_mut()?.1 += span;
        Some(part)
    }

    /// Whether something of a part is in flight.
    pub(super) fn has(&self, part: usize) -> bool {
        self.parts[part].len() > self.ended.iter().filter(|&&(ended, _)| ended == part).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_end_is_charged() {
        let mut flight = InFlight::default();
        flight.begin(1, 10);
        assert_eq!(flight.pass(Span(5)), Some(1));
        flight.begin(1, 11);
        flight.pass(Span(7));
        flight.begin(0, 12);
        assert_eq!(flight.pass(Span(100)), Some(0), "what computes is charged first");
        assert_eq!(over(&mut flight, &[(0, 12)]), [(12, Span(100))]);
        flight.pass(Span(1));
        // It was not there for the first 5, for which the other is waited on.
        assert_eq!(over(&mut flight, &[(1, 11)]), [(11, Span(8))]);
        flight.pass(Span(2));
        assert_eq!(over(&mut flight, &[(1, 10)]), [(10, Span(7))]);
        assert_eq!(flight.pass(Span(9)), None);
    }

    fn over(flight: &mut InFlight, ended: &[(usize, u32)]) -> Vec<(u32, Span)> {
        ended.iter().for_each(|&(part, node)| flight.end(part, node));
        let mut charged = Vec::new();
        flight.charge(|node, span| charged.push((node, span)));
        charged
    }

    #[test]
    fn what_ends_together_is_charged_in_the_order_of_nodes() {
        for order in [[(1, 3), (1, 7)], [(1, 7), (1, 3)]] {
            let mut flight = InFlight::default();
            flight.begin(1, 3);
            flight.pass(Span(4));
            flight.begin(1, 7);
            flight.pass(Span(5));
            order.iter().for_each(|&(part, node)| flight.end(part, node));
            assert!(!flight.has(1), "it is over at once");
            assert_eq!(over(&mut flight, &[]), [(3, Span(9)), (7, Span(0))]);
        }
    }
}
