//! Who sends what to which member: the rounds of each algorithm along one line of a group. A line
//! is a node, or the network between nodes.
//!
//! Traffic within nodes and traffic between nodes run at the same time, because the library
//! pipelines them. Every position of a line sends the same, relative to itself:
//!
//! - *Ring*: one channel per rail. In a node it enters by one card, passes through all places and
//!   leaves by another card for the same rail of the next node. Channels are rotated against each
//!   other, so all cards and all links work at once. In a node with a network the order of places
//!   is 0, 1, -1, 2, -2, ..., whose hops are all different; without a network it is 0, 1, 2, ....
//!   In a full mesh the rings use every link equally.
//! - *Tree*: chains in the node, up and down. Between nodes, up and down a binary tree, whose edges
//!   are 1, 2, 4, ... nodes long: half of them 1, a quarter 2, and so on. Trees are rotated against
//!   each other from round to round, so that every card is equally often a leaf and an inner node.
//! - *NVLS*: the traffic between NPUs and switch when the switch reduces and multicasts, as
//!   messages through it. *NVLSTree*: the same, and the trees.
//! - *Pairwise*: a message to each other member, eight at a time. A message to another node leaves
//!   by the sender's own card, to the member on its rail. *PXN*: the hand-over in the node, and the
//!   messages along the rail.
//! - *Gather* and *scatter*: the root's messages, eight at a time. A member reports that it is
//!   ready (gather) or has received (scatter).
//! - On a graph of direct links everything goes both ways round the cycles found in it, or, where
//!   there is none, an all-reduce up and down a tree of links.
//!
//! Source: NVIDIA/nccl, `src/graph` (rings, trees, `connect.cc`), `src/device`.
//!
//! Some things are coarse, so that thousands of members stay fast. A ring of more than [`ROUNDS`]
//! steps runs that many rounds with larger messages. Trees and NVLS send over every link in every
//! round, which leaves out how pipelines fill and drain. Beyond [`PARTNERS`] partners an all-to-all
//! sends more to fewer, evenly spread partners. Bytes of every link and the neighbours in rings are
//! exact.

use super::Prediction;
use super::place::Placement;
use super::rounds::Rounds;
use super::wires::{Message, Wires};
use graph::CollectiveKind;
use platform::library::{Algorithm, Library, Protocol};
use topology::{Dim, Paths};
use units::Span;

/// Most rounds that rings, trees and NVLS take.
pub(super) const ROUNDS: u32 = 16;
/// Partners that an all-to-all, a gather or a scatter serves at a time.
const AT_ONCE: u32 = 8;
/// Most messages of an NPU in an all-to-all along a line.
const PARTNERS: u32 = 512;
/// Most rounds of an all-to-all.
const EXCHANGES: u32 = 64;

/// A collective, as the library has decided to do it, along one line of its group.
pub(super) struct Traffic<'a> {
    pub library: &'a Library,
    pub place: &'a Placement,
    pub prediction: &'a Prediction,
    pub kind: CollectiveKind,
    /// The line runs through nodes, not within one.
    pub far: bool,
    /// Positions of the line.
    pub positions: u32,
    /// Bytes that a member sends along the line, without what the protocol adds.
    pub bytes: u64,
    /// Position of the root on the line.
    pub root: u32,
}

