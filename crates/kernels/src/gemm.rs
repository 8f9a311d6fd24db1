//! Products of two matrices, as one layer of an inference engine computes them.
//!
//! A product of `m x k` activations with `k x n` weights is cut into tiles of `rows x columns`, and
//! `k` into parts if the library may. Multiprocessors take tiles in waves. In each step along `k` a
//! tile multiplies, loads its rows and columns from the L2 cache, and waits for the pipeline. The
//! library picks the tile and the parts that are fastest:
//!
//! ```text
//! tile = max(4-norm(multiply, load), steps) + store
//! time = launch + before + min over tiles and parts of
//!        (4-norm(waves * tile, memory) + (parts > 1: split + sums))
//! ```
//!
//! Memory is what does not lie in the L2 cache since the last call. Activations that come in 16
//! bits are converted by kernels of their own before the product (`before`, `passes`, `row`).
//!
//! Source: NVIDIA, "Matrix Multiplication Background User's Guide" (tiles and waves), and the fit
//! to measured kernels that docs/models/kernels.md describes.

use crate::values::{part, seconds};
use crate::{Chip, Estimate, Format, Refused};
use declared::section;
use serde::Deserialize;
use units::{Ratio, Span};

section! {
    /// Products of matrices.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Parameters {
        /// Time of an empty kernel.
        pub launch: Span, required "2.5 us";
        /// Bytes that a multiprocessor stores in a clock.
        pub store: Ratio, required "16";
        /// Time that it adds to sum the parts where `k` is cut.
        pub split: Span, required "2.5 us";
        /// Part of the memory bandwidth that products reach.
        pub memory: Ratio, required "0.85";
        /// Part of the L2 cache that keeps everything of the last calls. Twice this part keeps
        /// nothing.
        pub cached: Ratio, required "0.45";
        /// Part of the memory bandwidth that conversions of the activations reach.
        pub convert: Ratio, required "0.55";
        /// Time that a host needs for one call without CUDA graphs.
        pub host: Option<Span>, default None;
        /// Kernels of TensorRT-LLM.
        pub trtllm: Option<Engine>, default None;
        /// Kernels of vLLM. Formats that it lacks are those of `trtllm`.
        pub vllm: Option<Engine>, default None;
    }
}

section! {
    /// Products of an engine, by the number format of activations and weights.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Engine {
        /// Brain floats of 16 bits.
        pub bf16: Option<Code>, default None;
        /// 8-bit floats.
        pub fp8: Option<Code>, default None;
        /// 8-bit floats with a scale for each block.
        pub fp8_block: Option<Code>, default None;
        /// NVIDIA's 4-bit floats.
        pub nvfp4: Option<Code>, default None;
        /// 8-bit integers.
        pub int8: Option<Code>, default None;
        /// Activations of 16 bits, weights of 8-bit integers.
        pub int8_weights: Option<Code>, default None;
        /// Activations of 16 bits, weights of 4-bit integers.
        pub int4_weights: Option<Code>, default None;
    }
}

section! {
    /// Kernels of one engine and format.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Code {
        /// Part of the peak rate that large tiles reach.
        pub rate: Ratio, required "0.8";
        /// Bytes that a multiprocessor loads while it could do 4,096 operations of 16 bits.
        pub load: Ratio, required "80";
        /// Nanoseconds of one element of `k`, at the least.
        pub step: Ratio, required "1";
        /// Bytes that a multiprocessor stores in a clock.
        pub store: Option<Ratio>, default None, says "that of the products";
        /// Most parts that `k` is cut into.
        pub splits: u32, default 1;
        /// Fewest columns of a tile where there are more than 64 rows. Such tiles have 64 rows or
        /// more.
        pub columns: Option<u32>, default None, says "any tile";
        /// Time of the kernels before the product, without their bytes.
        pub before: Span, default Span::ZERO;
        /// How often they pass over the activations, read or written in 16 bits.
        pub passes: Option<Ratio>, default None, says "no passes";
        /// Clocks that each row of the activations costs them.
        pub row: Option<Ratio>, default None, says "no cycles";
    }
}

/// A product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Rows of the activations.
    pub m: u64,
    /// Columns of the weights.
    pub n: u64,
    /// Columns of the activations, rows of the weights.
    pub k: u64,
    /// Format of the activations, and of the weights unless `weights` differ.
    pub format: Format,
    /// Format of the weights.
    pub weights: Weights,
    /// Engine whose kernels compute it.
    pub library: Library,
    /// How calls are launched.
    pub launch: Launch,
    /// Calls before the same weights are used again.
    pub copies: u64,
}

/// Format of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// That of the activations.
    Same,
    /// 8-bit integers.
    Int8,
    /// 4-bit integers.
    Int4,
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// TensorRT-LLM.
    Trtllm,
    /// vLLM.
    Vllm,
}

