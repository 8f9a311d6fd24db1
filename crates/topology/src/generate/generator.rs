//! Contract of generators of fabrics, and the tools that they draw with.

use crate::recipe::{Values, Wire};
use crate::{GraphDim, GraphLink, GraphNode};
use std::borrow::Cow;

/// Most NPUs, and most one-way links, of a generated fabric.
pub(super) const MOST_NPUS: u64 = 1 << 20;
pub(super) const MOST_LINKS: usize = 1 << 25;
/// Most of any parameter.
const MOST: u32 = 1 << 20;

/// Something that draws a family of fabrics.
pub trait Generator: Sync {
    /// Word of the generator in platform files.
    fn name(&self) -> &'static str;
    /// Description of the fabrics that it draws, in one line.
    fn about(&self) -> &'static str;
    /// Parameters of the generator.
    fn keys(&self) -> &'static [Key];
    /// The parameter (of a list its last value) that is the size of the outermost dimension; empty
    /// where the fabric has only one size.
    fn outer(&self) -> &'static str;
    /// NPUs by which the fabric grows with the parameter [`Generator::outer`].
    fn unit(&self, values: &Values) -> u64 {
        self.dims(values).iter().rev().skip(1).map(|d| u64::from(d.size)).product()
    }
    /// Makes the outermost dimension as large as `npus` NPUs need.
    ///
    /// # Errors
    /// The number of NPUs that is a unit of the outermost dimension, when `npus` is not a multiple
    /// of it.
    fn resize(&self, values: &mut Values, npus: u32) -> Result<(), u64> {
        let (unit, outer) = (self.unit(values), self.outer());
        if npus == 0 || unit == 0 || !u64::from(npus).is_multiple_of(unit) {
            return Err(unit);
        }
        let mut list = values.list(outer).to_vec();
        list.pop();
        list.push((u64::from(npus) / unit) as u32);
        values.set(outer, list);
        Ok(())
    }
    /// Faults of parameters that are all there and in range.
    fn faults(&self, values: &Values) -> Vec<Fault>;
    /// The dimensions, innermost first.
    fn dims(&self, values: &Values) -> Vec<GraphDim>;
    /// The kinds of links, from the NPUs outwards.
    fn kinds(&self, values: &Values) -> Vec<Cow<'static, str>>;
    /// How many of the innermost dimensions and kinds of links are inside a machine.
    fn machine(&self, _: &Values) -> (usize, usize) {
        (0, 0)
    }
    /// Links between the two NPUs that are farthest apart; `None` without a formula.
    fn diameter(&self, values: &Values) -> Option<u32>;
    /// Adds switches and links; kinds are places in [`Generator::kinds`].
    fn wire(&self, values: &Values, builder: &mut FabricBuilder);
}

/// A parameter of a generator.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the parameter.
    pub name: &'static str,
    /// Several values rather than one.
    pub list: bool,
    /// A fabric rather than a number.
    pub fabric: bool,
    /// Default of the parameter; `None`: it must be given, an empty text: it may be left out.
    pub default: Option<&'static str>,
    /// Lowest value.
    pub least: u32,
    /// Meaning of the parameter.
    pub about: &'static str,
}

impl Key {
    pub(super) const fn one(name: &'static str, about: &'static str) -> Key {
        Key { name, list: false, fabric: false, default: None, least: 1, about }
    }

    pub(super) const fn many(name: &'static str, about: &'static str) -> Key {
        Key { list: true, ..Key::one(name, about) }
    }

    pub(super) const fn part(name: &'static str, about: &'static str) -> Key {
        Key { fabric: true, ..Key::one(name, about) }
    }

    pub(super) const fn or(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    pub(super) const fn from(self, least: u32) -> Key {
        Key { least, ..self }
    }

    /// Highest value.
    pub const fn most(&self) -> u32 {
        MOST
    }
}

/// Fault of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The parameter; one of a part comes after the part.
    pub path: Vec<&'static str>,
    /// Description of the fault, with the value.
    pub message: String,
    /// Allowed values.
    pub allowed: String,
}

impl Fault {
    pub(super) fn new(key: &'static str, message: String, allowed: impl Into<String>) -> Fault {
        Fault { path: vec![key], message, allowed: allowed.into() }
    }

    /// The same fault of a part of another fabric.
    pub(super) fn within(mut self, part: &'static str) -> Fault {
        self.path.insert(0, part);
        self
    }
}

/// A fabric being drawn. NPUs are there from the beginning.
pub struct FabricBuilder<'a> {
    pub(super) nodes: Vec<GraphNode>,
    pub(super) links: Vec<GraphLink>,
    pub(super) wires: &'a [Wire],
    /// More links were asked for than [`MOST_LINKS`].
    pub(super) full: bool,
}

impl FabricBuilder<'_> {
    /// Adds the NPUs.
    pub(super) fn npus(&mut self, npus: u32) {
        self.nodes.extend((0..npus).map(|i| GraphNode::npu(format!("npu{i}"))));
    }

    /// Adds `count` switches of a tier, named `name` and a number; the node of the first.
    pub(super) fn switches(&mut self, name: &str, count: u32, tier: u32) -> u32 {
        let first = self.nodes.len() as u32;
        self.nodes.extend((0..count).map(|i| GraphNode::switch(format!("{name}{i}"), tier)));
        first
    }

    /// Draws another fabric whose NPUs are the nodes `ends`, with its kinds from `kind` on, and
    /// `prefix` before the names of its switches.
    pub(super) fn insert(
        &mut self,
        (generator, values): (&dyn Generator, &Values),
        ends: &[u32],
        kind: u32,
        prefix: &str,
    ) {
        let wires = self.wires.get(kind as usize..).unwrap_or_default();
        let mut part =
            FabricBuilder { nodes: Vec::new(), links: Vec::new(), wires, full: self.full };
        part.npus(ends.len() as u32);
        generator.wire(values, &mut part);
        let first = self.nodes.len();
        let switches = part.nodes.drain(ends.len()..);
        self.nodes.extend(switches.map(|mut node| {
            node.name.insert_str(0, prefix);
            node
        }));
        let node = |at: u32| match ends.get(at as usize) {
            Some(&end) => end,
            None => (first + at as usize - ends.len()) as u32,
        };
        self.full |= part.full || self.links.len() + part.links.len() > MOST_LINKS;
        if self.full {
            return;
        }
        self.links.extend(part.links.into_iter().map(|link| GraphLink {
            from: node(link.from),
            to: node(link.to),
            kind: link.kind + kind,
            ..link
        }));
    }

    /// Joins two nodes by one cable with the bandwidth of `count`: links that act as one.
    pub(super) fn bond(&mut self, a: u32, b: u32, kind: u32, count: u32) {
        let first = self.links.len();
        self.cables(a, b, kind, 1);
        for link in &mut self.links[first..] {
            link.bandwidth.0 = link.bandwidth.0.saturating_mul(u64::from(count));
        }
    }

    /// Joins two nodes by `count` cables of a kind, each a link both ways.
    pub(super) fn cables(&mut self, a: u32, b: u32, kind: u32, count: u32) {
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

/// Names of kinds.
pub(super) fn words(names: &[&'static str]) -> Vec<Cow<'static, str>> {
    names.iter().map(|&name| Cow::Borrowed(name)).collect()
}
