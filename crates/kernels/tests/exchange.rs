//! Dispatch and combine of experts against the data sheet, counting, and what users may ask.

use kernels::exchange::{Backend, Shape, Spread, Stage};
use kernels::{Chip, Estimate, Format, Kernel, Kernels, Rates, combine, dispatch};
use proptest::prelude::*;
use units::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span};

const LINK: f64 = 450e9;
const NETWORK: f64 = 50e9;

fn ratio(value: f64) -> Ratio {
    Ratio((value * 1e6).round() as u64)
}

fn ns(value: u64) -> Span {
    Span(value * 1000)
}

const fn us(value: u64) -> Span {
    Span(value * 1_000_000)
}

fn kernels() -> Kernels {
    let normal = dispatch::Normal {
        launch: us(25),
        width: ns(300),
        barrier: us(34),
        token: ns(200),
        row: ns(27),
        copy: ratio(29.0),
        link: ratio(0.74),
        nic: ratio(0.96),
        forward: ns(400),
        pass: ratio(30.0),
    };
    let prepare = dispatch::Prepare { launch: us(11), doubling: ns(700), token: ns(7) };
    let dispatch::Normal { launch, width, barrier, token, copy, link, nic, forward, pass, .. } =
        normal;
    let reduce = ns(94);
    let results =
        combine::Normal { launch, width, barrier, token, reduce, copy, link, nic, forward, pass };
    let (launch, rank, token, convert) = (us(11), ns(100), ns(20), ns(80));
    let (link, memory) = (ratio(0.75), ratio(0.2));
    let send = dispatch::LowLatency {
        launch: us(4),
        rank: ns(200),
        expert: ns(14),
        network: us(8),
        token: ns(1700),
        copy: ratio(6.4),
        link: ratio(0.7),
        nic: ratio(0.95),
    };
    let back = combine::LowLatency {
        launch: us(9),
        rank: ns(30),
        expert: ns(6),
        network: us(13),
        copy: ratio(19.3),
        link: ratio(0.69),
        nic: ratio(0.95),
        memory: ratio(0.4),
    };
    Kernels {
        generation: "none".into(),
        multiprocessors: 132,
        clock: Frequency(1_830_000_000),
        l2_cache: Bytes(50_000_000),
        peak_int8: None,
        dispatch: Some(dispatch::Parameters {
            deepep_ll: Some(send),
            deepep_normal: Some(normal),
            trtllm: Some(dispatch::Direct { launch, rank, token, link, memory }),
            trtllm_two_sided: Some(dispatch::TwoSided {
                launch,
                rank,
                token,
                prepare: Some(prepare),
                link,
                memory,
            }),
        }),
        combine: Some(combine::Parameters {
            deepep_ll: Some(back),
            deepep_normal: Some(results),
            trtllm: Some(combine::Direct { launch, rank, token, link, memory }),
            trtllm_two_sided: Some(combine::TwoSided {
                launch,
                rank,
                token,
                convert,
                link,
                memory,
            }),
        }),
        gemm: None,
        allreduce: None,
        experts: None,
        stream: None,
        attention: None,
        mla: None,
        measured: None,
    }
}

/// A GPU in nodes of `node`, with a network or without one.
fn chip(node: u32, network: bool) -> Chip {
    let usual = Flops(989_000_000_000_000);
    let rates = Rates { usual, fp4: None, fp8: None, fp32: None };
    let (memory, link) = (Bandwidth(3_350_000_000_000), Bandwidth(LINK as u64));
    Chip::new(kernels().sheet(), rates, memory, link, node)
        .behind(network.then_some(Bandwidth(NETWORK as u64)))
}

fn time(chip: &Chip, kernel: Kernel) -> Result<Estimate, String> {
    kernels().estimate(chip, &kernel).map_err(|refused| refused.reason().to_string())
}

const LAYER: Shape = Shape {
    tokens: 128,
    hidden: 7168,
    experts: 256,
    top_k: 8,
    ep: 8,
    sms: 20,
    groups: 0,
    format: Format::Bf16,
    backend: Backend::DeepepLl,
    routing: Spread::Random,
    stage: Stage::Whole,
};