/// How calls are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// In CUDA graphs.
    Graph,
    /// One by one by the host.
    Eager,
}

/// Rows and columns of tiles that libraries have.
const TILES: [(f64, f64); 31] = [
    (16.0, 32.0),
    (16.0, 64.0),
    (16.0, 128.0),
    (16.0, 256.0),
    (32.0, 32.0),
    (32.0, 64.0),
    (32.0, 128.0),
    (32.0, 256.0),
    (64.0, 32.0),
    (64.0, 64.0),
    (64.0, 96.0),
    (64.0, 128.0),
    (64.0, 192.0),
    (64.0, 256.0),
    (128.0, 32.0),
    (128.0, 64.0),
    (128.0, 96.0),
    (128.0, 128.0),
    (128.0, 160.0),
    (128.0, 192.0),
    (128.0, 224.0),
    (128.0, 256.0),
    (256.0, 32.0),
    (256.0, 64.0),
    (256.0, 96.0),
    (256.0, 128.0),
    (256.0, 160.0),
    (256.0, 192.0),
    (256.0, 224.0),
    (256.0, 256.0),
    (32.0, 16.0),
];
const SPLITS: [u32; 8] = [1, 2, 3, 4, 6, 8, 16, 32];
/// Elements of `k` that a step loads.
const DEPTH: f64 = 64.0;
/// Operations whose time `load` counts in.
const OPERATIONS: f64 = 4096.0;

/// Time of a product.
pub fn estimate(chip: &Chip, own: Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    if shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.copies == 0 {
        return Err(Refused::new("a product needs counts of at least 1"));
    }
    let code = code(own, shape)?;
    let launch = seconds(own.launch);
    let (m, n, k) = (shape.m as f64, shape.n as f64, shape.k as f64);
    let width = shape.format.bytes();
    let weight = match shape.weights {
        Weights::Same => width,
        Weights::Int8 => 1.0,
        Weights::Int4 => 0.5,
    };
    let bytes = m * k * width + n * k * weight + 2.0 * m * n;
    let used = bytes + (shape.copies - 1) as f64 * n * k * weight;
    let kept = part(own.cached);
    let outside = ((used / chip.l2_cache - kept) / kept).clamp(0.0, 1.0);
    let memory = bytes * outside / (chip.memory * part(own.memory));
    let peak = chip.peak(shape.format)? * part(code.rate);
    let usual = chip.peak(Format::Bf16)?;
    let tiles = Tiles { m, n, k, width, weight, peak, usual, chip: *chip, own, code };
    let (compute, product) = tiles.fastest(memory);
    let before = seconds(code.before)
        + code.passes.map_or(0.0, part) * m * k * 2.0 / (chip.memory * part(own.convert))
        + code.row.map_or(0.0, part) * m / chip.clock;
    let device = launch + before + product;
    let mut parts =
        vec![("launch", launch), ("before", before), ("compute", compute), ("memory", memory)];
    let mut total = device;
    if shape.launch == Launch::Eager {
        let host = own.host.ok_or_else(|| {
            Refused::new("the host's time of a call is unknown: set npu.kernels.gemm.host")
        })?;
        parts.push(("host", seconds(host)));
        total = device.max(seconds(host));
    }
    Ok(Estimate { seconds: total, operations: 2.0 * m * n * k, bytes, parts })
}

/// A product, for which tiles are compared.
struct Tiles {
    m: f64,
    n: f64,
    k: f64,
    width: f64,
    weight: f64,
    peak: f64,
    /// Peak rate of 16 bits.
    usual: f64,
    chip: Chip,
    own: Parameters,
    code: Code,
}

impl Tiles {
    /// Time of all tiles alone, and of the product with its memory, of the fastest choice.
    fn fastest(&self, memory: f64) -> (f64, f64) {
        let mut best = (f64::INFINITY, f64::INFINITY);
        let parts = SPLITS.into_iter().filter(|parts| *parts <= self.code.splits);
        for parts in parts.map(f64::from) {
            if parts > 1.0 && parts * DEPTH > self.k {
                continue;
            }
            for (rows, columns) in TILES.into_iter().filter(|tile| self.has(*tile)) {
                let compute = self.compute(rows, columns, parts);
                let time = norm(compute, memory) + self.sums(parts);
                if time < best.1 {
                    best = (compute, time);
                }
            }
        }
        best
    }

    /// The kernels have this tile.
    fn has(&self, (rows, columns): (f64, f64)) -> bool {
        let fewest = self.code.columns.map_or(0.0, f64::from);
        self.m <= 64.0 || fewest == 0.0 || (rows >= 64.0 && columns >= fewest.min(256.0))
    }

