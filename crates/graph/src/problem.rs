//! Words of problems: the place of a node, and how many more there are.

use crate::op::Node;

/// `rank 3 node 17`.
pub fn node_place(rank: u32, node: &Node) -> String {
    format!("rank {rank} node {}", node.id)
}

/// "; the same for 7 more calls".
pub fn and_more(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    if count == 0 { String::new() } else { format!("; the same for {count} more {noun}{plural}") }
}
