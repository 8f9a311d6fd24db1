//! A part of a network: its routers and nodes are simulated here, the others elsewhere.
//!
//! All parts know the whole fabric. What goes on a channel to another part is a [`Parcel`]; it
//! takes a cycle at least, so parts can be simulated side by side, cycle by cycle.

use super::state::Record;
use super::{CREDIT, Event, Garnet, HEAD};
use crate::fabric::{End, Fabric, Routing};

/// A flit or a credit for another part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel {
    /// Cycle in which it arrives.
    pub cycle: u64,
    event: Event,
    /// With the first flit, its packet.
    record: Option<Record>,
}

/// Where the own part ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Border {
    /// For each channel, the part that it leads to and the one that it comes from, where that is
    /// another.
    to: Vec<Option<u16>>,
    from: Vec<Option<u16>>,
    /// Parcels that left in this cycle, with the part that each goes to.
    pub left: Vec<(u16, Parcel)>,
    /// The packet of the first flit that is about to leave.
    head: Option<Record>,
}

/// The part of each router and node: equal shares of the channels that leave routers, in the order
/// of their numbers. Nothing where a node has channels to routers of several parts.
pub(super) fn parts(fabric: &Fabric, count: u16) -> Option<(Vec<u16>, Vec<u16>)> {
    let mut leaving = vec![1u64; fabric.routers as usize];
    for channel in &fabric.channels {
        if let End::Router(router) = channel.from {
            leaving[router as usize] += 1;
        }
    }
    let all: u64 = leaving.iter().sum();
    let mut before = 0;
    let part = |&own: &u64| {
        let part = before * u64::from(count) / all;
        before += own;
        part as u16
    };
    let routers: Vec<u16> = leaving.iter().map(part).collect();
    let mut nodes: Vec<Option<u16>> = vec![None; fabric.nodes as usize];
    for channel in &fabric.channels {
        let ((End::Node(node), End::Router(router)) | (End::Router(router), End::Node(node))) =
            (channel.from, channel.to)
        else {
            continue;
        };
        let part = routers[router as usize];
        if *nodes[node as usize].get_or_insert(part) != part {
            return None;
        }
    }
    Some((routers, nodes.into_iter().map(|part| part.unwrap_or(0)).collect()))
}

impl Border {
    /// Border of part `own`.
    pub(super) fn new(fabric: &Fabric, (routers, nodes): (&[u16], &[u16]), own: u16) -> Border {
        let other = |end: End| {
            let part = match end {
                End::Router(router) => routers[router as usize],
                End::Node(node) => nodes[node as usize],
            };
            (part != own).then_some(part)
        };
        Border {
            to: fabric.channels.iter().map(|channel| other(channel.to)).collect(),
            from: fabric.channels.iter().map(|channel| other(channel.from)).collect(),
            ..Border::default()
        }
    }

    /// Whether a channel leads to another part.
    #[inline]
    pub(super) fn is_crossed_by(&self, channel: u32) -> bool {
        self.to[channel as usize].is_some()
    }

    /// The packet of the first flit that leaves next.
    pub(super) fn announces(&mut self, record: Record) {
        self.head = Some(record);
    }

    /// Takes a flit that leads to another part. Returns whether it does.
    #[inline]
    pub(super) fn takes_flit(&mut self, channel: u32, cycle: u64, event: Event) -> bool {
        let Some(to) = self.to[channel as usize] else { return false };
        let record = if event & 3 == HEAD { self.head.take() } else { None };
        self.left.push((to, Parcel { cycle, event, record }));
        true
    }

    /// Takes a credit for another part. Returns whether it is one.
    #[inline]
    pub(super) fn takes_credit(&mut self, channel: u32, cycle: u64, event: Event) -> bool {
        let Some(from) = self.from[channel as usize] else { return false };
        self.left.push((from, Parcel { cycle, event, record: None }));
        true
    }
}

impl<R: Routing> Garnet<R> {
    /// Only simulates the part within the border.
    pub(super) fn within(mut self, border: Border) -> Garnet<R> {
        self.border = Some(Box::new(border));
        self
    }

    /// Parcels that left for other parts since the last time.
    pub(super) fn left(&mut self) -> std::vec::Drain<'_, (u16, Parcel)> {
        self.border.get_or_insert_default().left.drain(..)
    }

    /// A flit or a credit comes from another part.
    pub(super) fn comes(&mut self, Parcel { cycle, event, record }: Parcel) {
        if let Some(record) = record {
            let number = self.record(record);
            self.hand_over((event >> 2) as usize, number);
        }
        let calendar = if event & 3 < CREDIT { &mut self.flits } else { &mut self.credits };
        calendar.push(self.now, cycle, event);
    }

    /// Announces a packet whose head leaves for another part. Returns whether it does.
    #[cold]
    pub(super) fn announced(&mut self, group: usize, packet: u32) -> bool {
        let Some(border) = &mut self.border else { return false };
        let leaves = border.is_crossed_by(self.state.groups[group].channel);
        if leaves {
            border.announces(self.packets[packet as usize]);
        }
        leaves
    }

    /// The last flit of a packet leaves by a group: its record is free if that leads to another part.
    #[cold]
    pub(super) fn crossed(&mut self, group: usize, packet: u32) {
        let channel = self.state.groups[group].channel;
        if self.border.as_ref().is_some_and(|border| border.is_crossed_by(channel)) {
            self.free_packets.push(packet);
        }
    }
}
