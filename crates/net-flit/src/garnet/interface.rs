//! A network interface: packets get a virtual channel, their flits leave, and flits arrive.

use super::state::{NONE, Record};
use super::{Arrival, BODY, Garnet, HEAD};
use crate::fabric::Routing;
use crate::queue::Waiting;

impl<R: Routing> Garnet<R> {
    /// Moves packets of an interface in a cycle: each lane takes at most one packet, each link at
    /// most one flit. Returns whether it may have more to do in the next cycle.
    pub(super) fn inject(&mut self, number: usize) -> bool {
        let mut bits = self.state.nodes[number].waiting;
        while bits != 0 {
            let lane = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if !self.take(number, lane) {
                self.state.nodes[number].waiting &= !(1 << lane);
            }
        }
        let mut bits = self.state.nodes[number].feeding;
        while bits != 0 {
            let output = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if !self.feed(number, output) {
                self.state.nodes[number].feeding &= !(1 << output);
            }
        }
        self.state.nodes[number].waiting | self.state.nodes[number].feeding != 0
    }

    /// The first packet of a lane gets an idle virtual channel. Returns whether the next one may get
    /// one in the next cycle.
    fn take(&mut self, number: usize, lane: usize) -> bool {
        let state = &mut self.state;
        let node = &mut state.nodes[number];
        let lane = &mut node.lanes[lane];
        let Some(waiting) = lane.queue.front_mut() else { return false };
        if waiting.since >= self.now {
            // The calendar wakes the node.
            return false;
        }
        let group = &state.groups[lane.group as usize];
        if group.idle.is_empty() {
            return false;
        }
        let place = group.idle.first_from(&state.words, lane.turn);
        lane.turn = if place + 1 == self.settings.vcs_per_vnet { 0 } else { place + 1 };
        let (mut packet, is_last) = waiting.pop();
        let Waiting { token, since, .. } = *waiting;
        if is_last {
            lane.queue.pop_front();
        }
        self.routing.enters(&mut packet);
        let more = !lane.queue.is_empty();
        node.feeding |= 1 << lane.output;
        let slot = group.first + place;
        let output = &mut node.outputs[lane.output as usize];
        output.feed.set(&mut state.words, slot - output.first);
        state.vcs[slot as usize].up.left = packet.flits;
        let group = lane.group as usize;
        let record = Record { packet, token, queued: since, entered: self.now, hops: 0 };
        let packet = self.record(record);
        self.occupy(group, place, packet);
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
    fn feed(&mut self, number: usize, output: usize) -> bool {
        let state = &mut self.state;
        let output = &mut state.nodes[number].outputs[output];
        if output.feed.is_empty() {
            return false;
        }
        // The first to look at is the one behind the last that sent.
        let behind = output.sent + u32::from(self.settings.interleaves);
        let behind = if behind == output.vcs { 0 } else { behind };
        let vc = output.feed.first_from(&state.words, behind);
        output.sent = vc;
        let slot = (output.first + vc) as usize;
        let this = &mut state.vcs[slot];
        let (group, packet) = (this.group as usize, this.up.owner);
        let is_head = this.up.left == self.packets[packet as usize].packet.flits;
        this.up.credits -= 1;
        this.up.left -= 1;
        if this.up.left == 0 {
            this.up.owner = NONE;
        }
        if this.up.left == 0 || this.up.credits == 0 {
            output.feed.clear(&mut state.words, vc);
        }
        if is_head {
            self.hand_over(slot, packet);
        }
        self.put(group, slot, if is_head { HEAD } else { BODY });
        true
    }

    /// A flit arrives at a node.
    #[inline]
    pub(super) fn eject(&mut self, slot: usize, arrived: &mut Vec<Arrival>) {
        let down = &mut self.state.vcs[slot].down;
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
        self.give_back(slot, last);
    }
}
