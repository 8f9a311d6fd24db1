//! From the log to `Report::detail`: sums by layer, activity over time and the critical path. They
//! are the same whether the run was folded or not.

use super::activities::Activities;
use super::collectives::collectives;
use super::layers::{self, intervals};
use super::log::Log;
use super::pass::Pass;
use super::path::{Segment, Walk};
use super::source::Source;
use super::{bins, gantt, memory};
use crate::names::pattern;
use indexmap::IndexMap;
use stats::{
    Activity, ActivityParts, CriticalPath, Detail, Layer, LayerParts, LayerPass, Part,
    PathOperation, PathPart, PathSegment, PathSeries, PerPart,
};
use std::collections::BTreeMap;
use units::{Span, Time};

/// Segments of the critical path that are listed: the longest.
const SEGMENTS: usize = 400;
/// Operations of the critical path that are listed: those with the longest sums.
const OPERATIONS: usize = 200;
/// Classes of ranks whose layers are listed.
const CLASSES: usize = 64;

/// See the module.
pub fn detail(source: &Source, mut log: Log) -> Detail {
    let activities = std::mem::take(&mut log.activity);
    Detail {
        layers: layers(source, &log),
        layer_phases: log.delays.rows(source),
        bin_ns: bins::width(source.step) as f64 / 1e3,
        activity: activity(source, activities),
        gantt: gantt::lanes(source, &log, CLASSES),
        memory: memory::held(source, &log, CLASSES),
        outside: Vec::new(),
        critical_path: critical_path(source, &log),
        collectives: collectives(source, &log),
    }
}

fn activity(source: &Source, activities: Activities) -> Activity {
    let ranks = activities.ranks() as f64;
    let means = |bins: bins::Bins| bins.means(source.step, ranks);
    Activity {
        parts: ActivityParts(activities.parts.map(means)),
        dimensions: activities.dimensions.into_iter().map(means).collect(),
        waiting: activities.waiting.into_iter().map(means).collect(),
    }
}

fn layers(source: &Source, log: &Log) -> Vec<Layer> {
    let listed = source.classes.iter().take(CLASSES).enumerate();
    listed.flat_map(|(class, &rank)| class_layers(source, log, class as u64, rank)).collect()
}

fn class_layers(source: &Source, log: &Log, class: u64, rank: u32) -> Vec<Layer> {
    let program = source.workload.program(rank);
    let key = |node: usize| (program.layer(node), Pass::of_node(program, node));
    let keys: Vec<layers::Key> = (0..program.nodes().len()).map(key).collect();
    let mut by_layer: IndexMap<&str, Vec<(Pass, layers::Sums)>> = IndexMap::new();
    for ((layer, pass), sums) in layers::sums(&intervals(source, log, rank), &keys) {
        by_layer.entry(layer).or_default().push((pass, sums));
    }
    by_layer.into_iter().map(|(layer, passes)| layer_row(class, layer, passes)).collect()
}

fn layer_row(class: u64, layer: &str, mut passes: Vec<(Pass, layers::Sums)>) -> Layer {
    passes.sort_by_key(|(pass, _)| *pass);
    let sum = |of: fn(&layers::Sums) -> &PerPart<Span>| {
        PerPart::of(|part| passes.iter().map(|(_, sums)| of(sums)[part]).sum::<Span>().as_ns())
    };
    let pass = |(pass, sums): &(Pass, layers::Sums)| LayerPass {
        pass_name: pass.name().into(),
        compute_ns: sums.charged[Part::Compute].as_ns(),
        comm_ns: sums.in_flight[Part::Communication].as_ns(),
        exposed_comm_ns: sums.charged[Part::Communication].as_ns(),
    };
    Layer {
        rank_class: class,
        layer: layer.into(),
        parts: LayerParts {
            charged: sum(|sums| &sums.charged),
            in_flight: sum(|sums| &sums.in_flight),
        },
        passes: passes.iter().map(pass).collect(),
    }
}

