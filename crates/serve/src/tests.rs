//! Drawn fleets and loads.

use crate::fleet::Run;
use crate::*;
use proptest::prelude::*;

/// Steps of 1 ms, 10 us for each token, 1 us for each request and 1,000 tokens of its context.
fn timing(windowed: u32, overlapped: bool) -> Timing {
    let line =
        |slope: f64, start: f64| Line::new(vec![0.0, 1.0], vec![start, start + slope]).unwrap();
    let grid = Grid::new(
        vec![0.0, 1.0, 64.0],
        vec![0.0, 100.0, 1000.0],
        &[0.0, 0.0, 0.0, 0.0, 1e-7, 2e-6, 0.0, 8e-6, 1e-4],
    );
    let term = |name: &str, table: Table, host: bool| {
        let place = match name {
            "head" | "host" => Place::Once,
            "activations" => Place::Between,
            _ => Place::Stages,
        };
        Term { name: name.into(), place, table, host }
    };
    Timing {
        terms: vec![
            term("linear", Table::Rows(line(1e-5, 1e-3)), false),
            term("experts", Table::AllRows(line(1e-6, 1e-4)), false),
            term("head", Table::Sampled(line(1e-6, 0.0)), false),
            term("decode", Table::Decode(grid.clone().unwrap(), 0), false),
            term("window", Table::Decode(grid.unwrap(), windowed), false),
            term("prefill", Table::Prefill(line(2e-6, 0.0)), false),
            term("activations", Table::Rows(line(1e-6, 1e-5)), false),
            term("host", Table::Sequences(line(1e-6, 5e-4)), true),
        ],
        graphs: vec![1, 2, 4, 8, 16, 24, 32],
        mixed_graphs: false,
        eager: 2e-3,
        overlapped,
    }
}

