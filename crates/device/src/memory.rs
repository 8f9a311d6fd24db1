//! Memory outside the NPU: a latency and a bandwidth, private to an NPU, shared by a node, or one pool for the machine.
//!
//! Model: `latency + bytes / bandwidth`; a shared memory serves one transfer at a time, first come first served.

use units::{Bandwidth, Span};

/// Where the memory sits and who shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each NPU has its own.
    PerNpu,
    /// `npus` consecutive ranks share one and take turns.
    PerNode {
        /// Ranks a node.
        npus: u32,
    },
    /// The whole machine shares one and takes turns.
    Pool,
}

/// Remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct RemoteMemory {
    /// Who shares it.
    pub sharing: Sharing,
    /// Fixed part of an access.
    pub latency: Span,
    /// Bytes per second.
    pub bandwidth: Bandwidth,
}
