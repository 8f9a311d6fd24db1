//! What a generator of fabrics is, and what it draws with.

use crate::recipe::{Values, Wire};
use crate::{GraphDim, GraphLink, GraphNode};

/// Most NPUs, and most one-way links, of a generated fabric.
pub(super) const MOST_NPUS: u64 = 1 << 20;
pub(super) const MOST_LINKS: usize = 1 << 25;
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
    pub(super) const fn one(name: &'static str, about: &'static str) -> Key {
        Key { name, list: false, default: None, least: 1, about }
    }

    pub(super) const fn many(name: &'static str, about: &'static str) -> Key {
        Key { name, list: true, default: None, least: 1, about }
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
    pub(super) fn new(key: &'static str, message: String, allowed: impl Into<String>) -> Fault {
        Fault { key, message, allowed: allowed.into() }
    }
}

/// A fabric being drawn. NPUs are there from the beginning.
pub struct Draft<'a> {
    pub(super) nodes: Vec<GraphNode>,
    pub(super) links: Vec<GraphLink>,
    pub(super) wires: &'a [Wire],
    /// More links were asked for than [`MOST_LINKS`].
    pub(super) full: bool,
}

impl Draft<'_> {
    /// Adds `count` switches of a tier, named `name` and a number; the node of the first.
    pub(super) fn switches(&mut self, name: &str, count: u32, tier: u32) -> u32 {
        let first = self.nodes.len() as u32;
        self.nodes.extend((0..count).map(|i| GraphNode::switch(format!("{name}{i}"), tier)));
        first
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
