//! A platform as a native file that reads back to the same platform, and as JSON for the report.

use super::collectives::{HIERARCHIES, word};
use super::generated;
use super::{compute, launch, memory};
use crate::config::declared::{Setting, entry};
use crate::platform::{Choice, Platform};
use graph::CollectiveKind;
use serde_json::{Value, json};
use std::fmt::Write;
use topology::{Fabric, GraphFabric, GraphLink, GraphNode, Routing};

/// The platform as YAML with units. A native platform reads back as it was; one from ASTRA-sim's
/// files is shown with its integers and loses what only that profile knows.
pub fn to_yaml(platform: &Platform) -> String {
    let mut out = format!("name: {}\n", quoted(&platform.name));
    if !platform.source.is_empty() {
        let _ = writeln!(out, "source: {}", quoted(&platform.source));
    }
    match &platform.fabric {
        Fabric::Stacked(dims) => {
            let shape = platform.fabric.topology().map(|t| t.to_string()).unwrap_or_default();
            let _ = writeln!(out, "topology: {shape}\nlinks:");
            for dim in dims {
                let _ = writeln!(
                    out,
                    "  - {{bandwidth: {}, per: link, latency: {}}}",
                    dim.bandwidth, dim.latency
                );
            }
        }
        Fabric::Graph(graph) => match &graph.recipe {
            Some(recipe) => generated::show(recipe, &mut out),
            None => show_graph(graph, &mut out),
        },
    }
    if platform.routing != Routing::default() {
        let _ = writeln!(out, "network: {{routing: {}}}", platform.routing);
    }
    if let Some(sizes) = &platform.logical {
        let _ = writeln!(out, "logical: {sizes:?}");
    }
    show_npu(platform, &mut out);
    show_collectives(platform, &mut out);
    let sections = [("library", platform.library.show()), ("scheduler", platform.scheduler.show())];
    for (key, shown) in sections {
        if let Some(shown) = shown {
            entry(key, &shown, 0, &mut out);
        }
    }
    out
}

/// A double-quoted text as JSON writes it, with what YAML counts as unprintable escaped as well.
fn quoted(text: &str) -> String {
    let unprintable = |c: char| {
        c.is_control()
            || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}')
    };
    let escape =
        |c: char| if unprintable(c) { format!("\\u{:04x}", c as u32) } else { c.to_string() };
    Value::from(text).to_string().chars().map(escape).collect()
}

fn show_graph(graph: &GraphFabric, out: &mut String) {
    let (npus, switches) = graph.nodes.split_at(graph.npus as usize);
    let list = |nodes: &[GraphNode]| nodes.iter().map(node).collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        out,
        "graph:\n  npus: [{}]\n  switches: [{}]\n  links:",
        list(npus),
        list(switches)
    );
    if graph.links.is_empty() {
        out.truncate(out.len() - 1);
        out.push_str(" []\n");
    }
    let mut links = graph.links.iter().peekable();
    while let Some(link) = links.next() {
        let (from, to) = (
            quoted(&graph.nodes[link.from as usize].name),
            quoted(&graph.nodes[link.to as usize].name),
        );
        let back = |next: &&GraphLink| {
            **next == GraphLink { from: link.to, to: link.from, ..link.clone() }
        };
        let ends = if links.next_if(back).is_some() {
            format!("between: [{from}, {to}]")
        } else {
            format!("from: {from}, to: {to}")
        };
        let kind = match graph.kinds.get(link.kind as usize).filter(|kind| !kind.is_empty()) {
            Some(kind) => format!(", kind: {}", quoted(kind)),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "    - {{{ends}, bandwidth: {}, latency: {}{kind}}}",
            link.bandwidth, link.latency
        );
    }
}

/// A node by its name, or with what else is known of it.
fn node(node: &GraphNode) -> String {
    let name = quoted(&node.name);
    match (node.tier, node.radix) {
        (0 | 1, None) => name,
        (tier, None) => format!("{{name: {name}, tier: {tier}}}"),
        (tier, Some(radix)) => format!("{{name: {name}, tier: {tier}, radix: {radix}}}"),
    }
}

fn show_npu(platform: &Platform, out: &mut String) {
    let npu = &platform.npu;
    let _ = writeln!(out, "npu:\n  name: {}", quoted(&npu.name));
    compute::show(npu, quoted, out);
    if let Some(peak) = npu.peak {
        let _ = writeln!(out, "  peak: {peak}");
    }
    if let Some(shown) = launch::show(npu.launch) {
        entry("launch", &shown, 2, out);
    }
    memory::show(platform, out);
}

fn show_collectives(platform: &Platform, out: &mut String) {
    let _ = writeln!(out, "collectives:\n  hierarchy: {}", hierarchy(platform));
    for kind in CollectiveKind::ALL {
        let choice = platform.collectives.choices[kind as usize].as_ref();
        let path = platform.custom_paths.kinds[kind as usize].as_deref();
        let algorithms = choice.map(|c| format!("[{}]", words(c).join(", ")));
        let flat = choice.is_some_and(|c| c.flat);
        let text = match (algorithms, path) {
            (None, None) => continue,
            (Some(list), None) if !flat => list,
            (list, path) => {
                let parts = [
                    list.map(|l| format!("algorithm: {l}, flat: {flat}")),
                    path.map(|p| format!("custom: {}", quoted(p))),
                ];
                format!("{{{}}}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
            }
        };
        let _ = writeln!(out, "  {}: {text}", kind.name());
    }
}

fn words(choice: &Choice) -> Vec<String> {
    let shown = if choice.flat { &choice.per_dim[..1] } else { &choice.per_dim[..] };
    shown.iter().map(|&algorithm| word(algorithm)).collect()
}

fn hierarchy(platform: &Platform) -> &'static str {
    HIERARCHIES.into_iter().find(|h| h.1 == platform.collectives.hierarchy).map_or("", |h| h.0)
}

/// The resolved platform: every choice, integers with their unit in the key. Rates in bytes
/// (operations) per second.
pub fn to_json(platform: &Platform) -> Value {
    let mut shown = settings(platform);
    if platform.routing != Routing::default() {
        shown["network"] = json!({"routing": platform.routing.to_string()});
    }
    shown
}

fn settings(platform: &Platform) -> Value {
    let choice = |kind: CollectiveKind| {
        let choice = platform.collectives.choices[kind as usize].as_ref();
        json!({
            "algorithms": choice.map(words),
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
        "hierarchy": hierarchy(platform),
        "collectives": collectives,
        "library": platform.library.json(),
        "custom_by_node": platform.custom_paths.nodes,
        "scheduler": platform.scheduler.json(),
    })
}

fn fabric(fabric: &Fabric) -> Value {
    match fabric {
        Fabric::Stacked(dims) => {
            let dim = |d: &topology::Dim| json!({"block": d.block, "size": d.size, "link_bandwidth": d.bandwidth.0, "link_latency_ps": d.latency.0});
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
