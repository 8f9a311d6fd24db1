//! The backend keeps the contract of `network` on random traffic over random shapes.

use crate::common::check::{self, Watch};
use crate::common::{Random, dims, graph, stack, traffic, tree};
use net_packet::{Buffer, Marking, Packets, Settings, Switch, Tcp, TcpControl, Transport};
use network::{Backend, Transfer, conformance};
use topology::{Fabric, LinkGraph, Routing};
use units::{Bytes, Span};

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

const ROUTINGS: [Routing; 3] = [Routing::Lowest, Routing::DModK, Routing::Hash { seed: 3 }];

/// Longest that a transfer alone may take: its packets one after the other over every link of the
/// way, a round trip for each window, and the longest delay of an acknowledgement.
fn alone(links: &LinkGraph, settings: &Settings, transfer: &Transfer) -> Span {
    let payload = u64::from(settings.mtu - settings.header);
    let packets = transfer.bytes.div_ceil(payload).max(1);
    let wire = packets * u64::from(settings.mtu + settings.framing);
    let hops = links.route(transfer.src, transfer.dst).map(|hop| links.link(hop.link));
    let there: Span = hops.map(|link| link.latency + link.bandwidth.span(Bytes(wire))).sum();
    // What is lost when two messages meet is sent again after a timeout.
    let Transport::Tcp(tcp) = settings.transport else { return Span::ZERO };
    Span(there.0 * 40) + tcp.ack_delay + Span(tcp.rto_min.0 * 2)
}

/// Each shape with each routing.
#[test]
fn stacks_keep_the_contract() {
    let mut random = Random(1);
    for (routing, shape) in ROUTINGS.into_iter().flat_map(|routing| SHAPES.map(|s| (routing, s))) {
        let dims = dims(shape, &mut random);
        let fabric = Fabric::Stacked(dims.clone());
        let transfers = traffic(fabric.npus(), &mut random);
        let settings = Settings::default();
        let links = LinkGraph::new(&fabric).unwrap().with_routing(routing);
        let result = conformance::check(
            || stack(&dims, routing, settings),
            &transfers,
            |_: &Packets, transfer| alone(&links, &settings, transfer),
        );
        assert_eq!(result, Ok(()), "{routing} on {shape}");
    }
}

#[test]
fn graphs_keep_the_contract() {
    let mut random = Random(2);
    for case in 0..32 {
        let fabric = tree(&mut random);
        let transfers = traffic(4, &mut random);
        let routing = ROUTINGS[case % 3];
        let switch = Switch { buffer: Buffer::Port(Bytes(100_000)), ..Switch::default() };
        let settings = Settings { switch, ..Settings::default() };
        let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).unwrap().with_routing(routing);
        let result = conformance::check(
            || graph(&fabric, routing, settings),
            &transfers,
            |_: &Packets, transfer| alone(&links, &settings, transfer),
        );
        assert_eq!(result, Ok(()), "{routing}");
    }
}

/// Over shapes with small buffers and all controls: a link sends one packet at a time, bytes and
/// packets are conserved, queues stay within their buffers, and nothing is different when somebody
/// watches.
#[test]
fn nothing_is_lost_without_a_count() {
    let mut random = Random(3);
    let controls = [TcpControl::NewReno, TcpControl::Cubic, TcpControl::Dctcp];
    for (case, shape) in SHAPES.into_iter().cycle().take(27).enumerate() {
        let dims = dims(shape, &mut random);
        let transfers = traffic(Fabric::Stacked(dims.clone()).npus(), &mut random);
        let switch = Switch {
            buffer: Buffer::Port(Bytes(20_000)),
            marking: (case % 3 == 2).then(|| Marking::step(Bytes(10_000))),
            ..Switch::default()
        };
        let tcp = Tcp { sack: case % 2 == 0, ..Tcp::ns3(controls[case % 3]) };
        let settings = Settings { switch, ..Settings::with(Transport::Tcp(tcp)) };
        let [plain, watched] = [false, true].map(|watched| {
            let mut network = stack(&dims, ROUTINGS[case % 3], settings);
            let watch = watched.then(|| Watch::over(&mut network));
            let (mut finished, mut left) = (Vec::new(), transfers.iter().peekable());
            loop {
                let next = network.next_event();
                if let Some(&&(time, transfer)) = left.peek()
                    && next.is_none_or(|next| time <= next)
                {
                    left.next();
                    network.start(time, transfer);
                    continue;
                }
                let Some(next) = next else { break };
                network.advance(next, &mut finished);
            }
            check::counts(&network, transfers.iter().map(|(_, t)| t.bytes.max(1)).sum());
            let totals = network.totals();
            if let Some(watch) = watch {
                // The last acknowledgements may still wait when all is delivered.
                let begun = totals.sent.hops - network.under_way()..=totals.sent.hops;
                watch.compare(&network);
                assert!(begun.contains(&watch.end()), "{shape}");
            }
            let arrivals: Vec<_> = finished.iter().map(|d| (d.token, d.time)).collect();
            (arrivals, totals)
        });
        assert_eq!(plain, watched, "{shape}");
    }
}
