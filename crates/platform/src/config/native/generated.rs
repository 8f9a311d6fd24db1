//! `topology: {generator: fat_tree, ...}` with `links` by kind: a fabric drawn from a few numbers.
//!
//! Which generators there are, and their parameters, is the table of `topology::generate`.

use crate::config::findings::{At, Findings};
use crate::config::tree::Value;
use std::fmt::Write;
use topology::GraphFabric;
use topology::generate::{self, GENERATORS, Generator, Key, Recipe, Values, Wire, resize};

/// The fabric, or nothing and at least one problem.
pub(super) fn read(root: &At<'_>, at: &At<'_>, findings: &mut Findings) -> Option<GraphFabric> {
    let names: Vec<(&str, &'static dyn Generator)> =
        GENERATORS.into_iter().map(|g| (g.name(), g)).collect();
    let allowed = names.iter().map(|n| n.0).collect::<Vec<_>>().join(", ");
    let name = findings.need(at, "generator", &allowed);
    let links = findings.need(root, "links", "one mapping for each kind of links, or one for all");
    let generator = findings.one_of(&name?, &names)?;
    let keys = generator.keys();
    let known: Vec<&str> =
        std::iter::once("generator").chain(keys.iter().map(|key| key.name)).collect();
    findings.mapping(at, &known)?;
    let before = findings.problems.len();
    let mut values = Values::default();
    for key in keys {
        value(key, generator, root, at, &mut values, findings);
    }
    if let Some(npus) = root.get("npus") {
        sized(generator, &mut values, &npus, findings);
    }
    let wires = wires(&links?, &generator.kinds(&values), findings);
    if findings.problems.len() > before {
        return None;
    }
    match generate::generate(generator, values, wires?) {
        Ok(fabric) => Some(fabric),
        Err(faults) => {
            for fault in faults {
                let place = at.get(fault.key).unwrap_or_else(|| at.clone());
                findings.refuse(&place, fault.message, fault.allowed);
            }
            None
        }
    }
}

/// Reads one parameter. The outermost one may be left to `npus`.
fn value(
    key: &Key,
    generator: &dyn Generator,
    root: &At<'_>,
    at: &At<'_>,
    values: &mut Values,
    findings: &mut Findings,
) {
    let Some(given) = at.get(key.name) else {
        let sized = !key.list && generator.outer() == key.name && root.get("npus").is_some();
        match key.default {
            Some("") => {}
            Some(default) => values.set(key.name, default.parse().into_iter().collect()),
            None if sized => values.set(key.name, vec![1]),
            None => findings.missing(at, key.name, key.about),
        }
        return;
    };
    if key.list {
        let whole = |item: &At<'_>| findings.whole(item, key.least, key.most());
        let items: Option<Vec<u32>> = given.items().iter().map(whole).collect();
        items.into_iter().for_each(|items| values.set(key.name, items));
    } else if let Some(one) = findings.whole(&given, key.least, key.most()) {
        values.set(key.name, vec![one]);
    }
}

/// The outermost dimension takes what is left of `npus`.
fn sized(generator: &dyn Generator, values: &mut Values, at: &At<'_>, findings: &mut Findings) {
    let Some(npus) = findings.whole(at, 1, u32::MAX) else { return };
    if let Err(unit) = resize(generator, values, npus) {
        let message = format!("{npus} NPUs can't be had by changing {}", generator.outer());
        findings.refuse(at, message, format!("a multiple of {unit}"));
    }
}

/// Bandwidth and latency of each kind of links.
fn wires(links: &At<'_>, kinds: &[&str], findings: &mut Findings) -> Option<Vec<Wire>> {
    let items = if links.is_map() { vec![links.clone(); kinds.len()] } else { links.items() };
    if items.len() != kinds.len() {
        let message = format!("{} entries for {} kinds of links", items.len(), kinds.len());
        let allowed = format!("one mapping for each of {}, or one for all", kinds.join(", "));
        findings.refuse(links, message, allowed);
        return None;
    }
    let wires: Vec<Option<Wire>> = items.iter().map(|at| wire(at, findings)).collect();
    wires.into_iter().collect()
}

fn wire(at: &At<'_>, findings: &mut Findings) -> Option<Wire> {
    findings.mapping(at, &["bandwidth", "latency"])?;
    let bandwidth = findings.need(at, "bandwidth", "a bandwidth, such as \"50 GB/s\"");
    let latency = findings.need(at, "latency", "a time, such as \"500 ns\"");
    let bandwidth = bandwidth.and_then(|at| findings.quantity(&at));
    let latency = latency.and_then(|at| findings.quantity(&at));
    Some(Wire { bandwidth: bandwidth?, latency: latency? })
}

/// Whether `topology` names a generator.
pub(super) fn is_generator(at: &At<'_>) -> bool {
    matches!(at.tree.value, Value::Map(_))
}

/// The lines of a platform file that read back to the fabric.
pub(super) fn show(recipe: &Recipe, out: &mut String) {
    let _ = write!(out, "topology:\n  generator: {}\n", recipe.generator);
    for (key, values) in parameters(recipe) {
        let _ = match values {
            (values, true) => writeln!(out, "  {key}: {values:?}"),
            (values, false) => writeln!(out, "  {key}: {}", values[0]),
        };
    }
    out.push_str("links:\n");
    for wire in &recipe.wires {
        let _ = writeln!(out, "  - {{bandwidth: {}, latency: {}}}", wire.bandwidth, wire.latency);
    }
}

/// The parameters that were given or have a default: values, and whether they are a list.
fn parameters(recipe: &Recipe) -> Vec<(&'static str, (&[u32], bool))> {
    let keys = generate::generator(recipe.generator).map_or(&[][..], |g| g.keys());
    let shown = |key: &'static Key| {
        let values = recipe.values.list(key.name);
        (!values.is_empty()).then_some((key.name, (values, key.list)))
    };
    keys.iter().filter_map(shown).collect()
}

/// The fabric as JSON: parameters, coordinates, kinds of links, and how much hardware it is.
pub(super) fn json(graph: &GraphFabric, recipe: &Recipe) -> serde_json::Value {
    use serde_json::{Map, Value, json};
    let value = |(key, (values, list)): (&str, (&[u32], bool))| {
        (key.to_string(), if list { json!(values) } else { json!(values[0]) })
    };
    let parameters: Map<String, Value> = parameters(recipe).into_iter().map(value).collect();
    let mut count = vec![0u64; graph.kinds.len()];
    graph.links.iter().for_each(|link| count[link.kind as usize] += 1);
    let wires = graph.kinds.iter().zip(&recipe.wires).zip(&count);
    let link = |((kind, wire), links): ((&String, &Wire), &u64)| {
        json!({
            "kind": kind,
            "cables": links / 2,
            "bandwidth": wire.bandwidth.0,
            "latency_ps": wire.latency.0,
        })
    };
    let links: Vec<Value> = wires.map(link).collect();
    let dims = graph.dims.iter().map(|d| json!({"name": d.name, "size": d.size}));
    json!({
        "generator": recipe.generator,
        "parameters": parameters,
        "coordinates": dims.collect::<Vec<_>>(),
        "switches": graph.nodes.len() - graph.npus as usize,
        "cables": links,
    })
}
