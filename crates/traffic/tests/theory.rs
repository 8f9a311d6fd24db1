//! Load points against queueing theory.

use net_analytical::LinkQueues;
use net_flow::{FairFlows, Limits};
use network::{Backend, LinkCost};
use topology::{Block, Dim, Fabric, LinkGraph, Topology};
use traffic::{
    Arrivals, Destinations, Distribution, Flow, Lone, Measured, Outcome, Pattern, Sizes, Traffic,
    alone,
};
use units::{Bandwidth, Bytes, Span};

const BYTES: u64 = 1_000;
/// Of a message on a link of 1 GB/s, ps.
const SERVICE: f64 = 1e6;
const LATENCY: f64 = 5e4;

fn network(shape: &str) -> LinkQueues {
    let shape: Topology = shape.parse().expect("a shape");
    let (bandwidth, latency) = (Bandwidth(1_000_000_000), Span(LATENCY as u64));
    let dims: Vec<Dim> = shape
        .dims
        .iter()
        .map(|&(block, size)| Dim { block, size, bandwidth, latency, parallel: 1 })
        .collect();
    let graph = LinkGraph::new(&Fabric::Stacked(dims.clone())).expect("a network");
    let costs = dims.iter().map(|d| LinkCost::Exact { bandwidth: d.bandwidth, latency: d.latency });
    LinkQueues::new(graph, costs.collect(), false)
}

fn traffic(pattern: &Pattern, sizes: &[u32], load: f64, arrivals: Arrivals) -> Traffic {
    Traffic {
        destinations: Destinations::new(pattern, sizes, 1).expect("it fits"),
        sizes: Sizes::Fixed(BYTES),
        gap: SERVICE / load,
        arrivals,
        seed: 1,
        precision: 0.01,
        latency_max: Span(30_000_000),
        messages_max: 4_000_000,
    }
}

fn run(shape: &str, traffic: Traffic) -> Measured {
    traffic.run(&mut network(shape), None, &mut |_| true).expect("nobody stops it")
}

fn one_flow() -> Pattern {
    Pattern::Flows(vec![Flow { src: 0, dst: 1, weight: 1.0 }])
}

/// One sender on one link is an M/D/1 queue: its mean wait is `load / (2 (1 - load))` services
/// (Pollaczek 1930, Khinchine 1932), and a share `1 - load` does not wait at all.
#[test]
fn a_link_is_an_m_d_1_queue() {
    for load in [0.2, 0.5, 0.8] {
        let found = run("R(2)", traffic(&one_flow(), &[2], load, Arrivals::Poisson));
        let wait = load / (2.0 * (1.0 - load));
        let expected = LATENCY + SERVICE * (1.0 + wait);
        let off = (found.latency.mean - expected).abs();
        assert_eq!(found.outcome, Outcome::Steady, "{load}");
        assert!(off <= 2.0 * found.latency.half_width, "{load}: {off} from {expected}");
        assert!(found.latency.half_width <= 0.01 * found.latency.mean, "{load}");
        assert_eq!(found.latency.min, (LATENCY + SERVICE) as u64);
        if 1.0 - load > 0.5 {
            assert_eq!(found.latency.percentiles[0], found.latency.min);
        }
        let rate = load * 1e9;
        assert!((found.accepted / rate - 1.0).abs() < 0.03, "{load}: {}", found.accepted);
        let [link] = found.links[..] else { panic!("{:?}", found.links) };
        assert!((link.utilisation - load).abs() < 0.03 * load, "{load}: {}", link.utilisation);
    }
}

/// Equal distances never wait below the capacity of the link.
#[test]
fn periodic_messages_do_not_wait() {
    let found = run("R(2)", traffic(&one_flow(), &[2], 0.99, Arrivals::Periodic));
    assert_eq!(found.outcome, Outcome::Steady);
    assert_eq!(found.latency.max, (LATENCY + SERVICE) as u64);
}

#[test]
fn more_than_a_link_carries_is_saturation() {
    let found = run("R(2)", traffic(&one_flow(), &[2], 1.05, Arrivals::Poisson));
    assert_eq!(found.outcome, Outcome::Saturated);
    assert!((found.accepted / 1e9 - 1.0).abs() < 0.01, "{}", found.accepted);
}

