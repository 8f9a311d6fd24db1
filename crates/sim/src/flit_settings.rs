//! Settings of flits from the keys of a platform, and what they are where a platform names none.

use graph::Problem;
use net_flit::input_queued::{self, Allocator};
use net_flit::{Course, PacketsByKind, Refusal, Router, Settings, Table};
use network::LinkCost;
use platform::{
    Deadlock, Flit, FlitAllocator, FlitRouter, FlitRouting, FlitSwitching, Platform, routes_file,
};
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

/// Settings of [`net_flit::Flits`] for a platform with these links.
///
/// # Errors
/// Values that do not fit together, and networks that are too large.
pub(crate) fn settings(
    platform: &Platform,
    costs: &[LinkCost],
    links: &LinkGraph,
) -> Result<Settings, Problem> {
    let keys = platform.network.flit.clone().unwrap_or_default();
    let fault = |key: &str, message: String, allowed: String| {
        Problem::new(&platform.name, format!("network.flit.{key}"), message).help(allowed)
    };
    let is_graph = matches!(platform.fabric, Fabric::Graph(_));
    let is_proved_by_pairs =
        is_graph || matches!(keys.routing, FlitRouting::UpDown | FlitRouting::Table { .. });
    if is_proved_by_pairs && links.npus() > PROVED {
        let what = if is_graph { "a graph" } else { "routes" };
        let text = format!("flits on {what} of {} NPUs", links.npus());
        return Err(Problem::new(&platform.name, "backend", text)
            .help(format!("at most {PROVED} NPUs, or --backend flow")));
    }
    let keeps_ways = keys.routing != FlitRouting::Topology && is_proved_by_pairs;
    if keeps_ways && links.nodes() > NODES {
        let text = format!("routing {} of {} nodes", keys.routing, links.nodes());
        return Err(fault("routing", text, format!("at most {NODES} nodes, or topology")));
    }
    if let Some(dim) = platform.fabric.dims().iter().position(|dim| dim.parallel > PARALLEL) {
        let text = format!("{} links side by side", platform.fabric.dims()[dim].parallel);
        return Err(Problem::new(&platform.name, format!("links[{dim}].count"), text)
            .help(format!("at most {PARALLEL} each way on flits")));
    }
    if keys.cycle.0 == 0 {
        return Err(fault("cycle", "\"cycle\" is 0 ns".into(), "a time above 0".into()));
    }
    // Bytes of the fastest link in a cycle; of several side by side, of one of them.
    let parallel = platform.fabric.dims().iter().map(|dim| dim.parallel);
    let carries = |(cost, parallel): (&LinkCost, u32)| {
        let second = u128::from(cost.occupancy(1 << 40).0.max(1)) * u128::from(parallel);
        (u128::from(keys.cycle.0) << 40).div_ceil(second) as u64
    };
    let each = costs.iter().zip(parallel.chain(std::iter::repeat(1)));
    let fastest = each.map(carries).max().unwrap_or(1);
    let flit = keys.flit.map_or(fastest.next_multiple_of(STEP), |Bytes(flit)| flit);
    if flit < fastest || flit > MOST {
        let text =
            format!("flits of {flit} B, but the fastest link carries {fastest} B in a cycle");
        return Err(fault("flit", text, format!("{fastest} B to {MOST} B, or a shorter cycle")));
    }
    if let Some((message, allowed)) = keys.misfit(&platform.fabric) {
        return Err(fault("packet", message, allowed));
    }
    let mut packets = Vec::new();
    for packet in keys.packet.values() {
        let packet = packet.map_or(PACKET.next_multiple_of(flit), |Bytes(packet)| packet);
        if packet == 0 || !packet.is_multiple_of(flit) || packet > MOST.next_multiple_of(flit) {
            let text = format!("a packet of {packet} B is not a whole number of flits of {flit} B");
            return Err(fault("packet", text, format!("a multiple of {flit} B, at most 1 MiB")));
        }
        packets.push(packet as u32);
    }
    let packet = packets.iter().copied().max().unwrap_or(0);
    let flits = u64::from(packet) / flit;
    let kinds = || crate::wiring::kinds(&platform.fabric, links);
    let by_kind = keys.packet.entries().map(|_| PacketsByKind { each: packets, kinds: kinds() });
    let count = |key: &str, value: u64| {
        if value == 0 || value > MOST {
            let text = format!("\"{key}\" is {value}");
            return Err(fault(key, text, format!("1 to {MOST}")));
        }
        Ok(value as u32)
    };
    let buffers = keys.buffer.map(|buffer| count("buffer", buffer.into())).transpose()?;
    let few = buffers.filter(|&buffers| u64::from(buffers) < flits);
    if let (FlitSwitching::CutThrough, Some(few)) = (keys.switching, few) {
        let text = format!("a buffer of {few} flits does not hold a packet of {flits} flits");
        let allowed = format!("at least {flits}, or switching: wormhole");
        return Err(fault("buffer", text, allowed));
    }
    if keys.ordered && matches!(keys.routing, FlitRouting::Valiant { .. } | FlitRouting::Adaptive) {
        let text = format!("routing {} sends packets on several ways", keys.routing);
        let allowed = "false, or routing: topology, up_down or a table".to_string();
        return Err(fault("ordered", text, allowed));
    }
    Ok(Settings {
        ordered: keys.ordered,
        course: course(&keys.routing, platform, links)?,
        classes: keys.classes.map(|classes| classes as u16),
        may_lock_up: keys.deadlock == Deadlock::Allow,
        threads: keys.threads.map(|threads| threads as u16),
        cycle: keys.cycle,
        flit: flit as u32,
        packet,
        packets: by_kind,
        virtual_channels: keys
            .virtual_channels
            .map(|channels| count("virtual_channels", channels.into()))
            .transpose()?,
        buffers,
        router: match keys.router {
            FlitRouter::Garnet => {
                Router::Garnet { latency: count("router_latency", keys.router_latency.into())? }
            }
            FlitRouter::InputQueued => Router::InputQueued(input_queued(&keys)),
        },
    })
}

