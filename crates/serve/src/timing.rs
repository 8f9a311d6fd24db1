//! How long a step of an engine takes, from tables of its parts.
//!
//! A table is sampled by whoever knows kernels, collectives and hosts (`python/armillary/serve`).
//! Here it is read between its samples. Times in tables are seconds, results are ps.

use crate::scheduler::Batch;

/// Picoseconds of a second.
const SECOND: f64 = 1e12;

/// A function of one number, straight between samples. Below the first sample it has its value,
/// above the last one it goes on straight.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    at: Vec<f64>,
    value: Vec<f64>,
}

impl Line {
    /// From samples, whose places ascend; `None` where they do not, or are none.
    pub fn new(at: Vec<f64>, value: Vec<f64>) -> Option<Line> {
        let ascends = at.windows(2).all(|pair| pair[0] < pair[1]);
        let finite = at.iter().chain(&value).all(|number| number.is_finite());
        (!at.is_empty() && at.len() == value.len() && ascends && finite)
            .then_some(Line { at, value })
    }

    /// Value at a place.
    pub fn value(&self, at: f64) -> f64 {
        let (from, part) = place(&self.at, at);
        if part == 0.0 {
            return self.value[from];
        }
        self.value[from] + part * (self.value[from + 1] - self.value[from])
    }
}

/// A function of two numbers, straight between samples in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    at: Vec<f64>,
    lines: Vec<Line>,
}

impl Grid {
    /// From samples, row by row.
    pub fn new(rows: Vec<f64>, columns: Vec<f64>, value: &[f64]) -> Option<Grid> {
        if columns.is_empty() || value.len() != rows.len() * columns.len() {
            return None;
        }
        Line::new(rows.clone(), rows.clone())?;
        let lines = value.chunks(columns.len()).map(|row| Line::new(columns.clone(), row.to_vec()));
        Some(Grid { at: rows, lines: lines.collect::<Option<_>>()? })
    }

    /// The line at a row.
    pub fn line(&self, at: f64) -> Line {
        let (from, part) = place(&self.at, at);
        if part == 0.0 {
            return self.lines[from].clone();
        }
        let (low, high) = (&self.lines[from], &self.lines[from + 1]);
        let mixed = low.value.iter().zip(&high.value).map(|(low, high)| low + part * (high - low));
        Line { at: low.at.clone(), value: mixed.collect() }
    }

    /// Value at a row and a column.
    pub fn value(&self, row: f64, column: f64) -> f64 {
        let (from, part) = place(&self.at, row);
        let low = self.lines[from].value(column);
        if part == 0.0 {
            return low;
        }
        low + part * (self.lines[from + 1].value(column) - low)
    }
}

/// The sample before a place, and the part of the way to the next one.
fn place(at: &[f64], wanted: f64) -> (usize, f64) {
    if at.len() == 1 || wanted <= at[0] {
        return (0, 0.0);
    }
    let from = at.partition_point(|&sample| sample <= wanted).clamp(1, at.len() - 1) - 1;
    (from, (wanted - at[from]) / (at[from + 1] - at[from]))
}

/// Time of a part of a step, by the quantity that it depends on.
#[derive(Clone, Debug, PartialEq)]
pub enum Table {
    /// Tokens of the rank that has most, padded to a graph's size.
    Rows(Line),
    /// Tokens of all ranks together, each padded as the largest.
    AllRows(Line),
    /// Tokens that are chosen: the next one of a request, and one for each draft.
    Sampled(Line),
    /// Requests in the step.
    Sequences(Line),
    /// Attention of single tokens: requests, and the mean of their contexts with the new token. A
    /// window limits each context; 0 without one.
    Decode(Grid, u32),
    /// Attention of a prompt from its start to a length; a chunk is the difference of two.
    Prefill(Line),
}

/// Where in a pipeline a part of a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On each stage.
    #[default]
    Stages,
    /// Once: on the first stage if it is work of the host, otherwise on the last one.
    Once,
    /// On the way from each stage to the next one.
    Between,
}

/// A part of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Name.
    pub name: String,
    /// Where it is in a pipeline.
    pub place: Place,
    /// The time.
    pub table: Table,
    /// Work of the host, not of GPUs.
    pub host: bool,
}

