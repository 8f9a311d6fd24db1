//! Algorithms read from files: a small operation graph for each position (Chakra custom
//! collectives, MSCCL XML).
//!
//! Here: the data, and the check that such an algorithm can run to its end. What it computes is the
//! file's own affair, as far as its messages can bring every position what it needs. The sizes are the file's own for Chakra; for MSCCL they are fractions of the
//! buffer and the reader makes bytes of them. Model of the check: a send ends when it is issued, a
//! receive when the k-th receive of its channel has the k-th send; a channel is (source,
//! destination, tag, bytes).

use graph::{CollectiveKind, Node, Op, Peer, Problem, Program};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One algorithm from a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Custom {
    /// Name for people and errors.
    pub name: String,
    /// One program a position; sends and receives use peer offsets in positions. Programs may be
    /// shared.
    pub positions: Vec<Arc<Program>>,
}

impl Custom {
    /// Everything that keeps the algorithm from running to its end on any backend; empty when it
    /// does.
    ///
    /// Looked for: no positions, operations that make no sense inside a collective, peers outside
    /// or oneself, sends and receives that do not match, and circular waits over all positions.
    pub fn check(&self) -> Vec<Problem> {
        if self.positions.is_empty() {
            return vec![
                Problem::new(&self.name, "", "the algorithm has no positions")
                    .help("at least one program"),
            ];
        }
        let mut problems = self.misplaced();
        if problems.is_empty() {
            problems = self.unmatched();
            problems.extend(Walk::new(self).finish());
        }
        problems
    }

    /// A position whose data cannot reach another one that needs it for a collective of this kind.
    /// What a message carries is not known: each might carry all that its sender has.
    pub fn unheard(&self, kind: CollectiveKind) -> Option<String> {
        use CollectiveKind::*;
        let n = self.positions.len();
        let reached: Vec<Vec<bool>> = (0..n).map(|position| self.reached(position)).collect();
        let hears = |to: usize, from: usize| reached[from][to];
        let all_to = |root: usize| (0..n).all(|from| hears(root, from));
        let from_to_all = |root: usize| (0..n).all(|to| hears(to, root));
        let (to, from) = match kind {
            Reduce | Gather if (0..n).any(all_to) => return None,
            Broadcast | Scatter if (0..n).any(from_to_all) => return None,
            Reduce | Gather | Broadcast | Scatter | AllReduce | AllGather | ReduceScatter
            | AllToAll | Barrier => (0..n)
                .flat_map(|to| (0..n).map(move |from| (to, from)))
                .find(|&(to, from)| !hears(to, from))?,
        };
        Some(format!("no message brings the data of position {from} to position {to}"))
    }

    /// The positions to which messages lead from one.
    fn reached(&self, start: usize) -> Vec<bool> {
        let mut reached = vec![false; self.positions.len()];
        let mut open = vec![start];
        while let Some(position) = open.pop() {
            if std::mem::replace(&mut reached[position], true) {
                continue;
            }
            let program = &self.positions[position];
            open.extend(program.nodes().iter().filter_map(|node| match node.op {
                Op::Send { peer, .. } => {
                    Some(position.wrapping_add_signed(program.offset(peer) as isize))
                }
                _ => None,
            }));
        }
        reached
    }

    fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.positions
            .iter()
            .enumerate()
            .flat_map(|(p, program)| program.nodes().iter().map(move |node| (p, node)))
    }

    fn problem(&self, position: usize, node: &Node, message: String) -> Problem {
        Problem::new(&self.name, place(position, node.id), message)
    }

    /// Nodes that cannot stand in an algorithm of this many positions.
    fn misplaced(&self) -> Vec<Problem> {
        let n = self.positions.len();
        let fault = |(position, node): (usize, &Node)| match node.op {
            Op::Send { peer, .. } | Op::Recv { peer, .. } => {
                let offset = self.positions[position].offset(peer);
                let other = position as i64 + i64::from(offset);
                let message =
                    || format!("a message between position {position} and position {other}");
                let help = || format!("another position from 0 to {}", n - 1);
                (offset == 0 || !(0..n as i64).contains(&other))
                    .then(|| self.problem(position, node, message()).help(help()))
            }
            Op::Collective { kind, .. } => {
                let message = format!("{} inside a custom collective", kind.name());
                Some(
                    self.problem(position, node, message)
                        .help("send, receive, compute and metadata nodes"),
                )
            }
            Op::Memory { .. } => {
                let message = "a custom collective contains a memory operation".to_string();
                Some(
                    self.problem(position, node, message)
                        .help("send, receive, compute and metadata nodes"),
                )
            }
            Op::Metadata
            | Op::Invalid
            | Op::Compute { .. }
            | Op::Gemm(_)
            | Op::Grouped(_)
            | Op::Lookup(_) => None,
        };
        self.nodes().filter_map(fault).collect()
    }

    /// Sends without receive and receives without send, one problem a channel.
    fn unmatched(&self) -> Vec<Problem> {
        let mut channels: BTreeMap<Channel, (Vec<&Node>, Vec<&Node>)> = BTreeMap::new();
        for (position, node) in self.nodes() {
            if let Some((channel, sends)) = self.channel(position, node) {
                let entry = channels.entry(channel).or_default();
                if sends { entry.0.push(node) } else { entry.1.push(node) }
            }
        }
        channels
            .iter()
            .filter_map(|(channel, (sends, receives))| self.surplus(channel, sends, receives))
            .collect()
    }

    fn surplus(&self, channel: &Channel, sends: &[&Node], receives: &[&Node]) -> Option<Problem> {
        let both = sends.len().min(receives.len());
        let message = format!(
            "{} sends but {} receives of {} bytes with tag {} from position {} to position {}",
            sends.len(),
            receives.len(),
            channel.bytes,
            channel.tag,
            channel.from,
            channel.to
        );
        let surplus = sends[both..]
            .iter()
            .map(|&s| (channel.from, s))
            .chain(receives[both..].iter().map(|&r| (channel.to, r)));
        let help = "one receive of the same tag and size for every send";
        surplus
            .take(1)
            .map(|(position, node)| self.problem(position, node, message.clone()).help(help))
            .next()
    }
}

fn place(position: usize, id: u64) -> String {
    format!("position {position} node {id}")
}

/// Where the k-th send meets the k-th receive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Channel {
    from: usize,
    to: usize,
    tag: u32,
    bytes: u64,
}

impl Custom {
    /// The channel of a send (true) or receive (false); peers are known to be inside.
    fn channel(&self, position: usize, node: &Node) -> Option<(Channel, bool)> {
        let program = &self.positions[position];
        let other = |peer: Peer| position.wrapping_add_signed(program.offset(peer) as isize);
        match node.op {
            Op::Send { peer, bytes, tag } => {
                Some((Channel { from: position, to: other(peer), tag, bytes: bytes.0 }, true))
            }
            Op::Recv { peer, bytes, tag } => {
                Some((Channel { from: other(peer), to: position, tag, bytes: bytes.0 }, false))
            }
            _ => None,
        }
    }
}

/// A node of a position, by index.
type At = (usize, usize);

/// Runs the algorithm without time: what can be issued is issued, until nothing can.
struct Walk<'a> {
    custom: &'a Custom,
    /// Dependencies not yet done; `None` once the node is done itself.
    waits: Vec<Vec<Option<u32>>>,
    ready: VecDeque<At>,
    /// Sends without receive, and receives without send, of each channel so far.
    pending: BTreeMap<Channel, (u64, VecDeque<At>)>,
}

