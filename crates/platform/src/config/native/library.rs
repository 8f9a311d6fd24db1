//! `library`: where a communication library makes sense, beyond its declared keys.

use crate::library::{Between, Library};
use declared::Setting;
use declared::findings::{At, Findings};
use topology::{Fabric, Paths};

/// Refuses a library that is wrong or has no meaning on a fabric.
pub(super) fn check(
    library: &Library,
    at: &At<'_>,
    fabric: &Fabric,
    logical: bool,
    findings: &mut Findings,
) {
    suits(library, at, fabric, logical, findings);
    let network = library.network.as_ref();
    if network.is_some_and(|n| n.pxn.is_some() && n.cross_rail_efficiency.is_some()) {
        let [section, key, other] =
            [Library::network, Between::cross_rail_efficiency, Between::pxn];
        let text = format!("library.{section}.{key} has no effect with library.{section}.{other}");
        findings.warnings.push(text);
    }
    if network.is_some_and(|n| n.protocols.is_empty()) {
        let place = at.get(Library::network).and_then(|at| at.get(Between::protocols));
        let allowed = "at least one of ll, ll128, simple";
        findings.refuse(place.as_ref().unwrap_or(at), "no protocol is left", allowed);
    }
    twice(at, library, findings);
}

/// Refuses networks that the model does not describe.
fn suits(library: &Library, at: &At<'_>, fabric: &Fabric, logical: bool, findings: &mut Findings) {
    if logical {
        findings.refuse(
            at,
            "a library runs over the physical dimensions",
            "\"library\" without \"logical\"",
        );
    }
    let networked = match fabric {
        Fabric::Stacked(dims) => {
            let relayed = dims.iter().any(|d| d.block.paths() == Paths::Relayed);
            let switched = |d: &topology::Dim| d.block.paths() == Paths::Switched;
            if relayed || !dims.iter().skip(1).all(switched) {
                let allowed = "Switch(n) or FullyConnected(n) as the node, and Switch(m) for each dimension of the network if there is one";
                findings.refuse(at, "the library has no rings for this topology", allowed);
            }
            dims.len() > 1
        }
        Fabric::Graph(graph) => {
            let (inside, _) = graph.machine();
            if inside > 1 || !graph.dims.is_empty() && graph.relays_outside() {
                let allowed = "nodes of one dimension, joined by switches";
                findings.refuse(at, "the library has no rings for this fabric", allowed);
            }
            graph.dims.len() > inside
        }
    };
    if networked && library.network.is_none() {
        findings.missing(at, Library::network, &Between::example());
    }
}

/// Refuses two corrections of one collective and number of members.
fn twice(at: &At<'_>, library: &Library, findings: &mut Findings) {
    let places = at.get(Library::corrections).map_or(Vec::new(), |at| at.items());
    for (i, found) in library.corrections.iter().enumerate() {
        let same = |c: &&crate::library::Correction| {
            (c.kind, c.ranks_per_node, c.nodes) == (found.kind, found.ranks_per_node, found.nodes)
        };
        if library.corrections[..i].iter().find(same).is_some() {
            findings.refuse(
                &places[i],
                "the collective is corrected twice on these members",
                "one list of sizes and factors",
            );
        }
    }
}
