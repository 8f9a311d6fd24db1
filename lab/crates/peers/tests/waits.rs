//! What flits waited for, against what packets took.

use net_flit::garnet::{Arrival, Garnet, Settings};
use net_flit::input_queued::{self, Allocator, InputQueued, Pipeline};
use net_flit::{DimensionOrder, Grid, Packet, Use};
use peers::flits::{Bernoulli, Pattern};

const CYCLES: u64 = 3_000;

/// Runs packets of `flits` on an 8 x 8 mesh and until all have arrived.
fn run(settings: Settings, load: f64, flits: u32) -> (Garnet<DimensionOrder>, Vec<Arrival>) {
    let grid = Grid { k: 8, n: 2, wraps: false };
    let (fabric, ways) = grid.fabric([1, 1], 1);
    let network = Garnet::new(&fabric, settings, DimensionOrder::new(ways, 7)).expect("in range");
    let mut network = network.checked();
    let mut source = Bernoulli::new(grid, Pattern::Uniform, load, flits, 3);
    let mut arrived = Vec::new();
    for cycle in 0..CYCLES {
        network.run(cycle, &mut arrived);
        source.cycle(|src, dst| {
            let packet = Packet { src, dst, vnet: 0, flits, port: 0, way: 0 };
            network.send(cycle, packet, 0);
        });
    }
    while network.under_way() > 0 {
        network.run(network.now() + 1, &mut arrived);
    }
    (network, arrived)
}

fn all(network: &Garnet<DimensionOrder>) -> Use {
    network.uses().flatten().fold(Use::default(), Use::and)
}

/// A packet of one flit takes `h (k + L) + k + 2 E + (F - 1)` cycles (the closed form of Garnet)
/// and what it waits. So all waits together are what all packets took beyond that, and the time
/// that flits spent in buffers.
#[test]
fn waits_are_what_packets_take_longer() {
    for (vcs, load) in [(4, 0.1), (4, 0.3), (1, 0.1)] {
        let settings = Settings { vcs_per_vnet: vcs, ..Settings::default() };
        let (network, arrived) = run(settings, load, 1);
        let alone = |arrival: &Arrival| u64::from(arrival.hops) * 2 + 1 + 2;
        let waited: u64 = arrived.iter().map(|arrival| arrival.network - alone(arrival)).sum();
        let used = all(&network);
        assert!(waited > 0, "{vcs} {load}");
        assert_eq!(used.no_credit + used.no_channel + used.lost, waited, "{vcs} {load}");
        assert_eq!(used.held_cycles, waited, "{vcs} {load}");
        assert_eq!(used.no_credit, 0, "a packet of one flit finds its channel empty");
    }
}

/// Flits are conserved on each link: what enters a router leaves it, and nothing stays in buffers.
#[test]
fn flits_are_conserved_and_fit_their_buffers() {
    let settings = Settings { buffers_per_vc: 2, ..Settings::default() };
    let (network, arrived) = run(settings, 0.2, 5);
    let used = all(&network);
    // A packet crosses its links, and one from and to its interfaces.
    let expected: u64 = arrived.iter().map(|arrival| 5 * u64::from(arrival.hops + 2)).sum();
    assert_eq!(used.flits, expected);
    assert_eq!(used.packets * 5, used.flits);
    assert_eq!(used.held, 0);
    assert!(used.held_max <= settings.buffers_per_vc * settings.vcs_per_vnet);
    assert!(used.no_credit > 0, "two flits of room hold up packets of five");
    let total = used.no_credit + used.no_channel + used.lost;
    assert!(used.held_cycles >= total, "{} {total}", used.held_cycles);
}

/// With one virtual channel packets of one flit wait for it to be free again; with many they do
/// not, and only lose against others.
#[test]
fn more_channels_leave_only_lost_allocations() {
    let few = all(&run(Settings { vcs_per_vnet: 1, ..Settings::default() }, 0.1, 1).0);
    let many = all(&run(Settings { vcs_per_vnet: 64, ..Settings::default() }, 0.1, 1).0);
    assert!(few.no_channel > few.lost);
    assert_eq!(many.no_channel, 0);
    assert!(many.lost > 0);
}

