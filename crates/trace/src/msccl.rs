//! MSCCL algorithms: the XML that MSCCL's runtime and msccl-tools exchange.
//!
//! `<algo name coll ngpus nchunksperloop ...>` holds a `<gpu id i_chunks o_chunks s_chunks>` for
//! each rank, that holds threadblocks `<tb id send recv chan>` (peers, -1 for none), that hold
//! `<step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep>`. Steps of a threadblock run in
//! order; `depid`, `deps` name a threadblock and step of the same rank to wait for. What a rank
//! sends another over a channel arrives in the order of its steps. Equation: `chunk = buffer /
//! nchunksperloop`, the buffer being the larger of input and output; `bytes = ceil(cnt * chunk)`.
//! Not here: symbolic proofs of what an algorithm computes (`collective`). Source: the XML emitter
//! of msccl-tools and the parser in MSCCL's runtime.

use graph::{CollectiveKind, Kernel, Node, Op, Problem, Program, ProgramBuilder};
use roxmltree::Document;
use std::path::Path;
use units::{Bytes, Span};

/// What a step does with a chunk, in MSCCL's own abbreviations.
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
    /// What it does.
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
    /// Its name in the file.
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

/// Reads an algorithm from a file.
///
/// # Errors
/// As [`parse`], and files that can't be read.
pub fn read(path: &Path) -> Result<Algorithm, Vec<Problem>> {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => parse(&bytes, &name),
        Err(error) => Err(vec![
            Problem::new(name, "", format!("can't be read: {error}")).help("an MSCCL XML file"),
        ]),
    }
}

/// Reads an algorithm from XML, `file` standing for its name.
///
/// # Errors
/// Everything wrong with it, with line and value.
pub fn parse(xml: &[u8], file: &str) -> Result<Algorithm, Vec<Problem>> {
    let text = std::str::from_utf8(xml).map_err(|error| {
        vec![
            Problem::new(file, format!("byte {}", error.valid_up_to()), "this is no UTF-8 text")
                .help("MSCCL XML"),
        ]
    })?;
    let document = Document::parse(text).map_err(|error| {
        let place = format!("line {}", error.pos().row);
        vec![Problem::new(file, place, format!("this is no XML: {error}")).help("MSCCL XML")]
    })?;
    let mut parser = Parser { file, document: &document, problems: Vec::new() };
    let algorithm = parser.algorithm();
    match (algorithm, parser.problems.is_empty()) {
        (Some(algorithm), true) => Ok(algorithm),
        _ => Err(parser.problems),
    }
}

struct Parser<'x> {
    file: &'x str,
    document: &'x Document<'x>,
    problems: Vec<Problem>,
}

type Element<'x> = roxmltree::Node<'x, 'x>;

impl<'x> Parser<'x> {
    fn problem(&mut self, at: Element, message: String, help: &str) {
        let line = self.document.text_pos_at(at.range().start).row;
        let place = format!("line {line} <{}>", at.tag_name().name());
        self.problems.push(Problem::new(self.file, place, message).help(help));
    }

    /// A number from `low` up to 2^31 - 1.
    fn number(&mut self, at: Element, name: &str, low: i64) -> Option<i64> {
        let help = format!("an integer of {low} or more");
        match at.attribute(name) {
            None => self.problem(at, format!("attribute {name} is missing"), &help),
            Some(text) => match text.trim().parse::<i64>() {
                Ok(number) if (low..=i64::from(i32::MAX)).contains(&number) => return Some(number),
                _ => self.problem(at, format!("attribute {name} is \"{text}\""), &help),
            },
        }
        None
    }

    fn count(&mut self, at: Element, name: &str) -> Option<u32> {
        self.number(at, name, 0).map(|n| n as u32)
    }

