//! The network as pages draw it, with the load of its links after a run.

use crate::names;
use crate::network::{Sends, busier, digits};
use network::LinkUsage;
use stats::{Picture, PictureCable, PictureCell, PictureSort};
use std::borrow::Cow;
use std::collections::BTreeMap;
use topology::{
    Cable, Dim, Fabric, GraphDim, GraphFabric, GraphLink, GraphNode, LinkGraph, Paths, Sketch,
};
use units::Span;

/// Most NPUs of a stack that is drawn as a grid.
const GRID: u32 = 1 << 16;
/// Nodes up to which a picture is part of every report.
const SMALL: usize = 64;

/// Traffic of the busiest links of a cable: time sending, bytes.
type Load = (Span, u64);

/// The picture of a graph, or of a stack that is a grid. `used` are the links that a run used, and
/// `folds` says whether some of them may represent others. Nothing for other stacks, and for large
/// graphs unless they are asked for.
pub(crate) fn picture(
    fabric: &Fabric,
    used: &[LinkUsage],
    folds: bool,
    asked: bool,
    sends: Option<&[Sends]>,
) -> Option<Picture> {
    let graph = &*graph(fabric, asked)?;
    if !asked && graph.nodes.len() > SMALL {
        return None;
    }
    let sketch = Sketch::new(graph);
    let loads = loads(&sketch, used, folds);
    let over_time = over_time(&sketch, sends, folds);
    let cell = |cell: &topology::Cell| PictureCell {
        name: graph.nodes[cell.first as usize].name.clone(),
        last: graph.nodes[cell.last as usize].name.clone(),
        count: u64::from(cell.count),
        failed: u64::from(cell.failed),
        tier: cell.tier,
        at: cell.at.clone(),
    };
    Some(Picture {
        layout: sketch.layout.name().into(),
        cells: sketch.cells.iter().map(cell).collect(),
        cables: (sketch.cables.iter().zip(loads).zip(over_time))
            .map(|((c, load), sends)| PictureCable {
                sends: sends.map(|sends| digits(&sends)),
                ..cable(c, load)
            })
            .collect(),
        sorts: sorts(graph, &sketch),
    })
}

/// The picture of a platform's network as JSON; nothing for stacks that are not grids.
pub fn picture_json(fabric: &Fabric) -> Option<String> {
    serde_json::to_string(&picture(fabric, &[], false, true, None)?).ok()
}

/// The graph that is drawn: a graph itself, or the NPUs of a stack of rings and meshes.
fn graph(fabric: &Fabric, asked: bool) -> Option<Cow<'_, GraphFabric>> {
    let dims = match fabric {
        Fabric::Graph(graph) => return Some(Cow::Borrowed(graph)),
        Fabric::Stacked(dims) => dims,
    };
    let long = |dim: &&Dim| dim.size > 1;
    let relayed = |dim: &Dim| dim.block.paths() == Paths::Relayed;
    let npus = fabric.npus();
    let most = if asked { GRID } else { SMALL as u32 };
    if dims.iter().filter(long).count() < 2 || !dims.iter().all(relayed) || npus > most {
        return None;
    }
    let links = LinkGraph::new(fabric).ok()?;
    let link = |id: u32| {
        let link = links.link(id);
        GraphLink {
            from: link.from,
            to: link.to,
            bandwidth: link.bandwidth,
            latency: link.latency,
            kind: link.dim,
        }
    };
    let along = |dim: &Dim| GraphDim::new("", dim.size, dim.block.symmetry());
    Some(Cow::Owned(GraphFabric {
        npus,
        nodes: (0..npus).map(|npu| GraphNode::npu(names::node(fabric, npu))).collect(),
        links: (0..links.len()).map(link).collect(),
        dims: dims.iter().map(along).collect(),
        kinds: (1..=dims.len()).map(|dim| format!("dimension {dim}")).collect(),
        ..GraphFabric::default()
    }))
}

fn cable(cable: &Cable, load: Option<Load>) -> PictureCable {
    PictureCable {
        a: cable.a,
        b: cable.b,
        links: u64::from(cable.links),
        failed: u64::from(cable.failed),
        slowest_gb_per_s: cable.bandwidth.0.as_gb_per_s(),
        fastest_gb_per_s: cable.bandwidth.1.as_gb_per_s(),
        least_latency_ns: cable.latency.0.as_ns(),
        most_latency_ns: cable.latency.1.as_ns(),
        busy_ns: load.map(|(busy, _)| busy.as_ns()),
        bytes: load.map(|(_, bytes)| bytes),
        sends: None,
    }
}

