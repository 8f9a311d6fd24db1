//! State of channels, routers and nodes.

use super::Settings;
use crate::array::Array;
use crate::bits::{Bits, Words};
use crate::fabric::{CYCLE, Channel, End, Fabric, Packet};
use crate::queue::Waiting;
use crate::virtual_network_usage::Use;
use std::collections::VecDeque;

/// No packet, slot or channel.
pub(super) const NONE: u32 = u32::MAX;

/// Instead of a router: a link of a node.
pub(super) const NODE: u32 = 1 << 31;

/// Where flits of a channel arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sink {
    /// The router, `NODE` if it is a node.
    pub router: u32,
    /// The number among the inputs of all routers, and the same within the router.
    pub input: u32,
    pub place: u8,
    /// Whether they come from a router.
    pub is_hop: bool,
}

impl Sink {
    pub(super) fn is_node(&self) -> bool {
        self.router == NODE
    }
}

/// Where flits of a channel come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// The router, or the link of a node and `NODE`.
    pub from: u32,
    /// The number among the outputs of the router.
    pub output: u8,
}

/// Cycles from the grant of a flit until it arrives, and of a credit until it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub flit: u32,
    pub credit: u32,
    /// Number of the channel among those where a flit takes longer than a cycle, else `NONE`.
    pub narrow: u32,
}

/// A link on which a flit takes longer than a cycle. Flits queue before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow {
    /// Time of a flit, and when the last one is over, in parts of a cycle.
    occupancy: u64,
    last: u64,
}

impl Narrow {
    /// When a flit arrives that reaches the link now and takes `delay` cycles to cross it.
    #[inline]
    pub(super) fn arrival(&mut self, now: u64, delay: u64) -> u64 {
        let begin = self.last.max(now * CYCLE);
        self.last = begin + self.occupancy;
        // The delay has a cycle of sending in it.
        self.last.div_ceil(CYCLE) - 1 + delay
    }
}

/// A virtual channel where its flits come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up {
    /// Slot or link of a node whose packet has the channel.
    pub owner: u32,
    /// Flits that the other end has room for.
    pub credits: u16,
    /// Where its round of requests begins: a virtual channel of an input.
    pub turn: u16,
}

/// Event that the first flit of a virtual channel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Idle,
    /// Route of the packet.
    Route,
    /// A virtual channel of its output.
    Channel,
    /// The switch.
    Switch,
}

/// A virtual channel where its flits arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down {
    /// The virtual channels that they may have next.
    pub allowed: u64,
    /// The channel by which they leave.
    pub out: u32,
    /// The first flit.
    pub front: u32,
    /// Flits that are here, and the place of the first in the buffer.
    pub ready: u16,
    pub first: u16,
    /// Where its round of grants begins: an output in steps of 64, and a virtual channel.
    pub turn: u16,
    /// The number of the output, and the virtual channel and its slot.
    pub output: u8,
    pub out_vc: u8,
    pub to: u32,
    pub stage: Stage,
    /// The lowest bits of the cycle from which the first flit could have moved if nothing had held it
    /// up. Waits that are counted are taken off.
    pub since: u32,
}

impl Default for Down {
    fn default() -> Down {
        Down {
            allowed: 0,
            out: NONE,
            front: 0,
            ready: 0,
            first: 0,
            turn: 0,
            output: 0,
            out_vc: 0,
            to: NONE,
            stage: Stage::Idle,
            since: 0,
        }
    }
}

/// A virtual channel, in a line of the cache: what every flit needs.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Vc {
    pub up: Up,
    pub down: Down,
    /// Place of the virtual network in [`State::uses`].
    pub used: u32,
    /// Where flits arrive: the router, `NODE` if it is a node, the number among the inputs of all
    /// routers, and the place among the virtual channels of the router's inputs.
    pub router: u32,
    pub input: u32,
    pub index: u16,
    /// Whether they come from a router.
    pub is_hop: bool,
}

