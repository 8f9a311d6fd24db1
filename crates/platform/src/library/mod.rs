//! The parameters of a real communication library (NCCL, RCCL).
//!
//! Here: the data, and `change.rs`, which sets parameters by name. Not here: what a library makes
//! of a collective and how long that takes (crate `lowering`), reading the parameters
//! (`config/native/library.rs`).

mod change;

use graph::CollectiveKind;
use units::{Bandwidth, Bytes, Ratio, Span};

/// Which library; a name only, the parameters make the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// NVIDIA's.
    Nccl,
    /// AMD's.
    Rccl,
}

/// How the members of a collective talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// 4 bytes of data with 4 of flag: the lowest latency, at most half the bandwidth.
    Ll,
    /// 120 bytes of data with 8 of flag.
    Ll128,
    /// Whole buffers, announced by memory fences: the highest latency, all the bandwidth.
    Simple,
}

impl Protocol {
    /// Every protocol, in the order of [`Inside::step`].
    pub const ALL: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];

    /// Bytes on the wire for `bytes` of data: LL adds 4 of flag to every 4, LL128 8 to every 120.
    pub fn wire(self, bytes: u64) -> u64 {
        match self {
            Protocol::Ll => bytes.saturating_mul(2),
            Protocol::Ll128 => bytes.div_ceil(120).saturating_mul(8).saturating_add(bytes),
            Protocol::Simple => bytes,
        }
    }

    /// As NCCL writes it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Ll => "LL",
            Protocol::Ll128 => "LL128",
            Protocol::Simple => "Simple",
        }
    }
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Rings through all members, as many as links and network cards allow.
    Ring,
    /// A chain in each node, two binary trees between nodes.
    Tree,
    /// Reduction and multicast in the switch of a node (NVLink SHARP).
    Nvls,
    /// The same in the node, trees between nodes.
    NvlsTree,
    /// Every pair on its own.
    Pairwise,
    /// The same, but what goes to another node is handed to the GPU on the receiver's rail, whose
    /// card sends several messages as one.
    Pxn,
}

impl Algorithm {
    /// As NCCL writes it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "Ring",
            Algorithm::Tree => "Tree",
            Algorithm::Nvls => "NVLS",
            Algorithm::NvlsTree => "NVLSTree",
            Algorithm::Pairwise => "Pairwise",
            Algorithm::Pxn => "PXN",
        }
    }
}

/// A library on a platform: dimension 1 is the node, dimension 2 the network between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Library {
    /// Which.
    pub name: Name,
    /// A call: launch, kernel, first flags.
    pub start: Span,
    /// A send with its receive: kernel and first flags; the launch goes on before, beside other
    /// work.
    pub send: Span,
    /// The host issues no two calls closer than this.
    pub gap: Span,
    /// Within a node.
    pub node: Inside,
    /// Between nodes; absent on one dimension.
    pub network: Option<Between>,
    /// Reduction in the switch, where there is one that reduces.
    pub nvls: Option<Nvls>,
    /// What measurements add; at most one of a collective and number of members.
    pub corrections: Vec<Correction>,
}

/// Within a node. Times by protocol are LL, LL128, Simple; shares LL, LL128.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inside {
    /// Part of the link bandwidth that rings reach with protocol Simple.
    pub efficiency: Ratio,
    /// What a ring loses while it fills: its bandwidth is divided by `1 + fill / (2 n - 2)`.
    pub fill: Option<Ratio>,
    /// One step.
    pub step: [Span; 3],
    /// What Simple adds to a call: its first whole buffer.
    pub simple_start: Span,
    /// Part of that bandwidth that the other protocols reach.
    pub share: [Ratio; 2],
    /// Part of it that trees reach.
    pub tree: Ratio,
    /// A pair of an all-to-all.
    pub pair: Span,
    /// Part of the link bandwidth that an all-to-all reaches.
    pub pairs: Ratio,
    /// The path through the host, where direct links make no ring; one way, of a GPU.
    pub host: Option<Bandwidth>,
}

/// Between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Between {
    /// Part of the network's bandwidth that collectives reach with protocol Simple.
    pub efficiency: Ratio,
    /// One step of a ring.
    pub step: [Span; 3],
    /// One level of a tree.
    pub level: [Span; 3],
    /// Part of that bandwidth that the other protocols reach.
    pub share: [Ratio; 2],
    /// Part of it that trees over more than two nodes reach.
    pub tree: Ratio,
    /// Part of it that a tree over two nodes reaches, which moves half as much.
    pub tree_of_two: Ratio,
    /// A pair of an all-to-all.
    pub pair: Span,
    /// Part of the network's bandwidth that an all-to-all reaches.
    pub pairs: Ratio,
    /// Part of that which messages between different rails reach; all of it without.
    pub crossing: Option<Ratio>,
    /// PXN, and how many messages it sends as one.
    pub pxn: Option<u32>,
    /// What a single message reaches at most: its channels.
    pub single: Option<Bandwidth>,
    /// Messages that the network card sends another, slower way.
    pub short: Option<Short>,
}

/// Messages so short that the card takes them from the processor instead of from memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Short {
    /// The longest of them.
    pub most: Bytes,
    /// What each adds to a pair of an all-to-all.
    pub pair: Span,
}

/// Reduction in a node's switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nvls {
    /// Part of the link bandwidth it reaches; an NPU moves `1 + 1/n` buffers each way.
    pub efficiency: Ratio,
    /// What it adds to a call.
    pub latency: Span,
    /// Grows with the square root of the size; this much at 1 MiB.
    pub ramp: Span,
    /// Fewest members in a node that use it.
    pub least: u32,
}

/// Factors of a collective over `inside` members in each of `between` nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Correction {
    /// Which collective.
    pub kind: CollectiveKind,
    /// Members in a node.
    pub inside: u32,
    /// Nodes.
    pub between: u32,
    /// Size (the larger of a member's two buffers) and factor, by ascending size; not empty.
    pub points: Vec<(Bytes, Ratio)>,
}
