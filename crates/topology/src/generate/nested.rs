//! A fabric of fabrics: every node is an inner fabric, and network cards join the nodes by an outer
//! fabric.
//!
//! A node has `nics` cards. With a card for each NPU, or several, the NPU is where the outer fabric
//! ends. With fewer, neighbouring NPUs share a card, which is a node of the graph: a link of the
//! kind `nic` joins it to each of them. The outer fabric is drawn `rails` times; card j of every
//! node is on rail `j mod rails`. So `rails: 1` is one network for all cards, and with one rail for
//! each card each has a network. The number of nodes follows from the outer fabric.
//!
//! The inner dimensions come first. The cards of a node that are on one rail lie side by side along
//! the innermost dimensions of the outer fabric, which are that much shorter.

use super::generator as find;
use super::generator::{FabricBuilder, Fault, Generator, Key};
use crate::recipe::{Part, Values};
use crate::{GraphDim, Paths, Symmetry};
use std::borrow::Cow;

/// The parameter that says how many ends a leaf of the outer fabric has.
const LEAF: &str = "npus_per_leaf";

pub(super) struct Nested;

/// The numbers of a nested fabric.
struct Numbers<'a> {
    inner: (&'static dyn Generator, &'a Values),
    outer: (&'static dyn Generator, &'a Values),
    /// NPUs of a node.
    npus: u32,
    nics: u32,
    rails: u32,
    /// Ends of the outer fabric.
    ends: u32,
}

fn size(dims: &[GraphDim]) -> u64 {
    dims.iter().map(|dim| u64::from(dim.size)).fold(1, u64::saturating_mul)
}

impl<'a> Numbers<'a> {
    /// `None` where a part is wrong or missing.
    fn of(values: &'a Values) -> Option<Numbers<'a>> {
        let part = |key| -> Option<(&'static dyn Generator, &'a Values)> {
            let part: &Part = values.part(key)?;
            let generator = find(part.generator)?;
            generator.faults(&part.values).is_empty().then_some((generator, &part.values))
        };
        let (inner, outer) = (part("inner")?, part("outer")?);
        let npus = u32::try_from(size(&inner.0.dims(inner.1))).ok()?;
        let ends = u32::try_from(size(&outer.0.dims(outer.1))).ok()?;
        let nics = values.given("nics").unwrap_or(npus);
        Some(Numbers { inner, outer, npus, nics, rails: values.one("rails"), ends })
    }

    /// Cards of a node on each rail.
    fn together(&self) -> u32 {
        self.nics / self.rails
    }

    /// Nodes.
    fn nodes(&self) -> u32 {
        self.ends / self.together()
    }

    /// Whether NPUs share a card.
    fn shares(&self) -> bool {
        self.nics < self.npus
    }

    /// The outer dimensions without the places of a node's own cards; `None` where these do not
    /// fill whole dimensions.
    fn outside(&self) -> Option<Vec<GraphDim>> {
        let mut left = self.together();
        let mut dims = self.outer.0.dims(self.outer.1);
        for dim in &mut dims {
            if left.is_multiple_of(dim.size) {
                left /= dim.size;
                dim.size = 1;
            } else if dim.size.is_multiple_of(left) {
                dim.size /= left;
                left = 1;
            } else {
                return None;
            }
        }
        (left == 1).then_some(dims)
    }

    /// The inner dimensions. Places that look alike inside still do where the outer fabric offers
    /// none of them a way as short, or the same to all.
    fn inside(&self) -> Vec<GraphDim> {
        let mut dims = self.inner.0.dims(self.inner.1);
        let across = self.inner.0.diameter(self.inner.1);
        let outer = self.outer.0.dims(self.outer.1);
        let same_switch = outer.first().is_some_and(|dim| {
            dim.symmetry == Symmetry::Full && dim.size.is_multiple_of(self.nics)
        });
        let switched = outer.iter().all(|dim| dim.paths == Paths::Switched);
        let even = self.rails == self.nics || self.rails == 1 && same_switch;
        let alike = match across {
            Some(0) => true,
            Some(1) => even || self.shares() || switched,
            Some(2) => even && !self.shares(),
            _ => false,
        };
        if !alike {
            dims.iter_mut().for_each(|dim| dim.symmetry = Symmetry::None);
        }
        dims
    }

    fn dims(&self) -> Vec<GraphDim> {
        let mut dims = self.inside();
        for mut dim in self.outside().unwrap_or_default() {
            if dims.iter().any(|other| other.name == dim.name) {
                dim.name = Cow::Owned(format!("outer {}", dim.name));
            }
            dims.push(dim);
        }
        dims
    }

    fn kinds(&self) -> Vec<Cow<'static, str>> {
        let mut kinds = self.inner.0.kinds(self.inner.1);
        if self.shares() {
            kinds.push("nic".into());
        }
        for kind in self.outer.0.kinds(self.outer.1) {
            let known = kinds.contains(&kind);
            kinds.push(if known { format!("outer {kind}").into() } else { kind });
        }
        kinds
    }

    fn faults(&self) -> Vec<Fault> {
        let (npus, nics, rails) = (self.npus, self.nics, self.rails);
        let mut faults = Vec::new();
        if !nics.is_multiple_of(npus) && !npus.is_multiple_of(nics) {
            let message = format!("{nics} cards for {npus} NPUs");
            faults.push(Fault::new("nics", message, format!("a divisor or multiple of {npus}")));
        }
        if !nics.is_multiple_of(rails) {
            let message = format!("{nics} cards cannot be divided among {rails} rails");
            faults.push(Fault::new("rails", message, format!("a divisor of {nics}")));
        } else if self.outside().is_none() {
            let message =
                format!("{} cards of each node do not fill whole dimensions", self.together());
            let allowed = "innermost sizes that are multiples of the cards of a node on a rail";
            faults.push(Fault::new("outer", message, allowed));
        }
        faults
    }
}