    /// Time of all tiles, seconds.
    fn compute(&self, rows: f64, columns: f64, parts: f64) -> f64 {
        let Chip { multiprocessors, clock, .. } = self.chip;
        let tiles = (self.m / rows).ceil() * (self.n / columns).ceil() * parts;
        let waves = (tiles / multiprocessors).ceil();
        let depth = (self.k / (DEPTH * parts)).ceil() * DEPTH;
        let (high, wide) = (rows.min(self.m), columns.min(self.n));
        let multiply = 2.0 * rows * columns * depth * multiprocessors / self.peak;
        let rate = part(self.code.load) * self.usual / (OPERATIONS * multiprocessors);
        let load = (high * self.width + wide * self.weight) * depth / rate;
        let steps = depth * part(self.code.step) * 1e-9;
        let store = high * wide * 2.0 / (self.store() * clock);
        waves * (norm(multiply, load).max(steps) + store)
    }

    /// Bytes that a multiprocessor stores in a clock.
    fn store(&self) -> f64 {
        part(self.code.store.unwrap_or(self.own.store))
    }

    /// Time that sums of parts add, seconds.
    fn sums(&self, parts: f64) -> f64 {
        if parts == 1.0 {
            return 0.0;
        }
        let rate = self.store() * self.chip.clock * self.chip.multiprocessors;
        seconds(self.own.split) + parts * self.m * self.n * 8.0 / rate
    }
}

/// The kernels of the engine and format.
fn code(own: Parameters, shape: &Shape) -> Result<Code, Refused> {
    let (name, engine) = match shape.library {
        Library::Trtllm => ("trtllm", None),
        Library::Vllm => ("vllm", own.vllm),
    };
    let (word, code): (_, fn(Engine) -> Option<Code>) = match (shape.format, shape.weights) {
        (Format::Bf16 | Format::Fp16, Weights::Same) => ("bf16", |each| each.bf16),
        (Format::Bf16 | Format::Fp16, Weights::Int8) => ("int8_weights", |each| each.int8_weights),
        (Format::Bf16 | Format::Fp16, Weights::Int4) => ("int4_weights", |each| each.int4_weights),
        (Format::Fp8, Weights::Same) => ("fp8", |each| each.fp8),
        (Format::Fp8Block, Weights::Same) => ("fp8_block", |each| each.fp8_block),
        (Format::Nvfp4, Weights::Same) => ("nvfp4", |each| each.nvfp4),
        (Format::Int8, Weights::Same) => ("int8", |each| each.int8),
        (format, Weights::Same) => {
            return Err(Refused::new(format!("no kernels in {} were measured", format.word())));
        }
        (format, _) => {
            let word = format.word();
            return Err(Refused::new(format!("weights of integers need bf16, not {word}")));
        }
    };
    let found = engine.and_then(code).or_else(|| own.trtllm.and_then(code));
    found.ok_or_else(|| Refused::lacking(&format!("gemm.{name}.{word}")))
}

