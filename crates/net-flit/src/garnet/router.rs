//! A router: what arrives, and which flits move in a cycle.

use super::state::{Down, Line, NONE, Router};
use super::{BODY, Garnet, HEAD};
use crate::bits::{first_from, next_from};
use crate::fabric::{End, Head, Routing, Way};

/// Room for what inputs name in a cycle.
pub(super) struct Scratch {
    /// For each output, bits of the inputs that name a flit for it.
    requests: Vec<u64>,
    /// Outputs that are named.
    outputs: Vec<u16>,
    /// The virtual channel that each input names.
    named: Vec<u32>,
}

impl Scratch {
    pub(super) fn new(routers: &[Router]) -> Scratch {
        let most = |size: fn(&Router) -> usize| routers.iter().map(size).max().unwrap_or(0);
        Scratch {
            requests: vec![0; most(|router| router.outputs as usize * router.in_words())],
            outputs: Vec::new(),
            named: vec![0; most(|router| router.inputs as usize)],
        }
    }
}

impl<R: Routing> Garnet<R> {
    /// A head arrives: its route is computed.
    #[inline]
    pub(super) fn head_arrives(&mut self, router: u32, channel: u32, vc: u32) {
        let line = &self.lines[channel as usize];
        let slot = line.slot(vc);
        let packet = self.slots.vcs[slot].down.packet;
        let record = &mut self.packets[packet as usize];
        record.hops += u32::from(matches!(line.from, End::Router(_)));
        let left = record.packet.flits;
        if self.settings.ordered {
            self.slots.since[slot] = self.now;
        }
        if self.routing.is_adaptive() {
            let since = self.now as u32;
            self.slots.vcs[slot].down = Down { packet, ready: 1, left, since, ..Down::default() };
            self.slots.uses[self.slots.vcs[slot].used as usize].enters(self.now);
            return self.head_may_choose(router, channel, vc);
        }
        let way = self.routing.next(router, &record.packet, record.hops);
        let (out, out_vnet) = (way.channel, u32::from(way.vnet));
        let (state, group) = (self.routers[router as usize], self.group_of(router, way));
        let is_open = self.ports.open[state.open() + group / 64] >> (group % 64) & 1 == 1;
        let able = self.ports.closed[state.group(group)].before(self.now, is_open) as u32;
        let since = self.now as u32;
        self.slots.vcs[slot].down =
            Down { packet, ready: 1, left, out, out_vnet, out_vc: NONE, since, able };
        self.slots.uses[self.slots.vcs[slot].used as usize].enters(self.now);
        self.waits(&state, channel, vc, group);
        self.wake_router(router);
    }

    /// What a head waits for: the virtual network of an output. Here the way that its routing has
    /// named is checked.
    #[inline]
    fn group_of(&self, router: u32, way: Way) -> usize {
        let (line, vnet) = (&self.lines.as_slice()[way.channel as usize], u32::from(way.vnet));
        let first_vc = (vnet * self.settings.vcs_per_vnet).wrapping_sub(line.first);
        assert!(
            line.from == End::Router(router) && first_vc < line.vcs,
            "router {router} has no virtual network {vnet} of channel {}",
            way.channel
        );
        line.group_of(vnet)
    }

    /// A head that may choose among several ways waits for all of them.
    fn head_may_choose(&mut self, router: u32, channel: u32, vc: u32) {
        let slot = self.lines[channel as usize].slot(vc);
        let packet = &self.packets[self.slots.vcs[slot].down.packet as usize].packet;
        let vnet = (vc / self.settings.vcs_per_vnet) as u16;
        self.slots.ways.resize_with(self.slots.vcs.len(), Vec::new);
        let mut ways = std::mem::take(&mut self.slots.ways[slot]);
        ways.clear();
        self.routing.ways(&Head { packet, router, channel, vnet }, &mut ways);
        let state = self.routers[router as usize];
        for way in &ways {
            let group = self.group_of(router, *way);
            self.waits(&state, channel, vc, group);
        }
        self.slots.ways[slot] = ways;
        self.wake_router(router);
    }