/// Ranks by nodes of 8, or in one domain of 64 for TensorRT-LLM.
fn node(shape: &Shape) -> u32 {
    match shape.backend {
        Backend::DeepepLl | Backend::DeepepNormal => 8,
        _ => 64,
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let backend = prop::sample::select(vec![
        Backend::DeepepLl,
        Backend::DeepepNormal,
        Backend::Trtllm,
        Backend::TrtllmTwoSided,
    ]);
    let routing = prop::sample::select(vec![Spread::Random, Spread::Balanced]);
    let counts = (1..100_000_u64, 1..64_u64, 0..7_u32, 1..5_u64, 1..13_u64, 1..20_u64);
    (counts, backend, routing).prop_map(
        |((tokens, blocks, ranks, own, top_k, pairs), backend, routing)| {
            let ep = 1 << ranks;
            let experts = ep * own;
            Shape {
                tokens,
                hidden: 128 * blocks,
                experts,
                top_k: top_k.min(experts),
                ep,
                sms: 2 * pairs,
                backend,
                routing,
                ..LAYER
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn more_tokens_are_never_faster(shape in shape(), more in 1..1000_u64) {
        let chip = chip(node(&shape), true);
        let longer = Shape { tokens: shape.tokens + more, ..shape };
        for of in [Kernel::Dispatch, Kernel::Combine] {
            let (one, two) = (time(&chip, of(shape)).unwrap(), time(&chip, of(longer)).unwrap());
            prop_assert!(two.seconds >= one.seconds && two.bytes > one.bytes);
        }
    }

    #[test]
    fn no_call_beats_its_links_or_its_network(shape in shape()) {
        let (chip, copies) = (chip(node(&shape), true), shape.copies(u64::from(node(&shape))));
        let bytes = (shape.tokens * shape.hidden) as f64 * shape.format.bytes();
        for of in [Kernel::Dispatch, Kernel::Combine] {
            let found = time(&chip, of(shape)).unwrap();
            prop_assert!(found.seconds >= bytes * copies.link / LINK);
            prop_assert!(found.seconds >= bytes * copies.network / NETWORK);
            prop_assert!(found.parts.iter().all(|&(_, part)| part <= found.seconds * (1.0 + 1e-9)));
        }
    }

    #[test]
    fn more_ranks_send_more_between_nodes(shape in shape()) {
        let wider = Shape { ep: 2 * shape.ep, experts: 2 * shape.experts, ..shape };
        let same = Shape { experts: 2 * shape.experts, ..shape };
        let node = u64::from(node(&shape));
        prop_assert!(wider.copies(node).network >= same.copies(node).network - 1e-9);
        prop_assert!(wider.copies(node).all >= same.copies(node).all - 1e-9);
    }

    #[test]
    fn one_rank_sends_nothing(shape in shape()) {
        let alone = Shape { ep: 1, ..shape };
        let copies = alone.copies(8);
        prop_assert_eq!((copies.link, copies.network, copies.nodes), (0.0, 0.0, 1.0));
        for of in [Kernel::Dispatch, Kernel::Combine] {
            let found = time(&chip(8, false), of(alone)).unwrap();
            let sent = |&&(name, _): &&(&str, f64)| name == "link" || name == "network";
            prop_assert!(found.parts.iter().filter(sent).all(|&(_, part)| part == 0.0));
        }
    }

    #[test]
    fn copies_count_every_expert_once(shape in shape()) {
        let node = u64::from(node(&shape));
        let copies = shape.copies(node);
        let ranks = shape.top_k.min(shape.ep) as f64;
        let most = if shape.backend == Backend::DeepepLl { shape.top_k as f64 } else { ranks };
        prop_assert!(copies.all <= most + 1e-9 && copies.all >= 1.0 - 1e-9);
        prop_assert!(copies.link <= copies.all + 1e-9 && copies.network <= copies.all + 1e-9);
        prop_assert!(copies.nodes <= ranks + 1e-9);
    }
}

/// Every choice of 3 of 8 experts on 4 ranks, one by one.
#[test]
fn copies_equal_the_mean_over_every_choice() {
    let (mut ranks, mut nodes, mut choices) = (0, 0, 0);
    for chosen in 0_u32..256 {
        if chosen.count_ones() == 3 {
            let held = |own: u32| {
                (0..8 / own).filter(move |at| chosen >> (at * own) & ((1 << own) - 1) > 0)
            };
            ranks += held(2).count();
            nodes += held(4).count();
            choices += 1;
        }
    }
    let layer = Shape { experts: 8, top_k: 3, ep: 4, backend: Backend::DeepepNormal, ..LAYER };
    let found = layer.copies(2);
    let mean = |sum: usize| sum as f64 / f64::from(choices);
    assert!((found.all - mean(ranks)).abs() < 1e-12);
    assert!((found.nodes - mean(nodes)).abs() < 1e-12);
    assert!((found.network - mean(nodes) / 2.0).abs() < 1e-12);
}

/// DeepSeek-V3 on 8 nodes: 3.6 nodes and 7.4 ranks for a token of 8 experts on 4 nodes.
#[test]
fn a_token_is_sent_once_to_each_node() {
    let layer = Shape { ep: 64, groups: 4, backend: Backend::DeepepNormal, ..LAYER };
    let found = layer.copies(8);
    assert!((found.nodes - 3.6).abs() < 0.05 && (found.all - 7.2).abs() < 0.3, "{found:?}");
    let each = Shape { backend: Backend::DeepepLl, groups: 0, ..layer };
    assert_eq!(each.copies(8).network, 7.0);
    let unlimited = Shape { groups: 0, ..layer };
    assert!(unlimited.copies(8).network > found.network);
}

#[test]
fn times_stay_as_they_were() {
    let mut sum = 0.0;
    for backend in
        [Backend::DeepepLl, Backend::DeepepNormal, Backend::Trtllm, Backend::TrtllmTwoSided]
    {
        for (ep, tokens) in [(1, 1), (4, 100), (8, 4096), (32, 777), (64, 100_000)] {
            let shape = Shape { ep, tokens, backend, ..LAYER };
            let chip = chip(node(&shape), true);
            sum += time(&chip, Kernel::Dispatch(shape)).unwrap().seconds;
            sum += time(&chip, Kernel::Combine(shape)).unwrap().seconds;
        }
    }
    assert_eq!(format!("{:.9}", 1e3 * sum), DIGEST);
}

/// Milliseconds of the calls of `times_stay_as_they_were` together.
const DIGEST: &str = "873.566512786";

#[test]
fn what_is_refused_says_a_way_out() {
    let normal = Shape { backend: Backend::DeepepNormal, ..LAYER };
    let direct = Shape { backend: Backend::Trtllm, ..LAYER };
    let cases: Vec<(Shape, &str)> = vec![
        (Shape { tokens: 0, ..LAYER }, "at least 1"),
        (Shape { ep: 0, ..LAYER }, "at least 1"),
        (Shape { top_k: 257, experts: 512, ..LAYER }, "top_k is at most 256"),
        (Shape { top_k: 9, experts: 8, ..LAYER }, "top_k is at most 256 and the number"),
        (Shape { experts: 250, ..LAYER }, "250 experts do not divide by ep 8"),
        (Shape { experts: 1 << 40, ..LAYER }, "at most 1048576"),
        (Shape { hidden: 7000, ..LAYER }, "multiple of 128"),
        (Shape { hidden: 7176, ..direct }, "multiple of 16"),
        (Shape { ep: 12, experts: 252, ..LAYER }, "multiple of 8, or at most 8"),
        (Shape { ep: 16, ..direct }, "take deepep_ll or deepep_normal"),
        (Shape { stage: Stage::Prepare, ..LAYER }, "take stage=whole"),
        (Shape { groups: 2, ep: 32, ..LAYER }, "leave them out"),
        (Shape { groups: 5, ep: 32, ..normal }, "groups 5 are more than 4 nodes"),
        (Shape { groups: 1, ep: 64, experts: 56, top_k: 8, ..normal }, "do not divide"),
        (Shape { groups: 1, ep: 64, experts: 64, top_k: 9, ..normal }, "fewer experts than top_k"),
        (Shape { sms: 7, ..normal }, "sms is even"),
        (Shape { sms: 134, ..normal }, "132 multiprocessors"),
        (Shape { format: Format::Int8, ..LAYER }, "does not send int8 here: take format="),
    ];
    for (shape, said) in cases {
        for of in [Kernel::Dispatch, Kernel::Combine] {
            let found = time(&chip(8, true), of(shape)).unwrap_err();
            assert!(found.contains(said), "{found}");
        }
    }
    let far = Shape { ep: 16, ..LAYER };
    let found = time(&chip(8, false), Kernel::Dispatch(far)).unwrap_err();
    assert!(found.contains("such as dgx-h100-16n"), "{found}");
    let domain = Shape { ep: 16, ..normal };
    let found = time(&chip(72, true), Kernel::Dispatch(domain)).unwrap_err();
    assert!(found.contains("more than 8: take deepep_ll or trtllm"), "{found}");
    let four = Shape { format: Format::Nvfp4, ..direct };
    assert!(time(&chip(8, true), Kernel::Dispatch(four)).is_ok());
    let found = time(&chip(8, true), Kernel::Combine(four)).unwrap_err();
    assert!(found.contains("take format=bf16"), "{found}");
}
