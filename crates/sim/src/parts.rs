//! Data that the stages of a run share, and the results of the run.

use executor::observe::Shown;
use executor::{Folding, Settings};
use graph::Workload;
use lowering::Lowering;
use platform::Platform;
use stats::Report;
use units::{Span, Time};

/// Data that the stages share.
pub(crate) struct Parts<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    pub settings: &'a Settings,
    pub folding: &'a Folding,
    pub lowering: &'a dyn Lowering,
}

impl Parts<'_> {
    /// Links or flows that one which leaves `node` stands for.
    pub fn stands_for(&self, node: u32) -> u64 {
        if node >= self.settings.ranks {
            return 1;
        }
        self.folding.multiplicity[self.folding.local(node) as usize]
    }
}

/// The times of the ranks of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassTimes {
    /// End of the last operation.
    pub finish: Time,
    /// Sum of the durations of what the device did itself.
    pub device: Span,
}

/// Results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub report: Report,
    /// Times by class.
    pub classes: Vec<ClassTimes>,
    /// Class of each rank; `None` when every rank is its own.
    pub class_of: Option<Vec<u32>>,
    /// Ranks simulated, events handled: what the run cost, not part of the report.
    pub simulated_ranks: u64,
    /// Events handled.
    pub events: u64,
    /// Content of the timeline, if there is one.
    pub timeline: Option<Shown>,
}

impl Outcome {
    /// End of the last operation of `rank`.
    pub fn finish(&self, rank: u32) -> Time {
        self.classes[self.class(rank)].finish
    }

    /// Finish of `rank` minus the durations of what its NPU did itself: what ASTRA-sim calls
    /// exposed communication.
    pub fn exposed(&self, rank: u32) -> Span {
        let ClassTimes { finish, device } = self.classes[self.class(rank)];
        finish.since(Time::ZERO).saturating_sub(device)
    }

    fn class(&self, rank: u32) -> usize {
        self.class_of.as_ref().map_or(rank as usize, |c| c[rank as usize] as usize)
    }
}
