//! Layers of experts: the products of the experts of one rank, as inference engines compute them.
//!
//! A router sends each token to `top_k` experts. Weights of the experts that have a token stream
//! from memory, or from the L2 cache where they fit. Rows of each expert are cut into tiles. Two
//! grouped products follow each other, gate and up together, then down:
//!
//! ```text
//! time = launch + experts * expert
//!      + sum over products of (2-norm(memory, compute) + k * step + tiles * tile)
//!      + passes over the rows of all choices and over those of this rank
//! compute = 2 * n * k * tiles * (rows of a tile + extra rows) / (peak * compute)
//! rate of memory = bandwidth * part * (1 + (cached - 1) / (1 + (bytes / (reach * L2))^4))
//! ```
//!
//! Passes are the kernels around the products: permutation, activation, conversion and the sum over
//! choices. Passes over choices also touch those of experts on other ranks.
//!
//! Source: the fit to measured layers that docs/models/kernels.md describes; tiles, alignment and
//! what is padded from the code of the libraries.

use crate::routing::{Routed, Routing};
use crate::values::{part, seconds, word};
use crate::{Chip, Estimate, Format as Sheet, Refused};
use declared::section;
use serde::{Deserialize, Serialize};
use units::{Ratio, Span};

section! {
    /// Layers of experts, by the library of their products.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Parameters {
        /// Triton's kernels.
        pub triton: Option<Code>, default None;
        /// Marlin's kernels: 4-bit weights, multiplied as 16-bit floats by each warp.
        pub marlin: Option<Code>, default None;
        /// CUTLASS, tuned.
        pub cutlass: Option<Code>, default None;
        /// CUTLASS as FlashInfer calls it without tuning.
        pub flashinfer: Option<Code>, default None;
        /// TensorRT-LLM's generated kernels.
        pub generated: Option<Code>, default None;
        /// The package `triton_kernels`.
        pub triton_kernels: Option<Code>, default None;
        /// Triton's kernels over 4-bit weights that are widened first.
        pub widened: Option<Code>, default None;
    }
}

section! {
    /// Grouped products of a library.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Code {
        /// Time of all kernels of an empty layer, in TensorRT-LLM.
        pub trtllm: Span, required "20 us";
        /// Time of all kernels of an empty layer, in vLLM.
        pub vllm: Span, required "20 us";
        /// Time of all kernels of an empty layer, in SGLang.
        pub sglang: Span, required "20 us";
        /// Part of the memory bandwidth that weights reach.
        pub memory: Ratio, required "0.9";
        /// Rate of bytes in the L2 cache over that of the memory.
        pub cached: Ratio, required "4";
        /// Part of the L2 cache that keeps weights from call to call.
        pub reach: Ratio, required "0.5";
        /// Rows that a tile costs beyond its own.
        pub extra_rows: Ratio, required "20";
        /// Latency of 1,000 elements of `k`.
        pub step: Span, required "1 us";
        /// Time of an empty tile.
        pub tile: Span, required "0.3 us";
        /// Time that each active expert adds.
        pub expert: Span, default Span::ZERO;
        /// How much longer products take where rows of weights are not whole blocks of 16 elements.
        pub misaligned: Ratio, default Ratio(1_000_000);
        /// Passes over the hidden state of each choice, in 16 bits.
        pub passes: Ratio, required "2";
        /// 16-bit floats.
        pub bf16: Option<Path>, default None;
        /// 8-bit floats.
        pub fp8: Option<Path>, default None;
        /// 8-bit floats with a scale for each block.
        pub fp8_block: Option<Path>, default None;
        /// Weights of 4-bit integers, 16-bit activations.
        pub int4: Option<Path>, default None;
        /// NVIDIA's 4-bit floats.
        pub nvfp4: Option<Path>, default None;
        /// Weights of OCP's 4-bit floats, 16-bit activations.
        pub mxfp4: Option<Path>, default None;
        /// Weights of OCP's 4-bit floats, activations of OCP's 8-bit floats.
        pub mxfp4_mxfp8: Option<Path>, default None;
    }
}