/// A router: where its ports are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Router {
    pub number: u32,
    pub first_input: u32,
    pub inputs: u32,
    pub first_output: u32,
    pub outputs: u32,
    /// Bits of inputs that may have packets that want a virtual channel, and flits that may cross;
    /// of outputs for which there are some where allocation is simple.
    pub wanting: u64,
    pub moving: u64,
}

/// An output of a router.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Out {
    /// Where allocation is simple: those of the virtual channels of all inputs whose head wants a
    /// virtual channel of it, and those whose flit may cross to it.
    pub wants: Bits,
    pub able: Bits,
    /// Where the round of inputs begins.
    pub turn: u32,
    pub channel: u32,
    /// The virtual channel that the last flit of a packet has left, and when.
    pub left: u64,
    pub left_at: u64,
}

/// An input of a router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Input {
    pub channel: u32,
    /// Bits of virtual channels that want one of the output, where allocation is not simple, and of
    /// those that may cross.
    pub wants: u64,
    pub able: u64,
    /// Where the round of its virtual channels begins, and of the outputs.
    pub turn: u8,
    pub accepts: u8,
}

/// A link of the network interface of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub channel: u32,
    pub queue: VecDeque<Waiting>,
    /// The packet that is leaving, its flits that have not left, and its virtual channel.
    pub packet: u32,
    pub left: u32,
    pub vc: u32,
    /// The last cycle for which the calendar was asked to wake it.
    pub wakes: u64,
}

/// A packet, in a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Record {
    pub packet: Packet,
    pub token: u64,
    pub queued: u64,
    pub entered: u64,
    pub hops: u32,
}

/// Everything that does not change its size.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Sink of each channel.
    pub sinks: Array<Sink>,
    pub sources: Array<Source>,
    pub delays: Array<Delays>,
    /// Bits of the virtual channels that no packet has.
    pub free: Array<u64>,
    pub narrow: Vec<Narrow>,
    /// Use of each virtual network of each channel.
    pub uses: Array<Use>,
    /// Virtual networks.
    pub vnets: u32,
    /// State of each virtual channel of each channel.
    pub vcs: Array<Vc>,
    pub routers: Array<Router>,
    pub inputs: Array<Input>,
    /// Virtual channels of each input that wait for the result of an allocation of the switch.
    pub resting: Array<u64>,
    pub outs: Array<Out>,
    /// Words of bits that need several.
    pub words: Words,
    /// Links of nodes, node by node, and the first of each node.
    pub links: Vec<Link>,
    pub first_link: Vec<u32>,
    /// Slots of a channel, one for each virtual channel, are a power of two: this one.
    pub shift: u32,
}

impl State {
    /// An empty network.
    pub(super) fn new(fabric: &Fabric, settings: &Settings) -> State {
        let vcs = settings.vcs;
        let shift = vcs.next_power_of_two().ilog2();
        let vnets = fabric.channels.first().map_or(1, |channel| channel.vnets.len() as u32);
        let mut state = State { shift, vnets, ..State::default() };
        state.routers.resize(fabric.routers as usize, Router::default());
        let mut channels = vec![Vec::new(); fabric.nodes as usize];
        for (number, channel) in (0..).zip(&fabric.channels) {
            if let End::Node(node) = channel.from {
                channels[node as usize].push(number);
            }
        }
        for channels in channels {
            state.first_link.push(state.links.len() as u32);
            let link = |channel| Link { channel, vc: vcs - 1, ..Link::default() };
            state.links.extend(channels.into_iter().map(link));
        }
        state.first_link.push(state.links.len() as u32);
        for channel in &fabric.channels {
            state.channel(channel, settings);
        }
        for (number, link) in (0..).zip(&state.links) {
            state.sources[link.channel as usize].from = number | NODE;
        }
        state.uses.grow(fabric.channels.len() * vnets as usize, Use::default());
        // Checked: it has 16 bits.
        let up = Up { credits: settings.buffers_per_vc as u16, owner: NONE, turn: 0 };
        state.number_ports();
        for (channel, sink) in (0..).zip(state.sinks.iter()) {
            for vc in 0..1 << shift {
                // A channel has a power of two of slots. The last may be unused.
                let vnet = vc.min(vcs - 1) / (vcs / vnets);
                state.vcs.push(Vc {
                    up,
                    down: Down::default(),
                    used: channel * vnets + vnet,
                    router: sink.router,
                    input: sink.input,
                    index: (u16::from(sink.place) << shift) + vc as u16,
                    is_hop: sink.is_hop,
                });
            }
        }
        state
    }