    /// A head waits for a virtual channel of a group.
    #[inline]
    fn waits(&mut self, state: &Router, channel: u32, vc: u32, group: usize) {
        let line = &self.lines[channel as usize];
        let input = usize::from(line.input);
        let mask = (line.heads + group as u32 * line.words + vc / 64 - line.word()) as usize;
        self.slots.heads[mask] |= 1 << (vc % 64);
        self.ports.wants[state.wants(input) + group / 64] |= 1 << (group % 64);
        self.ports.waiters[state.waiters(group) + input / 64] |= 1 << (input % 64);
        self.ports.active[state.active(input / 64)] |= 1 << (input % 64);
    }

    /// The channel by which a head with several ways leaves now: of those with an idle virtual
    /// channel the one with the fewest flits before it, the last way only if there is no other.
    fn choose(&mut self, state: &Router, slot: usize) -> u32 {
        let is_open = |way: &&Way| {
            let group = self.lines[way.channel as usize].group_of(way.vnet.into());
            self.ports.open[state.open() + group / 64] >> (group % 64) & 1 == 1
        };
        let ways = &self.slots.ways[slot];
        let before = ways[..ways.len() - 1].iter().filter(is_open);
        let best = before.min_by_key(|way| self.slots.ahead[way.channel as usize]);
        let way = *best.unwrap_or(&ways[ways.len() - 1]);
        self.slots.vcs[slot].down.out_vnet = way.vnet.into();
        way.channel
    }

    /// Another flit of a packet arrives.
    #[inline]
    pub(super) fn body_arrives(&mut self, router: u32, channel: u32, vc: u32) {
        let line = &self.lines[channel as usize];
        let slot = line.slot(vc);
        self.slots.uses[self.slots.vcs[slot].used as usize].enters(self.now);
        let down = &mut self.slots.vcs[slot].down;
        down.ready += 1;
        if down.ready == 1 {
            down.since = self.now as u32;
        }
        if down.ready > 1 || down.out_vc == NONE {
            return;
        }
        let out = self.lines[down.out as usize].slot(down.out_vc);
        if self.slots.vcs[out].up.credits > 0 {
            self.moves(router, channel, vc);
        }
    }

    /// The next flit of a virtual channel, no head, has what it needs.
    #[inline]
    fn moves(&mut self, router: u32, channel: u32, vc: u32) {
        let line = &self.lines[channel as usize];
        self.slots.vcs[line.slot(vc)].down.able = self.now as u32;
        let (word, bit) = line.bit(vc);
        self.slots.body[word] |= bit;
        let (input, state) = (usize::from(line.input), self.routers[router as usize]);
        self.ports.active[state.active(input / 64)] |= 1 << (input % 64);
        self.wake_router(router);
    }

    /// A credit arrives for a packet that had none.
    #[inline]
    pub(super) fn unblocks(&mut self, channel: u32, vc: u32, slot: usize) {
        match self.lines[channel as usize].from {
            End::Node(node) => {
                let (word, bit) = self.lines[channel as usize].bit(vc);
                self.slots.feed[word] |= bit;
                self.nodes[node as usize].feeding |= 1 << self.lines[channel as usize].output;
                self.wake_node(node);
            }
            End::Router(router) => {
                let owner = self.slots.vcs[slot].up.owner;
                if self.slots.vcs[owner as usize].down.ready > 0 {
                    let (input, vc) = self.slots.vcs[owner as usize].place;
                    self.moves(router, input, vc);
                }
            }
        }
    }

    /// A virtual network of a channel has an idle virtual channel again.
    pub(super) fn opens(&mut self, channel: u32, vnet: u32) {
        let line = &self.lines[channel as usize];
        match line.from {
            End::Node(node) => {
                self.nodes[node as usize].waiting |= 1 << line.group_of(vnet);
                self.wake_node(node);
            }
            End::Router(router) => {
                let (group, state) = (line.group_of(vnet), self.routers[router as usize]);
                self.ports.open[state.open() + group / 64] |= 1 << (group % 64);
                self.ports.closed[state.group(group)].opens(self.now);
                self.wake_waiters(router, group);
            }
        }
    }

