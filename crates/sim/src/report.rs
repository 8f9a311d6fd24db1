//! From what the executor recorded to the Report: numbers only, the same whether the run was folded
//! or not.

use crate::config::Config;
use crate::labels::Labels;
use crate::memory::{self, Fullest};
use crate::network::{Observed, Sends, busier, digits};
use crate::parts::{ClassTimes, Outcome, Parts};
use crate::pools::Fill;
use crate::symmetry::Classes;
use crate::{assumptions, bounds, flits, names, packets, picture};
use engine::Digest;
use executor::observe::{self, Log, Source};
use executor::{Finished, RankTotals};
use graph::{Workload, ranges};
use indexmap::IndexMap;
use network::Usage;
use platform::Platform;
use platform::config::native;
use stats::{
    Class, Counts, Detail, Dimension, Link, Origin, Part, PerPart, Report, SCHEMA, StepParts,
    Symmetry,
};
use std::collections::BTreeMap;
use topology::{Fabric, GraphFabric};
use units::{GIGA, PS_PER_NS, Span, Time};

/// Operations listed, by total time.
const OPERATIONS: usize = 1000;
const PS_PER_S: u128 = 1_000_000_000_000;
/// Links listed, by busy time.
const LINKS: usize = 20;

/// Puts the report together.
pub(crate) fn outcome(
    config: &Config,
    parts: &Parts,
    symmetry: &Classes,
    finished: Finished,
    outside: &[Fill],
    (log, observed): (Option<Log>, Option<Observed>),
) -> Outcome {
    let step = finished.step();
    let (network, sends) = observed.map(|Observed { network, sends }| (network, sends)).unzip();
    let sends = sends.as_deref();
    let dimensions = dimensions(parts, &finished, step, sends);
    let mut operations = finished.operations.clone();
    operations.truncate(OPERATIONS);
    let assumptions = assumptions::of_run(parts, &finished.operations, step);
    let stored = assumptions::stored(parts, &finished.usage, step);
    let alike = rank_classes(parts, &finished.ranks);
    let first: Vec<u32> = alike.iter().map(|members| members[0]).collect();
    let (workload, folding) = (parts.workload, parts.folding);
    let labels = Labels::of_workload(workload);
    let at_peak = lowering::compute::at_peak(workload, parts.platform);
    let of_class = |members: &Vec<u32>| {
        let least = at_peak.as_ref().map(|all| all[program_of(parts, members) as usize]);
        class(parts, &labels, &finished.ranks, (members, least), step)
    };
    let classes: Vec<Class> = alike.iter().map(of_class).collect();
    let named: Vec<String> = classes.iter().map(|class| class.label.clone()).collect();
    let dims: Vec<String> =
        (0..parts.settings.sizes.len() as u32).map(|dim| dimension_name(parts, dim)).collect();
    let source = Source {
        workload,
        folding,
        symmetry: &symmetry.folding,
        classes: &first,
        labels: &named,
        dims: &dims,
        step,
    };
    let fullest = memory::fullest(parts, &finished.ranks);
    let report = Report {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        config: echo(config, parts),
        // Nothing is drawn.
        seed: 0,
        digest: digest(parts, &finished.ranks),
        warnings: assumptions::fitted_elsewhere(workload, parts.platform)
            .into_iter()
            .chain(warnings(parts, fullest.as_ref(), outside, &dimensions))
            .chain(crowded(parts, &finished.usage, step))
            .chain(stored)
            .chain(parts.platform.network.idle(config.backend.name()))
            .chain(parts.platform.network.doubt(config.backend.name()))
            .chain(one_draw(&finished.usage))
            .collect(),
        assumptions,
        step_time_ns: step.as_ns(),
        ranks: u64::from(parts.settings.ranks),
        fits: fullest.as_ref().and_then(|each| each.fits(parts)).map(|fits| fits.word().into()),
        memory_bytes: fullest.as_ref().map(|each| each.bytes),
        outside: outside.iter().map(Fill::row).collect(),
        classes,
        symmetry: Symmetry {
            classes: symmetry.folding.representatives.len() as u64,
            reason: symmetry.reason.clone(),
        },
        bounds: bounds::bounds(&dimensions, f64::from(parts.settings.ranks)),
        dimensions,
        phases: finished.delays.rows(&dims).into_iter().map(|(_, phase)| phase).collect(),
        operations,
        links: links(parts, &finished.usage.links),
        network,
        packets: packets::report(&parts.platform.fabric, &finished.usage, step),
        flits: flits::report(parts, &finished.usage, step),
        picture: picture::picture(
            &parts.platform.fabric,
            &finished.usage.links,
            symmetry.folding.representatives.len() < parts.settings.ranks as usize,
            log.is_some(),
            sends,
        ),
        counts: Counts {
            operations: parts.workload.operations(),
            transfers: finished.usage.transfers,
        },
        detail: log.map(|log| Detail {
            outside: outside.iter().map(|fill| fill.over_time(step)).collect(),
            ..observe::detail(&source, log)
        }),
        roofline: None,
    };
    Outcome {
        report,
        classes: finished
            .ranks
            .iter()
            .map(|r| ClassTimes { finish: r.finish, device: r.device })
            .collect(),
        class_of: parts.folding.class_of.clone(),
        simulated_ranks: finished.ranks.len() as u64,
        events: finished.events,
        timeline: None,
    }
}

