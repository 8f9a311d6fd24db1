//! The operations of a program: what a node does.

use units::{Bytes, Span};

/// Result that a collective promises (nccl-tests and MPI meanings).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Barrier,
}

impl CollectiveKind {
    /// Every kind, in a fixed order.
    pub const ALL: [CollectiveKind; 9] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::Broadcast,
        CollectiveKind::Reduce,
        CollectiveKind::Gather,
        CollectiveKind::Scatter,
        CollectiveKind::Barrier,
    ];

    /// The name used in files and on the command line: `all_reduce`, ...
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce => "all_reduce",
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::ReduceScatter => "reduce_scatter",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::Broadcast => "broadcast",
            CollectiveKind::Reduce => "reduce",
            CollectiveKind::Gather => "gather",
            CollectiveKind::Scatter => "scatter",
            CollectiveKind::Barrier => "barrier",
        }
    }
}

/// Kind of kernel of a compute node; platforms give efficiencies by kind.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kernel {
    /// Anything, or not known.
    #[default]
    Other,
    Gemm,
    /// A matrix multiplication for each of several groups of rows, as experts have.
    Grouped,
    Convolution,
    Attention,
    /// Attention of a block of queries to keys that all of them see: no part of it is masked.
    UnmaskedAttention,
    Elementwise,
    Normalization,
    Embedding,
    /// Gradients of rows of embedding tables and their update, in one kernel.
    EmbeddingUpdate,
    Optimizer,
}

impl Kernel {
    /// Every kind, in a fixed order.
    pub const ALL: [Kernel; 11] = [
        Kernel::Other,
        Kernel::Gemm,
        Kernel::Grouped,
        Kernel::Convolution,
        Kernel::Attention,
        Kernel::UnmaskedAttention,
        Kernel::Elementwise,
        Kernel::Normalization,
        Kernel::Embedding,
        Kernel::EmbeddingUpdate,
        Kernel::Optimizer,
    ];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Other => "other",
            Kernel::Gemm => "gemm",
            Kernel::Grouped => "grouped",
            Kernel::Convolution => "convolution",
            Kernel::Attention => "attention",
            Kernel::UnmaskedAttention => "unmasked_attention",
            Kernel::Elementwise => "elementwise",
            Kernel::Normalization => "normalization",
            Kernel::Embedding => "embedding",
            Kernel::EmbeddingUpdate => "embedding_update",
            Kernel::Optimizer => "optimizer",
        }
    }

    /// The kind whose efficiency counts where a file has none for this one.
    pub const fn general(self) -> Option<Kernel> {
        match self {
            Kernel::Grouped => Some(Kernel::Gemm),
            Kernel::UnmaskedAttention => Some(Kernel::Attention),
            Kernel::EmbeddingUpdate => Some(Kernel::Embedding),
            _ => None,
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Kernel> {
        Kernel::ALL.into_iter().find(|kernel| kernel.name() == name)
    }
}

/// The rank at the other end of a message.
///
/// For [`ProgramBuilder`](crate::ProgramBuilder) it is an offset, its number minus that of the own
/// rank. In a finished program it is a *port*, an index into [`Program::peers`](crate::Program::peers):
/// programs that do the same with other ranks then have the same nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub(crate) i32);

impl From<i32> for Peer {
    /// The rank at an offset, for a builder.
    fn from(offset: i32) -> Peer {
        Peer(offset)
    }
}

impl Peer {
    /// The offset, while no program has the operation.
    pub fn unnumbered(self) -> i32 {
        self.0
    }

    /// The port, in a finished program.
    #[inline]
    pub fn port(self) -> u32 {
        self.0 as u32
    }
}

/// How far an access to memory goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// The NPU's own memory.
    Local,
    /// Memory outside the NPU.
    #[default]
    Remote,
    /// Memory outside the NPU, the shards of a group of NPUs being gathered in its switches on a
    /// load, reduced and scattered on a store.
    InSwitch,
    /// The memory of the NPU's host, whatever lies behind it.
    Host,
    /// A disk behind the host's memory.
    Disk,
}

impl Reach {
    /// Every one, in a fixed order.
    pub const ALL: [Reach; 5] =
        [Reach::Local, Reach::Remote, Reach::InSwitch, Reach::Host, Reach::Disk];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Reach::Local => "local",
            Reach::Remote => "remote",
            Reach::InSwitch => "in_switch",
            Reach::Host => "host",
            Reach::Disk => "disk",
        }
    }

    /// The reach of that name.
    pub fn from_name(name: &str) -> Option<Reach> {
        Reach::ALL.into_iter().find(|reach| reach.name() == name)
    }
}

/// The shape of a matrix multiplication: `batch` times (`m` x `k`) * (`k` x `n`), elements of
/// `width` bytes, or of 4 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Gemm {
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Bytes an element; 0 for 4 bits.
    pub width: u8,
}

