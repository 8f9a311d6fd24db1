//! Scripts: the operations of a part, in their order.

/// One operation of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Kernels, one after the other.
    Kernel(u64),
    /// A collective that the next operation waits for, and the dimensions that it uses.
    Call(u64, u8),
    /// A collective or message that overlaps with what follows, with its number in the script.
    Start(u64, u8, u8),
    /// Waits for what was started under a number.
    Wait(u8),
}

impl Op {
    /// Dimensions that it uses, a bit for each.
    pub(crate) fn dims(&self) -> u8 {
        match *self {
            Op::Call(_, dims) | Op::Start(_, dims, _) => dims,
            Op::Kernel(_) | Op::Wait(_) => 0,
        }
    }
}

/// Most collectives of a script that are started under numbers.
pub const STARTED: usize = 64;

/// The operations of scripts, by their index.
pub type Scripts = [Vec<Op>];
