//! Network backends by name, and how each is made for a platform.
//!
//! Here: [`BackendKind`]. A new backend is a variant and its arms here; one of another crate is a
//! [`Registration`]. A backend can be made and driven without a workload. Not here: the names of
//! the built-in backends (`platform::NetworkModel`), their settings (`net_settings`), what a backend
//! does (`net-*`), the contract (`network`).

use graph::Problem;
use net_analytical::{Analytical, Crossing, LinkQueues, Ports, Switching};
use net_external::{Command, External};
use net_flit::Flits;
use net_flow::{FairFlows, Limits};
use net_packet::{Packets, Protocols};
use network::{
    Alike, Backend, ClosedForm, Contention, Delivery, Footprint, LinkClasses, LinkCost,
    NetworkSink, Ordered, Stuck, Transfer, Usage,
};
use platform::{NetworkModel, Platform, Profile};
use std::fmt;
use std::str::FromStr;
use topology::{Fabric, LinkGraph, Routing};
use units::{GIGA, Ratio, Span, Time};

/// A network backend as users name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// A message waits only where it leaves its NPU.
    #[default]
    Analytical,
    /// A queue on every link.
    Link,
    /// Flows that share links fairly.
    Flow,
    /// Packets of TCP or RDMA.
    Packet,
    /// Flits of routers with virtual channels.
    Flit,
    /// A simulator in another process: `external:COMMAND`.
    External(Box<Simulator>),
    /// One of another crate.
    Other(Registration),
}

/// Prefix of the names of simulators in other processes.
pub const PREFIX: &str = "external:";

/// A simulator in another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulator {
    /// `external:` and its command, as users write it.
    name: String,
    command: Command,
}

/// A backend of another crate.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Name of the backend, in reports.
    pub name: &'static str,
    /// Makes it for a platform, or says why it cannot.
    pub make: fn(&Platform) -> Result<Box<dyn Backend>, Problem>,
}

impl PartialEq for Registration {
    fn eq(&self, other: &Registration) -> bool {
        self.name == other.name
    }
}

impl Eq for Registration {}

impl BackendKind {
    /// The built-in ones, the default first. [`BackendKind::External`] needs a command.
    pub const ALL: [BackendKind; 5] = [
        BackendKind::Analytical,
        BackendKind::Link,
        BackendKind::Flow,
        BackendKind::Packet,
        BackendKind::Flit,
    ];

    /// Name of the backend.
    pub fn name(&self) -> &str {
        match self {
            BackendKind::Analytical => NetworkModel::Analytical.name(),
            BackendKind::Link => NetworkModel::Link.name(),
            BackendKind::Flow => NetworkModel::Flow.name(),
            BackendKind::Packet => NetworkModel::Packet.name(),
            BackendKind::Flit => NetworkModel::Flit.name(),
            BackendKind::External(simulator) => &simulator.name,
            BackendKind::Other(registration) => registration.name,
        }
    }

    /// Description of the backend, in a few words.
    pub fn about(&self) -> &'static str {
        match self {
            BackendKind::Analytical => NetworkModel::Analytical.about(),
            BackendKind::Link => NetworkModel::Link.about(),
            BackendKind::Flow => NetworkModel::Flow.about(),
            BackendKind::Packet => NetworkModel::Packet.about(),
            BackendKind::Flit => NetworkModel::Flit.about(),
            BackendKind::External(_) => crate::external_settings::ABOUT,
            BackendKind::Other(_) => "from another crate",
        }
    }

    /// The backend that a platform file asks for, or the default.
    pub fn of(platform: &Platform) -> BackendKind {
        platform.network.model.into()
    }

    /// Makes the backend for the network of `platform`.
    ///
    /// # Errors
    /// A network that it cannot carry: an explicit graph with broken links, more than 2^32 links,
    /// or ASTRA-sim's profile on a backend with an order of events of its own.
    pub fn make(&self, platform: &Platform) -> Result<Network, Problem> {
        let mut network = match self {
            BackendKind::Analytical => Network::Analytical(Box::new(analytical(platform)?)),
            BackendKind::Link => Network::Link(Box::new(link(platform)?)),
            BackendKind::Flow => Network::Flow(Box::new(flow(platform)?)),
            BackendKind::Packet => Network::Packet(Box::new(packet(platform)?)),
            BackendKind::Flit => Network::Flit(Box::new(flit(platform)?)),
            BackendKind::External(simulator) => {
                Network::External(Box::new(external(platform, &simulator.command)?))
            }
            BackendKind::Other(registration) => Network::Other((registration.make)(platform)?),
        };
        if !platform.profile.is_native() && network.ordered().is_none() {
            let text = format!("ASTRA-sim's profile does not run on the backend {self}");
            return Err(Problem::new(&platform.name, "backend", text).help(names().join(", ")));
        }
        Ok(network)
    }
}

