//! Limits of the router's simulation.

use super::Settings;
use crate::bits::PLACES;
use crate::fabric::{CYCLE, End, Fabric};
use crate::refused::Refused;

/// Most flits of a virtual channel, and most cycles of a router.
const MOST: u32 = 1 << 28;
/// Most virtual channels of a network.
const CHANNELS: u64 = 1 << 30;
/// Most ports of a router.
const PORTS: u32 = u16::MAX as u32;
/// Most virtual networks of all links of a node: each has a bit of a word.
const LANES: u32 = 64;

/// Settings in range.
pub(super) fn settings(settings: &Settings) -> Result<(), Refused> {
    let Settings { vnets, vcs_per_vnet, buffers_per_vc, router_latency, .. } = *settings;
    Refused::unless(vnets > 0, "virtual networks", vnets, "at least 1")?;
    let cycles = "1 to 268,435,456";
    for (name, value) in [
        ("virtual channels of a virtual network", vcs_per_vnet),
        ("flits of a virtual channel", buffers_per_vc),
        ("cycles of a router", router_latency),
    ] {
        Refused::unless((1..=MOST).contains(&value), name, value, cycles)?;
    }
    Ok(())
}

/// Channels of known virtual networks, and nodes with links for all and at most 64 lanes.
pub(super) fn fabric(fabric: &Fabric, settings: &Settings) -> Result<(), Refused> {
    let mut lanes = vec![0; fabric.nodes as usize];
    let mut ports = vec![[0u32; 2]; fabric.routers as usize];
    let mut widest = vec![0u64; fabric.routers as usize];
    let mut vcs = 0;
    for channel in &fabric.channels {
        let vnets = &channel.vnets;
        let own = vnets.len() as u64 * u64::from(settings.vcs_per_vnet);
        let fits = own <= u64::from(PLACES);
        Refused::unless(fits, "virtual channels of a link", own, "at most 4,194,240")?;
        let fits = vnets.start < vnets.end && vnets.end <= settings.vnets;
        Refused::unless(fits, "virtual networks of a link", format!("{vnets:?}"), "those set")?;
        let flits = channel.occupancy as f64 / CYCLE as f64;
        let allowed = "at least 1";
        Refused::unless(channel.occupancy >= CYCLE, "cycles of a flit on a link", flits, allowed)?;
        vcs += own;
        match channel.from {
            End::Node(node) => lanes[node as usize] += vnets.len() as u32,
            End::Router(router) => ports[router as usize][0] += 1,
        }
        if let End::Router(router) = channel.to {
            ports[router as usize][1] += 1;
            widest[router as usize] = widest[router as usize].max(own.next_power_of_two());
        }
    }
    let places = ports.iter().zip(widest).map(|(&[_, inputs], widest)| u64::from(inputs) * widest);
    let (most, allowed) = (places.max().unwrap_or(0), "at most 4,194,240");
    let fits = most <= u64::from(PLACES);
    Refused::unless(fits, "virtual channels of all inputs of a router", most, allowed)?;
    let most = ports.into_iter().flatten().max().unwrap_or(0);
    Refused::unless(most <= PORTS, "ports of a router", most, "at most 65,535")?;
    Refused::unless(vcs <= CHANNELS, "virtual channels of all links", vcs, "at most 2^30")?;
    let most = lanes.into_iter().max().unwrap_or(0);
    Refused::unless(most <= LANES, "virtual networks of all links of a node", most, "at most 64")
}
