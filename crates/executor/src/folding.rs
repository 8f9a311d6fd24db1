//! Which ranks of a run are simulated, and which ranks each of them stands for.

/// The simulated ranks, and the ranks that each of them stands for.
#[derive(Clone, Debug)]
pub struct Folding {
    /// Representative ranks, ascending.
    pub representatives: Vec<u32>,
    /// For each rank the index of its representative; `None` when every rank is its own.
    pub class_of: Option<Vec<u32>>,
    /// Ranks each representative stands for.
    pub multiplicity: Vec<u64>,
    /// For each representative and slot, its place in the communicators of the folded run. Empty
    /// if nothing is folded.
    pub slots: Vec<Vec<SlotClass>>,
    /// Members of each communicator of the folded run.
    pub components: Vec<u32>,
}

/// A (representative, slot) pair in a communicator of the folded run.
#[derive(Clone, Copy, Debug)]
pub struct SlotClass {
    /// The communicator.
    pub component: u32,
    /// Index among its members.
    pub member: u32,
}

impl Folding {
    /// Every rank is simulated.
    pub fn none(ranks: u32) -> Folding {
        Folding {
            representatives: (0..ranks).collect(),
            class_of: None,
            multiplicity: vec![1; ranks as usize],
            slots: Vec::new(),
            components: Vec::new(),
        }
    }

    /// Index of the representative of `rank`.
    #[inline]
    pub fn local(&self, rank: u32) -> u32 {
        self.class_of.as_ref().map_or(rank, |c| c[rank as usize])
    }
}
