//! No backend is faster than the network: what has to cross between the two halves of the ranks
//! fits through the maximum flow between them, and what NPUs send fits through their links.
//!
//! For `m` bytes on each of `n` ranks, an all-to-all moves `m / n` from every rank of one half to
//! every rank of the other; an all-reduce moves at least `m` from half to half, and all NPUs
//! together send at least `2 (n - 1) m` (Patarasuk and Yuan, JPDC 2009). Fabrics are random: graphs
//! of NPUs and switches with links of all speeds, generated ones, stacks of all blocks.

use crate::common::built;
use crate::common::random::cases;
use graph::{CollectiveKind, Node, Op, ProgramBuilder, Workload};
use platform::config::native;
use sim::{BackendKind, Config, Source, Watch, run};
use topology::{Fabric, GraphFabric, GraphLink, GraphNode, LinkGraph};
use units::{Bandwidth, Bytes, Span};

const PS_PER_S: u128 = 1_000_000_000_000;

/// SplitMix64 (Steele, Lea, Flood 2014): the cases are the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

/// NPUs and switches joined by a random tree and some more links, both ways, of speeds a hundred
/// times apart.
fn random_graph(random: &mut Random) -> Fabric {
    let npus = 2 + random.below(9) as u32;
    let nodes = npus + random.below(5) as u32;
    let name = |v: u32| match v < npus {
        true => GraphNode::npu(format!("npu{v}")),
        false => GraphNode::switch(format!("switch{v}"), 1),
    };
    let mut pairs: Vec<(u32, u32)> =
        (1..nodes).map(|v| (v, random.below(v.into()) as u32)).collect();
    for _ in 0..random.below(u64::from(nodes)) {
        let (a, b) = (random.below(nodes.into()) as u32, random.below(nodes.into()) as u32);
        if a != b {
            pairs.push((a, b));
        }
    }
    let mut link = |from, to| GraphLink {
        from,
        to,
        bandwidth: Bandwidth(1_000_000_000 * (1 + random.below(100))),
        latency: Span(random.below(1_000_000)),
        kind: 0,
    };
    let links = pairs.into_iter().flat_map(|(a, b)| [link(a, b), link(b, a)]).collect();
    Fabric::Graph(GraphFabric {
        npus,
        nodes: (0..nodes).map(name).collect(),
        links,
        ..GraphFabric::default()
    })
}

fn generated(random: &mut Random) -> String {
    let (a, b, c) = (1 + random.below(4), 2 + random.below(3), 1 + random.below(4));
    match random.below(4) {
        0 => format!("{{generator: leaf_spine, npus_per_leaf: {a}, leaves: {b}, spines: {c}}}"),
        1 => format!("{{generator: clos, down: [{a}, 2, {b}], up: [{c}, 1]}}"),
        2 => format!(
            "{{generator: dragonfly, npus_per_router: {a}, routers_per_group: {b}, global_links: 1}}"
        ),
        _ => format!("{{generator: torus, sizes: [{b}, {}]}}", 2 + a),
    }
}

fn stack(random: &mut Random) -> String {
    let dim = |random: &mut Random| {
        format!("{}({})", random.of(&["R", "M", "FC", "SW"]), 2 + random.below(5))
    };
    let dims: Vec<String> = (0..1 + random.below(2)).map(|_| dim(random)).collect();
    dims.join("_")
}

