//! The report's section of flits.

use crate::names;
use crate::parts::Parts;
use network::{ChannelUsage, Distribution, FlitLinkUsage, FlitUsage, Usage};
use stats::{FlitChannel, FlitClass, FlitLink, Flits, PacketTimes};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use units::{Span, Time};

/// Links listed.
const ROWS: usize = 20;

/// Counts of flits; nothing where the network has none.
pub(crate) fn report(parts: &Parts, usage: &Usage, step: Time) -> Option<Flits> {
    let flits: &FlitUsage = usage.flits.as_deref()?;
    let rows = alike(parts, &flits.links);
    let sum = |of: fn(&ChannelUsage) -> u128| -> u128 {
        rows.iter().map(|(link, count)| of(&link.whole) * u128::from(*count)).sum()
    };
    let time = |of: fn(&ChannelUsage) -> u128| sum(of) as f64 / units::PS_PER_NS as f64;
    Some(Flits {
        packets: flits.packets,
        flits: u64::try_from(sum(|used| used.flits.into())).unwrap_or(u64::MAX),
        virtual_channels: flits.channels,
        buffer: flits.buffer,
        hops_mean: flits.hops as f64 / flits.packets.max(1) as f64,
        hops_max: flits.hops_max,
        source_wait: times(&flits.source_wait),
        network: times(&flits.network),
        latency: times(&flits.latency),
        no_credit_ns: time(|used| used.no_credit.0.into()),
        no_channel_ns: time(|used| used.no_channel.0.into()),
        lost_allocation_ns: time(|used| used.lost.0.into()),
        link_count: rows.iter().map(|row| row.1).sum(),
        links: rows.iter().take(ROWS).map(|(link, count)| row(parts, link, *count, step)).collect(),
    })
}

fn times(times: &Distribution) -> PacketTimes {
    let [p50, p99, p99_9] = times.percentiles.map(Span::as_ns);
    let (mean_ns, max_ns) = (times.mean.as_ns(), times.max.as_ns());
    PacketTimes { mean_ns, p50_ns: p50, p99_ns: p99, p99_9_ns: p99_9, max_ns }
}

/// Links with how many are like each, those for which flits waited longest first.
fn alike<'a>(parts: &Parts, links: &'a [FlitLinkUsage]) -> Vec<(&'a FlitLinkUsage, u64)> {
    type Key<'a> = (Reverse<u64>, Reverse<Span>, u32, [u64; 5], u128, &'a [(u16, ChannelUsage)]);
    let key = |link: &'a FlitLinkUsage| -> Key<'a> {
        let used = &link.whole;
        let waited = used.no_credit.0 + used.no_channel.0 + used.lost.0;
        let counts =
            [used.flits, used.packets, used.no_credit.0, used.lost.0, used.held_max.into()];
        (Reverse(waited), Reverse(link.busy), link.dim, counts, used.held, &link.classes)
    };
    let mut rows: BTreeMap<Key<'a>, (&FlitLinkUsage, u64)> = BTreeMap::new();
    for link in links {
        let count = parts.stands_for(link.from);
        let row = rows.entry(key(link)).or_insert((link, 0));
        row.1 += count;
        if (link.from, link.to) < (row.0.from, row.0.to) {
            row.0 = link;
        }
    }
    rows.into_values().collect()
}

fn row(parts: &Parts, link: &FlitLinkUsage, count: u64, step: Time) -> FlitLink {
    let class = |(class, used): &(u16, ChannelUsage)| FlitClass {
        number: *class,
        channel: channel(used, step),
    };
    FlitLink {
        name: names::link_of_dimension(&parts.platform.fabric, link.from, link.to, link.dim),
        count,
        utilisation: link.busy.0 as f64 / step.0.max(1) as f64,
        channel: channel(&link.whole, step),
        classes: link.classes.iter().map(class).collect(),
    }
}

fn channel(used: &ChannelUsage, step: Time) -> FlitChannel {
    FlitChannel {
        flits: used.flits,
        packets: used.packets,
        no_credit_ns: used.no_credit.as_ns(),
        no_channel_ns: used.no_channel.as_ns(),
        lost_allocation_ns: used.lost.as_ns(),
        occupancy_mean: used.held as f64 / step.0.max(1) as f64,
        occupancy_max: used.held_max,
    }
}
