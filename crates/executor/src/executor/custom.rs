//! Algorithms from files in motion: a small operation graph on each member, run as one chunk.
//!
//! Operations wait only for their dependencies. Sends and receives meet by tag as a workload's do,
//! within their collective; a compute operation takes its recorded time (at least 1 ns, as the peer
//! has it). No endpoint delay and no reduction is charged.

use super::point_to_point::Owner;
use super::{Callback, Executor};
use collective::custom::Custom;
use graph::{Op, Program};
use network::Backend;
use std::rc::Rc;
use std::sync::Arc;
use units::Span;

/// One member's operation graph under way.
pub(super) struct Run {
    stream: u32,
    rank: u32,
    /// The members' ranks by position; `None` when positions are ranks.
    ranks: Option<Rc<[u32]>>,
    position: u32,
    scope: u32,
    program: Arc<Program>,
    deps_left: Vec<u32>,
    left: u32,
}

impl<B: Backend> Executor<'_, B> {
    pub(super) fn start_custom(
        &mut self,
        stream: u32,
        rank: u32,
        slot: u32,
        position: u32,
        custom: Arc<Custom>,
    ) {
        let group = self.slots[slot as usize].group;
        let ranks = self.sorted_ranks(group);
        let position = ranks.as_ref().map_or(position, |r| {
            r.partition_point(|&m| m < self.folding.representatives[rank as usize]) as u32
        });
        let program = custom.positions[position as usize].clone();
        let nodes = program.nodes().len();
        let deps_left: Vec<u32> = (0..nodes).map(|n| program.deps(n).len() as u32).collect();
        let free: Vec<u32> = (0..nodes as u32).filter(|&n| deps_left[n as usize] == 0).collect();
        let scope = self.streams[stream as usize].instance + 1;
        let run = self.runs.len() as u32;
        self.runs.push(Run {
            stream,
            rank,
            ranks,
            position,
            scope,
            program,
            deps_left,
            left: nodes as u32,
        });
        if nodes == 0 {
            return self.phase_done(stream);
        }
        free.into_iter().for_each(|node| self.issue_custom(run, node));
    }

    fn issue_custom(&mut self, at: u32, node: u32) {
        let run = &self.runs[at as usize];
        let operation = run.program.nodes()[node as usize];
        let owner = Owner { rank: run.rank, node, run: at, scope: run.scope };
        match operation.op {
            Op::Send { peer, bytes, tag } => {
                let peer = self.rank_offset(at, peer);
                self.send(owner, peer, bytes.0, tag);
            }
            Op::Recv { peer, bytes, tag } => {
                let peer = self.rank_offset(at, peer);
                self.receive(owner, peer, bytes.0, tag);
            }
            _ => {
                let span = operation.duration.max(self.local_work(&operation.op));
                self.register(owner.rank, self.now + span, Callback::Custom(at, node));
            }
        }
    }

    /// Local work without a recorded time: with the peer 1 ns, else its bytes over the local
    /// memory.
    fn local_work(&self, op: &Op) -> Span {
        match (op, self.settings.local_memory) {
            (Op::Compute { bytes: Some(bytes), .. }, Some(memory)) if self.settings.canonical => {
                memory.span(*bytes)
            }
            _ if self.settings.canonical => Span::ZERO,
            _ => Span::from_ns(1),
        }
    }

    /// The offset in ranks of an offset in positions.
    fn rank_offset(&self, run: u32, peer: i32) -> i32 {
        let run = &self.runs[run as usize];
        let Some(ranks) = &run.ranks else { return peer };
        let other = run.position.wrapping_add_signed(peer);
        ranks[other as usize] as i32 - ranks[run.position as usize] as i32
    }

    /// The ranks of a group ascending (positions of an algorithm from a file follow them), `None`
    /// for the whole machine.
    fn sorted_ranks(&mut self, group: u32) -> Option<Rc<[u32]>> {
        let (members, world) = (&self.workload.groups[group as usize].members, self.settings.ranks);
        if members.len(world) == world {
            return None;
        }
        let sorted = || {
            let mut ranks: Vec<u32> = (0..members.len(world)).map(|p| members.rank(p)).collect();
            ranks.sort_unstable();
            ranks.into()
        };
        Some(self.sorted.entry(group).or_insert_with(sorted).clone())
    }

    pub(super) fn custom_done(&mut self, at: u32, node: u32) {
        let run = &mut self.runs[at as usize];
        run.left -= 1;
        if run.left == 0 {
            let stream = run.stream;
            return self.phase_done(stream);
        }
        let program = run.program.clone();
        let mut ready = Vec::new();
        for &child in program.children(node as usize) {
            let left = &mut run.deps_left[child as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(child);
            }
        }
        ready.into_iter().for_each(|child| self.issue_custom(at, child));
    }
}