/// A random platform; with one link of each dimension as it is written.
fn platform(random: &mut Random) -> (platform::Platform, String) {
    let (shape, topology) = match random.below(3) {
        0 => (Some(random_graph(random)), "R(2)".to_string()),
        1 => (None, generated(random)),
        _ => (None, stack(random)),
    };
    let routing = random.of(&["auto", "auto", "lowest", "hash(3)", "spray"]);
    let (reduce, exchange) = (
        random.of(&["auto", "ring", "direct", "{algorithm: double_binary_tree, flat: true}"]),
        random.of(&["auto", "bidirectional_ring", "direct", "{algorithm: direct, flat: true}"]),
    );
    let text = format!(
        "topology: {topology}\nlinks: {{bandwidth: {} GB/s, per: link, latency: 100 ns}}\n\
         network: {{routing: {routing}}}\ncollectives: {{all_reduce: {reduce}, all_to_all: {exchange}}}\n\
         scheduler: {{chunks: {}, active_chunks: {}, queues_per_dim: {}, endpoint_delay: 0 ns}}\n",
        1 + random.below(50),
        1 + random.below(4),
        1 + random.below(2),
        1 + random.below(2)
    );
    let per_link =
        text.replace(" per: link,", if topology.starts_with('{') { "" } else { " per: link," });
    let mut platform = native::from_yaml(&per_link, "p.yml", &[])
        .unwrap_or_else(|problems| panic!("{per_link}\n{problems:#?}"));
    if let Some(fabric) = shape {
        platform.fabric = fabric;
    }
    (platform, per_link)
}

/// Picoseconds that a collective takes at least.
fn bound(fabric: &Fabric, kind: CollectiveKind, bytes: u64) -> u128 {
    let links = LinkGraph::new(fabric).expect("a connected fabric");
    let bisection = fabric.facts().expect("a connected fabric").bisection.expect("a small fabric");
    let (n, bytes) = (u128::from(fabric.npus()), u128::from(bytes));
    let time = |bytes: u128, rate: u64| bytes * PS_PER_S / u128::from(rate);
    let out = |npu: u32| -> u64 {
        let of = |link: u32| links.link(link);
        (0..links.len()).map(of).filter(|l| l.from == npu).map(|l| l.bandwidth.0).sum()
    };
    match kind {
        CollectiveKind::AllToAll => {
            let across = (n / 2) * (n - n / 2) * (bytes / n);
            let port = (0..fabric.npus()).map(|npu| time((n - 1) * (bytes / n), out(npu)));
            time(across, bisection.0).max(port.max().unwrap_or(0))
        }
        _ => {
            let all: u64 = (0..fabric.npus()).map(out).sum();
            time(bytes, bisection.0).max(time(2 * (n - 1) * bytes, all))
        }
    }
}

fn collective(kind: CollectiveKind, bytes: u64, npus: u32) -> Workload {
    let (slot, priority, dims, root) = (0, 0, u32::MAX, 0);
    let op = Op::Collective { kind, bytes: Bytes(bytes), slot, priority, dims, root };
    let mut builder = ProgramBuilder::default();
    builder.push(Node { id: 0, duration: Span::ZERO, op }, "", []);
    Workload::uniform(builder.build().expect("one node"), npus)
}

/// A workload on a random platform, and how long it must take at least.
struct Case<'a> {
    number: u64,
    platform: &'a platform::Platform,
    text: &'a str,
    what: String,
    least: u128,
}

impl Case<'_> {
    /// Runs it on every backend, and every 75th case on flits, which take a second each. Returns
    /// how many runs come within a tenth of the bound.
    fn check(&self, workload: impl Fn() -> Workload) -> u32 {
        let Case { number, platform, text, what, least } = self;
        let npus = platform.fabric.npus();
        let is_tight = |backend: &BackendKind| {
            let config = Config {
                workload: Source::Built(Box::new(workload())),
                groups: Vec::new(),
                platform: (*platform).clone(),
                backend: backend.clone(),
                fold: number % 2 == 0,
                watch: Watch::default(),
            };
            let outcome = run(&config, &mut |_| true);
            let outcome = outcome.unwrap_or_else(|error| panic!("{text}\n{error}"));
            let took = (0..npus).map(|r| u128::from(outcome.finish(r).0)).max().unwrap_or(0);
            assert!(
                took >= *least,
                "case {number}, {backend}: {what} took {took} ps, at least {least} are needed\n\
                 {text}\n{:?}",
                platform.fabric
            );
            took * 10 < least * 11
        };
        let runs = |backend: &&BackendKind| **backend != BackendKind::Flit || number % 30 == 0;
        BackendKind::ALL.iter().filter(runs).filter(|backend| is_tight(backend)).count() as u32
    }
}

