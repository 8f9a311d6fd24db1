//! Rates after each change, held against the definition of max-min fairness on links whose
//! capacities differ by at most the tolerance.

use crate::backend::FairFlows;
use crate::limits::Limits;
use net_settings::flow::Flow;
use network::{Backend, LinkCost, Transfer};
use topology::generate::{Values, Wire, generate, generator};
use topology::{Fabric, GraphLink, LinkGraph, Routing};
use units::{Bandwidth, Ratio, Span, Time};

/// SplitMix64 (Steele, Lea, Flood 2014): the cases are the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

/// A fat tree of 16 NPUs, with bandwidths drawn for each kind of link.
fn fat_tree(limits: Limits, random: &mut Random) -> FairFlows {
    let made = generator("fat_tree").expect("a generator");
    let mut values = Values::default();
    values.set("radix", vec![4]);
    let wire = |_| Wire {
        bandwidth: Bandwidth(1_000_000_007 * (20 + random.below(30))),
        latency: Span(random.below(900_000)),
    };
    let wires = (0..made.kinds(&values).len()).map(wire).collect();
    let fabric = generate(made, values, wires).expect("a fabric");
    let cost = |l: &GraphLink| LinkCost::Exact { bandwidth: l.bandwidth, latency: l.latency };
    let costs = fabric.links.iter().map(cost).collect();
    let graph = LinkGraph::new(&Fabric::Graph(fabric)).expect("connected");
    FairFlows::new(graph.with_routing(Routing::Hash { seed: 3 }), costs, true, limits)
}

/// Flows between random NPUs that start one after another, with many under way at a time.
fn traffic(npus: u32, random: &mut Random) -> Vec<(Time, Transfer)> {
    let mut now = 0;
    let transfer = |token| {
        now += random.below(2) * random.below(400_000 / u64::from(npus));
        let src = random.below(npus.into()) as u32;
        let dst = (src + 1 + random.below(u64::from(npus) - 1) as u32) % npus;
        let bytes = 1 + random.below(200_000);
        (Time(now), Transfer { src, dst, bytes, paced: bytes, token, weight: 1 })
    };
    (0..u64::from(npus) * 12).map(transfer).collect()
}

impl FairFlows {
    /// No link sends more than it can but for `part` millionths, and each flow has a link that is
    /// full but for as much, on which no other flow is faster.
    fn check(&self, part: u128) {
        for (state, room) in self.links.states.iter().zip(&self.links.rooms) {
            let level = |member: &crate::links::Member| self.paths[member.flow as usize].level;
            let used = |m| u128::from(level(m).value) * m.demand;
            let used: u128 = state.members.iter().map(used).sum();
            assert_eq!(room.left, state.capacity as i128 - used as i128, "the sum that is kept");
            let most = state.capacity + state.capacity / 1_000_000 * part;
            assert!(used <= most, "{used} of {} is used", state.capacity);
            for member in &state.members {
                assert!(level(member).value <= room.full_at.value);
            }
        }
        let running = self.links.states.iter().flat_map(|state| &state.members);
        for member in running.filter(|member| member.hop == 0) {
            let level = self.paths[member.flow as usize].level;
            let holds = |hop: &crate::backend::Hop| {
                let link = hop.used.link as usize;
                let (state, room) = (&self.links.states[link], &self.links.rooms[link]);
                let slack = state.capacity / 1_000_000 * part;
                // Levels are rounded down: up to one unit for each flow is missing.
                room.full_at.value == level.value && room.left <= (slack + state.demand) as i128
            };
            let hops = &self.flows[member.flow as usize].hops;
            assert!(hops.iter().any(holds), "no link holds the flow back at {level:?}");
        }
    }

    /// Runs to the end, with a look at each change; returns when the last flow arrives.
    fn drive(&mut self, transfers: &[(Time, Transfer)], part: u128) -> Time {
        let (mut finished, mut waiting) = (Vec::new(), transfers.iter().peekable());
        loop {
            let next = waiting.peek().map(|(start, _)| *start);
            let event = self.next_event();
            match (next, event) {
                (Some(start), event) if event.is_none_or(|event| start <= event) => {
                    let (start, transfer) = waiting.next().expect("one waits");
                    self.start(*start, *transfer);
                }
                (_, Some(event)) => self.advance(event, &mut finished),
                _ => break,
            }
            if self.dirty.is_empty() {
                self.check(part);
            }
        }
        assert_eq!(finished.len(), transfers.len());
        finished.last().map_or(Time::ZERO, |last| last.time)
    }
}

#[test]
fn rates_are_fair_on_links_within_the_tolerance() {
    let mut random = Random(11);
    for case in 0..6 {
        let seed = random.below(1 << 40);
        let transfers = traffic(16, &mut random);
        let ends = [None, Some(1_000), Some(10_000), Some(100_000)].map(|part| {
            let tolerance = part.map_or(Ratio::ONE, Ratio);
            let settings = Flow { exact: part.is_none(), tolerance, ..Flow::default() };
            let mut backend = fat_tree(settings.into(), &mut Random(seed));
            backend.drive(&transfers, part.unwrap_or(0).into()).0 as f64
        });
        for (end, part) in ends[1..].iter().zip([0.001, 0.01, 0.1]) {
            let error = (end / ends[0] - 1.0).abs();
            assert!(error < part, "{case}: {error} with a tolerance of {part}");
        }
    }
}
