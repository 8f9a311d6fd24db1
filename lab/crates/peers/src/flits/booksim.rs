//! Runs of BookSim2 again (Jiang et al., "A Detailed and Flexible Cycle-Accurate Network-on-Chip
//! Simulator", ISPASS 2013): latency of an empty network, batches, and latency at a load.

use super::{Bernoulli, Pattern};
use engine::Random;
use net_flit::input_queued::{Arrival, InputQueued, Settings};
use net_flit::{DimensionOrder, Grid, Packet, Refused};
use std::collections::BTreeMap;

/// A network with BookSim2's router.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Routers and links, with one virtual network.
    pub grid: Grid,
    /// The router.
    pub settings: Settings,
    /// Latency of links between routers, cycles. Those to nodes take one.
    pub link: u32,
    /// Whether to check credits and buffers after every cycle.
    pub checked: bool,
}

/// Decides ties of routes where no seed is given.
const SEED: u64 = 7;

/// Whether traffic goes on in a period after the first: the largest change of the mean latency and
/// of the accepted load since the period before, and how often in a row it must be as small.
const STEADY: (f64, u32) = (0.05, 3);
/// Cycles between two looks at the latency while what is measured arrives, and the most looks.
const DRAIN: (u64, u64) = (1000, 1000);

impl Setup {
    fn network(&self, seed: u64) -> Result<InputQueued<DimensionOrder>, Refused> {
        Refused::unless(self.link > 0, "link latency", self.link, "at least 1 cycle")?;
        let (fabric, ways) = self.grid.fabric([self.link, 1], 1);
        let routing = DimensionOrder::new(ways, seed);
        let network = InputQueued::new(&fabric, self.settings, routing)?;
        Ok(if self.checked { network.checked() } else { network })
    }

    /// Latency of packets, alone in the network, by links between routers. From node 0 to all: on a
    /// torus and on a mesh that is every distance. The latency of a distance is the least one.
    ///
    /// # Errors
    /// If the network cannot have its settings.
    pub fn alone(&self, flits: u32) -> Result<BTreeMap<u32, u64>, Refused> {
        Refused::unless(flits > 0, "flits of a packet", flits, "at least 1")?;
        let (mut network, mut arrived) = (self.network(SEED)?, Vec::new());
        let mut found = BTreeMap::new();
        for dst in 0..self.grid.nodes() {
            network.send(network.now(), packet(0, dst, flits), 0);
            network.advance(&mut arrived);
            // All credits come back.
            while let Some(next) = network.next() {
                network.run(next, &mut arrived);
            }
            for Arrival { hops, queued, network, .. } in arrived.drain(..) {
                let least = found.entry(hops).or_insert(u64::MAX);
                *least = (*least).min(queued + network);
            }
        }
        Ok(found)
    }

    /// Cycles of batches, one after the other: every node sends `packets` as fast as it can. `None`
    /// if the network locks up.
    ///
    /// # Errors
    /// If the network cannot have its settings, or the pattern does not fit it.
    pub fn batches(
        &self,
        (pattern, flits): (Pattern, u32),
        (batches, packets): (u32, u32),
        seed: u64,
    ) -> Result<Option<Vec<u64>>, Refused> {
        Refused::unless(flits > 0, "flits of a packet", flits, "at least 1")?;
        pattern.fits(&self.grid)?;
        let mut network = self.network(seed ^ SEED)?;
        let (mut random, mut arrived) = (Random::new(seed), Vec::new());
        let mut cycles = Vec::new();
        for _ in 0..batches {
            let start = network.now();
            for _ in 0..packets {
                for src in 0..self.grid.nodes() {
                    let dst = pattern.destination(&self.grid, src, &mut random);
                    network.send(start, packet(src, dst, flits), 0);
                }
            }
            while network.under_way() > 0 {
                if !network.advance(&mut arrived) {
                    return Ok(None);
                }
                arrived.clear();
            }
            cycles.push(network.now() - start);
        }
        Ok(Some(cycles))
    }
}

fn packet(src: u32, dst: u32, flits: u32) -> Packet {
    Packet { src, dst, vnet: 0, flits, port: 0, way: 0 }
}

/// Traffic at a load, and how long it is watched.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Destination of each source.
    pub pattern: Pattern,
    /// Flits of a packet.
    pub flits: u32,
    /// Flits per node and cycle.
    pub load: f64,
    /// Cycles of a period.
    pub period: u64,
    /// Periods before the first that counts, and most periods.
    pub warmup: u32,
    /// See `warmup`.
    pub most: u32,
    /// Mean latency above which the network is saturated, cycles.
    pub limit: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Results of a network at a load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Mean latency of packets from their creation, cycles.
    pub latency: f64,
    /// The same without the time in the queue of the source.
    pub network: f64,
    /// Flits accepted per node and cycle.
    pub accepted: f64,
    /// Mean links between routers.
    pub hops: f64,
    /// Cycles of the run.
    pub cycles: u64,
}

/// Sums over the packets that count.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    packets: u64,
    latency: u64,
    network: u64,
    hops: u64,
    /// Flits that have arrived, and the first cycle for which they count.
    flits: u64,
    since: u64,
}

