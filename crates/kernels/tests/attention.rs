//! Attention and latent attention against the data sheet, limits of theory, and what users may ask.

use kernels::flash::{Around, Decode, Engine, Machine, Phase, Prefill};
use kernels::{Chip, Format, Kernel, Kernels, Rates, attention, mla};
use proptest::prelude::*;
use units::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span};

const PEAK: f64 = 989e12;
const MEMORY: f64 = 3350e9;
const L2: f64 = 50e6;

fn ratio(value: f64) -> Ratio {
    Ratio((value * 1e6).round() as u64)
}

fn us(value: f64) -> Span {
    Span((value * 1e6).round() as u64)
}

fn machine(tile: u32) -> Machine {
    Machine {
        tile,
        exponential: ratio(0.9),
        fp8: ratio(0.9),
        step: 300,
        tail: ratio(0.5),
        l2: ratio(18.0),
        kept: ratio(0.7),
        fp8_traffic: ratio(1.3),
        resident: ratio(0.8),
        combine: 5000,
        stream: ratio(100.0),
        memory: ratio(0.9),
        decode_l2: ratio(13.0),
        decode_kept: ratio(0.4),
    }
}

const PREFILL: Prefill = Prefill {
    launch: Span(8_000_000),
    efficiency: Ratio(800_000),
    wide: Ratio(200_000),
    tile: 3000,
    traffic: Ratio::ONE,
};
const DECODE: Decode = Decode {
    launch: Span(8_000_000),
    efficiency: Ratio(500_000),
    block: 6000,
    block_fp8: 4000,
    wait: 100,
    split: 200,
    split_fp8: 400,
    convert: Ratio(1_300_000),
};

fn kernels(tile: u32) -> Kernels {
    let around =
        Around { prefill: us(1.0), decode: us(1.0), fp8_prefill: us(2.0), fp8_decode: us(2.0) };
    let library = attention::Library { prefill: PREFILL, decode: DECODE };
    let latent = mla::Library { prefill: PREFILL, decode: DECODE };
    Kernels {
        generation: "none".into(),
        multiprocessors: 132,
        clock: Frequency(1_830_000_000),
        l2_cache: Bytes(L2 as u64),
        peak_int8: None,
        attention: Some(attention::Parameters {
            machine: machine(tile),
            sglang: around,
            trtllm: around,
            vllm: around,
            scalar: attention::Scalar { packed: 2, block: 2500, block_fp8: 3000, split: 100 },
            backward: ratio(2.5),
            flash2: Some(library),
            flash3: Some(library),
            flashinfer: Some(library),
            tensorrt: Some(library),
            triton: None,
        }),
        mla: Some(mla::Parameters {
            machine: machine(tile),
            sglang: around,
            trtllm: around,
            vllm: around,
            flash3: Some(latent),
            flashmla: None,
            tensorrt: Some(latent),
            triton: None,
        }),
        gemm: None,
        allreduce: None,
        experts: None,
        dispatch: None,
        combine: None,
        stream: None,
        measured: None,
    }
}

fn estimate(tile: u32, kernel: Kernel) -> Result<kernels::Estimate, String> {
    let kernels = kernels(tile);
    let rates = Rates {
        usual: Flops(PEAK as u64),
        fp4: None,
        fp8: Some(Flops(2 * PEAK as u64)),
        fp32: None,
    };
    let chip =
        Chip::new(kernels.sheet(), rates, Bandwidth(MEMORY as u64), Bandwidth(450_000_000_000), 8);
    kernels.estimate(&chip, &kernel).map_err(|refused| refused.reason().to_string())
}

