use crate::apart;
use crate::estimate::{self, Estimate};
use crate::memory;
use crate::parts::{Block, Data, Split, Unit, Work};
use crate::passes::{Kind, Schedule};
use crate::pipeline::Pipeline;
use crate::script::Op;
use crate::step::{Scratch, Walk};
use crate::traffic::Traffic;
use proptest::prelude::*;

/// A script of kernels and collectives, and its time alone.
fn script() -> impl Strategy<Value = Vec<Op>> {
    let op = (0..3u8, 1..400u64, 0..4u8);
    prop::collection::vec(op, 0..5).prop_map(|ops| {
        let mut found = Vec::new();
        for (kind, time, dims) in ops {
            match kind {
                0 => found.push(Op::Kernel(time)),
                1 => found.push(Op::Call(time, dims)),
                _ => found.extend([Op::Start(time, dims, 0), Op::Kernel(2 * time), Op::Wait(0)]),
            }
        }
        found
    })
}

fn alone(script: &[Op]) -> Work {
    let kernels = script.iter().map(|op| if let Op::Kernel(time) = op { *time } else { 0 }).sum();
    Work { time: Traffic::default().play(0, script, 0.0), kernels }
}

/// Two kinds of units with scripts of their own.
fn units() -> impl Strategy<Value = (Vec<Unit>, Vec<Vec<Op>>)> {
    let sums = prop::array::uniform2((0..60u64, 0..60u64));
    (prop::collection::vec(script(), 12), sums).prop_map(|(scripts, sums)| {
        let unit = |at: usize| {
            let work = |i: usize| alone(&scripts[6 * at + i]);
            Unit {
                forward: work(0),
                narrow: work(1),
                again: work(2),
                backward: work(3),
                inputs: work(4),
                weights: work(5),
                first: sums[at].0,
                more: sums[at].1,
                scripts: std::array::from_fn(|i| (6 * at + i) as u32),
                ..Unit::default()
            }
        };
        ((0..2).map(unit).collect(), scripts)
    })
}

fn pipeline() -> impl Strategy<Value = Pipeline> {
    let schedules = prop::sample::select(vec![
        Schedule::GPipe,
        Schedule::OneForwardOneBackward,
        Schedule::Interleaved,
        Schedule::ZeroBubble,
        Schedule::DualPipe,
    ]);
    (schedules, 1..4u32, 1..16u32, 2..4u32, any::<bool>()).prop_map(
        |(schedule, half, rounds, chunks, overlap)| {
            let stages = if schedule == Schedule::DualPipe { 2 * half } else { half };
            let chunks = if schedule == Schedule::Interleaved { chunks } else { 1 };
            let overlap = overlap && !matches!(schedule, Schedule::GPipe | Schedule::ZeroBubble);
            Pipeline::new(schedule, stages, 2 * stages * rounds, chunks, overlap)
                .expect("a pipeline")
        },
    )
}

fn data() -> impl Strategy<Value = Data> {
    let times = || prop::collection::vec(prop::array::uniform2(0..900u64), 2);
    let at_once = any::<(bool, bool)>();
    let dims = prop::array::uniform3(prop::sample::select(vec![0u8, 1, 2, 4, 8, 16]));
    (0..4u8, times(), times(), times(), at_once, dims, 1..3u32, any::<bool>()).prop_map(
        |(zero, reduce, gather, replicas, (reduces, gathers), dims, most, copies)| {
            let pieces = reduce.iter().map(|each| each.map(|time| u32::from(time > 0) * most));
            Data {
                zero,
                overlaps_reduction: reduces,
                overlaps_gathering: gathers,
                pieces: pieces.collect(),
                reduce,
                gather,
                replicas: if copies { replicas } else { Vec::new() },
                reduce_all: vec![[70, 20]; 16],
                gather_all: vec![[50, 10]; 16],
                dense_ranks: 4,
                expert_ranks: 1,
                dims,
                ..Data::default()
            }
        },
    )
}

