//! What channels, routers and nodes remember.

use super::{Counters, Settings};
use crate::fabric::{End, Fabric, Packet};
use std::collections::VecDeque;

/// No packet, slot or channel.
pub(super) const NONE: u32 = u32::MAX;

/// A channel.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub from: End,
    pub to: End,
    /// Its number among the inputs of all routers, and the same within `to`.
    pub input: u32,
    pub place: u32,
    /// Its number among the outputs of `from`.
    pub output: u32,
    /// Cycles from the grant of a flit until it arrives, and of a credit until it counts.
    pub flit_delay: u64,
    pub credit_delay: u64,
    /// Bits of the virtual channels that no packet has.
    pub free: u64,
    pub counters: Counters,
}

/// A virtual channel where its flits come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up {
    /// Flits that the other end has room for.
    pub credits: u32,
    /// Slot or node whose packet has the channel.
    pub owner: u32,
    /// Where its round of requests begins.
    pub turn: u32,
}

/// What the first flit of a virtual channel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Idle,
    /// Its route.
    Route,
    /// A virtual channel of its output.
    Channel,
    /// The switch.
    Switch,
}

/// A virtual channel where its flits arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down {
    pub stage: Stage,
    /// Flits that are here, and the place of the first in the buffer.
    pub ready: u32,
    pub first: u32,
    /// The channel by which they leave, its output, the virtual channel, and those allowed.
    pub out: u32,
    pub output: u32,
    pub out_vc: u32,
    pub allowed: u64,
    /// Where its round of grants begins: an output and a virtual channel.
    pub turn: (u32, u32),
}

/// A router: where its ports are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Router {
    pub first_input: u32,
    pub inputs: u32,
    pub first_output: u32,
    pub outputs: u32,
    /// Bits of inputs that may have packets that want a virtual channel, and flits that may cross.
    pub wanting: u64,
    pub moving: u64,
}

/// An input of a router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Input {
    pub channel: u32,
    /// Bits of virtual channels that want one of the output, and of those that may cross.
    pub wants: u64,
    pub able: u64,
    /// Where the round of its virtual channels begins, and of the outputs.
    pub turn: u32,
    pub accepts: u32,
}

/// The network interface of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub channel: u32,
    pub queue: VecDeque<u32>,
    /// The packet that is leaving, its flits that have not left, and its virtual channel.
    pub packet: u32,
    pub left: u32,
    pub vc: u32,
    /// The last cycle for which the calendar was told to wake it.
    pub wakes: u64,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
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
    pub lines: Vec<Line>,
    pub ups: Vec<Up>,
    pub downs: Vec<Down>,
    pub routers: Vec<Router>,
    pub inputs: Vec<Input>,
    /// Where the round of the inputs of each output begins.
    pub turns: Vec<u32>,
    pub nodes: Vec<Node>,
}

impl State {
    /// An empty network.
    pub(super) fn new(fabric: &Fabric, settings: &Settings) -> State {
        let vcs = settings.vcs;
        let mut state = State::default();
        state.routers.resize(fabric.routers as usize, Router::default());
        let node = Node { vc: vcs - 1, ..Node::default() };
        state.nodes.resize(fabric.nodes as usize, node);
        for channel in &fabric.channels {
            state.line(channel, settings);
        }
        let slots = state.lines.len() * vcs as usize;
        state.ups = vec![Up { credits: settings.buffers_per_vc, owner: NONE, turn: 0 }; slots];
        let down = Down {
            stage: Stage::Idle,
            ready: 0,
            first: 0,
            out: NONE,
            output: 0,
            out_vc: 0,
            allowed: 0,
            turn: (0, 0),
        };
        state.downs = vec![down; slots];
        state.number_ports();
        state
    }

    fn line(&mut self, channel: &crate::fabric::Channel, settings: &Settings) {
        let number = self.lines.len() as u32;
        let link = 1 + u64::from(channel.latency);
        let (mut place, mut output) = (0, 0);
        let (mut before, mut late) = (0, 0);
        match channel.from {
            End::Router(router) => {
                let router = &mut self.routers[router as usize];
                output = router.outputs;
                router.outputs += 1;
                before = settings.switch_allocation - 1 + settings.traversal;
                late = settings.credit_processing;
            }
            End::Node(node) => self.nodes[node as usize].channel = number,
        }
        if let End::Router(router) = channel.to {
            let router = &mut self.routers[router as usize];
            place = router.inputs;
            router.inputs += 1;
        }
        self.lines.push(Line {
            from: channel.from,
            to: channel.to,
            input: 0,
            place,
            output,
            flit_delay: link + u64::from(before),
            credit_delay: link + u64::from(late),
            free: all(settings.vcs),
            counters: Counters::default(),
        });
    }

    fn number_ports(&mut self) {
        let (mut inputs, mut outputs) = (0, 0);
        for router in &mut self.routers {
            (router.first_input, router.first_output) = (inputs, outputs);
            inputs += router.inputs;
            outputs += router.outputs;
        }
        self.inputs.resize(inputs as usize, Input::default());
        self.turns.resize(outputs as usize, 0);
        for (number, line) in (0..).zip(&mut self.lines) {
            if let End::Router(router) = line.to {
                line.input = self.routers[router as usize].first_input + line.place;
                self.inputs[line.input as usize].channel = number;
            }
        }
    }
}

/// The lowest bits.
pub(super) fn all(count: u32) -> u64 {
    u64::MAX >> (64 - count)
}
