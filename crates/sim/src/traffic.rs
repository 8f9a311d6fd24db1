//! Synthetic traffic on the network of a platform, at one load.
//!
//! Here: [`injection`], [`alone`] and [`run`], which make the network and name what they find, and
//! how long a message takes on links that carry nothing else ([`Unloaded`]). Not here: patterns, load points and their statistics (`traffic`), curves and saturation (Python).

use crate::backends::Network;
use crate::names;
use crate::{BackendKind, Error};
use graph::Problem;
use network::Backend;
use platform::Platform;
use topology::{Fabric, Link, LinkGraph};
pub use traffic::{
    Arrivals, Distribution, Flow, Latency, Lone, Outcome, Pattern, Progress, Sent, Sizes,
};
use traffic::{Destinations, Measured, PatternError, Traffic};
use units::{Bandwidth, Bytes, Span};

const PS_PER_S: f64 = 1e12;

/// Messages on the network of a platform.
#[derive(Clone, Debug)]
pub struct Request {
    /// The platform.
    pub platform: Platform,
    /// Network of the platform.
    pub backend: BackendKind,
    /// Pattern of sources and destinations.
    pub pattern: Pattern,
    /// Bytes of a message, above 0.
    pub sizes: Sizes,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// At what load, and how well its latency must be known.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes per second that the busiest NPU sends, above 0.
    pub rate: f64,
    /// When messages are created.
    pub arrivals: Arrivals,
    /// Relative half-width of the confidence interval at which a run is over.
    pub precision: f64,
    /// Mean latency from which the network counts as saturated. With sizes that are drawn, the mean
    /// slowdown in millionths.
    pub latency_max: Span,
    /// Most messages of a run.
    pub messages_max: u64,
}

/// Result of a load point.
#[derive(Clone, Debug)]
pub struct Found {
    /// All of it.
    pub measured: Measured,
    /// For each link of `measured`, its name.
    pub names: Vec<String>,
}

/// The smallest bandwidth of the links that leave an NPU, together: what each NPU could send.
///
/// # Errors
/// A network without routes between all NPUs.
pub fn injection(platform: &Platform) -> Result<Bandwidth, Problem> {
    let npus = platform.fabric.npus();
    if let Fabric::Stacked(dims) = &platform.fabric
        && dims.iter().map(|dim| u64::from(dim.size)).sum::<u64>() > 1 << 16
    {
        let text = "the network has too many links to count";
        return Err(Problem::new(&platform.name, "topology", text).help("a smaller network"));
    }
    let graph = LinkGraph::new(&platform.fabric)
        .map_err(|error| Problem::new(&platform.name, "topology", error.to_string()))?;
    let mut sums = vec![0u64; npus as usize];
    for link in (0..graph.len()).map(|link| graph.link(link)) {
        if let Some(sum) = sums.get_mut(link.from as usize) {
            *sum = sum.saturating_add(link.bandwidth.0);
        }
    }
    Ok(Bandwidth(sums.into_iter().min().unwrap_or_default()))
}

impl Request {
    /// The length of a cycle and the bytes of a flit; `None` on networks without flits.
    ///
    /// # Errors
    /// Settings that do not fit together.
    pub fn cycle(&self) -> Result<Option<(Span, u32)>, Problem> {
        match self.backend {
            BackendKind::Flit => crate::backends::cycle(&self.platform).map(Some),
            _ => Ok(None),
        }
    }

    fn destinations(&self) -> Result<Destinations, Problem> {
        let wrong = |PatternError { message, allowed }: PatternError| {
            Problem::new(&self.platform.name, "pattern", message).help(allowed)
        };
        Destinations::new(&self.pattern, &self.platform.fabric.sizes(), self.seed).map_err(wrong)
    }
}

/// Mean latencies of messages that are alone in the network; with sizes that are drawn, of messages
/// of the mean size.
///
/// # Errors
/// A pattern or a network that the platform does not allow.
pub fn alone(request: &Request) -> Result<Lone, Error> {
    let destinations = request.destinations()?;
    let mut network = request.backend.make(&request.platform)?;
    let bytes = request.sizes.mean() as u64;
    Ok(traffic::alone(destinations, bytes, request.seed, &mut network))
}