/// The links of a graph by kind, else by the rows that they join, from the NPUs outwards.
fn sorts(graph: &GraphFabric, sketch: &Sketch) -> Vec<PictureSort> {
    let word = |row: u32| if row == 0 { "NPU".to_string() } else { format!("tier {row}") };
    let mut rows_of: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    let mut found: BTreeMap<(u32, u32, u32), PictureSort> = BTreeMap::new();
    for link in &graph.links {
        let (from, to) = (sketch.tier(link.from), sketch.tier(link.to));
        let (near, far) = (from.min(to), from.max(to));
        let named = graph.kinds.get(link.kind as usize).filter(|name| !name.is_empty());
        let (speed, latency) = (link.bandwidth.as_gb_per_s(), link.latency.as_ns());
        let rows = match named {
            Some(_) => *rows_of.entry(link.kind).or_insert((near, far)),
            None => (near, far),
        };
        let sort = found.entry((rows.0, rows.1, link.kind)).or_insert_with(|| PictureSort {
            name: named.map_or_else(|| format!("{} - {}", word(near), word(far)), String::clone),
            links: 0,
            slowest_gb_per_s: speed,
            fastest_gb_per_s: speed,
            least_latency_ns: latency,
            most_latency_ns: latency,
        });
        sort.links += 1;
        sort.slowest_gb_per_s = sort.slowest_gb_per_s.min(speed);
        sort.fastest_gb_per_s = sort.fastest_gb_per_s.max(speed);
        sort.least_latency_ns = sort.least_latency_ns.min(latency);
        sort.most_latency_ns = sort.most_latency_ns.max(latency);
    }
    found.into_values().collect()
}

/// The load of each cable; none without links. Where a link may represent others, cables between
/// the same tiers that have the same kinds of links all have the highest load among them, so that
/// it does not matter which ranks were simulated.
fn loads(sketch: &Sketch, used: &[LinkUsage], folds: bool) -> Vec<Option<Load>> {
    if used.is_empty() {
        return vec![None; sketch.cables.len()];
    }
    let mut loads: Vec<Load> = vec![(Span::ZERO, 0); sketch.cables.len()];
    for link in used {
        if let Some(cable) = sketch.cable(link.from, link.to) {
            let load = &mut loads[cable];
            *load = (load.0.max(link.busy), load.1.max(link.bytes));
        }
    }
    if folds {
        level(sketch, &mut loads, |most, load| *most = (most.0.max(load.0), most.1.max(load.1)));
    }
    loads.into_iter().map(Some).collect()
}

/// The same over time: percent of each bin.
fn over_time(sketch: &Sketch, sends: Option<&[Sends]>, folds: bool) -> Vec<Option<Vec<u8>>> {
    let Some(sends) = sends.filter(|sends| !sends.is_empty()) else {
        return vec![None; sketch.cables.len()];
    };
    let mut all: Vec<Vec<u8>> = vec![Vec::new(); sketch.cables.len()];
    for (link, sends) in sends {
        if let Some(cable) = sketch.cable(link.from, link.to) {
            busier(&mut all[cable], sends);
        }
    }
    if folds {
        level(sketch, &mut all, |most, sends| busier(most, sends));
    }
    all.into_iter().map(Some).collect()
}

/// Gives cables between the same tiers that have the same kinds of links the most of all of them.
fn level<T: Clone + Default>(sketch: &Sketch, loads: &mut [T], most: impl Fn(&mut T, &T)) {
    let tier = |cell: u32| sketch.cells[cell as usize].tier;
    let sort = |cable: &Cable| (tier(cable.a), tier(cable.b), cable.kinds.clone());
    let mut highest: BTreeMap<_, T> = BTreeMap::new();
    for (cable, load) in sketch.cables.iter().zip(&*loads) {
        most(highest.entry(sort(cable)).or_default(), load);
    }
    for (cable, load) in sketch.cables.iter().zip(loads) {
        *load = highest[&sort(cable)].clone();
    }
}
