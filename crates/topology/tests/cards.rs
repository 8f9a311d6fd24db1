//! Messages spread over the cards of their NPU.

use topology::{Fabric, GraphFabric, GraphLink, GraphNode, LaneId, Lanes, LinkGraph, Routing};
use units::{Bandwidth, Span};

/// Two NPUs, and links of (ends, bandwidth, latency), each both ways.
fn fabric(switches: u32, links: &[(u32, u32, u64, u64)]) -> LinkGraph {
    let tier = |at: u32| u32::from(at > 1);
    let node = |at: u32| GraphNode { name: format!("n{at}"), tier: tier(at), radix: None };
    let one = |&(from, to, bandwidth, latency): &(u32, u32, u64, u64)| GraphLink {
        from,
        to,
        bandwidth: Bandwidth(bandwidth),
        latency: Span(latency),
        kind: 0,
    };
    let both = links.iter().flat_map(|link| [one(link), one(&(link.1, link.0, link.2, link.3))]);
    let graph = GraphFabric {
        npus: 2,
        nodes: (0..2 + switches).map(node).collect(),
        links: both.collect(),
        ..GraphFabric::default()
    };
    let links = LinkGraph::new(&Fabric::Graph(graph)).expect("connected");
    links.with_routing(Routing::Auto)
}

/// Cards of NPUs 0 and 1 at switches 2 and 3, joined by a spine if `shared`.
fn two_cards(cards: [(u64, u64); 2], shared: bool) -> LinkGraph {
    let mut links = Vec::new();
    for (card, (bandwidth, latency)) in (0..).zip(cards) {
        links.extend([0, 1].map(|npu| (npu, 2 + card, bandwidth, latency)));
        if shared {
            links.push((2 + card, 4, 1_000_000, 1));
        }
    }
    fabric(if shared { 3 } else { 2 }, &links)
}

fn parts(graph: &LinkGraph, bytes: u64) -> Vec<u64> {
    Lanes::of(graph, (0, 1)).parts(bytes).map(|(_, bytes)| bytes).collect()
}

#[test]
fn parts_are_in_proportion_to_bandwidth() {
    assert_eq!(parts(&two_cards([(100, 5), (100, 5)], false), 1000), [500, 500]);
    assert_eq!(parts(&two_cards([(300, 5), (100, 5)], false), 1000), [750, 250]);
    assert_eq!(parts(&two_cards([(100, 5), (100, 5)], false), 1), [1]);
    assert_eq!(parts(&two_cards([(100, 5), (100, 5)], false), 0), [0]);
}

/// 50 bytes take half a second on one card of 100 bytes per second, and a quarter on two.
#[test]
fn cards_with_more_latency_take_part_where_that_is_sooner() {
    let far = |seconds: f64| two_cards([(100, 0), (100, (seconds * 1e12) as u64)], false);
    // Two links on the way: twice the latency.
    assert_eq!(parts(&far(0.1), 50), [25, 25]);
    assert_eq!(parts(&far(0.2), 50), [50]);
}

#[test]
fn much_slower_cards_are_left() {
    assert_eq!(parts(&two_cards([(100, 5), (20, 5)], false), 1000), [1000]);
    assert_eq!(parts(&two_cards([(100, 5), (25, 5)], false), 1000), [800, 200]);
}

#[test]
fn each_card_of_the_receiver_hears_one_lane() {
    // Over a shared spine, too: both cards are as near there as on their own switch.
    let links = [(0, 2, 100, 1), (0, 3, 50, 1), (1, 4, 100, 1), (1, 5, 50, 1)];
    let spine = [2, 3, 4, 5].map(|leaf| (leaf, 6, 1000, 1));
    let graph = fabric(5, &[&links[..], &spine[..]].concat());
    let lanes = Lanes::of(&graph, (0, 1));
    let rates: Vec<u64> = lanes.found.iter().map(|lane| lane.rate).collect();
    assert_eq!(rates.iter().sum::<u64>(), 150);
    let last = |id: LaneId| graph.lane(0, 1, id).last().map(|hop| graph.link(hop.link).bandwidth.0);
    for lane in lanes.found.iter() {
        assert_eq!(last(lane.id), Some(lane.rate));
    }
}

#[test]
fn one_lane_is_the_route_by_destination() {
    let graph = two_cards([(100, 5), (100, 5)], false);
    let plain = graph.clone().with_routing(Routing::DModK);
    assert!(!plain.spreads());
    for ends in [(0, 1), (1, 0)] {
        let route: Vec<_> = plain.route(ends.0, ends.1).collect();
        assert_eq!(graph.lane(ends.0, ends.1, LaneId::default()).collect::<Vec<_>>(), route);
    }
}
