//! `_core.serve`: requests through a fleet of engines.

use crate::serve_timeline::{Names, write};
use crate::signals::minded;
use ::serve::{
    Admission, After, Arrivals, Fleet, Grid, Kind, Line, Means, Outcome, Piece, Place, Policy,
    Request, Routing, Scaling, Settings, Sglang, Stopped, Sums, Table, Term, Timing, Transfer,
    Trtllm, balance, output_of, run_noted, unbounded,
};
use executor::Progress;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A part of a step: name, what its time depends on, samples, and whether the host does it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct TermRow {
    name: String,
    kind: String,
    at: Vec<f64>,
    columns: Vec<f64>,
    seconds: Vec<f64>,
    window: u32,
    host: bool,
    /// Where it is in a pipeline: `stages`, `once` or `between`.
    #[pyo3(default = "stages".to_owned())]
    place: String,
}

/// Engines that are all alike.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct KindRow {
    engines: u32,
    ranks: u32,
    stages: u32,
    block: u32,
    blocks: u32,
    sequences: u32,
    tokens: u32,
    longest: u32,
    chunked: bool,
    long_prefill: u32,
    priority: bool,
    caching: bool,
    asynchronous: bool,
    drafts: u32,
    lookahead: u32,
    recomputes_last: bool,
    whole: bool,
    acceptance: Vec<f64>,
    terms: Vec<TermRow>,
    graphs: Vec<u32>,
    mixed_graphs: bool,
    eager: f64,
    overlapped: bool,
    /// When prompts are taken up.
    #[pyo3(default = 0)]
    every: u32,
    #[pyo3(default = 0)]
    patience: u32,
    #[pyo3(default = 0.0)]
    part: f64,
    #[pyo3(default = false)]
    balanced: bool,
    /// Samples of the time until a scheduler knows a request, by tokens of its prompt.
    #[pyo3(default = vec![0.0])]
    front_at: Vec<f64>,
    #[pyo3(default = vec![0.0])]
    front_seconds: Vec<f64>,
    /// Whose rules hold: `vllm`, `sglang` or `trtllm`.
    #[pyo3(default = "vllm".to_owned())]
    policy: String,
    /// Settings of SGLang alone.
    #[pyo3(default = false)]
    longest_prefix: bool,
    #[pyo3(default = false)]
    mixed: bool,
    #[pyo3(default = 16384)]
    prefill_tokens: u32,
    #[pyo3(default = 1.0)]
    conservativeness: f64,
    #[pyo3(default = true)]
    ignores_end: bool,
    /// A setting of TensorRT-LLM alone.
    #[pyo3(default = false)]
    evicts: bool,
}

fn wrong(what: &str) -> PyErr {
    PyValueError::new_err(format!("invalid {what}"))
}

impl TermRow {
    fn term(self) -> PyResult<Term> {
        let samples = || wrong(&format!("samples of {:?}", self.name));
        let line =
            |row: &TermRow| Line::new(row.at.clone(), row.seconds.clone()).ok_or_else(samples);
        let table = match self.kind.as_str() {
            "rows" => Table::Rows(line(&self)?),
            "all_rows" => Table::AllRows(line(&self)?),
            "sampled" => Table::Sampled(line(&self)?),
            "sequences" => Table::Sequences(line(&self)?),
            "prefill" => Table::Prefill(line(&self)?),
            "decode" => {
                let grid = Grid::new(self.at.clone(), self.columns.clone(), &self.seconds);
                Table::Decode(grid.ok_or_else(samples)?, self.window)
            }
            _ => return Err(wrong("kind of a part of a step")),
        };
        let place = match self.place.as_str() {
            "stages" => Place::Stages,
            "once" => Place::Once,
            "between" => Place::Between,
            _ => return Err(wrong("place of a part of a step")),
        };
        Ok(Term { name: self.name, place, table, host: self.host })
    }
}

