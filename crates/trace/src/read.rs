//! Reads every format of workloads; the content decides which one it is.

use crate::chakra::{self, ReadOptions};
use crate::text;
use graph::{LoopSettings, Problem, Workload};
use std::path::Path;

/// Reads the workload behind `path`, a text workload or Chakra traces in any form [`chakra::find`]
/// takes, for a machine of `sizes`; without them for the ranks that it has itself.
///
/// `sizes` are the NPUs along each dimension that collectives run over, innermost first; an
/// explicit graph has one dimension. `loop_settings` say how a text workload runs; a trace holds its own
/// steps, which run once. `groups` are those of a communicator group file.
///
/// # Errors
/// Every problem found, and what was given that the format has no use for.
pub fn read(
    path: &Path,
    sizes: Option<&[u32]>,
    groups: &[(String, Vec<u32>)],
    loop_settings: LoopSettings,
    options: &ReadOptions,
) -> Result<Workload, Vec<Problem>> {
    let name = path.display().to_string();
    // Whatever can't be opened is for the Chakra reader to find or to miss.
    if path.is_file() && text::is_text(path).unwrap_or(false) {
        let faults = unfit_for_text(&name, groups, options);
        let read = || {
            text::read(path, loop_settings, sizes)
                .map(|workload| Workload { origin: name, ..workload })
        };
        return if faults.is_empty() { read() } else { Err(faults) };
    }
    let faults = unfit_for_traces(&name, loop_settings);
    if !faults.is_empty() {
        return Err(faults);
    }
    let npus = sizes.map(|sizes| sizes.iter().fold(1u32, |npus, &size| npus.saturating_mul(size)));
    chakra::read(path, npus, groups, options)
}

/// Settings of a loop that traces can't take.
fn unfit_for_traces(name: &str, loop_settings: LoopSettings) -> Vec<Problem> {
    let mut faults = Vec::new();
    let mut refuse = |message: String, help: &str| {
        faults.push(Problem::new(name, "", message).help(help));
    };
    if loop_settings.passes != 1 {
        refuse(
            format!("{} passes of a trace", loop_settings.passes),
            "1, because a trace holds the recorded steps",
        );
    }
    if !loop_settings.overlap || loop_settings.bucket.is_some() {
        refuse(
            "overlap and bucket_mb are for texts and models".into(),
            "none of them, because a trace holds what waits for what",
        );
    }
    faults
}

/// Settings that a text workload can't take.
fn unfit_for_text(
    name: &str,
    groups: &[(String, Vec<u32>)],
    options: &ReadOptions,
) -> Vec<Problem> {
    let mut faults = Vec::new();
    if !groups.is_empty() {
        let message = "a communicator group file is given, but a text workload has no groups";
        faults.push(
            Problem::new(name, "", message)
                .help("none: the first line of the text says who communicates"),
        );
    }
    if options.replay {
        let message = "a text workload can't be replayed: it has no durations of collectives";
        faults.push(Problem::new(name, "", message).help("scheduler.replay_only false"));
    }
    faults
}