impl From<NetworkModel> for BackendKind {
    fn from(model: NetworkModel) -> BackendKind {
        match model {
            NetworkModel::Analytical => BackendKind::Analytical,
            NetworkModel::Link => BackendKind::Link,
            NetworkModel::Flow => BackendKind::Flow,
            NetworkModel::Packet => BackendKind::Packet,
            NetworkModel::Flit => BackendKind::Flit,
        }
    }
}

/// Names of the built-in backends.
fn names() -> Vec<&'static str> {
    NetworkModel::ALL.iter().map(|model| model.name()).collect()
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BackendKind {
    type Err = Problem;

    /// The built-in backend of this name, or a simulator in another process; the problem lists
    /// them.
    fn from_str(name: &str) -> Result<BackendKind, Problem> {
        if let Some(command) = name.strip_prefix(PREFIX) {
            let command = Command::parse(command).map_err(|error| {
                Problem::new("", "backend", format!("{name}: {error}")).help("external:COMMAND")
            })?;
            let simulator = Simulator { name: name.to_string(), command };
            return Ok(BackendKind::External(Box::new(simulator)));
        }
        let found = BackendKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            Problem::new("", "backend", format!("unknown backend \"{name}\""))
                .help(format!("{}, external:COMMAND", names().join(", ")))
        })
    }
}

/// A backend that was made. Calls of the built-in ones are direct, because a run makes several for
/// each transfer.
pub enum Network {
    /// See [`BackendKind::Analytical`].
    Analytical(Box<Analytical>),
    /// See [`BackendKind::Link`].
    Link(Box<LinkQueues>),
    /// See [`BackendKind::Flow`].
    Flow(Box<FairFlows>),
    /// See [`BackendKind::Packet`].
    Packet(Box<Packets>),
    /// See [`BackendKind::Flit`].
    Flit(Box<Flits>),
    /// See [`BackendKind::External`].
    External(Box<External>),
    /// See [`BackendKind::Other`].
    Other(Box<dyn Backend>),
}

/// Calls the backend that it is.
macro_rules! each {
    ($network:expr, $backend:ident => $call:expr) => {
        match $network {
            Network::Analytical($backend) => $call,
            Network::Link($backend) => $call,
            Network::Flow($backend) => $call,
            Network::Packet($backend) => $call,
            Network::Flit($backend) => $call,
            Network::External($backend) => $call,
            Network::Other($backend) => $call,
        }
    };
}

impl Backend for Network {
    #[inline]
    fn start(&mut self, now: Time, transfer: Transfer) {
        each!(self, backend => backend.start(now, transfer))
    }

    #[inline]
    fn next_event(&self) -> Option<Time> {
        each!(self, backend => backend.next_event())
    }