proptest! {
    /// Times do not change where walks leave periods out, and estimates of layouts whose collectives
    /// never meet are their bounds.
    #[test]
    fn a_walk_with_few_periods_ends_as_one_with_all(
        pipeline in pipeline(),
        (units, scripts) in units(),
        data in data(),
        message in 0..500u64,
        slowdown in prop::sample::select(vec![0.0, 0.0, 0.25]),
        long in any::<bool>(),
    ) {
        let parts = pipeline.parts as usize;
        let part = |at: usize| vec![(at % 2) as u8; if long && at.is_multiple_of(3) { 9 } else { 2 }];
        let split = Split { parts: (0..parts).map(part).collect(), sharing: Vec::new() };
        let block = Block { units, ..Block::default() };
        let messages = vec![message; parts + 1];
        let mut totals = Vec::new();
        memory::stages(&pipeline, &split, &block, &mut totals);
        let times = |pipeline: &Pipeline| {
            let walk = Walk {
                pipeline,
                split: &split,
                block: &block,
                data: &data,
                messages: &messages,
                totals: &totals,
            };
            let estimate = Estimate { walk: &walk, scripts: &scripts, slowdown };
            let bound = walk.step(&mut Scratch::default());
            let found = estimate.step(&mut estimate::Room::default());
            let apart = apart::dims(&block, &scripts, slowdown)
                .is_some_and(|dims| apart::holds(&walk, dims));
            (bound, found, apart)
        };
        let (bound, estimate, apart) = times(&pipeline);
        if apart {
            prop_assert_eq!(bound, estimate);
        }
        let all = Pipeline { repeats: Vec::new(), ..pipeline.clone() };
        prop_assert_eq!((bound, estimate, apart), times(&all));
    }
}

/// The middle of a long pipeline is left out, whatever its schedule.
#[test]
fn long_pipelines_repeat() {
    for schedule in [
        Schedule::GPipe,
        Schedule::OneForwardOneBackward,
        Schedule::Interleaved,
        Schedule::ZeroBubble,
        Schedule::DualPipe,
    ] {
        for overlap in [false, true] {
            let chunks = if schedule == Schedule::Interleaved { 2 } else { 1 };
            if overlap && matches!(schedule, Schedule::GPipe | Schedule::ZeroBubble) {
                continue;
            }
            let pipeline = Pipeline::new(schedule, 4, 200, chunks, overlap).expect("a pipeline");
            let left: usize = pipeline.repeats.iter().map(|each| each.length * each.count).sum();
            assert!(10 * left >= 8 * pipeline.stops.len(), "{schedule:?} {overlap} {left}");
        }
    }
}

/// A forward pass next to a backward one has its result when both are done.
#[test]
fn no_pass_takes_up_a_result_before_it_exists() {
    let schedules = [Schedule::OneForwardOneBackward, Schedule::Interleaved, Schedule::DualPipe];
    for (schedule, stages) in schedules.into_iter().flat_map(|each| [(each, 4), (each, 6)]) {
        let chunks = if schedule == Schedule::Interleaved { 2 } else { 1 };
        let pipeline = Pipeline::new(schedule, stages, 4 * stages, chunks, true).expect("it");
        let mut made = [vec![false; pipeline.results], vec![false; pipeline.results]];
        let mut aside = vec![None; stages as usize];
        for stop in &pipeline.stops {
            let own = usize::from(stop.kind != Kind::Forward);
            assert!(stop.from.is_none_or(|from| made[own][from as usize]), "{schedule:?}");
            let forward: &mut Option<u32> = &mut aside[stop.stage as usize];
            if stop.overlaps {
                *forward = Some(stop.own);
                continue;
            }
            forward.take().into_iter().for_each(|forward| made[0][forward as usize] = true);
            if stop.kind != Kind::Weights {
                made[own][stop.own as usize] = true;
            }
        }
    }
}