    /// The children of one name, sorted by their number, which must be 0, 1, 2, ...
    fn numbered(&mut self, parent: Element<'x>, tag: &str, id: &str) -> Vec<Element<'x>> {
        let mut found = Vec::new();
        for child in parent.children().filter(|child| child.is_element()) {
            if child.tag_name().name() != tag {
                self.problem(
                    child,
                    format!("it stands inside <{}>", parent.tag_name().name()),
                    &format!("<{tag}>"),
                );
            } else if let Some(number) = self.count(child, id) {
                found.push((number, child));
            }
        }
        found.sort_by_key(|&(number, _)| number);
        for (expected, &(number, child)) in (0u32..).zip(&found) {
            if number != expected {
                let message = format!("{id} {number} stands where {expected} should");
                self.problem(child, message, "every number from 0 once");
                break;
            }
        }
        found.into_iter().map(|(_, child)| child).collect()
    }

    fn algorithm(&mut self) -> Option<Algorithm> {
        let root = self.document.root_element();
        if root.tag_name().name() != "algo" {
            self.problem(
                root,
                "this is no MSCCL algorithm".to_string(),
                "<algo> as the outermost element",
            );
            return None;
        }
        let chunks = self.number(root, "nchunksperloop", 1);
        let gpus = self.numbered(root, "gpu", "id");
        let count = self.number(root, "ngpus", 1);
        if count.is_some_and(|count| count != gpus.len() as i64) {
            let message =
                format!("ngpus is {} and there are {} <gpu>", count.unwrap_or(0), gpus.len());
            self.problem(root, message, "as many as there are");
        }
        let in_place = root.attribute("inplace") == Some("1");
        let (mut ranks, mut buffers) = (Vec::new(), Vec::new());
        for (rank, gpu) in (0u32..).zip(&gpus) {
            let sizes = ["i_chunks", "o_chunks", "s_chunks"].map(|name| self.count(*gpu, name));
            let blocks = self.numbered(*gpu, "tb", "id");
            buffers.push(sizes.map(|size| size.unwrap_or(0)));
            let at = Place { rank, ranks: gpus.len() as u32, room: room(sizes, in_place) };
            ranks.push(blocks.iter().map(|tb| self.threadblock(*tb, &at)).collect::<Vec<_>>());
            self.waits(&blocks, &ranks[rank as usize]);
        }
        let kind = collective(root.attribute("coll").unwrap_or(""));
        let name = root.attribute("name").unwrap_or("").to_string();
        Some(Algorithm { name, kind, chunks: chunks? as u32, buffers, ranks })
    }

    fn threadblock(&mut self, tb: Element<'x>, place: &Place) -> Threadblock {
        let &Place { rank, ranks, room } = place;
        let mut peer = |name: &str| {
            let peer = u32::try_from(self.number(tb, name, -1)?).ok()?;
            if peer >= ranks || peer == rank {
                let message = format!("attribute {name} of rank {rank} is {peer}");
                self.problem(
                    tb,
                    message,
                    &format!("another rank of 0 to {}, or -1 for none", ranks.saturating_sub(1)),
                );
            }
            Some(peer)
        };
        let (send, recv) = (peer("send"), peer("recv"));
        let channel = self.count(tb, "chan").unwrap_or(0);
        let steps = self.numbered(tb, "step", "s");
        let steps = steps.into_iter().filter_map(|at| {
            let step = self.step(at, send, recv)?;
            self.bounds(at, &step, room);
            Some(step)
        });
        let steps = steps.collect();
        Threadblock { send, recv, channel, steps }
    }

    fn step(&mut self, at: Element, send: Option<u32>, recv: Option<u32>) -> Option<Step> {
        let text = at.attribute("type").unwrap_or("");
        let Some(kind) = step_kind(text) else {
            let help = "s, r, rcs, rrs, rrc, rrcs, cpy, re or nop";
            self.problem(at, format!("step type \"{text}\" is unknown"), help);
            return None;
        };
        for (needed, peer, name) in [(kind.sends(), send, "send"), (kind.receives(), recv, "recv")]
        {
            if needed && peer.is_none() {
                self.problem(
                    at,
                    format!("step type {text} in a <tb> whose {name} is -1"),
                    "a rank",
                );
            }
        }
        let wait = self.number(at, "depid", -1).zip(self.number(at, "deps", -1));
        let (source, target) = (self.place(at, "src"), self.place(at, "dst"));
        Some(Step {
            kind,
            source,
            target,
            count: self.count(at, "cnt").unwrap_or(0),
            wait: wait
                .filter(|&(block, _)| block >= 0)
                .map(|(block, step)| (block as u32, step.max(0) as u32)),
        })
    }

    /// Chunks that a step touches must be there.
    fn bounds(&mut self, at: Element<'x>, step: &Step, room: Option<[u32; 3]>) {
        let Some(room) = room else { return };
        let sides =
            [("src", step.kind.reads(), step.source), ("dst", step.kind.writes(), step.target)];
        for (side, _, (buffer, offset)) in sides.into_iter().filter(|&(_, touched, _)| touched) {
            let size = room[buffer as usize];
            if u64::from(offset) + u64::from(step.count) > u64::from(size) {
                let last = u64::from(offset) + u64::from(step.count);
                let name = ["input", "output", "scratch"][buffer as usize];
                let message = format!(
                    "{side}off {offset} and cnt {} reach chunk {last} of the {name} buffer",
                    step.count
                );
                self.problem(
                    at,
                    message,
                    &format!("up to its {size} chunks (i_chunks, o_chunks, s_chunks of the <gpu>)"),
                );
            }
        }
    }

    fn place(&mut self, at: Element, side: &str) -> (Buffer, u32) {
        let name = format!("{side}buf");
        let buffer = match at.attribute(name.as_str()) {
            Some("i") => Buffer::Input,
            Some("o") => Buffer::Output,
            Some("s") => Buffer::Scratch,
            other => {
                self.problem(
                    at,
                    format!("attribute {name} is \"{}\"", other.unwrap_or("")),
                    "i, o or s",
                );
                Buffer::Input
            }
        };
        // A nop's offsets are -1: it touches no chunk.
        let offset = self.number(at, &format!("{side}off"), -1).unwrap_or(0).max(0);
        (buffer, offset as u32)
    }

    /// Every step waited for must be there.
    fn waits(&mut self, elements: &[Element<'x>], blocks: &[Threadblock]) {
        for (element, block) in elements.iter().zip(blocks) {
            for (s, step) in block.steps.iter().enumerate() {
                let Some((other, at)) = step.wait else { continue };
                if blocks.get(other as usize).is_none_or(|b| at as usize >= b.steps.len()) {
                    let message = format!(
                        "step {s} waits for step {at} of threadblock {other}, which is not there"
                    );
                    self.problem(*element, message, "a threadblock and a step of the same <gpu>");
                }
            }
        }
    }
}

/// The rank whose threadblocks are read, of how many, and the chunks of its buffers where they are
/// known.
struct Place {
    rank: u32,
    ranks: u32,
    room: Option<[u32; 3]>,
}

/// Chunks of input, output and scratch; in place the first two are one buffer.
fn room(sizes: [Option<u32>; 3], in_place: bool) -> Option<[u32; 3]> {
    let [input, output, scratch] = sizes;
    let (input, output, scratch) = (input?, output?, scratch?);
    let both = input.max(output);
    Some(if in_place { [both, both, scratch] } else { [input, output, scratch] })
}

fn collective(name: &str) -> Option<CollectiveKind> {
    Some(match name {
        "allreduce" => CollectiveKind::AllReduce,
        "allgather" => CollectiveKind::AllGather,
        "reducescatter" | "reduce_scatter" => CollectiveKind::ReduceScatter,
        "alltoall" => CollectiveKind::AllToAll,
        "broadcast" => CollectiveKind::Broadcast,
        "reduce" => CollectiveKind::Reduce,
        "gather" => CollectiveKind::Gather,
        "scatter" => CollectiveKind::Scatter,
        _ => return None,
    })
}

fn step_kind(name: &str) -> Option<StepKind> {
    Some(match name {
        "s" => StepKind::Send,
        "r" => StepKind::Recv,
        "rcs" => StepKind::RecvCopySend,
        "rrs" => StepKind::RecvReduceSend,
        "rrc" => StepKind::RecvReduceCopy,
        "rrcs" => StepKind::RecvReduceCopySend,
        "cpy" => StepKind::Copy,
        "re" => StepKind::Reduce,
        "nop" => StepKind::Nop,
        _ => return None,
    })
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
    fn reads(self) -> bool {
        use StepKind::*;
        matches!(self, Send | RecvReduceSend | RecvReduceCopy | RecvReduceCopySend | Copy | Reduce)
    }

    /// True when the step writes chunks of its target buffer.
    fn writes(self) -> bool {
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
        // Ids are dense: three for each step, of which the last that exists stands for the step.
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
        let offset = |peer: u32| (i64::from(peer) - i64::from(rank)) as i32;
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

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{RankBinding, Workload, check};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A ring all-reduce as msccl-tools writes it: reduce-scatter with rrc, all-gather with r.
    fn ring(n: u32) -> String {
        let mut xml = format!(
            r#"<algo name="ring" proto="Simple" nchannels="1" nchunksperloop="{n}" ngpus="{n}" coll="allreduce" inplace="1">"#
        );
        for rank in 0..n {
            let (next, previous) = ((rank + 1) % n, (rank + n - 1) % n);
            xml += &format!(r#"<gpu id="{rank}" i_chunks="{n}" o_chunks="0" s_chunks="0">"#);
            xml += &format!(r#"<tb id="0" send="{next}" recv="{previous}" chan="0">"#);
            for round in 0..2 * (n - 1) {
                let chunk = (rank + 2 * n - round) % n;
                let before = (chunk + n - 1) % n;
                let kind = if round < n - 1 { "rrc" } else { "r" };
                for (s, kind, at) in [(2 * round, "s", chunk), (2 * round + 1, kind, before)] {
                    xml += &format!(
                        r#"<step s="{s}" type="{kind}" srcbuf="i" srcoff="{at}" dstbuf="i" dstoff="{at}" cnt="1" depid="-1" deps="-1" hasdep="0"/>"#
                    );
                }
            }
            xml += "</tb></gpu>";
        }
        xml + "</algo>"
    }

    fn workload(programs: Vec<Program>) -> Workload {
        let ranks =
            (0..programs.len() as u32).map(|program| RankBinding { program, slots: 0 }).collect();
        Workload {
            programs: programs.into_iter().map(Arc::new).collect(),
            ranks,
            ..Workload::default()
        }
    }

    proptest! {
        /// Every rank of a ring all-reduce sends 2(n-1)/n of the buffer, and every message has its
        /// receive.
        #[test]
        fn a_ring_sends_what_the_bound_says(n in 2u32..9, chunk in 1u64..10_000) {
            let algorithm = parse(ring(n).as_bytes(), "ring.xml").unwrap();
            prop_assert_eq!(algorithm.kind, Some(CollectiveKind::AllReduce));
            let programs = algorithm.programs(Bytes(chunk * u64::from(n)));
            for program in &programs {
                let sent: u64 = program.nodes().iter().map(|node| match node.op {
                    Op::Send { bytes, .. } => bytes.0,
                    _ => 0,
                }).sum();
                prop_assert_eq!(sent, 2 * u64::from(n - 1) * chunk);
            }
            prop_assert_eq!(check(&workload(programs), n), vec![]);
        }

        #[test]
        fn broken_xml_never_panics(at in any::<prop::sample::Index>(), byte: u8, noise: Vec<u8>) {
            let mut xml = ring(3).into_bytes();
            let at = at.index(xml.len());
            xml[at] = byte;
            if let Ok(algorithm) = parse(&xml, "x") {
                algorithm.programs(Bytes(u64::MAX));
            }
            let _ = parse(&noise, "x");
        }
    }

    #[test]
    fn waits_and_fused_steps_become_dependencies() {
        let xml = r#"<algo name="x" nchunksperloop="4" ngpus="2" coll="custom">
            <gpu id="0" i_chunks="4" o_chunks="4" s_chunks="0">
              <tb id="0" send="1" recv="1" chan="3">
                <step s="0" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="1" deps="0" hasdep="0"/>
              </tb>
              <tb id="1" send="-1" recv="-1" chan="0">
                <step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
              </tb>
            </gpu>
            <gpu id="1" i_chunks="4" o_chunks="4" s_chunks="0"/></algo>"#;
        let algorithm = parse(xml.as_bytes(), "x.xml").unwrap();
        assert_eq!(algorithm.kind, None);
        let program = &algorithm.programs(Bytes(1001))[0];
        let ops: Vec<Op> = program.nodes().iter().map(|node| node.op).collect();
        // 2 of 4 chunks of 1001 bytes are 500.5, and 1 is 250.25.
        assert_eq!(ops[0], Op::Recv { peer: 1, bytes: Bytes(501), tag: 3 });
        assert_eq!(
            ops[1],
            Op::Compute {
                operations: None,
                bytes: Some(Bytes(1503)),
                cpu: false,
                kernel: Kernel::Other
            }
        );
        assert_eq!(ops[2], Op::Send { peer: 1, bytes: Bytes(501), tag: 3 });
        assert_eq!(
            ops[3],
            Op::Compute {
                operations: None,
                bytes: Some(Bytes(502)),
                cpu: false,
                kernel: Kernel::Other
            }
        );
        assert_eq!(
            (program.deps(0), program.deps(1), program.deps(2)),
            (&[3][..], &[0][..], &[1][..])
        );
    }

    #[test]
    fn faults_name_line_element_value_and_what_is_allowed() {
        let fault = |from: &str, to: &str| {
            let problems = parse(ring(3).replacen(from, to, 1).as_bytes(), "r.xml").unwrap_err();
            problems.iter().map(|p| p.to_string()).collect::<Vec<_>>().join("\n")
        };
        assert!(
            fault("type=\"rrc\"", "type=\"zap\"")
                .contains("r.xml: line 1 <step>: step type \"zap\" is unknown")
        );
        assert!(fault("ngpus=\"3\"", "ngpus=\"4\"").contains("ngpus is 4 and there are 3 <gpu>"));
        assert!(fault("send=\"1\"", "send=\"9\"").contains("send of rank 0 is 9"));
        assert!(fault("send=\"1\"", "send=\"0\"").contains("another rank of 0 to 2"));
        assert!(fault("recv=\"2\"", "recv=\"-1\"").contains("in a <tb> whose recv is -1"));
        assert!(
            fault("depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"99\"")
                .contains("waits for step 99")
        );
        assert!(fault("cnt=\"1\"", "cnt=\"-1\"").contains("attribute cnt is \"-1\""));
        let beyond = fault("cnt=\"1\"", "cnt=\"1000\"");
        assert!(
            beyond.contains("r.xml: line 1 <step>: ")
                && beyond.contains(" and cnt 1000 reach chunk 100"),
            "{beyond}"
        );
        assert!(beyond.contains("of the input buffer (allowed: up to its 3 chunks"), "{beyond}");
        assert!(fault("gpu id=\"1\"", "gpu id=\"0\"").contains("id 0 stands where 1 should"));
        assert!(fault("nchunksperloop=\"3\"", "nchunksperloop=\"0\"").contains("1 or more"));
        assert!(parse(b"<html/>", "x").unwrap_err()[0].message.contains("no MSCCL algorithm"));
        assert!(parse(b"\xff", "x").is_err());
    }

    /// The XML that ASTRA-sim's custom collective example was converted from travels inside its
    /// trace.
    #[test]
    fn the_published_ring_matches_its_conversion() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/traces/astra-sim+astra-sim/examples/system/custom_collectives")
            .join("custom_ring_allreduce_8npus_1MB");
        let Ok(bytes) = std::fs::read(directory.join("custom_allreduce.0.et")) else {
            println!("skipped: {} is absent", directory.display());
            return;
        };
        let start = bytes.windows(5).position(|w| w == b"<algo").unwrap();
        let end = bytes.windows(7).position(|w| w == b"</algo>").unwrap() + 7;
        let algorithm = parse(&bytes[start..end], "ring.xml").unwrap();
        let ours = algorithm.programs(Bytes(1 << 20));
        let theirs = crate::custom::read(&directory, Some(8), &Default::default()).unwrap();
        let traffic = |program: &Program| {
            let messages = program.nodes().iter().filter_map(|node| match node.op {
                Op::Send { peer, bytes, .. } => Some((true, peer, bytes)),
                Op::Recv { peer, bytes, .. } => Some((false, peer, bytes)),
                _ => None,
            });
            let mut messages: Vec<_> = messages.collect();
            messages.sort_by_key(|m| (m.0, m.1, m.2.0));
            messages
        };
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(traffic(ours), traffic(theirs));
        }
        assert_eq!(check(&workload(ours), 8), []);
    }
}
