//! One trace, read, and how it is read.

use super::groups::Declared;
use super::notes::Notes;
use graph::Program;

/// How forgiving the reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Takes a recording as it is: communication nodes whose attributes are missing or unusable are
    /// replayed by their recorded duration, and dependencies on nodes that were not recorded are
    /// dropped. Both are counted in the notes.
    pub replay: bool,
}

/// The group behind a slot, as the trace names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotName {
    /// The group's name; empty for everybody.
    pub name: String,
    /// The first node that uses it.
    pub first_node: u64,
}

/// One trace, read but not yet bound to the groups of a workload.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Operations of the rank.
    pub program: Program,
    /// The groups behind the program's slots.
    pub slots: Vec<SlotName>,
    pub(super) declared: Vec<Declared>,
    pub(super) notes: Notes,
    /// True when the file would read the same for any other rank.
    pub(super) rank_free: bool,
}
