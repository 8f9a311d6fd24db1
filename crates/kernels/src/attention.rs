//! Attention by itself: prefill, backward passes and decode of heads that may share keys.
//!
//! Model: `docs/models/kernels.md#attention`; the tiles are in `flash`.

use crate::flash::{self, Around, Cached, Decode, Engine, Machine, Phase, Prefill, Prompt};
use crate::values::{part, seconds};
use crate::{Chip, Estimate, Format, Refused};
use declared::section;
use serde::{Deserialize, Serialize};
use units::Ratio;

/// Largest group of query heads that TensorRT-LLM's kernel for shared keys takes.
const SHARED: u32 = 32;
/// Queries of a tile of Triton's kernels.
const TRITON_TILE: f64 = 64.0;

section! {
    /// A library of attention.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Library {
        /// Prefill.
        pub prefill: Prefill, required "the parameters of prefill";
        /// Decode.
        pub decode: Decode, required "the parameters of decode";
    }
}

section! {
    /// TensorRT-LLM's kernel of decode for heads that it does not pack.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Scalar {
        /// Least query heads that share keys and that the other kernel packs.
        pub packed: u32, required "2";
        /// Cycles that a block of threads takes in addition to its keys.
        pub block: u32, required "2500";
        /// The same with a cache of FP8.
        pub block_fp8: u32, required "2500";
        /// Least keys of a split.
        pub split: u32, required "100";
    }
}

section! {
    /// Attention.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Parameters {
        /// Values that all kernels share.
        pub machine: Machine, required "what all kernels share";
        /// SGLang.
        pub sglang: Around, required "what runs around a call";
        /// TensorRT-LLM.
        pub trtllm: Around, required "what runs around a call";
        /// vLLM.
        pub vllm: Around, required "what runs around a call";
        /// TensorRT-LLM's decode of heads alone.
        pub scalar: Scalar, required "the kernel for heads alone";
        /// Products of a backward pass, against those of the forward pass.
        pub backward: Ratio, required "2.5";
        /// FlashAttention 2.
        pub flash2: Option<Library>, default None;
        /// FlashAttention 3.
        pub flash3: Option<Library>, default None;
        /// FlashInfer.
        pub flashinfer: Option<Library>, default None;
        /// Kernels of TensorRT-LLM, which SGLang and vLLM call on Blackwell too.
        pub tensorrt: Option<Library>, default None;
        /// Kernels in Triton of SGLang and vLLM.
        pub triton: Option<Library>, default None;
    }
}

/// Library that the kernel is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// FlashAttention 2.
    Flash2,
    /// FlashAttention 3.
    Flash3,
    /// FlashInfer.
    Flashinfer,
    /// TensorRT-LLM.
    Tensorrt,
    /// Triton.
    Triton,
}

/// Direction of training's passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Results.
    Forward,
    /// Gradients.
    Backward,
}

/// A call of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Prefill or decode.
    pub phase: Phase,
    /// Sequences.
    pub batch: u32,
    /// Tokens of a sequence; in decode those that are cached, with the new one.
    pub length: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Tokens that a token sees before itself; 0 without a limit.
    pub window: u32,
    /// Format of the products.
    pub format: Format,
    /// Format of the cache.
    pub cache: Format,
    /// Library.
    pub source: Source,
    /// Engine.
    pub engine: Engine,
    /// Direction.
    pub direction: Direction,
}

/// Time of a call of attention.
pub fn estimate(chip: &Chip, own: &Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    check(shape)?;
    let library = library(own, shape.source)?;
    let around = shape.engine.of(own.sglang, own.trtllm, own.vllm);
    let cache = flash::cache_bytes(shape.cache)?;
    flash::cache_bytes(shape.format)?;
    let fp8_cache = cache < 2.0;
    let before = around.before(shape.phase, fp8_cache);
    let (launch, names, parts, together, operations, bytes) = match shape.phase {
        Phase::Prefill => {
            let prompt = prompt(own, shape, cache);
            let parts = flash::prompt(chip, &own.machine, &library.prefill, &prompt)?;
            let together = flash::together(&own.machine, parts);
            (
                seconds(library.prefill.launch),
                ["tiles", "longest tile", "memory"],
                parts,
                together,
                operations(shape),
                prompt.bytes,
            )
        }
        Phase::Decode => {
            let (own_decode, cached) = cached(own, library, shape, cache);
            let parts = flash::cached(chip, &own.machine, &own_decode, &cached)?;
            (
                seconds(own_decode.launch),
                ["blocks", "longest chain", "memory"],
                parts,
                flash::overlapped(parts),
                operations(shape),
                cached.groups * cached.keys * cached.row + cached.queries,
            )
        }
    };
    let factor = match shape.direction {
        Direction::Forward => 1.0,
        Direction::Backward => part(own.backward),
    };
    let launch = before + launch;
    let mut all = vec![("launch", launch)];
    all.extend(names.into_iter().zip(parts.map(|time| time * factor)));
    Ok(Estimate {
        seconds: launch + together * factor,
        operations: operations * factor,
        bytes,
        parts: all,
    })
}