/// Times of the steps of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Parts of a step, which follow each other.
    pub terms: Vec<Term>,
    /// Sizes in tokens of steps that were captured as graphs, ascending.
    pub graphs: Vec<u32>,
    /// Steps with prompts run as graphs too.
    pub mixed_graphs: bool,
    /// Seconds that the host needs at least to launch the kernels of a step without a graph.
    pub eager: f64,
    /// The host works while the step before runs.
    pub overlapped: bool,
}

/// The work of a rank in a step, in the words of tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work {
    pub rows: u64,
    pub sampled: u32,
    pub sequences: u32,
    /// Requests with single tokens (and drafts), and the sum of their contexts.
    pub decodes: u32,
    pub context: u64,
    /// Their contexts, for windows.
    pub contexts: Vec<u32>,
    /// Chunks of prompts: tokens before them, tokens.
    pub chunks: Vec<(u32, u32)>,
}

impl Work {
    pub fn of(batch: &Batch) -> Work {
        let mut work = Work { sequences: batch.parts.len() as u32, ..Work::default() };
        for part in &batch.parts {
            work.rows += u64::from(part.tokens);
            work.sampled += if part.generates { 1 + part.drafts } else { 0 };
            if part.tokens == 1 + part.drafts && part.generates {
                work.decodes += 1;
                work.context += u64::from(part.context + part.tokens);
                work.contexts.push(part.context + part.tokens);
            } else {
                work.chunks.push((part.context, part.tokens));
            }
        }
        work
    }
}

impl Timing {
    /// Seconds of each term, and whether a graph ran.
    pub(crate) fn terms(&self, ranks: &[Work]) -> (Vec<f64>, bool) {
        let most = ranks.iter().map(|work| work.rows).max().unwrap_or(0);
        let prompts = ranks.iter().any(|work| !work.chunks.is_empty());
        let graph = if prompts && !self.mixed_graphs {
            None
        } else {
            self.graphs.iter().copied().find(|&size| u64::from(size) >= most)
        };
        let rows = graph.map_or(most, u64::from) as f64;
        let largest = |of: &dyn Fn(&Work) -> f64| ranks.iter().map(of).fold(0.0, f64::max);
        let time = |term: &Term| match &term.table {
            Table::Rows(line) => line.value(rows),
            Table::AllRows(line) => line.value(match graph {
                Some(_) => rows * ranks.len() as f64,
                None => ranks.iter().map(|work| work.rows).sum::<u64>() as f64,
            }),
            Table::Sampled(line) => largest(&|work| line.value(f64::from(work.sampled))),
            Table::Sequences(line) => largest(&|work| line.value(f64::from(work.sequences))),
            Table::Decode(grid, window) => largest(&|work| decode(grid, *window, work)),
            Table::Prefill(line) => largest(&|work| {
                let chunk = |&(before, tokens): &(u32, u32)| {
                    line.value(f64::from(before + tokens))
                        - if before == 0 { 0.0 } else { line.value(f64::from(before)) }
                };
                work.chunks.iter().map(chunk).sum()
            }),
        };
        (self.terms.iter().map(time).collect(), graph.is_some())
    }

    /// Picoseconds of a step whose terms take these times, on a pipeline of `stages` stages.
    pub(crate) fn total(&self, terms: &[f64], graph: bool, stages: usize) -> Pass {
        let sum = |places: &[Place], host: bool| {
            let chosen = self.terms.iter().zip(terms);
            let chosen =
                chosen.filter(|(term, _)| term.host == host && (places.contains(&term.place)));
            chosen.map(|(_, &time)| time).sum::<f64>()
        };
        let stage = |first: bool, last: bool| {
            let here =
                |end: bool| if end { &[Place::Stages, Place::Once][..] } else { &[Place::Stages] };
            let (device, host) = (sum(here(last), false), sum(here(first), true));
            let device = if graph { device } else { device.max(self.eager) };
            let seconds = if self.overlapped { device.max(host) } else { device + host };
            ((seconds * SECOND).round() as u64).max(1)
        };
        if stages == 1 {
            let alone = stage(true, true);
            return Pass { first: alone, middle: alone, last: alone, way: 0 };
        }
        let way = sum(&[Place::Between], false);
        Pass {
            first: stage(true, false),
            middle: stage(false, false),
            last: stage(false, true),
            way: (way * SECOND).round() as u64,
        }
    }
}

/// Picoseconds of a step on the stages of a pipeline, and between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub first: u64,
    pub middle: u64,
    pub last: u64,
    pub way: u64,
}

