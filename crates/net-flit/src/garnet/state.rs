//! State of routers, interfaces and channels.
//!
//! Virtual channels have one number in the whole network, their *slot*; those of a channel follow
//! each other, virtual network by virtual network. A *group* is a virtual network of a channel: heads
//! wait for one. A *sink* is where a channel ends.

use super::Settings;
use super::closed::Closed;
use crate::array::Array;
use crate::bits::{Bits, Words};
use crate::fabric::{CYCLE, End, Fabric, Packet, Way};
use crate::queue::Waiting;
use crate::virtual_network_usage::Use;
use std::collections::VecDeque;

/// No packet, slot or group.
pub(super) const NONE: u32 = u32::MAX;

/// Instead of a router: a node.
pub(super) const NODE: u32 = 1 << 31;

/// Credits of a channel to a node.
pub(super) const ENDLESS: u32 = u32::MAX / 2;

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
    /// The group by which they leave; of a head that chooses among several, `NONE` before it leaves.
    pub group: u32,
    /// The slot by which they leave, `NONE` before the first has left.
    pub to: u32,
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
        Down { packet: NONE, ready: 0, left: 0, group: NONE, to: NONE, since: 0, able: 0 }
    }
}

/// A virtual channel, in a line of the cache: what every flit needs.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Vc {
    pub up: Up,
    pub down: Down,
    /// Group of the virtual channel, and its number there.
    pub group: u32,
    pub place: u32,
    /// Where its channel ends, its number among the virtual channels of that, and its place in
    /// [`Router::able`].
    pub sink: u32,
    pub vc: u32,
    pub at: u32,
}

/// A virtual network of a channel, where flits come from.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Group {
    /// Virtual channels that no packet has.
    pub idle: Bits,
    /// At a router: virtual channels of inputs whose next flit is a head that waits for the group.
    pub heads: Bits,
    /// How long no virtual channel was idle, where flits come from a router.
    pub closed: Closed,
    /// The router, or the node and `NODE`.
    pub from: u32,
    /// Number of the output among the groups of that router.
    pub at: u32,
    /// First slot of the group.
    pub first: u32,
    pub channel: u32,
    /// Cycles from the grant of a flit until it may be granted again.
    pub flit_delay: u32,
    /// The number of the channel among the outputs of `from`.
    pub output: u16,
    /// Whether a flit takes longer than a cycle on the channel.
    pub is_narrow: bool,
}

impl Group {
    /// Cycles before `now` without an idle virtual channel.
    #[inline(always)]
    pub(super) fn closed_before(&self, now: u64) -> u32 {
        self.closed.before(now, self.idle.is_empty())
    }
}

/// The end of a channel.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Sink {
    /// The router, or the node and `NODE`.
    pub router: u32,
    /// Number of the input among the inputs of that router.
    pub input: u32,
    pub channel: u32,
    /// First slot of the input, and the number of its slots.
    pub first: u32,
    pub vcs: u32,
    /// Where the input begins to look.
    pub turn: u32,
    /// Cycles from the grant of a flit until its credit is back.
    pub credit_delay: u32,
    pub is_narrow: bool,
    /// Whether flits come from a router.
    pub is_hop: bool,
}

/// A router.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Router {
    /// Virtual channels of inputs whose next flit can move. It is a head and a virtual channel of its
    /// group is idle, or it is none and has a credit. Each input has 2^`shift` places.
    pub able: Bits,
    pub shift: u32,
    pub inputs: u32,
    outputs: u32,
    /// First sink of the router, and first of its outputs in [`State::turns`].
    pub first_sink: u32,
    pub first_output: u32,
    groups: u32,
}

impl Router {
    pub(super) fn outputs(&self) -> usize {
        self.outputs as usize
    }

    /// Words for the bits of inputs.
    #[inline(always)]
    pub(super) fn in_words(&self) -> usize {
        self.inputs.div_ceil(64) as usize
    }

    /// Words for the bits of outputs.
    #[inline(always)]
    pub(super) fn out_words(&self) -> usize {
        self.outputs.div_ceil(64) as usize
    }

