//! Schedules worked out by hand.

use super::predict::Cost;
use super::*;
use collective::{Hierarchy, Phase};
use graph::CollectiveKind;
use platform::Queues;
use std::collections::BTreeMap;

/// A phase of `bytes` takes a nanosecond for each byte it sends, divided by the speed of its
/// dimension.
fn costs<'a>(
    dims: &'a [(u32, u32)],
    speeds: &'a [u64],
) -> impl Fn(&Phase) -> Result<Cost, Problem> + 'a {
    move |phase| {
        let at = phase.dim.unwrap() as usize;
        let n = u64::from(dims[at].1);
        let sent = match phase.kind {
            CollectiveKind::AllReduce => 2 * phase.bytes * (n - 1) / n,
            CollectiveKind::AllGather => phase.bytes * (n - 1),
            _ => phase.bytes * (n - 1) / n,
        };
        let time = Span(sent * 1000 / speeds[at]);
        Ok(Cost { sent, alone: time, serial: time, link: time })
    }
}

fn job<'a>(kind: CollectiveKind, dims: &'a [(u32, u32)], chunks: &'a [u64]) -> Job<'a> {
    const QUEUES: [Queues; 4] = [Queues { count: 1, room: 1 }; 4];
    let (smallest_first, directions) = (false, [false; 4].as_slice());
    let whole = &[false; 4][..dims.len()];
    Job {
        kind,
        dims,
        chunks,
        hierarchy: Hierarchy::Enhanced,
        queues: &QUEUES[..dims.len()],
        dispatch: None,
        smallest_first,
        directions,
        whole,
    }
}

const SQUARE: [(u32, u32); 2] = [(0, 4), (1, 4)];

/// Two dimensions of 4, the first twice as fast, chunks of 64: chunk 1 puts 48 / 2 = 24 on
/// dimension 1 and 12 on dimension 2; chunk 2 begins on dimension 2, 48 there and 6 on dimension 1:
/// 30 and 60; chunk 3 begins on dimension 1: 54 and 72; and so does chunk 4: 78 and 84.
#[test]
fn themis_follows_the_lighter_load() {
    for (policy, kind) in [
        (DimensionOrder::OfflineGreedy, CollectiveKind::ReduceScatter),
        (DimensionOrder::OfflineGreedy, CollectiveKind::AllReduce),
        (DimensionOrder::Themis, CollectiveKind::ReduceScatter),
    ] {
        let orders =
            orders(policy, &job(kind, &SQUARE, &[64; 4]), &costs(&SQUARE, &[2, 1])).unwrap();
        assert_eq!(orders, [[0, 1], [1, 0], [0, 1], [0, 1]], "{policy:?} {kind:?}");
    }
}

/// An all-gather of 4 bytes an NPU takes dimension 2 first and 3 * 4 = 12 there, then 3 * 16 / 2 =
/// 24 on dimension 1: the mirror image.
#[test]
fn an_all_gather_ends_on_the_lightest() {
    let orders = orders(
        DimensionOrder::Themis,
        &job(CollectiveKind::AllGather, &SQUARE, &[4; 4]),
        &costs(&SQUARE, &[2, 1]),
    );
    assert_eq!(orders.unwrap(), [[0, 1], [1, 0], [0, 1], [0, 1]]);
}

/// While loads differ by no more than a sixteenth of a chunk takes on the least loaded dimension, a
/// chunk takes the baseline's order.
#[test]
fn level_loads_keep_the_baseline() {
    let orders = |chunks: &[u64]| {
        orders(
            DimensionOrder::OfflineGreedy,
            &job(CollectiveKind::ReduceScatter, &SQUARE, chunks),
            &costs(&SQUARE, &[1, 1]),
        )
    };
    // 48 and 12, then 60 and 60: level.
    assert_eq!(orders(&[64; 3]).unwrap(), [[0, 1], [1, 0], [0, 1]]);
    // 60 and 57: a gap of 3 is no more than a sixteenth of 640 takes (30); one of 36 is more.
    assert_eq!(orders(&[64, 61, 640]).unwrap()[2], [0, 1]);
    assert_eq!(orders(&[64, 640]).unwrap()[1], [1, 0]);
}