/// The 4-norm: a maximum whose arguments disturb each other where they are alike.
fn norm(a: f64, b: f64) -> f64 {
    let (a, b) = (a * a, b * b);
    (a * a + b * b).sqrt().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rates, Sheet};
    use proptest::prelude::*;
    use units::{Bandwidth, Bytes, Flops, Frequency};

    const US: u64 = 1_000_000;
    const CODE: Code = Code {
        rate: Ratio(900_000),
        load: Ratio(80_000_000),
        step: Ratio(1_000_000),
        store: None,
        splits: 32,
        columns: None,
        before: Span(0),
        passes: None,
        row: None,
    };
    const ENGINE: Engine = Engine {
        bf16: Some(CODE),
        fp8: Some(Code { splits: 1, before: Span(3 * US), passes: Some(Ratio(1_500_000)), ..CODE }),
        fp8_block: None,
        nvfp4: None,
        int8: None,
        int8_weights: None,
        int4_weights: None,
    };
    const OWN: Parameters = Parameters {
        launch: Span(5 * US / 2),
        store: Ratio(16_000_000),
        split: Span(5 * US / 2),
        memory: Ratio(850_000),
        cached: Ratio(450_000),
        convert: Ratio(550_000),
        host: None,
        trtllm: Some(ENGINE),
        vllm: None,
    };

    /// The data sheet of an H100.
    fn chip() -> Chip {
        let sheet = Sheet {
            multiprocessors: 132,
            clock: Frequency(1_830_000_000),
            l2_cache: Bytes(50_000_000),
            peak_int8: None,
        };
        let peak = Flops(989_000_000_000_000);
        let fp8 = Some(Flops(1_979_000_000_000_000));
        let rates = Rates { usual: peak, fp4: None, fp8, fp32: None };
        Chip::new(sheet, rates, Bandwidth(3_350_000_000_000), Bandwidth(450_000_000_000), 8)
    }

    fn shape([m, n, k]: [u64; 3]) -> Shape {
        let format = Format::Bf16;
        let (weights, library) = (Weights::Same, Library::Trtllm);
        Shape { m, n, k, format, weights, library, launch: Launch::Graph, copies: 100_000_000 }
    }

    fn time(shape: Shape) -> f64 {
        estimate(&chip(), OWN, &shape).unwrap().seconds
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The data sheet bounds every product whose weights no cache keeps.
        #[test]
        fn no_product_beats_the_roofline(counts in [1u64..40_000, 1u64..40_000, 1u64..40_000]) {
            for format in [Format::Bf16, Format::Fp8] {
                let shape = Shape { format, ..shape(counts) };
                let found = estimate(&chip(), OWN, &shape).unwrap();
                let least = (found.operations / chip().peak(format).unwrap())
                    .max(found.bytes / chip().memory);
                prop_assert!(found.seconds > least, "{found:?}");
            }
        }

        /// Twice the rows, the columns or the depth never take less time.
        #[test]
        fn time_grows_with_every_count(counts in [1u64..9_000, 1u64..9_000, 1u64..9_000]) {
            for which in 0..3 {
                let mut more = counts;
                more[which] *= 2;
                prop_assert!(time(shape(more)) >= time(shape(counts)), "{counts:?} {which}");
            }
        }

        /// Products never take longer where the L2 cache keeps the weights.
        #[test]
        fn fewer_copies_are_no_slower(counts in [1u64..999, 1u64..9_000, 1u64..9_000]) {
            let shape = shape(counts);
            let once = time(Shape { copies: 1, ..shape });
            prop_assert!(once <= time(shape));
            prop_assert!(once > 2.5e-6);
        }
    }

    /// Launch, stores and the last wave vanish in a large product: the rate alone is left.
    #[test]
    fn a_large_product_reaches_its_rate() {
        let large = shape([65_536, 65_536, 65_536]);
        let ideal = 2.0 * 65_536f64.powi(3) / (989e12 * 0.9);
        assert!((time(large) / ideal - 1.0).abs() < 0.03, "{}", time(large) / ideal);
    }

    /// One row streams the weights: the rate of memory alone is left.
    #[test]
    fn one_row_streams_the_weights() {
        let found = time(shape([1, 65_536, 65_536]));
        let ideal = 2.0 * 65_536f64.powi(2) / (3.35e12 * 0.85);
        assert!((found / ideal - 1.0).abs() < 0.03, "{}", found / ideal);
    }

    /// A tile more than multiprocessors is a second wave.
    #[test]
    fn a_wave_more_takes_a_step() {
        let wave = |columns: u64| time(shape([256, columns * 256, 8192]));
        assert!(wave(132) / wave(131) < 1.02);
        assert!(wave(133) / wave(132) > 1.05, "{}", wave(133) / wave(132));
    }

    #[test]
    fn what_has_no_answer_is_refused() {
        let refused = |shape| estimate(&chip(), OWN, &shape).unwrap_err().reason().to_string();
        let good = shape([8, 8, 8]);
        assert!(refused(Shape { k: 0, ..good }).contains("at least 1"));
        assert!(refused(Shape { launch: Launch::Eager, ..good }).contains("npu.kernels.gemm.host"));
        let blocks = Shape { format: Format::Fp8Block, library: Library::Vllm, ..good };
        assert!(refused(blocks).contains("gemm.vllm.fp8_block"));
        assert!(refused(Shape { format: Format::Mxfp4, ..good }).contains("mxfp4"));
        let mixed = Shape { format: Format::Fp8, weights: Weights::Int4, ..good };
        assert!(refused(mixed).contains("need bf16"));
    }

    /// vLLM's products are TensorRT-LLM's where it has no values of its own.
    #[test]
    fn an_engine_without_values_takes_the_other() {
        let good = shape([64, 4096, 4096]);
        assert_eq!(time(good), time(Shape { library: Library::Vllm, ..good }));
        let slow = Engine { bf16: Some(Code { rate: Ratio(100_000), ..CODE }), ..ENGINE };
        let own = Parameters { vllm: Some(slow), ..OWN };
        let large = Shape { library: Library::Vllm, ..shape([8192, 8192, 8192]) };
        assert!(estimate(&chip(), own, &large).unwrap().seconds > 5.0 * time(large));
    }

    /// A call of the host takes its time, or the device's where that is longer.
    #[test]
    fn the_host_bounds_a_call() {
        let own = Parameters { host: Some(Span(100 * US)), ..OWN };
        let call = |counts| Shape { launch: Launch::Eager, ..shape(counts) };
        let found = |counts| estimate(&chip(), own, &call(counts)).unwrap().seconds;
        assert!((found([1, 64, 64]) - 100e-6).abs() < 1e-9);
        let large = [8192, 8192, 8192];
        assert!(found(large) == time(shape(large)));
    }
}
