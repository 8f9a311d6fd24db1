//! Every node and cable of a network, for those who draw it with a program of their own.

use crate::names;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use topology::{Fabric, LinkGraph};

/// Ends (the lower node first), bytes per second, picoseconds, and the place of the kind.
type Cable = (u32, u32, u64, u64, u32);

/// `nodes`, each a name and a tier (0 for NPUs), and `cables`, each with `ends` (nodes), links in
/// both directions (`forth`, from the first end, and `back`), `bandwidth` and `latency_ps` of a link,
/// and `kind`. Nothing for a network with more than `most` one-way links.
pub fn wiring_json(fabric: &Fabric, most: u32) -> Option<String> {
    let links = LinkGraph::new(fabric).ok().filter(|links| links.len() <= most)?;
    let mut tiers: Vec<u32> = vec![0; links.nodes() as usize];
    let mut cables: BTreeMap<Cable, (u64, u64)> = BTreeMap::new();
    for id in 0..links.len() {
        let link = links.link(id);
        for node in [link.from, link.to].into_iter().filter(|&node| node >= links.npus()) {
            tiers[node as usize] = link.dim + 1;
        }
        let sort = links.kind(fabric, id);
        let (a, b) = (link.from.min(link.to), link.from.max(link.to));
        let both = cables.entry((a, b, link.bandwidth.0, link.latency.0, sort)).or_default();
        *(if link.from == a { &mut both.0 } else { &mut both.1 }) += 1;
    }
    if let Fabric::Graph(graph) = fabric {
        tiers = graph.nodes.iter().map(|node| node.tier).collect();
    }
    let node = |(node, tier): (u32, &u32)| json!([names::node(fabric, node), tier]);
    let nodes: Vec<Value> = (0..).zip(&tiers).map(node).collect();
    let cable = |(&(a, b, bandwidth, latency, sort), &(forth, back)): (&Cable, &(u64, u64))| {
        json!({
            "ends": [a, b],
            "forth": forth,
            "back": back,
            "bandwidth": bandwidth,
            "latency_ps": latency,
            "kind": kind(fabric, sort),
        })
    };
    let cables: Vec<Value> = cables.iter().map(cable).collect();
    Some(json!({"nodes": nodes, "cables": cables}).to_string())
}

/// The word for a kind of links: on stacks the dimension, on graphs nothing where all are alike.
fn kind(fabric: &Fabric, sort: u32) -> String {
    match fabric {
        Fabric::Stacked(_) => format!("dimension {}", sort + 1),
        Fabric::Graph(graph) => graph.kinds.get(sort as usize).cloned().unwrap_or_default(),
    }
}