fn check(shape: &Shape) -> Result<(), Refused> {
    let counts = [shape.batch, shape.length, shape.heads, shape.kv_heads, shape.head_dim];
    if counts.contains(&0) {
        return Err(Refused::new("batch, length, heads, kv_heads and head_dim must be at least 1"));
    }
    if !shape.heads.is_multiple_of(shape.kv_heads) {
        return Err(Refused::new(format!(
            "{} heads do not share {} kv_heads evenly: heads must be a multiple",
            shape.heads, shape.kv_heads
        )));
    }
    if shape.head_dim > 1024 {
        return Err(Refused::new("head_dim is above 1,024, and no kernel keeps such scores"));
    }
    if shape.direction == Direction::Backward && shape.phase == Phase::Decode {
        return Err(Refused::new("decode has no backward pass: use phase=prefill"));
    }
    Ok(())
}

fn library(own: &Parameters, source: Source) -> Result<&Library, Refused> {
    let library = match source {
        Source::Flash2 => &own.flash2,
        Source::Flash3 => &own.flash3,
        Source::Flashinfer => &own.flashinfer,
        Source::Tensorrt => &own.tensorrt,
        Source::Triton => &own.triton,
    };
    flash::known(library, "attention", source)
}

/// Tokens before it that a token sees, as a number without an end where all are.
fn window(shape: &Shape) -> f64 {
    if shape.window == 0 { f64::INFINITY } else { f64::from(shape.window) }
}

/// Operations of the scores that the mask leaves, and of their part of the results.
fn operations(shape: &Shape) -> f64 {
    let tokens = f64::from(shape.length);
    let seen = match shape.phase {
        Phase::Decode => tokens.min(window(shape)),
        Phase::Prefill => {
            let full = tokens.min(window(shape));
            full * (full + 1.0) / 2.0 + (tokens - full) * full
        }
    };
    4.0 * f64::from(shape.batch) * f64::from(shape.heads) * f64::from(shape.head_dim) * seen
}

fn prompt(own: &Parameters, shape: &Shape, cache: f64) -> Prompt {
    let [batch, heads, kv_heads, dim] =
        [shape.batch, shape.heads, shape.kv_heads, shape.head_dim].map(f64::from);
    let tokens = f64::from(shape.length);
    let large = own.machine.tile >= 128;
    let triton = shape.source == Source::Triton;
    // Triton's products take powers of two.
    let width = if triton { f64::from(shape.head_dim.next_power_of_two()) } else { dim };
    let queries = heads * dim * 4.0;
    let keys = kv_heads * dim * (4.0 + 4.0 * cache);
    Prompt {
        heads: batch * heads,
        packed: if shape.source == Source::Flash3 && large { heads / kv_heads } else { 1.0 },
        tokens,
        window: window(shape),
        tile: if triton { TRITON_TILE } else { f64::from(own.machine.tile) },
        key: width,
        value: width,
        format: shape.format,
        bytes: batch * tokens * (queries + keys),
        fp8_cache: cache < 2.0,
    }
}

fn cached(own: &Parameters, library: &Library, shape: &Shape, cache: f64) -> (Decode, Cached) {
    let [batch, heads, kv_heads, dim] =
        [shape.batch, shape.heads, shape.kv_heads, shape.head_dim].map(f64::from);
    let group = shape.heads / shape.kv_heads;
    let tensorrt = shape.source == Source::Tensorrt;
    let large = tensorrt && shape.engine == Engine::Trtllm && group > SHARED;
    let scalar = large || (tensorrt && group < own.scalar.packed);
    // FlashAttention 2 packs heads unless there is a window.
    let alone = large || (shape.source == Source::Flash2 && shape.window > 0);
    let mut decode = library.decode;
    if scalar {
        decode.block = own.scalar.block;
        decode.block_fp8 = own.scalar.block_fp8;
        decode.split = own.scalar.split;
        decode.split_fp8 = own.scalar.split;
    }
    let cached = Cached {
        groups: batch * kv_heads,
        heads: heads / kv_heads,
        alone,
        keys: f64::from(shape.length).min(window(shape)),
        row: 2.0 * dim * cache,
        products: 2.0 * dim,
        format: Format::Bf16,
        queries: batch * heads * dim * 4.0,
        fp8_cache: cache < 2.0,
    };
    (decode, cached)
}
