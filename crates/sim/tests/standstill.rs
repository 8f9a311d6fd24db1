//! Standstills: a run that cannot go on ends at once and says who waits for whom; and what looks
//! like one but is none goes on.

use crate::common::built::{WORK, collective, config, recv, send, workload};
use collective::custom::Custom;
use graph::{CollectiveKind, Node, Op, Program, ProgramBuilder, Workload};
use platform::CustomAlgorithm;
use sim::Error;
use sim::{BackendKind, Outcome, run};
use std::sync::Arc;
use units::Span;

/// An operation and what it waits for.
type Call<'a> = (Op, &'a [u64]);

const BACKENDS: [BackendKind; 5] = BackendKind::ALL;
const PLATFORM: &str = "topology: Ring(4)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n";
const PAIR: &str = "topology: Ring(2)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n";

fn simulate(platform: &str, workload: Workload, backend: BackendKind) -> Result<Outcome, Error> {
    run(&config(platform, workload, backend), &mut |_| true)
}

#[test]
fn stalled_runs_end_and_name_the_circle() {
    use CollectiveKind::AllReduce;
    let head_to_head = workload(
        &[&[(recv(1, 8), &[]), (send(1, 8), &[0])], &[(recv(-1, 8), &[]), (send(-1, 8), &[0])]],
        &[],
    );
    let (first, second) = (collective(AllReduce, 8, 1), collective(AllReduce, 8, 2));
    let crossed = workload(
        &[&[(first, &[]), (second, &[0])], &[(second, &[]), (first, &[0])]],
        &[&[0, 1], &[1, 0]],
    );
    for backend in BACKENDS {
        for (name, workload, what) in
            [("receives first", &head_to_head, "recv"), ("groups crossed", &crossed, "all_reduce")]
        {
            let Err(Error::Stalled(stall)) = simulate(PAIR, workload.clone(), backend.clone())
            else {
                panic!("{name}: no stall")
            };
            assert_eq!(stall.unfinished, 4, "{name}: {stall}");
            let waiting: Vec<_> = stall
                .waiting
                .iter()
                .map(|w| (w.rank, w.node, w.what.as_str(), w.on.clone()))
                .collect();
            assert_eq!(waiting, vec![(0, 0, what, vec![1]), (1, 0, what, vec![0])], "{name}");
            let mut circle = stall.cycle.clone();
            circle.sort_unstable();
            assert_eq!(circle, vec![0, 1], "{name}");
            let text = stall.to_string();
            assert!(
                text.contains("rank 0 node 0")
                    && text.contains("waits for rank 1")
                    && text.contains("circle"),
                "{text}"
            );
        }
    }
}

/// Three ranks in a circle beside a fourth that is not to blame.
#[test]
fn a_stall_names_the_ranks_of_the_circle_only() {
    let waits =
        |from: i32, to: i32| -> Vec<Call<'_>> { vec![(recv(from, 8), &[]), (send(to, 8), &[0])] };
    let (zero, one, two) = (waits(2, 1), waits(-1, 1), waits(-1, -2));
    let innocent: Vec<Call<'_>> = vec![(WORK, &[])];
    let built = workload(&[&zero, &one, &two, &innocent], &[]);
    for backend in BACKENDS {
        let Err(Error::Stalled(stall)) = simulate(PLATFORM, built.clone(), backend) else {
            panic!("no stall")
        };
        let mut circle = stall.cycle.clone();
        circle.sort_unstable();
        assert_eq!(circle, vec![0, 1, 2], "{stall}");
        assert_eq!(stall.unfinished, 6, "{stall}");
    }
}

/// Ranks 0 and 1 issue two collectives in opposite orders on their only stream: as with NCCL, each
/// waits in one for the other.
#[test]
fn opposite_orders_on_one_stream_are_a_standstill() {
    use CollectiveKind::{AllGather, AllReduce};
    let (first, second): (Call<'_>, Call<'_>) =
        ((collective(AllReduce, 64, 1), &[]), (collective(AllGather, 32, 2), &[]));
    let built = workload(&[&[first, second], &[second, first]], &[&[0, 1], &[1, 0]]);
    for (policy, backend) in ["fifo", "lifo"].into_iter().flat_map(|p| BACKENDS.map(|b| (p, b))) {
        let platform = format!("{PAIR}scheduler: {{policy: {policy}, comm_streams: 1}}\n");
        let Err(Error::Stalled(stall)) = simulate(&platform, built.clone(), backend.clone()) else {
            panic!("no stall")
        };
        let mut circle = stall.cycle.clone();
        circle.sort_unstable();
        assert_eq!((circle, stall.unfinished), (vec![0, 1], 4), "{stall}");
        simulate(&platform.replace("comm_streams: 1", "comm_streams: 2"), built.clone(), backend)
            .expect("room for both");
    }
}

