//! No step is shorter than the bounds of its network.

use crate::common::random::{cases, platform, steps, workload};
use platform::config::native;
use proptest::prelude::*;
use sim::{BackendKind, Config, Source, Watch, run};

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn hold_on_every_platform(platform in platform(), steps in steps(), fold in any::<bool>()) {
        let parsed = native::from_yaml(&platform.text, "p.yml", &[]).unwrap_or_else(|p| panic!("{}\n{p:#?}", platform.text));
        for backend in [BackendKind::Analytical, BackendKind::Link] {
            let workload = Source::Built(Box::new(workload(&platform.sizes, &steps)));
            let (platform, watch) = (parsed.clone(), Watch::default());
            let config = Config { workload, groups: Vec::new(), platform, backend: backend.clone(), fold, watch };
            let Ok(outcome) = run(&config, &mut |_| true) else { continue };
            let report = outcome.report;
            // Behind the first link the analytical network carries more than there is room for, and
            // says so.
            if report.dimensions.iter().any(|d| d.utilisation > 1.0) {
                prop_assert!(backend == BackendKind::Analytical && !report.warnings.is_empty());
                continue;
            }
            // Half a picosecond: the report's numbers are rounded.
            let least = report.step_time_ns + 0.0005;
            prop_assert!(report.bounds.dimension_ns <= least, "{backend:?}: {:?} {}", report.bounds, report.step_time_ns);
            prop_assert!(report.bounds.network_ns <= report.bounds.dimension_ns + 1e-6);
        }
    }
}
