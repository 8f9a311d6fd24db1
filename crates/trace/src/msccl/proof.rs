//! Result of an MSCCL algorithm, on sets instead of numbers.
//!
//! A value is the list of the contributions in it: (rank, chunk of its input). Sending and copying
//! repeat a list, reducing joins two. At the end the chunks of each rank's output are compared with
//! what the collective promises. Two layouts of buffers are tried, as a file may be meant for
//! either: output apart from input, and in place. The threadblocks run in two orders, because only
//! what a file says may order them. Not here: sizes and times (`algorithm.rs`), plans that are made
//! here (`collective`).

use super::algorithm::{Algorithm, Buffer, Step, StepKind};
use graph::CollectiveKind;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// Most contributions that are followed.
const MOST: u64 = 1 << 27;

/// Proof of an algorithm's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is what the collective promises.
    Holds,
    /// It is something else: rank and chunk.
    Fails(String),
    /// It is not known, and why.
    Unknown(String),
}

/// Contributions, in order: rank times [`Layout::inputs`] plus chunk.
type Value = Rc<Vec<u32>>;

/// Where the chunks of input and output of a rank are.
struct Layout {
    kind: CollectiveKind,
    ranks: u32,
    /// Chunks of a rank's input, and of its output.
    inputs: u32,
    outputs: u32,
    /// Both are parts of one buffer.
    in_place: bool,
    /// The smaller of input and output is a part of the larger, from where the rank's part begins;
    /// else both names mean the whole buffer.
    shifted: bool,
}

impl Algorithm {
    /// Whether all ranks end with what the collective of the file promises.
    pub fn proof(&self) -> Proof {
        let Some(kind) = self.kind else {
            return Proof::Unknown("its collective has no known meaning".to_string());
        };
        let layouts = self.layouts(kind);
        let Some(first) = layouts.first() else {
            let text = format!("the chunks of its ranks are not those of {}", kind.name());
            return Proof::Unknown(text);
        };
        let most = first.inputs.max(first.outputs);
        if u64::from(first.ranks).pow(2) * u64::from(most) > MOST {
            return Proof::Unknown("it has too many ranks and chunks".to_string());
        }
        let found: Vec<[Result<(), String>; 2]> = layouts
            .iter()
            .map(|layout| [false, true].map(|last| Run::new(self, layout).result(last)))
            .collect();
        if found.iter().any(|orders| orders.iter().all(Result::is_ok)) {
            return Proof::Holds;
        }
        if found.iter().any(|orders| orders.iter().any(Result::is_ok)) {
            let text = "its result depends on which threadblock runs first";
            return Proof::Unknown(text.to_string());
        }
        let fault = found.into_iter().flatten().find_map(Result::err);
        Proof::Fails(fault.unwrap_or_default())
    }

    /// The layouts that fit the sizes of the file.
    fn layouts(&self, kind: CollectiveKind) -> Vec<Layout> {
        use CollectiveKind::*;
        let ranks = self.ranks.len() as u32;
        let Some(&[input, output, _]) = self.buffers.first() else { return Vec::new() };
        if self.buffers.iter().any(|&[i, o, _]| (i, o) != (input, output)) {
            return Vec::new();
        }
        let layout = |inputs, outputs, in_place, shifted| Layout {
            kind,
            ranks,
            inputs,
            outputs,
            in_place,
            shifted,
        };
        let most = input.max(output);
        // Chunks of a rank in input and output, if the larger has all chunks.
        let sizes = match kind {
            AllReduce | AllToAll | Broadcast | Reduce => Some((most, most)),
            AllGather => most.is_multiple_of(ranks).then_some((most / ranks, most)),
            ReduceScatter => most.is_multiple_of(ranks).then_some((most, most / ranks)),
            Gather | Scatter | Barrier => None,
        };
        let Some((inputs, outputs)) = sizes else { return Vec::new() };
        let apart = (input, output) == (inputs, outputs);
        let whole = kind != AllToAll || most.is_multiple_of(ranks);
        let mut all: Vec<Layout> = Vec::new();
        if most > 0 && whole {
            all.extend(apart.then(|| layout(inputs, outputs, false, false)));
            all.push(layout(inputs, outputs, true, true));
            all.push(layout(inputs, outputs, true, false));
        }
        all
    }
}

impl Layout {
    /// The chunk of a rank's memory that a chunk of a buffer is: input, output, scratch in a row.
    fn place(&self, rank: u32, (buffer, chunk): (Buffer, u32)) -> u32 {
        let both = if self.in_place { self.whole() } else { self.inputs + self.outputs };
        match buffer {
            Buffer::Scratch => both + chunk,
            Buffer::Input if self.in_place => self.shift(rank, self.inputs) + chunk,
            Buffer::Output if self.in_place => self.shift(rank, self.outputs) + chunk,
            Buffer::Input => chunk,
            Buffer::Output => self.inputs + chunk,
        }
    }

