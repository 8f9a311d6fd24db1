//! Settings: the keys that users give, and the sizes and routes that follow from the links.

use super::routing_choice::{RoutingChoice, Table};
use declared::Problem;
use net_settings::flit::{Flit, FlitRouter, FlitRouting, FlitSwitching};
use network::LinkCost;
use std::sync::Arc;
use topology::{Fabric, LinkGraph};
use units::Bytes;

/// Steps of a flit's width, bytes.
const STEP: u64 = 16;
/// Bytes of a packet, or a little more.
const PACKET: u64 = 4096;
/// Most bytes of a flit and of a packet, and most flits and channels.
const MOST: u64 = 1 << 20;
/// NPUs where all pairs are looked at to prove that routes cannot lock up: on graphs, by tables and
/// up*/down*.
const PROVED: u32 = 4096;
/// Most links side by side.
const PARALLEL: u32 = 64;
/// Nodes from which ways to all NPUs are kept.
const NODES: u32 = 16_384;

/// Packets that differ by kind of link. A message has those of the outermost link on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketsByKind {
    /// Bytes of a packet of each kind, the outermost last.
    pub each: Vec<u32>,
    /// The kind of each link.
    pub kinds: Vec<u16>,
}

/// Settings of a network of flits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The keys, as users give them.
    pub keys: Flit,
    /// Bytes of a flit.
    pub flit: u32,
    /// Bytes of the largest packet: a multiple of `flit`.
    pub packet: u32,
    /// Packets of each kind of link; where it is `None`, all have `packet`.
    pub packets: Option<PacketsByKind>,
    /// How packets are routed.
    pub routing: RoutingChoice,
}

impl Default for Settings {
    /// Flits of 64 B, packets of 4 KiB, the routes of the topology.
    fn default() -> Settings {
        Settings {
            keys: Flit::default(),
            flit: 64,
            packet: PACKET as u32,
            packets: None,
            routing: RoutingChoice::Topology,
        }
    }
}

impl Settings {
    /// Settings by `keys` on the links of `fabric`, which have these `costs`; `read` has the routes of
    /// a table's file.
    ///
    /// # Errors
    /// Values that do not fit together, and networks that are too large. Problems with the keys name
    /// no file.
    pub fn new(
        keys: Flit,
        fabric: &Fabric,
        links: &LinkGraph,
        costs: &[LinkCost],
        read: impl FnOnce(&str) -> Result<Table, Problem>,
    ) -> Result<Settings, Problem> {
        sizes(&keys, fabric, links)?;
        let flit = flit(&keys, fastest(&keys, fabric, costs))?;
        if let Some((message, allowed)) = keys.misfit(fabric) {
            return Err(fault(Flit::packet, message, allowed));
        }
        let each = packets(&keys, flit)?;
        let packet = each.iter().copied().max().unwrap_or(0);
        counts(&keys, u64::from(packet) / flit)?;
        let kinds = || links.kinds(fabric);
        let packets = keys.packet.entries().map(|_| PacketsByKind { each, kinds: kinds() });
        let routing = routing_choice(&keys.routing, fabric, read)?;
        Ok(Settings { keys, flit: flit as u32, packet, packets, routing })
    }

    /// Bytes of the smallest packet.
    pub(crate) fn least_packet(&self) -> u32 {
        let least = |packets: &PacketsByKind| packets.each.iter().copied().min();
        self.packets.as_ref().and_then(least).unwrap_or(self.packet)
    }

    /// Bytes of the packets of a message on a way.
    pub(crate) fn packet_on<W: Iterator<Item = u32>>(&self, way: impl FnOnce() -> W) -> u32 {
        let Some(PacketsByKind { each, kinds }) = &self.packets else { return self.packet };
        let outermost = way().map(|link| kinds[link as usize]).max();
        outermost.map_or(self.packet, |kind| each[usize::from(kind)])
    }
}

/// A problem with a key.
fn fault(key: &str, message: String, allowed: String) -> Problem {
    Problem::new("", format!("network.flit.{key}"), message).help(allowed)
}

/// Refuses networks that are too large, and a cycle without length.
fn sizes(keys: &Flit, fabric: &Fabric, links: &LinkGraph) -> Result<(), Problem> {
    let is_graph = matches!(fabric, Fabric::Graph(_));
    let is_proved_by_pairs =
        is_graph || matches!(keys.routing, FlitRouting::UpDown | FlitRouting::Table(_));
    if is_proved_by_pairs && links.npus() > PROVED {
        let what = if is_graph { "a graph" } else { "routes" };
        let text = format!("flits on {what} of {} NPUs", links.npus());
        let allowed = format!("at most {PROVED} NPUs, or --backend flow");
        return Err(Problem::new("", "backend", text).help(allowed));
    }
    let keeps_ways = keys.routing != FlitRouting::Topology && is_proved_by_pairs;
    if keeps_ways && links.nodes() > NODES {
        let text = format!("routing {} of {} nodes", keys.routing, links.nodes());
        return Err(fault(Flit::routing, text, format!("at most {NODES} nodes, or topology")));
    }
    if let Some(dim) = fabric.dims().iter().position(|dim| dim.parallel > PARALLEL) {
        let text = format!("{} links side by side", fabric.dims()[dim].parallel);
        return Err(Problem::new("", format!("links[{dim}].count"), text)
            .help(format!("at most {PARALLEL} each way on flits")));
    }
    if keys.cycle.0 == 0 {
        return Err(fault(Flit::cycle, "\"cycle\" is 0 ns".into(), "a time above 0".into()));
    }
    Ok(())
}

