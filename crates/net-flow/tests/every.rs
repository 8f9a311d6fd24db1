//! Rates that are found now and then.

use crate::common::stack;
use net_flow::Limits;
use net_settings::flow::Flow;
use network::{Transfer, conformance};
use topology::{Dim, Routing, Topology};
use units::{Bandwidth, Span, Time};

/// Two NPUs send 1 MB each to a third one at 50 GB/s, the second 3 us later. The first sends 150,000 B
/// alone, and the rest in 34 us at half the rate. Where rates are found every 10 us, it has the link
/// to itself until then. The link is never idle, so the second ends at 40 us either way.
#[test]
fn a_flow_waits_for_its_first_rate() {
    let shape: Topology = "SW(4)".parse().expect("a shape");
    let dim = |&(block, size): &(topology::Block, u32)| Dim {
        block,
        size,
        bandwidth: Bandwidth(50_000_000_000),
        latency: Span(0),
        parallel: 1,
    };
    let dims: Vec<Dim> = shape.dims.iter().map(dim).collect();
    let send = |token, src, start| {
        let bytes = 1_000_000;
        (Time(start), Transfer { src, dst: 0, bytes, paced: bytes, token, weight: 1 })
    };
    for (every, expected) in [(0, [37_000_000, 40_000_000]), (10_000_000, [30_000_000, 40_000_000])]
    {
        let limits = Flow { rates_every: Span(every), ..Limits::default().settings };
        let mut backend = stack(&dims, Routing::Lowest, limits.into());
        let sends = [send(0, 1, 0), send(1, 2, 3_000_000)];
        let done = conformance::run(&mut backend, &sends).expect("it ends");
        let times: Vec<u64> = done.iter().map(|delivery| delivery.time.0).collect();
        assert_eq!(times, expected, "every {every} ps");
    }
}