fn textbook(settings: input_queued::Settings) -> InputQueued<DimensionOrder> {
    let (fabric, ways) = Grid { k: 8, n: 2, wraps: false }.fabric([2, 1], 1);
    let routing = DimensionOrder::new(ways, 7);
    InputQueued::new(&fabric, settings, routing).expect("in range").checked()
}

/// Cycles of a packet of one flit that crosses so many links of an empty network, and those of them
/// that it is in buffers.
fn alone(settings: input_queued::Settings, hops: u32) -> [u64; 2] {
    let mut network = textbook(settings);
    network.send(0, Packet { src: 0, dst: hops, vnet: 0, flits: 1, port: 0, way: 0 }, 0);
    let mut arrived = Vec::new();
    assert!(network.advance(&mut arrived));
    [arrived[0].network, all_of(&network).held_cycles]
}

fn all_of(network: &InputQueued<DimensionOrder>) -> Use {
    network.uses().flatten().fold(Use::default(), Use::and)
}

/// The same of textbook routers, with each pipeline and each allocator: what packets take beyond
/// their time in an empty network they are in buffers. Where a buffer has one packet at a time they
/// wait for a credit, a channel or a turn; elsewhere they also stand behind others.
#[test]
fn waits_of_textbook_routers_are_what_packets_take_longer() {
    let plain = input_queued::Settings { vcs: 2, buffers_per_vc: 1, ..Default::default() };
    let deep = input_queued::Settings { buffers_per_vc: 3, ..plain };
    let one = Pipeline::default();
    let of = |pipeline, settings| input_queued::Settings { pipeline, ..settings };
    let cases = [
        plain,
        deep,
        of(Pipeline { route_computation: 0, speculation: true, ..one }, plain),
        of(Pipeline { waits_for_tail_credit: true, ..one }, deep),
        of(Pipeline { allocator: Allocator::Matrix, ..one }, plain),
        of(Pipeline { allocator: Allocator::Age, ..one }, deep),
        of(Pipeline { channel_allocation: 2, ..one }, plain),
    ];
    for settings in cases {
        let (one, two) = (alone(settings, 1), alone(settings, 2));
        let mut network = textbook(settings);
        let grid = Grid { k: 8, n: 2, wraps: false };
        let mut source = Bernoulli::new(grid, Pattern::Uniform, 0.05, 1, 3);
        let mut arrived = Vec::new();
        for cycle in 0..CYCLES {
            network.run(cycle, &mut arrived);
            source.cycle(|src, dst| {
                let packet = Packet { src, dst, vnet: 0, flits: 1, port: 0, way: 0 };
                network.send(cycle, packet, 0);
            });
        }
        while network.advance(&mut arrived) {}
        let sum = |of: &dyn Fn(&Arrival) -> u64| arrived.iter().map(of).sum::<u64>();
        let alone = |place: usize| {
            sum(&|arrival| {
                let more = (two[place] - one[place]) * u64::from(arrival.hops);
                more + 2 * one[place] - two[place]
            })
        };
        let longer = sum(&|arrival| arrival.network) - alone(0);
        let (used, name) = (all_of(&network), format!("{settings:?}"));
        assert!(longer > 0, "{name}");
        assert_eq!(used.held_cycles - alone(1), longer, "{name}: {used:?}");
        let waits = used.no_credit + used.no_channel + used.lost;
        if settings.buffers_per_vc == 1 || settings.pipeline.waits_for_tail_credit {
            assert_eq!(waits, longer, "{name}: {used:?}");
        } else {
            assert!(waits < longer && waits > longer / 10, "{name}: {used:?}");
        }
        assert_eq!(used.flits, sum(&|arrival| u64::from(arrival.hops) + 2), "{name}");
        assert_eq!(used.held, 0, "{name}");
    }
}