fn echo(config: &Config, parts: &Parts) -> stats::Config {
    let (origin, declaration) = (&parts.workload.origin, parts.workload.declaration.as_deref());
    let summary = declaration.and_then(|d| serde_json::from_str(d.summary.as_deref()?).ok());
    let model = parts.workload.reading.model.as_deref();
    let loop_settings = parts.workload.reading.loop_settings;
    let workload = Origin {
        bucket_bytes: loop_settings.bucket.map(|bucket| bucket.0),
        overlap: loop_settings.overlap,
        traces: Some(origin.clone()).filter(|name| !name.is_empty()),
        programs: parts.workload.programs.len() as u64,
        groups: parts.workload.groups.len() as u64,
        summary,
        groups_file: parts.workload.reading.groups.clone(),
        passes: loop_settings.passes,
        model: model.and_then(|text| serde_json::from_str(text).ok()),
    };
    let native = config.platform.profile.is_native();
    stats::Config {
        backend: config.backend.to_string(),
        workload,
        platform: native::to_json(&config.platform),
        platform_file: native.then(|| native::to_yaml(&config.platform)),
    }
}

/// Over every rank's completions, in order of ranks.
fn digest(parts: &Parts, ranks: &[RankTotals]) -> String {
    let mut digest = Digest::default();
    (0..parts.settings.ranks)
        .for_each(|r| digest.add(ranks[parts.folding.local(r) as usize].digest));
    format!("{:016x}", digest.value())
}

/// A sender that loses a packet may wait for its timer or not, so a time with losses is chance.
fn one_draw(usage: &Usage) -> Option<String> {
    let packets = usage.packets.as_ref().filter(|packets| packets.events.drops > 0)?;
    let which = "which packets are lost decides who waits for a timer";
    let why = if packets.drawn > 0 {
        format!("one draw of many, because {which}; network.packet.seed draws again")
    } else {
        format!("one of many, because {which}, and differences of nanoseconds decide that")
    };
    Some(format!("packets were dropped ({}): the time is {why}", packets.events.drops))
}

fn warnings(
    parts: &Parts,
    fullest: Option<&Fullest>,
    outside: &[Fill],
    dimensions: &[Dimension],
) -> Vec<String> {
    let beyond = |d: &&Dimension| d.utilisation > 1.0;
    let text = |d: &Dimension| {
        let (name, times) = (&d.name, d.utilisation);
        format!(
            "{name} carried {times:.2} times what its links can carry: operations share links, which --backend flow and --backend link model"
        )
    };
    let shared: Vec<String> = dimensions.iter().filter(beyond).map(text).collect();
    let shared =
        declared(parts.workload).chain(shared).chain(fullest.and_then(|each| each.warning(parts)));
    let shared = shared.chain(outside.iter().filter_map(Fill::warning));
    shared.chain(stated(parts.workload, parts.platform)).collect()
}

/// Warnings of the workload's generator.
fn declared(workload: &Workload) -> impl Iterator<Item = String> {
    let declaration = workload.declaration.iter();
    declaration.flat_map(|declaration| declaration.warnings.iter().cloned())
}

/// Warnings of the platform, of the workload on its NPUs, and of the files of the workload.
fn stated(workload: &Workload, platform: &Platform) -> impl Iterator<Item = String> {
    let notes = workload.notes.iter().map(|(what, count)| format!("{what} ({})", times(*count)));
    let compute = lowering::compute::warnings(workload, platform);
    platform.warnings.iter().cloned().chain(compute).chain(notes)
}

/// Warnings and assumptions of a run, as far as they are known before it.
pub(crate) fn warnings_before(
    workload: &Workload,
    platform: &Platform,
    backend: &str,
) -> Vec<String> {
    let assumed = assumptions::before_run(workload, platform);
    assumptions::fitted_elsewhere(workload, platform)
        .into_iter()
        .chain(declared(workload))
        .chain(stated(workload, platform))
        .chain(platform.network.idle(backend))
        .chain(platform.network.doubt(backend))
        .chain(assumed.into_iter().map(|each| format!("assumed: {each}")))
        .collect()
}

