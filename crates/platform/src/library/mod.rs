//! The parameters of a real communication library (NCCL, RCCL).
//!
//! Here: the data, each parameter declared once as a key of platform files. Not here: what a
//! library makes of a collective and how long that takes (crate `lowering`), and on which networks
//! a library makes sense (`config/native/library.rs`).

mod correction;

use declared::{Setting, counts, section, words};
use units::{Bandwidth, Bytes, Ratio, Span};

pub use correction::Correction;

/// Which library; a name only, the parameters make the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// NVIDIA's.
    Nccl,
    /// AMD's.
    Rccl,
}

words!(Name: "nccl" = Name::Nccl, "rccl" = Name::Rccl);
words!(Protocol: "ll" = Protocol::Ll, "ll128" = Protocol::Ll128, "simple" = Protocol::Simple);

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
    /// Every protocol, in the order of [`Inside`]'s `step_latency`.
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
    /// Rings through all members; links and network cards limit their number.
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

/// Allowed values for the times of the protocols.
const STEPS: &str = "three times, of LL, LL128 and Simple, such as [0.6 us, 1.9 us, 3.4 us]";
/// Allowed values for the bandwidths of LL and LL128.
const PARTS: &str = "two parts, of LL and LL128, such as [0.25, 0.92]";

section! {
    /// A library on a platform: dimension 1 is the node, dimension 2 the network between nodes.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Library {
        /// The library. It is a name only: its parameters make the difference.
        pub name: Name, required "nccl, rccl";
        /// Time that every collective call adds: launch, kernel and first flags.
        pub call_overhead: Span, required, was ["start"];
        /// Time that a send with its receive adds: kernel and first flags. Its launch overlaps with
        /// earlier work.
        pub p2p_overhead: Span, like call_overhead, was ["send"];
        /// The host issues no two calls closer than this.
        pub min_call_interval: Span, default Span::ZERO, was ["gap"];
        /// Within a node.
        pub node: Inside, required;
        /// Between nodes; required on two dimensions.
        pub network: Option<Between>, default None;
        /// Reduction in the switch of a node (NVLink SHARP).
        pub nvls: Option<Nvls>, default None;
        /// Corrections from measurements, at most one for a collective and number of members.
        pub corrections: Vec<Correction>, default Vec::new();
    }
}

section! {
    /// Within a node. Lists of times are for LL, LL128, Simple; lists of ratios for LL, LL128.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Inside {
        /// Part of the link bandwidth that rings reach with Simple.
        pub efficiency: Ratio, required "a part of the link bandwidth, such as 0.8";
        /// Loss while the first of a collective's steps fills the buffers: the bandwidth is divided
        /// by `1 + ramp_up / steps`.
        pub ramp_up: Option<Ratio>, default None, was ["fill"];
        /// Time of one step, for LL, LL128 and Simple.
        pub step_latency: [Span; 3], required STEPS, was ["step"];
        /// Time that Simple adds to a call: its first whole buffer.
        pub simple_overhead: Span, default Span::ZERO, was ["simple_start"];
        /// Part of that bandwidth that LL and LL128 reach.
        pub ll_efficiency: [Ratio; 2], required PARTS, was ["share"];
        /// Part of that bandwidth that trees reach.
        pub tree_efficiency: Ratio, default Ratio::ONE, was ["tree"];
        /// Time of each 16 peers in an all-to-all, which are served at once.
        pub peer_latency: Span, default Span::ZERO, was ["pair"];
        /// Part of the link bandwidth that an all-to-all reaches.
        pub all_to_all_efficiency: Ratio, default Ratio::ONE, was ["pairs"];
        /// Short messages of an all-to-all within one node, with LL.
        pub ll_peer: Option<LlPeer>, default None;
        /// One-way bandwidth of a GPU through the host, for rings where direct links make none.
        pub host_bandwidth: Option<Bandwidth>, default None, was ["host"];
        /// Rings over several hosts whose GPUs share a switch, such as the trays of a rack.
        pub hosts: Option<Hosts>, default None;
    }
}

section! {
    /// Short messages of an all-to-all within one node, with LL.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct LlPeer {
        /// Time of each 16 peers.
        pub latency: Span, required "a time, such as \"2 us\"";
        /// Part of the link bandwidth that the message to one peer reaches.
        pub efficiency: Ratio, required "a part of the link bandwidth, such as 0.01";
    }
}