impl<'a> Walk<'a> {
    fn new(custom: &'a Custom) -> Walk<'a> {
        let waits =
            |p: &Arc<Program>| (0..p.nodes().len()).map(|i| Some(p.deps(i).len() as u32)).collect();
        let waits: Vec<Vec<Option<u32>>> = custom.positions.iter().map(waits).collect();
        let mut walk = Walk { custom, waits, ready: VecDeque::new(), pending: BTreeMap::new() };
        walk.ready = walk.all(|waits| waits == Some(0)).into();
        walk
    }

    /// The nodes whose wait is such, by position and index.
    fn all(&self, such: impl Fn(Option<u32>) -> bool) -> Vec<At> {
        let each = |(p, waits): (usize, &Vec<Option<u32>>)| -> Vec<At> {
            (0..waits.len()).filter(|&i| such(waits[i])).map(|i| (p, i)).collect()
        };
        self.waits.iter().enumerate().flat_map(each).collect()
    }

    fn node(&self, (position, index): At) -> &'a Node {
        &self.custom.positions[position].nodes()[index]
    }

    /// The circular wait that stops it, if one does.
    fn finish(mut self) -> Option<Problem> {
        while let Some(at) = self.ready.pop_front() {
            self.issue(at);
        }
        let stuck = self.all(|waits| waits.is_some());
        let mut sends = BTreeMap::new();
        for &at in &stuck {
            if let Some((channel, true)) = self.custom.channel(at.0, self.node(at)) {
                sends.entry(channel).or_insert(at);
            }
        }
        let mut seen = BTreeMap::new();
        (0..stuck.len()).find_map(|ordinal| self.circle(stuck[ordinal], ordinal, &sends, &mut seen))
    }

    fn issue(&mut self, at: At) {
        let Some((channel, sends)) = self.custom.channel(at.0, self.node(at)) else {
            return self.done(at);
        };
        let (sent, waiting) = self.pending.entry(channel).or_default();
        if sends {
            match waiting.pop_front() {
                Some(receive) => self.done(receive),
                None => *sent += 1,
            }
            self.done(at);
        } else if *sent > 0 {
            *sent -= 1;
            self.done(at);
        } else {
            waiting.push_back(at);
        }
    }

    fn done(&mut self, (position, index): At) {
        self.waits[position][index] = None;
        for &child in self.custom.positions[position].children(index) {
            let child = child as usize;
            let left = self.waits[position][child].map(|w| w - 1);
            self.waits[position][child] = left;
            if left == Some(0) {
                self.ready.push_back((position, child));
            }
        }
    }

    /// Send that `at` waits for: a dependency, or the first send of its channel that was not
    /// issued.
    fn waits_for(&self, at: At, sends: &BTreeMap<Channel, At>) -> Option<At> {
        let open = |&&dep: &&u32| self.waits[at.0][dep as usize].is_some();
        let dep = self.custom.positions[at.0].deps(at.1).iter().find(open);
        let send = || {
            self.custom
                .channel(at.0, self.node(at))
                .and_then(|(channel, _)| sends.get(&channel).copied())
        };
        dep.map(|&dep| (at.0, dep as usize)).or_else(send)
    }

    /// Follows the waits from `start` until they come round; `seen`: the search that met a node
    /// first, and how deep.
    fn circle(
        &self,
        start: At,
        search: usize,
        sends: &BTreeMap<Channel, At>,
        seen: &mut BTreeMap<At, (usize, usize)>,
    ) -> Option<Problem> {
        let mut path = Vec::new();
        let mut at = start;
        loop {
            match seen.get(&at) {
                Some(&(by, first)) if by == search => return Some(self.describe(&path[first..])),
                Some(_) => return None,
                None => seen.insert(at, (search, path.len())),
            };
            path.push(at);
            at = self.waits_for(at, sends)?;
        }
    }

