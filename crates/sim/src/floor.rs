//! Chains of operations that a step can't be shorter than, whatever its network does.
//!
//! An operation starts when those it depends on have ended, and a receive ends after its send has
//! started. So a step takes at least what the operations of any chain take one after another. Found
//! here: the chain that is the longest if a byte of each collective took some given time. Messages
//! count as nothing. Not here: what a byte takes at least on some network (the asker's).

use graph::{Node, Op, Program, Workload};
use lowering::compute;
use platform::Platform;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use units::Span;

/// By slot and kind of a program's collectives: the row they are counted in, and the seconds that a
/// byte takes.
pub type Rates = BTreeMap<(u32, &'static str), (usize, f64)>;

/// A chain of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Time of its computations and accesses to memory.
    pub fixed: Span,
    /// Bytes of its collectives, by row.
    pub bytes: Vec<u128>,
}

/// The longest chain of a step; `rates` by program, counted in `rows` rows.
pub fn longest(workload: &Workload, platform: &Platform, rates: &[Rates], rows: usize) -> Chain {
    let graph = Joined::of(workload);
    let durations = compute::least(workload, platform);
    let seconds = |(program, i): (usize, usize)| match workload.programs[program].nodes()[i].op {
        Op::Collective { kind, bytes, slot, .. } => {
            rates[program].get(&(slot, kind.name())).map_or(0.0, |&(_, rate)| bytes.0 as f64 * rate)
        }
        Op::Send { .. } | Op::Recv { .. } => 0.0,
        _ => durations[program][i].0 as f64 * 1e-12,
    };
    let mut chain = Chain { fixed: Span::ZERO, bytes: vec![0; rows] };
    for node in graph.longest(seconds) {
        let (program, i) = graph.place(node);
        match workload.programs[program].nodes()[i].op {
            Op::Collective { kind, bytes, slot, .. } => {
                if let Some(&(row, _)) = rates[program].get(&(slot, kind.name())) {
                    chain.bytes[row] += u128::from(bytes.0);
                }
            }
            Op::Send { .. } | Op::Recv { .. } => {}
            _ => chain.fixed.0 += durations[program][i].0,
        }
    }
    chain
}

/// The programs of a workload as one graph, in which receives follow their sends.
struct Joined<'a> {
    programs: Vec<&'a Program>,
    /// The number of each program's first node, and of one past the last.
    first: Vec<usize>,
    /// Send of each receive.
    send: FxHashMap<usize, usize>,
}

impl<'a> Joined<'a> {
    fn of(workload: &'a Workload) -> Joined<'a> {
        let programs: Vec<&Program> = workload.programs.iter().map(|program| &**program).collect();
        let mut first = vec![0];
        programs
            .iter()
            .for_each(|program| first.push(first[first.len() - 1] + program.nodes().len()));
        let mut joined = Joined { programs, first, send: FxHashMap::default() };
        for (program, peer) in partners(workload) {
            joined.match_messages(program, peer);
        }
        joined
    }

    /// Program and node of a number.
    fn place(&self, node: usize) -> (usize, usize) {
        let program = self.first.partition_point(|&first| first <= node) - 1;
        (program, node - self.first[program])
    }

    /// Pairs the receives that `program` has from `distance` ranks on with the sends of the program
    /// there, in order by tag.
    fn match_messages(&mut self, program: usize, (distance, other): (i32, usize)) {
        let mut sends: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (i, node) in self.programs[other].nodes().iter().enumerate().rev() {
            if let Op::Send { peer, tag, .. } = node.op
                && self.programs[other].offset(peer) == -distance
            {
                sends.entry(tag).or_default().push(self.first[other] + i);
            }
        }
        for (i, node) in self.programs[program].nodes().iter().enumerate() {
            if let Op::Recv { peer, tag, .. } = node.op
                && self.programs[program].offset(peer) == distance
                && let Some(send) = sends.get_mut(&tag).and_then(Vec::pop)
            {
                self.send.insert(self.first[program] + i, send);
            }
        }
    }

    /// The nodes of the longest chain, last first.
    fn longest(&self, seconds: impl Fn((usize, usize)) -> f64) -> Vec<usize> {
        const NONE: usize = usize::MAX;
        let count = self.first[self.programs.len()];
        let mut receives: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        self.send.iter().for_each(|(&recv, &send)| receives.entry(send).or_default().push(recv));
        let mut waits: Vec<u32> = self
            .programs
            .iter()
            .flat_map(|p| (0..p.nodes().len()).map(|i| p.deps(i).len() as u32))
            .collect();
        self.send.keys().for_each(|&recv| waits[recv] += 1);
        let mut ends = vec![0.0; count];
        let mut before = vec![NONE; count];
        let mut ready: Vec<usize> = (0..count).filter(|&node| waits[node] == 0).collect();
        let mut last = NONE;
        while let Some(node) = ready.pop() {
            let (program, i) = self.place(node);
            ends[node] += seconds((program, i));
            if last == NONE || ends[node] > ends[last] {
                last = node;
            }
            let own = self.programs[program]
                .children(i)
                .iter()
                .map(|&child| self.first[program] + child as usize);
            for child in own.chain(receives.get(&node).into_iter().flatten().copied()) {
                if before[child] == NONE || ends[node] > ends[child] {
                    (ends[child], before[child]) = (ends[node], node);
                }
                waits[child] -= 1;
                if waits[child] == 0 {
                    ready.push(child);
                }
            }
        }
        std::iter::successors((last != NONE).then_some(last), |&node| {
            (before[node] != NONE).then(|| before[node])
        })
        .collect()
    }
}

/// Distance to the ranks that each program receives from, and their program; only where it is the
/// same for all its ranks.
fn partners(workload: &Workload) -> Vec<(usize, (i32, usize))> {
    let mut ranks: Vec<Vec<u32>> = vec![Vec::new(); workload.programs.len()];
    for (rank, binding) in workload.ranks.iter().enumerate() {
        ranks[binding.program as usize].push(rank as u32);
    }
    let mut found = Vec::new();
    for (program, ranks) in ranks.iter().enumerate() {
        let program_of = &workload.programs[program];
        let source = |node: &Node| match node.op {
            Op::Recv { peer, .. } => Some(program_of.offset(peer)),
            _ => None,
        };
        let mut peers: Vec<i32> = program_of.nodes().iter().filter_map(source).collect();
        peers.sort_unstable();
        peers.dedup();
        for peer in peers {
            let other = |rank: u32| {
                Some(workload.ranks.get(rank.checked_add_signed(peer)? as usize)?.program)
            };
            let mut all = ranks.iter().map(|&rank| other(rank));
            if let Some(Some(one)) = all.next()
                && all.all(|each| each == Some(one))
            {
                found.push((program, (peer, one as usize)));
            }
        }
    }
    found
}
