//! A router: what arrives, and which flits move in a cycle.

use super::state::{Down, Group, NODE, NONE, Node, Router, Sink, State};
use super::{BODY, Garnet, HEAD};
use crate::array::Array;
use crate::bits::{first_from, next_from};
use crate::fabric::{Head, Routing, Way};

/// Room for what inputs name in a cycle.
pub(super) struct Scratch {
    /// For each output, bits of the inputs that name a flit for it.
    requests: Array<u64>,
    /// Bits of the outputs that are named.
    outputs: Array<u64>,
    /// The slot that each input names, and the group by which its flit leaves.
    named: Array<(u32, u32)>,
}

impl Scratch {
    pub(super) fn new(routers: &[Router]) -> Scratch {
        let most = |size: fn(&Router) -> usize| routers.iter().map(size).max().unwrap_or(0);
        Scratch {
            requests: vec![0; most(|router| router.outputs() * router.in_words())].into(),
            outputs: vec![0; most(Router::out_words)].into(),
            named: vec![(NONE, NONE); most(|router| router.inputs as usize)].into(),
        }
    }
}

impl State {
    /// The head of a slot waits for a group of its router.
    #[inline(always)]
    fn waits(&mut self, slot: usize, group: usize) {
        let (at, group) = (self.vcs[slot].at, &mut self.groups[group]);
        group.heads.set(&mut self.words, at);
        // Without a branch: it would be guessed wrong in a busy network.
        let is_open = u64::from(!group.idle.is_empty());
        let router = &mut self.routers[group.from as usize];
        router.able.add(&mut self.words, at / 64, is_open << (at % 64));
    }

    /// The head of a slot no longer waits for a group.
    #[inline(always)]
    fn waits_no_more(&mut self, slot: usize, group: usize) {
        let at = self.vcs[slot].at;
        self.groups[group].heads.clear(&mut self.words, at);
    }

    /// A group of a router has an idle virtual channel again. Returns whether heads wait for it.
    #[inline(always)]
    fn opens(&mut self, group: usize) -> bool {
        let group = &self.groups[group];
        self.routers[group.from as usize].able.join(&mut self.words, &group.heads);
        !group.heads.is_empty()
    }

    /// A group of a router has no idle virtual channel any more.
    #[inline(always)]
    fn closes(&mut self, group: usize) {
        let group = &self.groups[group];
        if self.ways.is_empty() {
            self.routers[group.from as usize].able.part(&mut self.words, &group.heads);
        } else {
            self.closes_one_way(&group.clone());
        }
    }

    /// The same where heads may have other ways.
    fn closes_one_way(&mut self, group: &Group) {
        let router = self.routers[group.from as usize];
        let mut stuck = Vec::new();
        group.heads.each(&self.words, |at| {
            let sink = &self.sinks[(router.first_sink + (at >> router.shift)) as usize];
            let slot = sink.first + (at & ((1 << router.shift) - 1));
            if !self.has_other_way(slot as usize) {
                stuck.push(at);
            }
        });
        let able = &mut self.routers[group.from as usize].able;
        stuck.into_iter().for_each(|at| able.clear(&mut self.words, at));
    }

    /// Whether a group lets the head of a slot go that may choose among several.
    fn has_other_way(&self, slot: usize) -> bool {
        let is_open = |way: &Way| !self.groups[self.group_of(*way)].idle.is_empty();
        self.vcs[slot].down.group == NONE && self.ways[slot].iter().any(is_open)
    }
}