/// Warnings about dimensions of a graph that carried more than they can: several operations or
/// phases together, since one by itself takes its time (`lowering/src/pattern.rs`).
fn crowded(parts: &Parts, usage: &Usage, step: Time) -> Vec<String> {
    let Fabric::Graph(graph) = &parts.platform.fabric else { return Vec::new() };
    let outermost = &usage.outermost;
    let (npus, ps) = (u128::from(parts.settings.ranks), u128::from(step.0));
    let crowded = |dim: usize| {
        let carried = outermost[dim..].iter().sum::<u128>();
        let (block, leaving) = (carried > 0).then(|| graph.leaving(dim)).flatten()?;
        let most = u128::from(leaving.0) * (npus / u128::from(block)) * ps / PS_PER_S;
        (carried > most).then(|| {
            let (name, times) = (dimension_name(parts, dim as u32), carried as f64 / most as f64);
            format!(
                "what {name} and the dimensions outside it carried is {times:.2} times what its \
                 links can carry: operations share links, which --backend flow and --backend link \
                 model"
            )
        })
    };
    let found: Vec<String> = (1..outermost.len()).filter_map(crowded).collect();
    if found.is_empty() { crowded_link(graph, usage, step).into_iter().collect() } else { found }
}

/// A warning about a link whose bytes take longer than the step.
fn crowded_link(graph: &GraphFabric, usage: &Usage, step: Time) -> Option<String> {
    let (link, needed) = usage.busiest.filter(|(_, needed)| needed.0 > step.0)?;
    let link = &graph.links[link as usize];
    let [from, to] = [link.from, link.to].map(|node| &graph.nodes[node as usize].name);
    let times = needed.as_ns() / step.as_ns();
    Some(format!(
        "the link from {from} to {to} carried {times:.2} times what it can in the time of the step: \
         operations share links, which --backend flow and --backend link model"
    ))
}

/// `22,528 times`.
fn times(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|g| std::str::from_utf8(g).unwrap_or_default())
        .collect();
    if count == 1 { "once".into() } else { format!("{} times", groups.join(",")) }
}

/// Ranks with the same program and the same totals, by first rank.
fn rank_classes(parts: &Parts, ranks: &[RankTotals]) -> Vec<Vec<u32>> {
    type Totals = (u64, Time, Span, PerPart<Span>, u64);
    let mut found: IndexMap<(u32, Totals), Vec<u32>> = IndexMap::new();
    for rank in 0..parts.settings.ranks {
        let totals = &ranks[parts.folding.local(rank) as usize];
        let key = (totals.digest, totals.finish, totals.comm, totals.parts, totals.peak);
        let program = parts.workload.ranks[rank as usize].program;
        found.entry((program, key)).or_default().push(rank);
    }
    found.into_values().collect()
}

/// The program of ranks that behave alike.
fn program_of(parts: &Parts, members: &[u32]) -> u32 {
    parts.workload.ranks[members[0] as usize].program
}

fn class(
    parts: &Parts,
    labels: &Labels,
    ranks: &[RankTotals],
    (members, at_peak): (&[u32], Option<Span>),
    step: Time,
) -> Class {
    let totals = &ranks[parts.folding.local(members[0]) as usize];
    let mut spent = totals.parts;
    let busy = Part::charged().map(|(part, _)| spent[part]).sum();
    spent[Part::Idle] = step.since(Time::ZERO).saturating_sub(busy);
    Class {
        label: labels.of(members[0]),
        ranks: ranges(members),
        count: members.len() as u64,
        program: program_of(parts, members),
        finish_ns: totals.finish.as_ns(),
        compute_finish_ns: totals.device_finish.as_ns(),
        parts: StepParts(spent.map(Span::as_ns)),
        at_peak_ns: at_peak.map(Span::as_ns),
        comm_ns: totals.comm.as_ns(),
        peak_memory_bytes: totals.peak,
        finish_minus_compute_ns: totals
            .finish
            .since(Time::ZERO)
            .saturating_sub(totals.device)
            .as_ns(),
    }
}

