//! A network interface: packets get a virtual channel, their flits leave, and flits arrive.

use super::state::{NONE, Record};
use super::{Arrival, BODY, Garnet, HEAD};
use crate::bits::next_from;
use crate::fabric::Routing;
use crate::queue::Waiting;

impl<R: Routing> Garnet<R> {
    /// What an interface does in a cycle: each lane takes at most one packet, each link
    /// at most one flit. Returns whether it may have more to do in the next cycle.
    pub(super) fn inject(&mut self, number: usize) -> bool {
        let mut bits = self.nodes[number].waiting;
        while bits != 0 {
            let lane = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if !self.take(number, lane) {
                self.nodes[number].waiting &= !(1 << lane);
            }
        }
        let mut bits = self.nodes[number].feeding;
        while bits != 0 {
            let output = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if !self.feed(self.nodes[number].outputs[output]) {
                self.nodes[number].feeding &= !(1 << output);
            }
        }
        self.nodes[number].waiting | self.nodes[number].feeding != 0
    }

    /// The first packet of a lane gets an idle virtual channel. Returns whether the next one may get
    /// one in the next cycle.
    fn take(&mut self, number: usize, lane: usize) -> bool {
        let node = &mut self.nodes[number];
        let lane = &mut node.lanes[lane];
        let Some(waiting) = lane.queue.front_mut() else { return false };
        if waiting.since >= self.now {
            // The calendar wakes the node.
            return false;
        }
        let channel = node.outputs[lane.output as usize];
        let vcs = self.settings.vcs_per_vnet;
        let vnet = lane.vnet;
        let first = vnet * vcs;
        let (slots, line) = (&self.slots, &self.lines[channel as usize]);
        let idle = |turn: &u32| {
            let (word, bit) = line.bit(first + turn);
            slots.idle[word] & bit != 0
        };
        let Some(found) = (lane.turn..vcs).chain(0..lane.turn).find(idle) else { return false };
        lane.turn = if found + 1 == vcs { 0 } else { found + 1 };
        let (mut packet, is_last) = waiting.pop();
        let Waiting { token, since, .. } = *waiting;
        if is_last {
            lane.queue.pop_front();
        }
        self.routing.enters(&mut packet);
        let more = !lane.queue.is_empty();
        node.feeding |= 1 << lane.output;
        let vc = first + found;
        let slot = line.slot(vc);
        let (word, bit) = line.bit(vc);
        self.slots.vcs[slot].up.left = packet.flits;
        self.slots.feed[word] |= bit;
        let record = Record { packet, token, queued: since, entered: self.now, hops: 0 };
        let number = self.record(record);
        self.occupy(channel, vnet, vc, number);
        more
    }

    /// The number of a packet in the network.
    pub(super) fn record(&mut self, record: Record) -> u32 {
        if let Some(number) = self.free_packets.pop() {
            self.packets[number as usize] = record;
            return number;
        }
        self.packets.push(record);
        self.packets.len() as u32 - 1
    }

    /// A link takes a flit. Returns whether it may take another in the next cycle.
    fn feed(&mut self, channel: u32) -> bool {
        let line = &self.lines[channel as usize];
        let masks = &self.slots.feed[line.mask(0)..][..line.words as usize];
        // The first to look at is the one behind the last that sent.
        let behind = self.slots.sent[channel as usize] + u32::from(self.settings.interleaves);
        let behind = if behind == line.first + line.vcs { line.first } else { behind };
        let first = line.word() * 64;
        let Some(at) = next_from(masks, (behind - first) as usize) else { return false };
        let vc = first + at as u32;
        let (word, bit) = line.bit(vc);
        let slot = line.slot(vc);
        self.slots.sent[channel as usize] = vc;
        let up = self.slots.vcs[slot].up;
        let packet = up.owner;
        let what = if up.left == self.packets[packet as usize].packet.flits {
            self.hand_over(channel, vc, packet);
            HEAD
        } else {
            BODY
        };
        let up = &mut self.slots.vcs[slot].up;
        up.credits -= 1;
        up.left -= 1;
        if up.left == 0 {
            up.owner = NONE;
        }
        if up.left == 0 || up.credits == 0 {
            self.slots.feed[word] &= !bit;
        }
        self.put(channel, vc, what);
        true
    }

    /// A flit arrives at a node.
    #[inline]
    pub(super) fn eject(&mut self, channel: u32, vc: u32, arrived: &mut Vec<Arrival>) {
        let slot = self.lines[channel as usize].slot(vc);
        let down = &mut self.slots.vcs[slot].down;
        down.left -= 1;
        let (last, packet) = (down.left == 0, down.packet);
        if last {
            down.packet = NONE;
            self.under_way = self.under_way.wrapping_sub(1);
            self.free_packets.push(packet);
            let record = &self.packets[packet as usize];
            arrived.push(Arrival {
                token: record.token,
                packet: record.packet,
                cycle: self.now,
                queued: record.entered - record.queued,
                network: self.now - record.entered - 1,
                hops: record.hops,
            });
        }
        self.give_back(channel, vc, last);
    }
}