    fn channel(&mut self, channel: &Channel, settings: &Settings) {
        let link = 1 + channel.latency;
        let narrow = if channel.occupancy > CYCLE { self.narrow.len() as u32 } else { NONE };
        let mut delays = Delays { flit: link, credit: link, narrow };
        let source = match channel.from {
            End::Router(number) => {
                let router = &mut self.routers[number as usize];
                delays.flit +=
                    settings.pipeline.switch_allocation - 1 + settings.pipeline.switch_traversal;
                delays.credit += settings.pipeline.credit_processing;
                router.outputs += 1;
                Source { from: number, output: router.outputs as u8 - 1 }
            }
            End::Node(node) => Source { from: node | NODE, output: 0 },
        };
        let is_hop = source.from & NODE == 0;
        self.sinks.push(match channel.to {
            End::Router(number) => {
                // A flit leaves its buffer when the switch is allocated.
                delays.credit += settings.pipeline.switch_allocation - 1;
                let router = &mut self.routers[number as usize];
                router.inputs += 1;
                Sink { router: number, input: 0, place: router.inputs as u8 - 1, is_hop }
            }
            End::Node(_) => Sink { router: NODE, input: 0, place: 0, is_hop },
        });
        self.sources.push(source);
        self.delays.push(delays);
        self.free.push(all(settings.vcs));
        if channel.occupancy > CYCLE {
            self.narrow.push(Narrow { occupancy: channel.occupancy, last: 0 });
        }
    }

    /// Use of the virtual network of a slot.
    #[inline(always)]
    pub(super) fn used(&mut self, slot: u32) -> &mut Use {
        &mut self.uses[self.vcs[slot as usize].used as usize]
    }

    /// Bits of the virtual channels of a virtual network.
    #[inline]
    pub(super) fn of_vnet(&self, vnet: u16, vcs: u32) -> u64 {
        if self.vnets == 1 {
            return all(vcs);
        }
        let each = vcs / self.vnets;
        all(each) << (u32::from(vnet) * each)
    }

    /// The channel and the virtual channel of a slot.
    #[inline]
    pub(super) fn place(&self, slot: u32) -> (u32, u32) {
        (slot >> self.shift, slot & ((1 << self.shift) - 1))
    }

    fn number_ports(&mut self) {
        let (mut inputs, mut outputs) = (0, 0);
        for (number, router) in (0..).zip(self.routers.iter_mut()) {
            router.number = number;
            (router.first_input, router.first_output) = (inputs, outputs);
            inputs += router.inputs;
            outputs += router.outputs;
        }
        self.inputs.resize(inputs as usize, Input::default());
        self.resting.resize(inputs as usize, 0);
        for router in self.routers.as_slice() {
            for _ in 0..router.outputs {
                let places = router.inputs << self.shift;
                self.outs.push(Out {
                    wants: Bits::new(&mut self.words, places),
                    able: Bits::new(&mut self.words, places),
                    turn: 0,
                    channel: NONE,
                    left: 0,
                    left_at: 0,
                });
            }
        }
        for (number, source) in (0..).zip(self.sources.iter()) {
            if source.from & NODE == 0 {
                let first = self.routers[source.from as usize].first_output;
                self.outs[(first + u32::from(source.output)) as usize].channel = number;
            }
        }
        for (number, sink) in (0..).zip(self.sinks.iter_mut()) {
            if sink.router != NODE {
                let router = &self.routers[sink.router as usize];
                sink.input = router.first_input + u32::from(sink.place);
                self.inputs[sink.input as usize].channel = number;
            }
        }
    }
}

/// The lowest bits.
pub(super) fn all(count: u32) -> u64 {
    u64::MAX >> (64 - count)
}
