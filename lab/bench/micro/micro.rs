//! Micro benchmarks: the event queue, starting and advancing a backend, building plans. Wall time,
//! by criterion.

use collective::{Algorithm, PlanRequest};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine::EventQueue;
use graph::CollectiveKind;
use net_analytical::{Analytical, Crossing, LinkQueues, Ports};
use network::{Backend, LinkCost, Transfer};
use std::hint::black_box;
use topology::{Block, Dim, Fabric, LinkGraph};
use units::{Bandwidth, Span, Time};

const EVENTS: u64 = 4096;
const BANDWIDTH: Bandwidth = Bandwidth(50_000_000_000);
const LATENCY: Span = Span::from_ns(500);

/// A full queue in which each event taken out schedules another, `step` of its number later.
fn event_queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event_queue");
    group.throughput(Throughput::Elements(EVENTS));
    type Case = (&'static str, fn(u64) -> u64);
    let cases: [Case; 2] =
        [("in_step", |_| 1000), ("out_of_step", |i| 1 + i.wrapping_mul(0x9e37_79b9) % 100_003)];
    for (name, step) in cases {
        let mut queue = EventQueue::default();
        (0..EVENTS).for_each(|i| queue.push(Time(step(i)), i, i));
        let mut order = EVENTS;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for _ in 0..EVENTS {
                    let (time, event) = queue.pop().expect("as many are pushed as popped");
                    queue.push(time + Span(step(order)), order, event);
                    order += 1;
                }
            });
        });
    }
    group.finish();
}

/// A thousand transfers between neighbours, started together and delivered.
fn backends(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("backend");
    group.throughput(Throughput::Elements(1024));
    let cost = LinkCost::Exact { bandwidth: BANDWIDTH, latency: LATENCY };
    let (bandwidth, latency) = (BANDWIDTH, LATENCY);
    let dim = Dim { block: Block::Ring, size: 32, bandwidth, latency, parallel: 1 };
    let link = || {
        LinkQueues::new(
            LinkGraph::new(&Fabric::Stacked([dim.clone(), dim.clone()].to_vec())).expect("a torus"),
            vec![cost; 2],
            false,
        )
    };
    let analytical =
        || Analytical::stacked(&[(Block::Ring, 32, cost); 2], Crossing::Every, Ports::OneAtATime);
    group.bench_function("analytical", |bencher| {
        bencher.iter_batched_ref(analytical, exchange, BatchSize::LargeInput)
    });
    group.bench_function("link", |bencher| {
        bencher.iter_batched_ref(link, exchange, BatchSize::LargeInput)
    });
    group.finish();
}

fn exchange(backend: &mut impl Backend) -> usize {
    let mut finished = Vec::new();
    for src in 0..1024u32 {
        let transfer = Transfer {
            src,
            dst: (src + 33) % 1024,
            bytes: 65_536,
            paced: 65_536,
            token: u64::from(src),
            weight: 1,
        };
        backend.start(Time(0), transfer);
    }
    let mut count = 0;
    while backend.next_event().is_some() {
        backend.advance(Time::MAX, &mut finished);
        count += finished.drain(..).count();
    }
    count
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    let algorithms = [
        ("ring", Algorithm::Ring),
        ("direct", Algorithm::Direct { window: None }),
        ("halving_doubling", Algorithm::HalvingDoubling),
        ("double_binary_tree", Algorithm::DoubleBinaryTree),
    ];
    for (name, algorithm) in algorithms {
        let request = PlanRequest {
            kind: CollectiveKind::AllReduce,
            algorithm,
            n: 256,
            bytes: 1 << 30,
            root: 0,
            chunk: 0,
        };
        group.bench_function(format!("{name}_256"), |bencher| {
            bencher.iter(|| black_box(&request).plan())
        });
    }
    group.finish();
}

criterion_group!(micro, event_queue, backends, plans);
criterion_main!(micro);
