//! What routers, interfaces and channels remember.
//!
//! Virtual channels have one number in the whole network, virtual network by virtual network. A
//! channel has slots for those of its virtual networks only, and words of bits that cover them.

use super::Settings;
use super::closed::Closed;
use crate::array::Array;
use crate::fabric::{CYCLE, End, Fabric, Packet, Way};
use crate::queue::Waiting;
use crate::uses::Use;
use std::collections::VecDeque;

/// No packet, slot or channel.
pub(super) const NONE: u32 = u32::MAX;

/// Credits of a channel to a node.
pub(super) const ENDLESS: u32 = u32::MAX / 2;

/// A channel, in a line of the cache: what every flit needs.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Line {
    pub from: End,
    pub to: End,
    /// Its number among the outputs of `from` and the inputs of `to`.
    pub output: u16,
    pub input: u16,
    /// At a router that it leaves, its first virtual network, and the number of that among those of
    /// all outputs.
    pub first_vnet: u16,
    /// Whether a flit takes longer than a cycle on it.
    pub is_narrow: bool,
    pub group: u32,
    /// Slot of the network's first virtual channel if this channel had it (it may be below 0, and
    /// wraps), and the first that it has.
    base: u32,
    pub first: u32,
    /// Virtual channels.
    pub vcs: u32,
    /// How many words of bits it has, and where the network's first would be (likewise).
    pub words: u32,
    mask: u32,
    /// Where the masks of heads are, one for each output and virtual network of `to`.
    pub heads: u32,
    /// Where the input port of a router starts to look.
    pub turn: u32,
    /// Cycles from the grant of a flit until it may be granted again, and of a credit.
    pub flit_delay: u32,
    pub credit_delay: u32,
}

impl Line {
    /// Number of its first word in the whole network.
    #[inline]
    pub(super) fn word(&self) -> u32 {
        self.first / 64
    }

    #[inline]
    pub(super) fn slot(&self, vc: u32) -> usize {
        self.base.wrapping_add(vc) as usize
    }

    /// The word and the bit of a virtual channel.
    #[inline]
    pub(super) fn bit(&self, vc: u32) -> (usize, u64) {
        (self.mask.wrapping_add(vc / 64) as usize, 1 << (vc % 64))
    }

    /// A word of its own.
    #[inline]
    pub(super) fn mask(&self, at: u32) -> usize {
        self.mask.wrapping_add(self.word() + at) as usize
    }

    /// Among all outputs and virtual networks of its router.
    #[inline]
    pub(super) fn group_of(&self, vnet: u32) -> usize {
        (self.group + vnet - u32::from(self.first_vnet)) as usize
    }
}

/// A channel on which flits and credits take longer than a cycle, in parts of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow {
    /// Time that each occupies the link.
    occupancy: u64,
    /// Until when.
    flits: u64,
    credits: u64,
}

impl Narrow {
    /// When a flit arrives that could do so at `cycle`.
    pub(super) fn flit(&mut self, cycle: u64) -> u64 {
        self.flits = (self.flits + self.occupancy).max(cycle * CYCLE);
        self.flits.div_ceil(CYCLE)
    }

    /// When a credit does.
    pub(super) fn credit(&mut self, cycle: u64) -> u64 {
        self.credits = (self.credits + self.occupancy).max(cycle * CYCLE);
        self.credits.div_ceil(CYCLE)
    }
}

/// A virtual channel where its flits come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up {
    /// Flits that the other end has room for.
    pub credits: u32,
    /// Slot whose packet has the channel; at an interface the packet. `NONE` once its last flit has
    /// left.
    pub owner: u32,
    /// At an interface: flits that have not left.
    pub left: u32,
}

/// A virtual channel where its flits arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down {
    /// `NONE` while it is idle.
    pub packet: u32,
    /// Flits that are here.
    pub ready: u32,
    /// Flits that have not left; at a node those that have not arrived.
    pub left: u32,
    /// The channel by which they leave.
    pub out: u32,
    /// Their virtual network there.
    pub out_vnet: u32,
    /// Their virtual channel there, `NONE` before the first has left.
    pub out_vc: u32,
    /// The lowest bits of the cycle from which the first of them could have left if nothing had held
    /// it up, and from which it had a credit; of a head, of the cycles in which its group was closed
    /// before.
    pub since: u32,
    pub able: u32,
}

