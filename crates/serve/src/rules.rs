//! Decisions of SGLang's and TensorRT-LLM's schedulers that their rules give by hand.

use crate::tests::plain;
use crate::{Batch, Piece, Policy, Request, Scheduler, Settings, Sglang, Token, Trtllm, output_of};

fn sglang() -> Settings {
    let policy = Sglang {
        longest_prefix: false,
        mixed: false,
        prefill_tokens: 16384,
        conservativeness: 1.0,
        ignores_end: false,
    };
    Settings { policy: Policy::Sglang(policy), block: 1, blocks: 2000, ..plain() }
}

fn with(change: impl FnOnce(&mut Sglang)) -> Settings {
    let mut settings = sglang();
    if let Policy::Sglang(policy) = &mut settings.policy {
        change(policy);
    }
    settings
}

fn trtllm(evicts: bool) -> Settings {
    Settings { policy: Policy::Trtllm(Trtllm { evicts }), block: 10, blocks: 100, ..plain() }
}

fn add(scheduler: &mut Scheduler, number: u32, prompt: &[(u64, u32)], output: u32) {
    let piece = |&(content, length): &(u64, u32)| Piece { content, length };
    let prompt = prompt.iter().map(piece).collect();
    scheduler.add(number, &Request { priority: 0, prompt, output }, 0);
}

/// Requests of a batch with their tokens.
fn parts(batch: &Batch) -> Vec<(u32, u32)> {
    batch.parts.iter().map(|part| (part.request, part.tokens)).collect()
}

fn update(scheduler: &mut Scheduler, batch: &Batch) -> Vec<Token> {
    scheduler.update(batch, |_| (0, 0))
}

/// A step with its end.
fn step(scheduler: &mut Scheduler) -> Batch {
    let batch = scheduler.schedule();
    update(scheduler, &batch);
    batch
}

/// Steps until nothing is left.
fn rest(scheduler: &mut Scheduler) -> Vec<Batch> {
    let mut batches = Vec::new();
    while scheduler.running() + scheduler.waiting() > 0 {
        batches.push(step(scheduler));
        assert!(batches.len() < 1000, "requests never end");
    }
    batches
}

#[test]
fn sglang_computes_prompts_before_tokens() {
    for (mixed, second) in [(false, vec![(1, 20)]), (true, vec![(1, 20), (0, 1)])] {
        let mut scheduler = Scheduler::new(with(|policy| policy.mixed = mixed));
        add(&mut scheduler, 0, &[(1, 10)], 5);
        assert_eq!(parts(&step(&mut scheduler)), [(0, 10)]);
        add(&mut scheduler, 1, &[(2, 20)], 5);
        assert_eq!(parts(&step(&mut scheduler)), second);
        let mut third = parts(&step(&mut scheduler));
        third.sort_unstable();
        assert_eq!(third, [(0, 1), (1, 1)]);
    }
}

#[test]
fn sglang_cuts_one_prompt_at_a_time() {
    let mut scheduler = Scheduler::new(sglang());
    add(&mut scheduler, 0, &[(1, 100)], 3);
    add(&mut scheduler, 1, &[(2, 10)], 3);
    add(&mut scheduler, 2, &[(3, 100)], 3);
    assert_eq!(parts(&step(&mut scheduler)), [(0, 64)]);
    assert_eq!(parts(&step(&mut scheduler)), [(0, 36), (1, 10), (2, 18)]);
    assert_eq!(parts(&step(&mut scheduler)), [(2, 64)]);
    assert_eq!(parts(&step(&mut scheduler)), [(2, 18)]);
    assert_eq!(parts(&step(&mut scheduler)), [(0, 1), (1, 1), (2, 1)]);
}

#[test]
fn sglang_limits_prompts_of_a_step_but_not_the_first() {
    let settings = Settings { chunked: false, ..with(|policy| policy.prefill_tokens = 30) };
    let mut scheduler = Scheduler::new(settings);
    for (number, length) in [(0, 50), (1, 20), (2, 10), (3, 10)] {
        add(&mut scheduler, number, &[(u64::from(number), length)], 3);
    }
    assert_eq!(parts(&step(&mut scheduler)), [(0, 50)]);
    // A prompt that would fill the step exactly waits too.
    assert_eq!(parts(&step(&mut scheduler)), [(1, 20)]);
    assert_eq!(parts(&step(&mut scheduler)), [(2, 10), (3, 10)]);
}