section! {
    /// Rings over several hosts whose GPUs share a switch. They replace values of the node.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Hosts {
        /// NPUs of a host.
        pub ranks: u32 as from_two, required "NPUs of a host, such as 4";
        /// Part of the link bandwidth that rings over several hosts reach with Simple.
        pub efficiency: Ratio, required "a part of the link bandwidth, such as 0.6";
        /// Time of one of their steps, for LL, LL128 and Simple.
        pub step_latency: [Span; 3], required STEPS;
    }
}

section! {
    /// Between nodes.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Between {
        /// The protocols that collectives between nodes may use. NCCL offers LL128 only where GPU
        /// and network card share a PCIe switch.
        pub protocols: Vec<Protocol>, default Protocol::ALL.to_vec();
        /// Part of the network's bandwidth that collectives reach with Simple.
        pub efficiency: Ratio, required "a part of the network's bandwidth, such as 0.92";
        /// Time of one step of a ring, for LL, LL128 and Simple.
        pub step_latency: [Span; 3], required STEPS, was ["step"];
        /// Time of one level of a tree, for LL, LL128 and Simple.
        pub tree_level_latency: [Span; 3], like step_latency, was ["level"];
        /// Shortest time between two steps of a ring: what the network takes for a message.
        pub step_interval: Span, default Span::ZERO;
        /// Part of that bandwidth that LL and LL128 reach.
        pub ll_efficiency: [Ratio; 2], required PARTS, was ["share"];
        /// Part of that bandwidth that trees over more than two nodes reach.
        pub tree_efficiency: Ratio, default Ratio::ONE, was ["tree"];
        /// Part of that bandwidth that a tree over two nodes reaches, which moves half as much.
        pub two_node_tree_efficiency: Ratio, default Ratio::ONE, was ["tree_of_two"];
        /// Loss of rings and all-to-alls on many nodes: their bandwidth is divided by `1 +
        /// scale_loss (ceil(log2 N) - 1)`.
        pub scale_loss: Option<Ratio>, default None;
        /// Largest bandwidth of the trees of a node, which have a limited number of channels.
        pub tree_bandwidth_max: Option<Bandwidth>, default None;
        /// Time of each peer in an all-to-all.
        pub peer_latency: Span, default Span::ZERO, was ["pair"];
        /// Part of the network's bandwidth that an all-to-all reaches.
        pub all_to_all_efficiency: Ratio, default Ratio::ONE, was ["pairs"];
        /// Part of the all-to-all bandwidth that messages between different rails reach; without
        /// effect with `pxn`.
        pub cross_rail_efficiency: Option<Ratio>, default None, was ["crossing"];
        /// Use PXN, and send at most this many messages as one.
        pub pxn: Option<u32>, default None;
        /// Largest bandwidth of a single message, which has a few channels only.
        pub p2p_bandwidth_max: Option<Bandwidth>, default None, was ["single"];
        /// Messages so short that the card takes them from the processor instead of from memory.
        pub inline: Option<Inline>, default None, was ["short"];
    }
}

section! {
    /// Messages so short that the card takes them from the processor instead of from memory.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Inline {
        /// Largest message that is sent this way.
        pub threshold: Bytes, required "a message size, such as \"192 B\"", was ["most"];
        /// Time that it adds to each peer of an all-to-all.
        pub peer_latency: Span, required "a time, such as \"12 us\"", was ["pair"];
    }
}

section! {
    /// Reduction in a node's switch.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Nvls {
        /// Part of the link bandwidth that it reaches; an NPU of `n` moves `1 + 1/n` buffers each
        /// way.
        pub efficiency: Ratio, required "a part of the link bandwidth, such as 0.67";
        /// Time that it adds to a call.
        pub latency: Span, required "a time, such as \"60 us\"";
        /// Time that grows with the square root of the size: its value at 1 MiB.
        pub ramp_latency: Span, default Span::ZERO, was ["ramp"];
        /// Fewest members in a node that use it.
        pub min_ranks: u32 as from_two, default 2, was ["least"];
    }
}

counts! {
    /// Counts from 2.
    from_two: 2 to u32::MAX;
}

impl Library {
    /// Sets the parameter `key`, such as `node.step_latency[0]`, to `value`: us, or a part of a
    /// bandwidth.
    ///
    /// # Errors
    /// `key` when the library has no such parameter.
    pub fn change<'k>(&mut self, key: &'k str, value: f64) -> Result<(), &'k str> {
        if Setting::change(self, key, value) { Ok(()) } else { Err(key) }
    }
}