impl<R: Routing> Garnet<R> {
    /// A head arrives: its route is computed.
    #[inline]
    pub(super) fn head_arrives(&mut self, slot: usize) {
        let state = &mut self.state;
        let this = &mut state.vcs[slot];
        let packet = this.down.packet;
        let Sink { router, is_hop, .. } = state.sinks[this.sink as usize];
        let record = &mut self.packets[packet as usize];
        record.hops += u32::from(is_hop);
        let since = self.now as u32;
        this.down = Down { packet, ready: 1, since, left: record.packet.flits, ..Down::default() };
        state.uses[this.group as usize].enters(self.now);
        if self.settings.ordered {
            state.since[slot] = self.now;
        }
        if self.routing.is_adaptive() {
            self.may_choose(slot);
        } else {
            let way = self.routing.next(router, &record.packet, record.hops);
            let group = checked(state, router, way);
            let down = &mut state.vcs[slot].down;
            down.group = group as u32;
            down.able = state.groups[group].closed_before(self.now);
            state.waits(slot, group);
        }
        let is_busy = !self.state.routers[router as usize].able.is_empty();
        self.busy_routers[router as usize / 64] |= u64::from(is_busy) << (router % 64);
    }

    /// A head that may choose among several ways waits for all of them.
    fn may_choose(&mut self, slot: usize) {
        let state = &mut self.state;
        let this = &state.vcs[slot];
        let packet = this.down.packet;
        let Sink { router, channel, .. } = state.sinks[this.sink as usize];
        let vnet = (this.vc / self.settings.vcs_per_vnet) as u16;
        let vnet = state.groups_of[channel as usize].vnet + vnet;
        let packet = &self.packets[packet as usize].packet;
        state.ways.resize_with(state.vcs.len(), Vec::new);
        let mut ways = std::mem::take(&mut state.ways[slot]);
        ways.clear();
        self.routing.ways(&Head { packet, router, channel, vnet }, &mut ways);
        for way in &ways {
            let group = checked(state, router, *way);
            state.waits(slot, group);
        }
        state.ways[slot] = ways;
    }

    /// The group by which a head with several ways leaves now: of those with an idle virtual channel
    /// that of the channel with the fewest flits before it, the last way only if there is no other.
    fn choose(&self, slot: usize) -> usize {
        let state = &self.state;
        let is_open = |way: &&Way| !state.groups[state.group_of(**way)].idle.is_empty();
        let ways = &state.ways[slot];
        let before = ways[..ways.len() - 1].iter().filter(is_open);
        let best = before.min_by_key(|way| state.ahead[way.channel as usize]);
        state.group_of(*best.unwrap_or(&ways[ways.len() - 1]))
    }

    /// Another flit of a packet arrives.
    #[inline]
    pub(super) fn body_arrives(&mut self, slot: usize) {
        let this = &mut self.state.vcs[slot];
        self.state.uses[this.group as usize].enters(self.now);
        this.down.ready += 1;
        let (ready, to) = (this.down.ready, this.down.to);
        if ready == 1 {
            this.down.since = self.now as u32;
            if to != NONE && self.state.vcs[to as usize].up.credits > 0 {
                self.moves(slot);
            }
        }
    }

    /// The next flit of a virtual channel, no head, has what it needs.
    #[inline]
    fn moves(&mut self, slot: usize) {
        let this = &mut self.state.vcs[slot];
        this.down.able = self.now as u32;
        let (router, at) = (self.state.sinks[this.sink as usize].router, this.at);
        self.state.routers[router as usize].able.set(&mut self.state.words, at);
        self.wake_router(router);
    }

    /// A credit arrives for a packet that had none.
    #[inline]
    pub(super) fn unblocks(&mut self, slot: usize) {
        let this = &self.state.vcs[slot];
        let (owner, group) = (this.up.owner as usize, &self.state.groups[this.group as usize]);
        if group.from & NODE == 0 {
            if self.state.vcs[owner].down.ready > 0 {
                self.moves(owner);
            }
            return;
        }
        let node = group.from & !NODE;
        let Node { outputs, feeding, .. } = &mut self.state.nodes[node as usize];
        let output = &mut outputs[group.output as usize];
        output.feed.set(&mut self.state.words, slot as u32 - output.first);
        *feeding |= 1 << group.output;
        self.wake_node(node);
    }

