//! Fair flows next to packets on fat trees: CPU seconds and memory of a direct all-to-all.

use crate::{Arguments, cells, child as measured, digits, head};
use benches::clock::{Effort, peak_memory_mb};
use graph::{CollectiveKind, Node, Op, ProgramBuilder, Workload};
use platform::config::native;
use sim::{BackendKind, Config, Source, Watch, run};
use std::io;
use units::{Bytes, Span};

const BYTES: u64 = 8 << 20;
/// NPUs of one pod.
const POD: u32 = 64;

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "Fat tree of three tiers, radix 16, 400 Gb/s, `routing: hash`: direct all-to-all",
        &[
            "NPUs",
            "bytes",
            "flow CPU s",
            "packet CPU s",
            "packet / flow",
            "flow time us",
            "flow memory MB",
        ],
    );
    let pods: &[u32] = if arguments.quick { &[1] } else { &[1, 2, 4, 8, 16] };
    for pods in pods {
        let npus = (pods * POD).to_string();
        if arguments.row(&npus) {
            row(&npus, BYTES)?;
        }
    }
    Ok(())
}

fn row(npus: &str, bytes: u64) -> io::Result<()> {
    let bytes = bytes.to_string();
    let flow = measured(&["fabrics", npus, "flow", &bytes])?;
    let packet = measured(&["fabrics", npus, "packet", &bytes])?;
    let seconds = |found: &[String]| found[0].parse::<f64>().map_err(io::Error::other);
    let ratio = digits(seconds(&packet)? / seconds(&flow)?);
    cells(&[npus, &bytes, &flow[0], &packet[0], &ratio, &flow[1], &flow[2]]);
    Ok(())
}

/// Prints CPU seconds, microseconds and megabytes of `[npus, backend, bytes]`.
pub fn child(words: &[String]) -> io::Result<()> {
    let number = |i: usize| words[i].parse::<u64>().map_err(io::Error::other);
    let (npus, bytes) = (number(0)? as u32, number(2)?);
    let (backend, exact) = match words[1].as_str() {
        "packet" => (BackendKind::Packet, false),
        model => (BackendKind::Flow, model == "exact"),
    };
    let config = config(npus, (backend, exact), bytes);
    let (seconds, outcome) = Effort::QUICK.least(|| run(&config, &mut |_| true));
    let outcome = outcome.map_err(|error| io::Error::other(error.to_string()))?;
    let memory = peak_memory_mb().map_or("?".into(), digits);
    println!("{} {} {memory}", digits(seconds), outcome.report.step_time_ns / 1e3);
    Ok(())
}

fn config(npus: u32, (backend, exact): (BackendKind, bool), bytes: u64) -> Config {
    let pods = npus / POD;
    let text = format!(
        "topology: {{generator: fat_tree, radix: 16, pods: {pods}}}\n\
         links: {{bandwidth: 400 Gb/s, latency: 500 ns}}\n\
         network: {{routing: hash, flow: {{exact: {exact}}}, packet: {{transport: rdma}}}}\n\
         collectives: {{all_to_all: direct}}\n"
    );
    let platform = native::from_yaml(&text, "fabric.yml", &[])
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    Config {
        workload: Source::Built(Box::new(all_to_all(bytes, npus))),
        groups: Vec::new(),
        platform,
        backend,
        fold: true,
        watch: Watch::default(),
    }
}

fn all_to_all(bytes: u64, ranks: u32) -> Workload {
    let (kind, bytes) = (CollectiveKind::AllToAll, Bytes(bytes));
    let op = Op::Collective { kind, bytes, slot: 0, priority: 0, dims: u32::MAX, root: 0 };
    let mut builder = ProgramBuilder::default();
    builder.push(Node { id: 1, duration: Span::ZERO, op }, "all_to_all", []);
    Workload::uniform(builder.build().expect("one node"), ranks)
}
