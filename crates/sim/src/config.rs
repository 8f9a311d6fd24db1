//! One run, as it is asked for.

use crate::backends::BackendKind;
use executor::observe::TimelineRequest;
use graph::Workload;
use platform::Platform;
use std::path::PathBuf;

/// Where the operations come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Chakra traces, in any form `trace::chakra::find` takes, or a text workload, which runs once.
    Traces(PathBuf),
    /// Made by a program.
    Built(Box<Workload>),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Operations.
    pub workload: Source,
    /// Communicator groups from a file: name and ranks in ring order.
    pub groups: Vec<(String, Vec<u32>)>,
    /// Network, NPUs, collectives, scheduler.
    pub platform: Platform,
    /// Fidelity.
    pub backend: BackendKind,
    /// Simulate one rank of each class of ranks that must behave alike.
    pub fold: bool,
    /// Events to watch the run for.
    pub watch: Watch,
}

/// Records of a run that are kept in addition to its sums.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// A log, for `Report::detail`.
    pub detail: bool,
    /// A timeline, written to a file.
    pub timeline: Option<TimelineRequest>,
    /// A capture of packets, written to this file; on [`crate::BackendKind::Packet`] only.
    pub capture: Option<std::path::PathBuf>,
}