impl Down {
    /// A packet whose flits will come.
    #[inline]
    pub(super) fn coming(packet: u32, flits: u32) -> Down {
        Down { packet, left: flits, ..Down::default() }
    }
}

impl Default for Down {
    fn default() -> Down {
        Down {
            packet: NONE,
            ready: 0,
            left: 0,
            out: NONE,
            out_vnet: 0,
            out_vc: NONE,
            since: 0,
            able: 0,
        }
    }
}

/// A virtual channel, in a line of the cache: what every flit needs.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Vc {
    pub up: Up,
    pub down: Down,
    /// Number of its [`Use`].
    pub used: u32,
    /// Its channel, and its number there.
    pub place: (u32, u32),
}

/// All virtual channels of all channels, and their bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    pub vcs: Array<Vc>,
    /// What virtual networks of channels have done, channel by channel, and the first of each.
    pub uses: Array<Use>,
    pub first_use: Vec<u32>,
    /// By channel: the virtual channel that an interface has sent from last, and flits whose credit
    /// has not come back where routing is adaptive.
    pub sent: Array<u32>,
    pub ahead: Vec<u32>,
    /// By channel, the time on it where some are narrow.
    pub narrow: Vec<Narrow>,
    /// Virtual channels that no packet has, where flits come from.
    pub idle: Array<u64>,
    /// At a router's input: those whose next flit is no head, is here and has a credit. At an
    /// interface's output: those that have a flit and a credit.
    pub body: Array<u64>,
    pub feed: Vec<u64>,
    /// At a router's input, for each output and virtual network there: those whose next flit is a
    /// head that goes there.
    pub heads: Array<u64>,
    /// Where routing is adaptive: the ways that the head of a slot may take.
    pub ways: Vec<Vec<Way>>,
    /// Where packets keep their order: the cycle in which the head of a slot arrived.
    pub since: Vec<u64>,
}

/// A router: where its ports and their bits are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Router {
    pub inputs: u32,
    pub outputs: u32,
    in_words: u32,
    /// Words for the bits of virtual networks of all outputs: what heads wait for.
    group_words: u32,
    first_input: u32,
    first_output: u32,
    first_active: u32,
    first_wants: u32,
    first_open: u32,
    first_waiters: u32,
    first_group: u32,
}

impl Router {
    /// Words for the bits of inputs.
    #[inline]
    pub(super) fn in_words(&self) -> usize {
        self.in_words as usize
    }

    /// Words for the bits of groups.
    #[inline]
    pub(super) fn group_words(&self) -> usize {
        self.group_words as usize
    }

    #[inline]
    pub(super) fn input(&self, input: usize) -> usize {
        self.first_input as usize + input
    }

    #[inline]
    pub(super) fn output(&self, output: usize) -> usize {
        self.first_output as usize + output
    }

    /// The word of an input in [`Ports::active`].
    #[inline]
    pub(super) fn active(&self, word: usize) -> usize {
        self.first_active as usize + word
    }

    /// The words of an input in [`Ports::wants`].
    #[inline]
    pub(super) fn wants(&self, input: usize) -> usize {
        self.first_wants as usize + input * self.group_words()
    }

    /// The words of [`Ports::open`].
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.first_open as usize
    }

    /// A group in [`Ports::closed`].
    #[inline]
    pub(super) fn group(&self, group: usize) -> usize {
        self.first_group as usize + group
    }

    /// The words of a group in [`Ports::waiters`].
    #[inline]
    pub(super) fn waiters(&self, group: usize) -> usize {
        self.first_waiters as usize + group * self.in_words()
    }
}

