//! An algorithm as data, and the programs it becomes.

use graph::{CollectiveKind, Kernel, Node, Op, Program, ProgramBuilder};
use units::{Bytes, Span};

/// Action of a step on a chunk, in MSCCL's own abbreviations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// `s`
    Send,
    /// `r`: receive and store.
    Recv,
    /// `rcs`: receive, store and send on.
    RecvCopySend,
    /// `rrs`: receive, reduce and send on without storing.
    RecvReduceSend,
    /// `rrc`: receive, reduce and store.
    RecvReduceCopy,
    /// `rrcs`: receive, reduce, store and send on.
    RecvReduceCopySend,
    /// `cpy`: copy within the rank.
    Copy,
    /// `re`: reduce within the rank.
    Reduce,
    /// `nop`: only waits.
    Nop,
}

/// A buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// `i`
    Input,
    /// `o`
    Output,
    /// `s`
    Scratch,
}

/// One step of a threadblock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Action of the step.
    pub kind: StepKind,
    /// Buffer and chunk it reads.
    pub source: (Buffer, u32),
    /// Buffer and chunk it writes.
    pub target: (Buffer, u32),
    /// How many chunks.
    pub count: u32,
    /// Threadblock index and step index in the same rank to wait for.
    pub wait: Option<(u32, u32)>,
}

/// Steps that one threadblock of a rank runs in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Threadblock {
    /// Rank it sends to.
    pub send: Option<u32>,
    /// Rank it receives from.
    pub recv: Option<u32>,
    /// Channel; messages of different channels don't overtake within, only between them.
    pub channel: u32,
    /// The steps.
    pub steps: Vec<Step>,
}

/// One algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm {
    /// Name of the algorithm in the file.
    pub name: String,
    /// The collective it implements; `None` for one that has no kind here (`custom`, `alltoallv`,
    /// ...).
    pub kind: Option<CollectiveKind>,
    /// Pieces the larger of input and output buffer is divided into.
    pub chunks: u32,
    /// Chunks of the input buffer, output buffer and scratch of each rank.
    pub buffers: Vec<[u32; 3]>,
    /// The threadblocks of each rank.
    pub ranks: Vec<Vec<Threadblock>>,
}

impl StepKind {
    /// True when the step receives from the threadblock's peer.
    pub fn receives(self) -> bool {
        use StepKind::*;
        matches!(self, Recv | RecvCopySend | RecvReduceSend | RecvReduceCopy | RecvReduceCopySend)
    }

    /// True when the step sends to the threadblock's peer.
    pub fn sends(self) -> bool {
        use StepKind::*;
        matches!(self, Send | RecvCopySend | RecvReduceSend | RecvReduceCopySend)
    }

    /// True when the step reads chunks of its source buffer.
    pub(super) fn reads(self) -> bool {
        use StepKind::*;
        matches!(self, Send | RecvReduceSend | RecvReduceCopy | RecvReduceCopySend | Copy | Reduce)
    }

    /// True when the step writes chunks of its target buffer.
    pub(super) fn writes(self) -> bool {
        use StepKind::*;
        matches!(self, Recv | RecvCopySend | RecvReduceCopy | RecvReduceCopySend | Copy | Reduce)
    }

    /// How often a byte is read or written in the rank's own memory besides sending and receiving.
    fn local_touches(self) -> u64 {
        use StepKind::*;
        match self {
            // Two operands read, one result written.
            RecvReduceSend | RecvReduceCopy | RecvReduceCopySend | Reduce => 3,
            Copy => 2,
            Send | Recv | RecvCopySend | Nop => 0,
        }
    }
}

impl Algorithm {
    /// Size of `count` chunks of a buffer of `bytes`, rounded up.
    pub fn size(&self, count: u32, bytes: Bytes) -> Bytes {
        let exact =
            (u128::from(bytes.0) * u128::from(count)).div_ceil(u128::from(self.chunks.max(1)));
        Bytes(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    /// One program a rank, for a buffer of `bytes` (the larger of input and output of a rank).
    ///
    /// A step becomes up to three nodes in a row (receive, local work, send), each after what the
    /// step waits for; a threadblock's steps follow each other. The tag of a message is its
    /// channel. Local work is a computation without duration whose `bytes` are those it reads and
    /// writes. Programs of cyclic waits are returned as they are: see `graph::check`.
    pub fn programs(&self, bytes: Bytes) -> Vec<Program> {
        (0u32..).zip(&self.ranks).map(|(rank, blocks)| self.program(rank, blocks, bytes)).collect()
    }

    fn program(&self, rank: u32, blocks: &[Threadblock], bytes: Bytes) -> Program {
        // Ids are dense: three for each step; the last one that exists stands for the step.
        let mut base = Vec::with_capacity(blocks.len());
        let mut next = 0u64;
        for block in blocks {
            base.push(next);
            next += 3 * block.steps.len() as u64;
        }
        let last = |block: usize, step: usize| {
            let part =
                blocks.get(block).and_then(|b| b.steps.get(step)).map_or(0, |s| s.kind.last_part());
            base.get(block).map(|base| base + 3 * step as u64 + part)
        };
        let mut builder = ProgramBuilder::default();
        for (b, block) in blocks.iter().enumerate() {
            for (s, step) in block.steps.iter().enumerate() {
                let before = s.checked_sub(1).and_then(|s| last(b, s));
                let waited =
                    step.wait.and_then(|(block, step)| last(block as usize, step as usize));
                let mut deps: Vec<u64> = before.into_iter().chain(waited).collect();
                let first = base[b] + 3 * s as u64;
                for (part, op) in self.parts(rank, block, step, bytes) {
                    let id = first + part;
                    let name = format!("tb{b}.{s}");
                    builder.push(Node { id, duration: Span::ZERO, op }, &name, deps.drain(..));
                    deps.push(id);
                }
            }
        }
        // Ids are unique and every wait was checked when the file was read.
        builder.build().unwrap_or_default()
    }

    /// The nodes of one step with their place in it.
    fn parts(&self, rank: u32, block: &Threadblock, step: &Step, bytes: Bytes) -> Vec<(u64, Op)> {
        let size = self.size(step.count, bytes);
        let offset = |peer: u32| ((i64::from(peer) - i64::from(rank)) as i32).into();
        let mut parts = Vec::with_capacity(3);
        if let (true, Some(peer)) = (step.kind.receives(), block.recv) {
            parts.push((0, Op::Recv { peer: offset(peer), bytes: size, tag: block.channel }));
        }
        match (step.kind, step.kind.local_touches()) {
            (StepKind::Nop, _) => parts.push((1, Op::Metadata)),
            (_, 0) => {}
            (_, touches) => {
                let bytes = Some(Bytes(size.0.saturating_mul(touches)));
                parts.push((
                    1,
                    Op::Compute { operations: None, bytes, cpu: false, kernel: Kernel::Other },
                ));
            }
        }
        if let (true, Some(peer)) = (step.kind.sends(), block.send) {
            parts.push((2, Op::Send { peer: offset(peer), bytes: size, tag: block.channel }));
        }
        parts
    }
}

impl StepKind {
    fn last_part(self) -> u64 {
        match self {
            kind if kind.sends() => 2,
            StepKind::Recv => 0,
            _ => 1,
        }
    }
}