section! {
    /// Grouped products of a library in one number format.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Path {
        /// Part of the peak rate.
        pub compute: Ratio, required "0.6";
        /// Passes over the inner state of each choice, in 16 bits.
        pub inner: Ratio, required "3";
        /// Passes over the rows of this rank, in 16 bits.
        pub rows: Ratio, required "2";
    }
}

/// Number formats of weights and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// 16-bit floats.
    Bf16,
    /// 8-bit floats.
    Fp8,
    /// 8-bit floats with a scale for each block.
    Fp8Block,
    /// Weights of 4-bit integers with a scale for each 32, 16-bit activations.
    Int4,
    /// NVIDIA's 4-bit floats.
    Nvfp4,
    /// Weights of OCP's 4-bit floats, 16-bit activations.
    Mxfp4,
    /// Weights of OCP's 4-bit floats, activations of OCP's 8-bit floats.
    Mxfp4Mxfp8,
}

impl Format {
    /// Bytes of a weight with its part of the scales, and of an activation.
    const fn bytes(self) -> (f64, f64) {
        match self {
            Format::Bf16 => (2.0, 2.0),
            Format::Fp8 | Format::Fp8Block => (1.0, 1.0),
            Format::Int4 => (0.5 + 2.0 / 32.0, 2.0),
            Format::Nvfp4 => (0.5 + 1.0 / 16.0, 0.5),
            Format::Mxfp4 => (0.5 + 1.0 / 32.0, 2.0),
            Format::Mxfp4Mxfp8 => (0.5 + 1.0 / 32.0, 1.0),
        }
    }

    /// Format of the products.
    const fn multiplied(self) -> Sheet {
        match self {
            Format::Bf16 | Format::Int4 | Format::Mxfp4 => Sheet::Bf16,
            Format::Fp8 | Format::Fp8Block | Format::Mxfp4Mxfp8 => Sheet::Fp8,
            Format::Nvfp4 => Sheet::Nvfp4,
        }
    }

    const fn of(self, code: &Code) -> Option<Path> {
        match self {
            Format::Bf16 => code.bf16,
            Format::Fp8 => code.fp8,
            Format::Fp8Block => code.fp8_block,
            Format::Int4 => code.int4,
            Format::Nvfp4 => code.nvfp4,
            Format::Mxfp4 => code.mxfp4,
            Format::Mxfp4Mxfp8 => code.mxfp4_mxfp8,
        }
    }
}

/// Libraries of grouped products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernels {
    /// Triton's kernels.
    Triton,
    /// Marlin's kernels.
    Marlin,
    /// CUTLASS, tuned.
    Cutlass,
    /// CUTLASS as FlashInfer calls it without tuning.
    Flashinfer,
    /// TensorRT-LLM's generated kernels.
    Generated,
    /// The package `triton_kernels`.
    TritonKernels,
    /// Triton's kernels over weights that are widened first.
    Widened,
}

/// How a library cuts products.
struct Cut {
    /// Fewest and most rows of a tile, powers of two.
    rows: (u64, u64),
    /// Rows of a tile over the mean rows of an expert, before rounding up.
    over_mean: f64,
    /// The inner size is padded to a multiple of this.
    pad: f64,
    /// Whether rows of weights that are not whole blocks of 16 elements load slowly.
    blocks: bool,
}

impl Kernels {
    const fn of(self, own: &Parameters) -> Option<Code> {
        match self {
            Kernels::Triton => own.triton,
            Kernels::Marlin => own.marlin,
            Kernels::Cutlass => own.cutlass,
            Kernels::Flashinfer => own.flashinfer,
            Kernels::Generated => own.generated,
            Kernels::TritonKernels => own.triton_kernels,
            Kernels::Widened => own.widened,
        }
    }

