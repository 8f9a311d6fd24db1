//! The peer's table: one all-reduce on every rank, the whole way from files to report.

use crate::{Arguments, cells, digits, head, ms};
use benches::inputs::{Folder, Shape, all_reduce, configure, write_traces};
use benches::peer::{Row, rows};
use sim::{Outcome, run};
use std::io;

/// Messages that `--quick` unfolds at most.
const QUICK: u64 = 70_000;

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "All-reduce against ASTRA-sim (files to report; one trace file for all ranks)",
        &[
            "case",
            "backend",
            "messages",
            "peer CPU s",
            "unfolded CPU ms",
            "ratio",
            "folded CPU ms",
            "ratio",
            "finish equal",
        ],
    );
    for row in rows() {
        if arguments.row(row.name) && (!arguments.quick || row.messages <= QUICK) {
            line(arguments, &row)?;
        }
    }
    Ok(())
}

fn line(arguments: &Arguments, row: &Row) -> io::Result<()> {
    let folder = Folder::new(row.name)?;
    let shape = Shape {
        blocks: vec![row.block; row.sizes.len()],
        sizes: row.sizes.clone(),
        splits: row.splits,
    };
    shape.write(folder.path())?;
    write_traces(&all_reduce(row.bytes, 1), 1, folder.path())?;
    let measure = |fold| {
        arguments.effort().least(|| {
            let config = configure(folder.path(), "trace.0.et", row.backend.clone(), fold);
            run(&config, &mut |_| true).map_err(|error| io::Error::other(error.to_string()))
        })
    };
    let ((unfolded, slow), (folded, fast)) = (measure(false), measure(true));
    let equal = match row.finish_ns {
        Some(want) if agrees(&slow?, want) && agrees(&fast?, want) => "yes".to_string(),
        Some(want) => format!("no: {want} ns wanted"),
        None => "peer failed".into(),
    };
    let ratio = |ours: f64| row.finish_ns.map_or("-".into(), |_| digits(row.cpu_s / ours));
    cells(&[
        row.name.to_string(),
        row.backend.to_string(),
        row.messages.to_string(),
        row.cpu_s.to_string(),
        ms(unfolded),
        ratio(unfolded),
        ms(folded),
        ratio(folded),
        equal,
    ]);
    Ok(())
}

/// Whether every rank finished at `want` ns.
fn agrees(outcome: &Outcome, want: u64) -> bool {
    (0..outcome.report.ranks as u32).all(|rank| outcome.finish(rank).0 == want * 1000)
}
