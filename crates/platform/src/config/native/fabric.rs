//! The network of a platform: `topology` with `links`, or `graph`.

use super::links::{Link, Links, Per};
use super::shape::Shape;
use super::sized::{Node, sized};
use super::top_level_keys::Root;
use super::{explicit, nics};
use declared::findings::{At, Findings};
use declared::{Setting, Tried, Words};
use topology::{Block, Dim, Fabric, GraphFabric, NOTATION, Paths, SharedStack, Topology};
use units::Bandwidth;

/// The fabric of a file, or nothing and at least one problem.
pub(super) fn resolve(at: &At<'_>, file: &Root, findings: &mut Findings) -> Option<Fabric> {
    if file.graph.is_given() {
        return graph(at, file, findings).map(Fabric::Graph);
    }
    if !file.topology.is_given() {
        findings.missing(at, Root::topology, NOTATION);
    }
    if !file.links.is_given() {
        findings.missing(at, Root::links, &Links::example());
    }
    let (shape, links) = (file.topology.clone().value()?, file.links.clone().value()?);
    let links_at = at.get(Root::links)?;
    match shape {
        Shape::Stack(shape) => {
            let dims = stacked(shape, &links, &links_at, at, file, findings)?;
            match (file.nics.clone(), at.get(Root::nics)) {
                (Tried::Absent, _) | (_, None) => {
                    nics::unused(&links, &links_at, findings)?;
                    Some(Fabric::Stacked(dims))
                }
                (given, Some(nics_at)) => {
                    let given = (given.value()?, &nics_at);
                    nics::resolve(dims, (&links, &links_at), given, findings).map(Fabric::Graph)
                }
            }
        }
        Shape::Generated(generated) => {
            let npus = at.get(Root::npus).map(|place| (file.npus.clone().value(), place));
            if let Some(place) = at.get(Root::nics) {
                let allowed = "blocks, or the generator nested with its own nics";
                findings.refuse(&place, "a generated fabric has no cards to share", allowed);
            }
            nics::unused(&links, &links_at, findings)?;
            let topology_at = at.get(Root::topology)?;
            generated.draw(&topology_at, (&links, &links_at), npus, findings).map(Fabric::Graph)
        }
    }
}

fn graph(at: &At<'_>, file: &Root, findings: &mut Findings) -> Option<GraphFabric> {
    let place = at.get(Root::graph)?;
    let more = [
        (file.topology.is_given(), Root::topology, "one of them"),
        (file.links.is_given(), Root::links, "links in the graph"),
    ];
    for (_, key, allowed) in more.into_iter().filter(|(given, ..)| *given) {
        let message = format!("\"{}\" and \"{key}\" exclude each other", Root::graph);
        findings.refuse(&place, message, allowed);
    }
    let mut graph = explicit::resolve(file.graph.clone().value()?, &place, findings)?;
    let npus = file.npus.clone().or(|| graph.npus)?;
    if npus > graph.npus {
        let message = format!("{npus} is not allowed");
        let allowed = format!("a whole number from 1 to {}", graph.npus);
        findings.refuse(&at.get(Root::npus)?, message, allowed);
        return None;
    }
    // Only the first NPUs run ranks. The others still forward messages.
    graph.npus = npus;
    graph.nodes.iter_mut().skip(npus as usize).for_each(|node| node.tier = node.tier.max(1));
    Some(graph)
}

fn stacked(
    mut shape: Topology,
    links: &Links,
    links_at: &At<'_>,
    at: &At<'_>,
    file: &Root,
    findings: &mut Findings,
) -> Option<Vec<Dim>> {
    if let Some(place) = at.get(Root::npus) {
        let npus = file.npus.clone().value()?;
        let direct = links.each().first().is_some_and(|link| link.per == Some(Per::Link));
        let trays = file.library.clone().value().and_then(|library| library.node.hosts);
        let node = Node { keeps_links: direct, hosts: trays.map(|hosts| hosts.ranks) };
        shape = sized(shape, npus, node, &place, findings)?;
    }
    let count = shape.dims.len();
    let Some(entries) = links.entries(links_at, count) else {
        let dimensions = if count == 1 { "dimension" } else { "dimensions" };
        let message = format!("{} entries for {count} {dimensions}", links.len());
        findings.refuse(links_at, message, "one mapping for each dimension, or one for all");
        return None;
    };
    let dims: Vec<Option<Dim>> = shape
        .dims
        .iter()
        .zip(&entries)
        .map(|(&(block, size), (link, at))| dim(block, size, link, at, findings))
        .collect();
    dims.into_iter().collect()
}

fn dim(block: Block, size: u32, link: &Link, at: &At<'_>, findings: &mut Findings) -> Option<Dim> {
    if link.per.is_none() && block.paths() == Paths::Direct {
        let allowed = "link (each link of an NPU has this bandwidth), npu (they share it)";
        findings.missing(at, Link::per, allowed);
        return None;
    }
    let share = match link.per {
        Some(Per::Npu) => u64::from(block.leaving(size).max(1)),
        Some(Per::Link) | None => 1,
    };
    let bandwidth = link.together(at, findings)?;
    if bandwidth.0 < share {
        let message =
            format!("{bandwidth} over {share} links leaves less than 1 B/s for each link");
        let allowed = format!("more bandwidth, or {}: {}", Link::per, Per::Link.word());
        findings.refuse(at, message, allowed);
        return None;
    }
    let each = bandwidth.0 / share;
    let parallel = parallel(link, share as u32).filter(|&count| each >= u64::from(count));
    let parallel = parallel.unwrap_or(1);
    let bandwidth = Bandwidth(each / u64::from(parallel) * u64::from(parallel));
    Some(Dim { block, size, bandwidth, latency: link.latency, parallel })
}

/// Links side by side each way, if they share out evenly over the `share` links of an NPU.
fn parallel(link: &Link, share: u32) -> Option<u32> {
    let count = link.count.unwrap_or(1);
    count.is_multiple_of(share).then_some(count / share)
}

/// The keys that read back to a stack whose dimensions share cards.
pub(super) fn shared_keys(stack: &SharedStack) -> (Shape, Links) {
    let dims = stack.dims.iter().map(|dim| (dim.block, dim.size)).collect();
    let (shape, links) = stack_keys(Topology { dims }, &stack.dims);
    let named = |(link, of): (&Link, &Option<usize>)| Link {
        nic: of.map(|nic| stack.nics[nic].name.clone()),
        ..link.clone()
    };
    (shape, Links::Each(links.each().iter().zip(&stack.of).map(named).collect()))
}

/// The keys that read back to a stack.
pub(super) fn stack_keys(topology: Topology, dims: &[Dim]) -> (Shape, Links) {
    let link = |dim: &Dim| {
        let each = Bandwidth(dim.bandwidth.0 / u64::from(dim.parallel));
        let count = Some(dim.parallel).filter(|&count| count > 1);
        Link { count, ..Link::one(each, dim.latency, Some(Per::Link)) }
    };
    (Shape::Stack(topology), Links::Each(dims.iter().map(link).collect()))
}
