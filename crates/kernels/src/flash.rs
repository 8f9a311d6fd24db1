//! Attention kernels that keep scores on the chip: what prefill and decode of every head share.
//!
//! Prefill: a block of threads takes a tile of queries and walks over blocks of keys. A score
//! costs its two products on the tensor cores, and then an exponential on the special function
//! units. Decode: a block of threads takes the query heads that share keys, and a part of the keys.
//! Source: Dao, "FlashAttention-2" (2023); Shah et al., "FlashAttention-3" (2024); Dao et al.,
//! "Flash-Decoding for long-context inference" (2023).

use crate::values::{part, seconds, word};
use crate::{Chip, Format, Refused};
use declared::section;
use serde::{Deserialize, Serialize};
use units::{Ratio, Span};

/// Exponentials that a multiprocessor starts each cycle, on every GPU since Ampere: NVIDIA, "CUDA
/// C++ Programming Guide", throughput of native arithmetic instructions.
const EXPONENTIALS: f64 = 16.0;
/// Rows that the smallest product of a tensor core takes.
const ROWS: f64 = 16.0;
/// Keys that a step of decode takes.
const KEYS: f64 = 64.0;
/// Query heads that a step of decode takes at once.
const HEADS: f64 = 64.0;

section! {
    /// Values that all kernels of attention share on a generation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Machine {
        /// Queries of a tile.
        pub tile: u32, required "128";
        /// Part of an exponential that products do not hide.
        pub exponential: Ratio, required "1";
        /// Part of the FP8 peak, as products of 16 bits reach theirs.
        pub fp8: Ratio, required "0.9";
        /// Cycles of 64 keys in a block of threads that runs alone.
        pub step: u32, required "300";
        /// Part of the shorter of the longest tile and all tiles that the longer does not hide.
        pub tail: Ratio, required "0.5";
        /// Bytes of a cycle that the L2 cache gives a multiprocessor in prefill.
        pub l2: Ratio, required "16";
        /// Part of the L2 cache that keeps data from one call of prefill to the next.
        pub kept: Ratio, required "0.5";
        /// Traffic with a cache of FP8, against that of a cache of 16 bits without it.
        pub fp8_traffic: Ratio, required "1.5";
        /// Blocks of threads of decode that a multiprocessor runs at once.
        pub resident: Ratio, required "0.8";
        /// Cycles that add the parts of split keys.
        pub combine: u32, required "5000";
        /// Bytes of a cycle that a multiprocessor takes from the cache of keys.
        pub stream: Ratio, required "100";
        /// Part of the memory bandwidth that decode reaches.
        pub memory: Ratio, required "0.9";
        /// Bytes of a cycle that the L2 cache gives a multiprocessor in decode.
        pub decode_l2: Ratio, required "13";
        /// Part of the L2 cache that keeps keys from one call of decode to the next.
        pub decode_kept: Ratio, required "0.4";
    }
}

section! {
    /// Prefill by one library.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Prefill {
        /// Time of an empty call.
        pub launch: Span, required "8 us";
        /// Part of the peak rate that products of heads up to 128 reach.
        pub efficiency: Ratio, required "0.8";
        /// Loss of that part by heads above 128, for each 128 more.
        pub wide: Ratio, required "0.2";
        /// Cycles that a tile takes in addition to its keys.
        pub tile: u32, required "3000";
        /// Times that queries, keys, values and results go through memory.
        pub traffic: Ratio, required "1";
    }
}

section! {
    /// Decode by one library.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Decode {
        /// Time of an empty call.
        pub launch: Span, required "8 us";
        /// Part of the peak rate that products of padded rows reach.
        pub efficiency: Ratio, required "0.3";
        /// Cycles that a block of threads takes in addition to its keys.
        pub block: u32, required "6000";
        /// The same with a cache of FP8, for which libraries have other kernels.
        pub block_fp8: u32, required "6000";
        /// Cycles that 64 keys wait for memory.
        pub wait: u32, required "100";
        /// Least keys of a split.
        pub split: u32, required "200";
        /// Least keys of a split of a cache of FP8.
        pub split_fp8: u32, required "200";
        /// Time of a step on a cache of FP8, against one of 16 bits and equal bytes.
        pub convert: Ratio, required "1.3";
    }
}