    const fn cut(self) -> Cut {
        let (rows, over_mean, pad, blocks) = match self {
            Kernels::Triton => ((16, 128), 1.0, 64.0, true),
            Kernels::Marlin => ((8, 64), 1.0, 64.0, false),
            Kernels::Cutlass => ((16, 128), 0.5, 128.0, false),
            Kernels::Flashinfer => ((64, 128), 1.0, 128.0, false),
            Kernels::Generated => ((16, 64), 4.0, 128.0, false),
            Kernels::TritonKernels => ((8, 128), 1.0, 128.0, false),
            Kernels::Widened => ((16, 128), 0.5, 64.0, true),
        };
        Cut { rows, over_mean, pad, blocks }
    }

    /// Peak rate in a format. Marlin's warps multiply at Ampere's 2,048 operations a clock.
    fn peak(self, chip: &Chip, format: Format) -> Result<f64, Refused> {
        let sheet = chip.peak(format.multiplied())?;
        let warps = chip.multiprocessors * chip.clock * 2048.0;
        Ok(if self == Kernels::Marlin { sheet.min(warps) } else { sheet })
    }
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// TensorRT-LLM.
    Trtllm,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

/// Choices that a rank computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choices {
    /// Those of its own experts.
    Own,
    /// Every choice of the tokens that reach it.
    All,
}

/// A layer of experts on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Tokens.
    pub tokens: u64,
    /// Width of a token.
    pub hidden: u64,
    /// Inner width of an expert, of all ranks.
    pub inner: u64,
    /// Experts of the layer.
    pub experts: u64,
    /// Experts of each token.
    pub top_k: u64,
    /// Ranks that share each expert.
    pub tp: u64,
    /// Ranks that share the experts.
    pub ep: u64,
    /// Matrices of an expert: 3 with a gate, 2 without.
    pub matrices: u64,
    /// Number format.
    pub format: Format,
    /// Library of the products.
    pub kernels: Kernels,
    /// Engine.
    pub library: Library,
    /// How the router spreads tokens.
    pub routing: Routing,
    /// Choices that the rank computes.
    pub choices: Choices,
}

impl Shape {
    fn checked(&self) -> Result<(), Refused> {
        let counts =
            [self.tokens, self.hidden, self.inner, self.experts, self.top_k, self.tp, self.ep];
        let refused = |text: &str| Err(Refused::new(text));
        match () {
            () if counts.contains(&0) => refused("counts of experts start at 1"),
            () if self.tokens > 1 << 22 || self.experts > 1 << 14 => {
                refused("at most 4,194,304 tokens and 16,384 experts")
            }
            () if self.hidden.max(self.inner) > 1 << 24 => refused("widths are at most 16,777,216"),
            () if self.top_k > self.experts => refused("top_k exceeds experts"),
            () if !self.experts.is_multiple_of(self.ep) => refused("ep must divide experts"),
            () if !self.inner.is_multiple_of(self.tp) => refused("tp must divide inner"),
            () if !(2..=3).contains(&self.matrices) => refused("matrices is 2 or 3"),
            () => Ok(()),
        }
    }
}