/// Tornado on a ring of 8 crosses 3 links, all the same way round: links are full at a third of
/// what an NPU could send (Dally and Towles, section 3.2).
#[test]
fn tornado_saturates_a_ring_at_a_third() {
    let at = |load| run("R(8)", traffic(&Pattern::Tornado, &[8], load, Arrivals::Poisson)).outcome;
    assert_ne!(at(0.3), Outcome::Saturated);
    assert_eq!(at(0.35), Outcome::Saturated);
}

#[test]
fn a_message_alone_takes_its_latency() {
    let to = Destinations::new(&Pattern::Neighbor, &[4], 1).expect("it fits");
    let expected = Lone { first: LATENCY + SERVICE, later: LATENCY + SERVICE };
    assert_eq!(alone(to, BYTES, 1, &mut network("R(4)")), expected);
}

/// The same seed gives the same run, and another seed another one.
#[test]
fn seeds_decide() {
    let with = |seed| {
        let mut traffic = traffic(&Pattern::Uniform, &[4, 4], 0.2, Arrivals::Poisson);
        traffic.seed = seed;
        run("R(4)_R(4)", traffic)
    };
    assert_eq!(with(3), with(3));
    assert_ne!(with(3), with(4));
}

#[test]
fn the_hook_stops_it() {
    let traffic = traffic(&Pattern::Uniform, &[4], 0.2, Arrivals::Poisson);
    let network: &mut dyn Backend = &mut network("R(4)");
    assert_eq!(traffic.run(network, None, &mut |_| false), None);
}

/// Flows that share one link fairly are an M/G/1 queue with processor sharing: whatever the sizes,
/// a flow takes `1 / (1 - load)` times as long as alone, on average, at every size (Kleinrock,
/// "Queueing Systems", volume 2, section 4.4).
#[test]
fn slowdowns_of_fair_sharing_do_not_depend_on_sizes() {
    let web_search =
        [(0, 0.0), (10_000, 0.15), (80_000, 0.53), (1_000_000, 0.7), (10_000_000, 1.0)];
    let one_size = [(50_000, 1.0)];
    let bytes_per_s = 1_000_000_000;
    for (points, load) in [(&web_search[..], 0.3), (&web_search[..], 0.7), (&one_size[..], 0.5)] {
        let sizes = Distribution::new(points).expect("a distribution");
        let gap = sizes.mean() / bytes_per_s as f64 * 1e12 / load;
        let unloaded = |_, _, bytes| Bandwidth(bytes_per_s).span(Bytes(bytes));
        let traffic = Traffic {
            sizes: Sizes::Drawn(sizes),
            gap,
            precision: 0.02,
            latency_max: Span(100_000_000),
            messages_max: 400_000,
            ..traffic(&one_flow(), &[2], load, Arrivals::Poisson)
        };
        let mut network = fair(bytes_per_s);
        let found = traffic.run(&mut network, Some(&unloaded), &mut |_| true).expect("it runs");
        let (slowdown, sent) = found.slowdown.expect("slowdowns");
        let expected = 1.0 / (1.0 - load);
        assert!((slowdown.mean / 1e6 / expected - 1.0).abs() < 0.05, "{load}: {}", slowdown.mean);
        assert!(slowdown.min >= 1_000_000, "{load}: {}", slowdown.min);
        let offered = found.offered / bytes_per_s as f64;
        assert!((offered / load - 1.0).abs() < 0.1, "{load}: {offered}");
        let large: Vec<f64> = sent
            .iter()
            .filter(|one| one.bytes > 100_000)
            .map(|one| one.took.0 as f64 / one.alone.0 as f64)
            .collect();
        if !large.is_empty() {
            let mean = large.iter().sum::<f64>() / large.len() as f64;
            assert!((mean / expected - 1.0).abs() < 0.1, "{load}: {mean} of {}", large.len());
        }
    }
}

/// Two NPUs with a link each way, without latency.
fn fair(bytes_per_s: u64) -> FairFlows {
    let bandwidth = Bandwidth(bytes_per_s);
    let dims = vec![Dim { block: Block::Ring, size: 2, bandwidth, latency: Span(1), parallel: 1 }];
    let graph = LinkGraph::new(&Fabric::Stacked(dims)).expect("a network");
    FairFlows::new(
        graph,
        vec![LinkCost::Exact { bandwidth, latency: Span(1) }],
        false,
        Limits::default(),
    )
}
