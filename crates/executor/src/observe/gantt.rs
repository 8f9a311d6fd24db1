//! Activity of ranks over time, as bars: passes of micro-batches through a stage, the optimizer,
//! waits.
//!
//! Every moment of the first rank of a stage (or class) is charged to one operation (`layers.rs`).
//! Neighbours that belong to the same pass form one bar. In generated programs the name of an
//! operation contains its pass (`pass.rs`). Bars that look the same in a drawing are merged.

use super::layers::{self, intervals};
use super::log::Log;
use super::pass::{Pass, micro_batch};
use super::source::Source;
use graph::{Kernel, Op, Program};
use stats::{GanttBar, GanttLane, Part};
use units::{Span, Time};

/// Bars of all lanes together; a lane has at least `LEAST`.
const BARS: usize = 8_000;
const LEAST: usize = 100;

/// Activity that a bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Forward,
    Backward,
    WeightGrad,
    Recompute,
    Optimizer,
    /// Outside of all passes: a part of the step.
    Part(&'static str),
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Work::Forward => "forward",
            Work::Backward => "backward",
            Work::WeightGrad => "weight_grad",
            Work::Recompute => "recompute",
            Work::Optimizer => "optimizer",
            Work::Part(name) => name,
        }
    }

    fn of_pass(pass: Pass) -> Work {
        match pass {
            Pass::Forward | Pass::Other => Work::Forward,
            Pass::InputGradient => Work::Backward,
            Pass::WeightGradient => Work::WeightGrad,
            Pass::Recompute => Work::Recompute,
        }
    }

    /// The work of what is charged to `part`, if its name contains no pass.
    fn of(part: Part) -> Work {
        Work::Part(part.about().doing.map_or("", |doing| doing.lane.kind))
    }

    /// Whether it belongs to the backward pass of a micro-batch.
    fn goes_back(self) -> bool {
        matches!(self, Work::Backward | Work::WeightGrad | Work::Recompute)
    }
}

#[derive(Clone, Copy, Debug)]
struct Bar<'a> {
    from: Time,
    to: Time,
    work: Work,
    label: &'a str,
}

/// A lane for each stage of a pipeline, or for each of the `most` first classes.
pub(super) fn lanes(source: &Source, log: &Log, most: usize) -> Vec<GanttLane> {
    let new = |class: &usize| {
        source.labels[*class].is_empty()
            || !source.labels[..*class].contains(&source.labels[*class])
    };
    let classes: Vec<usize> = (0..source.classes.len()).filter(new).take(most).collect();
    let room = (BARS / classes.len().max(1)).max(LEAST);
    classes.into_iter().map(|class| lane(source, log, class, room)).collect()
}

fn lane(source: &Source, log: &Log, class: usize, room: usize) -> GanttLane {
    let (rank, step) = (source.classes[class], source.step);
    let program = source.workload.program(rank);
    let intervals = intervals(source, log, rank);
    let generated = source.workload.declaration.is_some();
    let mut bars: Vec<Bar> = Vec::new();
    layers::charge(&intervals, |at, part, from, to| {
        let (work, label) = what(program, intervals[at].node, part, generated);
        append(&mut bars, Bar { from, to, work, label }, Span::ZERO);
    });
    let bar = |bar: Bar| GanttBar {
        start_ns: bar.from.as_ns(),
        end_ns: bar.to.as_ns(),
        kind: bar.work.name().into(),
        label: bar.label.into(),
    };
    let label = match source.labels[class].as_str() {
        "" => format!("rank {rank}"),
        label => label.into(),
    };
    GanttLane {
        rank_class: class as u64,
        label,
        bars: fit(bars, step, room).into_iter().map(bar).collect(),
    }
}

/// Activity at a moment that is charged to a node as `part`, and its micro-batch or layer.
fn what(program: &Program, node: usize, part: Part, generated: bool) -> (Work, &str) {
    let numbered = micro_batch(program.name(node)).filter(|_| generated);
    match program.nodes()[node].op {
        Op::Compute { kernel: Kernel::Optimizer, .. } if numbered.is_none() => {
            (Work::Optimizer, "")
        }
        Op::Compute { cpu: false, .. }
        | Op::Gemm(_)
        | Op::Grouped(_)
        | Op::Lookup(_)
        | Op::Collective { .. }
            if part <= Part::Communication =>
        {
            let within = numbered.and_then(|(first, words)| Some((pass(words)?, first)));
            within.unwrap_or_else(|| (Work::of(part), program.layer(node)))
        }
        _ => (Work::of(part), program.layer(node)),
    }
}