/// The router of the textbook.
fn input_queued(keys: &Flit) -> input_queued::Settings {
    let pipeline = keys.pipeline.clone().unwrap_or_default();
    input_queued::Settings {
        routing: pipeline.route_computation,
        channel_allocation: pipeline.channel_allocation,
        switch_allocation: pipeline.switch_allocation,
        traversal: pipeline.switch_traversal,
        credit_processing: pipeline.credit_processing,
        speculative: pipeline.speculation,
        waits_for_tail_credit: pipeline.waits_for_tail_credit,
        allocator: match pipeline.allocator {
            FlitAllocator::Islip => Allocator::Islip,
            FlitAllocator::RoundRobin => Allocator::RoundRobin,
            FlitAllocator::Matrix => Allocator::Matrix,
            FlitAllocator::Age => Allocator::Age,
        },
        iterations: pipeline.iterations,
        cut_through: keys.switching == FlitSwitching::CutThrough,
        ..input_queued::Settings::default()
    }
}

/// How packets are routed; a table is read from its file.
fn course(
    routing: &FlitRouting,
    platform: &Platform,
    links: &LinkGraph,
) -> Result<Course, Problem> {
    Ok(match routing {
        FlitRouting::Topology => Course::Topology,
        FlitRouting::DimensionOrder => match &platform.fabric {
            Fabric::Graph(graph) if graph.recipe.is_none() => {
                let key = "network.flit.routing";
                let text = "a graph has no order of dimensions";
                return Err(Problem::new(&platform.name, key, text)
                    .help("blocks, a generator, or routing: topology, up_down or adaptive"));
            }
            _ => Course::DimensionOrder,
        },
        FlitRouting::UpDown => Course::UpDown,
        FlitRouting::Valiant { seed } => Course::Valiant { seed: *seed },
        FlitRouting::Adaptive => Course::Adaptive,
        FlitRouting::Table { file } => {
            let entries = routes_file::read(file, &platform.fabric, links)
                .map_err(|problems| together(problems, &platform.name))?;
            let mut table = Table::new(links.nodes(), links.npus());
            entries.iter().for_each(|entry| table.set(entry.at, entry.to, entry.link));
            Course::Table(Arc::new(table))
        }
    })
}

