//! The prediction: of the algorithms and protocols a library may choose, the fastest and its time.
//!
//! Over `n = g N` members, `g` in each of `N` nodes, with `S` the larger of a member's two buffers,
//! `w = 2 (n-1)/n` for an all-reduce and half of that for all-gather and reduce-scatter:
//!
//! ```text
//! ring       start + (steps - network steps) step
//!            + overlapped(overlapped(network steps * network step, steps * interval),
//!                         S w / min(ring, g network))
//! tree       start + 2 ((g - 1) step + ceil(log2 N) level)
//!            + S / min(ring tree / 2, min(g network, most) (N = 2: 1, else 1/2))
//! NVLS       start + latency + ramp sqrt(S / MiB) + S (1 + 1/g) / link
//! overlapped (a, b) = (a^4 + b^4)^(1/4): two at the same time take little more than the longer one
//! ring       efficiency link / (1 + ramp_up / steps); in a tree with the 2 (g-1) steps of its chain
//! ```
//!
//! A ring's link between two nodes carries a message in each step. It takes them one `interval`
//! (`step_interval`) after the other, as in NCCL's model (`getNetOverhead`). In a ring, `network` is
//! divided by `1 + scale_loss (ceil(log2 N) - 1)`. Without a ring of direct links, a tree over these
//! links has half of its narrowest link, as NCCL counts (a chain carries the buffer up and down).
//!
//! All-to-all, gather, scatter and single sends are in `pairwise.rs`. A collective of no bytes is a
//! call: `call_overhead` (NCCL drops it before it gets that far).
//!
//! Arithmetic is in double precision with sums, products, quotients and square roots only, which
//! are the same everywhere; the time is rounded to the picosecond once.

use super::correction;
use super::place::Placement;
use graph::CollectiveKind;
use platform::library::{Algorithm, Between, Hosts, Library, Protocol};
use units::{Ratio, Span};

/// Bytes a barrier's all-reduce moves.
const BARRIER: u64 = 4;
/// Bytes that one GB/s carries in a microsecond.
const BYTES_PER_US: f64 = 1e3;

/// How a library runs a collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// The time.
    pub time: Span,
    /// Bytes that a member sends within the node.
    pub inside: u64,
    /// Bytes that a member sends between nodes.
    pub between: u64,
}

impl Prediction {
    /// Algorithm and protocol: `Ring LL`.
    pub fn name(&self) -> String {
        format!("{} {}", self.algorithm.name(), self.protocol.name())
    }
}

/// A way to do it: microseconds, and bytes that a member sends.
pub(super) struct Way {
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub us: f64,
    pub inside: f64,
    pub between: f64,
}

/// The prediction for `kind` with `bytes` (as a workload counts them) over `place`; `None` where
/// the members have no way to one another, or are only one.
pub fn predict(
    library: &Library,
    place: &Placement,
    kind: CollectiveKind,
    bytes: u64,
) -> Option<Prediction> {
    if place.members() < 2 {
        return None;
    }
    let call = Call { library, place, kind, size: size(kind, bytes, place.members()) };
    let best = call.best()?;
    let measured = library.corrections.iter().find(|c| correction::suits(c, kind, place));
    let model = |size: f64| {
        let way = if size > 0.0 {
            Call { size, ..call }.best().map_or(best.us, |way| way.us)
        } else {
            library.call_overhead.as_us()
        };
        way.max(library.min_call_interval.as_us())
    };
    let time = measured.map_or_else(|| model(call.size), |c| correction::time(c, call.size, model));
    Some(Prediction {
        algorithm: best.algorithm,
        protocol: best.protocol,
        time: Span::from_us(time),
        inside: if kind == CollectiveKind::Barrier { 0 } else { best.inside as u64 },
        between: if kind == CollectiveKind::Barrier { 0 } else { best.between as u64 },
    })
}

/// The larger of a member's two buffers.
fn size(kind: CollectiveKind, bytes: u64, members: u32) -> f64 {
    match kind {
        CollectiveKind::AllGather | CollectiveKind::Gather => bytes as f64 * f64::from(members),
        CollectiveKind::Barrier => BARRIER as f64,
        _ => bytes as f64,
    }
}

/// The time of a protocol, in microseconds.
fn of(spans: &[Span; 3], protocol: Protocol) -> f64 {
    spans[protocol as usize].as_us()
}

/// The part of a bandwidth that a protocol reaches.
fn share(shares: &[Ratio; 2], protocol: Protocol) -> f64 {
    shares.get(protocol as usize).map_or(1.0, |r| r.as_f64())
}

/// The time of two things that happen at the same time and slow each other a little:
/// `(a^4 + b^4)^(1/4)`, computed from the larger so that nothing overflows. The exponent is chosen,
/// not measured: a smooth maximum, above the larger time by at most 19 %, when both are equal.
fn overlapped(a: f64, b: f64) -> f64 {
    let (less, more) = (a.min(b), a.max(b));
    let part = if more > 0.0 && more.is_finite() { less / more } else { 0.0 };
    let square = part * part;
    more * (1.0 + square * square).sqrt().sqrt()
}

