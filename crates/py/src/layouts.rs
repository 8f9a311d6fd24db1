//! `_core.LayoutSpace`: many layouts of one model.

use crate::signals::minded;
use executor::Progress;
use layouts::{
    Answer, Block, Data, Found, Gradients, Group, Held, Kind, Limits, Op, Pass, Pipeline, Place,
    STARTED, Schedule, Sizes, Space, Split, Stage, Unit, Work, order,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Kind, micro-batch, chunk, whether it runs side by side with the pass after it.
type Passed = (&'static str, u32, u32, bool);

/// Group, choice of data parallelism with the division, bound, estimate, bytes, fullest stage,
/// answer.
type Row = (u32, (u32, u32), u64, u64, u64, u32, &'static str);

/// Layouts that fit, may fit and do not fit, the least bytes of any, the best one.
type Cell = ((u64, u64, u64), u64, Option<Row>);

fn schedule(name: &str) -> PyResult<Schedule> {
    Schedule::named(name).ok_or_else(|| PyValueError::new_err(format!("no schedule {name:?}")))
}

/// The passes of a stage in order.
#[pyfunction]
pub fn passes(
    name: &str,
    stage: u32,
    stages: u32,
    micro_batches: u32,
    chunks: u32,
    overlap: bool,
) -> PyResult<Vec<Passed>> {
    let found = order(schedule(name)?, stage, stages, micro_batches, chunks, overlap);
    let row = |each: Pass| {
        let kind = match each.kind {
            Kind::Forward => "F",
            Kind::Backward => "B",
            Kind::Weights => "W",
        };
        (kind, each.micro_batch, each.chunk, each.overlaps)
    };
    Ok(found.into_iter().map(row).collect())
}

#[pyclass]
pub struct LayoutSpace {
    space: Arc<Space>,
    /// The layouts that were evaluated, the fastest first.
    found: Vec<Found>,
}

impl LayoutSpace {
    fn open(&mut self) -> &mut Space {
        Arc::get_mut(&mut self.space).expect("evaluated by one call at a time")
    }
}

fn added<T>(list: &mut Vec<T>, each: T) -> u32 {
    list.push(each);
    list.len() as u32 - 1
}

/// Six works (time and kernels each), sums of the first and of later micro-batches, the indices of
/// six scripts; sizes.
type UnitRow = ([u64; 20], SizesRow);

/// `armillary.workload.memory.Sizes`.
type SizesRow = [u64; 11];

/// `armillary.workload.memory.Rules`.
type RulesRow = (u64, u64, bool, u64, u64, u64, u64, char);

/// `armillary.workload.memory.Shares`.
type SharesRow = (u8, bool, u64, u64, u64, u8, bool, bool, Option<u64>);

fn unit((row, sizes): UnitRow) -> PyResult<Unit> {
    let work = |at: usize| Work { time: row[at], kernels: row[at + 1] };
    Ok(Unit {
        forward: work(0),
        narrow: work(2),
        again: work(4),
        backward: work(6),
        inputs: work(8),
        weights: work(10),
        first: row[12],
        more: row[13],
        scripts: std::array::from_fn(|i| row[14 + i] as u32),
        sizes: sizes_of(sizes)?,
    })
}

fn sizes_of(row: SizesRow) -> PyResult<Sizes> {
    let [
        dense,
        expert,
        frozen,
        frozen_expert,
        kept,
        placeholders,
        tensor,
        narrow,
        back,
        spared,
        at,
    ] = row;
    let place = match at {
        0 => Place::Embedding,
        1 => Place::Layer,
        2 => Place::Head,
        _ => return Err(PyValueError::new_err(format!("no place {at}"))),
    };
    let frozen = [frozen, frozen_expert];
    Ok(Sizes { dense, expert, frozen, kept, placeholders, tensor, narrow, back, spared, place })
}

/// A block by the rules of its memory, without units.
fn block_of(row: RulesRow) -> PyResult<Block> {
    let (whole, dropped, counts_layers, loss, metric_logits, weight_bytes, optimizer_bytes, how) =
        row;
    let gradients = match how {
        'f' => Gradients::Fused,
        'e' => Gradients::Eager,
        'c' => Gradients::Counted,
        _ => return Err(PyValueError::new_err(format!("no gradients {how:?}"))),
    };
    Ok(Block {
        units: Vec::new(),
        whole,
        dropped,
        counts_layers,
        loss,
        metric_logits,
        weight_bytes,
        optimizer_bytes,
        gradients,
    })
}

/// Data parallelism by what it shares out, without times.
fn data_of(row: SharesRow) -> Data {
    let (
        zero,
        experts_apart,
        dense_ranks,
        expert_ranks,
        gradient_bytes,
        stays,
        in_place,
        copied,
        owned,
    ) = row;
    Data {
        zero,
        experts_apart,
        dense_ranks,
        expert_ranks,
        gradient_bytes,
        stays,
        in_place,
        copied,
        owned,
        ..Data::default()
    }
}

fn held_row(held: Held) -> [u64; 5] {
    [held.weights, held.gradients, held.optimizer, held.activations, held.temporary]
}

/// Peak bytes on a rank of a stage: weights, gradients, optimizer state, activations, temporary;
/// and the first three of what lies outside of the NPU.
#[pyfunction]
pub fn memory(
    chunks: Vec<Vec<SizesRow>>,
    passes: Vec<(char, u32, u32, bool)>,
    rules: RulesRow,
    shares: SharesRow,
) -> PyResult<([u64; 5], [u64; 3])> {
    let units = |chunk: Vec<SizesRow>| chunk.into_iter().map(sizes_of).collect();
    let chunks = chunks.into_iter().map(units).collect::<PyResult<Vec<Vec<Sizes>>>>()?;
    let pass = |(kind, micro_batch, chunk, overlaps)| {
        let kind = match kind {
            'F' => Kind::Forward,
            'B' => Kind::Backward,
            'W' => Kind::Weights,
            _ => return Err(PyValueError::new_err(format!("no pass {kind:?}"))),
        };
        if chunk as usize >= chunks.len() {
            return Err(PyValueError::new_err(format!("no chunk {chunk}")));
        }
        Ok(Pass { kind, micro_batch, chunk, overlaps })
    };
    let passes = passes.into_iter().map(pass).collect::<PyResult<Vec<Pass>>>()?;
    let (block, data) = (block_of(rules)?, data_of(shares));
    let stage = Stage::new(&chunks, &passes, &block);
    Ok((held_row(stage.held(&block, &data)), stage.away(&block, &data)))
}

fn row(each: &Found) -> Row {
    let answer = match each.answer {
        Answer::Yes => "yes",
        Answer::Near => "near",
        Answer::No => "no",
    };
    let choice = (each.data, each.split);
    (each.group, choice, each.bound, each.estimate, each.bytes, each.stage, answer)
}

#[pymethods]
impl LayoutSpace {
    #[new]
    fn new(slowdown: f64) -> LayoutSpace {
        let space = Space { slowdown, ..Space::default() };
        LayoutSpace { space: Arc::new(space), found: Vec::new() }
    }

    fn pipeline(
        &mut self,
        name: &str,
        stages: u32,
        micro_batches: u32,
        chunks: u32,
        overlap: bool,
    ) -> PyResult<u32> {
        let made = Pipeline::new(schedule(name)?, stages, micro_batches, chunks, overlap);
        let made = made.ok_or_else(|| PyValueError::new_err("passes wait for each other"))?;
        Ok(added(&mut self.open().pipelines, made))
    }

    fn split(&mut self, parts: Vec<Vec<u8>>, sharing: Vec<u32>) -> u32 {
        added(&mut self.open().splits, Split { parts, sharing })
    }

    fn block(&mut self, units: Vec<UnitRow>, rules: RulesRow) -> PyResult<u32> {
        let units = units.into_iter().map(unit).collect::<PyResult<Vec<Unit>>>()?;
        let block = Block { units, ..block_of(rules)? };
        Ok(added(&mut self.open().blocks, block))
    }

    #[pyo3(signature = (shares, *, overlaps_reduction, overlaps_gathering, reduce, pieces, gather,
        replicas, reduce_all, gather_all, shared, optimizer, optimizer_each, dims))]
    #[allow(clippy::too_many_arguments)] // one for each field
    fn data(
        &mut self,
        shares: SharesRow,
        overlaps_reduction: bool,
        overlaps_gathering: bool,
        reduce: Vec<[u64; 2]>,
        pieces: Vec<[u32; 2]>,
        gather: Vec<[u64; 2]>,
        replicas: Vec<[u64; 2]>,
        reduce_all: Vec<[u64; 2]>,
        gather_all: Vec<[u64; 2]>,
        shared: u64,
        optimizer: f64,
        optimizer_each: f64,
        dims: [u8; 3],
    ) -> u32 {
        let data = Data {
            overlaps_reduction,
            overlaps_gathering,
            reduce,
            pieces,
            gather,
            replicas,
            reduce_all,
            gather_all,
            shared,
            optimizer,
            optimizer_each,
            dims,
            ..data_of(shares)
        };
        added(&mut self.open().data, data)
    }

    /// Operations as (kind, time, dimensions, number): kernels, calls, starts, waits.
    fn script(&mut self, ops: Vec<(char, u64, u8, u8)>) -> PyResult<u32> {
        let op = |(kind, time, dims, slot): (char, u64, u8, u8)| match kind {
            'k' => Ok(Op::Kernel(time)),
            'c' => Ok(Op::Call(time, dims)),
            's' if usize::from(slot) < STARTED => Ok(Op::Start(time, dims, slot)),
            'w' if usize::from(slot) < STARTED => Ok(Op::Wait(slot)),
            _ => Err(PyValueError::new_err(format!("no operation {kind:?} with number {slot}"))),
        };
        let ops = ops.into_iter().map(op).collect::<PyResult<Vec<Op>>>()?;
        Ok(added(&mut self.open().scripts, ops))
    }

    fn messages(&mut self, times: Vec<u64>) -> u32 {
        added(&mut self.open().messages, times)
    }

    fn group(
        &mut self,
        pipeline: u32,
        splits: (u32, u32),
        block: u32,
        messages: u32,
        data: (u32, u32),
    ) -> u32 {
        added(&mut self.open().groups, Group { pipeline, splits, block, messages, data })
    }

    #[getter]
    fn layouts(&self) -> u64 {
        self.space.layouts()
    }

    /// Finds the `count` fastest layouts that fit, and all whose bounds are at most the estimates of
    /// these or `least`. The numbers of layouts that fit, may fit and do not fit, and the floor that
    /// the bounds of all other layouts that fit are above.
    fn search(
        &mut self,
        py: Python<'_>,
        limits: (u64, u64),
        near: bool,
        wanted: (usize, u64),
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, u64, u64)> {
        let limits = Limits { surely: limits.0, perhaps: limits.1 };
        let space = self.space.clone();
        let (found, tally, floor) = minded(py, progress, move |desk| {
            let mut goes_on = |at: usize, of: usize| {
                let progress = Progress { time_ns: 0.0, done: at as u64, total: of as u64 };
                !at.is_multiple_of(64) || desk.goes_on(progress)
            };
            space.search(limits, near, wanted, &mut goes_on)
        })?;
        self.found = found;
        Ok((tally.yes, tally.near, tally.no, floor))
    }

    /// Layouts that were kept, the fastest first.
    fn fastest(&self, first: usize, count: usize) -> Vec<Row> {
        self.found.iter().skip(first).take(count).map(row).collect()
    }

    /// The fastest layouts that do not fit, as far as they are faster than `below`.
    fn refused(
        &self,
        py: Python<'_>,
        limits: (u64, u64),
        near: bool,
        below: u64,
        count: usize,
    ) -> PyResult<Vec<Row>> {
        let limits = Limits { surely: limits.0, perhaps: limits.1 };
        let space = self.space.clone();
        let found = minded(py, None, move |_| space.refused(limits, near, below, count))?;
        Ok(found.iter().map(row).collect())
    }

    /// The cells of a picture, and the front of time and memory.
    fn picture(
        &self,
        py: Python<'_>,
        limits: (u64, u64),
        near: bool,
        cell_of: Vec<u32>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Vec<Cell>, Vec<Row>)> {
        let limits = Limits { surely: limits.0, perhaps: limits.1 };
        let space = self.space.clone();
        if cell_of.len() != space.groups.len() {
            return Err(PyValueError::new_err("a cell for each group"));
        }
        let (cells, front) = minded(py, progress, move |desk| {
            let mut goes_on = |at: usize, of: usize| {
                let progress = Progress { time_ns: 0.0, done: at as u64, total: of as u64 };
                !at.is_multiple_of(64) || desk.goes_on(progress)
            };
            space.picture(limits, near, &cell_of, &mut goes_on)
        })?;
        let cell = |each: &layouts::Cell| {
            let tally = (each.tally.yes, each.tally.near, each.tally.no);
            (tally, each.least_bytes, each.best.as_ref().map(row))
        };
        Ok((cells.iter().map(cell).collect(), front.iter().map(row).collect()))
    }

    /// The least memory that the fullest rank of any layout needs.
    fn least_bytes(&self) -> u64 {
        self.space.least_bytes()
    }

    /// Number of the layouts that were kept.
    #[getter]
    fn kept(&self) -> usize {
        self.found.len()
    }

    /// Weights, gradients, optimizer state, activations and temporary bytes on a rank of each stage.
    fn held(&self, group: usize, choice: (usize, u32)) -> Vec<[u64; 5]> {
        let (data, split) = choice;
        self.space.held(group, data, split).into_iter().map(held_row).collect()
    }

    /// The choice with the first division of a group that fits `most` bytes, or else the last, and
    /// its bytes.
    fn first_that_fits(&self, group: usize, data: u32, most: u64) -> ((u32, u32), u64) {
        let (split, bytes) = self.space.first_that_fits(group, data, most);
        ((data, split), bytes)
    }
}
