//! A timeline of requests on engines in Perfetto's format, from the diary of a run
//! (`serve::Diary`).
//!
//! Each engine has a track of its steps, and counters of running and waiting requests and of blocks.
//! Each request that is shown has a track of what it does: wait, prefill, decode, wait after it lost
//! its blocks, transfer. Exact times are arguments. Not here: bytes (`trace::perfetto`).

use serve::{Diary, Moved, Record, Step};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use trace::perfetto::{Details, Table, Track, Unit, Value, Writer};

const BUFFER: usize = 1 << 18;

/// Words of a timeline: names of engines, names of the terms of each engine.
pub struct Names {
    pub engines: Vec<String>,
    pub terms: Vec<Vec<String>>,
}

/// Writes the file. Packets in it.
pub fn write(path: &Path, diary: &Diary, records: &[Record], names: &Names) -> io::Result<u64> {
    let mut out = Writer::new(BufWriter::with_capacity(BUFFER, File::create(path)?));
    let category = out.intern(Table::Category, "step");
    let engines = out.track(&group("engines", "Steps of each engine.", 0));
    for (number, name) in names.engines.iter().enumerate() {
        let track = out.track(&child(engines, name, number as u32));
        let counter = |name, order| Track { unit: Some(Unit::Count), ..child(track, name, order) };
        let counters =
            ["running", "waiting", "blocks in use"].map(|name| out.track(&counter(name, 0)));
        let keys: Vec<u32> = names.terms[number]
            .iter()
            .map(|term| out.intern(Table::Key, &format!("{term}_ps")))
            .collect();
        let of = |step: &&Step| step.engine == number as u32;
        for step in diary.steps.iter().filter(of) {
            put_step(&mut out, track, category, step, &keys);
            for (&counter, value) in counters.iter().zip([step.running, step.waiting, step.blocks])
            {
                out.count(step.begin / 1000, counter, value.into());
            }
        }
    }
    let requests = out.track(&group("requests", "The phases of each request.", 1));
    let category = out.intern(Table::Category, "request");
    let mut moves = vec![Vec::new(); records.len().min(diary.most.1 as usize)];
    for each in &diary.moves {
        moves[each.request as usize].push((each.time, each.moved));
    }
    let digits = moves.len().saturating_sub(1).to_string().len();
    for (number, moves) in moves.iter().enumerate() {
        let name = format!("request {number:0digits$}");
        let track = out.track(&child(requests, &name, number as u32));
        for (name, begin, end) in phases(&records[number], moves) {
            put(&mut out, track, category, name, (begin, end), &[]);
        }
    }
    let packets = out.packets();
    out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(packets)
}

fn group<'a>(name: &'a str, description: &'a str, order: u32) -> Track<'a> {
    Track { parent: None, name, description, order, unit: None }
}

fn child(parent: u64, name: &str, order: u32) -> Track<'_> {
    Track { parent: Some(parent), name, description: "", order, unit: None }
}

fn put_step<W: Write>(out: &mut Writer<W>, track: u64, category: u32, step: &Step, keys: &[u32]) {
    let name = match (step.prompts, step.tokens > step.prompts) {
        (0, _) => "tokens",
        (_, false) => "prompts",
        (_, true) => "prompts and tokens",
    };
    let counts = [
        ("steps", step.steps),
        ("requests", step.requests / step.steps.max(1)),
        ("tokens", step.tokens),
        ("prompt_tokens", step.prompts),
    ];
    let mut arguments: Vec<(u32, Value)> =
        counts.map(|(key, value)| (out.intern(Table::Key, key), Value::Number(value))).to_vec();
    for (&key, seconds) in keys.iter().zip(&step.terms) {
        if *seconds > 0.0 {
            arguments.push((key, Value::Number((seconds * 1e12).round() as u64)));
        }
    }
    put(out, track, category, name, (step.begin, step.end), &arguments);
}

fn put<W: Write>(
    out: &mut Writer<W>,
    track: u64,
    category: u32,
    name: &str,
    (begin, end): (u64, u64),
    more: &[(u32, Value)],
) {
    let name = out.intern(Table::Name, name);
    let times = [("start_ps", begin), ("duration_ps", end - begin)];
    let mut arguments =
        times.map(|(key, value)| (out.intern(Table::Key, key), Value::Number(value))).to_vec();
    arguments.extend(more);
    out.begin(
        begin / 1000,
        track,
        category,
        name,
        &Details { arguments: &arguments, ..Details::default() },
    );
    out.end(end / 1000, track, &Details::default());
}

/// The phases of a request, in order: names, begins, ends. Nothing for what takes no time.
fn phases(record: &Record, moves: &[(u64, Moved)]) -> Vec<(&'static str, u64, u64)> {
    let mut found = Vec::new();
    let mut add = |name, begin: u64, end: u64| {
        if end > begin {
            found.push((name, begin, end));
        }
    };
    let (mut at, mut doing) = (record.arrival, "queue");
    for &(time, moved) in moves {
        split(&mut add, doing, at, time, record.first);
        at = time;
        doing = match moved {
            Moved::Admitted => "runs",
            Moved::Preempted => "preempted",
            Moved::Sent => "transfer",
            Moved::Arrived => "queue",
        };
    }
    split(&mut add, doing, at, record.end, record.first);
    found
}

/// A request that runs does its prefill until its first token, and decodes from then on.
fn split(
    add: &mut impl FnMut(&'static str, u64, u64),
    doing: &'static str,
    begin: u64,
    end: u64,
    first: u64,
) {
    if doing == "runs" {
        let middle = first.clamp(begin, end);
        add("prefill", begin, middle);
        add("decode", middle, end);
    } else {
        add(doing, begin, end);
    }
}
