//! A pass where it stands in the order of a pipeline.

use crate::passes::Kind;

/// Passes of a part that differ in what they do.
pub(crate) const KINDS: usize = 24;

/// A pass where it stands in the order of the whole pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub stage: u32,
    pub part: u32,
    /// The part, and all that decides what its pass does: a number below `KINDS` for each part.
    pub of: u32,
    pub kind: Kind,
    /// Whether a `Weights` pass follows this backward pass.
    pub inputs_only: bool,
    pub overlaps: bool,
    /// Whether it is of the first micro-batch of its chunk.
    pub first: bool,
    /// Whether gradients of its chunk are complete after it.
    pub last: bool,
    /// Place of its result among those of its kind.
    pub own: u32,
    /// Place of the result that it waits for; none where it waits for nothing.
    pub from: Option<u32>,
    /// The entry between two parts that its input crosses.
    pub entry: u32,
}
