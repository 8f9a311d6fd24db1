//! `failed`: links and nodes of a graph or a generated fabric that routes must avoid.

use declared::findings::{At, Findings};
use declared::section;
use topology::{Fabric, FailedEntry, GraphFabric, Paths, Topology};

section! {
    /// Links and nodes that have failed.
    #[derive(Clone, Debug, Default)]
    pub(super) struct Failed {
        /// Links by the two nodes that they join, `[leaf0-spine3]`. All cables between the two
        /// fail, both ways.
        pub links: Vec<String>, default Vec::new();
        /// Switches by name, `[spine2]`. All their links fail.
        pub nodes: Vec<String>, default Vec::new();
    }
}

/// The fabric without what has failed, or nothing and at least one problem.
pub(super) fn resolve(
    fabric: Fabric,
    keys: Failed,
    at: &At<'_>,
    findings: &mut Findings,
) -> Option<Fabric> {
    let Failed { links, nodes } = keys;
    if links.is_empty() && nodes.is_empty() {
        return Some(fabric);
    }
    let graph = match fabric {
        Fabric::Graph(graph) => graph,
        Fabric::Stacked(_) => {
            let shape = fabric.topology()?;
            let message = format!("links and nodes of the blocks {shape} have no names");
            findings.refuse(at, message, with_names(&shape));
            return None;
        }
    };
    match graph.without(topology::Failed::named(links, nodes)) {
        Ok(graph) => Some(Fabric::Graph(graph)),
        Err(wrong) => {
            for wrong in wrong {
                let place = match wrong.entry {
                    None => None,
                    Some(FailedEntry::Link(entry)) => item(at, Failed::links, entry),
                    Some(FailedEntry::Node(entry)) => item(at, Failed::nodes, entry),
                };
                findings.refuse(&place.unwrap_or_else(|| at.clone()), wrong.message, wrong.allowed);
            }
            None
        }
    }
}

fn item<'a>(at: &At<'a>, key: &str, entry: usize) -> Option<At<'a>> {
    at.get(key)?.items().into_iter().nth(entry)
}

/// Notation to write instead of blocks, so that links have names.
fn with_names(shape: &Topology) -> String {
    let sizes: Vec<String> = shape.dims.iter().map(|(_, size)| size.to_string()).collect();
    let all = |name| shape.dims.iter().all(|(block, _)| block.name() == name);
    let generator = match () {
        () if all("Ring") => Some("torus"),
        () if all("Mesh") => Some("mesh"),
        () => None,
    };
    match generator {
        Some(name) => format!("topology: {{generator: {name}, sizes: [{}]}}", sizes.join(", ")),
        None if shape.dims.iter().all(|(block, _)| block.paths() == Paths::Switched) => {
            "a topology with a generator, such as leaf_spine, or a graph".to_string()
        }
        None => "a topology with a generator, or a graph".to_string(),
    }
}

/// The keys that read back to what has failed in a graph.
pub(super) fn keys(graph: &GraphFabric) -> Option<Failed> {
    let topology::Failed { links, nodes, .. } = graph.failed.clone();
    (!graph.failed.is_empty()).then_some(Failed { links, nodes })
}