    #[inline]
    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        each!(self, backend => backend.advance(until, finished))
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        each!(self, backend => backend.physical_minimum(src, dst, bytes))
    }

    fn usage(&self, until: Time) -> Usage {
        each!(self, backend => backend.usage(until))
    }

    fn contention(&self) -> Contention {
        each!(self, backend => backend.contention())
    }

    fn alike(&self) -> Alike {
        each!(self, backend => backend.alike())
    }

    fn fold(&mut self, classes: Box<dyn LinkClasses>) {
        each!(self, backend => backend.fold(classes));
    }

    fn footprint(&self) -> Footprint {
        each!(self, backend => backend.footprint())
    }

    fn stalled(&self) -> Option<Stuck> {
        each!(self, backend => backend.stalled())
    }

    fn failed(&self) -> Option<String> {
        each!(self, backend => backend.failed())
    }

    fn progress_every(&self) -> u64 {
        each!(self, backend => backend.progress_every())
    }

    fn observe(&mut self, sink: Box<dyn NetworkSink>) -> bool {
        each!(self, backend => backend.observe(sink))
    }

    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        each!(self, backend => backend.closed_form())
    }

    fn closed_form_mut(&mut self) -> Option<&mut dyn ClosedForm> {
        each!(self, backend => backend.closed_form_mut())
    }

    #[inline]
    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        each!(self, backend => backend.ordered())
    }
}

/// Cost of one link of each dimension of a stack, or of each link of a graph.
fn costs(platform: &Platform) -> Vec<LinkCost> {
    match (&platform.profile, &platform.fabric) {
        (Profile::AstraSim(raw), _) => raw
            .bandwidth
            .iter()
            .zip(&raw.latency)
            .map(|(&b, &latency)| gibibytes(b, latency))
            .collect(),
        (Profile::Native, Fabric::Stacked(dims)) => dims
            .iter()
            .map(|d| LinkCost::Exact { bandwidth: d.bandwidth, latency: d.latency })
            .collect(),
        (Profile::Native, Fabric::Graph(graph)) => graph
            .links
            .iter()
            .map(|l| LinkCost::Exact { bandwidth: l.bandwidth, latency: l.latency })
            .collect(),
    }
}

/// ASTRA-sim's GB is 2^30 bytes.
fn gibibytes(gb_per_s: f64, latency: f64) -> LinkCost {
    LinkCost::Nanoseconds { bandwidth: gb_per_s * f64::from(1u32 << 30) / GIGA, latency }
}

/// The links for a network on which a message takes one route.
pub(crate) fn one_route(platform: &Platform) -> Result<LinkGraph, Problem> {
    let routing = match (&platform.fabric, platform.network.routing) {
        (Fabric::Graph(_), Routing::Auto) => Routing::DModK,
        (_, routing) => routing,
    };
    Ok(links(platform)?.with_routing(routing))
}

fn links(platform: &Platform) -> Result<LinkGraph, Problem> {
    let graph = LinkGraph::new(&platform.fabric).map_err(|error| {
        let problem = Problem::new(&platform.name, "topology", error.to_string());
        match platform.fabric {
            Fabric::Stacked(_) => problem.help("a smaller network, or --backend analytical"),
            Fabric::Graph(_) => problem,
        }
    })?;
    Ok(graph.with_routing(platform.network.routing))
}

fn analytical(platform: &Platform) -> Result<Analytical, Problem> {
    let (crossing, ports) = match platform.profile {
        Profile::Native => (Crossing::Every, Ports::OneAtATime),
        Profile::AstraSim(_) => (Crossing::Innermost, Ports::Unlimited),
    };
    match &platform.fabric {
        Fabric::Stacked(dims) => {
            let axes: Vec<_> =
                dims.iter().zip(costs(platform)).map(|(d, cost)| (d.block, d.size, cost)).collect();
            Ok(Analytical::stacked(&axes, crossing, ports).with_routing(platform.network.routing))
        }
        Fabric::Graph(graph) => {
            let sizes = graph.dims.iter().map(|dim| dim.size).collect();
            Ok(Analytical::graph(links(platform)?, costs(platform)).with_sizes(sizes))
        }
    }
}

fn link(platform: &Platform) -> Result<LinkQueues, Problem> {
    let by_link = matches!(platform.fabric, Fabric::Graph(_));
    let settings = platform.network.link.clone().unwrap_or_default();
    let switching = match platform.profile {
        Profile::Native => settings.switching,
        Profile::AstraSim(_) => Switching::StoreAndForward,
    };
    Ok(LinkQueues::new(links(platform)?, costs(platform), by_link).with_switching(switching))
}