impl KindRow {
    fn policy(&self) -> PyResult<Policy> {
        // SGLang admits requests that need less than all slots. Chunks are whole pages.
        let most = u64::from(self.blocks) * u64::from(self.block);
        match self.policy.as_str() {
            "vllm" => Ok(Policy::Vllm),
            "sglang" if most <= u64::from(self.longest) => {
                Err(wrong("blocks: no more than the longest request needs"))
            }
            "sglang" | "trtllm" if self.chunked && self.tokens < self.block => {
                Err(wrong("tokens: fewer than a block"))
            }
            "sglang" if self.chunked && !self.tokens.is_multiple_of(self.block) => {
                Err(wrong("tokens: not a number of whole blocks"))
            }
            "sglang" if !(self.conservativeness >= 0.0 && self.conservativeness.is_finite()) => {
                Err(wrong("conservativeness"))
            }
            "sglang" => Ok(Policy::Sglang(Sglang {
                longest_prefix: self.longest_prefix,
                mixed: self.mixed && self.chunked,
                prefill_tokens: self.prefill_tokens,
                conservativeness: self.conservativeness,
                ignores_end: self.ignores_end,
            })),
            "trtllm" => Ok(Policy::Trtllm(Trtllm { evicts: self.evicts })),
            _ => Err(wrong("policy")),
        }
    }

    fn kind(self) -> PyResult<Kind> {
        let policy = self.policy()?;
        if [self.engines, self.ranks, self.stages, self.block, self.sequences, self.tokens]
            .contains(&0)
        {
            return Err(wrong("count of 0"));
        }
        if u64::from(self.blocks) * u64::from(self.block) < u64::from(self.longest) {
            return Err(wrong("blocks: fewer than the longest request needs"));
        }
        let terms = self.terms.into_iter().map(TermRow::term).collect::<PyResult<_>>()?;
        Ok(Kind {
            engines: self.engines,
            ranks: self.ranks,
            stages: self.stages,
            settings: Settings {
                policy,
                block: self.block,
                blocks: self.blocks,
                sequences: self.sequences,
                tokens: self.tokens,
                longest: self.longest,
                chunked: self.chunked,
                long_prefill: self.long_prefill,
                priority: self.priority,
                caching: self.caching,
                asynchronous: self.asynchronous,
                drafts: self.drafts,
                lookahead: self.lookahead,
                recomputes_last: self.recomputes_last,
                whole: self.whole,
            },
            timing: Timing {
                terms,
                graphs: self.graphs,
                mixed_graphs: self.mixed_graphs,
                eager: self.eager,
                overlapped: self.overlapped,
            },
            acceptance: self.acceptance,
            admission: Admission {
                every: self.every,
                patience: self.patience,
                part: self.part,
                balanced: self.balanced,
            },
            front: Line::new(self.front_at, self.front_seconds).ok_or_else(|| wrong("front"))?,
        })
    }
}

/// A prompt's pieces (content, tokens), tokens of the output, priority.
type RequestRow = (Vec<(i64, u32)>, u32, i64);

/// Result of a run of requests. Times are ps.
#[pyclass(frozen)]
pub struct Served(Outcome);

#[pymethods]
impl Served {
    /// For each request: arrival, start of its first step, first token, last token.
    fn times(&self) -> Vec<(u64, u64, u64, u64)> {
        let times =
            |record: &::serve::Record| (record.arrival, record.admitted, record.first, record.end);
        self.0.records.iter().map(times).collect()
    }

    /// For each request: preemptions, tokens found in the cache, engine, time of its transfer.
    fn notes(&self) -> Vec<(u32, u32, u32, u64)> {
        let notes = |record: &::serve::Record| {
            (record.preemptions, record.cached, record.engine, record.transfer)
        };
        self.0.records.iter().map(notes).collect()
    }

    /// Gaps between tokens: how many, their mean and the largest.
    fn gaps(&self) -> (u64, u64, u64) {
        (self.0.gaps.count, self.0.gaps.mean(), self.0.gaps.max)
    }

    /// The gap that `part` of 1,000 do not exceed.
    fn gap_per_mille(&self, part: u64) -> u64 {
        self.0.gaps.per_mille(part)
    }

    /// For each engine: steps, their requests, their tokens, time in steps, seconds of each part.
    fn sums(&self) -> Vec<(u64, u64, u64, u64, Vec<f64>)> {
        let sums =
            |sums: &Sums| (sums.steps, sums.parts, sums.tokens, sums.busy, sums.terms.clone());
        self.0.sums.iter().map(sums).collect()
    }

