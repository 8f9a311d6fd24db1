//! Messages between pairs: all-to-all, gather and scatter, which NCCL builds from sends and
//! receives, and a single send.
//!
//! Over `n = g N` members, `g` in each of `N` nodes, with `S` the larger of a member's two buffers:
//!
//! ```text
//! pairwise   start + ceil((g-1)/16) peer + (n-g) network peer
//!            + max(S (g-1)/n / link, S (n-g)/n / network)
//! LL         start + ceil((g-1)/16) LL peer + max(S / g / (LL part of the link),
//!            S (g-1)/g / (all_to_all_efficiency ll_efficiency of the link)), within a node alone
//! PXN        start + (ceil((g-1)/16) + 1) peer + (N-1) ceil(g / pxn) network peer
//!            + max((S (g-1)/n + handed) / link, S (n-g)/n / network)
//! handed     S (n-g)/n (g-1)/g
//! link       all_to_all_efficiency of a member's link / (1 + ramp_up / (g-1))
//! send       p2p_overhead + bytes / link, or bytes / min(network, p2p_bandwidth_max)
//! ```
//!
//! `peer` is `peer_latency`. Within a node a kernel serves 16 peers at once: NCCL has up to 32
//! channels for sends and gives each peer two. A network's card takes one message after the other.
//! Short messages go with LL (`ll_peer`): each has few channels, so its rate does not depend on the
//! number of peers.
//! `network` is divided by `1 + scale_loss (ceil(log2 N) - 1)`. With PXN a GPU hands a message for
//! another node over NVLink to the GPU of its own node that is on the receiver's rail. That GPU's
//! card sends up to `pxn` messages to a receiver as one, and none cross rails. Without PXN, messages
//! that cross rails get `cross_rail_efficiency` of the network. With PXN a root that scatters
//! reaches all cards of its node. Not here: the meaning of the parameters (crate `platform`), the
//! choice of an algorithm (`time.rs`).
//!
//! Source: S. Jeaugey and others, "Doubling all2all performance with NVIDIA Collective
//! Communication Library 2.12" (NVIDIA, 2022). When it is used: NVIDIA/nccl issues 918 and 1189.
//! The rate of a single send: docs/models/libraries.md.

use super::place;
use super::time::{Call, Way};
use graph::CollectiveKind;
use platform::library::{Algorithm, Between, Library, Protocol};
use topology::Fabric;
use units::{Ratio, Span};

/// The time of a message alone, from one rank to another whose outermost difference is in dimension
/// `dim` of the fabric: `p2p_overhead + bytes / (efficiency bandwidth)`, with at most
/// `p2p_bandwidth_max` between nodes, and later by what its way is longer than to the nearest node.
/// `None` where the dimension does not exist, and on a graph without dimensions, because only the
/// network knows its routes.
pub fn message(library: &Library, fabric: &Fabric, dim: u32, bytes: u64) -> Option<Span> {
    let near = (dim as usize) < place::node_dims(fabric);
    let (efficiency, most) = match (near, &library.network) {
        (true, _) => (library.node.efficiency, None),
        (false, Some(network)) => (network.efficiency, network.p2p_bandwidth_max),
        _ => return None,
    };
    let link = match fabric {
        Fabric::Stacked(dims) => dims.get(dim as usize)?.bandwidth,
        Fabric::Graph(graph) => graph.reach().get(dim as usize)?.stream,
    };
    let stream = link.as_gb_per_s() * efficiency.as_f64();
    let bandwidth = most.map_or(stream, |most| stream.min(most.as_gb_per_s()));
    let time = library.p2p_overhead.as_us()
        + place::extra(fabric, dim as usize)
        + Call::carry(bytes as f64, bandwidth);
    Some(Span::from_us(time))
}

/// Cost of a message of another algorithm than the library's for its receiver in dimension `dim`,
/// on a platform whose links have the latency of wires and switches alone: the library's shortest
/// step (LL) without that latency.
pub fn transport(library: &Library, fabric: &Fabric, dim: u32) -> Span {
    let step = match &library.network {
        Some(network) if dim as usize >= place::node_dims(fabric) => network.step_latency[0],
        _ => library.node.step_latency[0],
    };
    let latency = match fabric {
        Fabric::Stacked(dims) => {
            dims.get(dim as usize).map(|d| d.latency * u64::from(d.block.hops(d.size, 0, 1)))
        }
        Fabric::Graph(graph) => match graph.reach().get(dim as usize) {
            Some(reach) => Some(reach.latency),
            None => graph.links.iter().map(|link| link.latency).max(),
        },
    };
    step.saturating_sub(latency.unwrap_or_default())
}

/// Peers within a node that are served at once.
const AT_ONCE: f64 = 16.0;

/// Traffic between nodes: us of its messages, us of its bytes, bytes that a member hands on in its
/// own node before.
struct Far {
    waits: f64,
    carried: f64,
    handed: f64,
}

