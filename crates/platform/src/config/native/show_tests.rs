//! Random platforms that print and read back.

use super::testing::*;
use super::*;
use crate::platform::{Algorithm, Choice, DimensionOrder, Hierarchy, Policy};
use declared::{ByDim, Words};
use device::compute::{Compute, Roofline};
use graph::CollectiveKind;
use proptest::prelude::*;
use topology::{Block, Dim, Fabric, GraphFabric, GraphLink, GraphNode};
use units::{Bandwidth, Bytes, Flops, Span};

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Ring),
        prop::option::of(1u32..9).prop_map(|window| Algorithm::Direct { window }),
        Just(Algorithm::HalvingDoubling),
        Just(Algorithm::DoubleBinaryTree),
    ]
}

fn stacked() -> impl Strategy<Value = Fabric> {
    let dim = (0usize..3, 1u32..9, 1u64..u64::MAX / 4, any::<u64>(), 1u32..4);
    let dim = dim.prop_map(|(b, size, bandwidth, latency, parallel)| Dim {
        block: Block::ALL[b],
        size,
        bandwidth: Bandwidth(bandwidth * u64::from(parallel)),
        latency: Span(latency),
        parallel,
    });
    prop::collection::vec(dim, 1..5).prop_map(Fabric::Stacked)
}

/// A ring of named NPUs, each link doubled or one way, by way of a switch.
fn explicit() -> impl Strategy<Value = Fabric> {
    (2u32..6, 1u64.., any::<u64>(), any::<bool>()).prop_map(|(npus, bandwidth, latency, hub)| {
        let link = |from, to, extra| GraphLink {
            from,
            to,
            bandwidth: Bandwidth(bandwidth),
            latency: Span(latency / 2 + extra),
            kind: 0,
        };
        let mut links: Vec<GraphLink> =
            (0..npus).map(|i| link(i, (i + 1) % npus, u64::from(i))).collect();
        links.extend((0..npus).filter(|_| hub).flat_map(|i| [link(i, npus, 0), link(npus, i, 0)]));
        let nodes = (0..npus).map(|i| GraphNode::npu(format!("n \"{i}\": é")));
        let nodes = nodes.chain([GraphNode::switch("hub".into(), 1)]).collect();
        Fabric::Graph(GraphFabric { npus, nodes, links, ..GraphFabric::default() })
    })
}

type Scheduling = (usize, u32, u32, u32, u64, u32, bool, bool);

fn platforms() -> impl Strategy<Value = Platform> {
    let fabric = prop_oneof![stacked(), explicit()];
    let npu = (
        ".{0,12}",
        prop::option::of(1u64..),
        prop::option::of(1u64..),
        prop::option::of(any::<u64>()),
        any::<bool>(),
    );
    let choices = prop::collection::vec(
        prop::option::of((prop::collection::vec(algorithm(), 4), any::<bool>())),
        9,
    );
    let paths = prop::collection::vec(prop::option::of("[a-z/.: ]{1,9}"), 9);
    let scheduling = (
        0usize..4,
        1u32..,
        1u32..,
        1u32..,
        any::<u64>(),
        any::<u32>(),
        any::<bool>(),
        any::<bool>(),
    );
    let remote = prop::option::of((0u32..9, any::<u64>(), 1u64..));
    (".{0,20}", fabric, npu, remote, choices, paths, 0usize..4, scheduling).prop_map(assemble)
}

type Parts = (
    String,
    Fabric,
    (String, Option<u64>, Option<u64>, Option<u64>, bool),
    Option<(u32, u64, u64)>,
    Vec<Option<(Vec<Algorithm>, bool)>>,
    Vec<Option<String>>,
    usize,
    Scheduling,
);

fn assemble((text, fabric, npu, remote, choices, paths, hierarchy, s): Parts) -> Platform {
    let mut platform = read("topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n").unwrap();
    let dims = fabric.sizes().len();
    let even = fabric.sizes().iter().all(|size| size.is_power_of_two());
    platform.fabric = fabric;
    platform.name = text.clone();
    platform.source = text;
    platform.npu.name = npu.0;
    platform.npu.peak = npu.1.map(Flops);
    platform.npu.memory_bandwidth = npu.2.map(Bandwidth);
    platform.npu.memory_capacity = npu.3.map(Bytes);
    platform.npu.memory_latency = Span(npu.3.unwrap_or(0));
    if let (Some(peak), true) = (platform.npu.peak, npu.4) {
        let memory = platform.npu.memory_bandwidth.unwrap_or(Bandwidth(u64::MAX));
        let latency = platform.npu.memory_latency;
        let roofline = Roofline { latency, ..Roofline::ideal(peak, memory) };
        platform.npu.compute = Compute::Roofline(roofline);
    }
    platform.npu.memory_contention = npu.3.is_none();
    platform.npu.memory_on_overflow = {
        use crate::platform::Exceeded::{Refuse, Spill, Warn};
        [Warn, Refuse, Spill][hierarchy % 3]
    };
    platform.remote_memory =
        remote.map(|(kind, latency, bandwidth)| super::memory_tests::any(kind, latency, bandwidth));
    for (i, choice) in choices.into_iter().enumerate() {
        let kind = CollectiveKind::ALL[i];
        platform.collectives.choices[i] = choice.map(|(mut per_dim, flat)| {
            per_dim.truncate(if flat { 1 } else { dims });
            // An algorithm that can run everywhere replaces one that cannot run here.
            for algorithm in &mut per_dim {
                let fits = match algorithm {
                    Algorithm::HalvingDoubling => kind == CollectiveKind::AllReduce && even,
                    Algorithm::DoubleBinaryTree => kind == CollectiveKind::AllReduce && flat,
                    Algorithm::BidirectionalRing => !collective::is_rooted(kind),
                    _ => true,
                };
                *algorithm = if fits { *algorithm } else { Algorithm::Ring };
            }
            Choice { per_dim, flat }
        });
    }
    for (i, path) in paths.into_iter().enumerate() {
        platform.custom_paths.kinds[i] = path;
    }
    platform.collectives.hierarchy = Hierarchy::WORDS[hierarchy].1;
    platform.scheduler = crate::platform::Scheduler {
        policy: Policy::WORDS[s.0].1,
        all_to_all_first: s.6,
        dispatch_below: s.3,
        dispatch_chunks: s.2,
        dimension_order: DimensionOrder::WORDS[s.0 % DimensionOrder::WORDS.len()].1,
        chunks: s.1,
        active_chunks: ByDim::All(s.2),
        queues_per_dim: ByDim::Each(vec![s.3; dims]),
        endpoint_delay: Span(s.4),
        comm_streams: s.5,
        rendezvous: s.6,
        replay_only: s.7,
    };
    platform
}

proptest! {
    #[test]
    fn shown_platforms_read_back(platform in platforms()) {
        let text = to_yaml(&platform);
        let again = from_yaml(&text, "again.yml", &[]).map(|read| Platform { warnings: Vec::new(), ..read });
        prop_assert_eq!(again, Ok(platform), "{}", text);
    }
}