    fn describe(&self, circle: &[At]) -> Problem {
        let name = |&at: &At| place(at.0, self.node(at).id);
        let mut names: Vec<String> = circle.iter().take(16).map(name).collect();
        if circle.len() > names.len() {
            names.push(format!("{} more", circle.len() - names.len()));
        }
        let message = format!("operations wait for each other in a cycle: {}", names.join(" -> "));
        Problem::new(&self.custom.name, name(&circle[0]), message)
            .help("dependencies and messages without a cycle")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::ProgramBuilder;
    use units::{Bytes, Span};

    fn send(peer: i32, bytes: u64, tag: u32) -> Op {
        Op::Send { peer: peer.into(), bytes: Bytes(bytes), tag }
    }

    fn recv(peer: i32, bytes: u64, tag: u32) -> Op {
        Op::Recv { peer: peer.into(), bytes: Bytes(bytes), tag }
    }

    /// Node i has id i and the dependencies given.
    fn program(nodes: &[(Op, &[u64])]) -> Arc<Program> {
        let mut builder = ProgramBuilder::default();
        for (id, &(op, deps)) in (0..).zip(nodes) {
            builder.push(Node { id, duration: Span::ZERO, op }, "", deps.iter().copied());
        }
        Arc::new(builder.build().unwrap())
    }

    fn check(positions: Vec<Arc<Program>>) -> Vec<String> {
        Custom { name: "mine.et".into(), positions }
            .check()
            .iter()
            .map(Problem::to_string)
            .collect()
    }

    /// A ring all-gather in which each position forwards what it received.
    fn ring(n: i32, steps: u64) -> Vec<Arc<Program>> {
        let position = |p: i32| {
            let (next, previous) = ((p + 1) % n - p, (p + n - 1) % n - p);
            let mut builder = ProgramBuilder::default();
            for k in 0..steps {
                let node = |id, op| Node { id, duration: Span::ZERO, op };
                builder.push(node(2 * k, send(next, 64, 0)), "", (k > 0).then(|| 2 * k - 1));
                builder.push(
                    node(2 * k + 1, recv(previous, 64, 0)),
                    "",
                    (k > 0).then(|| 2 * k - 1),
                );
            }
            Arc::new(builder.build().unwrap())
        };
        (0..n).map(position).collect()
    }

    #[test]
    fn a_ring_runs() {
        assert_eq!(check(ring(5, 4)), Vec::<String>::new());
    }

    #[test]
    fn a_missing_receive_is_named() {
        let problems =
            check(vec![program(&[(send(1, 8, 3), &[])]), program(&[(recv(-1, 9, 3), &[])])]);
        assert_eq!(
            problems,
            [
                "mine.et: position 0 node 0: 1 sends but 0 receives of 8 bytes with tag 3 from position 0 to position 1 \
                 (allowed: one receive of the same tag and size for every send)",
                "mine.et: position 1 node 0: 0 sends but 1 receives of 9 bytes with tag 3 from position 0 to position 1 \
                 (allowed: one receive of the same tag and size for every send)"
            ]
        );
    }

    #[test]
    fn a_circle_over_positions_is_named() {
        let wait_first = |peer: i32| program(&[(recv(peer, 8, 0), &[]), (send(peer, 8, 0), &[0])]);
        let problems = check(vec![wait_first(1), wait_first(-1)]);
        assert_eq!(problems.len(), 1);
        let circle =
            "position 0 node 0 -> position 1 node 1 -> position 1 node 0 -> position 0 node 1";
        assert!(problems[0].contains(circle), "{problems:?}");
    }

    #[test]
    fn a_circle_within_a_position_is_named() {
        let problems = check(vec![program(&[(Op::Metadata, &[1]), (Op::Metadata, &[0])])]);
        assert!(problems[0].contains("position 0 node 0 -> position 0 node 1"), "{problems:?}");
    }

    #[test]
    fn peers_outside_and_foreign_operations_are_named() {
        let memory = Op::Memory {
            store: false,
            bytes: Bytes(1),
            reach: graph::Reach::Remote,
            tensor: 0,
            slot: None,
        };
        let problems = check(vec![
            program(&[(send(2, 8, 0), &[]), (recv(0, 8, 0), &[]), (memory, &[])]),
            program(&[]),
        ]);
        assert_eq!(problems.len(), 3);
        assert!(
            problems[0].contains(
                "between position 0 and position 2 (allowed: another position from 0 to 1)"
            )
        );
        assert!(problems[1].contains("position 0 and position 0"));
        assert!(problems[2].contains("memory operation"));
        assert_eq!(
            check(vec![]),
            ["mine.et: the algorithm has no positions (allowed: at least one program)"]
        );
    }
}
