//! Arrivals against a simulation that finds all rates anew at each start and drain, in floating
//! point, without any of the backend's code.

use crate::common::{Random, graph, stack, traffic};
use net_flow::{FairFlows, Limits};
use network::{Transfer, conformance};
use topology::generate::{Values, Wire, generate, generator};
use topology::{Dim, Fabric, GraphFabric, LinkGraph, Routing, Topology};
use units::{Bandwidth, Span, Time};

/// A flow of the reference: when it starts, its links, what is left of it, and how long it is under
/// way after its last byte has left.
struct Fluid {
    token: u64,
    start: f64,
    links: Vec<usize>,
    left: f64,
    latency: f64,
}

/// Rates of flows over links of these capacities: the link with the least share gives it to all its
/// flows, and so on without those (Bertsekas and Gallager, section 6.5.2).
fn rates(flows: &[&Fluid], capacities: &[f64]) -> Vec<f64> {
    let mut rates = vec![None; flows.len()];
    let mut left = capacities.to_vec();
    while rates.contains(&None) {
        let open = |link: usize| -> Vec<usize> {
            let uses = |&at: &usize| rates[at].is_none() && flows[at].links.contains(&link);
            (0..flows.len()).filter(uses).collect()
        };
        let shares = (0..left.len()).map(|link| (link, open(link)));
        let full = shares.filter(|(_, open)| !open.is_empty());
        let share = |(link, open): (usize, Vec<usize>)| (left[link] / open.len() as f64, open);
        let least = full.map(share).min_by(|a, b| a.0.total_cmp(&b.0)).expect("a link");
        for at in least.1 {
            rates[at] = Some(least.0);
            flows[at].links.iter().for_each(|&link| left[link] -= least.0);
        }
    }
    rates.into_iter().flatten().collect()
}

/// When each flow arrives, by token, in ps.
fn arrivals(mut waiting: Vec<Fluid>, capacities: &[f64]) -> Vec<(u64, f64)> {
    let (mut now, mut running, mut done) = (0.0, Vec::<Fluid>::new(), Vec::new());
    waiting.reverse();
    loop {
        while waiting.last().is_some_and(|flow| flow.start <= now) {
            running.extend(waiting.pop());
        }
        let rates = rates(&running.iter().collect::<Vec<_>>(), capacities);
        let ends = running.iter().zip(&rates).map(|(flow, rate)| now + flow.left / rate);
        let next = ends.chain(waiting.last().map(|flow| flow.start)).min_by(f64::total_cmp);
        let Some(next) = next else { return done };
        for (flow, rate) in running.iter_mut().zip(&rates) {
            flow.left -= rate * (next - now);
        }
        now = next;
        running.retain(|flow| {
            let stays = flow.left > 1e-6;
            if !stays {
                done.push((flow.token, now + flow.latency));
            }
            stays
        });
    }
}

/// Checks the arrivals of `transfers`, whose weights do not count: the run is not folded.
fn check(
    backend: &mut FairFlows,
    (links, cost): (&LinkGraph, &dyn Fn(topology::Hop) -> (f64, f64)),
    transfers: &[(Time, Transfer)],
) {
    let fluid = |&(start, transfer): &(Time, Transfer)| {
        let hops: Vec<_> = links.route(transfer.src, transfer.dst).collect();
        Fluid {
            token: transfer.token,
            start: start.0 as f64,
            links: hops.iter().map(|hop| hop.link as usize).collect(),
            left: transfer.bytes as f64,
            latency: hops.iter().map(|&hop| cost(hop).1).sum(),
        }
    };
    let mut capacities = vec![0.0; links.len() as usize];
    for (_, transfer) in transfers {
        links
            .route(transfer.src, transfer.dst)
            .for_each(|hop| capacities[hop.link as usize] = cost(hop).0);
    }
    let expected = arrivals(transfers.iter().map(fluid).collect(), &capacities);
    let found = conformance::run(backend, transfers).expect("it ends");
    for (token, time) in expected {
        let ours = found.iter().find(|d| d.token == token).expect("it arrives").time.0 as f64;
        // Each drain before it may have been rounded up to the picosecond.
        let rounded = transfers.len() as f64 + time * 1e-11;
        assert!((ours - time).abs() < rounded, "{token}: {ours} ps, not {time}");
    }
}

fn fabric(random: &mut Random) -> GraphFabric {
    let (name, numbers): (_, Vec<(_, Vec<u32>)>) = match random.below(2) {
        0 => (
            "leaf_spine",
            vec![("npus_per_leaf", vec![4]), ("leaves", vec![5]), ("spines", vec![3])],
        ),
        _ => ("fat_tree", vec![("radix", vec![4])]),
    };
    let mut values = Values::default();
    numbers.into_iter().for_each(|(key, list)| values.set(key, list));
    let made = generator(name).expect("a generator");
    let wire = |_| Wire {
        bandwidth: Bandwidth(1_000_000_007 * (1 + random.below(90))),
        latency: Span(random.below(900_000)),
    };
    let wires = (0..made.kinds(&values).len()).map(wire).collect();
    generate(made, values, wires).expect("a fabric")
}

#[test]
fn random_traffic_on_random_fabrics() {
    let mut random = Random(3);
    for seed in 0..40 {
        let fabric = fabric(&mut random);
        let routing = Routing::Hash { seed };
        let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).expect("connected");
        let cost = |hop: topology::Hop| {
            let link = &fabric.links[hop.link as usize];
            (link.bandwidth.0 as f64 / 1e12, link.latency.0 as f64)
        };
        let transfers = traffic(links.npus(), &mut random);
        let mut backend = graph(&fabric, routing, Limits::default());
        check(&mut backend, (&links.with_routing(routing), &cost), &transfers);
    }
}

#[test]
fn random_traffic_on_stacks() {
    let mut random = Random(5);
    for shape in ["R(8)", "R(4)_R(4)", "SW(8)_R(3)"] {
        let shape: Topology = shape.parse().expect("a shape");
        let dim = |&(block, size): &(topology::Block, u32)| Dim {
            block,
            size,
            bandwidth: Bandwidth(1_000_000_007 * (1 + random.below(40))),
            latency: Span(random.below(3_000_000)),
            parallel: 1,
        };
        let dims: Vec<Dim> = shape.dims.iter().map(dim).collect();
        let links = LinkGraph::new(&Fabric::Stacked(dims.clone())).expect("a network");
        let links = links.with_routing(Routing::Lowest);
        let cost = |hop: topology::Hop| {
            let dim = &dims[hop.dim as usize];
            (dim.bandwidth.0 as f64 / 1e12, dim.latency.0 as f64)
        };
        let transfers = traffic(links.npus(), &mut random);
        let mut backend = stack(&dims, Routing::Lowest, Limits::default());
        check(&mut backend, (&links, &cost), &transfers);
    }
}
