//! Synthetic traffic on any network: pairs of senders and receivers, times, and the steady state.
//!
//! Here: [`Pattern`] (`pattern.rs`), [`Sizes`] (`sizes.rs`), one load point ([`Traffic`], `run.rs`)
//! and its statistics (`statistics.rs`). Not here: which network (`sim`), curves and saturation (Python, which runs
//! load points side by side).

mod pattern;
mod run;
mod sizes;
mod statistics;

pub use pattern::{Destinations, Flow, Pattern, PatternError};
pub use run::{
    Arrivals, Latency, LinkLoad, Lone, Measured, Outcome, Progress, Sent, Traffic, Unloaded, alone,
};
pub use sizes::{Distribution, Sizes};
pub use statistics::{Interval, interval, warm_up};