/// The ports of all routers.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    /// Channels.
    pub inputs: Array<u32>,
    pub outputs: Array<u32>,
    /// Where each output starts to look.
    pub turns: Array<u32>,
    /// Bits of inputs that may have a flit to move.
    pub active: Array<u64>,
    /// For each input, bits of the groups that its heads go to.
    pub wants: Array<u64>,
    /// Bits of the groups that have an idle virtual channel.
    pub open: Array<u64>,
    /// For each group, how long it was closed.
    pub closed: Array<Closed>,
    /// For each group, bits of inputs that have had heads for it.
    pub waiters: Array<u64>,
}

/// The network interface of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Channels to routers.
    pub outputs: Vec<u32>,
    /// Bits of outputs that may have a flit to send, and of lanes whose queue is not empty and may
    /// find an idle virtual channel.
    pub feeding: u64,
    pub waiting: u64,
    /// Its lanes, and for each virtual network those that it has.
    pub lanes: Vec<Lane>,
    pub lanes_of: Vec<Vec<u32>>,
    /// The last cycle for which the calendar was told to wake it.
    pub wakes: u64,
}

/// A virtual network of a channel of an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub output: u32,
    pub vnet: u32,
    pub queue: VecDeque<Waiting>,
    /// Where the search for an idle virtual channel begins.
    pub turn: u32,
}

impl Node {
    /// Every queue may have a packet that can leave.
    pub(super) fn look(&mut self) {
        for (lane, Lane { queue, .. }) in self.lanes.iter().enumerate() {
            self.waiting |= u64::from(!queue.is_empty()) << lane;
        }
    }
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub packet: Packet,
    pub token: u64,
    /// Cycle in which it came into its queue, and in which it left that.
    pub queued: u64,
    pub entered: u64,
    pub hops: u32,
}

/// The channels and their virtual channels, all idle.
pub(super) fn lines(fabric: &Fabric, settings: &Settings) -> (Vec<Line>, Slots) {
    let mut slots = Slots::default();
    let mut outputs = vec![0u32; (fabric.routers + fabric.nodes) as usize];
    let mut inputs = outputs.clone();
    let mut groups = outputs.clone();
    let routers = fabric.routers as usize;
    let count = |counts: &mut Vec<u32>, end: End, by: u32| {
        let at = match end {
            End::Router(router) => router as usize,
            End::Node(node) => routers + node as usize,
        };
        counts[at] += by;
        counts[at] - by
    };
    let mut lines = Vec::with_capacity(fabric.channels.len());
    for channel in &fabric.channels {
        let vcs = |vnet: u16| u32::from(vnet) * settings.vcs_per_vnet;
        let (first, end) = (vcs(channel.vnets.start), vcs(channel.vnets.end));
        let words = end.div_ceil(64) - first / 64;
        let occupancy = channel.occupancy;
        // Flits are cut and joined by a bridge at each end, a cycle each.
        let bridges = if occupancy > CYCLE { 2 + occupancy.div_ceil(CYCLE) - 1 } else { 0 };
        let link = 1 + u64::from(channel.latency) + bridges;
        let pipeline = match channel.to {
            End::Router(_) => u64::from(settings.router_latency) - 1,
            End::Node(_) => 0,
        };
        // An interface reads credits after it has sent.
        let late = u64::from(matches!(channel.from, End::Node(_)));
        let cycles = |cycles: u64| u32::try_from(cycles).unwrap_or(u32::MAX);
        lines.push(Line {
            from: channel.from,
            to: channel.to,
            output: count(&mut outputs, channel.from, 1) as u16,
            input: count(&mut inputs, channel.to, 1) as u16,
            first_vnet: channel.vnets.start,
            is_narrow: occupancy != CYCLE,
            group: count(&mut groups, channel.from, channel.vnets.len() as u32),
            base: (slots.vcs.len() as u32).wrapping_sub(first),
            first,
            vcs: end - first,
            words,
            mask: (slots.idle.len() as u32).wrapping_sub(first / 64),
            heads: 0,
            turn: first,
            flit_delay: cycles(link + pipeline),
            credit_delay: cycles(link + late),
        });
        // Before it has sent, an interface looks behind the first of all, as in gem5.
        slots.sent.push(if first > 0 { end - 1 } else { 0 });
        slots.narrow.push(Narrow { occupancy, flits: 0, credits: 0 });
        slots.first_use.push(slots.uses.len() as u32);
        let credits = match channel.to {
            End::Router(_) => settings.buffers_per_vc,
            // A node takes what comes.
            End::Node(_) => ENDLESS,
        };
        for vc in first..end {
            if vc == first || vc % 64 == 0 {
                slots.idle.push(0);
            }
            *slots.idle.last_mut().expect("pushed") |= 1 << (vc % 64);
            let vnet = vc / settings.vcs_per_vnet - u32::from(channel.vnets.start);
            slots.vcs.push(Vc {
                up: Up { credits, owner: NONE, left: 0 },
                down: Down::default(),
                used: slots.uses.len() as u32 + vnet,
                place: (lines.len() as u32 - 1, vc),
            });
        }
        let count = slots.uses.len() + channel.vnets.len();
        slots.uses.resize(count, Use::default());
    }
    if settings.ordered {
        slots.since = vec![0; slots.vcs.len()];
    }
    slots.ahead = vec![0; lines.len()];
    slots.body = vec![0; slots.idle.len()].into();
    slots.feed = slots.body.to_vec();
    for line in &mut lines {
        line.heads = slots.heads.len() as u32;
        if let End::Router(router) = line.to {
            let masks = groups[router as usize] * line.words;
            slots.heads.grow(masks as usize, 0);
        }
    }
    (lines, slots)
}