/// Settings without anything special.
pub fn plain() -> Settings {
    Settings {
        policy: Policy::Vllm,
        block: 16,
        blocks: 100,
        sequences: 8,
        tokens: 64,
        longest: 1000,
        chunked: true,
        long_prefill: 0,
        priority: false,
        caching: false,
        asynchronous: false,
        drafts: 0,
        lookahead: 0,
        recomputes_last: false,
        whole: false,
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    let sglang = (any::<[bool; 3]>(), 0u32..300, 0.0..2.0f64).prop_map(
        |([longest_prefix, mixed, ignores_end], prefill_tokens, conservativeness)| {
            Policy::Sglang(Sglang {
                longest_prefix,
                mixed,
                prefill_tokens,
                conservativeness,
                ignores_end,
            })
        },
    );
    let trtllm = any::<bool>().prop_map(|evicts| Policy::Trtllm(Trtllm { evicts }));
    prop_oneof![Just(Policy::Vllm), sglang, trtllm]
}

prop_compose! {
    fn settings()(
        policy in policies(),
        block in prop::sample::select(vec![1u32, 4, 16]),
        extra in 0u32..400,
        sequences in 1u32..24,
        tokens in 8u32..256,
        long_prefill in prop::sample::select(vec![0u32, 0, 16]),
        flags in any::<[bool; 5]>(),
        drafts in prop::sample::select(vec![0u32, 0, 0, 2]),
    ) -> Settings {
        let longest = 400u32;
        // SGLang's chunks are whole pages, and TensorRT-LLM's first one has a whole block.
        let tokens = match policy {
            Policy::Vllm => tokens,
            _ => tokens.next_multiple_of(block),
        };
        Settings {
            policy,
            block,
            blocks: (longest + 8).div_ceil(block) + extra / block,
            sequences,
            tokens: tokens.max(if flags[0] { 0 } else { longest }),
            longest,
            chunked: flags[0],
            long_prefill,
            priority: flags[1],
            caching: flags[2],
            asynchronous: flags[3],
            drafts,
            lookahead: drafts,
            recomputes_last: flags[4] && drafts > 0,
            whole: flags[4],
        }
    }
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let pieces = prop::collection::vec((0u64..6, 1u32..80), 1..4);
    let request = (pieces, 1u32..120, -1i64..2).prop_map(|(pieces, output, priority)| Request {
        priority,
        prompt: pieces.into_iter().map(|(content, length)| Piece { content, length }).collect(),
        output,
    });
    prop::collection::vec(request, 1..30)
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let open = prop::collection::vec(0u64..40_000_000_000, 30).prop_map(|mut times| {
        times.sort_unstable();
        Arrivals::Open(times)
    });
    let alone = prop_oneof![open, (1u32..30).prop_map(Arrivals::Closed)].boxed();
    let after = prop::collection::vec(prop::option::of((1u32..4, 0u64..9_000_000_000)), 30);
    let sessions = (alone.clone(), after).prop_map(|(first, drawn)| {
        let mut taken = [false; 30];
        let mut after = Vec::new();
        for (number, drawn) in (0u32..).zip(drawn) {
            // One that goes on at most; the request is earlier in the list.
            let found = drawn.and_then(|(back, think)| {
                let request = number.checked_sub(back)?;
                let free = !std::mem::replace(&mut taken[request as usize], true);
                free.then_some(After { request, think })
            });
            after.push(found);
        }
        Arrivals::Sessions(Box::new(first), after)
    });
    prop_oneof![2 => alone, 1 => sessions]
}

prop_compose! {
    fn fleets()(
        settings in settings(),
        decode in settings(),
        numbers in (1u32..3, 1u32..3, 1u32..4),
        apart in any::<bool>(),
        window in prop::sample::select(vec![0u32, 50]),
        overlapped in any::<bool>(),
        routing in prop::sample::select(vec![Routing::RoundRobin, Routing::LeastLoaded, Routing::Prefix(2)]),
        held in (prop::sample::select(vec![0u32, 0, 5]), prop::sample::select(vec![0u32, 0, 7]), any::<bool>()),
        front in prop::sample::select(vec![0.0, 3e-3]),
        scaling in prop::option::weighted(0.3, scalings()),
    ) -> Fleet {
        let kind = |settings: Settings| Kind {
            engines: numbers.0,
            ranks: numbers.1,
            stages: numbers.2,
            settings,
            timing: timing(window, overlapped),
            acceptance: vec![0.7, 0.5],
            admission: Admission { every: held.0, patience: held.1, part: 0.5, balanced: held.2 },
            front: Line::new(vec![0.0, 100.0], vec![front, 2.0 * front]).unwrap(),
        };
        let transfer = Transfer { seconds: Line::new(vec![0.0, 100.0], vec![1e-4, 1e-3]).unwrap() };
        let decode = apart.then(|| (kind(decode), transfer));
        Fleet { engines: kind(settings), scaling: scaling.filter(|_| !apart), decode, routing }
    }
}

fn scalings() -> impl Strategy<Value = Scaling> {
    let times = (1u64..30, 0u64..30, 0u64..60);
    (1u32..3, 0.5..8.0f64, any::<bool>(), times).prop_map(|(least, goal, waiting, times)| {
        let [every, delay, window] = [times.0, times.1, times.2].map(|ms| ms * 1_000_000_000);
        Scaling { least, goal, waiting, every, delay, window }
    })
}

/// Whether requests are looked at in the order in which they come.
fn in_order(fleet: &Fleet) -> bool {
    match fleet.engines.settings.policy {
        Policy::Vllm => true,
        Policy::Sglang(policy) => !policy.longest_prefix,
        Policy::Trtllm(_) => !fleet.engines.settings.caching && !fleet.engines.settings.chunked,
    }
}

fn open(arrivals: &Arrivals, requests: usize) -> Arrivals {
    match arrivals {
        Arrivals::Open(times) => Arrivals::Open(times[..requests].to_vec()),
        Arrivals::Sessions(first, after) => {
            Arrivals::Sessions(Box::new(open(first, requests)), after[..requests].to_vec())
        }
        closed => closed.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Steps that are run without the scheduler change nothing that it would not have changed.
    #[test]
    fn coasting_equals_scheduling_each_step(fleet in fleets(), requests in requests(), arrivals in arrivals()) {
        let arrivals = open(&arrivals, requests.len());
        let fast = run(&fleet, &requests, &arrivals, |_, _| true).unwrap();
        let mut slow = Run::new(&fleet, &requests, &arrivals);
        slow.step_by_step = true;
        let slow = slow.finish(|_, _| true).unwrap();
        prop_assert_eq!(&fast.records, &slow.records);
        prop_assert_eq!((fast.gaps.count, fast.gaps.max, fast.gaps.mean()), (slow.gaps.count, slow.gaps.max, slow.gaps.mean()));
        for (fast, slow) in fast.sums.iter().zip(&slow.sums) {
            prop_assert_eq!((fast.steps, fast.parts, fast.tokens, fast.busy), (slow.steps, slow.parts, slow.tokens, slow.busy));
            for (one, other) in fast.terms.iter().zip(&slow.terms) {
                prop_assert!((one - other).abs() <= 1e-9 * other.max(1e-9), "{one} {other}");
            }
        }
    }

    /// No token is lost, times are in order, and nothing is faster than its parts.
    #[test]
    fn what_goes_in_comes_out(fleet in fleets(), requests in requests(), arrivals in arrivals()) {
        let arrivals = open(&arrivals, requests.len());
        let found = run(&fleet, &requests, &arrivals, |_, _| true).unwrap();
        let mut gaps = 0;
        for (record, request) in found.records.iter().zip(&requests) {
            prop_assert!(record.arrival <= record.admitted && record.admitted < record.first && record.first <= record.end);
            prop_assert!(record.first - record.admitted >= 1_000_000_000);
            if fleet.decode.is_some() {
                // A step for the prompt, the way, and a step for the first token.
                prop_assert!(record.first - record.arrival >= 2_000_000_000 + record.transfer);
                prop_assert!(record.transfer >= 100_000_000);
            }
            gaps += u64::from(request.output) - 1;
            prop_assert!(record.cached < request.prompt_tokens().max(1));
        }
        let drafts = fleet.engines.settings.drafts + fleet.decode.as_ref().map_or(0, |(kind, _)| kind.settings.drafts);
        if drafts == 0 {
            prop_assert_eq!(found.gaps.count, gaps);
            let generated: u64 = requests.iter().map(|request| u64::from(request.output)).sum();
            let steps: u64 = found.sums.iter().map(|sums| sums.parts).sum();
            prop_assert!(steps >= generated);
        }
        for sample in &found.samples {
            prop_assert!(sample.running as usize + sample.waiting as usize <= requests.len());
        }
    }

    /// Turns of a conversation follow each other, and a closed loop has no more conversations than
    /// it should.
    #[test]
    fn turns_wait_for_answers(fleet in fleets(), requests in requests(), arrivals in arrivals()) {
        let arrivals = open(&arrivals, requests.len());
        let found = run(&fleet, &requests, &arrivals, |_, _| true).unwrap();
        let Arrivals::Sessions(first, after) = &arrivals else { return Ok(()) };
        for (record, after) in found.records.iter().zip(after) {
            if let Some(After { request, think }) = after {
                prop_assert_eq!(record.arrival, found.records[*request as usize].end + think);
            }
        }
        if let Arrivals::Closed(most) = **first {
            let begins = found.records.iter().zip(after).filter(|(_, after)| after.is_none());
            prop_assert!(begins.filter(|(record, _)| record.arrival == 0).count() <= most as usize);
        }
    }

    /// The diary has the steps that the sums have, in order; the time of engines that start and
    /// stop is what their number over time says.
    #[test]
    fn the_diary_is_that_of_the_sums(fleet in fleets(), requests in requests(), arrivals in arrivals()) {
        let arrivals = open(&arrivals, requests.len());
        let found = run_noted(&fleet, &requests, &arrivals, (usize::MAX, u32::MAX / 64), |_, _| true).unwrap();
        for (number, sums) in found.sums.iter().enumerate() {
            let own: Vec<&Step> = found.diary.steps.iter().filter(|step| step.engine == number as u32).collect();
            prop_assert_eq!(own.iter().map(|step| step.steps).sum::<u64>(), sums.steps);
            prop_assert_eq!(own.iter().map(|step| step.requests).sum::<u64>(), sums.parts);
            prop_assert_eq!(own.iter().map(|step| step.tokens).sum::<u64>(), sums.tokens);
            let busy = own.iter().map(|step| step.end - step.begin).sum::<u64>();
            // The first stage of a pipeline may have breaks among steps that are one entry.
            prop_assert!(busy == sums.busy || (busy > sums.busy && fleet.engines.stages > 1));
            prop_assert!(own.windows(2).all(|pair| pair[0].end <= pair[1].begin));
        }
        prop_assert!(found.diary.moves.windows(2).all(|pair| pair[0].time <= pair[1].time));
        let lost = found.diary.moves.iter().filter(|each| each.moved == Moved::Preempted).count() as u32;
        prop_assert_eq!(lost, found.records.iter().map(|record| record.preemptions).sum::<u32>());
        let end = found.records.iter().map(|record| record.end).max().unwrap();
        let few = run_noted(&fleet, &requests, &arrivals, (3, 1), |_, _| true).unwrap();
        prop_assert!(few.diary.steps.len() <= 3 && few.diary.moves.iter().all(|each| each.request == 0));
        prop_assert_eq!(&few.records, &found.records);
        let kept: u64 = few.diary.steps.iter().map(|step| step.steps).sum();
        prop_assert_eq!(kept + few.diary.left_out, found.sums.iter().map(|sums| sums.steps).sum::<u64>());
        if let (Some(lifetimes), Some(rule)) = (found.lifetimes, &fleet.scaling) {
            let most = fleet.engines.engines;
            let ends = lifetimes.changes.iter().skip(1).map(|&(at, _)| at).chain([end]);
            let time: u128 = lifetimes.changes.iter().zip(ends).map(|(&(at, count), end)| u128::from(count) * u128::from(end.max(at) - at)).sum();
            prop_assert_eq!(time, lifetimes.time);
            prop_assert!(lifetimes.changes.iter().all(|&(_, count)| rule.least.min(most) <= count && count <= most));
        }
    }

    /// Equally urgent requests are admitted in the order in which they arrive.
    #[test]
    fn nobody_is_overtaken(mut fleet in fleets().prop_filter("in order", in_order), requests in requests(), arrivals in arrivals()) {
        fleet.engines.settings.priority = false;
        fleet.engines.front = Line::new(vec![0.0], vec![0.0]).unwrap();
        (fleet.engines.engines, fleet.engines.ranks, fleet.decode) = (1, 1, None);
        fleet.scaling = None;
        let arrivals = match open(&arrivals, requests.len()) {
            Arrivals::Sessions(first, _) => *first,
            alone => alone,
        };
        let found = run(&fleet, &requests, &arrivals, |_, _| true).unwrap();
        prop_assert!(found.records.windows(2).all(|pair| pair[0].admitted <= pair[1].admitted));
    }
}

fn alike(settings: Settings, timing: Timing, ranks: u32) -> Kind {
    let front = Line::new(vec![0.0], vec![0.0]).unwrap();
    let (acceptance, admission) = (vec![], Admission::default());
    Kind { engines: 1, ranks, stages: 1, settings, timing, acceptance, admission, front }
}

/// Steps of 1 ms on `ranks` ranks. Requests of 10 tokens arrive at 3 us, 5.5 ms and 9.5 ms, the
/// first one with a long output. When each is admitted, in ms.
fn admitted(ranks: u32, admission: Admission) -> Vec<u64> {
    let line = Line::new(vec![0.0], vec![1e-3]).unwrap();
    let terms = vec![Term {
        name: "step".into(),
        place: Place::Stages,
        table: Table::Rows(line),
        host: false,
    }];
    let timing =
        Timing { terms, graphs: vec![], mixed_graphs: false, eager: 0.0, overlapped: false };
    let settings = Settings { tokens: 40, ..plain() };
    let engines = Kind { admission, ..alike(settings, timing, ranks) };
    let fleet = Fleet { engines, decode: None, routing: Routing::RoundRobin, scaling: None };
    let request = |output: u32| Request {
        priority: 0,
        prompt: vec![Piece { content: 1, length: 10 }],
        output,
    };
    let arrivals = Arrivals::Open(vec![3_000_000, 5_500_000_000, 9_500_000_000]);
    let requests = [request(300), request(5), request(5)];
    let found = run(&fleet, &requests, &arrivals, |_, _| true).unwrap();
    found.records.iter().map(|record| record.admitted / 1_000_000_000).collect()
}

#[test]
fn an_idle_engine_takes_up_prompts_at_once_and_others_by_their_rule() {
    let held = |ranks, every, patience, part, balanced| {
        admitted(ranks, Admission { every, patience, part, balanced })
    };
    // The next steps begin at 6 and at 10 ms.
    assert_eq!(held(1, 0, 0, 0.0, false), [0, 6, 10]);
    // A look after the step of the first prompt, at 1 ms, and then after every 4 or 8 steps. The
    // second prompt is seen at 9 ms, and the look after its step finds the third one.
    assert_eq!(held(1, 4, 0, 0.0, false), [0, 9, 10]);
    assert_eq!(held(1, 8, 0, 0.0, false), [0, 9, 10]);
    assert_eq!(held(1, 3, 0, 0.0, false), [0, 7, 11]);
    // Prompts wait for 6 steps, or until half of 40 tokens are there.
    assert_eq!(held(1, 0, 6, 0.9, false), [0, 12, 12]);
    assert_eq!(held(1, 0, 6, 0.5, false), [0, 10, 10]);
    assert_eq!(held(1, 0, 2, 0.9, false), [0, 8, 12]);
    // On two ranks the first waits for a prompt on the other one.
    assert_eq!(held(2, 0, 20, 0.0, true), [0, 10, 10]);
    assert_eq!(held(2, 0, 2, 0.0, true), [0, 8, 12]);
}

/// Three stages of 2 ms. The host takes 0.5 ms once, on the first one, the head 1 ms on the last one,
/// and activations 0.25 ms between two of them.
#[test]
fn head_and_host_are_once_in_a_pass_and_activations_between_stages() {
    let term = |seconds: f64, place: Place, host: bool| Term {
        name: "part".into(),
        place,
        table: Table::Rows(Line::new(vec![0.0], vec![seconds]).unwrap()),
        host,
    };
    let terms = vec![
        term(2e-3, Place::Stages, false),
        term(1e-3, Place::Once, false),
        term(5e-4, Place::Once, true),
        term(2.5e-4, Place::Between, false),
    ];
    let timing =
        Timing { terms, graphs: vec![], mixed_graphs: false, eager: 0.0, overlapped: false };
    let settings = Settings { tokens: 10, ..plain() };
    let ends = |requests: usize, stages: u32, timing: &Timing| -> Vec<Vec<u64>> {
        let engines = Kind { stages, ..alike(settings.clone(), timing.clone(), 1) };
        let fleet = Fleet { engines, decode: None, routing: Routing::RoundRobin, scaling: None };
        let request =
            Request { priority: 0, prompt: vec![Piece { content: 1, length: 10 }], output: 3 };
        let all = vec![request; requests];
        let found = run(&fleet, &all, &Arrivals::Open(vec![0; requests]), |_, _| true).unwrap();
        let micros = |record: &Record| vec![record.first / 1_000_000, record.end / 1_000_000];
        found.records.iter().map(micros).collect()
    };
    // A pass takes 2.5 + 0.25 + 2 + 0.25 + 3 ms. One stage has it all, without a way.
    assert_eq!(ends(1, 3, &timing), [[8000, 24000]]);
    assert_eq!(ends(1, 1, &timing), [[3500, 10500]]);
    assert_eq!(ends(1, 2, &timing), [[5750, 17250]]);
    // With a step on each stage the last stage is the slowest: a token every 9 ms.
    assert_eq!(ends(3, 3, &timing), [[8000, 26000], [11000, 29000], [14000, 32000]]);
    // A host that works while a step runs is hidden, and each stage takes 2.2 ms without a graph.
    let hidden = Timing { overlapped: true, eager: 2.2e-3, ..timing };
    assert_eq!(ends(1, 3, &hidden), [[2200 + 250 + 2200 + 250 + 3000, 3 * 7900]]);
}

#[test]
fn a_request_is_known_after_the_front_has_read_it() {
    let line = Line::new(vec![0.0, 100.0], vec![0.01, 0.02]).unwrap();
    let mut fleet = Fleet {
        engines: alike(plain(), timing(0, false), 1),
        decode: None,
        routing: Routing::RoundRobin,
        scaling: None,
    };
    fleet.engines.front = line;
    let request = |length: u32| Request {
        priority: 0,
        prompt: vec![Piece { content: 1, length }],
        output: 2,
    };
    let closed = Arrivals::Closed(1);
    let found = run(&fleet, &[request(100), request(50)], &closed, |_, _| true).unwrap();
    let [first, second] = [found.records[0], found.records[1]];
    assert_eq!((first.arrival, first.admitted), (0, 20_000_000_000));
    assert_eq!((second.arrival, second.admitted - second.arrival), (first.end, 15_000_000_000));
}

/// Contexts of one request grow token by token: the time of each step is that of the tables.
#[test]
fn a_single_request_takes_the_time_of_its_steps() {
    let settings = plain();
    let timing = timing(0, false);
    let request =
        Request { priority: 0, prompt: vec![Piece { content: 1, length: 100 }], output: 11 };
    let fleet = Fleet {
        engines: alike(settings, timing, 1),
        decode: None,
        routing: Routing::RoundRobin,
        scaling: None,
    };
    let found = run(&fleet, &[request], &Arrivals::Open(vec![5]), |_, _| true).unwrap();
    let host = 5e-4 + 1e-6;
    // Two chunks of the prompt, of 64 and 36 tokens, launched one by one.
    let chunk = |rows: f64, before: f64, sampled: f64| {
        let device: f64 = 1e-3 + 1e-5 * rows + 1e-4 + 1e-6 * rows + 1e-6 * sampled + 2e-6 * rows;
        let _ = before;
        device.max(2e-3) + host
    };
    let first = chunk(64.0, 0.0, 0.0) + chunk(36.0, 64.0, 1.0);
    let decode = |context: f64| {
        let attention = 1e-7 + (context - 100.0) / 900.0 * 1.9e-6;
        1e-3 + 1e-5 + 1e-4 + 1e-6 + 1e-6 + 2.0 * attention + host
    };
    let rest: f64 = (101..111).map(|context| decode(f64::from(context))).sum();
    let ps = |seconds: f64| (seconds * 1e12).round() as u64;
    let record = found.records[0];
    assert!(record.first.abs_diff(5 + ps(first)) <= 2, "{} {}", record.first, ps(first));
    assert!(
        (record.end - record.first).abs_diff(ps(rest)) <= 10,
        "{} {}",
        record.end - record.first,
        ps(rest)
    );
    assert_eq!(found.gaps.count, 10);
}