    /// Chunks of the one buffer of an algorithm in place.
    fn whole(&self) -> u32 {
        self.inputs.max(self.outputs)
    }

    /// Where a name of the one buffer begins.
    fn shift(&self, rank: u32, part: u32) -> u32 {
        if self.shifted && part < self.whole() { rank * part } else { 0 }
    }

    /// Chunk `chunk` of the input or output of a rank.
    fn end(&self, rank: u32, buffer: Buffer, chunk: u32) -> u32 {
        let part = if buffer == Buffer::Input { self.inputs } else { self.outputs };
        if self.in_place {
            let begin = if part < self.whole() { rank * part } else { 0 };
            return begin + chunk;
        }
        self.place(rank, (buffer, chunk))
    }

    /// Required content of a chunk of a rank's output; `root` where only one rank has something to
    /// say.
    fn promise(&self, rank: u32, chunk: u32, root: u32) -> Option<Vec<u32>> {
        use CollectiveKind::*;
        let of = |rank: u32, chunk: u32| rank * self.inputs + chunk;
        let all = |chunk| (0..self.ranks).map(|rank| of(rank, chunk)).collect();
        let part = self.outputs / self.ranks;
        match self.kind {
            AllReduce => Some(all(chunk)),
            Reduce => (rank == root).then(|| all(chunk)),
            ReduceScatter => Some(all(rank * self.outputs + chunk)),
            AllGather => Some(vec![of(chunk / self.inputs, chunk % self.inputs)]),
            AllToAll => Some(vec![of(chunk / part, rank * part + chunk % part)]),
            Broadcast => Some(vec![of(root, chunk)]),
            Gather | Scatter | Barrier => None,
        }
    }

    fn says(&self, rank: u32, chunk: u32, found: &[u32], wanted: &[u32]) -> String {
        let name = |id: u32| format!("chunk {} of rank {}", id % self.inputs, id / self.inputs);
        let at = format!("rank {rank} ends with chunk {chunk} of its output");
        if let Some(&missing) = wanted.iter().find(|id| !found.contains(id)) {
            return format!("{at} without {}", name(missing));
        }
        if let Some(pair) = found.windows(2).find(|pair| pair[0] == pair[1]) {
            return format!("{at} with {} twice", name(pair[0]));
        }
        let more = found.iter().find(|id| !wanted.contains(id)).copied().unwrap_or(0);
        format!("{at} with {}, which does not belong there", name(more))
    }
}

/// An algorithm that runs.
struct Run<'a> {
    algorithm: &'a Algorithm,
    layout: &'a Layout,
    /// Memory of each rank.
    memory: Vec<Vec<Value>>,
    /// Steps done by each threadblock of each rank.
    done: Vec<Vec<usize>>,
    /// Chunks under way, by sender, receiver and channel.
    sent: FxHashMap<(u32, u32, u32), VecDeque<Vec<Value>>>,
}