/// Time of a layer of experts on one rank.
pub fn estimate(chip: &Chip, own: Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    shape.checked()?;
    let library = format!("experts.{}", word(shape.kernels));
    let code = shape.kernels.of(&own).ok_or_else(|| Refused::lacking(&library))?;
    let lacking = || Refused::lacking(&format!("{library}.{}", word(shape.format)));
    let path = shape.format.of(&code).ok_or_else(lacking)?;
    let cut = shape.kernels.cut();
    let mean = (shape.tokens * shape.top_k) as f64 / shape.experts as f64 * cut.over_mean;
    let mut tile = cut.rows.0;
    while tile < cut.rows.1 && (tile as f64) < mean {
        tile *= 2;
    }
    let routed =
        Routed { tokens: shape.tokens, experts: shape.experts, top_k: shape.top_k, ep: shape.ep };
    let mut load = routed.load(shape.routing, tile);
    let mut choices = (shape.tokens * shape.top_k) as f64;
    if shape.choices == Choices::All && shape.ep > 1 {
        choices = load.tokens * shape.top_k as f64;
        load.tiles += (choices - load.rows) / tile as f64;
        load.rows = choices;
    }
    let hidden = shape.hidden as f64;
    let inner = (shape.inner / shape.tp) as f64;
    let padded = (inner / cut.pad).ceil() * cut.pad;
    let gates = shape.matrices as f64 - 1.0;
    let (weight, activation) = shape.format.bytes();
    let weights = load.active * hidden * inner * (gates + 1.0) * weight;
    let rate = rate(chip, &code, weights);
    let peak = shape.kernels.peak(chip, shape.format)? * part(path.compute);
    let slower = if cut.blocks && !(shape.inner / shape.tp).is_multiple_of(16) {
        part(code.misaligned)
    } else {
        1.0
    };
    let launch = seconds(match shape.library {
        Library::Trtllm => code.trtllm,
        Library::Vllm => code.vllm,
        Library::Sglang => code.sglang,
    }) + load.active * seconds(code.expert);
    let (mut memory, mut compute, mut tiles, mut products) = (0.0, 0.0, 0.0, 0.0);
    for (n, k, wide, long) in
        [(gates * inner, hidden, gates * padded, hidden), (hidden, inner, hidden, padded)]
    {
        let bytes = load.active * n * k * weight + load.rows * (k * activation + 2.0 * n);
        let stream = bytes / rate;
        let rows = load.tiles * (tile as f64 + part(code.extra_rows));
        let multiply = 2.0 * wide * long * rows / peak;
        let ends = k / 1000.0 * seconds(code.step)
            + load.tiles * (wide / 128.0).ceil() / chip.multiprocessors * seconds(code.tile);
        memory += stream;
        compute += multiply;
        tiles += ends;
        products += (stream * stream + multiply * multiply).sqrt() * slower + ends;
    }
    let passed = 2.0
        * (choices * (part(code.passes) * hidden + part(path.inner) * inner)
            + load.rows * part(path.rows) * (hidden + inner));
    let passes = passed / self::rate(chip, &code, passed);
    Ok(Estimate {
        seconds: launch + products + passes,
        operations: 2.0 * load.rows * hidden * inner * (gates + 1.0),
        bytes: weights + 2.0 * hidden * (load.tokens + shape.tokens as f64),
        parts: vec![
            ("launch", launch),
            ("memory", memory),
            ("compute", compute),
            ("tiles", tiles),
            ("passes", passes),
        ],
    })
}