/// 100 slots. After ten steps a request has 19 tokens in them, and generates 40 more.
#[test]
fn sglang_keeps_room_for_a_part_of_outputs() {
    let ratio = 0.7 - 9.0 * 0.7 * (1.0 - 0.14) / 600.0;
    let room: f64 = 100.0 - 19.0 - ratio * 40.0;
    for output in 10..60 {
        let mut scheduler = Scheduler::new(Settings { blocks: 100, ..sglang() });
        add(&mut scheduler, 0, &[(1, 10)], 50);
        for _ in 0..10 {
            step(&mut scheduler);
        }
        add(&mut scheduler, 1, &[(2, 20)], output);
        let admitted = parts(&scheduler.schedule())[0].0 == 1;
        assert_eq!(admitted, f64::from(20 + output) < room, "{output}");
    }
}

#[test]
fn the_part_that_sglang_keeps_falls_and_begins_anew() {
    let settings = Settings { blocks: 5000, longest: 5000, ..sglang() };
    let mut scheduler = Scheduler::new(settings);
    let ratio = |scheduler: &Scheduler| scheduler.sglang.as_ref().unwrap().ratio;
    add(&mut scheduler, 0, &[(1, 10)], 1000);
    step(&mut scheduler);
    assert_eq!(ratio(&scheduler), 0.7);
    for _ in 0..300 {
        step(&mut scheduler);
    }
    assert!((ratio(&scheduler) - 0.7 * 0.57).abs() < 1e-9);
    for _ in 0..600 {
        step(&mut scheduler);
    }
    assert!((ratio(&scheduler) - 0.7 * 0.14).abs() < 1e-9);
    rest(&mut scheduler);
    scheduler.schedule();
    assert_eq!(ratio(&scheduler), 0.7);
}

#[test]
fn sglang_retracts_whoever_has_generated_least() {
    let settings = Settings { blocks: 40, ..with(|policy| policy.conservativeness = 0.0) };
    let mut scheduler = Scheduler::new(settings);
    add(&mut scheduler, 0, &[(1, 10)], 25);
    step(&mut scheduler);
    step(&mut scheduler);
    add(&mut scheduler, 1, &[(2, 12)], 15);
    let batches = rest(&mut scheduler);
    let lost: Vec<u32> = batches.iter().flat_map(|batch| batch.preempted.clone()).collect();
    assert_eq!(lost, [1]);
    // All 40 slots were taken when it lost its own.
    let at = batches.iter().position(|batch| !batch.preempted.is_empty()).unwrap();
    let last = &batches[at - 1].parts;
    let held: u32 = last.iter().map(|part| part.context + part.tokens).sum();
    assert!((39..=40).contains(&held), "{held}");
    // It computes its prompt and its tokens again.
    let again = batches[at..].iter().flat_map(|batch| &batch.parts).find(|part| part.request == 1);
    assert_eq!(again.unwrap().tokens, last[1].context + 2);
}

#[test]
fn sglang_runs_a_step_too_many_where_it_plans_ahead() {
    let mut scheduler = Scheduler::new(Settings { asynchronous: true, caching: true, ..sglang() });
    add(&mut scheduler, 0, &[(1, 10)], 2);
    let first = scheduler.schedule();
    let second = scheduler.schedule();
    update(&mut scheduler, &first);
    let third = scheduler.schedule();
    assert!(update(&mut scheduler, &second)[0].last);
    assert!(scheduler.schedule().parts.is_empty());
    assert!(update(&mut scheduler, &third).is_empty());
    assert_eq!((parts(&second), parts(&third)), (vec![(0, 1)], vec![(0, 1)]));
    // So the keys and values of the last token are there too.
    assert_eq!(scheduler.held(&[Piece { content: 1, length: 10 }]), 10);
    add(&mut scheduler, 1, &[(1, 10), (output_of(0), 2), (7, 3)], 2);
    assert_eq!(scheduler.schedule().parts[0].admitted, Some(12));
}

