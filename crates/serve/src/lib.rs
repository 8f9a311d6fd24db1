//! Serving of requests by inference engines, from event to event.
//!
//! Requests arrive at a fleet of engines (`fleet.rs`). An engine (`engine.rs`) has schedulers
//! (`scheduler.rs`), which choose what each step runs by the rules of vLLM (`vllm.rs`), SGLang
//! (`sglang.rs`, `admission.rs`) or TensorRT-LLM (`trtllm.rs`), and a cache of keys and values in
//! blocks (`pool.rs`, `content.rs`) or in a tree (`radix.rs`). The time of a step comes from tables
//! (`timing.rs`). Steps in which nothing changes but lengths are run without the scheduler
//! (`steady.rs`). Engines may start and stop with the load (`scaling.rs`). A diary of what happened
//! when is kept if asked for (`diary.rs`). Under a constant load a closed form gives the means
//! (`means.rs`, `balance.rs`, and `turns.rs` where prompts and tokens take turns).
//! Not here: models, kernels, networks and loads, which `python/armillary/serve` turns into tables
//! and requests. Times are ps.

mod admission;
mod arrivals;
mod balance;
mod content;
mod diary;
mod engine;
mod fleet;
mod hits;
mod means;
mod plans;
mod pool;
mod radix;
mod request;
mod scaling;
mod scheduler;
mod settings;
mod sglang;
mod steady;
mod timing;
mod trtllm;
mod turns;
mod vllm;

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;

pub use crate::engine::{Admission, Kind, Sums};
pub use arrivals::{After, Arrivals};
pub use balance::balance;
pub use content::{Piece, output_of};
pub use diary::{Diary, Move, Moved, Step};
pub use fleet::{Fleet, Outcome, Record, Routing, Sample, Stopped, Transfer, run, run_noted};
pub use hits::{Hits, unbounded};
pub use means::{Balance, Means};
pub use request::Request;
pub use scaling::{Lifetimes, Scaling};
pub use scheduler::{Batch, Part, Scheduler, Token};
pub use settings::{Policy, Settings, Sglang, Trtllm};
pub use steady::Gaps;
pub use timing::{Grid, Line, Place, Table, Term, Timing};