/// Bytes that the fastest link carries in a cycle; of several side by side, one of them.
fn fastest(keys: &Flit, fabric: &Fabric, costs: &[LinkCost]) -> u64 {
    let parallel = fabric.dims().iter().map(|dim| dim.parallel);
    let carries = |(cost, parallel): (&LinkCost, u32)| {
        let second = u128::from(cost.occupancy(1 << 40).0.max(1)) * u128::from(parallel);
        (u128::from(keys.cycle.0) << 40).div_ceil(second) as u64
    };
    let each = costs.iter().zip(parallel.chain(std::iter::repeat(1)));
    each.map(carries).max().unwrap_or(1)
}

/// Bytes of a flit.
fn flit(keys: &Flit, fastest: u64) -> Result<u64, Problem> {
    let flit = keys.flit.map_or(fastest.next_multiple_of(STEP), |Bytes(flit)| flit);
    if flit < fastest || flit > MOST {
        let text =
            format!("flits of {flit} B, but the fastest link carries {fastest} B in a cycle");
        let allowed = format!("{fastest} B to {MOST} B, or a shorter cycle");
        return Err(fault(Flit::flit, text, allowed));
    }
    Ok(flit)
}

/// Bytes of a packet of each kind of link.
fn packets(keys: &Flit, flit: u64) -> Result<Vec<u32>, Problem> {
    let size = |packet: &Option<Bytes>| {
        let packet = packet.map_or(PACKET.next_multiple_of(flit), |Bytes(packet)| packet);
        if packet == 0 || !packet.is_multiple_of(flit) || packet > MOST.next_multiple_of(flit) {
            let text = format!("a packet of {packet} B is not a whole number of flits of {flit} B");
            let allowed = format!("a multiple of {flit} B, at most 1 MiB");
            return Err(fault(Flit::packet, text, allowed));
        }
        Ok(packet as u32)
    };
    keys.packet.values().iter().map(size).collect()
}

/// Refuses numbers that are too large, and those that do not fit to packets of `flits`.
fn counts(keys: &Flit, flits: u64) -> Result<(), Problem> {
    let is_garnet = keys.router == FlitRouter::Garnet;
    let latency = is_garnet.then_some(keys.router_latency);
    for (key, count) in [
        (Flit::buffer, keys.buffer),
        (Flit::virtual_channels, keys.virtual_channels),
        (Flit::router_latency, latency),
    ] {
        if let Some(count) = count.filter(|&count| count == 0 || u64::from(count) > MOST) {
            let text = format!("\"{key}\" is {count}");
            return Err(fault(key, text, format!("1 to {MOST}")));
        }
    }
    let few = keys.buffer.filter(|&buffer| u64::from(buffer) < flits);
    if let (FlitSwitching::CutThrough, Some(few)) = (keys.switching, few) {
        let text = format!("a buffer of {few} flits does not hold a packet of {flits} flits");
        let allowed = format!("at least {flits}, or switching: wormhole");
        return Err(fault(Flit::buffer, text, allowed));
    }
    if keys.ordered && matches!(keys.routing, FlitRouting::Valiant { .. } | FlitRouting::Adaptive) {
        let text = format!("routing {} sends packets on several ways", keys.routing);
        let allowed = "false, or routing: topology, up_down or a table".to_string();
        return Err(fault(Flit::ordered, text, allowed));
    }
    Ok(())
}

/// How packets are routed.
fn routing_choice(
    routing: &FlitRouting,
    fabric: &Fabric,
    read: impl FnOnce(&str) -> Result<Table, Problem>,
) -> Result<RoutingChoice, Problem> {
    let has_dimensions = !matches!(fabric, Fabric::Graph(graph) if graph.recipe.is_none());
    if *routing == FlitRouting::DimensionOrder && !has_dimensions {
        let text = "a graph has no order of dimensions".to_string();
        let allowed = "blocks, a generator, or routing: topology, up_down or adaptive".to_string();
        return Err(fault(Flit::routing, text, allowed));
    }
    routing.with_table(|file| read(file).map(Arc::new))
}
