//! Cost of one message on one link: `latency + bytes / bandwidth`, in exact integers or as the peer
//! computes it.

use units::{Bandwidth, Bytes, Span};

/// Latency and bandwidth of a link, and the arithmetic that makes a span of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkCost {
    /// Integers, rounded up to the picosecond.
    Exact {
        /// Bytes per second.
        bandwidth: Bandwidth,
        /// Latency.
        latency: Span,
    },
    /// Double precision, cut to whole nanoseconds once per span (ASTRA-sim).
    Nanoseconds {
        /// Bytes per nanosecond.
        bandwidth: f64,
        /// Nanoseconds.
        latency: f64,
    },
}

impl LinkCost {
    /// `hops * latency + bytes / bandwidth`, rounded once.
    pub fn transit(&self, hops: u32, bytes: u64) -> Span {
        match *self {
            LinkCost::Exact { bandwidth, latency } => {
                latency * u64::from(hops) + bandwidth.span(Bytes(bytes))
            }
            LinkCost::Nanoseconds { bandwidth, latency } => {
                whole(f64::from(hops) * latency + bytes as f64 / bandwidth)
            }
        }
    }

    /// `bytes / bandwidth`: how long the link is busy.
    pub fn occupancy(&self, bytes: u64) -> Span {
        match *self {
            LinkCost::Exact { bandwidth, .. } => bandwidth.span(Bytes(bytes)),
            LinkCost::Nanoseconds { bandwidth, .. } => whole(bytes as f64 / bandwidth),
        }
    }
}

fn whole(ns: f64) -> Span {
    Span::from_ns(ns as u64)
}
