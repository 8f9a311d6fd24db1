//! A link to memory: private to an NPU, shared by a node, or one for the machine. NPUs of a host
//! with a link each share the capacity of its memory.
//!
//! Model: `latency + bytes / bandwidth`; a shared memory serves one access at a time, first come
//! first served. Source: ASTRA-sim's analytical remote memory (per NPU, per node, pool).

use super::{Access, Pipeline, Sharing, Stage, Store};
use units::{Bandwidth, Bytes, Span};

/// A latency and a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Link {
    /// Who takes turns.
    pub sharing: Sharing,
    /// Fixed part of an access.
    #[serde(rename = "latency_ps")]
    pub latency: Span,
    /// Bytes per second.
    pub bandwidth: Bandwidth,
    /// Consecutive ranks whose tensors lie in one memory, where each has its own link to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub npus_per_node: Option<u32>,
    /// Bytes that one memory holds, if known.
    #[serde(rename = "capacity_bytes", skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
}

/// Memories behind links, each with `capacity`.
pub(super) fn behind(sharing: Sharing, capacity: Option<Bytes>) -> Vec<Store> {
    let capacity = capacity.map(|bytes| bytes.0.into());
    vec![Store { name: "remote memory", of: sharing, capacity }]
}

impl Link {
    pub(super) fn access(&self) -> Access {
        let own = Pipeline::single(Stage::plain("memory to NPU", self.latency, self.bandwidth));
        let of = self.npus_per_node.map_or(self.sharing, |npus| Sharing::PerNode { npus });
        Access::new(self.sharing, own, behind(of, self.capacity))
    }
}
