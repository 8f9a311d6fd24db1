//! From XML to an algorithm, with every fault and its line.

use super::algorithm::{Algorithm, Buffer, Step, StepKind, Threadblock};
use graph::{CollectiveKind, Problem};
use roxmltree::Document;

pub(super) struct Parser<'x> {
    pub(super) file: &'x str,
    pub(super) document: &'x Document<'x>,
    pub(super) problems: Vec<Problem>,
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
                _ => self.problem(at, format!("invalid attribute {name}: \"{text}\""), &help),
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
                let message = format!("expected {id} {expected}, found {number}");
                self.problem(child, message, "every number from 0 once");
                break;
            }
        }
        found.into_iter().map(|(_, child)| child).collect()
    }

    pub(super) fn algorithm(&mut self) -> Option<Algorithm> {
        let root = self.document.root_element();
        if root.tag_name().name() != "algo" {
            self.problem(
                root,
                "not an MSCCL algorithm".to_string(),
                "<algo> as the outermost element",
            );
            return None;
        }
        let chunks = self.number(root, "nchunksperloop", 1);
        let gpus = self.numbered(root, "gpu", "id");
        let count = self.number(root, "ngpus", 1);
        if count.is_some_and(|count| count != gpus.len() as i64) {
            let message =
                format!("ngpus is {}, but there are {} <gpu>", count.unwrap_or(0), gpus.len());
            self.problem(root, message, "the number of `gpu` elements");
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
                        "step {s} waits for step {at} of threadblock {other}, which does not exist"
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