#[test]
fn no_backend_is_faster_than_the_network() {
    let mut random = Random(15);
    let mut tight = 0;
    for number in 0..u64::from(cases(30).cases) {
        let (platform, text) = platform(&mut random);
        let npus = platform.fabric.npus();
        let bytes = u64::from(npus) * (1 + random.below(1 << 18));
        for kind in [CollectiveKind::AllToAll, CollectiveKind::AllReduce] {
            let least = bound(&platform.fabric, kind, bytes);
            let what = format!("{kind:?} of {bytes} bytes");
            let case = Case { number, platform: &platform, text: &text, what, least };
            tight += case.check(|| collective(kind, bytes, npus));
        }
    }
    assert!(
        tight > cases(30).cases / 2,
        "only {tight} runs came within a tenth of their bound: it is too loose"
    );
}

/// Two random groups of at least two NPUs each, of one size, that share none.
fn two_lists(npus: u32, random: &mut Random) -> [Vec<u32>; 2] {
    let mut order: Vec<u32> = (0..npus).collect();
    for last in (1..npus as usize).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let size = (npus / 2).min(2 + random.below(u64::from(npus)) as u32) as usize;
    [order[..size].to_vec(), order[size..2 * size].to_vec()]
}

/// Picoseconds that collectives of groups need for what passes between the halves of the NPUs.
fn bound_of_lists(
    fabric: &Fabric,
    kind: CollectiveKind,
    bytes: u64,
    lists: &[Vec<u32>; 2],
) -> u128 {
    let bisection = fabric.facts().expect("a connected fabric").bisection.expect("a small fabric");
    let half = fabric.npus() / 2;
    let across = |list: &Vec<u32>| {
        let low = list.iter().filter(|&&npu| npu < half).count() as u128;
        let high = list.len() as u128 - low;
        match kind {
            CollectiveKind::AllToAll => low * high * u128::from(bytes / list.len() as u64),
            _ => u128::from(low > 0 && high > 0) * u128::from(bytes),
        }
    };
    lists.iter().map(across).sum::<u128>() * PS_PER_S / u128::from(bisection.0)
}

#[test]
fn no_group_is_faster_than_the_network() {
    let mut random = Random(16);
    let mut tight = 0;
    for number in 0..u64::from(cases(30).cases) {
        let (platform, text) = platform(&mut random);
        let npus = platform.fabric.npus();
        if npus < 4 {
            continue;
        }
        let lists = two_lists(npus, &mut random);
        let bytes = lists[0].len() as u64 * (1 + random.below(1 << 18));
        for kind in [CollectiveKind::AllToAll, CollectiveKind::AllReduce] {
            let least = bound_of_lists(&platform.fabric, kind, bytes, &lists);
            let programs: Vec<Vec<(Op, &[u64])>> = (0..npus)
                .map(|npu| match lists.iter().position(|list| list.contains(&npu)) {
                    Some(list) => vec![(built::collective(kind, bytes, 1 + list as u32), &[][..])],
                    None => vec![(built::WORK, &[][..])],
                })
                .collect();
            let programs: Vec<&[(Op, &[u64])]> = programs.iter().map(Vec::as_slice).collect();
            let groups: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
            let what = format!("{kind:?} of {bytes} bytes on {lists:?}");
            let case = Case { number, platform: &platform, text: &text, what, least };
            tight += case.check(|| built::workload(&programs, &groups));
        }
    }
    assert!(
        tight > cases(30).cases / 4,
        "only {tight} runs came within a tenth of their bound: it is too loose"
    );
}
