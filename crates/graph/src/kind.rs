//! Kinds of work of operations: for resources and time (`OpKind`), and by name.

use crate::op::{Op, Reach};

/// Resource that a node occupies on its rank, and the part of the step that its time counts as. One
/// byte for each node, because programs can be large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Bookkeeping.
    Nothing,
    /// Computation on the host.
    Host,
    /// Computation on the NPU.
    Compute,
    /// A collective or a send.
    Communication,
    /// An access to memory outside the NPU.
    Remote,
    /// An access to the NPU's own memory.
    Local,
    /// A receive: occupies nothing, and communicates while its message is under way.
    Receive,
}

impl Op {
    /// Kind of the operation on its rank.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Metadata | Op::Invalid => OpKind::Nothing,
            Op::Recv { .. } => OpKind::Receive,
            Op::Compute { cpu: true, .. } => OpKind::Host,
            Op::Compute { .. } | Op::Gemm(_) | Op::Grouped(_) | Op::Lookup(_) => OpKind::Compute,
            Op::Memory { reach: Reach::Local, .. } => OpKind::Local,
            Op::Memory { .. } => OpKind::Remote,
            Op::Send { .. } | Op::Collective { .. } => OpKind::Communication,
        }
    }

    /// The kind of the operation as reports name it.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Op::Metadata => "metadata",
            Op::Invalid => "invalid",
            Op::Compute { cpu: true, .. } => "host",
            Op::Compute { .. } | Op::Gemm(_) | Op::Grouped(_) | Op::Lookup(_) => "compute",
            Op::Memory { store: true, .. } => "store",
            Op::Memory { .. } => "load",
            Op::Send { .. } => "send",
            Op::Recv { .. } => "recv",
            Op::Collective { kind, .. } => kind.name(),
        }
    }
}