impl Traffic<'_> {
    /// The rounds over these wires.
    pub fn rounds(&self, wires: &Wires) -> Rounds {
        let rooted = matches!(self.kind, CollectiveKind::Gather | CollectiveKind::Scatter);
        let alike = !rooted && matches!(wires, Wires::Dim(_));
        let mut rounds = Rounds::open(self.positions(), alike);
        match wires {
            _ if self.bytes() == 0 => {}
            Wires::Graph { .. } => match &self.place.rings {
                Some(rings)
                    if self.prediction.algorithm == Algorithm::Tree && !rings.tree.is_empty() =>
                {
                    self.over_tree(&mut rounds, &rings.tree, self.count(wires));
                }
                _ => self.over_graph(&mut rounds, self.count(wires)),
            },
            Wires::Dim(dim) if rooted => self.rooted(&mut rounds, dim),
            Wires::Dim(dim) if self.pairs() => self.pairwise(&mut rounds, dim),
            Wires::Dim(dim) => self.pipelined(&mut rounds, dim, self.count(wires)),
        }
        rounds
    }

    /// Time that the library spends before bytes move.
    pub fn start(&self) -> Span {
        match self.prediction.protocol {
            Protocol::Simple => self.library.call_overhead + self.library.node.simple_overhead,
            Protocol::Ll | Protocol::Ll128 => self.library.call_overhead,
        }
    }

    /// Positions of the line.
    pub fn positions(&self) -> u32 {
        self.positions
    }

    /// Bytes that an NPU puts on the wires of the line.
    fn bytes(&self) -> u64 {
        self.prediction.protocol.wire(self.bytes)
    }

    fn pairs(&self) -> bool {
        matches!(self.prediction.algorithm, Algorithm::Pairwise | Algorithm::Pxn)
    }

    /// Rounds of rings, trees and NVLS: the number of messages that wait for one another along the
    /// line, at most [`ROUNDS`]. Several times that if this number is small, because the library
    /// processes large buffers in pieces.
    fn count(&self, wires: &Wires) -> u32 {
        let (n, place) = (self.positions(), self.place);
        let times = if self.kind == CollectiveKind::AllReduce { 2 } else { 1 };
        let waits = match self.prediction.algorithm {
            Algorithm::Ring if self.far => times * (n - 1),
            Algorithm::Ring => times * (place.members() - place.between),
            Algorithm::Nvls | Algorithm::NvlsTree if !self.far => 2,
            _ if self.far => 2 * n.next_power_of_two().trailing_zeros(),
            _ => 2 * (n - 1),
        };
        let waits = waits.clamp(1, ROUNDS);
        let hop = wires.arrivals(&[Message { from: 0, to: 1, bytes: 0 }])[0];
        let least = u128::from(hop.0.max(1)) * u128::from(4 * waits);
        let time = u128::from(self.prediction.time.saturating_sub(self.start()).0);
        waits * (time / least).clamp(1, u128::from(ROUNDS / waits)) as u32
    }

    /// Rings, trees and NVLS: every link at work in every round.
    fn pipelined(&self, rounds: &mut Rounds, dim: &Dim, count: u32) {
        let others = self.positions() - 1;
        let mesh = mesh(dim);
        let each = match self.prediction.algorithm {
            _ if mesh => others,
            Algorithm::Ring => 1,
            Algorithm::Nvls | Algorithm::NvlsTree if !self.far => 1,
            // Up and down a tree.
            _ => 2,
        };
        let share = Share { bytes: self.bytes(), rounds: count, each };
        for round in 0..count {
            let next = |at: u32| if mesh { 1 + at % others } else { self.next(round, at) };
            rounds.push(share.messages(round, next));
        }
    }

    /// How many positions further message number `at` goes, of all that a position sends by its
    /// link to a switch.
    fn next(&self, round: u32, at: u32) -> u32 {
        let n = self.positions();
        let (up, hop) = (at.is_multiple_of(2), at % (n - 1));
        match self.prediction.algorithm {
            Algorithm::Ring if !self.far && self.place.between > 1 => hops(n, hop),
            Algorithm::Ring => 1,
            Algorithm::Nvls | Algorithm::NvlsTree if !self.far => 1 + hop,
            _ => {
                let length = if self.far { edge(round, n) } else { 1 };
                if up { length } else { n - length }
            }
        }
    }

    /// One message or several to each other position. Between nodes one for each member of a node,
    /// or one for all members whose messages travel as one.
    fn pairwise(&self, rounds: &mut Rounds, dim: &Dim) {
        let others = self.positions() - 1;
        let together = self.library.network.as_ref().and_then(|n| n.pxn).unwrap_or(1).max(1);
        let members = if self.far { self.place.inside.div_ceil(together) } else { 1 };
        let partners = Partners::new(others, members);
        let at_once = if mesh(dim) { others } else { AT_ONCE };
        let count = partners.count.div_ceil(at_once).min(EXCHANGES);
        for round in 0..count {
            rounds.push(partners.messages(round, count, self.bytes()));
        }
    }

    /// The root and one group of members after the other.
    fn rooted(&self, rounds: &mut Rounds, dim: &Dim) {
        rounds.rooted = true;
        let n = self.positions();
        let others: Vec<u32> = (1..n).map(|k| (self.root + k) % n).collect();
        let gather = self.kind == CollectiveKind::Gather;
        // The prediction counts the mean of all members; what it counts is the root's, or that of
        // its node's cards.
        let cards = if self.far && self.prediction.algorithm == Algorithm::Pxn {
            self.place.inside
        } else {
            1
        };
        let all = u128::from(self.bytes()) * u128::from(self.place.members());
        let each = (all / u128::from(cards * (n - 1))).min(u128::from(u64::MAX)) as u64;
        let together = if mesh(dim) { others.len() } else { AT_ONCE as usize };
        for group in others.chunks(together) {
            let down = |bytes| move |&to: &u32| Message { from: self.root, to, bytes };
            let up = |bytes| move |&from: &u32| Message { from, to: self.root, bytes };
            let (there, back) = if gather { (0, each) } else { (each, 0) };
            rounds.push(group.iter().map(down(there)).collect());
            rounds.push(group.iter().map(up(back)).collect());
        }
    }

    /// Up and down every link of a tree: each carries the buffer once in both directions.
    fn over_tree(&self, rounds: &mut Rounds, tree: &[(u32, u32)], count: u32) {
        // All members together send the buffer over both directions of all links.
        let all = u128::from(self.bytes()) * u128::from(self.positions());
        let each = (all / (2 * tree.len() as u128)).min(u128::from(u64::MAX)) as u64;
        for round in 0..count {
            let bytes = part(each, round, count);
            let both = |&(child, parent): &(u32, u32)| {
                [(child, parent), (parent, child)].map(|(from, to)| Message { from, to, bytes })
            };
            rounds.push(tree.iter().flat_map(both).collect());
        }
    }

    /// Both ways round the cycles of a mesh, or round the members as they are numbered where no
    /// cycle was found; what goes to a member without a direct link is passed on.
    fn over_graph(&self, rounds: &mut Rounds, count: u32) {
        let n = self.positions();
        let cycles = self.place.rings.as_ref().map_or(&[][..], |rings| &rings.cycles);
        // Two members have one cycle, whose two ways are the same.
        let ways = if n == 2 { 0 } else { 2 * cycles.len() as u32 };
        let each = if ways == 0 { 1 } else { ways };
        let share = Share { bytes: self.bytes(), rounds: count, each };
        for round in 0..count {
            let next = |from: u32, message: &Message| match message.to {
                _ if ways == 0 => (from + 1) % n,
                way => along(&cycles[way as usize / 2], from, way.is_multiple_of(2)),
            };
            rounds.push(everywhere(&share.messages(round, |at| at % each), next, n));
        }
    }
}