/// One collective of a library on a place.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub library: &'a Library,
    pub place: &'a Placement,
    pub kind: CollectiveKind,
    pub size: f64,
}

impl Call<'_> {
    /// The fastest way; `None` where there is no way.
    fn best(&self) -> Option<Way> {
        self.ways()
            .into_iter()
            .filter(|way| way.us.is_finite())
            .min_by(|a, b| a.us.total_cmp(&b.us))
    }

    fn ways(&self) -> Vec<Way> {
        use CollectiveKind::*;
        match self.kind {
            AllReduce | Barrier => {
                let mut ways: Vec<Way> =
                    self.protocols().flat_map(|p| [self.ring(p), self.tree(p)]).collect();
                ways.extend(self.nvls());
                ways
            }
            AllGather | ReduceScatter | Broadcast | Reduce => {
                self.protocols().map(|p| self.ring(p)).collect()
            }
            AllToAll | Gather | Scatter => {
                self.short_messages().into_iter().chain([self.pairwise()]).collect()
            }
        }
    }

    /// The protocols to choose from: all within a node, between nodes those of the network.
    fn protocols(&self) -> impl Iterator<Item = Protocol> + use<'_> {
        let network = self.library.network.as_ref().filter(|_| self.place.between > 1);
        let offered = move |p: &Protocol| network.is_none_or(|n| n.protocols.contains(p));
        Protocol::ALL.into_iter().filter(offered)
    }

    /// Members in a node, nodes, members.
    pub(super) fn counts(&self) -> (f64, f64, f64) {
        let (g, nodes) = (f64::from(self.place.inside), f64::from(self.place.between));
        (g, nodes, g * nodes)
    }

    fn start(&self, protocol: Protocol) -> f64 {
        let simple = if protocol == Protocol::Simple {
            self.library.node.simple_overhead.as_us()
        } else {
            0.0
        };
        self.library.call_overhead.as_us() + simple
    }

    /// Limits of rings, if the members of a node have several hosts.
    fn hosts(&self) -> Option<&Hosts> {
        self.library.node.hosts.as_ref().filter(|hosts| self.place.span > hosts.ranks)
    }

    /// Microseconds of a step within a node.
    fn step(&self, protocol: Protocol) -> f64 {
        let node = &self.library.node;
        of(self.hosts().map_or(&node.step_latency, |hosts| &hosts.step_latency), protocol)
    }

    /// The slowdown of `steps` steps: the first one fills the buffers.
    pub(super) fn fill(&self, steps: f64) -> f64 {
        1.0 + self.library.node.ramp_up.map_or(0.0, Ratio::as_f64) / steps
    }

    /// GB/s of the rings within a node in that number of steps, per member.
    pub(super) fn ring_bandwidth(&self, protocol: Protocol, steps: f64) -> f64 {
        let (node, place) = (&self.library.node, self.place);
        let (g, nodes, _) = self.counts();
        if place.inside == 1 {
            return f64::INFINITY;
        }
        let efficiency = self.hosts().map_or(node.efficiency, |hosts| hosts.efficiency);
        let reached = efficiency.as_f64() * share(&node.ll_efficiency, protocol);
        if place.rings.is_some() {
            let direct = place.link * reached;
            return if direct > 0.0 {
                direct
            } else {
                node.host_bandwidth.map_or(0.0, |b| b.as_gb_per_s())
            };
        }
        // Through a mesh, rings that leave the node don't return within it: one link in g is free
        // for others.
        let open = if place.mesh && nodes > 1.0 { g / (g - 1.0) } else { 1.0 };
        place.link * reached * open / self.fill(steps)
    }

    /// GB/s that the trees of a node have instead of its rings: the same links, or without a ring
    /// those of a tree over direct links.
    fn tree_bandwidth(&self, protocol: Protocol) -> f64 {
        let node = &self.library.node;
        match self.place.rings.as_ref().filter(|rings| rings.cycles.is_empty()) {
            Some(rings) => {
                let reached = node.efficiency.as_f64() * share(&node.ll_efficiency, protocol);
                rings.tree_bandwidth * reached
            }
            None => self.ring_bandwidth(protocol, 2.0 * f64::from(self.place.inside - 1)),
        }
    }

    /// Slowdown of rings and all-to-alls over the network on many nodes over two: a ring is as slow
    /// as its slowest link.
    pub(super) fn scale_loss(&self, network: &Between) -> f64 {
        1.0 + network.scale_loss.map_or(0.0, Ratio::as_f64) * (self.levels() - 1.0).max(0.0)
    }

    /// GB/s of the network of a node.
    fn network_bandwidth(&self, protocol: Protocol) -> f64 {
        let of_node = |n: &Between| n.efficiency.as_f64() * share(&n.ll_efficiency, protocol);
        self.library.network.as_ref().map_or(0.0, of_node)
            * self.place.network
            * f64::from(self.place.inside)
    }

    /// Microseconds that `bytes` take at `bandwidth` GB/s.
    pub(super) fn carry(bytes: f64, bandwidth: f64) -> f64 {
        bytes / bandwidth / BYTES_PER_US
    }

    fn ring(&self, protocol: Protocol) -> Way {
        let (g, nodes, n) = self.counts();
        let rounds = if matches!(self.kind, CollectiveKind::AllReduce | CollectiveKind::Barrier) {
            2.0
        } else {
            1.0
        };
        let rooted = matches!(self.kind, CollectiveKind::Broadcast | CollectiveKind::Reduce);
        let wire = if rooted { 1.0 } else { rounds * (n - 1.0) / n };
        let (steps, outside) = (rounds * (n - 1.0), rounds * (nodes - 1.0));
        let step = |b: &Between| of(&b.step_latency, protocol) + self.place.step_extra();
        let network_step = self.library.network.as_ref().map_or(0.0, step);
        let inside = (steps - outside) * self.step(protocol);
        let interval = match &self.library.network {
            Some(network) if nodes > 1.0 => network.step_interval.as_us(),
            _ => 0.0,
        };
        let far = overlapped(outside * network_step, steps * interval);
        let mut bandwidth = self.ring_bandwidth(protocol, steps);
        if nodes > 1.0 {
            let slower = self.library.network.as_ref().map_or(1.0, |b| self.scale_loss(b));
            bandwidth = bandwidth.min(self.network_bandwidth(protocol) / slower);
        }
        let bytes = self.size * wire;
        let us = self.start(protocol) + inside + overlapped(far, Call::carry(bytes, bandwidth));
        let within = if nodes > 1.0 { (g - 1.0) / g } else { 1.0 };
        let between = if nodes > 1.0 { bytes / g } else { 0.0 };
        Way { algorithm: Algorithm::Ring, protocol, us, inside: bytes * within, between }
    }

    /// Bandwidth of a tree between nodes, GB/s of the buffer.
    fn trees(&self, protocol: Protocol) -> f64 {
        let Some(network) = &self.library.network else { return 0.0 };
        let of_two = self.place.between == 2;
        let part_of = if of_two {
            network.two_node_tree_efficiency.as_f64()
        } else {
            0.5 * network.tree_efficiency.as_f64()
        };
        let all = self.network_bandwidth(protocol);
        network.tree_bandwidth_max.map_or(all, |most| all.min(most.as_gb_per_s())) * part_of
    }

    /// Microseconds of a level of a tree between nodes.
    fn level(&self, network: &Between, protocol: Protocol) -> f64 {
        of(&network.tree_level_latency, protocol) + self.place.level_extra()
    }

    fn levels(&self) -> f64 {
        f64::from(self.place.between.next_power_of_two().trailing_zeros())
    }

    /// Bytes a member sends over the network in a tree: a node sends its buffer up and down, half
    /// of that between two.
    fn sent_in_trees(&self) -> f64 {
        let (g, _, _) = self.counts();
        match self.place.between {
            1 => 0.0,
            2 => self.size / g,
            _ => 2.0 * self.size / g,
        }
    }

    fn tree(&self, protocol: Protocol) -> Way {
        let (g, nodes, _) = self.counts();
        let mut bandwidth =
            0.5 * self.tree_bandwidth(protocol) * self.library.node.tree_efficiency.as_f64();
        if nodes > 1.0 {
            bandwidth = bandwidth.min(self.trees(protocol));
        }
        let level = self.library.network.as_ref().map_or(0.0, |b| self.level(b, protocol));
        let waits = 2.0 * ((g - 1.0) * self.step(protocol) + self.levels() * level);
        let us = self.start(protocol) + waits + Call::carry(self.size, bandwidth);
        let inside = 2.0 * self.size * (g - 1.0) / g;
        Way { algorithm: Algorithm::Tree, protocol, us, inside, between: self.sent_in_trees() }
    }

    fn nvls(&self) -> Option<Way> {
        let nvls = self.library.nvls.as_ref().filter(|n| self.place.inside >= n.min_ranks)?;
        self.protocols().find(|&p| p == Protocol::Simple)?;
        let (g, nodes, _) = self.counts();
        let moved = self.size * (1.0 + 1.0 / g);
        let mut carried = Call::carry(moved, self.place.link * nvls.efficiency.as_f64());
        let mut waits = nvls.latency.as_us()
            + nvls.ramp_latency.as_us() * (self.size / f64::from(1 << 20)).sqrt();
        let mut algorithm = Algorithm::Nvls;
        if nodes > 1.0 {
            let network = self.library.network.as_ref()?;
            carried = carried.max(Call::carry(self.size, self.trees(Protocol::Simple)));
            waits += 2.0 * self.levels() * self.level(network, Protocol::Simple);
            algorithm = Algorithm::NvlsTree;
        }
        let us = self.library.call_overhead.as_us() + waits + carried;
        Some(Way {
            algorithm,
            protocol: Protocol::Simple,
            us,
            inside: moved,
            between: self.sent_in_trees(),
        })
    }
}