#[test]
fn where_there_is_no_choice_there_are_no_orders() {
    let costs = costs(&SQUARE, &[1, 4]);
    for kind in CollectiveKind::ALL {
        let choice = matches!(
            kind,
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::AllGather
        );
        for policy in [DimensionOrder::Themis, DimensionOrder::OfflineGreedy] {
            let some = |job: &Job| !orders(policy, job, &costs).unwrap().is_empty();
            assert_eq!(some(&job(kind, &SQUARE, &[64; 8])), choice, "{policy:?} {kind:?}");
            assert!(!some(&job(kind, &SQUARE, &[64])) && !some(&job(kind, &SQUARE[..1], &[64; 8])));
            let whole = Job {
                hierarchy: Hierarchy::Baseline,
                ..job(CollectiveKind::AllReduce, &SQUARE, &[64; 8])
            };
            assert!(!some(&whole));
        }
    }
    assert!(
        orders(
            DimensionOrder::Baseline,
            &job(CollectiveKind::AllReduce, &SQUARE, &[64; 8]),
            &costs
        )
        .unwrap()
        .is_empty()
    );
}

/// Whatever the order of each chunk, the dimensions carry the same sum of bytes: `2 m (1 - 1/N)`.
#[test]
fn the_sum_of_bytes_does_not_depend_on_the_order() {
    let dims = [(0, 2), (1, 8), (2, 4)];
    let costs = costs(&dims, &[1, 1, 1]);
    let mut seen = BTreeMap::new();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let job = job(CollectiveKind::AllReduce, &dims, &[6400]);
        let sum: u64 = job.phases(6400, &order).iter().map(|p| costs(p).unwrap().sent).sum();
        seen.insert(order, sum);
    }
    assert!(seen.values().all(|&sum| sum == 2 * 6400 * 63 / 64), "{seen:?}");
}

/// Three chunks over stages of 24 and 12: the slower one is never idle, the faster one adds its
/// last.
#[test]
fn a_pipeline_ends_after_its_slowest_stage() {
    let job = job(CollectiveKind::ReduceScatter, &SQUARE, &[64; 3]);
    let end = |orders: &[Order]| pipeline::end(&job, orders, &costs(&SQUARE, &[2, 1])).unwrap();
    assert_eq!(end(&baseline::orders(&job)), Span::from_ns(3 * 24 + 12));
    // The second chunk takes 48 on dimension 2 from the start; the first's 12 there wait for it,
    // the third's for those.
    assert_eq!(end(&[vec![0, 1], vec![1, 0], vec![0, 1]]), Span::from_ns(48 + 12 + 12));
}

/// On alike dimensions all shares are equal. Of 64 bytes, 48 are sent on the first dimension of an
/// order and 12 on the other. With dimension 1 twice as fast, its load is `24 w + 6 v` and that of
/// dimension 2 `12 w + 48 v` for shares w and v. They are equal at w = 7 / 9 of 128 grains.
#[test]
fn shares_level_the_loads() {
    let grains = |speeds: &[u64]| -> Vec<(Order, u32)> {
        let costs = costs(&SQUARE, speeds);
        let job = job(CollectiveKind::ReduceScatter, &SQUARE, &[64]);
        let shares = shares(2, Some((&job, &costs))).unwrap();
        shares.into_iter().map(|share| (share.order, share.grains)).collect()
    };
    assert_eq!(grains(&[1, 1]), [(vec![0, 1], 64), (vec![1, 0], 64)]);
    assert_eq!(grains(&[2, 1]), [(vec![0, 1], 100), (vec![1, 0], 28)]);
    let unknown: Vec<u32> = shares(3, None).unwrap().iter().map(|share| share.grains).collect();
    assert_eq!(unknown, [64; 3]);
}
