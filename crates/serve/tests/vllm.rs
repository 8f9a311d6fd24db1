//! Decisions of vLLM's scheduler on drawn loads, step by step. `lab/peers/record_vllm_scheduler.py`
//! records them, and describes the file.

use serde_json::Value;
use serve::{Batch, Piece, Policy, Request, Scheduler, Settings, output_of};
use std::collections::VecDeque;

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/peers/vllm_scheduler.json");
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
    let ahead = matches!(of["speculation"].as_str().unwrap(), "eagle" | "draft_model");
    Settings {
        policy: Policy::Vllm,
        block: count("block_size"),
        blocks: count("blocks") - 1,
        sequences: count("max_num_seqs"),
        tokens: count("max_num_scheduled_tokens"),
        longest: count("max_model_len"),
        chunked: is("chunked_prefill"),
        long_prefill: count("long_prefill_token_threshold"),
        priority: of["policy"] == "priority",
        caching: is("prefix_caching"),
        asynchronous: is("async_scheduling"),
        drafts: count("speculative_tokens"),
        lookahead: if ahead { count("speculative_tokens") } else { 0 },
        recomputes_last: of["speculation"] == "eagle",
        whole: is("scheduler_reserve_full_isl"),
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

/// A step as it is recorded: batch, preempted, finished, free, waiting, running.
type Step = (Vec<(u32, u32, Option<u32>)>, Vec<u32>, Vec<u32>, u32, u32, u32);

fn recorded(step: &Value) -> Step {
    let part = |part: &Value| match part {
        Value::Number(_) => (number(part), 1, None),
        _ => (number(&part[0]), number(&part[1]), part.get(2).map(number)),
    };
    let numbers = |at: usize| list(&step[at]).iter().map(number).collect();
    (
        list(&step[0]).iter().map(part).collect(),
        numbers(1),
        numbers(2),
        number(&step[3]),
        number(&step[4]),
        number(&step[5]),
    )
}

/// The first step of a load in which ours differs.
fn difference(load: &Value) -> Option<String> {
    let settings = settings(&load["settings"]);
    let mut scheduler = Scheduler::new(settings.clone());
    let requests: Vec<(u32, Request)> = list(&load["requests"]).iter().map(request).collect();
    let mut flights: VecDeque<(Batch, Vec<(u32, u32)>)> = VecDeque::new();
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
            let after = (scheduler.free_blocks(), scheduler.waiting(), scheduler.running());
            let parts: Vec<_> =
                batch.parts.iter().map(|part| (part.request, part.tokens, part.admitted)).collect();
            let preempted = batch.preempted.clone();
            let accepted = step.get(6).map_or(Vec::new(), |rows| {
                list(rows).iter().map(|row| (number(&row[0]), number(&row[2]))).collect()
            });
            let proposed: Vec<(u32, u32)> = step.get(7).map_or(Vec::new(), |rows| {
                list(rows).iter().map(|row| (number(&row[0]), number(&row[1]))).collect()
            });
            let empty = batch.parts.is_empty();
            flights.push_back((batch, accepted));
            let full = !settings.asynchronous || flights.len() == 2 || empty;
            let mut finished = Vec::new();
            if full {
                let (batch, accepted) = flights.pop_front().unwrap();
                let of = |rows: &[(u32, u32)], request: u32| {
                    rows.iter().find(|row| row.0 == request).map(|row| row.1)
                };
                let tokens = scheduler.update(&batch, |part| {
                    let drafts = of(&proposed, part.request);
                    (of(&accepted, part.request).unwrap_or(0), drafts.unwrap_or(settings.drafts))
                });
                finished =
                    tokens.iter().filter(|token| token.last).map(|token| token.request).collect();
            }
            let ours: Step = (parts, preempted, finished, after.0, after.1 as u32, after.2 as u32);
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
fn each_step_is_that_of_vllm() {
    let file: Value = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    let answers = file["answers"].as_object().unwrap();
    // `src/recorded_tests.rs` has the cache alone.
    for (name, loads) in answers.iter().filter(|(name, _)| *name != "prefixes") {
        for (at, load) in list(loads).iter().enumerate() {
            count += 1;
            if let Some(difference) = difference(load) {
                wrong.push(format!("{name} {at} ({}): {difference}", load["kind"]));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} loads differ\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
}