    /// A group has an idle virtual channel again.
    pub(super) fn opens(&mut self, group: usize) {
        let this = &mut self.state.groups[group];
        let (from, at) = (this.from, this.at);
        if from & NODE != 0 {
            let node = from & !NODE;
            self.state.nodes[node as usize].waiting |= 1 << at;
            return self.wake_node(node);
        }
        this.closed.opens(self.now);
        if self.state.opens(group) {
            self.wake_router(from);
        }
    }

    /// Each input names a flit, each output takes one. Returns whether any input may still have one.
    pub(super) fn allocate(&mut self, router: usize) -> bool {
        let at = &{ self.state.routers[router] };
        let (in_words, mut next, mut any) = (at.in_words(), 0, false);
        while let Some(place) = at.able.next(&self.state.words, next) {
            let input = place >> at.shift;
            next = (input + 1) << at.shift;
            let Some(slot) = self.name(at, input) else { continue };
            any = true;
            let mut group = self.state.vcs[slot].down.group;
            if group == NONE {
                group = self.choose(slot) as u32;
            }
            let output = usize::from(self.state.groups[group as usize].output);
            self.scratch.requests[output * in_words + input as usize / 64] |= 1 << (input % 64);
            self.scratch.outputs[output / 64] |= 1 << (output % 64);
            self.scratch.named[input as usize] = (slot as u32, group);
        }
        for word in 0..at.out_words() {
            let mut bits = std::mem::take(&mut self.scratch.outputs[word]);
            while bits != 0 {
                let output = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.grant(at, output);
            }
        }
        any && !self.state.routers[router].able.is_empty()
    }

    /// The slot of the flit that an input names: the first that can move, from behind the one that
    /// moved last.
    #[inline(always)]
    fn name(&self, router: &Router, input: u32) -> Option<usize> {
        let sink = &self.state.sinks[(router.first_sink + input) as usize];
        let first = input << router.shift;
        if self.settings.ordered {
            return self.name_in_order(router, sink, first);
        }
        let at = router.able.first_of(&self.state.words, first, router.shift, sink.turn);
        Some((sink.first + at - first) as usize)
    }

    /// The same, only of packets that came before all others on their way.
    fn name_in_order(&self, router: &Router, sink: &Sink, first: u32) -> Option<usize> {
        let vcs = (sink.turn..sink.vcs).chain(0..sink.turn);
        let able = vcs.filter(|&vc| router.able.has(&self.state.words, first + vc));
        able.map(|vc| (sink.first + vc) as usize).find(|&slot| self.is_first(slot))
    }

    /// Whether no packet of an input that came before that of a slot has flits left for the same
    /// group.
    pub(super) fn is_first(&self, slot: usize) -> bool {
        let state = &self.state;
        let (this, since) = (&state.vcs[slot], state.since[slot]);
        let first = state.groups[this.group as usize].first as usize;
        !(first..first + self.settings.vcs_per_vnet as usize).any(|other| {
            let down = &state.vcs[other].down;
            down.packet != NONE && state.since[other] < since && down.group == this.down.group
        })
    }

    /// An output takes one of the flits that were named for it.
    #[inline]
    fn grant(&mut self, router: &Router, output: usize) {
        let (in_words, requests) = (router.in_words(), &mut self.scratch.requests);
        let turn = &mut self.state.turns[router.first_output as usize + output];
        let input = if in_words == 1 {
            first_from(std::mem::take(&mut requests[output]), *turn) as usize
        } else {
            let requests = &mut requests.as_mut_slice()[output * in_words..][..in_words];
            let input = next_from(requests, *turn as usize).unwrap_or_default();
            requests.fill(0);
            input
        };
        let next = input as u32 + 1;
        *turn = if next == router.inputs { 0 } else { next };
        let (slot, group) = self.scratch.named[input];
        self.crosses(slot as usize, group as usize);
    }

