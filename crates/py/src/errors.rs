//! Stalled runs and other ends of a run as the exceptions of `armillary.errors`.

use executor::{NetworkStall, Stall};
use graph::Problem;
pub use py_errors::input;
use py_errors::raise;
use pyo3::prelude::*;
use sim::Error;

/// The exception for `error`. Who stops a run raises an exception of its own.
pub fn run(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Input(problems) => input(py, &problems),
        Error::Stalled(stall) => raise(py, "StalledError", &stalled(&stall)),
        Error::Locked(network, time) => {
            let after = format!("no progress is possible after {} ns", time.as_ns());
            raise(py, "StalledError", &[Problem::new("", "", after), deadlock(&network)])
        }
        Error::Output(error) => output(&error),
        Error::Cancelled => pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
    }
}

/// An `OSError`; who knows the file names it.
fn output(error: &std::io::Error) -> PyErr {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => {
            let plain = text.split(" (os error").next().unwrap_or_default().to_string();
            pyo3::exceptions::PyOSError::new_err((number, plain))
        }
        None => pyo3::exceptions::PyOSError::new_err(text),
    }
}

/// A network in which nothing can move.
fn deadlock(network: &NetworkStall) -> Problem {
    let transfers = network.transfers;
    let mut message = format!("deadlock: {transfers} transfers are under way and none can move");
    if !network.cycle.is_empty() {
        message += "; links wait for each other in a cycle: ";
        message += &network.cycle.join(", ");
    }
    Problem::new("", "network", message)
}

/// A stall as one problem for the run, one for each operation that waits, and one for the circle.
fn stalled(stall: &Stall) -> Vec<Problem> {
    let unfinished = format!("{} operations are unfinished", stall.unfinished);
    let mut all = vec![Problem::new(
        "",
        "",
        format!("no progress is possible after {} ns: {unfinished}", stall.time.as_ns()),
    )];
    for waiting in &stall.waiting {
        let waits = match waiting.on.as_slice() {
            [] if waiting.started => "is under way and waits for messages".to_string(),
            [] => "waits for its dependencies".to_string(),
            ranks => format!("waits for rank {}", list(ranks, ", ", 8)),
        };
        let message = format!("{} \"{}\" {waits}", waiting.what, waiting.name);
        all.push(Problem::new(
            &stall.origin,
            format!("rank {} node {}", waiting.rank, waiting.node),
            message,
        ));
    }
    if let [first, ..] = stall.cycle[..] {
        let circle = format!("{} -> {first}", list(&stall.cycle, " -> ", usize::MAX));
        all.push(Problem::new("", "", format!("ranks wait for each other in a cycle: {circle}")));
    }
    if let Some(network) = &stall.network {
        all.push(deadlock(network));
    }
    all
}

fn list(ranks: &[u32], between: &str, most: usize) -> String {
    let shown: Vec<String> = ranks.iter().take(most).map(u32::to_string).collect();
    let more = if ranks.len() > most {
        format!(" and {} more", ranks.len() - most)
    } else {
        String::new()
    };
    shown.join(between) + &more
}