    /// Places of all inputs.
    fn places(&self) -> u32 {
        self.inputs << self.shift
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

/// The groups of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    pub first: u32,
    pub vnet: u16,
    pub vnets: u16,
}

/// The network interface of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Channels to routers.
    pub outputs: Vec<Output>,
    /// Bits of outputs that may have a flit to send, and of lanes whose queue is not empty and may
    /// find an idle virtual channel.
    pub feeding: u64,
    pub waiting: u64,
    /// Lanes of the interface, and for each virtual network those that it has.
    pub lanes: Vec<Lane>,
    pub lanes_of: Vec<Vec<u32>>,
    /// The last cycle for which the calendar was asked to wake it.
    pub wakes: u64,
}

/// A channel of an interface.
#[derive(Clone, Debug)]
pub(super) struct Output {
    /// Virtual channels that have a flit and a credit.
    pub feed: Bits,
    /// The one that has sent last.
    pub sent: u32,
    /// First slot of the channel, and the number of its slots.
    pub first: u32,
    pub vcs: u32,
}

/// A virtual network of a channel of an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub output: u32,
    pub group: u32,
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

/// A packet, in a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Record {
    pub packet: Packet,
    pub token: u64,
    /// Cycle in which it came into its queue, and in which it left that.
    pub queued: u64,
    pub entered: u64,
    pub hops: u32,
}

/// Everything that does not change its size.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub vcs: Array<Vc>,
    pub groups: Array<Group>,
    /// Use of each group.
    pub uses: Array<Use>,
    /// Groups of each channel.
    pub groups_of: Array<Groups>,
    /// Inputs of routers, router by router, then the ends of channels to nodes.
    pub sinks: Array<Sink>,
    /// How many are inputs of routers.
    pub inputs: u32,
    pub routers: Array<Router>,
    /// Where each output of each router begins to look.
    pub turns: Array<u32>,
    /// Words of bits that need several.
    pub words: Words,
    pub nodes: Vec<Node>,
    /// Time on each channel where some are narrow, and flits whose credit has not come back where
    /// routing is adaptive.
    pub narrow: Vec<Narrow>,
    pub ahead: Vec<u32>,
    /// Where routing is adaptive: the ways that the head of a slot may take.
    pub ways: Vec<Vec<Way>>,
    /// Where packets keep their order: the cycle in which the head of a slot arrived.
    pub since: Vec<u64>,
}

/// The number of the end of a channel.
fn numbered(end: End) -> u32 {
    match end {
        End::Router(router) => router,
        End::Node(node) => node | NODE,
    }
}

impl State {
    /// An empty network.
    pub(super) fn new(fabric: &Fabric, settings: &Settings) -> State {
        let lanes_of = vec![Vec::new(); settings.vnets.into()];
        let node = Node { lanes_of, ..Node::default() };
        let mut state = State { nodes: vec![node; fabric.nodes as usize], ..State::default() };
        state.routers(fabric, settings);
        let mut next = vec![0; fabric.routers as usize];
        let mut nodes = state.inputs;
        let mut sinks = vec![None; state.inputs as usize];
        for (number, channel) in (0..).zip(&fabric.channels) {
            let sink = state.channel(number, channel, settings);
            match channel.to {
                End::Router(router) => {
                    let input = &mut next[router as usize];
                    let place = state.routers[router as usize].first_sink + *input;
                    sinks[place as usize] = Some(Sink { input: *input, ..sink });
                    *input += 1;
                }
                End::Node(_) => {
                    nodes += 1;
                    sinks.push(Some(sink));
                }
            }
        }
        debug_assert_eq!(sinks.len(), nodes as usize);
        state.sinks = sinks.into_iter().flatten().collect::<Vec<_>>().into();
        for (number, sink) in (0..).zip(state.sinks.iter_mut()) {
            let at = match sink.router & NODE {
                0 => sink.input << state.routers[sink.router as usize].shift,
                _ => 0,
            };
            for vc in 0..sink.vcs {
                let this = &mut state.vcs[(sink.first + vc) as usize];
                (this.sink, this.vc, this.at) = (number, vc, at + vc);
            }
        }
        if settings.ordered {
            state.since = vec![0; state.vcs.len()];
        }
        state.ahead = vec![0; fabric.channels.len()];
        state.uses.grow(state.groups.len(), Use::default());
        state
    }

