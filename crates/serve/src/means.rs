//! Mean values of a load and of an engine, for closed forms.

/// A load: mean lengths of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Requests that are there at any time, in each engine.
    pub concurrency: f64,
    /// Tokens of a prompt.
    pub prompt: f64,
    /// Tokens of a prompt that are computed. The others are in the cache, or come from elsewhere.
    pub fresh: f64,
    /// Tokens of an output.
    pub output: f64,
    /// Mean of the square of the tokens of an output.
    pub output_squared: f64,
    /// Mean of the square of the tokens of a prompt; no more than the square of the mean if prompts
    /// are all alike.
    pub prompt_squared: f64,
}

/// Mean values of an engine. Times are seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// Time to the first token.
    pub ttft: f64,
    /// Time of each later token.
    pub tpot: f64,
    /// Requests that end in a second.
    pub rate: f64,
    /// Requests that run.
    pub running: f64,
}
