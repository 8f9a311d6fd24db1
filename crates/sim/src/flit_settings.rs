//! Settings of flits from the keys of a platform, and what they are where a platform names none.

use graph::Problem;
use net_flit::Settings;
use network::LinkCost;
use platform::Platform;
use units::Bytes;

/// Steps of a flit's width, bytes.
const STEP: u64 = 16;
/// Bytes of a packet, or a little more.
const PACKET: u64 = 4096;
/// Most bytes of a flit and of a packet, and most flits and channels.
const MOST: u64 = 1 << 20;
/// NPUs of a graph whose routes are proved not to lock up: all pairs are looked at.
const PROVED: u32 = 4096;

/// What [`net_flit::Flits`] needs, of a platform with these links.
///
/// # Errors
/// Values that do not fit together, and graphs that are too large.
pub(crate) fn settings(platform: &Platform, costs: &[LinkCost]) -> Result<Settings, Problem> {
    let keys = platform.network.flit.clone().unwrap_or_default();
    let fault = |key: &str, message: String, allowed: String| {
        Problem::new(&platform.name, format!("network.flit.{key}"), message).help(allowed)
    };
    if let topology::Fabric::Graph(graph) = &platform.fabric
        && graph.npus > PROVED
    {
        let text = format!("flits on a graph of {} NPUs", graph.npus);
        return Err(Problem::new(&platform.name, "backend", text)
            .help(format!("at most {PROVED} NPUs, or --backend flow")));
    }
    if keys.cycle.0 == 0 {
        return Err(fault("cycle", "\"cycle\" is 0 ns".into(), "a time above 0".into()));
    }
    // Bytes of the fastest link in a cycle.
    let carries = |cost: &LinkCost| {
        let second = cost.occupancy(1 << 40).0.max(1);
        (u128::from(keys.cycle.0) << 40).div_ceil(u128::from(second)) as u64
    };
    let fastest = costs.iter().map(carries).max().unwrap_or(1);
    let flit = keys.flit.map_or(fastest.next_multiple_of(STEP), |Bytes(flit)| flit);
    if flit < fastest || flit > MOST {
        let text =
            format!("flits of {flit} B, but the fastest link carries {fastest} B in a cycle");
        return Err(fault("flit", text, format!("{fastest} B to {MOST} B, or a shorter cycle")));
    }
    let packet = keys.packet.map_or(PACKET.next_multiple_of(flit), |Bytes(packet)| packet);
    if packet == 0 || !packet.is_multiple_of(flit) || packet > MOST.next_multiple_of(flit) {
        let text = format!("a packet of {packet} B is not a whole number of flits of {flit} B");
        return Err(fault("packet", text, format!("a multiple of {flit} B, at most 1 MiB")));
    }
    let flits = packet / flit;
    let count = |key: &str, value: u64| {
        if value == 0 || value > MOST {
            let text = format!("\"{key}\" is {value}");
            return Err(fault(key, text, format!("1 to {MOST}")));
        }
        Ok(value as u32)
    };
    Ok(Settings {
        cycle: keys.cycle,
        flit: flit as u32,
        packet: packet as u32,
        virtual_channels: keys
            .virtual_channels
            .map(|channels| count("virtual_channels", channels.into()))
            .transpose()?,
        buffers: count("buffer", keys.buffer.map_or(flits, u64::from))?,
        router_latency: count("router_latency", keys.router_latency.into())?,
    })
}