    /// Writes a timeline in Perfetto's format: names of engines, and of the terms of each. Steps
    /// shown and left out, requests shown, packets.
    fn write_timeline(
        &self,
        py: Python<'_>,
        path: PathBuf,
        engines: Vec<String>,
        terms: Vec<Vec<String>>,
    ) -> PyResult<(u64, u64, u64, u64)> {
        let (diary, records) = (&self.0.diary, &self.0.records);
        if engines.len() != self.0.sums.len() || terms.len() != engines.len() {
            return Err(wrong("names of engines"));
        }
        let packets = py.detach(|| write(&path, diary, records, &Names { engines, terms }))?;
        let shown = diary.steps.iter().map(|step| step.steps).sum();
        let requests = records.len().min(diary.most.1 as usize) as u64;
        Ok((shown, diary.left_out, requests, packets))
    }

    /// Where engines start and stop: times at which their number changed with that number, and
    /// seconds of all of them.
    fn lifetimes(&self) -> Option<(Vec<(u64, u32)>, f64)> {
        let found = self.0.lifetimes.as_ref()?;
        Some((found.changes.clone(), found.time as f64 / 1e12))
    }

    /// From time to time: time, requests that run, requests that wait, blocks in use.
    fn samples(&self) -> Vec<(u64, u32, u32, u32)> {
        let row =
            |sample: &::serve::Sample| (sample.time, sample.running, sample.waiting, sample.blocks);
        self.0.samples.iter().map(row).collect()
    }
}

/// How engines start and stop: engines at least, requests of each, whether only those that wait
/// count; picoseconds between looks, until an engine is ready, and of the window.
type ScalingRow = (u32, f64, bool, u64, u64, u64);

/// Runs requests through engines. `arrivals` are their times, or the number that are there at any
/// time. With `after` some are sent after the answer to another one: which, and ps between. A
/// diary keeps at most `most.0` steps, and the moves of the first `most.1` requests. `decode` are engines that generate tokens, with the seconds by tokens that keys and values
/// take to them. Contents below 0 are outputs of requests: -1 is that of the first one.
#[pyfunction]
#[pyo3(name = "serve", signature = (
    engines, decode, routing, imbalance, requests, arrivals, concurrency, progress,
    after = Vec::new(), scaling = None, most = (0, 0),
))]
#[allow(clippy::too_many_arguments)] // one for each of the named arguments in Python
pub fn serve_requests(
    py: Python<'_>,
    engines: KindRow,
    decode: Option<(KindRow, Vec<f64>, Vec<f64>)>,
    routing: &str,
    imbalance: u32,
    requests: Vec<RequestRow>,
    arrivals: Option<Vec<u64>>,
    concurrency: u32,
    progress: Option<Py<PyAny>>,
    after: Vec<Option<(u32, u64)>>,
    scaling: Option<ScalingRow>,
    most: (usize, u32),
) -> PyResult<Served> {
    let routing = match routing {
        "round_robin" => Routing::RoundRobin,
        "least_loaded" => Routing::LeastLoaded,
        "prefix" => Routing::Prefix(imbalance),
        _ => return Err(wrong("routing")),
    };
    let decode = match decode {
        None => None,
        Some((kind, at, seconds)) => {
            let seconds = Line::new(at, seconds).ok_or_else(|| wrong("transfer"))?;
            Some((kind.kind()?, Transfer { seconds }))
        }
    };
    let scaling = scaling.map(|row| rule(row, decode.is_some())).transpose()?;
    let fleet = Fleet { engines: engines.kind()?, decode, routing, scaling };
    let request = |(prompt, output, priority): RequestRow| Request {
        priority,
        prompt: prompt.into_iter().map(piece).collect(),
        output,
    };
    let requests: Vec<Request> = requests.into_iter().map(request).collect();
    let longest = fleet.decode.as_ref().map_or(&fleet.engines, |(kind, _)| kind).settings.longest;
    if requests.iter().any(|request| request.prompt_tokens() == 0 || request.output == 0)
        || requests.iter().any(|request| request.prompt_tokens() + request.output > longest)
    {
        return Err(wrong("request: without tokens, or longer than the longest"));
    }
    let alone = |number: &usize| after.get(*number).is_none_or(Option::is_none);
    let arrivals = match arrivals {
        Some(times)
            if times.len() != requests.len()
                || !(0..times.len()).filter(alone).map(|number| times[number]).is_sorted() =>
        {
            return Err(wrong("arrivals"));
        }
        Some(times) => Arrivals::Open(times),
        None if concurrency == 0 => return Err(wrong("concurrency")),
        None => Arrivals::Closed(concurrency),
    };
    let earlier = |(number, after): (usize, &Option<(u32, u64)>)| {
        after.is_none_or(|(request, _)| (request as usize) < number)
    };
    if !after.is_empty()
        && (after.len() != requests.len() || !after.iter().enumerate().all(earlier))
    {
        return Err(wrong("after: not an earlier request"));
    }
    let arrivals = if after.is_empty() {
        arrivals
    } else {
        let row = |(request, think)| After { request, think };
        Arrivals::Sessions(
            Box::new(arrivals),
            after.into_iter().map(|each| each.map(row)).collect(),
        )
    };
    let total = requests.len() as u64;
    let found = minded(py, progress, move |desk| {
        run_noted(&fleet, &requests, &arrivals, most, |done, now| {
            desk.goes_on(Progress { done: done as u64, total, time_ns: now as f64 / 1e3 })
        })
    })?;
    found.map(Served).map_err(|stopped| match stopped {
        Stopped::Interrupted => PyValueError::new_err("interrupted"),
        Stopped::Stuck(request) => PyValueError::new_err(format!("request {request} never ends")),
    })
}

