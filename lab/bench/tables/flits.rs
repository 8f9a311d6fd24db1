//! Flits: how many cross a router in a CPU second, next to Garnet and BookSim2 on the same kind of
//! machine.

use crate::{Arguments, cells, digits, head};
use net_flit::garnet::{Garnet, Settings};
use net_flit::input_queued::{self, InputQueued};
use net_flit::{DimensionOrder, Grid, Packet};
use peers::flits::{Bernoulli, Hierarchy, Pattern, Rings};
use std::io;

/// The fabric of ASTRA-SIM's paper (ISPASS 2020) on Garnet: 4x4x4, 10 virtual networks.
const PACKAGES: Hierarchy = Hierarchy {
    sizes: [4, 4, 4],
    rings: [2, 4, 4],
    flit: 128,
    widths: [128, 32],
    latencies: [90, 200],
    interface_latency: 90,
    packets: [512, 256],
};

pub fn table(arguments: &Arguments) -> io::Result<()> {
    let columns = ["what", "M traversals", "CPU s", "M traversals/s", "peer, M traversals/s"];
    head("Flits: those that cross a router", &columns);
    for vcs_per_vnet in [50, 8] {
        let name = format!("garnet, 1 MB all-reduce on 4x4x4, {vcs_per_vnet} channels");
        if arguments.row(&name) {
            let settings = Settings { vcs_per_vnet, buffers_per_vc: 5000, ..Settings::default() };
            let bytes = if arguments.quick { 1 << 14 } else { 1 << 20 };
            let run = Rings { bytes, chunks: 16, enhanced: true, delay: 10 };
            let done = arguments.effort().least(|| {
                let (_, network) = run.run(&PACKAGES, settings, false).expect("in range");
                network.traversals()
            });
            row(&name, done, "0.004-0.009 (50)");
        }
    }
    let cycles = if arguments.quick { 500 } else { 20_000 };
    for (flits, load) in [(1, 0.1), (1, 0.3), (1, 0.335), (4, 0.3)] {
        let name = format!("garnet, 8x8 mesh, packets of {flits}, load {load}");
        if arguments.row(&name) {
            let done = arguments.effort().least(|| mesh(flits, load, cycles));
            row(&name, done, "0.58-0.93");
        }
    }
    for (flits, load) in [(1, 0.1), (1, 0.3), (1, 0.515), (4, 0.3), (4, 0.5)] {
        let name = format!("input-queued, 8x8 torus, packets of {flits}, load {load}");
        if arguments.row(&name) {
            let done = arguments.effort().least(|| torus(flits, load, cycles));
            row(&name, done, "0.53-0.70");
        }
    }
    Ok(())
}

fn packet((src, dst): (u32, u32), flits: u32) -> Packet {
    Packet { src, dst, vnet: 0, flits, port: 0, way: 0 }
}

fn mesh(flits: u32, load: f64, cycles: u64) -> u64 {
    let grid = Grid { k: 8, n: 2, wraps: false };
    let (fabric, ways) = grid.fabric([1, 1], 1);
    let network = Garnet::new(&fabric, Settings::default(), DimensionOrder::new(ways, 7));
    let mut network = network.expect("4 channels");
    let mut source = Bernoulli::new(grid, Pattern::Uniform, load, flits, 3);
    let mut arrived = Vec::new();
    for cycle in 0..cycles {
        network.run(cycle, &mut arrived);
        arrived.clear();
        source.cycle(|src, dst| network.send(cycle, packet((src, dst), flits), 0));
    }
    network.traversals()
}

fn torus(flits: u32, load: f64, cycles: u64) -> u64 {
    let grid = Grid { k: 8, n: 2, wraps: true };
    let (fabric, ways) = grid.fabric([1, 1], 1);
    let settings = input_queued::Settings::default();
    let network = InputQueued::new(&fabric, settings, DimensionOrder::new(ways, 7));
    let mut network = network.expect("4 channels");
    let mut source = Bernoulli::new(grid, Pattern::Uniform, load, flits, 3);
    let mut arrived = Vec::new();
    for cycle in 0..cycles {
        network.run(cycle, &mut arrived);
        arrived.clear();
        source.cycle(|src, dst| network.send(cycle, packet((src, dst), flits), 0));
    }
    network.traversals()
}

fn row(name: &str, (seconds, traversals): (f64, u64), peer: &str) {
    let millions = traversals as f64 / 1e6;
    cells(&[name, &digits(millions), &digits(seconds), &digits(millions / seconds), peer]);
}
