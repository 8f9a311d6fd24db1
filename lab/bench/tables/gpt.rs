//! Training steps: a recorded 64-NPU GPT where its traces lie next to the checkout, and a generated
//! 256-NPU stand-in.

use crate::{Arguments, cells, digits, head, ms};
use benches::gpt::Gpt;
use benches::inputs::{Folder, Shape, built, configure, write_traces};
use sim::{BackendKind, Config, read, run};
use std::io;
use std::path::Path;

/// CPU seconds and last finish of the peer, by backend, four chunks: `conformance/SPEED.md`,
/// ASTRA-sim 518bd513.
const GPT64: [(BackendKind, f64, u64); 2] =
    [(BackendKind::Analytical, 0.91, 30_106_686), (BackendKind::Link, 0.96, 30_199_609)];
/// The same on the traces that the stand-in stands for.
const GPT256: [(BackendKind, f64); 2] =
    [(BackendKind::Analytical, 49.72), (BackendKind::Link, 43.45)];

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "GPT training steps, 4 chunks (one trace file a rank)",
        &[
            "traces",
            "backend",
            "operations",
            "transfers",
            "peer CPU s",
            "read ms",
            "simulate unfolded ms",
            "files to report ms",
            "ratio",
            "folded ms",
            "finish",
        ],
    );
    recorded(arguments)?;
    stand_in(arguments)
}

fn recorded(arguments: &Arguments) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/conformance/astra-sim/cases/S_GPT64_tp8dp4pp2");
    if !folder.exists() {
        println!("| gpt64 skipped: no recorded traces in {} |", folder.display());
        return Ok(());
    }
    for (backend, peer, want) in GPT64 {
        let equal = |finish: u64| {
            if finish == want { "equal".into() } else { format!("{finish}, peer {want}") }
        };
        line(
            arguments,
            "gpt64 tp8_dp4_pp2",
            &folder,
            backend,
            &peer.to_string(),
            Some(peer),
            equal,
        )?;
    }
    Ok(())
}

fn stand_in(arguments: &Arguments) -> io::Result<()> {
    let gpt = if arguments.quick {
        Gpt { layers: 1, batches: 2, ..Gpt::NPUS_256 }
    } else {
        Gpt::NPUS_256
    };
    let folder = Folder::new("gpt256")?;
    let [tensor, data, pipeline] = gpt.parallel;
    let shape = Shape {
        blocks: vec!["FullyConnected", "Ring", "Switch"],
        sizes: vec![tensor, data, pipeline],
        splits: 4,
    };
    shape.write(folder.path())?;
    write_traces(&gpt.workload(), tensor * data * pipeline, folder.path())?;
    for (backend, peer) in GPT256 {
        let shown = format!("{peer} (other traces)");
        line(
            arguments,
            "gpt256 stand-in tp8_dp8_pp4",
            folder.path(),
            backend,
            &shown,
            None,
            |ns| format!("{ns} ns"),
        )?;
    }
    Ok(())
}

fn line(
    arguments: &Arguments,
    name: &str,
    folder: &Path,
    backend: BackendKind,
    peer: &str,
    peer_s: Option<f64>,
    finish: impl Fn(u64) -> String,
) -> io::Result<()> {
    if !arguments.row(name) {
        return Ok(());
    }
    let fault = |error: sim::Error| io::Error::other(error.to_string());
    let config = |fold| configure(folder, "trace", backend.clone(), fold);
    let simulate = |config: &Config| run(config, &mut |_| true);
    let (reading, workload) = arguments.effort().least(|| read(&config(false)));
    let memory = built(&config(false), workload.map_err(fault)?);
    let (simulating, outcome) = arguments.effort().least(|| simulate(&memory));
    let (both, _) = arguments.effort().least(|| simulate(&config(false)));
    let (folded, _) = arguments.effort().least(|| simulate(&config(true)));
    let outcome = outcome.map_err(fault)?;
    let last = (0..outcome.report.ranks as u32)
        .map(|rank| outcome.finish(rank).0 / 1000)
        .max()
        .unwrap_or(0);
    cells(&[
        name.to_string(),
        format!("{backend:?}").to_lowercase(),
        outcome.report.counts.operations.to_string(),
        outcome.report.counts.transfers.to_string(),
        peer.to_string(),
        ms(reading),
        ms(simulating),
        ms(both),
        peer_s.map_or("-".into(), |peer| digits(peer / both)),
        ms(folded),
        finish(last),
    ]);
    Ok(())
}
