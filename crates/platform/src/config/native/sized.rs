//! `npus` on a stack: more or fewer nodes, a part of one node, or nodes that are not full.

use super::shape::{MOST_NPUS, Shape};
use declared::Tried;
use declared::findings::{At, Findings};
use topology::{Block, Fabric, Paths, Topology};

/// Properties of a node besides its block: whether its links keep their bandwidth where it has
/// fewer NPUs, and the NPUs of a host, if it consists of several.
pub(super) struct Node {
    pub(super) keeps_links: bool,
    pub(super) hosts: Option<u32>,
}

impl Node {
    /// Whether a smaller node has the same links: a switch, or links of a bandwidth of their own
    /// between every two NPUs.
    fn may_be_partial(&self, block: Block) -> bool {
        match block.paths() {
            Paths::Switched => true,
            Paths::Direct => self.keeps_links,
            Paths::Relayed => false,
        }
    }
}

/// The outermost dimension takes the rest of `npus`. Where that is not a whole number of nodes, the
/// job has a part of one node, or equal parts of nodes that consist of hosts.
pub(super) fn sized(
    mut shape: Topology,
    npus: u32,
    node: Node,
    at: &At<'_>,
    findings: &mut Findings,
) -> Option<Topology> {
    let unit: u32 = shape.dims.iter().rev().skip(1).map(|&(_, size)| size).product();
    if npus > MOST_NPUS {
        findings.refuse(at, format!("{npus} is not allowed"), "at most 16,777,216 NPUs");
        return None;
    }
    if npus.is_multiple_of(unit) {
        shape.dims.last_mut()?.1 = npus / unit;
        return Some(shape);
    }
    let Some(size) = partial(&shape, npus, &node) else {
        refuse(&shape, npus, unit, &node, at, findings);
        return None;
    };
    let said = shape.to_string();
    shape.dims[0].1 = size;
    shape.dims[1].1 = npus / size;
    findings.warnings.push(format!(
        "npus: {npus} makes {said} a {shape}: {size} of the {unit} NPUs of each node are used"
    ));
    Some(shape)
}

/// The NPUs of each node, where the job does not fill them.
fn partial(shape: &Topology, npus: u32, node: &Node) -> Option<u32> {
    let &[(block, size), _] = &shape.dims[..] else { return None };
    if npus == 0 || !node.may_be_partial(block) {
        return None;
    }
    if npus < size {
        return Some(npus);
    }
    let hosts = node.hosts?;
    (1..=size / hosts).rev().map(|count| count * hosts).find(|part| npus.is_multiple_of(*part))
}

fn refuse(
    shape: &Topology,
    npus: u32,
    unit: u32,
    node: &Node,
    at: &At<'_>,
    findings: &mut Findings,
) {
    let partly = partial(shape, 1, node).is_some();
    let step = node.hosts.filter(|_| partly).unwrap_or(unit);
    let below = if npus > step { format!("{}, ", npus / step * step) } else { String::new() };
    let part = if partly { format!("1 to {}, ", unit - 1) } else { String::new() };
    let shaped = if partly { "" } else { ", or another topology (--set topology=...)" };
    let above = (npus / step + 1) * step;
    let allowed = format!("{part}{below}{above} or another multiple of {step}{shaped}");
    let message = format!("resizing the outermost dimension of {shape} cannot give {npus} NPUs");
    findings.refuse(at, message, allowed);
}

/// A warning about a node that `npus` makes larger than its topology says.
pub(super) fn larger_node(said: &Tried<Shape>, fabric: &Fabric) -> Option<String> {
    let (Tried::Read(Shape::Stack(said)), Fabric::Stacked(dims)) = (said, fabric) else {
        return None;
    };
    let (&[(block, size)], [dim]) = (&said.dims[..], &dims[..]) else { return None };
    let nodes =
        if dim.size.is_multiple_of(size) { (dim.size / size).to_string() } else { "m".into() };
    let larger = Topology { dims: vec![(block, dim.size)] };
    (dim.size > size).then(|| {
        format!(
            "npus: {} makes {said} a single node of {larger}, all at the bandwidth within a node. \
             For several nodes use a preset with a network, or topology: {said}_Switch({nodes}) \
             with its links and library.network",
            dim.size,
        )
    })
}
