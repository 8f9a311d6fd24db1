//! The closed form of a phase gives what simulating every transfer gives: the same report, byte for byte.

#[path = "common/random.rs"]
mod random;

use proptest::prelude::*;
use random::{RandomPlatform, Step, platform, steps, workload};
use sim::config::native;
use sim::run::{BackendKind, Config, Source, run_with};

/// The report, and the events it took.
fn report(platform: &RandomPlatform, steps: &[(Step, bool)], fold: bool, closed_form: bool) -> (String, u64) {
    let parsed = native::from_yaml(&platform.text, "p.yml", &[]);
    let parsed = parsed.unwrap_or_else(|problems| panic!("{}\n{problems:#?}", platform.text));
    let workload = Source::Built(Box::new(workload(&platform.sizes, steps)));
    let backend = BackendKind::Analytical;
    let config = Config { workload, groups: Vec::new(), platform: parsed, backend, fold, seed: 0 };
    let outcome = run_with(&config, closed_form, &mut |_| true).unwrap_or_else(|e| panic!("{}\n{e}", platform.text));
    (serde_json::to_string_pretty(&outcome.report).expect("a report is JSON"), outcome.events)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_event_path(platform in platform(), steps in steps(), fold in any::<bool>()) {
        let (closed, fewer) = report(&platform, &steps, fold, true);
        let (events, more) = report(&platform, &steps, fold, false);
        prop_assert_eq!(closed, events, "{}", platform.text);
        prop_assert!(fewer <= more);
    }
}
