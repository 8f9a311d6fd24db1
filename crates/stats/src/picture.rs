//! The network as pages draw it: small enough to look at, with the load of its links.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A graph made small enough to draw. Alike nodes in the middle of a long row share a cell.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Picture {
    /// How the cells lie: `tiers`, `grid`, `groups` or `circle`.
    pub layout: String,
    /// Cells that are drawn for its nodes, by tier and place.
    pub cells: Vec<PictureCell>,
    /// Cables that are drawn for its links.
    pub cables: Vec<PictureCable>,
    /// Links of the network by kind.
    pub sorts: Vec<PictureSort>,
}

/// The links of a kind.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PictureSort {
    /// The word for the kind, or the rows that its links join: `NPU - tier 1`.
    pub name: String,
    /// One-way links.
    pub links: u64,
    /// Bandwidth of the slowest link, GB/s (1e9).
    pub slowest_gb_per_s: f64,
    /// Bandwidth of the fastest link, GB/s (1e9).
    pub fastest_gb_per_s: f64,
    /// Latency of the nearest link.
    pub least_latency_ns: f64,
    /// Latency of the farthest link.
    pub most_latency_ns: f64,
}

/// One or more nodes that are drawn as one.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PictureCell {
    /// Name of the first node.
    pub name: String,
    /// Name of the last node.
    pub last: String,
    /// Number of nodes.
    pub count: u64,
    /// Row from the NPUs (0) outwards.
    pub tier: u32,
    /// Nodes that have failed.
    pub failed: u64,
    /// Place of the cell: with `tiers` the path of its group from the outermost inwards, else
    /// coordinates, innermost first.
    pub at: Vec<u32>,
}

/// The links between two cells, or inside one.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PictureCable {
    /// One cell, by its place in `cells`.
    pub a: u32,
    /// The other cell, or the same.
    pub b: u32,
    /// One-way links, with those that have failed.
    pub links: u64,
    /// One-way links that have failed.
    pub failed: u64,
    /// Bandwidth of the slowest link, GB/s (1e9).
    pub slowest_gb_per_s: f64,
    /// Bandwidth of the fastest link, GB/s (1e9).
    pub fastest_gb_per_s: f64,
    /// Latency of the nearest link.
    pub least_latency_ns: f64,
    /// Latency of the farthest link.
    pub most_latency_ns: f64,
    /// Time that the busiest link was sending. Null for a backend without links.
    pub busy_ns: Option<f64>,
    /// Bytes that the link with the most carried. Null likewise.
    pub bytes: Option<u64>,
    /// Percent of each bin of `network` in which the busiest link was sending, two hexadecimal
    /// digits each. Null likewise, and without detail.
    pub sends: Option<String>,
}