/// Runs one load point. `hook` is called now and then; the run ends when it returns false.
///
/// # Errors
/// A pattern or a network that the platform does not allow, a locked-up network, or the hook.
pub fn run(
    request: &Request,
    load: &Load,
    hook: &mut dyn FnMut(Progress) -> bool,
) -> Result<Found, Error> {
    let traffic = Traffic {
        destinations: request.destinations()?,
        sizes: request.sizes.clone(),
        gap: request.sizes.mean() / load.rate * PS_PER_S,
        arrivals: load.arrivals,
        seed: request.seed,
        precision: load.precision,
        latency_max: load.latency_max,
        messages_max: load.messages_max,
    };
    if traffic.gap > 1e6 * PS_PER_S {
        let text = format!("a load of {} bytes per second is too low", load.rate);
        return Err(Problem::new("", "load", text).help("a message in 11 days at least").into());
    }
    let network = request.backend.make(&request.platform)?;
    let mut network = match network {
        // Drawn sizes are those of flows, each with a connection of its own.
        Network::Packet(packets) if matches!(request.sizes, Sizes::Drawn(_)) => {
            Network::Packet(Box::new(packets.with_own_connections()))
        }
        other => other,
    };
    let network: &mut dyn Backend = &mut network;
    let idle = match request.sizes {
        Sizes::Fixed(_) => None,
        Sizes::Drawn(_) => Some(Idle::new(request)?),
    };
    let unloaded = |src, dst, bytes| match &idle {
        Some(idle) => idle.takes(src, dst, bytes),
        None => Span::ZERO,
    };
    let unloaded: Option<traffic::Unloaded<'_>> = idle.is_some().then_some(&unloaded);
    let measured = traffic.run(network, unloaded, hook).ok_or(Error::Cancelled)?;
    let fabric = &request.platform.fabric;
    if let Outcome::Stuck(stuck) = measured.outcome {
        return Err(Error::Locked(names::stall(fabric, stuck), measured.end));
    }
    let name =
        |link: &traffic::LinkLoad| names::link_of_dimension(fabric, link.from, link.to, link.dim);
    let names = measured.links.iter().map(name).collect();
    Ok(Found { measured, names })
}

/// An idle network: how long a message takes on links that carry nothing else.
struct Idle {
    graph: LinkGraph,
    /// Until the first packet may leave.
    injection: Span,
    /// Bytes of data in a packet, and bytes that a link carries around them; none where bytes flow.
    packet: Option<(u64, u64)>,
}

impl Idle {
    fn new(request: &Request) -> Result<Idle, Problem> {
        let platform = &request.platform;
        let mut injection = Span::ZERO;
        let packet = match request.backend {
            BackendKind::Flow => None,
            BackendKind::Packet => {
                let keys = platform.network.packet.clone().unwrap_or_default();
                if let Some((key, _)) = keys.lists().first() {
                    let key = format!("network.packet.{key}");
                    let text = "sizes that are drawn need one value for all links";
                    return Err(Problem::new(&platform.name, key, text).help("one value"));
                }
                let protocol = keys.protocol(0);
                let payload = protocol.mtu.saturating_sub(protocol.headers).max(1);
                injection = protocol.injection_latency;
                Some((payload, protocol.headers + protocol.framing))
            }
            ref other => {
                let text = format!("messages of drawn sizes do not run on the backend {other}");
                return Err(Problem::new(&platform.name, "backend", text).help("packet, flow"));
            }
        };
        let graph = LinkGraph::new(&platform.fabric)
            .map_err(|error| Problem::new(&platform.name, "topology", error.to_string()))?;
        let graph = graph.with_routing(platform.network.routing);
        Ok(Idle { graph, injection, packet })
    }

    /// The latencies of the host and the way, the time of all packets on its narrowest link, and of the first
    /// packet on the links before it and the last on those behind. Bytes that flow have no packets.
    fn takes(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let way: Vec<Link> =
            self.graph.route(src, dst).map(|hop| self.graph.link(hop.link)).collect();
        let latency: Span = way.iter().map(|link| link.latency).fold(self.injection, |a, b| a + b);
        let Some((payload, around)) = self.packet else {
            let narrow = way.iter().map(|link| link.bandwidth.span(Bytes(bytes))).max();
            return latency + narrow.unwrap_or(Span::ZERO);
        };
        let packets = bytes.div_ceil(payload).max(1);
        let first = bytes.min(payload) + around;
        let last = bytes - (packets - 1) * payload + around;
        let all = bytes + packets * around;
        let time = |narrow: usize| {
            let size = |at: usize| match at.cmp(&narrow) {
                std::cmp::Ordering::Less => first,
                std::cmp::Ordering::Equal => all,
                std::cmp::Ordering::Greater => last,
            };
            way.iter()
                .enumerate()
                .map(|(at, link)| link.bandwidth.span(Bytes(size(at))))
                .fold(latency, |sum, part| sum + part)
        };
        (0..way.len()).map(time).max().unwrap_or(Span::ZERO)
    }
}
