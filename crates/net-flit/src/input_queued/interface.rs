//! A network interface: packets get a virtual channel, their flits leave, and flits arrive.

use super::state::{NONE, Record};
use super::{Arrival, InputQueued};
use crate::bits::first_from;
use crate::fabric::Routing;

impl<R: Routing> InputQueued<R> {
    /// A link of a node sends a flit. Returns whether it may send another in the next cycle.
    pub(super) fn inject(&mut self, number: usize) -> bool {
        let link = &mut self.state.links[number];
        let (channel, base) = (link.channel, link.channel << self.state.shift);
        let first = link.left == 0;
        if first && !self.begin(number) {
            return false;
        }
        let link = &mut self.state.links[number];
        let vc = link.vc;
        let up = &mut self.state.vcs[(base + vc) as usize].up;
        if up.credits == 0 {
            return false;
        }
        up.credits -= 1;
        link.left -= 1;
        let last = link.left == 0;
        if last {
            up.owner = NONE;
            if !self.settings.pipeline.waits_for_tail_credit {
                self.state.free[channel as usize] |= 1 << vc;
            }
        }
        let flit = link.packet << 2 | u32::from(first) << 1 | u32::from(last);
        let more = !last || !link.queue.is_empty();
        self.put(base + vc, flit);
        more
    }

    /// The first packet in the queue of a link gets a virtual channel with a credit, if there is one.
    fn begin(&mut self, number: usize) -> bool {
        let vcs = self.settings.vcs;
        let link = &self.state.links[number];
        let (channel, base) = (link.channel, link.channel << self.state.shift);
        let Some(waiting) = link.queue.front().filter(|waiting| waiting.since < self.now) else {
            return false;
        };
        let free = self.state.free[channel as usize] & self.state.of_vnet(waiting.packet.vnet, vcs);
        let least = if self.settings.cut_through { waiting.flits() } else { 1 };
        let (mut left, mut next) = (free, link.vc + 1);
        let vc = loop {
            if left == 0 {
                return false;
            }
            let vc = first_from(left, next % 64);
            if u32::from(self.state.vcs[(base + vc) as usize].up.credits) >= least {
                break vc;
            }
            (left, next) = (left & !(1 << vc), vc + 1);
        };
        let queue = &mut self.state.links[number].queue;
        let Some(waiting) = queue.front_mut() else { return false };
        let (token, queued) = (waiting.token, waiting.since);
        let (mut packet, is_last) = waiting.pop();
        if is_last {
            queue.pop_front();
        }
        self.routing.enters(&mut packet);
        let record = Record { packet, token, queued, entered: self.now, hops: 0 };
        let place = match self.free_packets.pop() {
            Some(place) => {
                self.packets[place as usize] = record;
                place
            }
            None => {
                self.packets.push(record);
                self.packets.len() as u32 - 1
            }
        };
        let link = &mut self.state.links[number];
        (link.vc, link.packet, link.left) = (vc, place, packet.flits);
        self.state.free[channel as usize] &= !(1 << vc);
        self.state.vcs[(base + vc) as usize].up.owner = number as u32;
        true
    }

    /// A flit arrives at a node.
    #[inline]
    pub(super) fn eject(&mut self, slot: u32, flit: u32, arrived: &mut Vec<Arrival>) {
        if flit & 1 == 1 {
            self.under_way -= 1;
            self.free_packets.push(flit >> 2);
            let record = &self.packets[(flit >> 2) as usize];
            arrived.push(Arrival {
                token: record.token,
                packet: record.packet,
                cycle: self.now,
                queued: record.entered - record.queued - 1,
                network: self.now - record.entered,
                hops: record.hops,
            });
        }
        self.give_back(slot);
    }
}
