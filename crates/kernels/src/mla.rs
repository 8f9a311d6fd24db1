//! Multi-head latent attention by itself, as DeepSeek's models have it.
//!
//! The cache holds one latent of 512 elements and one rotary key of 64 for a token, which all heads
//! share. Prefill expands them to a key of 192 and a value of 128 for each head, or, where the
//! products with the latents are absorbed into queries and results, works on the latents as decode
//! does. Model: `docs/models/kernels.md#latent-attention`; the tiles are in `flash`.
//! Source: DeepSeek-AI, "DeepSeek-V2" (2024), section 2.1.

use crate::flash::{self, Around, Cached, Decode, Engine, Machine, Phase, Prefill, Prompt};
use crate::values::seconds;
use crate::{Chip, Estimate, Format, Refused};
use declared::section;
use serde::{Deserialize, Serialize};

/// Elements of a latent.
const LATENT: f64 = 512.0;
/// Elements of the rotary key.
const ROTARY: f64 = 64.0;
/// Elements of a head's expanded key and value.
const EXPANDED: [f64; 2] = [192.0, 128.0];

section! {
    /// A library of latent attention.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Library {
        /// Prefill.
        pub prefill: Prefill, required "the parameters of prefill";
        /// Decode.
        pub decode: Decode, required "the parameters of decode";
    }
}

section! {
    /// Latent attention.
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
        /// FlashAttention 3.
        pub flash3: Option<Library>, default None;
        /// FlashMLA.
        pub flashmla: Option<Library>, default None;
        /// Kernels of TensorRT-LLM, which SGLang calls on Blackwell too.
        pub tensorrt: Option<Library>, default None;
        /// Kernels in Triton of SGLang and vLLM.
        pub triton: Option<Library>, default None;
    }
}

/// Library that the kernel is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// FlashAttention 3.
    Flash3,
    /// FlashMLA.
    Flashmla,
    /// TensorRT-LLM.
    Tensorrt,
    /// Triton.
    Triton,
}

/// Form that prefill works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A key and a value for each head.
    Expanded,
    /// The latents, which all heads share.
    Absorbed,
}

/// A call of latent attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Prefill or decode.
    pub phase: Phase,
    /// Sequences.
    pub batch: u32,
    /// Tokens of a sequence; in decode those that are cached, with the new one.
    pub length: u32,
    /// Heads of queries on this GPU.
    pub heads: u32,
    /// Format of the products.
    pub format: Format,
    /// Format of the cache.
    pub cache: Format,
    /// Form that prefill works on.
    pub form: Form,
    /// Library.
    pub source: Source,
    /// Engine.
    pub engine: Engine,
}

/// Time of a call of latent attention.
pub fn estimate(chip: &Chip, own: &Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    if [shape.batch, shape.length, shape.heads].contains(&0) {
        return Err(Refused::new("batch, length and heads must be at least 1"));
    }
    let library = library(own, shape.source)?;
    let around = shape.engine.of(own.sglang, own.trtllm, own.vllm);
    let cache = flash::cache_bytes(shape.cache)?;
    flash::cache_bytes(shape.format)?;
    let before = around.before(shape.phase, cache < 2.0);
    let [batch, tokens, heads] = [shape.batch, shape.length, shape.heads].map(f64::from);
    let (launch, names, parts, time, scores, products, bytes) = match shape.phase {
        Phase::Prefill => {
            let prompt = prompt(own, shape, cache);
            let parts = flash::prompt(chip, &own.machine, &library.prefill, &prompt)?;
            let launch = seconds(library.prefill.launch);
            let names = ["tiles", "longest tile", "memory"];
            let time = flash::together(&own.machine, parts);
            let scores = tokens * (tokens + 1.0) / 2.0;
            (launch, names, parts, time, scores, prompt.key + prompt.value, prompt.bytes)
        }
        Phase::Decode => {
            let cached = Cached {
                groups: batch,
                heads,
                alone: false,
                keys: tokens,
                row: (LATENT + ROTARY) * cache,
                products: 2.0 * LATENT + ROTARY,
                format: shape.format,
                queries: batch * heads * (2.0 * LATENT + ROTARY) * 2.0,
                fp8_cache: cache < 2.0,
            };
            let parts = flash::cached(chip, &own.machine, &library.decode, &cached)?;
            let launch = seconds(library.decode.launch);
            let names = ["blocks", "longest chain", "memory"];
            let bytes = batch * tokens * cached.row + cached.queries;
            (launch, names, parts, flash::overlapped(parts), tokens, cached.products, bytes)
        }
    };
    let launch = before + launch;
    let mut all = vec![("launch", launch)];
    all.extend(names.into_iter().zip(parts));
    Ok(Estimate {
        seconds: launch + time,
        operations: 2.0 * batch * heads * scores * products,
        bytes,
        parts: all,
    })
}

fn library(own: &Parameters, source: Source) -> Result<&Library, Refused> {
    let library = match source {
        Source::Flash3 => &own.flash3,
        Source::Flashmla => &own.flashmla,
        Source::Tensorrt => &own.tensorrt,
        Source::Triton => &own.triton,
    };
    flash::known(library, "mla", source)
}

fn prompt(own: &Parameters, shape: &Shape, cache: f64) -> Prompt {
    let [batch, tokens, heads] = [shape.batch, shape.length, shape.heads].map(f64::from);
    let absorbed = shape.form == Form::Absorbed;
    let [key, value] = if absorbed { [LATENT + ROTARY, LATENT] } else { EXPANDED };
    // Queries and results; expanded keys and values; latents, written to the cache.
    let expanded = if absorbed { 0.0 } else { heads * (key + value) * 2.0 };
    let latents = (LATENT + ROTARY) * (2.0 + cache);
    Prompt {
        heads: batch * heads,
        packed: 1.0,
        tokens,
        window: f64::INFINITY,
        tile: f64::from(own.machine.tile),
        key,
        value,
        format: shape.format,
        bytes: batch * tokens * (heads * (key + value) * 2.0 + expanded + latents),
        fp8_cache: cache < 2.0,
    }
}