section! {
    /// Time that an engine adds to a call, with the kernels that it runs around it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Around {
        /// Time before prefill.
        pub prefill: Span, required "1 us";
        /// Time before decode.
        pub decode: Span, required "1 us";
        /// More time before prefill, with a cache of FP8.
        pub fp8_prefill: Span, required "2 us";
        /// More time before decode, with a cache of FP8.
        pub fp8_decode: Span, required "2 us";
    }
}

/// Phase of a model that generates text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All tokens of a prompt at once, each looking at those before it.
    Prefill,
    /// One token, looking at all that are cached.
    Decode,
}

/// Engine that calls the kernel, which decides what runs around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
    /// vLLM.
    Vllm,
}

impl Around {
    /// Seconds before a call.
    pub(crate) fn before(&self, phase: Phase, fp8_cache: bool) -> f64 {
        let (each, converted) = match phase {
            Phase::Prefill => (self.prefill, self.fp8_prefill),
            Phase::Decode => (self.decode, self.fp8_decode),
        };
        seconds(each) + if fp8_cache { seconds(converted) } else { 0.0 }
    }
}

impl Engine {
    /// The one of the values that is the engine's.
    pub(crate) fn of<T>(self, sglang: T, trtllm: T, vllm: T) -> T {
        match self {
            Engine::Sglang => sglang,
            Engine::Trtllm => trtllm,
            Engine::Vllm => vllm,
        }
    }
}

/// The parameters of a library, or that kernels of it were not measured.
pub(crate) fn known<'a, T>(
    library: &'a Option<T>,
    kind: &str,
    source: impl Serialize,
) -> Result<&'a T, Refused> {
    library.as_ref().ok_or_else(|| {
        let word = word(source);
        Refused::new(format!(
            "no measured kernels of {word} on these GPUs: name another source, or set \
             npu.kernels.{kind}.{word}"
        ))
    })
}

/// Bytes of an element of a cache, which is of 16 or 8 bits.
pub(crate) fn cache_bytes(format: Format) -> Result<f64, Refused> {
    match format {
        Format::Bf16 | Format::Fp16 => Ok(2.0),
        Format::Fp8 => Ok(1.0),
        _ => Err(Refused::new(format!(
            "no measured attention in {}: use bf16, fp16 or fp8",
            format.word()
        ))),
    }
}

/// Products that a multiprocessor does in a cycle, both operations of each.
fn rate(chip: &Chip, machine: &Machine, format: Format) -> Result<f64, Refused> {
    let kept = if format == Format::Fp8 { part(machine.fp8) } else { 1.0 };
    Ok(chip.peak(format)? * kept.min(1.0) / (chip.multiprocessors * chip.clock))
}

/// Time that bytes take, from memory or, as far as they stayed there, from the L2 cache.
fn traffic(chip: &Chip, bytes: f64, memory: f64, l2: Ratio, kept: Ratio) -> f64 {
    let far = bytes / (chip.memory * memory);
    let near = bytes / (chip.multiprocessors * part(l2) * chip.clock);
    let kept = (part(kept).min(1.0) * chip.l2_cache / bytes).min(1.0);
    far * (1.0 - kept) + near.min(far) * kept
}

/// Tokens that look back at tokens, for each head of each sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt {
    /// Sequences times heads of queries.
    pub heads: f64,
    /// Heads whose queries one tile holds together.
    pub packed: f64,
    /// Tokens of a sequence.
    pub tokens: f64,
    /// Tokens before it that a token sees; infinite without a window.
    pub window: f64,
    /// Queries of a tile.
    pub tile: f64,
    /// Elements of a key.
    pub key: f64,
    /// Elements of a value.
    pub value: f64,
    /// Format of the products.
    pub format: Format,
    /// Bytes that must be read or written.
    pub bytes: f64,
    /// The cache has 8 bits.
    pub fp8_cache: bool,
}

