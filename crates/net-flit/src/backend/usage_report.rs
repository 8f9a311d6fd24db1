//! Reports of the network on its packets and links.

use super::routers::Routers;
use crate::report::Arrival;
use crate::virtual_network_usage::Use;
use engine::Histogram;
use network::{ChannelUsage, FlitCounts, FlitLinkUsage, FlitUsage, PacketTimes};
use topology::LinkGraph;
use units::Span;

/// Times of packets in cycles, and the links that they crossed.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketStatistics {
    source_wait: Histogram<6>,
    network: Histogram<6>,
    latency: Histogram<6>,
    hops: u64,
    hops_max: u32,
}

impl PacketStatistics {
    /// A packet that stands for `weight` has arrived.
    #[inline]
    pub(super) fn arrives(&mut self, arrival: &Arrival, weight: u64) {
        self.source_wait.add_times(arrival.queued, weight);
        self.network.add_times(arrival.network, weight);
        self.latency.add_times(arrival.queued + arrival.network, weight);
        self.hops += u64::from(arrival.hops) * weight;
        self.hops_max = self.hops_max.max(arrival.hops);
    }

    /// All of it, with what `links` have done.
    pub(super) fn usage(
        &self,
        cycle: Span,
        network: &Routers,
        links: Vec<FlitLinkUsage>,
    ) -> FlitUsage {
        let (channels, buffer) = network.channels();
        FlitUsage {
            packets: self.latency.count,
            hops: self.hops,
            hops_max: self.hops_max,
            source_wait: packet_times(&self.source_wait, cycle),
            network: packet_times(&self.network, cycle),
            latency: packet_times(&self.latency, cycle),
            channels,
            buffer,
            links,
        }
    }
}

fn packet_times(times: &Histogram<6>, cycle: Span) -> PacketTimes {
    let span = |cycles: u64| Span(cycles * cycle.0);
    let part = |per_mille| span(times.per_mille(per_mille).min(times.max));
    PacketTimes {
        mean: Span(times.mean_times(cycle.0)),
        p50: part(500),
        p99: part(990),
        p99_9: part(999),
        max: span(times.max),
    }
}

/// Use of each link on all its channels and classes.
pub(super) fn whole(graph: &LinkGraph, network: &Routers) -> Vec<Use> {
    let lanes = &network.routing().lanes;
    let mut links = vec![Use::default(); graph.len() as usize];
    for (channel, uses) in (0..).zip(network.uses()) {
        let Some(link) = lanes.link(channel) else { break };
        let all = &mut links[link as usize];
        *all = uses.into_iter().fold(*all, Use::and);
    }
    links
}

/// Use of each link that carried flits on all its channels; `busy` gives the time for which it was
/// sending.
pub(super) fn links(
    graph: &LinkGraph,
    network: &Routers,
    cycle: Span,
    busy: impl Fn(u32, u64) -> Span,
) -> Vec<FlitLinkUsage> {
    let lanes = &network.routing().lanes;
    let mut classes: Vec<Vec<Use>> = vec![Vec::new(); graph.len() as usize];
    for (channel, uses) in (0..).zip(network.uses()) {
        let Some(link) = lanes.link(channel) else { break };
        let all = &mut classes[link as usize];
        for (class, used) in uses.into_iter().enumerate() {
            all.resize(all.len().max(class + 1), Use::default());
            all[class] = all[class].and(used);
        }
    }
    let link = |(link, classes): (u32, Vec<Use>)| {
        let ends = graph.link(link);
        let whole = classes.iter().fold(Use::default(), |all, used| all.and(*used));
        let carried = (0..).zip(&classes).filter(|(_, used)| used.flits > 0);
        let mut classes: Vec<(u16, ChannelUsage)> =
            carried.map(|(class, used)| (class, channel(used, cycle))).collect();
        if classes.len() < 2 {
            classes.clear();
        }
        (whole.flits > 0).then(|| FlitLinkUsage {
            from: ends.from,
            to: ends.to,
            dim: ends.dim,
            busy: busy(link, whole.flits),
            whole: channel(&whole, cycle),
            classes,
        })
    };
    (0..).zip(classes).filter_map(link).collect()
}

fn channel(used: &Use, cycle: Span) -> ChannelUsage {
    let span = |cycles: u64| Span(cycles * cycle.0);
    ChannelUsage {
        counts: FlitCounts {
            flits: used.flits,
            packets: used.packets,
            no_credit: span(used.no_credit),
            no_channel: span(used.no_channel),
            lost: span(used.lost),
        },
        held: u128::from(used.held_cycles) * u128::from(cycle.0),
        held_max: used.held_max,
    }
}
