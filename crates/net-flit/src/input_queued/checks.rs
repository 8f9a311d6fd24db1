//! Limits of the router's simulation.

use super::{Allocator, Settings};
use crate::fabric::{CYCLE, End, Fabric};
use crate::refused::Refused;

/// Most virtual channels of a channel, and ports of a router: each has a bit of a word.
const MOST: u32 = 64;
/// Most flits that a virtual channel holds, and all of a network; most cycles of a stage and of a
/// link.
const DEPTH: u32 = u16::MAX as u32;
const ROOM: u64 = 1 << 28;
const CYCLES: u32 = 1 << 20;

/// Settings in range.
pub(super) fn settings(settings: &Settings) -> Result<(), Refused> {
    let Settings { vcs, buffers_per_vc, pipeline, .. } = *settings;
    Refused::unless((1..=MOST).contains(&vcs), "virtual channels", vcs, "1 to 64")?;
    let fits = (1..=DEPTH).contains(&buffers_per_vc);
    Refused::unless(fits, "flits of a virtual channel", buffers_per_vc, "1 to 65,535")?;
    let iterations = pipeline.iterations;
    Refused::unless(iterations > 0, "iterations of allocation", iterations, "at least 1")?;
    let stages = [
        ("cycles of channel allocation", pipeline.channel_allocation, 1),
        ("cycles of switch allocation", pipeline.switch_allocation, 1),
        ("cycles of routing", pipeline.route_computation, 0),
        ("cycles of switch traversal", pipeline.switch_traversal, 0),
        ("cycles of credit processing", pipeline.credit_processing, 0),
    ];
    for (name, cycles, least) in stages {
        let allowed = if least > 0 { "1 to 1,048,576" } else { "0 to 1,048,576" };
        Refused::unless((least..=CYCLES).contains(&cycles), name, cycles, allowed)?;
    }
    let slow = pipeline.channel_allocation.max(pipeline.switch_allocation);
    let allowed = "1 with speculation";
    Refused::unless(!pipeline.speculation || slow == 1, "cycles of allocation", slow, allowed)
}

/// Channels with the same virtual networks, nodes with a link at least, and routers of at most 64
/// ports.
pub(super) fn fabric(fabric: &Fabric, settings: &Settings) -> Result<(), Refused> {
    let most = 1 << 30;
    Refused::unless(fabric.routers < most, "routers", fabric.routers, "fewer than 1,073,741,824")?;
    Refused::unless(fabric.nodes < most, "nodes", fabric.nodes, "fewer than 1,073,741,824")?;
    let mut inputs = vec![0u32; fabric.routers as usize];
    let mut outputs = inputs.clone();
    let mut links = vec![0u32; fabric.nodes as usize];
    let vnets = fabric.channels.first().map_or(0..1, |channel| channel.vnets.clone());
    let divides = vnets.start == 0 && vnets.end > 0;
    let shown = format!("{vnets:?}");
    Refused::unless(divides, "virtual networks", shown, "from 0, at least one")?;
    let divides = settings.vcs.is_multiple_of(vnets.end.into());
    let allowed = "a multiple of the virtual networks";
    Refused::unless(divides, "virtual channels", settings.vcs, allowed)?;
    for channel in &fabric.channels {
        let flits = channel.occupancy as f64 / CYCLE as f64;
        let fits = channel.occupancy >= CYCLE;
        Refused::unless(fits, "cycles of a flit on a link", flits, "at least 1")?;
        let latency = channel.latency;
        let fits = (1..=CYCLES).contains(&latency);
        Refused::unless(fits, "latency of a link", latency, "1 to 1,048,576 cycles")?;
        let shown = format!("{:?}", channel.vnets);
        let allowed = "the same on all links";
        Refused::unless(channel.vnets == vnets, "virtual networks", shown, allowed)?;
        match channel.from {
            End::Router(router) => outputs[router as usize] += 1,
            End::Node(node) => links[node as usize] += 1,
        }
        if let End::Router(router) = channel.to {
            inputs[router as usize] += 1;
        }
    }
    let ports = inputs.into_iter().chain(outputs).max().unwrap_or(0);
    Refused::unless(ports <= MOST, "ports of a router", ports, "at most 64")?;
    let slots = fabric.channels.len() as u64 * u64::from(settings.vcs.next_power_of_two());
    let room = slots * u64::from(settings.buffers_per_vc);
    Refused::unless(room <= ROOM, "flits of all buffers", room, "at most 268,435,456")?;
    if settings.pipeline.allocator == Allocator::Matrix {
        let pairs = slots * 64 * u64::from(settings.vcs);
        Refused::unless(pairs <= ROOM, "pairs of matrix arbiters", pairs, "at most 268,435,456")?;
    }
    let without = links.contains(&0);
    Refused::unless(!without, "links of a node", 0, "at least 1")
}
