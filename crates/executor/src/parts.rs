//! The parts of a step that an operation's time can count as.

use graph::OpKind;

/// What a moment can be charged to, in this order: computing, communicating, memory outside, memory
/// of the NPU, launches, host work.
pub const PARTS: usize = 6;
/// The part of an operation that waits for its host to launch it.
pub const LAUNCH: usize = 4;

/// The part that an operation is while it runs; a receive is one only while its message is under
/// way.
pub fn part(kind: OpKind) -> Option<usize> {
    match kind {
        OpKind::Compute => Some(0),
        OpKind::Communication => Some(1),
        OpKind::Remote => Some(2),
        OpKind::Local => Some(3),
        OpKind::Host => Some(5),
        OpKind::Receive | OpKind::Nothing => None,
    }
}