    /// Inputs with heads for a group look again.
    fn wake_waiters(&mut self, router: u32, group: usize) {
        let (state, ports) = (self.routers[router as usize], &mut self.ports);
        let mut any = false;
        for word in 0..state.in_words() {
            let at = state.waiters(group) + word;
            let mut bits = ports.waiters[at];
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                let input = word * 64 + bits.trailing_zeros() as usize;
                bits ^= bit;
                if ports.wants[state.wants(input) + group / 64] >> (group % 64) & 1 == 1 {
                    ports.active[state.active(word)] |= bit;
                    any = true;
                } else {
                    ports.waiters[at] &= !bit;
                }
            }
        }
        if any {
            self.wake_router(router);
        }
    }

    /// The lowest idle virtual channel of a virtual network.
    #[inline]
    fn lowest_idle(&self, channel: u32, vnet: u32) -> u32 {
        let vcs = self.settings.vcs_per_vnet;
        let line = &self.lines[channel as usize];
        let mut vc = vnet * vcs;
        loop {
            let bits = self.slots.idle[line.bit(vc).0] >> (vc % 64);
            if bits != 0 {
                return vc + bits.trailing_zeros();
            }
            vc = (vc / 64 + 1) * 64;
        }
    }

    /// Each input names a flit, each output takes one. Returns whether any input may still have one.
    pub(super) fn allocate(&mut self, router: usize) -> bool {
        let state = self.routers[router];
        let in_words = state.in_words();
        let mut any = 0;
        for word in 0..in_words {
            let mut bits = self.ports.active[state.active(word)];
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                let input = word * 64 + bits.trailing_zeros() as usize;
                bits ^= bit;
                if let Some((vc, slot)) = self.name(&state, input) {
                    let mut out = self.slots.vcs[slot].down.out;
                    if self.routing.is_adaptive() && out == NONE {
                        out = self.choose(&state, slot);
                    }
                    let output = self.lines[out as usize].output;
                    let at = usize::from(output) * in_words;
                    let requests = &mut self.scratch.requests[at..at + in_words];
                    if requests.iter().all(|&bits| bits == 0) {
                        self.scratch.outputs.push(output);
                    }
                    requests[word] |= bit;
                    self.scratch.named[input] = vc;
                } else {
                    self.ports.active[state.active(word)] &= !bit;
                }
            }
            any |= self.ports.active[state.active(word)];
        }
        while let Some(output) = self.scratch.outputs.pop() {
            self.grant(&state, output.into());
        }
        any != 0
    }

    /// The flit that an input names: the first that can move, from behind the one that moved last.
    /// Returns its virtual channel and slot.
    #[inline]
    fn name(&self, state: &Router, input: usize) -> Option<(u32, usize)> {
        let channel = self.ports.inputs[state.input(input)];
        let line = &self.lines[channel as usize];
        if line.words == 1 && !self.settings.ordered {
            let bits = self.able(state, input, line, 0);
            let vc = line.word() * 64 + first_from(bits, line.turn % 64);
            return (bits != 0).then(|| (vc, line.slot(vc)));
        }
        let (words, start) = (line.words, line.turn / 64 - line.word());
        let low = u64::MAX << (line.turn % 64);
        for step in 0..=words {
            let at = (start + step) % words;
            let mut bits = self.able(state, input, line, at);
            if step == 0 {
                bits &= low;
            } else if step == words {
                bits &= !low;
            }
            while bits != 0 {
                let vc = (line.word() + at) * 64 + bits.trailing_zeros();
                if !self.settings.ordered || self.is_first(line, vc) {
                    return Some((vc, line.slot(vc)));
                }
                bits &= bits - 1;
            }
        }
        None
    }

    /// Whether no packet of an input that came before that of `vc` has flits left for the same
    /// output and virtual network.
    pub(super) fn is_first(&self, line: &Line, vc: u32) -> bool {
        let slot = line.slot(vc);
        let (this, since) = (&self.slots.vcs[slot].down, self.slots.since[slot]);
        let vcs = self.settings.vcs_per_vnet;
        let first = vc / vcs * vcs;
        !(first..first + vcs).map(|other| line.slot(other)).any(|other| {
            let down = &self.slots.vcs[other].down;
            down.packet != NONE
                && self.slots.since[other] < since
                && (down.out, down.out_vnet) == (this.out, this.out_vnet)
        })
    }

    /// Bits of a word of an input: flits with a credit, and heads with an idle channel before them.
    #[inline]
    pub(super) fn able(&self, state: &Router, input: usize, line: &Line, at: u32) -> u64 {
        let mut bits = self.slots.body[line.mask(at)];
        for word in 0..state.group_words() {
            let wanted = self.ports.wants[state.wants(input) + word];
            let mut wanted = wanted & self.ports.open[state.open() + word];
            while wanted != 0 {
                let group = word as u32 * 64 + wanted.trailing_zeros();
                wanted &= wanted - 1;
                bits |= self.slots.heads[(line.heads + group * line.words + at) as usize];
            }
        }
        bits
    }

    /// An output takes one of the flits that were named for it.
    #[inline]
    fn grant(&mut self, state: &Router, output: usize) {
        let in_words = state.in_words();
        let requests = &mut self.scratch.requests[output * in_words..][..in_words];
        let turn = &mut self.ports.turns[state.output(output)];
        let input = next_from(requests, *turn as usize).unwrap_or_default();
        requests.fill(0);
        let next = input as u32 + 1;
        *turn = if next == state.inputs { 0 } else { next };
        let out = self.ports.outputs[state.output(output)];
        let vc = self.scratch.named[input];
        self.crosses(state, input, out, vc);
    }

    /// A flit crosses the router.
    #[inline]
    fn crosses(&mut self, state: &Router, input: usize, out: u32, vc: u32) {
        self.traversals += 1;
        let channel = self.ports.inputs[state.input(input)];
        let line = &mut self.lines[channel as usize];
        let slot = line.slot(vc);
        let (word, bit) = line.bit(vc);
        line.turn = vc + 1;
        if line.turn == line.first + line.vcs {
            line.turn = line.first;
        }
        if let Some(checker) = &mut self.checker {
            checker.moves(slot);
        }
        let (now, next) = (self.now as u32, (self.now as u32).wrapping_add(1));
        let this = &mut self.slots.vcs[slot];
        let before = this.down;
        let is_last = before.left == 1;
        let packet = if is_last { NONE } else { before.packet };
        let (ready, left) = (before.ready - 1, before.left - 1);
        this.down = Down { packet, ready, left, since: next, able: next, ..before };
        self.slots.uses[this.used as usize].leaves(self.now);
        let waited = u64::from(now.wrapping_sub(before.since));
        let is_head = before.out_vc == NONE;
        let out_vc = if is_head { self.lowest_idle(out, before.out_vnet) } else { before.out_vc };
        let there = self.lines[out as usize].slot(out_vc);
        let used = self.slots.vcs[there].used as usize;
        if is_head {
            let group = self.lines[out as usize].group_of(before.out_vnet);
            if self.routing.is_adaptive() && before.out == NONE {
                self.drop_choice(channel, (state, input), slot, vc);
                self.slots.vcs[slot].down.out = out;
                self.slots.uses[used].no_channel += waited;
            } else {
                self.drop_head(channel, (state, input), group, vc);
                if waited > 0 {
                    let closed = self.ports.closed[state.group(group)].before(self.now, true);
                    let closed = u64::from((closed as u32).wrapping_sub(before.able));
                    let used = &mut self.slots.uses[used];
                    used.no_channel += closed;
                    used.lost += waited - closed;
                }
            }
            self.slots.vcs[slot].down.out_vc = out_vc;
            self.occupy(out, before.out_vnet, out_vc, slot as u32);
            match &mut self.border {
                Some(border) if border.is_crossed_by(out) => {
                    border.announces(self.packets[before.packet as usize]);
                }
                _ => self.slots.vcs[there].down = Down::coming(before.packet, before.left),
            }
        } else if waited > 0 {
            let lost = u64::from(now.wrapping_sub(before.able));
            let used = &mut self.slots.uses[used];
            used.no_credit += waited - lost;
            used.lost += lost;
        }
        if is_last && self.border.as_ref().is_some_and(|border| border.is_crossed_by(out)) {
            self.free_packets.push(before.packet);
        }
        let up = &mut self.slots.vcs[there].up;
        up.credits -= 1;
        if is_last {
            up.owner = NONE;
        }
        if !is_last && ready > 0 && up.credits > 0 {
            self.slots.body[word] |= bit;
        } else {
            self.slots.body[word] &= !bit;
        }
        self.put(out, out_vc, if is_head { HEAD } else { BODY });
        self.give_back(channel, vc, is_last);
    }

    /// A head leaves those that wait for each of its ways.
    fn drop_choice(&mut self, channel: u32, at: (&Router, usize), slot: usize, vc: u32) {
        let ways = std::mem::take(&mut self.slots.ways[slot]);
        for way in &ways {
            let group = self.lines[way.channel as usize].group_of(way.vnet.into());
            self.drop_head(channel, at, group, vc);
        }
        self.slots.ways[slot] = ways;
    }

    /// A head leaves those of its input that wait for a group.
    #[inline]
    fn drop_head(&mut self, channel: u32, (state, input): (&Router, usize), group: usize, vc: u32) {
        let line = &self.lines[channel as usize];
        let at = (line.heads + group as u32 * line.words) as usize;
        let masks = &mut self.slots.heads.as_mut_slice()[at..at + line.words as usize];
        masks[(vc / 64 - line.word()) as usize] &= !(1 << (vc % 64));
        if masks.iter().all(|&bits| bits == 0) {
            self.ports.wants[state.wants(input) + group / 64] &= !(1 << (group % 64));
        }
    }

    /// Says at the other end of a virtual channel whose flits will come.
    #[inline]
    pub(super) fn hand_over(&mut self, out: u32, vc: u32, packet: u32) {
        let slot = self.lines[out as usize].slot(vc);
        let left = self.packets[packet as usize].packet.flits;
        self.slots.vcs[slot].down = Down::coming(packet, left);
    }

    /// An idle virtual channel of a virtual network belongs to `owner`.
    #[inline(always)]
    pub(super) fn occupy(&mut self, out: u32, vnet: u32, vc: u32, owner: u32) {
        let line = &self.lines[out as usize];
        let (word, bit) = line.bit(vc);
        self.slots.idle[word] &= !bit;
        self.slots.vcs[line.slot(vc)].up.owner = owner;
        let (from, group) = (line.from, line.group_of(vnet));
        if let End::Router(router) = from
            && !self.any_idle(out, vnet)
        {
            let state = self.routers[router as usize];
            self.ports.open[state.open() + group / 64] &= !(1 << (group % 64));
            self.ports.closed[state.group(group)].closes(self.now);
        }
    }

    /// Whether a virtual network has an idle virtual channel.
    #[inline]
    pub(super) fn any_idle(&self, channel: u32, vnet: u32) -> bool {
        let vcs = self.settings.vcs_per_vnet;
        let line = &self.lines[channel as usize];
        if self.in_a_word != 0 {
            let first = vnet * vcs;
            return self.slots.idle[line.bit(first).0] >> (first % 64) & self.in_a_word != 0;
        }
        let (mut vc, end) = (vnet * vcs, (vnet + 1) * vcs);
        while vc < end {
            let upto = end.min((vc / 64 + 1) * 64);
            let bits = (u64::MAX >> (64 - (upto - vc))) << (vc % 64);
            if self.slots.idle[line.bit(vc).0] & bits != 0 {
                return true;
            }
            vc = upto;
        }
        false
    }
}
