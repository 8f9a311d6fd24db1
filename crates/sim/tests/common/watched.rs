//! Watched runs of random workloads, and how close sums of their times are.

use super::random::{self, RandomPlatform, Step};
use platform::config::native;
use sim::{BackendKind, Config, Source, Watch, run};
use stats::Report;

/// Times are exact to the picosecond, sums of them in floating point to this share.
pub const ROUNDING: f64 = 1e-9;

pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs()).max(1.0)
}

/// The report, with its detail, of a random workload on a random platform.
pub fn random_report(
    platform: &RandomPlatform,
    steps: &[(Step, bool)],
    backend: BackendKind,
    fold: bool,
) -> Report {
    let parsed = native::from_yaml(&platform.text, "p.yml", &[]).expect("a valid platform");
    let workload = Source::Built(Box::new(random::workload(&platform.sizes, steps)));
    let watch = Watch { detail: true, ..Watch::default() };
    let config = Config { workload, groups: Vec::new(), platform: parsed, backend, fold, watch };
    run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}")).report
}
