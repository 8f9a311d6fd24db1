//! `network.flit`: the flit backend. How packets are routed is in `routing.rs`, the stages of the
//! textbook's router in `pipeline.rs`.

mod pipeline;
mod routing;

pub use pipeline::{Allocator, Pipeline};
pub use routing::FlitRouting;

use crate::entries::misfit;
use declared::findings::{At, Findings};
use declared::{ByDim, Misfit, Setting, Words, counts, section, suited, words};
use topology::Fabric;
use units::{Bytes, Span};

section! {
    /// Settings of the flit backend.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Flit {
        /// Length of a router's cycle. 1 ns is a clock of 1 GHz.
        pub cycle: Span, default Span::from_ns(1);
        /// Bytes of a flit. A link sends at most one in a cycle.
        pub flit: Option<Bytes>, default None,
            says "what the fastest link carries in a cycle, in steps of 16 B";
        /// Bytes of a packet, whole flits. A list has a size for each dimension, or for each kind of
        /// link of a generated fabric. A message has that of the outermost link on its way.
        pub packet: ByDim<Option<Bytes>>, default ByDim::All(None), says "the flits of 4 KiB";
        /// The microarchitecture of routers ([both](../models/networks-flit.md#routers)).
        pub router: FlitRouter, default FlitRouter::Garnet;
        /// Virtual channels of each link and class. With `garnet` each holds one packet at a time.
        pub virtual_channels: Option<u32>, default None,
            says "what fills the longest link; 4 with `input_queued`";
        /// Flits that a virtual channel of a router holds.
        pub buffer: Option<u32>, default None,
            says "those of a packet; with `input_queued` what fills the longest link";
        /// Cycles of a router from the arrival of a flit to its departure.
        pub router_latency: u32, default 1, with [FlitRouter::Garnet];
        /// Stages and allocators of a router.
        pub pipeline: Option<Pipeline>, default None, says "its defaults",
            with [FlitRouter::InputQueued];
        /// How packets are routed ([ways](../models/networks-flit.md#routing)).
        pub routing: FlitRouting, default FlitRouting::Topology;
        /// Most classes of virtual channels against lock-up that deterministic routes may use.
        /// `valiant` has them twice, `adaptive` has one more.
        pub classes: Option<u32> as classes, default None, says "what the proof needs";
        /// Whether packets that come by the same link and leave by the same one keep their order, as
        /// in Garnet's ordered virtual networks.
        pub ordered: bool, default false;
        /// Treatment of a network that could lock up: `refuse` it before the run, or `allow` it and
        /// report the lock-up if there is one.
        pub deadlock: Deadlock, default Deadlock::Refuse;
        /// Threads that simulate the network. The result does not depend on their number.
        pub threads: Option<u32> as threads, default None, says "one for 2,048 routers, at most one for each core";
        /// `cut_through`: a channel has room for a whole packet, so that packets that wait leave the
        /// links before them free (virtual cut-through: Kermani and Kleinrock, Computer Networks 3,
        /// 1979). `wormhole`: it need not.
        pub switching: FlitSwitching, default FlitSwitching::Wormhole;
    }
}

counts! {
    /// Classes of virtual channels.
    classes: 1 to 16;
    threads: 1 to 64;
}

/// The microarchitecture of routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlitRouter {
    /// Garnet's.
    Garnet,
    /// The textbook's.
    InputQueued,
}

words!(
    FlitRouter:
    "garnet" = FlitRouter::Garnet,
    "input_queued" = FlitRouter::InputQueued,
);

/// Treatment of a network that could lock up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadlock {
    /// It is refused before the run.
    Refuse,
    /// It runs. A lock-up is reported.
    Allow,
}

/// Whether buffers hold whole packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlitSwitching {
    /// They need not.
    Wormhole,
    /// They do.
    CutThrough,
}

words!(Deadlock: "refuse" = Deadlock::Refuse, "allow" = Deadlock::Allow);
words!(
    FlitSwitching:
    "wormhole" = FlitSwitching::Wormhole,
    "cut_through" = FlitSwitching::CutThrough,
);

/// Warns of keys that the router does not read, and of what may lock up.
pub fn check(flit: &Flit, fabric: &Fabric, at: &At<'_>, findings: &mut Findings) {
    if let (Some((message, allowed)), Some(at)) = (flit.misfit(fabric), at.get(Flit::packet)) {
        findings.refuse(&at, message, allowed);
    }
    let (keys, word) = (Flit::keys(), flit.router.word());
    suited(at, keys, Flit::router, word, Misfit::Warn, findings);
    if flit.deadlock == Deadlock::Allow {
        let text =
            "network.flit.deadlock: allow: the network may lock up; a run that does ends there";
        findings.warnings.push(text.into());
    }
}

impl Flit {
    /// Fault of the list of packets for a fabric, and what is allowed.
    pub fn misfit(&self, fabric: &Fabric) -> Option<(String, String)> {
        self.packet.entries().and_then(|entries| misfit(entries, fabric))
    }
}

impl Default for Flit {
    fn default() -> Flit {
        declared::absent()
    }
}