#[test]
fn sglang_finds_prefixes_token_by_token() {
    let mut scheduler = Scheduler::new(Settings { caching: true, ..sglang() });
    add(&mut scheduler, 0, &[(1, 10)], 4);
    rest(&mut scheduler);
    // The last token of an answer is not in the cache, and the last of a prompt is computed.
    for (number, prompt, cached) in [
        (1, vec![(1, 10), (output_of(0), 4), (7, 3)], 13),
        (2, vec![(1, 7), (8, 9)], 7),
        (3, vec![(1, 10)], 9),
    ] {
        add(&mut scheduler, number, &prompt, 1);
        assert_eq!(step(&mut scheduler).parts[0].admitted, Some(cached));
    }
}

#[test]
fn sglang_takes_the_longest_known_prefix_first() {
    for (longest_prefix, first) in [(false, 1), (true, 2)] {
        let settings = with(|policy| policy.longest_prefix = longest_prefix);
        let mut scheduler = Scheduler::new(Settings { caching: true, sequences: 1, ..settings });
        add(&mut scheduler, 0, &[(1, 40)], 1);
        rest(&mut scheduler);
        add(&mut scheduler, 1, &[(2, 50)], 1);
        add(&mut scheduler, 2, &[(1, 50)], 1);
        assert_eq!(step(&mut scheduler).parts[0].request, first);
    }
}

#[test]
fn trtllm_computes_prompts_and_tokens_together() {
    let mut scheduler = Scheduler::new(trtllm(false));
    add(&mut scheduler, 0, &[(1, 10)], 5);
    assert_eq!(parts(&step(&mut scheduler)), [(0, 10)]);
    add(&mut scheduler, 1, &[(2, 20)], 5);
    assert_eq!(parts(&step(&mut scheduler)), [(1, 20), (0, 1)]);
}

#[test]
fn trtllm_starts_only_what_ends_unless_it_may_pause() {
    for evicts in [false, true] {
        let mut scheduler = Scheduler::new(Settings { blocks: 4, ..trtllm(evicts) });
        add(&mut scheduler, 0, &[(1, 10)], 25);
        add(&mut scheduler, 1, &[(2, 10)], 15);
        let first = parts(&step(&mut scheduler));
        assert_eq!(first.len(), if evicts { 2 } else { 1 });
        let batches = rest(&mut scheduler);
        let lost: Vec<u32> = batches.iter().flat_map(|batch| batch.preempted.clone()).collect();
        assert_eq!(lost, if evicts { vec![1] } else { vec![] });
        let together = batches.iter().filter(|batch| batch.parts.len() == 2).count();
        // Both have 20 tokens when the third block of the first one is needed.
        assert_eq!(together, if evicts { 10 } else { 0 });
    }
}

#[test]
fn trtllm_waits_for_a_block_that_another_prompt_computes() {
    for (caching, first) in [(true, 1), (false, 2)] {
        let mut scheduler = Scheduler::new(Settings { caching, ..trtllm(false) });
        add(&mut scheduler, 0, &[(1, 25)], 5);
        add(&mut scheduler, 1, &[(1, 25)], 5);
        assert_eq!(step(&mut scheduler).parts.len(), first);
        if caching {
            let second = step(&mut scheduler);
            assert_eq!((second.parts[0].request, second.parts[0].admitted), (1, Some(20)));
        }
    }
}

#[test]
fn trtllm_counts_whole_prompts_and_cuts_them_at_blocks() {
    for (chunked, first) in [(false, vec![(0, 20)]), (true, vec![(0, 20), (1, 8)])] {
        let settings = Settings { chunked, block: 8, tokens: 30, caching: true, ..trtllm(false) };
        let mut scheduler = Scheduler::new(settings);
        add(&mut scheduler, 0, &[(1, 20)], 5);
        add(&mut scheduler, 1, &[(2, 30)], 5);
        assert_eq!(parts(&step(&mut scheduler)), first);
    }
    // A prompt in the cache counts with all its tokens.
    let settings = Settings { chunked: false, tokens: 30, caching: true, ..trtllm(false) };
    let mut scheduler = Scheduler::new(settings);
    add(&mut scheduler, 0, &[(1, 21)], 1);
    rest(&mut scheduler);
    add(&mut scheduler, 1, &[(1, 21)], 2);
    add(&mut scheduler, 2, &[(2, 12)], 2);
    assert_eq!(parts(&step(&mut scheduler)), [(1, 1)]);
}
