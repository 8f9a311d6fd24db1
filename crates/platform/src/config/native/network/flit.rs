//! `network.flit`: the flit backend.

use crate::config::declared::section;
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
        /// Bytes of a packet, whole flits.
        pub packet: Option<Bytes>, default None, says "the flits of 4 KiB";
        /// Virtual channels of each link and class. Each holds one packet at a time. In rings there
        /// are two classes.
        pub virtual_channels: Option<u32>, default None, says "what fills the longest link";
        /// Flits that a virtual channel of a router holds.
        pub buffer: Option<u32>, default None, says "those of a packet";
        /// Cycles of a router from the arrival of a flit to its departure.
        pub router_latency: u32, default 1;
    }
}

impl Default for Flit {
    fn default() -> Flit {
        crate::config::declared::absent()
    }
}
