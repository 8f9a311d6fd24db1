//! Settings of a scheduler.

/// Whose rules a scheduler follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// vLLM's (`vllm.rs`).
    Vllm,
    /// SGLang's (`sglang.rs`).
    Sglang(Sglang),
    /// TensorRT-LLM's (`trtllm.rs`).
    Trtllm(Trtllm),
}

/// Settings that only SGLang has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sglang {
    /// Requests that find more of their prompt in the cache come first (`schedule_policy=lpm`).
    pub longest_prefix: bool,
    /// Steps with prompts generate tokens too (`enable_mixed_chunk`).
    pub mixed: bool,
    /// Tokens of prompts of a step (`max_prefill_tokens`).
    pub prefill_tokens: u32,
    /// Factor on the part of outputs for which room is kept (`schedule_conservativeness`).
    pub conservativeness: f64,
    /// Requests generate all the tokens that they may (`ignore_eos`, as benchmarks ask for). Without
    /// a cache of prefixes, room is then looked for end by end.
    pub ignores_end: bool,
}

/// Settings that only TensorRT-LLM has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trtllm {
    /// Requests start without room for their whole output, and pause where it lacks
    /// (`MAX_UTILIZATION`; otherwise `GUARANTEED_NO_EVICT`).
    pub evicts: bool,
}

/// Settings of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whose rules hold.
    pub policy: Policy,
    /// Tokens of a block of the cache.
    pub block: u32,
    /// Blocks of the cache.
    pub blocks: u32,
    /// Requests that run at a time.
    pub sequences: u32,
    /// Tokens of a step; of prompts alone with SGLang's rules.
    pub tokens: u32,
    /// Tokens of a request, with its output.
    pub longest: u32,
    /// A prompt may take several steps.
    pub chunked: bool,
    /// Tokens that one request may get in a step; 0 without a limit.
    pub long_prefill: u32,
    /// Urgent requests first.
    pub priority: bool,
    /// Blocks keep their prefixes for later requests.
    pub caching: bool,
    /// A step is scheduled while the one before it runs.
    pub asynchronous: bool,
    /// Tokens that are drafted for a request in each step; 0 without speculation.
    pub drafts: u32,
    /// Tokens for which a running request gets blocks ahead of time, as models that draft need.
    pub lookahead: u32,
    /// The last block of a cached prefix is computed again, because the model that drafts needs the
    /// hidden states.
    pub recomputes_last: bool,
    /// A request is admitted when there are blocks for all its tokens, not only for its first chunk.
    pub whole: bool,
}

impl Settings {
    /// Whether a step may have prompts and single tokens.
    pub(crate) fn mixes(&self) -> bool {
        match self.policy {
            Policy::Sglang(policy) => policy.mixed,
            Policy::Vllm | Policy::Trtllm(_) => true,
        }
    }
}
