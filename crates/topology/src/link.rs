//! One link, one hop of a route, and why a fabric has no links.

use units::{Bandwidth, Span};

/// A one-way link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Node it leaves.
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Bandwidth.
    pub bandwidth: Bandwidth,
    /// Latency.
    pub latency: Span,
    /// Dimension it belongs to; 0 in an explicit graph.
    pub dim: u32,
}

/// One link of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Link id.
    pub link: u32,
    /// Node at its end.
    pub to: u32,
    /// Dimension it belongs to; 0 in an explicit graph.
    pub dim: u32,
}

/// Why a fabric has no links.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Ids no longer fit 32 bits.
    #[error("the network has more than 4,294,967,295 nodes or links")]
    TooLarge,
    /// A link of an explicit graph whose ends are equal or not there.
    #[error("link {link} starts or ends at a node that does not exist, or at the same node")]
    BadEnds {
        /// Index of the link.
        link: usize,
    },
    /// An NPU that another cannot reach.
    #[error("no route from NPU {from} to NPU {to}")]
    Unreachable {
        /// Source.
        from: u32,
        /// Destination.
        to: u32,
    },
}

/// The name of a lane: a card, and by how much the choices behind it are turned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaneId {
    /// Number of the card; 0 is that of a message on one route.
    pub card: u16,
    /// Turns.
    pub turn: u16,
    /// Cards are equally near, whatever their latency.
    pub over_cards: bool,
}

impl LaneId {
    /// A number that names the lane to others; 0 for the route of a message that does not spread.
    pub fn number(self) -> u32 {
        let number = u32::from(self.card) << 16 | u32::from(self.turn);
        if self.over_cards { number + 1 } else { 0 }
    }
}
