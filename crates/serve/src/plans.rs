//! States that the rules of SGLang and of TensorRT-LLM keep from step to step.
//!
//! Here: data alone. Not here: the rules (`sglang.rs`, `trtllm.rs`).

use crate::radix::Tree;
use crate::settings::{Sglang, Trtllm};

/// The state of SGLang's scheduler.
#[derive(Clone, Debug)]
pub(crate) struct SglangPlan {
    pub(crate) policy: Sglang,
    pub(crate) page: u32,
    pub(crate) caching: bool,
    pub(crate) tree: Tree,
    /// Pages that nothing is in.
    pub(crate) free: u32,
    /// Part of the outputs for which room is kept.
    pub(crate) ratio: f64,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) next: usize,
    /// The request whose prompt is in parts.
    pub(crate) chunked: Option<u32>,
}

/// Requests that run together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// Those that generate tokens, also some that are done.
    pub(crate) decoding: Vec<u32>,
    /// Those of the last step, if it had prompts, and the one of them that is in parts.
    pub(crate) last: Vec<u32>,
    pub(crate) chunked: Option<u32>,
    /// No other request is looked at.
    pub(crate) full: bool,
    /// Steps in flight.
    pub(crate) flying: u32,
}

/// The state of TensorRT-LLM's scheduler.
#[derive(Clone, Debug)]
pub(crate) struct TrtllmPlan {
    pub(crate) policy: Trtllm,
    pub(crate) stages: u32,
    /// Requests that have left the queue, in order.
    pub(crate) active: Vec<u32>,
}
