//! Load points against queueing theory.

use net_analytical::LinkQueues;
use network::{Backend, LinkCost};
use topology::{Dim, Fabric, LinkGraph, Topology};
use traffic::{Arrivals, Destinations, Flow, Lone, Measured, Outcome, Pattern, Traffic, alone};
use units::{Bandwidth, Span};

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
        bytes: BYTES,
        gap: SERVICE / load,
        arrivals,
        seed: 1,
        precision: 0.01,
        latency_max: Span(30_000_000),
        messages_max: 4_000_000,
    }
}

fn run(shape: &str, traffic: Traffic) -> Measured {
    traffic.run(&mut network(shape), &mut |_| true).expect("nobody stops it")
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
    assert_eq!(traffic.run(network, &mut |_| false), None);
}
