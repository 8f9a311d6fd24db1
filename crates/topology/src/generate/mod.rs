//! Generators of fabrics: from a few numbers to nodes, links and coordinates.
//!
//! A generator is one file that implements [`Generator`] and one entry of [`GENERATORS`]. It names
//! its parameters, its dimensions (the coordinates that collectives run over) and its kinds of
//! links; what draws them is the same for all. NPU r has the coordinates of rank r, dimension 1
//! fastest. The same parameters give the same wiring.

mod clos;
mod dragonfly;
mod generator;
mod grid;
mod rails;

pub use crate::recipe::{Recipe, Values, Wire};
pub use generator::{Draft, Fault, Generator, Key};

use crate::{GraphFabric, GraphNode};
use generator::{MOST_LINKS, MOST_NPUS};

/// Every generator.
pub static GENERATORS: [&dyn Generator; 7] = [
    &clos::LeafSpine,
    &clos::FatTree,
    &clos::Clos,
    &rails::RailOptimized,
    &dragonfly::Dragonfly,
    &grid::TORUS,
    &grid::MESH,
];

/// The generator with this name.
pub fn generator(name: &str) -> Option<&'static dyn Generator> {
    GENERATORS.into_iter().find(|g| g.name() == name)
}

/// Makes the outermost dimension as large as `npus` NPUs need.
///
/// # Errors
/// The number of NPUs that is a unit of the outermost dimension, when `npus` is not a multiple of it.
pub fn resize(generator: &dyn Generator, values: &mut Values, npus: u32) -> Result<(), u64> {
    let unit = generator.unit(values);
    if npus == 0 || unit == 0 || !u64::from(npus).is_multiple_of(unit) {
        return Err(unit);
    }
    let outer = generator.outer();
    let mut list = values.list(outer).to_vec();
    list.pop();
    list.push((u64::from(npus) / unit) as u32);
    values.set(outer, list);
    Ok(())
}

/// Draws a fabric; `wires` by kind.
///
/// # Errors
/// Everything that is wrong with the parameters.
pub fn generate(
    generator: &'static dyn Generator,
    values: Values,
    wires: Vec<Wire>,
) -> Result<GraphFabric, Vec<Fault>> {
    let faults = generator.faults(&values);
    if !faults.is_empty() {
        return Err(faults);
    }
    let dims = generator.dims(&values);
    let npus: u128 = dims.iter().map(|d| u128::from(d.size)).product();
    let outer = generator.outer();
    if npus > u128::from(MOST_NPUS) {
        let allowed = format!("at most {MOST_NPUS} NPUs");
        return Err(vec![Fault::new(outer, format!("the fabric has {npus} NPUs"), allowed)]);
    }
    let npus = npus as u32;
    let mut draft = Draft { nodes: Vec::new(), links: Vec::new(), wires: &wires, full: false };
    draft.nodes.extend((0..npus).map(|i| GraphNode::npu(format!("npu{i}"))));
    generator.wire(&values, &mut draft);
    let Draft { nodes, links, full, .. } = draft;
    if full {
        let message = format!("the fabric has more than {MOST_LINKS} one-way links");
        return Err(vec![Fault::new(outer, message, "a smaller fabric")]);
    }
    let kinds = generator.kinds(&values).into_iter().map(String::from).collect();
    let recipe = Some(Box::new(Recipe { generator: generator.name(), values, wires }));
    Ok(GraphFabric { npus, nodes, links, dims, kinds, recipe, ..GraphFabric::default() })
}
