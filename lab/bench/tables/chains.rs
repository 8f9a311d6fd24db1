//! Irregular traces: nodes a second where no two ranks are alike, unfolded.

use crate::{Arguments, cells, digits, head, ms};
use benches::chains::chains;
use benches::inputs::{Folder, Shape, built, configure, write_traces};
use sim::{BackendKind, run};
use std::io;

/// NPUs, mean length, and the peer's CPU seconds (ASTRA-sim 518bd513; its chains were of the same
/// kind, not these).
const CASES: [(u32, u64, &str); 3] =
    [(256, 200, "1.69"), (1024, 200, "11.2"), (4096, 100, "not finished in 490 s")];

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "Irregular chains of compute nodes, unfolded",
        &[
            "NPUs x mean length",
            "nodes",
            "peer CPU s",
            "simulate ms",
            "M nodes/s",
            "files to report ms",
            "M nodes/s",
        ],
    );
    for (npus, mean, peer) in CASES.into_iter().take(if arguments.quick { 1 } else { 3 }) {
        let name = format!("{npus} x {mean}");
        if arguments.row(&name) {
            line(arguments, &name, npus, mean, peer)?;
        }
    }
    Ok(())
}

fn line(arguments: &Arguments, name: &str, npus: u32, mean: u64, peer: &str) -> io::Result<()> {
    let folder = Folder::new("chains")?;
    let workload = chains(npus, mean);
    Shape { blocks: vec!["Ring"], sizes: vec![npus], splits: 1 }.write(folder.path())?;
    write_traces(&workload, npus, folder.path())?;
    let config = || configure(folder.path(), "trace", BackendKind::Analytical, false);
    let nodes = workload.operations();
    let memory = built(&config(), workload);
    let (simulating, outcome) = arguments.effort().least(|| run(&memory, &mut |_| true));
    let (both, _) = arguments.effort().least(|| run(&config(), &mut |_| true));
    outcome.map_err(|error| io::Error::other(error.to_string()))?;
    let rate = |seconds: f64| digits(nodes as f64 / seconds / 1e6);
    cells(&[
        name,
        &nodes.to_string(),
        peer,
        &ms(simulating),
        &rate(simulating),
        &ms(both),
        &rate(both),
    ]);
    Ok(())
}
