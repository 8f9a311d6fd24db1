//! The backend keeps the contract of `network` on random traffic over random shapes, and alone a
//! flow takes `sum of latencies + bytes / bandwidth` of its slowest link.

use crate::common::{Random, dims, graph, stack, traffic, tree};
use net_flow::{FairFlows, Limits};
use net_settings::flow::{Flow, Weights};
use network::{Transfer, conformance};
use topology::{Fabric, LinkGraph, Routing};
use units::{Bandwidth, Bytes, Span};

const SHAPES: [&str; 9] = [
    "R(2)",
    "R(7)",
    "FC(6)",
    "SW(5)",
    "R(4)_R(4)",
    "R(3)_FC(4)_SW(2)",
    "SW(4)_R(5)",
    "FC(3)_FC(3)",
    "M(5)_SW(3)",
];

const ROUTINGS: [Routing; 4] =
    [Routing::Lowest, Routing::DModK, Routing::Hash { seed: 3 }, Routing::Spray];

/// The slowest link and the latencies of a route.
fn alone(links: &LinkGraph, transfer: &Transfer) -> Span {
    let hops = || links.route(transfer.src, transfer.dst).map(|hop| links.link(hop.link));
    let latency: Span = hops().map(|link| link.latency).sum();
    let slowest = hops().map(|link| link.bandwidth.span(Bytes(transfer.bytes))).max();
    latency + slowest.unwrap_or_default()
}

#[test]
fn stacks_keep_the_contract() {
    let mut random = Random(1);
    for shape in SHAPES.into_iter().cycle().take(72) {
        let dims = dims(shape, &mut random);
        let fabric = Fabric::Stacked(dims.clone());
        let transfers = traffic(fabric.npus(), &mut random);
        for routing in ROUTINGS {
            let links = LinkGraph::new(&fabric).unwrap().with_routing(routing);
            let result = conformance::check(
                || stack(&dims, routing, Limits::default()),
                &transfers,
                |_, transfer| alone(&links, transfer),
            );
            assert_eq!(result, Ok(()), "{routing} on {shape}");
        }
    }
}

#[test]
fn graphs_keep_the_contract() {
    let mut random = Random(2);
    for case in 0..32 {
        let fabric = tree(&mut random);
        let transfers = traffic(4, &mut random);
        let routing = ROUTINGS[case % 4];
        let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).unwrap().with_routing(routing);
        let result = conformance::check(
            || graph(&fabric, routing, Limits::default()),
            &transfers,
            |_, transfer| alone(&links, transfer),
        );
        assert_eq!(result, Ok(()), "{routing}");
    }
}

#[test]
fn limits_keep_the_contract() {
    let mut random = Random(3);
    for shape in SHAPES {
        let dims = dims(shape, &mut random);
        let transfers = traffic(Fabric::Stacked(dims.clone()).npus(), &mut random);
        let settings = Flow {
            stream_bandwidth_max: Some(Bandwidth(2_000_000_000)),
            efficiency: units::Ratio(949_284),
            weights: Weights::RoundTrip,
            rates_every: Span(300_000),
            tolerance: units::Ratio(5_000),
            exact: false,
        };
        let limits = Limits { settings, one_route: true };
        let make = || stack(&dims, Routing::Lowest, limits);
        let bound = |backend: &FairFlows, t: &Transfer| {
            network::Backend::physical_minimum(backend, t.src, t.dst, t.bytes)
        };
        assert_eq!(conformance::check(make, &transfers, bound), Ok(()), "{shape}");
    }
}