/// The pass by the words of a name after the micro-batch. `None` for work between passes.
fn pass(words: &str) -> Option<Work> {
    let between = |(place, word): (usize, &str)| match word {
        "gradients" | "parameters" | "gather" | "regather" => true,
        _ => place == 0 && (word.starts_with("receive") || word.starts_with("send")),
    };
    let between = words.split('.').take(2).enumerate().any(between);
    (!between).then(|| Work::of_pass(Pass::of_words(words)))
}

/// Adds a bar, or makes the last one longer if it shows the same and ends at most `gap` before.
fn append<'a>(bars: &mut Vec<Bar<'a>>, bar: Bar<'a>, gap: Span) {
    match bars.last_mut() {
        Some(last)
            if last.label == bar.label
                && bar.from.since(last.to) <= gap
                && joins(last.work, bar.work) =>
        {
            last.to = bar.to;
            last.work = if last.work == bar.work { bar.work } else { Work::Backward };
        }
        _ => bars.push(bar),
    }
}

/// Whether neighbours of one micro-batch form one pass: gradients of inputs and of weights do, if
/// they alternate.
fn joins(last: Work, next: Work) -> bool {
    let gradient = |work| matches!(work, Work::Backward | Work::WeightGrad);
    last == next || gradient(last) && gradient(next)
}

/// Merges to at most `room` bars: first kernels without a visible gap, then recomputation with the
/// backward pass, then all that begins within the same `1 / room` of the step.
fn fit(bars: Vec<Bar>, step: Time, room: usize) -> Vec<Bar> {
    let gap = Span(step.0 / room as u64 / 4);
    let mut bars = joined(smoothed(bars, gap), gap);
    if bars.len() <= room {
        return bars;
    }
    bars.iter_mut().filter(|bar| bar.work.goes_back()).for_each(|bar| bar.work = Work::Backward);
    let bars = joined(bars, gap);
    if bars.len() <= room { bars } else { merged(bars, Span(step.0.div_ceil(room as u64))) }
}

fn joined(bars: Vec<Bar>, gap: Span) -> Vec<Bar> {
    let mut joined = Vec::with_capacity(bars.len());
    bars.into_iter().for_each(|bar| append(&mut joined, bar, gap));
    joined
}

/// Merges bars shorter than `least` with the one before, if that is of the same micro-batch and
/// there is no visible gap.
fn smoothed(bars: Vec<Bar>, least: Span) -> Vec<Bar> {
    let mut smooth: Vec<Bar> = Vec::with_capacity(bars.len());
    for bar in bars {
        match smooth.last_mut() {
            Some(last)
                if bar.to.since(bar.from) < least
                    && last.label == bar.label
                    && bar.from.since(last.to) <= least =>
            {
                last.to = bar.to;
            }
            _ => smooth.push(bar),
        }
    }
    smooth
}

/// Merges bars that begin within the same `width`. The merged bar shows what takes longest in it.
fn merged(bars: Vec<Bar>, width: Span) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    let mut longest = Span::ZERO;
    for bar in bars {
        let span = bar.to.since(bar.from);
        match merged.last_mut() {
            Some(last) if last.from.0 / width.0 == bar.from.0 / width.0 => {
                if span > longest {
                    (last.work, last.label, longest) = (bar.work, bar.label, span);
                }
                last.to = bar.to;
            }
            _ => {
                merged.push(bar);
                longest = span;
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(from: u64, to: u64, work: Work) -> Bar<'static> {
        Bar { from: Time(from), to: Time(to), work, label: "0" }
    }

    #[test]
    fn work_between_passes_is_none_of_them() {
        assert_eq!(pass("layer3.qkv.dgrad"), Some(Work::Backward));
        assert_eq!(pass("layer3.again.up"), Some(Work::Recompute));
        for name in ["receive_grad.0", "layer3.gradients.dp", "gather.layer3.parameters.dp"] {
            assert_eq!(pass(name), None, "{name}");
        }
    }

    #[test]
    fn a_pass_is_one_bar() {
        let alternating = vec![
            bar(0, 10, Work::Backward),
            bar(10, 30, Work::WeightGrad),
            bar(30, 40, Work::Backward),
        ];
        let found = joined(alternating, Span::ZERO);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].to, found[0].work), (Time(40), Work::Backward));
        let apart =
            joined(vec![bar(0, 10, Work::WeightGrad), bar(10, 20, Work::WeightGrad)], Span::ZERO);
        assert_eq!(apart[0].work, Work::WeightGrad);
    }

    #[test]
    fn the_number_of_bars_is_bounded() {
        let many = (0..10_000u64).map(|i| {
            bar(i * 10, i * 10 + 5, if i % 2 == 0 { Work::Forward } else { Work::of(Part::Host) })
        });
        let found = fit(many.collect(), Time(100_000), 100);
        assert!(found.len() <= 100, "{}", found.len());
        assert!(found.windows(2).all(|pair| pair[0].to <= pair[1].from));
    }
}
