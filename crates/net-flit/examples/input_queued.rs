//! Speed of the input-queued router: traversals for each CPU second on an 8x8 torus.

use net_flit::input_queued::{InputQueued, Settings};
use net_flit::reference::{Bernoulli, Pattern};
use net_flit::{DimensionOrder, Grid, Packet};

fn main() {
    let grid = Grid { k: 8, n: 2, wraps: true };
    for (flits, load) in [(1, 0.1), (1, 0.3), (1, 0.5), (4, 0.3), (4, 0.5)] {
        let (fabric, ways) = grid.fabric([1, 1], 1);
        let routing = DimensionOrder::new(ways, 7);
        let mut network = InputQueued::new(&fabric, Settings::default(), routing);
        let mut source = Bernoulli::new(grid, Pattern::Uniform, load, flits, 3);
        let mut arrived = Vec::new();
        let started = cpu_time::ProcessTime::now();
        for cycle in 0..60_000 {
            network.run(cycle, &mut arrived);
            arrived.clear();
            source.cycle(|src, dst| {
                network.send(cycle, Packet { src, dst, vnet: 0, flits, port: 0, way: 0 }, 0);
            });
        }
        let seconds = started.elapsed().as_secs_f64();
        let millions = network.traversals() as f64 / 1e6;
        println!("{flits} flits, load {load}: {:.2} M/s", millions / seconds);
    }
}