/// The first of several problems of a table, how many more there are, and what names its file.
fn together(problems: Vec<Problem>, platform: &str) -> Problem {
    let more = problems.len().saturating_sub(1);
    let first = problems.into_iter().next();
    let mut first = first.unwrap_or_else(|| Problem::new("", "network.flit.routing", "no table"));
    if more > 0 {
        first.message.push_str(&format!(" (and {more} more like it)"));
    }
    first.message.push_str(&format!("; network.flit.routing of {platform} names this file"));
    first
}

/// Remedies against a circle of channels.
fn remedies(keys: &Flit, fabric: &Fabric) -> String {
    let mut all = Vec::new();
    if keys.classes.is_some() {
        all.push("more network.flit.classes");
    }
    match (&keys.routing, fabric) {
        (FlitRouting::Table { .. }, _) => all.push("routes without a cycle"),
        (_, Fabric::Graph(graph)) if graph.recipe.is_some() => {
            all.push("network.flit.routing: dimension_order, up_down or adaptive");
        }
        _ => all.push("network.flit.routing: up_down"),
    }
    all.push("or network.flit.deadlock: allow");
    all.join(", ")
}

/// Why the network cannot carry packets, in names of its nodes.
pub(crate) fn problem(platform: &Platform, links: &LinkGraph, refusal: Refusal) -> Problem {
    let keys = platform.network.flit.clone().unwrap_or_default();
    let name = |node: u32| platform.fabric.node_name(node);
    // A wrong table is a fault of its file.
    let place = |at: Option<u32>| match (&keys.routing, at) {
        (FlitRouting::Table { file }, Some(at)) => (file.clone(), format!("routes.{}", name(at))),
        (FlitRouting::Table { file }, None) => (file.clone(), "routes".to_string()),
        _ => (platform.name.clone(), "network.flit.routing".to_string()),
    };
    match refusal {
        Refusal::Circle(hops) => {
            let hop = |hop: &net_flit::Hop| {
                let link = links.link(hop.link);
                let class =
                    if hop.class > 0 { format!(" class {}", hop.class) } else { String::new() };
                format!("{}{class}", crate::names::link(&platform.fabric, link.from, link.to))
            };
            let circle: Vec<String> = hops.iter().map(hop).collect();
            let text = format!(
                "flits could lock up: links wait for each other in a cycle: {}",
                circle.join(", ")
            );
            let (file, place) = place(None);
            Problem::new(file, place, text).help(remedies(&keys, &platform.fabric))
        }
        Refusal::NoWay { at, to } => {
            let (file, place) = place(Some(at));
            let (way, allowed) = match keys.routing {
                FlitRouting::Table { .. } => {
                    ("route", "a route from every node on the way to every NPU")
                }
                _ => ("way up and then down", "links both ways, or routing: topology"),
            };
            let text = format!("no {way} from {} to {}", name(at), name(to));
            Problem::new(file, place, text).help(allowed)
        }
        Refusal::Setting(refused) => {
            // Settings of one word are keys.
            let key = Some(refused.name).filter(|name| !name.contains(' '));
            let place = key.map_or("network.flit".into(), |key| format!("network.flit.{key}"));
            Problem::new(platform.name.clone(), place, refused.to_string())
        }
        Refusal::Turns { to, nodes } => {
            let (file, place) = place(nodes.first().copied());
            let round: Vec<String> = nodes.iter().map(|&node| name(node)).collect();
            let text =
                format!("routes to {} go round and never arrive: {}", name(to), round.join(", "));
            Problem::new(file, place, text).help("a route that reaches the NPU")
        }
    }
}