/// Whether every position has a link of its own to every other.
fn mesh(dim: &Dim) -> bool {
    dim.block.paths() == Paths::Direct
}

/// Bytes that go in `each` messages a round.
struct Share {
    bytes: u64,
    rounds: u32,
    each: u32,
}

impl Share {
    /// The messages of a round; `to(at)`: where number `at` of all goes.
    fn messages(&self, round: u32, to: impl Fn(u32) -> u32) -> Vec<Message> {
        let message = |at| {
            let bytes = part(self.bytes, at, self.rounds * self.each);
            Message { from: 0, to: to(at), bytes }
        };
        (round * self.each..(round + 1) * self.each).map(message).collect()
    }
}

/// The partners of an all-to-all. Each has `count / sampled` messages.
struct Partners {
    others: u32,
    sampled: u32,
    count: u32,
}

impl Partners {
    /// Partners: `others`, each with `copies` messages, or fewer where these would be too many.
    fn new(others: u32, copies: u32) -> Partners {
        let sampled = others.min(PARTNERS);
        let copies = copies.clamp(1, (PARTNERS / others).max(1));
        Partners { others, sampled, count: sampled * copies }
    }

    /// Messages of one of `rounds`, with `bytes` in all.
    fn messages(&self, round: u32, rounds: u32, bytes: u64) -> Vec<Message> {
        let scaled = |a: u32, b: u32, c: u32| (u64::from(a) * u64::from(b) / u64::from(c)) as u32;
        let first = |round: u32| scaled(self.count, round, rounds);
        let message = |at: u32| {
            let distance = 1 + scaled(at % self.sampled, self.others, self.sampled);
            Message { from: 0, to: distance, bytes: part(bytes, at, self.count) }
        };
        (first(round)..first(round + 1)).map(message).collect()
    }
}

/// Part number `at` of `bytes` in `count` parts, as equal as can be.
fn part(bytes: u64, at: u32, count: u32) -> u64 {
    let up_to = |at: u64| (u128::from(bytes) * u128::from(at) / u128::from(count)) as u64;
    up_to(u64::from(at) + 1) - up_to(u64::from(at))
}

/// Places further that hop number `hop` of a ring through a node of `g` goes: 1, -2, 3, -4, ...,
/// which are all different where `g` is even; in a node of odd size always 1.
pub(super) fn hops(g: u32, hop: u32) -> u32 {
    match hop % 2 {
        _ if g % 2 == 1 => 1,
        0 => 1 + hop,
        _ => g - 1 - hop,
    }
}

/// The length of the tree edges of a round, in nodes: 1, 2, 1, 4, 1, 2, 1, 8, ..., less than `n`.
fn edge(round: u32, n: u32) -> u32 {
    let levels = n.next_power_of_two().trailing_zeros().max(1);
    1 << (round + 1).trailing_zeros().min(levels - 1)
}

/// The same messages from each of `n` positions.
fn everywhere(messages: &[Message], to: impl Fn(u32, &Message) -> u32, n: u32) -> Vec<Message> {
    let of = |from| messages.iter().map(move |m| (from, m));
    (0..n).flat_map(of).map(|(from, m)| Message { from, to: to(from, m), bytes: m.bytes }).collect()
}

/// Who follows `position` on a cycle, or precedes it.
fn along(cycle: &[u32], position: u32, forward: bool) -> u32 {
    let at = cycle.iter().position(|&p| p == position).unwrap_or(0);
    cycle[(at + if forward { 1 } else { cycle.len() - 1 }) % cycle.len()]
}