impl Gemm {
    /// Floating-point operations, a multiplication and an addition for each term; saturating.
    pub fn operations(&self) -> u128 {
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k].map(u128::from);
        (batch * m * n * k).saturating_mul(2)
    }

    /// Bytes of both inputs and the output, each counted once; saturating.
    pub fn bytes(&self) -> Bytes {
        let [m, n, k] = [self.m, self.n, self.k].map(u128::from);
        let elements = u128::from(self.batch) * (m * k + k * n + m * n);
        let bytes = match self.width {
            0 => elements.div_ceil(2),
            width => elements.saturating_mul(u128::from(width)),
        };
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// Rows of embedding tables that one kernel reads, or reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lookup {
    /// Floating-point operations.
    pub operations: u64,
    /// Bytes read and written, those of the rows among them.
    pub bytes: Bytes,
    /// Rows read, and rows written.
    pub rows: u64,
    /// Whether rows are updated, with the gradients for them; otherwise they are only read.
    pub update: bool,
}

impl Lookup {
    /// The kind of kernel.
    pub const fn kernel(&self) -> Kernel {
        if self.update { Kernel::EmbeddingUpdate } else { Kernel::Embedding }
    }
}

/// Operation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Bookkeeping; takes no time.
    Metadata,
    /// A node whose type the trace leaves invalid; takes no time.
    Invalid,
    /// Computation: `operations` floating-point operations over `bytes` of tensors (for the
    /// roofline), on the host when `cpu`.
    Compute {
        /// Floating-point operations; `None` when the trace does not say.
        operations: Option<u64>,
        /// Bytes read and written; `None` when the trace does not say.
        bytes: Option<Bytes>,
        /// Runs on the host and occupies no NPU compute.
        cpu: bool,
        /// Kind of the kernel.
        kernel: Kernel,
    },
    /// Matrix multiplication on the NPU: `batch` times (`m` x `k`) * (`k` x `n`).
    Gemm(Gemm),
    /// The same as one matrix for each of `batch` groups of rows, as experts have.
    Grouped(Gemm),
    /// Lookups in embedding tables on the NPU, or updates of them.
    Lookup(Lookup),
    /// A load from (or store to) memory.
    Memory {
        /// True for a store.
        store: bool,
        /// Tensor size; in-switch that of the shard of one NPU.
        bytes: Bytes,
        /// Where the tensor is.
        reach: Reach,
        /// Number of the tensor in the program: accesses with one number are to one tensor. 0 where
        /// it is not known.
        tensor: u32,
        /// In-switch the slot of the group whose shards are gathered; none for all NPUs.
        slot: Option<u32>,
    },
    /// Point-to-point send.
    Send {
        /// Destination.
        peer: Peer,
        /// Message size.
        bytes: Bytes,
        /// Matching tag.
        tag: u32,
    },
    /// Point-to-point receive.
    Recv {
        /// Source.
        peer: Peer,
        /// Message size.
        bytes: Bytes,
        /// Matching tag.
        tag: u32,
    },
    /// A collective over the group in slot `slot` of the rank's group table.
    ///
    /// `bytes` per NPU: the input buffer of all-reduce, reduce-scatter, all-to-all, reduce,
    /// broadcast and scatter (at the root); the contribution of one NPU for all-gather and gather;
    /// 0 for barrier.
    Collective {
        /// Kind.
        kind: CollectiveKind,
        /// Size, see above.
        bytes: Bytes,
        /// Index into the rank's group table.
        slot: u32,
        /// Larger is more urgent (policy EXPLICIT).
        priority: i32,
        /// Bit d set: dimension d takes part. All bits set where the trace does not say.
        dims: u32,
        /// Position of the root in the group, for rooted kinds.
        root: u32,
    },
}

impl Op {
    /// The slot of the group that the operation is for, if it has one.
    pub const fn slot(&self) -> Option<u32> {
        match *self {
            Op::Collective { slot, .. } => Some(slot),
            Op::Memory { slot, .. } => slot,
            _ => None,
        }
    }

    /// Floating-point operations and bytes of a computation on the NPU, where both are known.
    pub fn work(&self) -> Option<(u128, Bytes)> {
        match self {
            Op::Compute {
                operations: Some(operations), bytes: Some(bytes), cpu: false, ..
            } => Some((u128::from(*operations), *bytes)),
            Op::Gemm(gemm) | Op::Grouped(gemm) => Some((gemm.operations(), gemm.bytes())),
            Op::Lookup(lookup) => Some((u128::from(lookup.operations), lookup.bytes)),
            _ => None,
        }
    }
}

/// One operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The id in the file, unique in the program.
    pub id: u64,
    /// Recorded duration, zero when none was recorded.
    pub duration: Span,
    /// Operation of the node.
    pub op: Op,
}