fn shape() -> impl Strategy<Value = attention::Shape> {
    use attention::Source::{Flash2, Flash3, Flashinfer, Tensorrt};
    let source = prop::sample::select(vec![Flash2, Flash3, Flashinfer, Tensorrt]);
    let engine = prop::sample::select(vec![Engine::Sglang, Engine::Trtllm, Engine::Vllm]);
    let format = || prop::sample::select(vec![Format::Bf16, Format::Fp8]);
    let counts = (1..300_u32, 1..20_000_u32, 0..5_u32, 0..8_u32, 1..5_u32, 0..3_u32);
    (counts, any::<bool>(), format(), format(), source, engine).prop_map(
        |((batch, length, kv, group, dim, window), decode, format, cache, source, engine)| {
            attention::Shape {
                phase: if decode { Phase::Decode } else { Phase::Prefill },
                batch,
                length,
                heads: 1 << (kv + group),
                kv_heads: 1 << kv,
                head_dim: 64 * dim,
                window: [0, 128, 1024][window as usize],
                format,
                cache,
                source,
                engine,
                direction: attention::Direction::Forward,
            }
        },
    )
}

fn latent() -> impl Strategy<Value = mla::Shape> {
    let format = || prop::sample::select(vec![Format::Bf16, Format::Fp8]);
    let counts = (1..300_u32, 1..20_000_u32, 0..8_u32);
    (counts, any::<bool>(), any::<bool>(), format(), format()).prop_map(
        |((batch, length, heads), decode, absorbed, format, cache)| mla::Shape {
            phase: if decode { Phase::Decode } else { Phase::Prefill },
            batch,
            length,
            heads: 1 << heads,
            format,
            cache,
            form: if absorbed { mla::Form::Absorbed } else { mla::Form::Expanded },
            source: mla::Source::Tensorrt,
            engine: Engine::Trtllm,
        },
    )
}

