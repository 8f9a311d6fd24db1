//! A platform as a native file that reads back to the same platform, and as JSON for the report.

use super::collectives::words_of;
use super::network::Network;
use super::{compute, generated, reader};
use crate::platform::Platform;
use declared::{Setting, Shown, Words, document};
use graph::CollectiveKind;
use serde_json::{Value, json};
use topology::{Fabric, GraphFabric, GraphLink};

/// The platform as YAML with units. A native platform reads back as it was; one from ASTRA-sim's
/// files is shown with its integers and loses what only that profile knows.
pub fn to_yaml(platform: &Platform) -> String {
    document(&shown(platform))
}

/// The platform as a file, before it is written.
pub(super) fn shown(platform: &Platform) -> Shown {
    reader::keys(platform).show().unwrap_or(Shown::Map(Vec::new()))
}

/// The resolved platform: every choice, integers with their unit in the key. Rates in bytes
/// (operations) per second.
pub fn to_json(platform: &Platform) -> Value {
    let mut shown = settings(platform);
    if platform.network != Network::default() {
        shown["network"] = platform.network.json();
    }
    shown
}

fn settings(platform: &Platform) -> Value {
    let choice = |kind: CollectiveKind| {
        let choice = platform.collectives.choices[kind as usize].as_ref();
        json!({
            "algorithms": choice.map(words_of),
            "flat": choice.is_some_and(|c| c.flat),
            "custom": platform.custom_paths.kinds[kind as usize],
        })
    };
    let collectives: serde_json::Map<String, Value> = CollectiveKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_string(), choice(kind)))
        .collect();
    json!({
        "name": platform.name,
        "source": platform.source,
        "measured": platform.measured.said(),
        "profile": platform.profile.name(),
        "npus": platform.fabric.npus(),
        "fabric": fabric(&platform.fabric),
        "logical": platform.logical,
        "npu": {
            "name": platform.npu.name,
            "compute": platform.npu.compute.name(),
            "compute_settings": compute::json(&platform.npu),
            "peak_flops": platform.npu.peak.map(|p| p.0),
            "launch": platform.npu.launch.json(),
            "memory_bandwidth": platform.npu.memory_bandwidth.map(|b| b.0),
            "memory_latency_ps": platform.npu.memory_latency.0,
            "memory_capacity_bytes": platform.npu.memory_capacity.map(|c| c.0),
            "memory_on_overflow": platform.npu.memory_on_overflow.json(),
            "memory_contention": platform.npu.memory_contention,
        },
        "remote_memory": platform.remote_memory,
        "hierarchy": platform.collectives.hierarchy.word(),
        "rings": platform.collectives.rings.word(),
        "collectives": collectives,
        "library": platform.library.json(),
        "custom_by_node": platform.custom_paths.nodes,
        "scheduler": platform.scheduler.json(),
    })
}

fn fabric(fabric: &Fabric) -> Value {
    match fabric {
        Fabric::Stacked(dims) => {
            let dim = |d: &topology::Dim| {
                let mut shown = json!({"block": d.block, "size": d.size, "link_bandwidth": d.bandwidth.0, "link_latency_ps": d.latency.0});
                if d.parallel > 1 {
                    shown["links_side_by_side"] = json!(d.parallel);
                }
                shown
            };
            json!({"topology": fabric.topology().map(|t| t.to_string()), "dims": dims.iter().map(dim).collect::<Vec<_>>()})
        }
        Fabric::Graph(graph) => match &graph.recipe {
            Some(recipe) => {
                let mut shown = generated::json(graph, recipe);
                if graph.nodes.len() <= DRAWN
                    && let (Value::Object(shown), Value::Object(more)) =
                        (&mut shown, graph_json(graph))
                {
                    shown.extend(more);
                }
                shown
            }
            None => graph_json(graph),
        },
    }
}

/// Nodes of a generated fabric up to which all are listed, so that they can be drawn.
const DRAWN: usize = 64;

/// An explicit graph; attributes only where there are some.
fn graph_json(graph: &GraphFabric) -> Value {
    let link = |l: &GraphLink| {
        let mut shown = json!({
            "from": l.from,
            "to": l.to,
            "bandwidth": l.bandwidth.0,
            "latency_ps": l.latency.0,
        });
        if let Some(kind) = graph.kinds.get(l.kind as usize).filter(|kind| !kind.is_empty()) {
            shown["kind"] = json!(kind);
        }
        shown
    };
    let names: Vec<&str> = graph.nodes.iter().map(|n| n.name.as_str()).collect();
    let mut shown =
        json!({"nodes": names, "links": graph.links.iter().map(link).collect::<Vec<_>>()});
    if graph.recipe.is_some() || graph.nodes.iter().any(|n| n.tier > 1) {
        shown["tiers"] = json!(graph.nodes.iter().map(|n| n.tier).collect::<Vec<_>>());
    }
    if graph.nodes.iter().any(|n| n.radix.is_some()) {
        shown["radixes"] = json!(graph.nodes.iter().map(|n| n.radix).collect::<Vec<_>>());
    }
    shown
}
