//! Why there is no report.

use executor::{NetworkStall, Stall};
use graph::Problem;
use std::io;
use units::Time;

/// The kinds of fault that are not ours, and the user's own stop.
#[derive(Debug)]
pub enum Error {
    /// The input is wrong: every problem found. Exit code 2.
    Input(Vec<Problem>),
    /// The run can make no progress. Exit code 1.
    Stalled(Box<Stall>),
    /// The network locked up under synthetic traffic. Exit code 1.
    Locked(NetworkStall, Time),
    /// The timeline or the capture can't be written. Exit code 2.
    Output(io::Error),
    /// The progress hook said stop.
    Cancelled,
}

impl Error {
    /// Faults of a workload as a whole name `file`, which it was read from.
    pub(crate) fn named(self, file: &str) -> Error {
        match self {
            Error::Input(problems) => {
                let named = |p: Problem| {
                    if p.file.is_empty() { Problem { file: file.to_string(), ..p } } else { p }
                };
                Error::Input(problems.into_iter().map(named).collect())
            }
            other => other,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Input(problems) => problems.iter().try_for_each(|p| writeln!(f, "{p}")),
            Error::Stalled(stall) => write!(f, "{stall}"),
            Error::Locked(network, time) => {
                write!(f, "after {} ns:\n{network}", time.as_ns())
            }
            Error::Output(error) => write!(f, "the file can't be written: {error}"),
            Error::Cancelled => f.write_str("stopped on request"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Input(vec![problem])
    }
}

impl From<Vec<Problem>> for Error {
    fn from(problems: Vec<Problem>) -> Error {
        Error::Input(problems)
    }
}