/// A kernel is no faster than its data sheet, and all its numbers are finite.
fn above_the_roofline(phase: Phase, format: Format, found: &kernels::Estimate) {
    let peak = if format == Format::Fp8 { 2.0 * PEAK } else { PEAK };
    assert!(found.seconds.is_finite() && found.seconds > 0.0);
    assert!(found.seconds >= found.operations / peak, "{found:?}");
    if phase == Phase::Decode {
        assert!(found.seconds >= (found.bytes - L2) / MEMORY, "{found:?}");
    }
    assert!(found.parts.iter().all(|(_, seconds)| seconds.is_finite() && *seconds >= 0.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn attention_keeps_above_the_roofline_and_grows(
        shape in shape(), tile in prop::sample::select(vec![64_u32, 128]), more in 1..500_u32,
    ) {
        let of = |shape| estimate(tile, Kernel::Attention(shape)).unwrap();
        let found = of(shape);
        above_the_roofline(shape.phase, shape.format, &found);
        let longer = of(attention::Shape { length: shape.length + more, ..shape });
        let wider = of(attention::Shape { batch: shape.batch + more, ..shape });
        prop_assert!(longer.seconds >= found.seconds * (1.0 - 1e-9), "{found:?} {longer:?}");
        prop_assert!(wider.seconds >= found.seconds * (1.0 - 1e-9), "{found:?} {wider:?}");
        prop_assert!(longer.operations > found.operations || shape.phase == Phase::Decode);
    }

    #[test]
    fn a_window_saves_time_and_one_that_holds_all_does_nothing(shape in shape()) {
        let of = |window| {
            let source = attention::Source::Flash3;
            estimate(128, Kernel::Attention(attention::Shape { window, source, ..shape })).unwrap()
        };
        prop_assert_eq!(of(0), of(20_000));
        prop_assert!(of(128).seconds <= of(1024).seconds && of(1024).seconds <= of(0).seconds);
    }

    #[test]
    fn latent_attention_keeps_above_the_roofline_and_grows(shape in latent(), more in 1..500_u32) {
        let of = |shape| estimate(128, Kernel::Mla(shape)).unwrap();
        let found = of(shape);
        above_the_roofline(shape.phase, shape.format, &found);
        let longer = of(mla::Shape { length: shape.length + more, ..shape });
        let wider = of(mla::Shape { batch: shape.batch + more, ..shape });
        prop_assert!(longer.seconds >= found.seconds * (1.0 - 1e-9), "{found:?} {longer:?}");
        prop_assert!(wider.seconds >= found.seconds * (1.0 - 1e-9), "{found:?} {wider:?}");
    }
}

const LONG: attention::Shape = attention::Shape {
    phase: Phase::Prefill,
    batch: 16,
    length: 65_536,
    heads: 32,
    kv_heads: 8,
    head_dim: 128,
    window: 0,
    format: Format::Bf16,
    cache: Format::Bf16,
    source: attention::Source::Flash3,
    engine: Engine::Vllm,
    direction: attention::Direction::Forward,
};

#[test]
fn long_prompts_take_the_products_and_the_exponentials() {
    let found = estimate(128, Kernel::Attention(LONG)).unwrap();
    let scores = found.operations / (4.0 * 128.0);
    let exponentials = scores * 0.9 / (16.0 * 132.0 * 1.83e9);
    let expected = found.operations / (0.8 * PEAK) + exponentials;
    assert!((found.seconds / expected - 1.0).abs() < 0.05, "{} {expected}", found.seconds);
}

#[test]
fn long_decode_takes_the_cache_over_the_memory() {
    let shape = attention::Shape { phase: Phase::Decode, batch: 64, ..LONG };
    let found = estimate(128, Kernel::Attention(shape)).unwrap();
    let cache = 64.0 * 65_536.0 * 8.0 * 128.0 * 2.0 * 2.0;
    let expected = cache / (0.9 * MEMORY);
    assert!((found.seconds / expected - 1.0).abs() < 0.15, "{} {expected}", found.seconds);
    // Latents are shared by all heads: 576 numbers a token, however many heads there are.
    let latent = |heads| mla::Shape {
        phase: Phase::Decode,
        batch: 64,
        length: 65_536,
        heads,
        format: Format::Bf16,
        cache: Format::Bf16,
        form: mla::Form::Absorbed,
        source: mla::Source::Tensorrt,
        engine: Engine::Trtllm,
    };
    let few = estimate(128, Kernel::Mla(latent(1))).unwrap();
    let many = estimate(128, Kernel::Mla(latent(16))).unwrap();
    assert!((few.seconds / (64.0 * 65_536.0 * 1152.0 / (0.9 * MEMORY)) - 1.0).abs() < 0.15);
    assert!(many.seconds < few.seconds * 1.05);
}

#[test]
fn a_backward_pass_does_two_and_a_half_times_the_products() {
    let direction = attention::Direction::Backward;
    let forward = estimate(128, Kernel::Attention(LONG)).unwrap();
    let backward =
        estimate(128, Kernel::Attention(attention::Shape { direction, ..LONG })).unwrap();
    assert_eq!(backward.operations, 2.5 * forward.operations);
    let launch = forward.parts[0].1;
    let ratio = (backward.seconds - launch) / (forward.seconds - launch);
    assert!((ratio - 2.5).abs() < 1e-9, "{ratio}");
}

#[test]
fn what_has_no_time_is_refused() {
    use attention::{Direction, Source};
    for (shape, said) in [
        (attention::Shape { batch: 0, ..LONG }, "at least 1"),
        (attention::Shape { kv_heads: 5, ..LONG }, "must be a multiple"),
        (attention::Shape { head_dim: 2048, ..LONG }, "head_dim"),
        (attention::Shape { source: Source::Triton, ..LONG }, "npu.kernels.attention.triton"),
        (attention::Shape { cache: Format::Nvfp4, ..LONG }, "use bf16, fp16 or fp8"),
        (
            attention::Shape { phase: Phase::Decode, direction: Direction::Backward, ..LONG },
            "no backward pass",
        ),
    ] {
        let reason = estimate(128, Kernel::Attention(shape)).unwrap_err();
        assert!(reason.contains(said), "{reason}");
    }
}
