//! Decisions of SGLang's scheduler on drawn loads, step by step.
//! `lab/peers/record_sglang_scheduler.py` records them, and describes the file.

use serde_json::Value;
use serve::{Batch, Piece, Policy, Request, Scheduler, Settings, Sglang, output_of};
use std::collections::VecDeque;

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/peers/sglang_scheduler.json");
/// Segments from here on are outputs of requests.
const OUTPUTS: u64 = 1_000_000;

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}")) as u32
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn settings(of: &Value) -> Settings {
    let count = |key: &str| number(&of[key]);
    let is = |key: &str| of[key].as_bool().unwrap();
    let chunk = of["chunked_prefill_size"].as_i64().unwrap();
    Settings {
        policy: Policy::Sglang(Sglang {
            longest_prefix: of["schedule_policy"] == "lpm",
            mixed: is("enable_mixed_chunk") && chunk > 0,
            prefill_tokens: count("max_prefill_tokens"),
            conservativeness: of["schedule_conservativeness"].as_f64().unwrap(),
            ignores_end: is("ignore_eos"),
        }),
        block: count("page_size"),
        blocks: count("pages"),
        sequences: count("max_running_requests"),
        tokens: u32::try_from(chunk).unwrap_or(0),
        longest: u32::MAX,
        chunked: chunk > 0,
        long_prefill: 0,
        priority: is("priority_scheduling"),
        caching: is("radix_cache"),
        asynchronous: is("overlap"),
        drafts: 0,
        lookahead: 0,
        recomputes_last: false,
        whole: false,
    }
}

fn request(of: &Value) -> (u32, Request) {
    let piece = |segment: &Value| {
        let (number_of, length) = (segment[0].as_u64().unwrap(), number(&segment[1]));
        let content =
            if number_of < OUTPUTS { number_of } else { output_of((number_of - OUTPUTS) as u32) };
        Piece { content, length }
    };
    let prompt = list(&of[3]).iter().map(piece).collect();
    (number(&of[0]), Request { priority: of[1].as_i64().unwrap(), prompt, output: number(&of[2]) })
}

/// A step as it is recorded: batch, lost, finished, pages that are free or can be, waiting.
type Step = (Vec<(u32, u32, Option<u32>)>, Vec<u32>, Vec<u32>, u32, u32);

fn recorded(step: &Value) -> Step {
    let part = |part: &Value| match part {
        Value::Number(_) => (number(part), 1, None),
        _ => (number(&part[0]), number(&part[1]), Some(number(&part[2]))),
    };
    let numbers = |at: usize| list(&step[at]).iter().map(number).collect();
    (
        list(&step[0]).iter().map(part).collect(),
        numbers(1),
        numbers(2),
        number(&step[3]) + number(&step[4]),
        number(&step[5]),
    )
}

/// A step that ends: its tokens. Returns the requests that end.
fn end(scheduler: &mut Scheduler, batch: &Batch) -> Vec<u32> {
    let tokens = scheduler.update(batch, |_| (0, 0));
    tokens.iter().filter(|token| token.last).map(|token| token.request).collect()
}

/// The first step of a load in which ours differs.
fn difference(load: &Value) -> Option<String> {
    let settings = settings(&load["settings"]);
    let mut scheduler = Scheduler::new(settings.clone());
    let requests: Vec<(u32, Request)> = list(&load["requests"]).iter().map(request).collect();
    let mut flights: VecDeque<Batch> = VecDeque::new();
    let mut call = 0;
    let mut last: Option<&Value> = None;
    for entry in list(&load["steps"]) {
        let (step, times) = match entry {
            Value::Number(_) => (last.unwrap(), number(entry)),
            _ => (entry, 1),
        };
        last = Some(step);
        for _ in 0..times {
            for (number, (_, request)) in
                requests.iter().enumerate().filter(|(_, each)| each.0 == call)
            {
                scheduler.add(number as u32, request, 0);
            }
            let batch = scheduler.schedule();
            let after = (scheduler.free_blocks(), scheduler.waiting() as u32);
            let parts: Vec<_> = batch
                .parts
                .iter()
                .map(|part| (part.request, part.tokens, part.is_prompt().then_some(part.context)))
                .collect();
            let lost = batch.preempted.clone();
            // With overlap, the step before ends once the next one has begun.
            let before = flights.pop_front();
            if !batch.parts.is_empty() {
                flights.push_back(batch);
            }
            let ends = if settings.asynchronous { before } else { flights.pop_front() };
            let finished = ends.map_or(Vec::new(), |batch| end(&mut scheduler, &batch));
            let ours: Step = (parts, lost, finished, after.0, after.1);
            let theirs = recorded(step);
            if ours != theirs {
                return Some(format!("call {call}\n  ours   {ours:?}\n  theirs {theirs:?}"));
            }
            call += 1;
        }
    }
    None
}

#[test]
fn each_step_is_that_of_sglang() {
    let file: Value = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, loads) in file["answers"].as_object().unwrap() {
        for (at, load) in list(loads).iter().enumerate() {
            count += 1;
            if let Some(difference) = difference(load) {
                wrong.push(format!(
                    "{name} {at} ({}): {difference}\n  {}",
                    load["kind"], load["settings"]
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} loads differ\n{}",
        wrong.len(),
        wrong[..wrong.len().min(25)].join("\n")
    );
}
