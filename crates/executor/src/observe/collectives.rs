//! From the sums of chains to `detail.collectives`: one row for collectives and sends that are
//! alike, with the terms of their mean time.

use super::chain::TERMS;
use super::chains::{Asked, Sums};
use super::log::Log;
use super::source::Source;
use crate::names::pattern;
use collective::{Plan, Script};
use graph::{CollectiveKind, Op};
use indexmap::IndexMap;
use lowering::{PhaseSpec, Request};
use stats::{Collective, CollectivePhase, CollectiveTerms, PathPart};

/// Rows that are listed: those with the longest total time.
const ROWS: usize = 50;
/// Ids of nodes listed in a row.
const NODES: usize = 64;
/// Names that are listed of what a collective waited for.
const BEHIND: usize = 3;

/// Equal for those that are alike: the name without its numbers, bytes and, for a collective, what
/// it was.
type Key<'a> = (String, &'static str, u64, Option<Request>);

#[derive(Default)]
struct Row<'a> {
    asked: Option<&'a Asked>,
    nodes: Vec<u64>,
    sums: Sums,
}

/// The rows, by total time, largest first.
pub(super) fn collectives(source: &Source, log: &Log) -> Vec<Collective> {
    let mut rows: IndexMap<Key, Row> = IndexMap::new();
    for (program, node, asked, sums) in log.chains.sums() {
        let program = &source.workload.programs[program as usize];
        let found = program.nodes()[node as usize];
        let request = asked.map(|asked| Request { node: None, ..asked.request });
        let key =
            (pattern(program.name(node as usize)), found.op.kind_name(), bytes(&found.op), request);
        let row = rows.entry(key).or_default();
        row.asked = asked;
        row.nodes.push(found.id);
        row.sums.merge(sums);
    }
    let mut listed: Vec<_> = rows.into_iter().collect();
    let order = |(key, row): &(Key, Row)| {
        let asked = key.3.map(|request| (request.dims, request.root));
        (
            std::cmp::Reverse(row.sums.total),
            key.0.clone(),
            key.1,
            key.2,
            asked,
            row.asked.map(|a| a.ranks),
        )
    };
    listed.sort_by_cached_key(order);
    listed.truncate(ROWS);
    listed.into_iter().map(|(key, row)| show(source, key, row)).collect()
}

fn show(source: &Source, (name, kind, bytes, _): Key, mut row: Row) -> Collective {
    row.nodes.sort_unstable();
    row.nodes.dedup();
    row.nodes.truncate(NODES);
    let count = row.sums.count.max(1) as f64;
    let mean = |sum: u128| sum as f64 / 1e3 / count;
    Collective {
        name,
        kind: kind.into(),
        bytes,
        ranks: row.asked.map_or(2, |asked| asked.ranks.into()),
        chunks: row.asked.map_or(1, |asked| asked.lowered.chunks.into()),
        count: row.sums.count,
        nodes: row.nodes,
        mean_ns: mean(row.sums.total),
        max_ns: row.sums.longest.as_ns(),
        late_ns: mean(row.sums.late),
        ahead_ns: mean(row.sums.ahead),
        phases: row.asked.map_or_else(Vec::new, |asked| phases(source, asked)),
        terms: terms(&row.sums, count),
        behind: behind(source, &row.sums, count),
    }
}

fn terms(sums: &Sums, count: f64) -> Vec<CollectiveTerms> {
    let used = sums.terms.iter().enumerate().filter(|(_, terms)| terms.iter().any(|&sum| sum > 0));
    let row = |(dim, terms): (usize, &[u128; TERMS + 2])| {
        let [
            latency,
            transfer,
            port,
            endpoint,
            reduction,
            contention,
            congestion,
            queue,
            algorithm,
            messages,
            bytes,
        ] = terms.map(|sum| sum as f64 / count);
        CollectiveTerms {
            dim: dim as u64,
            messages,
            bytes,
            latency_ns: latency / 1e3,
            transfer_ns: transfer / 1e3,
            port_ns: port / 1e3,
            endpoint_ns: endpoint / 1e3,
            reduction_ns: reduction / 1e3,
            contention_ns: contention / 1e3,
            congestion_ns: congestion / 1e3,
            queue_ns: queue / 1e3,
            algorithm_ns: algorithm / 1e3,
        }
    };
    used.map(row).collect()
}

/// Causes of waiting, longest first. Equal names are summed.
fn behind(source: &Source, sums: &Sums, count: f64) -> Vec<PathPart> {
    let mut names: IndexMap<String, (u128, u64)> = IndexMap::new();
    for (&(program, node), &waited) in sums.behind.iter().filter(|(_, waited)| **waited > 0) {
        let name = pattern(source.workload.programs[program as usize].name(node as usize));
        let entry = names.entry(name).or_default();
        *entry = (entry.0 + waited, entry.1 + 1);
    }
    names.sort_by(|a, x, b, y| y.0.cmp(&x.0).then_with(|| a.cmp(b)));
    let part = |(name, (waited, nodes)): (String, (u128, u64))| PathPart {
        name,
        count: nodes,
        ns: waited as f64 / 1e3 / count,
    };
    names.into_iter().take(BEHIND).map(part).collect()
}

fn phases(source: &Source, asked: &Asked) -> Vec<CollectivePhase> {
    let specs = if asked.lowered.shapes.is_empty() { &[][..] } else { asked.lowered.phases(0) };
    let row = |spec: &PhaseSpec| {
        let plan = spec.plans.first().map(|plan| &plan.forward.plan);
        CollectivePhase {
            dim: spec.dim.into(),
            name: source.dims.get(spec.dim as usize).cloned().unwrap_or_default(),
            kind: spec.kind.name().into(),
            algorithm: spec.algorithm.to_string(),
            ranks: plan.map_or(asked.ranks, |plan| plan.n).into(),
            sends: plan.map_or(0.0, |plan| {
                mean(plan, |script| script.steps.iter().filter(|s| s.to.is_some()).count() as u64)
            }),
            sent_bytes: plan.map_or(0.0, |plan| mean(plan, sent)),
        }
    };
    // A library moves data between nodes as a chunk of its own.
    let others = asked
        .lowered
        .shapes
        .iter()
        .skip(1)
        .flatten()
        .filter(|s| specs.iter().all(|spec| spec.dim != s.dim));
    specs.iter().chain(others).map(row).collect()
}

fn sent(script: &Script) -> u64 {
    script.steps.iter().filter(|step| step.to.is_some()).map(|step| step.bytes).sum()
}

/// Mean over the positions of a plan.
fn mean(plan: &Plan, of: impl Fn(&Script) -> u64) -> f64 {
    let by_script: Vec<u64> = plan.scripts.iter().map(of).collect();
    let sum: u128 =
        (0..plan.n).map(|position| u128::from(by_script[plan.role(position) as usize])).sum();
    sum as f64 / f64::from(plan.n.max(1))
}

fn bytes(op: &Op) -> u64 {
    match op {
        Op::Collective { kind: CollectiveKind::Barrier, .. } => 0,
        Op::Collective { bytes, .. } | Op::Send { bytes, .. } => bytes.0,
        _ => 0,
    }
}
