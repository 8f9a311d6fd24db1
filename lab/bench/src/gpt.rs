//! A GPT-like training step, generated: a stand-in for traces of the same kind that are too large
//! to ship.
//!
//! Ranks: tensor fastest, then data, then pipeline. Each stage runs its layers forward and backward
//! for every micro-batch (two computations and two tensor all-reduces a layer and direction), sends
//! activations on and gradients back, and ends with one data-parallel all-reduce a layer and an
//! optimiser step. Ranks of one stage share a program.

use graph::{
    CollectiveKind, Group, Kernel, Members, Node, Op, Program, ProgramBuilder, RankBinding,
    Workload,
};
use std::sync::Arc;
use units::{Bytes, Span};

/// How the step is cut up.
#[derive(Clone, Copy, Debug)]
pub struct Gpt {
    /// Tensor, data and pipeline parallelism.
    pub parallel: [u32; 3],
    /// Layers of one stage.
    pub layers: u32,
    /// Micro-batches.
    pub batches: u32,
    /// Bytes of an activation and of a layer's gradients on one rank.
    pub bytes: [u64; 2],
}

impl Gpt {
    /// Eight by eight by four.
    pub const NPUS_256: Gpt =
        Gpt { parallel: [8, 8, 4], layers: 8, batches: 8, bytes: [16 << 20, 24 << 20] };

    /// The workload.
    pub fn workload(&self) -> Workload {
        let [tensor, data, pipeline] = self.parallel;
        let line = tensor * data;
        let ranks = line * pipeline;
        let tensors = (0..ranks / tensor).map(|i| Members::Strided {
            first: i * tensor,
            count: tensor,
            step: 1,
        });
        let datas = (0..pipeline * tensor).map(|i| {
            let first = i / tensor * line + i % tensor;
            Members::Strided { first, count: data, step: tensor }
        });
        let groups = tensors
            .chain(datas)
            .zip(1..)
            .map(|(members, name): (_, u32)| Group { name: name.to_string(), members });
        let data_group = |rank: u32| ranks / tensor + rank / line * tensor + rank % tensor;
        Workload {
            programs: (0..pipeline).map(|stage| Arc::new(self.stage(stage))).collect(),
            ranks: (0..ranks)
                .map(|rank| RankBinding { program: rank / line, slots: 2 * rank })
                .collect(),
            slots: (0..ranks).flat_map(|rank| [rank / tensor, data_group(rank)]).collect(),
            groups: groups.collect(),
            ..Workload::default()
        }
    }

    fn stage(&self, stage: u32) -> Program {
        let [tensor, data, pipeline] = self.parallel;
        let next = (tensor * data) as i32;
        let (first, last) = (stage == 0, stage + 1 == pipeline);
        let mut chain = Chain { builder: ProgramBuilder::default() };
        for batch in 0..self.batches {
            let (forward, backward) = (batch, self.batches + batch);
            chain.message(
                !first,
                |bytes| Op::Recv { peer: (-next).into(), bytes, tag: forward },
                self,
            );
            (0..self.layers).for_each(|_| chain.layer("forward", 1, self));
            chain.message(!last, |bytes| Op::Send { peer: next.into(), bytes, tag: forward }, self);
            chain.message(
                !last,
                |bytes| Op::Recv { peer: next.into(), bytes, tag: backward },
                self,
            );
            (0..self.layers).for_each(|_| chain.layer("backward", 2, self));
            chain.message(
                !first,
                |bytes| Op::Send { peer: (-next).into(), bytes, tag: backward },
                self,
            );
        }
        (0..self.layers).for_each(|_| chain.push("gradients", all_reduce(1, self.bytes[1])));
        chain.push("optimiser", compute(1 << 30, self.bytes[1]));
        chain.builder.build().expect("a chain")
    }
}

/// Each node after the one before it.
struct Chain {
    builder: ProgramBuilder,
}

impl Chain {
    fn push(&mut self, name: &str, op: Op) {
        let id = self.builder.len() as u64;
        self.builder.push(Node { id, duration: Span::ZERO, op }, name, id.checked_sub(1));
    }

    fn message(&mut self, wanted: bool, op: impl Fn(Bytes) -> Op, gpt: &Gpt) {
        if wanted {
            self.push("activation", op(Bytes(gpt.bytes[0])));
        }
    }

    fn layer(&mut self, name: &str, times: u64, gpt: &Gpt) {
        for part in 1..=2 {
            self.push(name, compute(times * part * (40 << 30), gpt.bytes[0]));
            self.push(name, all_reduce(0, gpt.bytes[0]));
        }
    }
}

fn compute(operations: u64, bytes: u64) -> Op {
    Op::Compute {
        operations: Some(operations),
        bytes: Some(Bytes(bytes)),
        cpu: false,
        kernel: Kernel::Other,
    }
}

fn all_reduce(slot: u32, bytes: u64) -> Op {
    Op::Collective {
        kind: CollectiveKind::AllReduce,
        bytes: Bytes(bytes),
        slot,
        priority: 0,
        dims: u32::MAX,
        root: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_are_matched_and_groups_agree() {
        for parallel in [[8, 8, 4], [2, 1, 1], [2, 3, 5]] {
            let gpt = Gpt { parallel, layers: 2, batches: 3, ..Gpt::NPUS_256 };
            let workload = gpt.workload();
            assert_eq!(graph::check(&workload, parallel.iter().product()), []);
        }
    }
}