    /// Routers and their ports.
    fn routers(&mut self, fabric: &Fabric, settings: &Settings) {
        self.routers.grow(fabric.routers as usize, Router::default());
        for channel in &fabric.channels {
            if let End::Router(router) = channel.to {
                let router = &mut self.routers[router as usize];
                router.inputs += 1;
                let vcs = channel.vnets.len() as u32 * settings.vcs_per_vnet;
                router.shift = router.shift.max(vcs.next_power_of_two().ilog2());
            }
            if let End::Router(router) = channel.from {
                self.routers[router as usize].outputs += 1;
            }
        }
        let mut outputs = 0;
        for router in self.routers.iter_mut() {
            (router.first_sink, router.first_output) = (self.inputs, outputs);
            router.able = Bits::new(&mut self.words, router.places());
            self.inputs += router.inputs;
            // Counted again, channel by channel.
            outputs += std::mem::take(&mut router.outputs);
        }
        self.turns.grow(outputs as usize, 0);
    }

    /// A channel where flits come from: its groups and slots. Returns its other end.
    fn channel(
        &mut self,
        number: u32,
        channel: &crate::fabric::Channel,
        settings: &Settings,
    ) -> Sink {
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
        let is_narrow = occupancy != CYCLE;
        let credits = match channel.to {
            End::Router(_) => settings.buffers_per_vc,
            // A node takes what comes.
            End::Node(_) => ENDLESS,
        };
        let (first, vnets) = (self.vcs.len() as u32, channel.vnets.len() as u32);
        let vcs = vnets * settings.vcs_per_vnet;
        self.groups_of.push(Groups {
            first: self.groups.len() as u32,
            vnet: channel.vnets.start,
            vnets: vnets as u16,
        });
        let output = match channel.from {
            End::Router(router) => {
                let router = &mut self.routers[router as usize];
                router.outputs += 1;
                router.outputs - 1
            }
            End::Node(node) => {
                let outputs = &mut self.nodes[node as usize].outputs;
                // Before it has sent, an interface looks behind the first of all, as in gem5.
                let sent = if channel.vnets.start > 0 { vcs - 1 } else { 0 };
                outputs.push(Output { feed: Bits::new(&mut self.words, vcs), sent, first, vcs });
                outputs.len() as u32 - 1
            }
        };
        for (group, vnet) in (0..).zip(channel.vnets.clone()) {
            let this = self.groups.len() as u32;
            let mut heads = Bits::default();
            let at = match channel.from {
                End::Router(router) => {
                    let router = &mut self.routers[router as usize];
                    router.groups += 1;
                    heads = Bits::new(&mut self.words, router.places());
                    router.groups - 1
                }
                End::Node(node) => {
                    let node = &mut self.nodes[node as usize];
                    let lane = node.lanes.len() as u32;
                    node.lanes_of[usize::from(vnet)].push(lane);
                    node.lanes.push(Lane { output, group: this, ..Lane::default() });
                    lane
                }
            };
            let mut idle = Bits::new(&mut self.words, settings.vcs_per_vnet);
            for place in 0..settings.vcs_per_vnet {
                idle.set(&mut self.words, place);
                self.vcs.push(Vc {
                    up: Up { credits, owner: NONE, left: 0 },
                    down: Down::default(),
                    group: this,
                    place,
                    sink: 0,
                    vc: 0,
                    at: 0,
                });
            }
            self.groups.push(Group {
                idle,
                heads,
                closed: Closed::default(),
                from: numbered(channel.from),
                at,
                first: first + group * settings.vcs_per_vnet,
                channel: number,
                flit_delay: cycles(link + pipeline),
                // Checked: it has 16 bits.
                output: output as u16,
                is_narrow,
            });
        }
        self.narrow.push(Narrow { occupancy, flits: 0, credits: 0 });
        Sink {
            router: numbered(channel.to),
            input: 0,
            channel: number,
            first,
            vcs,
            turn: 0,
            credit_delay: cycles(link + late),
            is_narrow,
            is_hop: matches!(channel.from, End::Router(_)),
        }
    }

    /// The group of a virtual network of a channel.
    #[inline]
    pub(super) fn group_of(&self, way: Way) -> usize {
        let Groups { first, vnet, .. } = self.groups_of[way.channel as usize];
        first as usize + usize::from(way.vnet - vnet)
    }
}