fn critical_path(source: &Source, log: &Log) -> CriticalPath {
    let (folding, symmetry) = (source.folding, source.symmetry);
    let stand_in = |local: u32| {
        let class = symmetry.local(folding.representatives[local as usize]);
        folding.local(symmetry.representatives[class as usize])
    };
    let ids = &folding.representatives;
    let path = Walk { workload: source.workload, log, ids, stand_in: &stand_in }.path();
    let program = |s: &Segment| source.workload.program(ids[s.place.0 as usize]);
    let node = |s: &Segment| s.place.1 as usize;
    let kind =
        |s: &Segment| if s.launch { "launch" } else { program(s).nodes()[node(s)].op.kind_name() };
    CriticalPath {
        count: path.len() as u64,
        segments: longest(&path)
            .map(|s| PathSegment {
                rank: u64::from(ids[s.place.0 as usize]),
                node: program(s).nodes()[node(s)].id,
                name: program(s).name(node(s)).into(),
                kind: kind(s).into(),
                layer: program(s).layer(node(s)).into(),
                start_ns: s.start.as_ns(),
                end_ns: s.end.as_ns(),
                cause: s.cause.name().into(),
            })
            .collect(),
        over_time: over_time(&path, kind, source.step),
        by_kind: parts(&path, kind),
        by_layer: parts(&path, |s| program(s).layer(node(s))),
        by_cause: parts(&path, |s| s.cause.name()),
        by_operation: operations(&path, |s| (program(s).name(node(s)), kind(s))),
    }
}

/// The time of the path by kind in each bin of a run of `step`. The path has no gap, so the kinds
/// of a bin sum to its width.
fn over_time<'a>(
    path: &'a [Segment],
    of: impl Fn(&'a Segment) -> &'a str,
    step: Time,
) -> Vec<PathSeries> {
    let mut series: IndexMap<&str, bins::Bins> = IndexMap::new();
    for segment in path {
        series.entry(of(segment)).or_default().add(segment.start, segment.end, 1);
    }
    series.sort_keys();
    let row =
        |(kind, bins): (&str, bins::Bins)| PathSeries { kind: kind.into(), ns: bins.sums(step) };
    series.into_iter().map(row).collect()
}

/// The longest segments, in order of time.
fn longest(path: &[Segment]) -> impl Iterator<Item = &Segment> {
    let mut order: Vec<usize> = (0..path.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(path[i].end.since(path[i].start)), i));
    order.truncate(SEGMENTS);
    order.sort_unstable();
    order.into_iter().map(|i| &path[i])
}

/// Time, segments, and the time by cause.
type Spent = (Span, u64, BTreeMap<&'static str, Span>);

/// Sums of a path by kind and name of operations (without the numbers in it), largest first.
fn operations<'a>(
    path: &'a [Segment],
    of: impl Fn(&'a Segment) -> (&'a str, &'a str),
) -> Vec<PathOperation> {
    let mut sums: IndexMap<(String, &str), Spent> = IndexMap::new();
    for segment in path {
        let (name, kind) = of(segment);
        let (sum, count, causes) = sums.entry((pattern(name), kind)).or_default();
        let span = segment.end.since(segment.start);
        *sum += span;
        *count += 1;
        *causes.entry(segment.cause.name()).or_default() += span;
    }
    sums.sort_by(|a, x, b, y| y.0.cmp(&x.0).then_with(|| a.cmp(b)));
    sums.truncate(OPERATIONS);
    let most = |causes: BTreeMap<&str, Span>| {
        causes.into_iter().max_by_key(|&(_, span)| span).map_or("", |c| c.0).into()
    };
    let row = |((name, kind), (span, count, causes)): ((String, &str), Spent)| PathOperation {
        name,
        kind: kind.into(),
        count,
        ns: span.as_ns(),
        cause: most(causes),
    };
    sums.into_iter().map(row).collect()
}

/// Sums of a path by `of`, largest first.
fn parts<'a>(path: &'a [Segment], of: impl Fn(&'a Segment) -> &'a str) -> Vec<PathPart> {
    let mut sums: IndexMap<&str, (Span, u64)> = IndexMap::new();
    for segment in path {
        let entry = sums.entry(of(segment)).or_default();
        entry.0 += segment.end.since(segment.start);
        entry.1 += 1;
    }
    sums.sort_by(|a, x, b, y| y.0.cmp(&x.0).then_with(|| a.cmp(b)));
    sums.into_iter()
        .map(|(name, (span, count))| PathPart { name: name.into(), count, ns: span.as_ns() })
        .collect()
}
