//! The balance of an engine under a constant load, without events: a closed form.
//!
//! Requests come as fast as they end. A step then has a mean number of requests that generate, and
//! a number of new prompts that varies by chance (Poisson). The time of a step is the mean over that
//! number. `fleet.rs` simulates the same from event to event. One scheduler without a pipeline is
//! followed step by step instead (`turns.rs`).

use crate::engine::Kind;
use crate::means::{Balance, Means};
use crate::settings::{Policy, Trtllm};
use crate::timing::Work;
use crate::turns::turns;

/// Most numbers of prompts whose steps are timed.
const MOST: usize = 32;

/// The balance of one engine.
pub fn balance(kind: &Kind, means: &Means) -> Balance {
    let settings = &kind.settings;
    let groups = f64::from(kind.ranks * kind.stages);
    let there = means.concurrency / groups;
    // TensorRT-LLM keeps room for a whole output where none may pause.
    let lasting = settings.policy == Policy::Trtllm(Trtllm { evicts: false });
    let grown = if lasting { means.output } else { means.output_squared / (2.0 * means.output) };
    let held = means.prompt + grown;
    let room = f64::from(settings.blocks) * f64::from(settings.block) / f64::from(kind.stages);
    let seats = f64::from(settings.sequences) / f64::from(kind.stages);
    let running = there.min(seats).min((room / held).max(1.0));
    if kind.ranks * kind.stages == 1 {
        return turns(kind, means, seats.min((room / held).max(1.0)));
    }
    let budget = f64::from(settings.tokens);
    // Steps of a request: those of its prompt, and one for each token after the first.
    let chunks = (means.fresh / (budget - running).max(1.0)).max(1.0);
    let most = budget / (means.fresh + means.output - 1.0);
    // A step that is planned ahead is waited for too.
    let planned = settings.asynchronous && kind.stages == 1;
    let life = means.output - 1.0 + chunks;
    let coming = there / (life + f64::from(u8::from(planned)));
    let arrivals = (running / life).min(coming).min(most);
    let generating = (arrivals * (means.output - 1.0)).min(running);
    let step = |arrivals: f64, own: bool| -> f64 {
        let chances = chances(arrivals, kind.ranks);
        let sum: f64 = chances
            .iter()
            .map(|&(prompts, chance)| {
                let mine = prompts + usize::from(own);
                chance * time(kind, generating, mine, arrivals, means, budget)
            })
            .sum();
        sum / chances.iter().map(|&(_, chance)| chance).sum::<f64>()
    };
    let others = arrivals * (running - 1.0).max(0.0) / running;
    let mean = step(arrivals, false);
    let tpot = step(others, false);
    let rate = groups * arrivals / mean;
    let first = step(others, true) * chunks;
    // Whoever has no seat waits for those before.
    let ahead = if planned { mean } else { 0.0 };
    let queue = (there - running).max(0.0) * groups / rate;
    // Where the budget of steps decides, prompts wait for it: the rest of the time by Little's law.
    let whole = means.concurrency / rate - (means.output - 1.0) * tpot;
    let ttft = if arrivals < most { first + queue + ahead } else { whole.max(first) };
    Balance { ttft, tpot, rate, running: running * groups }
}

/// Numbers of new prompts in a step with their chances, on the rank that has most: a Poisson
/// distribution within six deviations of its mean, in at most `MOST` steps.
fn chances(mean: f64, ranks: u32) -> Vec<(usize, f64)> {
    let mode = mean.floor();
    let reach = (6.0 * mean.sqrt() + 6.0).ceil();
    let from = (mode - reach).max(0.0) as usize;
    let to = (mode + reach) as usize;
    // Weights over that of the mode, so that no power of e is needed.
    let mut weights = vec![0.0; to - from + 1];
    let middle = mode as usize;
    weights[middle - from] = 1.0;
    for number in middle + 1..=to {
        weights[number - from] = weights[number - 1 - from] * mean / number as f64;
    }
    for number in (from..middle).rev() {
        weights[number - from] = weights[number + 1 - from] * (number + 1) as f64 / mean;
    }
    let sum: f64 = weights.iter().sum();
    let (mut below, mut before) = (0.0f64, 0.0);
    let most = |weight: &f64| {
        below += weight / sum;
        let all = (0..ranks).fold(1.0, |product, _| product * below);
        let chance = all - before;
        before = all;
        chance
    };
    let each: Vec<f64> = weights.iter().map(most).collect();
    let step = each.len().div_ceil(MOST);
    let groups = each.chunks(step).enumerate();
    groups.map(|(at, group)| (from + at * step + group.len() / 2, group.iter().sum())).collect()
}

/// Seconds between two steps of the same requests, with `prompts` new prompts on the busiest rank.
fn time(
    kind: &Kind,
    generating: f64,
    prompts: usize,
    mean: f64,
    means: &Means,
    budget: f64,
) -> f64 {
    let work = |prompts: f64| {
        let decodes = generating.round().max(f64::from(u8::from(generating > 0.01))) as u32;
        let grown = means.output_squared / means.output;
        let context = |at: u32| {
            (means.prompt + grown * (f64::from(at) + 0.5) / f64::from(decodes)).round() as u32
        };
        let contexts: Vec<u32> = (0..decodes).map(context).collect();
        let tokens = (prompts * means.fresh).min(budget - generating).max(0.0);
        let whole = prompts.floor() as u32;
        let chunk = if whole == 0 { tokens } else { tokens / f64::from(whole) };
        let before = (means.prompt - means.fresh).round() as u32;
        let chunks =
            vec![(before, chunk.round() as u32); whole.max(u32::from(tokens >= 1.0)) as usize];
        Work {
            rows: u64::from(decodes) + tokens.round() as u64,
            sampled: decodes + whole,
            sequences: decodes + chunks.len() as u32,
            decodes,
            context: contexts.iter().map(|&context| u64::from(context)).sum(),
            contexts,
            chunks,
        }
    };
    let seconds = |busiest: Work, other: &dyn Fn() -> Work| {
        let mut ranks = vec![busiest];
        ranks.extend((1..kind.ranks).map(|_| other()));
        let (terms, graph) = kind.timing.terms(&ranks);
        let stages = kind.stages as usize;
        kind.timing.total(&terms, graph, stages).period(stages) as f64 / 1e12
    };
    let once = if kind.settings.mixes() || prompts == 0 {
        seconds(work(prompts as f64), &|| work(mean))
    } else {
        // Prompts run in a step of their own, and the others wait.
        let alone = |all: Work| Work {
            rows: all.rows - u64::from(all.decodes),
            sampled: all.sampled - all.decodes,
            sequences: all.sequences - all.decodes,
            decodes: 0,
            context: 0,
            contexts: Vec::new(),
            ..all
        };
        seconds(work(0.0), &|| work(0.0))
            + seconds(alone(work(prompts as f64)), &|| alone(work(mean)))
    };
    // Prompts beyond the budget take further steps.
    let steps = prompts as f64 * means.fresh / (budget - generating).max(1.0);
    once * steps.max(1.0)
}