    /// A flit crosses the router.
    #[inline(always)]
    fn crosses(&mut self, slot: usize, group: usize) {
        self.traversals += 1;
        if let Some(checker) = &mut self.checker {
            checker.moves(slot);
        }
        let (now, next) = (self.now as u32, (self.now as u32).wrapping_add(1));
        let state = &mut self.state;
        let this = &mut state.vcs[slot];
        let (before, number, vc, at) = (this.down, this.sink as usize, this.vc, this.at);
        let (is_head, is_last) = (before.to == NONE, before.left == 1);
        let packet = if is_last { NONE } else { before.packet };
        let (ready, left) = (before.ready - 1, before.left - 1);
        this.down = Down { packet, ready, left, since: next, able: next, ..before };
        state.uses[this.group as usize].leaves(self.now);
        let waited = u64::from(now.wrapping_sub(before.since));
        let to =
            if is_head { self.enters((slot, &before), group, waited) } else { before.to as usize };
        if !is_head && waited > 0 {
            let lost = u64::from(now.wrapping_sub(before.able));
            let used = &mut self.state.uses[group];
            used.no_credit += waited - lost;
            used.lost += lost;
        }
        if is_last && self.border.is_some() {
            self.crossed(group, before.packet);
        }
        let state = &mut self.state;
        let up = &mut state.vcs[to].up;
        up.credits -= 1;
        if is_last {
            up.owner = NONE;
        }
        let credits = up.credits;
        let sink = &mut state.sinks[number];
        sink.turn = if vc + 1 == sink.vcs { 0 } else { vc + 1 };
        if is_last || ready == 0 || credits == 0 {
            state.routers[sink.router as usize].able.clear(&mut state.words, at);
        }
        self.put(group, to, if is_head { HEAD } else { BODY });
        self.give_back(slot, is_last);
    }

    /// The head of a packet gets an idle virtual channel, and waits no more. Returns its slot.
    #[inline(always)]
    fn enters(&mut self, (slot, down): (usize, &Down), group: usize, waited: u64) -> usize {
        let state = &mut self.state;
        if down.group == NONE {
            let ways = std::mem::take(&mut state.ways[slot]);
            for way in &ways {
                let group = state.group_of(*way);
                state.waits_no_more(slot, group);
            }
            state.ways[slot] = ways;
            state.vcs[slot].down.group = group as u32;
            state.uses[group].no_channel += waited;
        } else {
            state.waits_no_more(slot, group);
            let closed = state.groups[group].closed_before(self.now).wrapping_sub(down.able);
            state.uses[group].no_channel += u64::from(closed);
            state.uses[group].lost += waited - u64::from(closed);
        }
        let place = self.state.groups[group].idle.lowest(&self.state.words);
        let to = (self.state.groups[group].first + place) as usize;
        self.state.vcs[slot].down.to = to as u32;
        self.occupy(group, place, slot as u32);
        if self.border.is_some() && self.announced(group, down.packet) {
            return to;
        }
        self.state.vcs[to].down = Down::coming(down.packet, down.left);
        to
    }

    /// An idle virtual channel of a group belongs to `owner`.
    #[inline(always)]
    pub(super) fn occupy(&mut self, group: usize, place: u32, owner: u32) {
        let state = &mut self.state;
        let this = &mut state.groups[group];
        this.idle.clear(&mut state.words, place);
        state.vcs[(this.first + place) as usize].up.owner = owner;
        if this.idle.is_empty() && this.from & NODE == 0 {
            this.closed.closes(self.now);
            state.closes(group);
        }
    }

    /// Says at the other end of a virtual channel whose flits will come.
    #[inline]
    pub(super) fn hand_over(&mut self, slot: usize, packet: u32) {
        let left = self.packets[packet as usize].packet.flits;
        self.state.vcs[slot].down = Down::coming(packet, left);
    }
}

/// The group of a way that routing has named, which is checked here.
#[inline]
fn checked(state: &State, router: u32, way: Way) -> usize {
    let of = state.groups_of.as_slice()[way.channel as usize];
    let at = way.vnet.wrapping_sub(of.vnet);
    let group = of.first as usize + usize::from(at);
    assert!(
        at < of.vnets && state.groups[group].from == router,
        "router {router} has no virtual network {} of channel {}",
        way.vnet,
        way.channel
    );
    group
}