/// The inner fabric with fewer NPUs, where the outer one does not take a whole number of full ones:
/// the number that equal parts allow, a multiple of the rails. Only for inner fabrics of any size
/// on several rails, with a card for each NPU.
fn partly(values: &mut Values, npus: u32) -> Option<()> {
    let numbers = Numbers::of(values)?;
    let (size, rails) = (numbers.npus, numbers.rails);
    if numbers.nics != size || npus == 0 || rails < 2 || numbers.inner.0.unit(numbers.inner.1) != 1
    {
        return None;
    }
    let mut parts = (1..=size / rails).rev().map(|count| count * rails);
    let part = parts.find(|part| npus.is_multiple_of(*part))?;
    let together = numbers.together();
    let (mut inner, mut outer) = (values.part("inner")?.clone(), values.part("outer")?.clone());
    find(inner.generator)?.resize(&mut inner.values, part).ok()?;
    if outer.values.given(LEAF) == Some(together) {
        outer.values.set(LEAF, vec![part / rails]);
    }
    find(outer.generator)?.resize(&mut outer.values, npus / rails).ok()?;
    values.set_part("inner", inner);
    values.set_part("outer", outer);
    Some(())
}

impl Generator for Nested {
    fn name(&self) -> &'static str {
        "nested"
    }

    fn about(&self) -> &'static str {
        "nodes that are fabrics, joined by another fabric over their network cards"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 4] = [
            Key::part("inner", "the fabric of a node: a mapping with a generator"),
            Key::part("outer", "the fabric between the cards: a mapping with a generator"),
            Key::one("nics", "network cards of a node; by default one for each NPU").or(""),
            Key::one("rails", "outer fabrics: 1, or a divisor of the cards of a node").or("1"),
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "outer"
    }

    fn unit(&self, values: &Values) -> u64 {
        let Some(numbers) = Numbers::of(values) else { return 0 };
        let (generator, outer) = numbers.outer;
        let ends = generator.unit(outer);
        ends * u64::from(numbers.npus) / u64::from(numbers.together().max(1))
    }

    fn resize(&self, values: &mut Values, npus: u32) -> Result<(), u64> {
        let unit = self.unit(values);
        let numbers = Numbers::of(values).ok_or(unit)?;
        if numbers.npus > 0 && !npus.is_multiple_of(numbers.npus) {
            return partly(values, npus).ok_or(unit);
        }
        let whole = numbers.together() > 0;
        let ends = if whole { npus / numbers.npus * numbers.together() } else { 0 };
        let mut part = values.part("outer").cloned().ok_or(unit)?;
        let generator = find(part.generator).ok_or(unit)?;
        generator.resize(&mut part.values, ends).map_err(|_| unit)?;
        values.set_part("outer", part);
        Ok(())
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let of = |key| {
            let part = values.part(key)?;
            let faults = find(part.generator)?.faults(&part.values).into_iter();
            Some(faults.map(move |fault| fault.within(key)).collect::<Vec<_>>())
        };
        let faults: Vec<Fault> = ["inner", "outer"].into_iter().filter_map(of).flatten().collect();
        match Numbers::of(values) {
            Some(numbers) if faults.is_empty() => numbers.faults(),
            _ => faults,
        }
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        Numbers::of(values).map_or(Vec::new(), |numbers| numbers.dims())
    }

    fn kinds(&self, values: &Values) -> Vec<Cow<'static, str>> {
        Numbers::of(values).map_or(Vec::new(), |numbers| numbers.kinds())
    }

    fn machine(&self, values: &Values) -> (usize, usize) {
        Numbers::of(values).map_or((0, 0), |numbers| {
            let (inner, values) = numbers.inner;
            (inner.dims(values).len(), inner.kinds(values).len())
        })
    }

    fn diameter(&self, _: &Values) -> Option<u32> {
        None
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let Some(numbers) = Numbers::of(values) else { return };
        let (npus, nics, nodes) = (numbers.npus, numbers.nics, numbers.nodes());
        let kinds = numbers.inner.0.kinds(numbers.inner.1).len() as u32;
        for node in 0..nodes {
            let ends: Vec<u32> = (0..npus).map(|npu| node * npus + npu).collect();
            builder.insert(numbers.inner, &ends, 0, &format!("node{node}."));
        }
        let mut cards: Vec<u32> = (0..nodes * nics).map(|nic| nic * npus / nics.max(1)).collect();
        if numbers.shares() {
            let first = builder.switches("nic", nodes * nics, 1);
            for npu in 0..nodes * npus {
                builder.cables(npu, first + npu / (npus / nics), kinds, 1);
            }
            cards = (first..first + nodes * nics).collect();
        }
        for rail in 0..numbers.rails {
            let on_rail = cards.iter().copied().enumerate();
            let on_rail = on_rail.filter(|(nic, _)| *nic as u32 % nics % numbers.rails == rail);
            let ends: Vec<u32> = on_rail.map(|(_, card)| card).collect();
            let name = if numbers.rails > 1 { format!("rail{rail}.") } else { String::new() };
            builder.insert(numbers.outer, &ends, kinds + u32::from(numbers.shares()), &name);
        }
    }
}
