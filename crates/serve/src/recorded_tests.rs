//! vLLM's cache of prefixes alone, on drawn sequences of requests that come, grow and go.
//! `lab/peers/kept_prefixes.py` records them, and describes the file.

use crate::tests::plain;
use crate::{Piece, Request, Scheduler, Settings, output_of};
use serde_json::Value;
use std::collections::HashMap;

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/peers/vllm_scheduler.json");
/// Segments from here on are outputs of requests.
const OUTPUTS: u64 = 1_000_000;

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap() as u32
}

fn prompt(segments: &Value) -> Vec<Piece> {
    let piece = |segment: &Value| {
        let of = segment[0].as_u64().unwrap();
        let content = if of < OUTPUTS { of } else { output_of((of - OUTPUTS) as u32) };
        Piece { content, length: number(&segment[1]) }
    };
    segments.as_array().unwrap().iter().map(piece).collect()
}

/// A request comes, with all of its prompt at once. Cached tokens, or -1 without blocks for it.
fn come(scheduler: &mut Scheduler, name: u32, prompt: Vec<Piece>) -> (u32, i64) {
    scheduler.add(name, &Request { priority: 0, prompt, output: 1_000_000 }, 0);
    let slot = scheduler.next_waiting().unwrap();
    scheduler.no_longer_waits(slot);
    let found = scheduler.found(slot);
    let cached = found.len() as u32 * scheduler.settings.block;
    let tokens = scheduler.states[slot as usize].tokens();
    if !scheduler.allocate(slot, tokens - cached, 0, &found) {
        return (slot, -1);
    }
    scheduler.states[slot as usize].computed = tokens;
    (slot, i64::from(cached))
}

/// A request gets a token. Whether there was a slot for it.
fn grow(scheduler: &mut Scheduler, slot: u32) -> bool {
    scheduler.states[slot as usize].produce(1);
    let fits = scheduler.allocate(slot, 1, 0, &[]);
    scheduler.states[slot as usize].computed += u32::from(fits);
    fits
}

#[test]
fn the_cache_alone_is_that_of_vllm() {
    let file: Value = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
    let sequences = file["answers"]["prefixes"].as_array().unwrap();
    assert!(!sequences.is_empty());
    for (at, sequence) in sequences.iter().enumerate() {
        let settings = Settings {
            block: number(&sequence["block_size"]),
            blocks: number(&sequence["blocks"]) - 1,
            longest: 100_000_000,
            caching: true,
            ..plain()
        };
        let mut scheduler = Scheduler::new(settings);
        let mut held = HashMap::new();
        for event in sequence["events"].as_array().unwrap() {
            let row = event.as_array().unwrap();
            let name = number(&row[0]);
            let free = row.last().unwrap().as_i64().unwrap();
            if row.len() == 4 {
                let (slot, cached) = come(&mut scheduler, name, prompt(&row[1]));
                held.insert(name, slot);
                assert_eq!(cached, row[2].as_i64().unwrap(), "sequence {at}, {event}");
            } else if row.len() == 3 {
                let grown = (0..number(&row[1])).all(|_| grow(&mut scheduler, held[&name]));
                assert_eq!(grown, free >= 0, "sequence {at}, {event}");
            } else {
                scheduler.give_back(held[&name]);
            }
            if free >= 0 {
                assert_eq!(i64::from(scheduler.free_blocks()), free, "sequence {at}, {event}");
            }
        }
        let left: Vec<[u32; 2]> = sequence["left"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| [number(&row[0]), number(&row[1])])
            .collect();
        // vLLM's block 0 is its null block.
        let ours: Vec<[u32; 2]> = scheduler
            .pool
            .left()
            .into_iter()
            .map(|(block, kept)| [block + 1, u32::from(kept)])
            .collect();
        assert_eq!(ours, left, "sequence {at}");
    }
}
