//! Algorithms from files in motion: a small operation graph on each member, run as one chunk.
//!
//! Operations wait only for their dependencies. Sends and receives meet by tag as a workload's do, within their collective; a compute
//! operation takes its recorded time (at least 1 ns, as the peer has it). No endpoint delay and no reduction is charged.

use super::point_to_point::Owner;
use super::{Callback, Executor};
use collective::custom::Custom;
use graph::{Op, Program};
use network::Backend;
use std::sync::Arc;
use units::Span;

/// One member's operation graph under way.
pub(super) struct Run {
    stream: u32,
    rank: u32,
    slot: u32,
    position: u32,
    scope: u32,
    program: Arc<Program>,
    deps_left: Vec<u32>,
    left: u32,
}

impl<B: Backend> Executor<'_, B> {
    pub(super) fn start_custom(&mut self, stream: u32, rank: u32, slot: u32, position: u32, custom: Arc<Custom>) {
        let program = custom.positions[position as usize].clone();
        let nodes = program.nodes().len();
        let deps_left: Vec<u32> = (0..nodes).map(|n| program.deps(n).len() as u32).collect();
        let free: Vec<u32> = (0..nodes as u32).filter(|&n| deps_left[n as usize] == 0).collect();
        let scope = self.streams[stream as usize].instance + 1;
        let run = self.runs.len() as u32;
        self.runs.push(Run { stream, rank, slot, position, scope, program, deps_left, left: nodes as u32 });
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
                let span = operation.duration.max(Span::from_ns(1));
                self.register(owner.rank, self.now + span, Callback::Custom(at, node));
            }
        }
    }

    /// The offset in ranks of an offset in positions.
    fn rank_offset(&self, run: u32, peer: i32) -> i32 {
        let run = &self.runs[run as usize];
        let members = &self.workload.groups[self.slots[run.slot as usize].group as usize].members;
        let rank = |p: u32| if members.len(self.settings.ranks) == self.settings.ranks { p } else { members.rank(p) };
        let other = run.position.wrapping_add_signed(peer);
        rank(other) as i32 - rank(run.position) as i32
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

