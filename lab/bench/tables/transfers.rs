//! The event path, apart from every closed form: transfers a second through a backend alone, and
//! through the whole executor.

use crate::{Arguments, cells, digits, head, ms};
use benches::inputs::{Folder, Shape, all_reduce, built, configure};
use net_analytical::{Analytical, Crossing, LinkQueues, Ports};
use net_flow::{FairFlows, Limits};
use network::{Backend, Delivery, LinkCost, Transfer};
use sim::{BackendKind, run_with};
use std::io;
use topology::{Block, Dim, Fabric, LinkGraph};
use units::{Bandwidth, Span, Time};

const SIDE: u32 = 16;
const NPUS: u32 = SIDE * SIDE * SIDE;
const BANDWIDTH: Bandwidth = Bandwidth(50_000_000_000);
const LATENCY: Span = Span::from_ns(500);

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "Event path: 16x16x16 torus, no closed form",
        &["what", "backend", "transfers", "CPU ms", "M transfers/s"],
    );
    alone(arguments);
    executor(arguments)
}

/// Every NPU sends to its right neighbour in each dimension in turn; a delivery starts the next
/// transfer.
fn alone(arguments: &Arguments) {
    let cost = LinkCost::Exact { bandwidth: BANDWIDTH, latency: LATENCY };
    let (bandwidth, latency) = (BANDWIDTH, LATENCY);
    let dim = Dim { block: Block::Ring, size: SIDE, bandwidth, latency, parallel: 1 };
    let graph = || {
        LinkGraph::new(&Fabric::Stacked([dim.clone(), dim.clone(), dim.clone()].to_vec()))
            .expect("a torus")
    };
    let rounds = if arguments.quick { 3 } else { 600 };
    for (what, spread) in [("backend alone, in step", 0), ("backend alone, out of step", 977)] {
        if !arguments.row(what) {
            continue;
        }
        let analytical = || {
            Analytical::stacked(&[(Block::Ring, SIDE, cost); 3], Crossing::Every, Ports::OneAtATime)
        };
        row(what, "analytical", arguments.effort().least(|| drive(analytical(), rounds, spread)));
        row(
            what,
            "link",
            arguments
                .effort()
                .least(|| drive(LinkQueues::new(graph(), vec![cost; 3], false), rounds, spread)),
        );
        let flows = || FairFlows::new(graph(), vec![cost; 3], false, Limits::default());
        row(what, "flow", arguments.effort().least(|| drive(flows(), rounds, spread)));
    }
}

/// `rounds` transfers of each NPU; NPUs start `spread` ps apart and send sizes that keep them
/// apart.
fn drive(mut backend: impl Backend, rounds: u64, spread: u64) -> u64 {
    let transfer = |round: u64, src: u32| {
        let stride = SIDE.pow((round % 3) as u32);
        let digit = src / stride % SIDE;
        let dst = src - digit * stride + (digit + 1) % SIDE * stride;
        Transfer {
            src,
            dst,
            bytes: 65_536 + u64::from(src) * spread,
            token: round * u64::from(NPUS) + u64::from(src),
            paced: 65_536 + u64::from(src) * spread,
            weight: 1,
        }
    };
    (0..NPUS).for_each(|npu| backend.start(Time(0), transfer(0, npu)));
    let (mut finished, mut count): (Vec<Delivery>, u64) = (Vec::new(), 0);
    while backend.next_event().is_some() {
        backend.advance(Time::MAX, &mut finished);
        for delivery in finished.drain(..) {
            count += 1;
            let (round, npu) =
                (delivery.token / u64::from(NPUS) + 1, (delivery.token % u64::from(NPUS)) as u32);
            if round < rounds {
                backend.start(delivery.time, transfer(round, npu));
            }
        }
    }
    count
}

fn executor(arguments: &Arguments) -> io::Result<()> {
    let folder = Folder::new("transfers")?;
    let (splits, what) = (if arguments.quick { 1 } else { 4 }, "executor, 1 GB all-reduce");
    Shape { blocks: vec!["Ring"; 3], sizes: vec![SIDE; 3], splits }.write(folder.path())?;
    // The trace has ASTRA-sim's profile, which the backend flow does not run.
    for backend in [BackendKind::Analytical, BackendKind::Link] {
        let name = backend.name().to_string();
        if arguments.row(what) {
            let config = built(
                &configure(folder.path(), "trace", backend, false),
                all_reduce(1 << 30, NPUS),
            );
            let (seconds, outcome) =
                arguments.effort().least(|| run_with(&config, false, &mut |_| true));
            let outcome = outcome.map_err(|error| io::Error::other(error.to_string()))?;
            row(what, &name, (seconds, outcome.report.counts.transfers as u64));
        }
    }
    Ok(())
}

fn row(what: &str, backend: &str, (seconds, count): (f64, u64)) {
    cells(&[
        what,
        backend,
        &count.to_string(),
        &ms(seconds),
        &digits(count as f64 / seconds / 1e6),
    ]);
}
