//! A million NPUs: one all-reduce on a 100x100x100 torus, folded, with the memory of the whole
//! process.

use crate::{Arguments, cells, child as measured, digits, head, ms};
use benches::clock::{Effort, peak_memory_mb};
use benches::inputs::{Folder, Shape, all_reduce, configure, write_traces};
use sim::{BackendKind, run};
use std::io;

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "100x100x100 torus (1,000,000 NPUs), all-reduce, folded (files to report, a process of its own)",
        &["bytes", "backend", "CPU ms", "peak memory MB", "finish ns"],
    );
    let cases = [
        ("1048576", "analytical"),
        ("1073741824", "analytical"),
        ("1048576", "link"),
        ("1073741824", "link"),
    ];
    for (bytes, backend) in cases
        .into_iter()
        .filter(|(_, backend)| arguments.row(backend))
        .take(if arguments.quick { 1 } else { 4 })
    {
        let runs = if arguments.quick { "1" } else { "5" };
        // Memory from a process that runs once, time from one that runs again and again.
        let once = measured(&["million", bytes, backend, "1"])?;
        let often = measured(&["million", bytes, backend, runs])?;
        cells(&[bytes, backend, &often[0], &once[1], &once[2]]);
    }
    Ok(())
}

/// Prints milliseconds, megabytes and the finish of `[bytes, backend, runs]`.
pub fn child(words: &[String]) -> io::Result<()> {
    let number = |i: usize| words[i].parse::<u64>().map_err(io::Error::other);
    let backend: BackendKind = words[1].parse().map_err(io::Error::other)?;
    let folder = Folder::new("million")?;
    Shape { blocks: vec!["Ring"; 3], sizes: vec![100; 3], splits: 1 }.write(folder.path())?;
    write_traces(&all_reduce(number(0)?, 1), 1, folder.path())?;
    let effort = Effort { runs: number(2)? as u32, ..Effort::FULL };
    let (seconds, outcome) = effort.least(|| {
        run(&configure(folder.path(), "trace.0.et", backend.clone(), true), &mut |_| true)
    });
    let outcome = outcome.map_err(|error| io::Error::other(error.to_string()))?;
    println!(
        "{} {} {}",
        ms(seconds),
        peak_memory_mb().map_or("?".into(), digits),
        outcome.finish(0).0 / 1000
    );
    Ok(())
}
