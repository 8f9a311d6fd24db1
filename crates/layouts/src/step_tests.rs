use super::*;
use crate::memory;
use crate::parts::{Place, Sizes};
use crate::passes::Schedule;
use proptest::prelude::*;

fn work() -> impl Strategy<Value = Work> {
    (0..1000u64, 0..1000u64).prop_map(|(kernels, waits)| Work { time: kernels + waits, kernels })
}

fn unit() -> impl Strategy<Value = Unit> {
    (prop::array::uniform6(work()), 0..50u64, 0..50u64).prop_map(|(works, first, more)| {
        let [forward, narrow, again, backward, inputs, weights] = works;
        let sizes = Sizes { dense: 10, ..Sizes::default() };
        let scripts = [0; 6];
        Unit { forward, narrow, again, backward, inputs, weights, first, more, scripts, sizes }
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
    (schedules, 1..4u32, 1..4u32, 2..4u32, any::<bool>()).prop_map(
        |(schedule, half, rounds, chunks, overlap)| {
            let stages = if schedule == Schedule::DualPipe { 2 * half } else { half };
            let chunks = if schedule == Schedule::Interleaved { chunks } else { 1 };
            let micro_batches = 2 * stages * rounds;
            let overlap = overlap && !matches!(schedule, Schedule::GPipe | Schedule::ZeroBubble);
            Pipeline::new(schedule, stages, micro_batches, chunks, overlap).expect("a pipeline")
        },
    )
}

proptest! {
    /// A search stops by the quick bound, so it must not be above the one that it stands for.
    #[test]
    fn the_quick_bound_is_not_above_the_bound(
        pipeline in pipeline(),
        units in prop::collection::vec(unit(), 3),
        zero in 0..4u8,
        message in 0..500u64,
        collective in 0..500u64,
    ) {
        let parts = pipeline.parts as usize;
        let split = Split {
            parts: (0..parts).map(|part| vec![(part % 3) as u8; 1 + part % 2]).collect(),
            ..Split::default()
        };
        let block = Block { units, ..Block::default() };
        let stages = pipeline.stages as usize;
        let data = Data {
            zero,
            overlaps_reduction: true,
            overlaps_gathering: true,
            reduce: vec![[collective, 0]; 3],
            gather: vec![[collective, 0]; 3],
            reduce_all: vec![[0; 2]; stages],
            gather_all: vec![[0; 2]; stages],
            dense_ranks: 4,
            expert_ranks: 1,
            ..Data::default()
        };
        let messages = vec![message; parts + 1];
        let mut totals = Vec::new();
        memory::stages(&pipeline, &split, &block, &mut totals);
        let walk = Walk {
            pipeline: &pipeline,
            split: &split,
            block: &block,
            data: &data,
            messages: &messages,
            totals: &totals,
        };
        prop_assert!(walk.quick() <= walk.step(&mut Scratch::default()));
    }

    /// Divisions of a group are in the order of what they recompute: each needs at most the memory
    /// of the one before it, and no less time.
    #[test]
    fn more_recomputed_layers_need_less_memory_and_more_time(
        pipeline in pipeline(),
        units in prop::collection::vec((unit(), 0..900u64, 0..900u64), 2),
        layers in prop::collection::vec(0..2u8, 4),
        zero in 0..4u8,
        loss in 0..900u64,
        head in any::<bool>(),
    ) {
        let dropped = units.iter().map(|&(_, _, spared)| spared).max().unwrap_or(0);
        let kind = |&(unit, kept, spared): &(Unit, u64, u64), again: bool| {
            let back = if again { dropped } else { 0 };
            let (kept, spared) = if again { (kept, 0) } else { (kept + spared, spared) };
            let sizes = Sizes { kept, spared, back, ..unit.sizes };
            let work = if again { unit.again } else { Work::default() };
            Unit { again: work, sizes, ..unit }
        };
        let mut kinds: Vec<Unit> = units.iter().map(|each| kind(each, true)).collect();
        kinds.extend(units.iter().map(|each| kind(each, false)));
        let place = Place::Head;
        kinds.push(Unit { sizes: Sizes { place, ..Sizes::default() }, ..Unit::default() });
        let block = Block { units: kinds, dropped, counts_layers: true, loss, ..Block::default() };
        let parts = pipeline.parts as usize;
        let data = Data {
            zero,
            overlaps_reduction: true,
            overlaps_gathering: true,
            reduce: vec![[70, 0]; 5],
            gather: vec![[90, 0]; 5],
            dense_ranks: 4,
            expert_ranks: 1,
            ..Data::default()
        };
        let messages = vec![30; parts + 1];
        let mut before: Option<(u64, u64)> = None;
        for count in 1..=layers.len() {
            let part = |at: usize| {
                let left = |(i, &layer): (usize, &u8)| if i < count { layer } else { layer + 2 };
                let units = layers[..layers.len() - at % 2].iter().enumerate().map(left);
                units.chain((head && at + 1 == parts).then_some(4)).collect()
            };
            let split = Split { parts: (0..parts).map(part).collect(), ..Split::default() };
            let mut totals = Vec::new();
            memory::stages(&pipeline, &split, &block, &mut totals);
            let walk = Walk {
                pipeline: &pipeline,
                split: &split,
                block: &block,
                data: &data,
                messages: &messages,
                totals: &totals,
            };
            let bytes = totals.iter().map(|stage| stage.held(&block, &data).total()).max();
            let now = (bytes.unwrap_or(0), walk.step(&mut Scratch::default()));
            if let Some((bytes, time)) = before {
                prop_assert!(now.0 <= bytes && now.1 >= time);
            }
            before = Some(now);
        }
    }
}
