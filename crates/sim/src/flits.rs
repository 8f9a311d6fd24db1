//! The report's section of flits.

use crate::names;
use crate::parts::Parts;
use network::{ChannelUsage, FlitLinkUsage, FlitUsage, Usage};
use stats::{FlitChannel, FlitClass, FlitLink, Flits};
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
        flits: u64::try_from(sum(|used| used.counts.flits.into())).unwrap_or(u64::MAX),
        virtual_channels: flits.channels,
        buffer: flits.buffer,
        hops_mean: flits.hops as f64 / flits.packets.max(1) as f64,
        hops_max: flits.hops_max,
        source_wait: flits.source_wait,
        network: flits.network,
        latency: flits.latency,
        no_credit_ns: time(|used| used.counts.no_credit.0.into()),
        no_channel_ns: time(|used| used.counts.no_channel.0.into()),
        lost_allocation_ns: time(|used| used.counts.lost.0.into()),
        link_count: rows.iter().map(|row| row.1).sum(),
        links: rows.iter().take(ROWS).map(|(link, count)| row(parts, link, *count, step)).collect(),
    })
}

/// Links with how many are like each, those for which flits waited longest first.
fn alike<'a>(parts: &Parts, links: &'a [FlitLinkUsage]) -> Vec<(&'a FlitLinkUsage, u64)> {
    type Key<'a> = (Reverse<u64>, Reverse<Span>, u32, [u64; 5], u128, &'a [(u16, ChannelUsage)]);
    let key = |link: &'a FlitLinkUsage| -> Key<'a> {
        let used = &link.whole;
        let waited = used.counts.no_credit.0 + used.counts.no_channel.0 + used.counts.lost.0;
        let counts = [
            used.counts.flits,
            used.counts.packets,
            used.counts.no_credit.0,
            used.counts.lost.0,
            used.held_max.into(),
        ];
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
        counts: used.counts,
        occupancy_mean: used.held as f64 / step.0.max(1) as f64,
        occupancy_max: used.held_max,
    }
}
