//! A workload as a text of ASTRA-sim 1.0, with the times that a platform gives its computations.
//!
//! A text has recorded times only, and a platform divides those by its factor on compute as it does
//! any; so they are the times without that factor. Not here: which workloads have that form
//! (`trace::text::recover`).

use graph::{Problem, Workload};
use lowering::compute;
use platform::Platform;
use trace::text::{Layers, recover};
use units::counted;

/// A workload's layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Content of the file.
    pub layers: Layers,
    /// How often they run, which the file doesn't say.
    pub passes: u32,
    /// Why a time is to be doubted.
    pub warnings: Vec<String>,
}

/// `workload` as layers that take on `platform` what it takes there; the time of each layer and
/// pass is rounded up to ns.
///
/// # Errors
/// Another number of ranks than the platform has NPUs, `scheduler.replay_only`, and reasons why it is
/// not a loop that a text can express.
pub fn text(workload: &Workload, platform: &Platform) -> Result<Text, Vec<Problem>> {
    let faults = faults(workload, platform);
    if !faults.is_empty() {
        return Err(faults);
    }
    let named = |problem: Problem| Problem { file: workload.origin.clone(), ..problem };
    let time = compute::recorded(platform);
    let (layers, passes) = recover(workload, Some(&platform.sizes()), &time)
        .map_err(|problems| problems.into_iter().map(named).collect::<Vec<_>>())?;
    Ok(Text { layers, passes, warnings: compute::warnings(workload, platform) })
}

fn faults(workload: &Workload, platform: &Platform) -> Vec<Problem> {
    let mut faults = Vec::new();
    let (ranks, npus) = (workload.ranks.len(), platform.fabric.npus());
    if ranks != npus as usize {
        let (have, need) = (counted(npus as usize, "NPU"), counted(ranks, "rank"));
        let message = format!("has {have}, but the workload has {need}");
        faults.push(
            Problem::new(&platform.name, "topology", message)
                .help(format!("a platform of {}", counted(ranks, "NPU"))),
        );
    }
    if platform.scheduler.replay_only {
        let message = "a text workload can't be replayed: it has no durations of collectives";
        faults.push(Problem::new(&platform.name, "scheduler.replay_only", message).help("false"));
    }
    faults
}
