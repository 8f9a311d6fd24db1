//! Generators of fabrics: from a few numbers to nodes, links and coordinates.
//!
//! A generator is one file that implements [`Generator`] and one entry of [`GENERATORS`]. It names
//! its parameters, its dimensions (the coordinates that collectives run over) and its kinds of
//! links; what draws them is the same for all. NPU r has the coordinates of rank r, dimension 1
//! fastest. The same parameters give the same wiring.

mod clos;
mod concentrated;
mod dragonfly;
mod dragonfly_plus;
mod generator;
mod grid;
mod hyperx;
mod nested;
mod node;
mod rails;
mod tree;

pub use crate::recipe::{Part, Recipe, Values, Wire};
pub(crate) use clos::tree;
pub(crate) use dragonfly::groups;
pub use generator::{FabricBuilder, Fault, Generator, Key};
pub(crate) use grid::{Metric, metric};
pub(crate) use tree::Climb;
pub use tree::Rotation;

use crate::GraphFabric;
use generator::{MOST_LINKS, MOST_NPUS};
use std::borrow::Cow;

/// Every generator.
pub static GENERATORS: [&dyn Generator; 17] = [
    &clos::LeafSpine,
    &clos::FatTree,
    &clos::Clos,
    &rails::OPTIMIZED,
    &rails::ONLY,
    &dragonfly::Dragonfly,
    &dragonfly_plus::DragonflyPlus,
    &hyperx::HyperX,
    &grid::TORUS,
    &grid::TWISTED,
    &grid::MESH,
    &concentrated::MESH,
    &concentrated::TORUS,
    &node::NvlinkDomain,
    &node::FullMesh,
    &node::CubeMesh,
    &nested::Nested,
];

/// The generator with this name.
pub fn generator(name: &str) -> Option<&'static dyn Generator> {
    GENERATORS.into_iter().find(|g| g.name() == name)
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
    let mut builder =
        FabricBuilder { nodes: Vec::new(), links: Vec::new(), wires: &wires, full: false };
    builder.npus(npus);
    generator.wire(&values, &mut builder);
    let FabricBuilder { nodes, links, full, .. } = builder;
    if full {
        let message = format!("the fabric has more than {MOST_LINKS} one-way links");
        return Err(vec![Fault::new(outer, message, "a smaller fabric")]);
    }
    let kinds = generator.kinds(&values).into_iter().map(Cow::into_owned).collect();
    let recipe = Some(Box::new(Recipe { generator: generator.name(), values, wires }));
    Ok(GraphFabric { npus, nodes, links, dims, kinds, recipe, ..GraphFabric::default() })
}