/// Rate of bytes; those that fit in the L2 cache lie there.
fn rate(chip: &Chip, code: &Code, bytes: f64) -> f64 {
    let filled = bytes / (part(code.reach) * chip.l2_cache);
    let square = filled * filled;
    chip.memory * part(code.memory) * (1.0 + (part(code.cached) - 1.0) / (1.0 + square * square))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rates, Sheet};
    use proptest::prelude::*;
    use units::{Bandwidth, Bytes, Flops, Frequency};

    fn chip() -> Chip {
        let sheet = Sheet {
            multiprocessors: 132,
            clock: Frequency(1_830_000_000),
            l2_cache: Bytes(50_000_000),
            peak_int8: None,
        };
        let rates = Rates {
            usual: Flops(989_000_000_000_000),
            fp4: None,
            fp8: Some(Flops(1_979_000_000_000_000)),
            fp32: None,
        };
        Chip::new(sheet, rates, Bandwidth(3_350_000_000_000), Bandwidth(450_000_000_000), 8)
    }

    /// Parameters at which every part runs at the rate of the data sheet.
    fn ideal() -> Parameters {
        let path = Path { compute: Ratio(1_000_000), inner: Ratio(0), rows: Ratio(0) };
        let code = Code {
            trtllm: Span(1),
            vllm: Span(1),
            sglang: Span(1),
            memory: Ratio(1_000_000),
            cached: Ratio(1_000_000),
            reach: Ratio(1_000_000),
            extra_rows: Ratio(0),
            step: Span::ZERO,
            tile: Span::ZERO,
            expert: Span::ZERO,
            misaligned: Ratio(1_000_000),
            passes: Ratio(0),
            bf16: Some(path),
            fp8: Some(path),
            fp8_block: None,
            int4: None,
            nvfp4: None,
            mxfp4: None,
            mxfp4_mxfp8: None,
        };
        Parameters {
            triton: Some(code),
            marlin: None,
            cutlass: Some(code),
            flashinfer: None,
            generated: None,
            triton_kernels: None,
            widened: None,
        }
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        let counts = (1..3000u64, 1..9u64, 1..9u64, 1..7u64, 0..4u32, 0..3u32);
        (counts, 0..3usize, 0..2usize, any::<bool>()).prop_map(
            |((tokens, hidden, inner, top_k, tp, ep), routing, format, cutlass)| Shape {
                tokens,
                hidden: hidden * 512,
                inner: inner * 96,
                experts: 32,
                top_k,
                tp: 1 << tp,
                ep: 1 << ep,
                matrices: 3,
                format: [Format::Bf16, Format::Fp8][format],
                kernels: if cutlass { Kernels::Cutlass } else { Kernels::Triton },
                library: Library::Vllm,
                routing: [Routing::Balanced, Routing::Mild, Routing::Strong][routing],
                choices: Choices::Own,
            },
        )
    }

    fn time(shape: &Shape) -> Estimate {
        estimate(&chip(), ideal(), shape).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn no_layer_beats_the_data_sheet(shape in shapes()) {
            let found = time(&shape);
            let peak = chip().peak(shape.format.multiplied()).unwrap();
            let weights = found.bytes - 4.0 * (shape.hidden * shape.tokens) as f64;
            prop_assert!(found.seconds * (1.0 + 1e-9) >= found.operations / peak);
            prop_assert!(found.seconds * (1.0 + 1e-9) >= weights / chip().memory);
            prop_assert!(found.seconds.is_finite());
        }

        #[test]
        fn wider_layers_and_many_more_tokens_take_longer(shape in shapes()) {
            let found = time(&shape).seconds;
            let wider = Shape { hidden: 2 * shape.hidden, ..shape };
            let thicker = Shape { inner: 2 * shape.inner, ..shape };
            let busier = Shape { tokens: 16 * shape.tokens, ..shape };
            for other in [wider, thicker, busier] {
                prop_assert!(time(&other).seconds >= found);
            }
        }

        #[test]
        fn ranks_that_share_experts_read_fewer_weights(shape in shapes()) {
            let alone = Shape { ep: 1, routing: Routing::Balanced, ..shape };
            let shared = Shape { ep: 4, ..alone };
            prop_assert!(time(&shared).operations <= time(&alone).operations);
            prop_assert!(time(&shared).seconds <= time(&alone).seconds);
        }
    }

    #[test]
    fn what_has_no_time_is_refused() {
        let shape = Shape {
            tokens: 1,
            hidden: 512,
            inner: 512,
            experts: 8,
            top_k: 2,
            tp: 1,
            ep: 1,
            matrices: 3,
            format: Format::Bf16,
            kernels: Kernels::Triton,
            library: Library::Vllm,
            routing: Routing::Balanced,
            choices: Choices::Own,
        };
        assert!(estimate(&chip(), ideal(), &shape).is_ok());
        for wrong in [
            Shape { tokens: 0, ..shape },
            Shape { tokens: u64::MAX, ..shape },
            Shape { hidden: u64::MAX, ..shape },
            Shape { top_k: 9, ..shape },
            Shape { ep: 3, ..shape },
            Shape { tp: 3, ..shape },
            Shape { matrices: 4, ..shape },
            Shape { format: Format::Nvfp4, ..shape },
            Shape { kernels: Kernels::Marlin, ..shape },
        ] {
            assert!(estimate(&chip(), ideal(), &wrong).is_err(), "{wrong:?}");
        }
    }
}