fn rule(
    (least, goal, waiting, every, delay, window): ScalingRow,
    apart: bool,
) -> PyResult<Scaling> {
    if apart || least == 0 || every == 0 || !(goal > 0.0 && goal.is_finite()) {
        return Err(wrong("scaling"));
    }
    Ok(Scaling { least, goal, waiting, every, delay, window })
}

/// Requests that are there at any time, mean tokens of prompts, those of them that are computed,
/// mean tokens of outputs, and the means of the squares of outputs and of prompts.
type MeansRow = (f64, f64, f64, f64, f64, f64);

/// Mean values of one engine under constant loads: seconds to the first token and of each later
/// one, requests a second, requests that run.
#[pyfunction]
pub fn balances(
    py: Python<'_>,
    engines: KindRow,
    loads: Vec<MeansRow>,
) -> PyResult<Vec<(f64, f64, f64, f64)>> {
    let kind = engines.kind()?;
    let valid = |&(concurrency, prompt, fresh, output, squared, prompts): &MeansRow| {
        [concurrency, prompt, fresh, output].iter().all(|each| (1.0..1e9).contains(each))
            && fresh <= prompt
            && squared >= output
            && squared.is_finite()
            && prompts.is_finite()
    };
    if !loads.iter().all(valid) {
        return Err(wrong("load: means below 1, or too large"));
    }
    let found = |(concurrency, prompt, fresh, output, output_squared, prompt_squared): MeansRow| {
        let means = Means { concurrency, prompt, fresh, output, output_squared, prompt_squared };
        let found = balance(&kind, &means);
        (found.ttft, found.tpot, found.rate, found.running)
    };
    Ok(py.detach(|| loads.into_iter().map(found).collect()))
}

/// Full blocks of prompts (contents and tokens) of `block` tokens, and those that an earlier prompt
/// has had with the same start.
#[pyfunction]
pub fn prefix_hits(
    py: Python<'_>,
    prompts: Vec<Vec<(i64, u32)>>,
    block: u32,
) -> PyResult<(u64, u64)> {
    if block == 0 {
        return Err(wrong("block of 0 tokens"));
    }
    let prompts: Vec<Vec<Piece>> =
        prompts.into_iter().map(|prompt| prompt.into_iter().map(piece).collect()).collect();
    let found = py.detach(|| unbounded(prompts.iter().map(Vec::as_slice), block));
    Ok((found.blocks, found.hits))
}

/// A piece of a prompt. Contents below 0 are outputs of requests: -1 is that of the first one.
fn piece((content, length): (i64, u32)) -> Piece {
    let content = if content < 0 { output_of((-1 - content) as u32) } else { content as u64 };
    Piece { content, length }
}