/// The parts of prefill: all tiles on all multiprocessors, the longest tile, memory.
pub(crate) fn prompt(
    chip: &Chip,
    machine: &Machine,
    own: &Prefill,
    shape: &Prompt,
) -> Result<[f64; 3], Refused> {
    let tile = shape.tile;
    let rows = shape.tokens * shape.packed;
    let tiles = (rows / tile).ceil();
    let queries = tile / shape.packed;
    let height = if tiles <= 1.0 { (rows / ROWS).ceil() * ROWS } else { tile };
    let most = shape.tokens.min(shape.window + queries);
    // The first tiles see one tile of keys more each, the others a whole window.
    let growing = (shape.tokens.min(shape.window) / queries).floor().max(1.0).min(tiles);
    let seen = if tiles <= 1.0 {
        shape.tokens
    } else {
        growing * (growing + 1.0) / 2.0 * queries.min(shape.tokens) + (tiles - growing) * most
    };
    let padding = if tiles <= 1.0 { 0.0 } else { tiles * (tile - queries) / 2.0 };
    let scores = height * ((seen / tile).ceil() * tile + padding);
    let wide = 1.0 + part(own.wide) * (shape.key.max(shape.value) / 128.0 - 1.0).max(0.0);
    let products = 2.0 * (shape.key + shape.value) / rate(chip, machine, shape.format)?;
    let score = products * (wide / part(own.efficiency)).max(1.0)
        + part(machine.exponential) / EXPONENTIALS;
    let blocks = (most / tile).ceil();
    let groups = shape.heads / shape.packed;
    let all = groups * (scores * score + tiles * f64::from(own.tile)) / chip.multiprocessors;
    let longest = height * blocks * tile * score
        + blocks * f64::from(machine.step) * tile / KEYS
        + f64::from(own.tile);
    let times = if shape.fp8_cache { part(machine.fp8_traffic) } else { 1.0 };
    let memory =
        traffic(chip, shape.bytes * part(own.traffic) * times, 1.0, machine.l2, machine.kept);
    Ok([all / chip.clock, longest / chip.clock, memory])
}

/// The time of the parts of prefill together.
pub(crate) fn together(machine: &Machine, [all, longest, memory]: [f64; 3]) -> f64 {
    all.max(longest) + part(machine.tail) * all.min(longest) + memory
}

/// One query of each head of each sequence that looks at cached keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached {
    /// Sequences times heads of keys.
    pub groups: f64,
    /// Query heads of a group.
    pub heads: f64,
    /// Each query head has its own block of threads.
    pub alone: bool,
    /// Keys that a query sees.
    pub keys: f64,
    /// Bytes of a key with its value.
    pub row: f64,
    /// Elements that a score and its part of the result multiply.
    pub products: f64,
    /// Format of the products.
    pub format: Format,
    /// Bytes of queries and results.
    pub queries: f64,
    /// The cache has 8 bits.
    pub fp8_cache: bool,
}

/// The parts of decode: all blocks on all multiprocessors, the longest chain of steps, memory.
pub(crate) fn cached(
    chip: &Chip,
    machine: &Machine,
    own: &Decode,
    shape: &Cached,
) -> Result<[f64; 3], Refused> {
    let units = if shape.alone { shape.heads } else { (shape.heads / HEADS).ceil() };
    let rows = (shape.heads / units / ROWS).ceil() * ROWS;
    let blocks = shape.groups * units;
    let steps = (shape.keys / KEYS).ceil();
    let width = shape.keys.min(KEYS);
    let efficiency = part(own.efficiency).min(1.0);
    let products = rows * width * 2.0 * shape.products
        / (rate(chip, machine, shape.format)? * efficiency)
        + rows * width / EXPONENTIALS;
    let convert = if shape.fp8_cache { part(own.convert) } else { 1.0 };
    let bytes = width * shape.row / part(machine.stream) * convert;
    let step = (products * products + bytes * bytes).sqrt();
    let block = f64::from(if shape.fp8_cache { own.block_fp8 } else { own.block });
    let all = blocks * (steps * step + block) / chip.multiprocessors;
    let least = f64::from(if shape.fp8_cache { own.split_fp8 } else { own.split });
    let free = part(machine.resident) * chip.multiprocessors / blocks;
    let splits = free.min(steps * KEYS / least).max(1.0);
    let chain = |splits: f64| steps / splits * (f64::from(own.wait) + step) + block;
    let longest = chain(1.0).min(chain(splits) + f64::from(machine.combine));
    let all_bytes = shape.groups * shape.keys * shape.row + shape.queries;
    let memory = traffic(
        chip,
        all_bytes,
        part(machine.memory).min(1.0),
        machine.decode_l2,
        machine.decode_kept,
    );
    Ok([all / chip.clock, longest / chip.clock, memory])
}

/// The time of the parts of decode together.
pub(crate) fn overlapped(parts: [f64; 3]) -> f64 {
    parts.iter().map(|time| time * time).sum::<f64>().sqrt()
}