impl Call<'_> {
    /// How many times the peers within a node fill a kernel.
    fn peers_in_turn(&self) -> f64 {
        ((self.counts().0 - 1.0) / AT_ONCE).ceil()
    }

    /// All pairs of a node on a switch or in a mesh, with LL: each message at the same rate.
    pub(super) fn short_messages(&self) -> Option<Way> {
        let (g, nodes, _) = self.counts();
        let peer = self.library.node.ll_peer.as_ref();
        let peer = peer.filter(|_| nodes <= 1.0 && self.place.rings.is_none())?;
        let (node, link, message) = (&self.library.node, self.place.link, self.size / g);
        let all = link * node.all_to_all_efficiency.as_f64() * node.ll_efficiency[0].as_f64();
        let one = Call::carry(message, link * peer.efficiency.as_f64());
        let us = self.library.call_overhead.as_us()
            + self.peers_in_turn() * peer.latency.as_us()
            + one.max(Call::carry(message * (g - 1.0), all));
        // A gather or scatter: a member's part of what the root receives or sends.
        let sent = if self.kind == CollectiveKind::AllToAll { g - 1.0 } else { (g - 1.0) / g };
        let (algorithm, protocol) = (Algorithm::Pairwise, Protocol::Ll);
        Some(Way { algorithm, protocol, us, inside: message * sent, between: 0.0 })
    }

    /// All pairs of members, one message each.
    pub(super) fn pairwise(&self) -> Way {
        let (g, nodes, n) = self.counts();
        let node = &self.library.node;
        let near = self.size * (g - 1.0) / n;
        let network = self.library.network.as_ref().filter(|_| nodes > 1.0);
        let pxn = network.and_then(|b| b.pxn).filter(|_| g > 1.0);
        let far = match (network, pxn) {
            (None, _) => Far { waits: 0.0, carried: 0.0, handed: 0.0 },
            (Some(network), None) => self.across(network),
            (Some(network), Some(together)) => self.by_rail(network, f64::from(together)),
        };
        let link = if self.place.rings.is_some() {
            self.ring_bandwidth(Protocol::Simple, g - 1.0)
        } else {
            self.place.link / self.fill(g - 1.0)
        };
        // A gather's hand-over goes to another GPU than the root, in addition to what the root
        // receives.
        let through = near + if self.kind == CollectiveKind::Gather { 0.0 } else { far.handed };
        let inside = if g > 1.0 {
            Call::carry(through, link * node.all_to_all_efficiency.as_f64())
        } else {
            0.0
        };
        let us = self.library.call_overhead.as_us()
            + self.peers_in_turn() * node.peer_latency.as_us()
            + far.waits
            + inside.max(far.carried);
        // The root's port sets the time of a gather or scatter; another member sends its own part.
        let all = if self.kind == CollectiveKind::AllToAll { 1.0 } else { 1.0 / n };
        let between = self.size * (n - g) / n * all;
        let algorithm = if pxn.is_some() { Algorithm::Pxn } else { Algorithm::Pairwise };
        Way {
            algorithm,
            protocol: Protocol::Simple,
            us,
            inside: (near + far.handed) * all,
            between,
        }
    }

    /// GB/s of a member's share of the network in an all-to-all.
    fn all_to_all_bandwidth(&self, network: &Between) -> f64 {
        self.place.network_pairs * network.all_to_all_efficiency.as_f64() / self.scale_loss(network)
    }

    /// Every member sends to every one of the other nodes by its own card.
    fn across(&self, network: &Between) -> Far {
        let (g, _, n) = self.counts();
        let bytes = self.size * (n - g) / n;
        let bandwidth = self.all_to_all_bandwidth(network);
        let crossing = network.cross_rail_efficiency.map_or(1.0, Ratio::as_f64);
        let carried = Call::carry(bytes, bandwidth)
            .max(Call::carry(bytes * (g - 1.0) / g, bandwidth * crossing));
        Far {
            waits: (n - g) * (network.peer_latency.as_us() + shortness(network, self.size / n))
                + self.place.farthest_extra(),
            carried,
            handed: 0.0,
        }
    }

    /// Every card sends to the members of its rail what all members of the node have for them,
    /// `together` messages as one.
    fn by_rail(&self, network: &Between, together: f64) -> Far {
        let (g, nodes, n) = self.counts();
        let bytes = self.size * (n - g) / n;
        let messages = (nodes - 1.0) * (g / together).ceil();
        let each =
            network.peer_latency.as_us() + shortness(network, self.size / n * g.min(together));
        let cards = if self.kind == CollectiveKind::Scatter { g } else { 1.0 };
        let carried = Call::carry(bytes, self.all_to_all_bandwidth(network) * cards);
        // A message is handed on while others are sent: one pair more, not each.
        Far {
            waits: self.library.node.peer_latency.as_us()
                + messages * each
                + self.place.farthest_extra(),
            carried,
            handed: bytes * (g - 1.0) / g,
        }
    }
}

/// Additional time of a message between nodes because it is short, us.
fn shortness(network: &Between, bytes: f64) -> f64 {
    network
        .inline
        .as_ref()
        .filter(|s| bytes <= s.threshold.0 as f64)
        .map_or(0.0, |s| s.peer_latency.as_us())
}