/// Routers and their ports.
pub(super) fn routers(fabric: &Fabric) -> (Vec<Router>, Ports) {
    let count = fabric.routers as usize;
    let (mut inputs, mut outputs) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    let mut groups = vec![0; count];
    for (number, channel) in (0u32..).zip(&fabric.channels) {
        if let End::Router(router) = channel.from {
            outputs[router as usize].push(number);
            groups[router as usize] += channel.vnets.len() as u32;
        }
        if let End::Router(router) = channel.to {
            inputs[router as usize].push(number);
        }
    }
    let mut ports = Ports::default();
    let router = |((inputs, outputs), &groups): ((&Vec<u32>, &Vec<u32>), &u32)| {
        let router = Router {
            inputs: inputs.len() as u32,
            outputs: outputs.len() as u32,
            in_words: inputs.len().div_ceil(64) as u32,
            group_words: groups.div_ceil(64),
            first_input: ports.inputs.len() as u32,
            first_output: ports.outputs.len() as u32,
            first_active: ports.active.len() as u32,
            first_wants: ports.wants.len() as u32,
            first_open: ports.open.len() as u32,
            first_waiters: ports.waiters.len() as u32,
            first_group: ports.closed.len() as u32,
        };
        ports.inputs.extend(inputs);
        ports.outputs.extend(outputs);
        ports.turns.resize(ports.outputs.len(), 0);
        ports.active.grow(router.in_words(), 0);
        ports.wants.grow(inputs.len() * router.group_words(), 0);
        ports.waiters.grow(groups as usize * router.in_words(), 0);
        ports.closed.grow(groups as usize, Closed::default());
        // All virtual channels are idle.
        let words = router.group_words();
        ports.open.grow(words, u64::MAX);
        router
    };
    let routers = inputs.iter().zip(&outputs).zip(&groups).map(router).collect();
    (routers, ports)
}

/// Nodes and their links: at most 64 lanes.
pub(super) fn nodes(fabric: &Fabric, settings: &Settings) -> Vec<Node> {
    let node = Node { lanes_of: vec![Vec::new(); settings.vnets.into()], ..Node::default() };
    let mut nodes = vec![node; fabric.nodes as usize];
    for (number, channel) in (0..).zip(&fabric.channels) {
        if let End::Node(node) = channel.from {
            let node = &mut nodes[node as usize];
            let output = node.outputs.len() as u32;
            for vnet in channel.vnets.clone() {
                node.lanes_of[usize::from(vnet)].push(node.lanes.len() as u32);
                node.lanes.push(Lane { output, vnet: vnet.into(), ..Lane::default() });
            }
            node.outputs.push(number);
        }
    }
    nodes
}