impl Pass {
    /// Time on one of `stages` stages.
    pub fn on(&self, stage: usize, stages: usize) -> u64 {
        match stage {
            0 => self.first,
            _ if stage + 1 == stages => self.last,
            _ => self.middle,
        }
    }

    /// Time on the slowest stage.
    pub fn slowest(&self, stages: usize) -> u64 {
        (0..stages).map(|stage| self.on(stage, stages)).max().unwrap_or(0)
    }

    /// Time between two steps of the same requests, if each stage always has a step.
    pub fn period(&self, stages: usize) -> u64 {
        let pass: u64 = (0..stages).map(|stage| self.on(stage, stages)).sum();
        (pass + (stages as u64 - 1) * self.way).max(self.slowest(stages) * stages as u64)
    }
}

fn decode(grid: &Grid, window: u32, work: &Work) -> f64 {
    if work.decodes == 0 {
        return 0.0;
    }
    let context = if window == 0 {
        work.context
    } else {
        work.contexts.iter().map(|&context| u64::from(context.min(window))).sum()
    };
    let requests = f64::from(work.decodes);
    grid.value(requests, context as f64 / requests)
}

/// Time of a step of the same requests that grow by a token each, again and again.
#[derive(Clone, Debug)]
pub(crate) struct Growing<'a> {
    timing: &'a Timing,
    stages: usize,
    terms: Vec<f64>,
    graph: bool,
    /// Terms that grow, with a line for each rank.
    lines: Vec<(usize, Vec<Option<Line>>)>,
    ranks: Vec<Contexts>,
    windows: Vec<u32>,
}

/// Contexts of a rank: how many requests there are, and the sum of their contexts; below each
/// window how many, and sums.
#[derive(Clone, Debug)]
struct Contexts {
    sorted: Vec<u32>,
    sum: u64,
    steps: u32,
    /// For each window: requests at or above it, and the sum of the contexts of the others at the
    /// start.
    above: Vec<(usize, u64)>,
}

impl<'a> Growing<'a> {
    /// The steps after one with this work.
    pub fn new(timing: &'a Timing, ranks: &[Work], stages: usize) -> Growing<'a> {
        let (terms, graph) = timing.terms(ranks);
        let mut windows = Vec::new();
        let mut lines = Vec::new();
        for (at, term) in timing.terms.iter().enumerate() {
            if let Table::Decode(grid, window) = &term.table {
                windows.push(*window);
                let line =
                    |work: &Work| (work.decodes > 0).then(|| grid.line(f64::from(work.decodes)));
                lines.push((at, ranks.iter().map(line).collect()));
            }
        }
        let contexts = |work: &Work| {
            let mut sorted = work.contexts.clone();
            sorted.sort_unstable_by(|one, other| other.cmp(one));
            Contexts {
                sum: work.context,
                steps: 0,
                above: windows.iter().map(|_| (0, work.context)).collect(),
                sorted,
            }
        };
        Growing {
            timing,
            stages,
            terms,
            graph,
            lines,
            ranks: ranks.iter().map(contexts).collect(),
            windows,
        }
    }

    /// One step on. Its picoseconds.
    pub fn step(&mut self) -> Pass {
        for rank in &mut self.ranks {
            rank.steps += 1;
            for (window, (above, rest)) in self.windows.iter().zip(&mut rank.above) {
                while *window > 0
                    && *above < rank.sorted.len()
                    && rank.sorted[*above] + rank.steps > *window
                {
                    *rest -= u64::from(rank.sorted[*above]);
                    *above += 1;
                }
            }
        }
        for (number, (at, lines)) in self.lines.iter().enumerate() {
            let window = self.windows[number];
            let value = |(rank, line): (&Contexts, &Option<Line>)| {
                let Some(line) = line else { return 0.0 };
                let count = rank.sorted.len();
                let (above, rest) = rank.above[number];
                let sum = if window == 0 {
                    rank.sum + count as u64 * u64::from(rank.steps)
                } else {
                    above as u64 * u64::from(window)
                        + rest
                        + (count - above) as u64 * u64::from(rank.steps)
                };
                line.value(sum as f64 / count as f64)
            };
            self.terms[*at] = self.ranks.iter().zip(lines).map(value).fold(0.0, f64::max);
        }
        self.timing.total(&self.terms, self.graph, self.stages)
    }

    /// Seconds of the terms of the last step.
    pub fn terms(&self) -> &[f64] {
        &self.terms
    }
}