/// A run at a load.
struct Watch {
    load: Load,
    network: InputQueued<DimensionOrder>,
    source: Bernoulli,
    arrived: Vec<Arrival>,
    sums: Sums,
    /// First cycle in which a packet must leave its source, and first in which it must not be
    /// created, to count.
    counts: (u64, u64),
    /// Packets that have been created before `counts.1` and not arrived.
    open: u64,
}

impl Setup {
    /// Latency at a load, as BookSim2 measures it: periods of warm-up, then periods until latency and
    /// throughput change little, then until the packets of these have arrived. `None` if the mean
    /// latency, with that of packets under way so far, is above the limit after a period.
    ///
    /// # Errors
    /// If the network cannot have its settings, the pattern does not fit it, or the load cannot be.
    pub fn measure(&self, load: &Load) -> Result<Option<Measured>, Refused> {
        Refused::unless(load.flits > 0, "flits of a packet", load.flits, "at least 1")?;
        Refused::unless(load.period > 0, "sample period", load.period, "at least 1 cycle")?;
        let possible = load.load > 0.0 && load.load <= f64::from(load.flits);
        let allowed = "above 0, and at most a packet per node and cycle";
        Refused::unless(possible, "load", load.load, allowed)?;
        load.pattern.fits(&self.grid)?;
        let network = self.network(load.seed ^ SEED)?;
        let source = Bernoulli::new(self.grid, load.pattern, load.load, load.flits, load.seed);
        let watch = Watch {
            load: *load,
            network,
            source,
            arrived: Vec::new(),
            sums: Sums::default(),
            counts: (0, u64::MAX),
            open: 0,
        };
        Ok(watch.measure(f64::from(self.grid.nodes())))
    }
}

impl Watch {
    fn measure(mut self, nodes: f64) -> Option<Measured> {
        let (mut before, mut steady) = ((0.0, 0.0), 0);
        for period in 0..self.load.most {
            let running = period >= self.load.warmup;
            if period == self.load.warmup {
                self.counts.0 = self.network.now();
            }
            // The warm-up forgets every other period.
            if period == self.load.warmup || !running && period % 2 == 0 {
                self.sums = Sums { since: self.network.now(), ..Sums::default() };
            }
            self.cycles(self.load.period);
            if self.saturated() {
                return None;
            }
            let now = (self.sums.latency(), self.sums.accepted(self.network.now()));
            let little = |now: f64, before: f64| ((now - before) / now).abs() <= STEADY.0;
            let same = little(now.0, before.0) && little(now.1, before.1);
            before = now;
            if running {
                steady = if same { steady + 1 } else { 0 };
                if steady == STEADY.1 {
                    break;
                }
            }
        }
        let end = self.network.now();
        self.counts.1 = end;
        let accepted = self.sums.accepted(end) / nodes;
        if !self.drain() {
            return None;
        }
        let packets = self.sums.packets as f64;
        Some(Measured {
            latency: self.sums.latency(),
            network: self.sums.network as f64 / packets,
            accepted,
            hops: self.sums.hops as f64 / packets,
            cycles: self.network.now(),
        })
    }

    /// Goes on until all packets that count have arrived. Returns whether they do.
    fn drain(&mut self) -> bool {
        for cycle in 1.. {
            if self.open == 0 {
                break;
            }
            self.cycles(1);
            let looks = cycle % DRAIN.0 == 0 && self.open > 0;
            if looks && (self.saturated() || cycle / DRAIN.0 == DRAIN.1) {
                return false;
            }
        }
        true
    }

    fn cycles(&mut self, cycles: u64) {
        let flits = self.load.flits;
        let first = self.network.now();
        for cycle in first..first + cycles {
            let (network, open, last) = (&mut self.network, &mut self.open, self.counts.1);
            self.source.cycle(|src, dst| {
                network.send(cycle, packet(src, dst, flits), cycle + 1);
                *open += u64::from(cycle < last);
            });
            self.network.run(cycle + 1, &mut self.arrived);
            for arrival in self.arrived.drain(..) {
                let created = arrival.token;
                self.open -= u64::from(created <= self.counts.1);
                self.sums.flits += u64::from(flits);
                let left = arrival.cycle - arrival.network;
                if left >= self.counts.0 && created <= self.counts.1 {
                    self.sums.packets += 1;
                    self.sums.latency += arrival.cycle - created;
                    self.sums.network += arrival.network;
                    self.sums.hops += u64::from(arrival.hops);
                }
            }
        }
    }

    /// Whether the mean latency is above the limit, with the flits that are under way.
    fn saturated(&self) -> bool {
        let now = self.network.now();
        let (mut sum, mut count) = (self.sums.latency, self.sums.packets);
        for (flits, created) in self.network.in_flight() {
            sum += (now - created) * u64::from(flits);
            count += u64::from(flits);
        }
        sum as f64 > self.load.limit * count as f64
    }
}

impl Sums {
    fn latency(&self) -> f64 {
        self.latency as f64 / self.packets as f64
    }

    fn accepted(&self, now: u64) -> f64 {
        self.flits as f64 / (now - self.since) as f64
    }
}