impl<'a> Run<'a> {
    fn new(algorithm: &'a Algorithm, layout: &'a Layout) -> Run<'a> {
        let nothing = Value::default();
        let memory = |(rank, &[_, _, scratch]): (u32, &[u32; 3])| {
            let size = layout.place(rank, (Buffer::Scratch, scratch)) as usize;
            let mut chunks = vec![nothing.clone(); size];
            for chunk in 0..layout.inputs {
                let at = layout.end(rank, Buffer::Input, chunk) as usize;
                chunks[at] = Rc::new(vec![rank * layout.inputs + chunk]);
            }
            chunks
        };
        Run {
            algorithm,
            layout,
            memory: (0..).zip(&algorithm.buffers).map(memory).collect(),
            done: algorithm.ranks.iter().map(|blocks| vec![0; blocks.len()]).collect(),
            sent: FxHashMap::default(),
        }
    }

    /// Runs to the end, the last threadblocks first where `last`.
    fn result(mut self, last: bool) -> Result<(), String> {
        let mut order: Vec<(u32, usize)> = (0..)
            .zip(&self.algorithm.ranks)
            .flat_map(|(rank, blocks)| (0..blocks.len()).map(move |block| (rank, block)))
            .collect();
        if last {
            order.reverse();
        }
        loop {
            let mut moved = false;
            for &(rank, block) in &order {
                while self.step(rank, block)? {
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        self.require_end(&order)?;
        self.compare()
    }

    /// Carries out the next step of a threadblock, if it can.
    fn step(&mut self, rank: u32, block: usize) -> Result<bool, String> {
        use StepKind::*;
        let at = self.done[rank as usize][block];
        let threads = &self.algorithm.ranks[rank as usize][block];
        let Some(step) = threads.steps.get(at) else { return Ok(false) };
        let waits = step.wait.is_some_and(|(other, number)| {
            self.done[rank as usize][other as usize] <= number as usize
        });
        if waits {
            return Ok(false);
        }
        let mut value = if step.kind.receives() {
            let from = threads.recv.unwrap_or(rank);
            let Some(chunks) = self.take((from, rank, threads.channel)) else { return Ok(false) };
            chunks
        } else {
            self.read(rank, step.source, step)?
        };
        if value.len() != step.count as usize {
            let count = value.len();
            return Err(format!(
                "rank {rank} receives {count} chunks in a step of {}: threadblock {block} step {at}",
                step.count
            ));
        }
        if matches!(step.kind, RecvReduceSend | RecvReduceCopy | RecvReduceCopySend) {
            value = joined(&value, &self.read(rank, step.source, step)?);
        } else if step.kind == Reduce {
            value = joined(&value, &self.read(rank, step.target, step)?);
        }
        if step.kind.writes() {
            self.write(rank, step, &value)?;
        }
        if step.kind.sends() {
            let to = threads.send.unwrap_or(rank);
            self.sent.entry((rank, to, threads.channel)).or_default().push_back(value);
        }
        self.done[rank as usize][block] += 1;
        Ok(true)
    }

    fn take(&mut self, from: (u32, u32, u32)) -> Option<Vec<Value>> {
        self.sent.get_mut(&from)?.pop_front()
    }

    fn range(&self, rank: u32, at: (Buffer, u32), step: &Step) -> Result<(usize, usize), String> {
        let begin = self.layout.place(rank, at) as usize;
        let end = begin + step.count as usize;
        if end > self.memory[rank as usize].len() {
            return Err(format!(
                "rank {rank} has no chunk {} of that buffer",
                at.1 + step.count - 1
            ));
        }
        Ok((begin, end))
    }

    fn read(&self, rank: u32, at: (Buffer, u32), step: &Step) -> Result<Vec<Value>, String> {
        if step.kind == StepKind::Nop {
            return Ok(vec![Value::default(); step.count as usize]);
        }
        let (begin, end) = self.range(rank, at, step)?;
        Ok(self.memory[rank as usize][begin..end].to_vec())
    }

    fn write(&mut self, rank: u32, step: &Step, value: &[Value]) -> Result<(), String> {
        let (begin, end) = self.range(rank, step.target, step)?;
        self.memory[rank as usize][begin..end].clone_from_slice(value);
        Ok(())
    }

    fn require_end(&self, order: &[(u32, usize)]) -> Result<(), String> {
        let stuck = order.iter().find(|&&(rank, block)| {
            let steps = self.algorithm.ranks[rank as usize][block].steps.len();
            self.done[rank as usize][block] < steps
        });
        stuck.map_or(Ok(()), |&(rank, block)| {
            let step = self.done[rank as usize][block];
            Err(format!("rank {rank} waits for ever in step {step} of threadblock {block}"))
        })
    }

    /// Compares all outputs with what is promised, for any root where there is one.
    fn compare(&self) -> Result<(), String> {
        use CollectiveKind::{Broadcast, Reduce};
        let roots =
            if matches!(self.layout.kind, Broadcast | Reduce) { self.layout.ranks } else { 1 };
        let mut first = None;
        for root in 0..roots {
            match self.compare_with(root) {
                Ok(()) => return Ok(()),
                Err(text) => first.get_or_insert(text),
            };
        }
        Err(first.unwrap_or_default())
    }

    fn compare_with(&self, root: u32) -> Result<(), String> {
        for rank in 0..self.layout.ranks {
            for chunk in 0..self.layout.outputs {
                let Some(wanted) = self.layout.promise(rank, chunk, root) else { continue };
                let at = self.layout.end(rank, Buffer::Output, chunk) as usize;
                let found = &*self.memory[rank as usize][at];
                if *found != wanted {
                    return Err(self.layout.says(rank, chunk, found, &wanted));
                }
            }
        }
        Ok(())
    }
}

/// The contributions of both, chunk by chunk.
fn joined(one: &[Value], other: &[Value]) -> Vec<Value> {
    let join = |(one, other): (&Value, &Value)| {
        let mut all: Vec<u32> = one.iter().chain(other.iter()).copied().collect();
        all.sort_unstable();
        Rc::new(all)
    };
    one.iter().zip(other).map(join).collect()
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