fn dimensions(
    parts: &Parts,
    finished: &Finished,
    step: Time,
    sends: Option<&[Sends]>,
) -> Vec<Dimension> {
    let (ranks, bytes) = (&finished.ranks, &finished.usage.bytes);
    let capacities = capacities(&parts.platform.fabric);
    let all: Vec<f64> = capacities.iter().map(|c| c.2).collect();
    let usable = bounds::usable(parts, &finished.lowered, &all);
    let npus = f64::from(parts.settings.ranks);
    let seconds = step.as_ns() / GIGA;
    // Queues follow the logical dimensions; they say how busy a physical one is only when both are
    // the same.
    let busy = |dim: usize| -> f64 {
        let sum = |i: usize| {
            u128::from(ranks[i].dim_busy.get(dim).map_or(0, |s| s.0))
                * u128::from(parts.folding.multiplicity[i])
        };
        (0..ranks.len()).map(sum).sum::<u128>() as f64 / npus / PS_PER_NS as f64
    };
    let links = &finished.usage.links;
    let link_busy = |dim: usize| {
        let of_dim = links.iter().filter(|link| link.dim as usize == dim);
        (!links.is_empty()).then(|| of_dim.map(|link| link.busy).max().unwrap_or_default())
    };
    let link_sends = |dim: usize| {
        let of_dim = sends?.iter().filter(|(link, _)| link.dim as usize == dim);
        let mut most = Vec::new();
        of_dim.for_each(|(_, sends)| busier(&mut most, sends));
        (!links.is_empty()).then(|| digits(&most))
    };
    let physical = parts.platform.logical.is_none() && all.len() == parts.platform.sizes().len();
    let row = |(dim, (name, link, npu)): (usize, (String, f64, f64))| {
        let capacity = npu * GIGA * seconds * npus;
        Dimension {
            name,
            link_gb_per_s: link,
            npu_gb_per_s: npu,
            usable_gb_per_s: usable[dim],
            bytes: bytes[dim],
            utilisation: if capacity > 0.0 { bytes[dim] as f64 / capacity } else { 0.0 },
            bound_ns: if usable[dim] > 0.0 { bytes[dim] as f64 / usable[dim] / npus } else { 0.0 },
            busy_ns: if physical { busy(dim) } else { 0.0 },
            link_busy_ns: link_busy(dim).map(Span::as_ns),
            link_sends: link_sends(dim),
        }
    };
    capacities.into_iter().enumerate().map(row).collect()
}

/// Name, GB/s of one link and outgoing GB/s of one NPU, by dimension.
fn capacities(fabric: &Fabric) -> Vec<(String, f64, f64)> {
    match fabric {
        Fabric::Stacked(dims) => {
            let row = |d: &topology::Dim| {
                let link = d.bandwidth.as_gb_per_s();
                (format!("{:?}({})", d.block, d.size), link, link * d.mean_leaving())
            };
            dims.iter().map(row).collect()
        }
        Fabric::Graph(graph) => {
            let out: f64 = graph
                .links
                .iter()
                .filter(|l| l.from < graph.npus)
                .map(|l| l.bandwidth.as_gb_per_s())
                .sum();
            let links = graph.links.iter().filter(|l| l.from < graph.npus).count().max(1);
            vec![("graph".into(), out / links as f64, out / f64::from(graph.npus.max(1)))]
        }
    }
}

/// The name of a dimension that collectives run over.
pub(crate) fn dimension_name(parts: &Parts, dim: u32) -> String {
    let name = match &parts.platform.fabric {
        Fabric::Graph(graph) if !graph.dims.is_empty() => {
            graph.dims.get(dim as usize).map(|d| format!("{}({})", d.name, d.size))
        }
        fabric => capacities(fabric).get(dim as usize).map(|c| c.0.clone()),
    };
    match (&parts.platform.logical, name) {
        (None, Some(name)) => name,
        _ => format!("dimension {}", dim + 1),
    }
}

/// Links used, equal ones together, the busiest first; a representative's links count for every
/// rank it stands for.
fn links(parts: &Parts, usage: &[network::LinkUsage]) -> Vec<Link> {
    type Key = (std::cmp::Reverse<Span>, u32, u64, u64, Span, u32);
    let mut alike: BTreeMap<Key, ((u32, u32), u64)> = BTreeMap::new();
    for link in usage.iter().filter(|l| l.messages > 0) {
        let key = (
            std::cmp::Reverse(link.busy),
            link.dim,
            link.bytes,
            link.messages,
            link.waited,
            link.longest_queue,
        );
        let entry = alike.entry(key).or_insert(((link.from, link.to), 0));
        entry.0 = entry.0.min((link.from, link.to));
        entry.1 += link.count.unwrap_or_else(|| parts.stands_for(link.from));
    }
    let row = |((busy, dim, bytes, messages, waited, longest), (ends, count)): (
        Key,
        ((u32, u32), u64),
    )| Link {
        name: names::link_of_dimension(&parts.platform.fabric, ends.0, ends.1, dim),
        count,
        bytes,
        busy_ns: busy.0.as_ns(),
        messages,
        queue_mean_ns: waited.as_ns() / messages as f64,
        queue_max: u64::from(longest),
    };
    alike.into_iter().take(LINKS).map(row).collect()
}
