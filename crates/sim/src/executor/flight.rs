//! What a rank has in flight, and to which operation each moment of it is charged.
//!
//! A moment is charged to the first part of [`PARTS`] that has something in flight, and within it to the operation that ends first: the others
//! are not what the rank waits for next. Which one that is shows when it ends. Until then each operation holds what has passed between its own
//! start and that of the next one; the first to end takes that of all that started after it.

use super::nodes::Kind;
use units::Span;

/// What a moment can be charged to, in this order: computing, communicating, memory outside, memory of the NPU, launches, host work.
pub(crate) const PARTS: usize = 6;
/// The part of an operation that waits for its host to launch it.
pub(crate) const LAUNCH: usize = 4;

/// The part that an operation is while it runs; a receive is one only while its message is under way.
pub(crate) fn part(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Compute => Some(0),
        Kind::Communication => Some(1),
        Kind::Remote => Some(2),
        Kind::Local => Some(3),
        Kind::Host => Some(5),
        Kind::Receive | Kind::Nothing => None,
    }
}

/// See the module.
#[derive(Clone, Default)]
pub(super) struct InFlight {
    /// By part: operations in the order of their starts, with what has passed since and before the next one's.
    parts: [Vec<(u32, Span)>; PARTS],
}

impl InFlight {
    pub(super) fn begin(&mut self, part: usize, node: u32) {
        self.parts[part].push((node, Span::ZERO));
    }

    /// What an operation that is over is charged.
    pub(super) fn end(&mut self, part: usize, node: u32) -> Span {
        let flying = &mut self.parts[part];
        let at = flying.iter().rposition(|&(other, _)| other == node).expect("what ends has begun");
        let charged = flying[at..].iter_mut().map(|(_, passed)| std::mem::take(passed)).sum();
        flying.remove(at);
        charged
    }

    /// Time goes by; says which part it is, if any.
    pub(super) fn pass(&mut self, span: Span) -> Option<usize> {
        let part = self.parts.iter().position(|flying| !flying.is_empty())?;
        self.parts[part].last_mut()?.1 += span;
        Some(part)
    }

    /// Whether something of a part is in flight.
    pub(super) fn has(&self, part: usize) -> bool {
        !self.parts[part].is_empty()
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
        assert_eq!(flight.end(0, 12), Span(100));
        flight.pass(Span(1));
        // It was not there for the first 5, for which the other is waited on.
        assert_eq!(flight.end(1, 11), Span(8));
        flight.pass(Span(2));
        assert_eq!(flight.end(1, 10), Span(7));
        assert_eq!(flight.pass(Span(9)), None);
    }
}
