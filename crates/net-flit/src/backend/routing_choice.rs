//! How packets are routed, and why a network cannot carry them so.

use crate::refused::Refused;
use net_settings::flit::FlitRouting;
use std::sync::Arc;

/// How packets are routed.
pub type RoutingChoice = FlitRouting<Arc<Table>>;

/// The next link at each node for each NPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    npus: u32,
    /// Node by node; `u32::MAX` where there is none.
    next: Vec<u32>,
}

impl Table {
    /// A table without links.
    pub fn new(nodes: u32, npus: u32) -> Table {
        Table { npus, next: vec![u32::MAX; nodes as usize * npus as usize] }
    }

    /// Messages for NPU `dst` leave `node` by this link.
    pub fn set(&mut self, node: u32, dst: u32, link: u32) {
        let at = self.at(node, dst);
        self.next[at] = link;
    }

    /// The link by which messages for NPU `dst` leave a node, if there is one.
    pub fn next(&self, node: u32, dst: u32) -> Option<u32> {
        Some(self.next[self.at(node, dst)]).filter(|&link| link != u32::MAX)
    }

    fn at(&self, node: u32, dst: u32) -> usize {
        node as usize * self.npus as usize + dst as usize
    }
}

/// A virtual channel class of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// Link, as the topology numbers links.
    pub link: u32,
    /// Class.
    pub class: u16,
}

/// Why a network cannot carry packets with a routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Channels depend on one another, each on the next and the last on the first.
    Circle(Vec<Hop>),
    /// Messages to an NPU cannot leave a node.
    NoWay {
        /// The node.
        at: u32,
        /// The NPU.
        to: u32,
    },
    /// Messages to an NPU come back to the node where they were.
    Loop {
        /// The NPU.
        to: u32,
        /// The nodes on the way round.
        nodes: Vec<u32>,
    },
    /// The router cannot have a setting.
    Setting(Refused),
}
