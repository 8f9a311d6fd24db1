//! Generators of fabrics: from a few numbers to nodes, links and coordinates.
//!
//! A generator is one file that implements [`Generator`] and one entry of [`GENERATORS`]. It names
//! its parameters, its dimensions (the coordinates that collectives run over) and its kinds of
//! links; what draws them is the same for all. NPU r has the coordinates of rank r, dimension 1
//! fastest. The same parameters give the same wiring.

mod clos;
mod dragonfly;
mod grid;
mod rails;

use crate::{GraphDim, GraphFabric, GraphLink, Node};
use std::collections::BTreeMap;
use units::{Bandwidth, Span};

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

/// Most NPUs, and most one-way links, of a generated fabric.
const MOST_NPUS: u64 = 1 << 20;
const MOST_LINKS: usize = 1 << 25;
/// Most of any parameter.
const MOST: u32 = 1 << 20;

/// Something that draws a family of fabrics.
pub trait Generator: Sync {
    /// Its word in platform files.
    fn name(&self) -> &'static str;
    /// What it draws, in one line.
    fn about(&self) -> &'static str;
    /// Its parameters.
    fn keys(&self) -> &'static [Key];
    /// The parameter (of a list its last value) that is the size of the outermost dimension.
    fn outer(&self) -> &'static str;
    /// NPUs by which the fabric grows with the parameter [`Generator::outer`].
    fn unit(&self, values: &Values) -> u64 {
        self.dims(values).iter().rev().skip(1).map(|d| u64::from(d.size)).product()
    }
    /// What is wrong with parameters that are all there and in range.
    fn faults(&self, values: &Values) -> Vec<Fault>;
    /// The dimensions, innermost first.
    fn dims(&self, values: &Values) -> Vec<GraphDim>;
    /// The kinds of links, from the NPUs outwards.
    fn kinds(&self, values: &Values) -> Vec<&'static str>;
    /// Links between the two NPUs that are farthest apart.
    fn diameter(&self, values: &Values) -> u32;
    /// Adds switches and links; kinds are places in [`Generator::kinds`].
    fn wire(&self, values: &Values, draft: &mut Draft);
}

/// A parameter of a generator.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Several values rather than one.
    pub list: bool,
    /// What it is when nothing is said; `None`: it must be said, an empty text: it may be left out.
    pub default: Option<&'static str>,
    /// Lowest value.
    pub least: u32,
    /// What it means.
    pub about: &'static str,
}

impl Key {
    const fn one(name: &'static str, about: &'static str) -> Key {
        Key { name, list: false, default: None, least: 1, about }
    }

    const fn many(name: &'static str, about: &'static str) -> Key {
        Key { name, list: true, default: None, least: 1, about }
    }

    const fn or(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    const fn from(self, least: u32) -> Key {
        Key { least, ..self }
    }

    /// Highest value.
    pub const fn most(&self) -> u32 {
        MOST
    }
}

/// Parameters by name. One value is a list of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Values(BTreeMap<&'static str, Vec<u32>>);

impl Values {
    /// Sets a parameter.
    pub fn set(&mut self, key: &'static str, values: Vec<u32>) {
        self.0.insert(key, values);
    }

    /// The values of a parameter; none when it was left out.
    pub fn list(&self, key: &str) -> &[u32] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// The value of a parameter, if it was given.
    pub fn given(&self, key: &str) -> Option<u32> {
        self.list(key).first().copied()
    }

    /// The value of a parameter that was given or has a default; else 1.
    fn one(&self, key: &str) -> u32 {
        self.given(key).unwrap_or(1)
    }
}

/// What is wrong with a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The parameter.
    pub key: &'static str,
    /// What is wrong, with the value.
    pub message: String,
    /// What is allowed.
    pub allowed: String,
}

impl Fault {
    fn new(key: &'static str, message: String, allowed: impl Into<String>) -> Fault {
        Fault { key, message, allowed: allowed.into() }
    }
}

/// Bandwidth and latency of a kind of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wire {
    /// Of one link in one direction.
    pub bandwidth: Bandwidth,
    /// Of one link.
    pub latency: Span,
}

/// How a fabric was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Name of the generator.
    pub generator: &'static str,
    /// Its parameters.
    pub values: Values,
    /// Its links, by kind.
    pub wires: Vec<Wire>,
}

/// The generator with this name.
pub fn generator(name: &str) -> Option<&'static dyn Generator> {
    GENERATORS.into_iter().find(|g| g.name() == name)
}

/// Makes the outermost dimension as large as `npus` NPUs need.
///
/// # Errors
/// The number of NPUs that is a unit of the outermost dimension, when `npus` is no multiple of it.
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
    draft.nodes.extend((0..npus).map(|i| Node::npu(format!("npu{i}"))));
    generator.wire(&values, &mut draft);
    let Draft { nodes, links, full, .. } = draft;
    if full {
        let message = format!("the fabric has more than {MOST_LINKS} one-way links");
        return Err(vec![Fault::new(outer, message, "a smaller fabric")]);
    }
    let kinds = generator.kinds(&values).into_iter().map(String::from).collect();
    let recipe = Some(Box::new(Recipe { generator: generator.name(), values, wires }));
    Ok(GraphFabric { npus, nodes, links, dims, kinds, recipe })
}

/// A fabric being drawn. NPUs are there from the beginning.
pub struct Draft<'a> {
    nodes: Vec<Node>,
    links: Vec<GraphLink>,
    wires: &'a [Wire],
    full: bool,
}

impl Draft<'_> {
    /// Adds `count` switches of a tier, named `name` and a number; the node of the first.
    fn switches(&mut self, name: &str, count: u32, tier: u32) -> u32 {
        let first = self.nodes.len() as u32;
        self.nodes.extend((0..count).map(|i| Node::switch(format!("{name}{i}"), tier)));
        first
    }

    /// Joins two nodes by `count` cables of a kind, each a link both ways.
    fn cables(&mut self, a: u32, b: u32, kind: u32, count: u32) {
        if self.links.len() + 2 * count as usize > MOST_LINKS {
            self.full = true;
            return;
        }
        let Some(&Wire { bandwidth, latency }) = self.wires.get(kind as usize) else { return };
        for _ in 0..count {
            for (from, to) in [(a, b), (b, a)] {
                self.links.push(GraphLink { from, to, bandwidth, latency, kind });
            }
        }
    }
}