fn flow(platform: &Platform) -> Result<FairFlows, Problem> {
    let by_link = matches!(platform.fabric, Fabric::Graph(_));
    let settings = platform.network.flow.unwrap_or_default();
    if settings.efficiency > Ratio::ONE {
        let text = format!("efficiency {} is more than the whole link", settings.efficiency);
        let key = "network.flow.efficiency";
        return Err(Problem::new(&platform.name, key, text).help("above 0, at most 1 (100 %)"));
    }
    let one_route = platform.network.routing == Routing::Auto && !by_link;
    let limits = Limits { settings, one_route };
    let routing = platform.fabric.splitting(platform.network.routing);
    let links = links(platform)?.with_routing(routing);
    Ok(FairFlows::new(links, costs(platform), by_link, limits))
}

fn packet(platform: &Platform) -> Result<Packets, Problem> {
    let by_link = matches!(platform.fabric, Fabric::Graph(_));
    let keys = platform.network.packet.clone().unwrap_or_default();
    let misfits = keys.misfits(&platform.fabric).into_iter();
    let faults = keys.faults().into_iter().map(|(_, fault)| fault);
    if let Some(fault) = misfits.chain(faults).next() {
        let key = format!("network.packet.{}", fault.keys.join("."));
        return Err(Problem::new(&platform.name, key, fault.message).help(fault.allowed));
    }
    let links = links(platform)?;
    let protocols = Protocols::new(&keys, &platform.fabric, &links);
    let packets = Packets::new(links, costs(platform), by_link, protocols);
    Ok(match keys.skip {
        Some(tolerance) => packets.with_skipping(tolerance),
        None => packets,
    })
}

fn external(platform: &Platform, command: &Command) -> Result<External, Problem> {
    let keys = platform.network.packet.clone().unwrap_or_default();
    if let Some((key, _)) = keys.lists().first() {
        let text = "simulators in other processes have one value for all links";
        let key = format!("network.packet.{key}");
        return Err(Problem::new(&platform.name, key, text).help("one value, or --backend packet"));
    }
    let topology = net_external::Topology {
        links: links(platform)?,
        costs: costs(platform),
        by_link: matches!(platform.fabric, Fabric::Graph(_)),
    };
    let settings = platform.network.external.clone().unwrap_or_default();
    let patience = std::time::Duration::from_nanos(settings.timeout.0 / 1000);
    Ok(External::new(
        command.clone(),
        topology,
        crate::external_settings::settings(platform),
        patience,
    ))
}

/// The settings of [`BackendKind::Flit`] on these links of `platform`.
fn flit_settings(
    platform: &Platform,
    costs: &[LinkCost],
    links: &LinkGraph,
) -> Result<net_flit::Settings, Problem> {
    let keys = platform.network.flit.clone().unwrap_or_default();
    let table = |file: &str| crate::flit_refusals::table(file, platform, links);
    net_flit::Settings::new(keys, &platform.fabric, links, costs, table).map_err(|problem| {
        let file = if problem.file.is_empty() { &platform.name } else { &problem.file };
        Problem { file: file.clone(), ..problem }
    })
}

/// The length of a cycle and the bytes of a flit of [`BackendKind::Flit`] on `platform`.
///
/// # Errors
/// Settings that do not fit together.
pub(crate) fn cycle(platform: &Platform) -> Result<(Span, u32), Problem> {
    let settings = flit_settings(platform, &costs(platform), &one_route(platform)?)?;
    Ok((settings.keys.cycle, settings.flit))
}

fn flit(platform: &Platform) -> Result<Flits, Problem> {
    let by_link = matches!(platform.fabric, Fabric::Graph(_));
    let (costs, links) = (costs(platform), links(platform)?);
    let settings = flit_settings(platform, &costs, &links)?;
    Flits::new(&platform.fabric, links.clone(), (costs, by_link), settings)
        .map_err(|refusal| crate::flit_refusals::problem(platform, &links, refusal))
}