/// A circle through places in queues, which no order of the workload asks for: all ranks issue H <
/// K < J < L in this order.
///
/// The world's K has ended its first phase on ranks 0, 1, 4 and 5 and waits there for 2 and 3,
/// whose place in dimension 1 is held by the later L. L waits for a stream of 0 and 1, which K and
/// J hold, and J for K's place in dimension 2.
#[test]
fn places_in_queues_never_stop_a_run() {
    use CollectiveKind::AllReduce;
    let call = |bytes, slot| collective(AllReduce, bytes, slot);
    let (h, k) = (call(1 << 22, 1), call(64, 0));
    let ahead = |j, l| -> Vec<Call<'_>> {
        vec![(k, &[]), (WORK, &[]), (call(64, j), &[1]), (call(64, l), &[1])]
    };
    let behind = |l| -> Vec<Call<'_>> { vec![(h, &[]), (k, &[]), (call(64, l), &[])] };
    let last = |j| -> Vec<Call<'_>> { vec![(k, &[]), (WORK, &[]), (call(64, j), &[1])] };
    let programs = [ahead(2, 5), ahead(3, 4), behind(4), behind(5), last(2), last(3)];
    let programs: Vec<&[Call<'_>]> = programs.iter().map(Vec::as_slice).collect();
    let mut built = workload(&programs, &[&[2, 3], &[0, 4], &[1, 5], &[2, 1], &[3, 0]]);
    // The work before J takes longer than K's first phase and less than H.
    for program in &mut built.programs {
        let mut slow = ProgramBuilder::default();
        for (i, node) in program.nodes().iter().enumerate() {
            let deps: Vec<u64> = program.deps(i).iter().map(|&d| u64::from(d)).collect();
            slow.push(Node { duration: Span::from_ns(10_000), ..*node }, program.name(i), deps);
        }
        *program = Arc::new(slow.build().expect("the same nodes"));
    }
    let platform = "topology: Ring(2)_Ring(3)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n\
                    scheduler: {policy: lifo, chunks: 1, active_chunks: 1, queues_per_dim: 1, comm_streams: 2}\n";
    for backend in BACKENDS {
        let outcome =
            simulate(platform, built.clone(), backend).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.report.counts.operations, 20);
    }
}

/// An exchange between two members, each sending and receiving at once.
fn exchange() -> CustomAlgorithm {
    let position = |peer: i32| -> Arc<Program> {
        let mut builder = ProgramBuilder::default();
        for (id, op) in [send(peer, 64), recv(peer, 64)].into_iter().enumerate() {
            builder.push(Node { id: id as u64, duration: Span::ZERO, op }, "", []);
        }
        Arc::new(builder.build().expect("ids are unique"))
    };
    CustomAlgorithm::Chakra(Arc::new(Custom {
        name: "exchange".into(),
        positions: vec![position(1), position(-1)],
    }))
}

/// Two ranks issue two collectives in opposite orders, with room for one at a time: whoever begins
/// one draws the other in, whether its algorithm is built in or from a file.
#[test]
fn collectives_in_opposite_orders_do_not_hold_each_other_up() {
    use CollectiveKind::{AllGather, AllReduce};
    let (first, second): (Call<'_>, Call<'_>) =
        ((collective(AllReduce, 64, 1), &[]), (collective(AllGather, 32, 2), &[]));
    let programs: [&[Call<'_>]; 3] = [&[first, second], &[second, first], &[(WORK, &[])]];
    for (ranks, backend) in [2u32, 3].into_iter().flat_map(|n| BACKENDS.map(|b| (n, b))) {
        let workload = workload(&programs[..ranks as usize], &[&[0, 1], &[1, 0]]);
        for (from_file, active) in [(false, 1), (true, 1), (true, 2)] {
            let platform = format!(
                "topology: Ring({ranks})\nlinks: {{bandwidth: 50 GB/s, latency: 500 ns}}\n\
                 scheduler: {{policy: fifo, active_chunks: {active}, comm_streams: unlimited}}\n"
            );
            let mut config = config(&platform, workload.clone(), backend.clone());
            if from_file {
                for kind in [AllReduce, AllGather] {
                    config.platform.collectives.custom[kind as usize] = Some(exchange());
                }
            }
            let outcome = run(&config, &mut |_| true);
            let outcome = outcome.unwrap_or_else(|error| {
                panic!("{ranks} ranks, from a file {from_file}, {active} at once: {error}")
            });
            let latency = units::Time::ZERO + Span::from_ns(500);
            assert!(outcome.finish(0) > latency && outcome.finish(1) > latency);
        }
    }
}
