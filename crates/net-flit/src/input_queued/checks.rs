//! What the router can simulate.

use super::Settings;
use crate::fabric::{CYCLE, End, Fabric};
use crate::refused::Refused;

/// Most virtual channels of a channel, and ports of a router: each has a bit of a word.
const MOST: u32 = 64;
/// Most flits that a virtual channel holds, and most cycles of a stage.
const LARGEST: u32 = 1 << 20;

/// Settings in range.
pub(super) fn settings(settings: &Settings) -> Result<(), Refused> {
    let Settings { vcs, buffers_per_vc, iterations, .. } = *settings;
    Refused::unless((1..=MOST).contains(&vcs), "virtual channels", vcs, "1 to 64")?;
    let fits = (1..=LARGEST).contains(&buffers_per_vc);
    Refused::unless(fits, "flits of a virtual channel", buffers_per_vc, "1 to 1,048,576")?;
    Refused::unless(iterations > 0, "iterations of allocation", iterations, "at least 1")?;
    let stages = [
        ("cycles of channel allocation", settings.channel_allocation, 1),
        ("cycles of switch allocation", settings.switch_allocation, 1),
        ("cycles of routing", settings.routing, 0),
        ("cycles of switch traversal", settings.traversal, 0),
        ("cycles of credit processing", settings.credit_processing, 0),
    ];
    for (name, cycles, least) in stages {
        let allowed = if least > 0 { "1 to 1,048,576" } else { "0 to 1,048,576" };
        Refused::unless((least..=LARGEST).contains(&cycles), name, cycles, allowed)?;
    }
    Ok(())
}

/// Channels that take a flit each cycle, one link of each node in each direction, and routers of at
/// most 64 ports.
pub(super) fn fabric(fabric: &Fabric) -> Result<(), Refused> {
    let mut inputs = vec![0u32; fabric.routers as usize];
    let mut outputs = inputs.clone();
    let mut links = vec![0u32; fabric.nodes as usize];
    for channel in &fabric.channels {
        let flits = channel.occupancy as f64 / CYCLE as f64;
        let allowed = "1: no serialized links";
        Refused::unless(channel.occupancy == CYCLE, "cycles of a flit on a link", flits, allowed)?;
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
    let other = links.into_iter().find(|&links| links != 1);
    Refused::unless(other.is_none(), "links of a node", other.unwrap_or(1), "1")
}
