//! The network with either router.

use super::routes::Routes;
use super::routing_choice::RoutingChoice;
use super::settings::Settings;
use crate::fabric::{CYCLE, Channel, Fabric, Packet};
use crate::garnet::{self, Whole};
use crate::input_queued::{self, InputQueued};
use crate::refused::Refused;
use crate::report::{Arrival, Blocked};
use crate::virtual_network_usage::Use;
use net_settings::flit::{Deadlock, FlitSwitching};

/// Routers from which on another thread pays.
const ROUTERS: u32 = 2048;
/// Virtual channels of all classes of a textbook router's channel, and those of each class where
/// the settings name none.
const MOST: u32 = 64;
const EACH: u32 = 4;

/// A network of routers.
pub(super) enum Routers {
    /// Those of Garnet.
    Garnet(Whole<Routes>),
    /// Those of the textbook.
    InputQueued(Box<InputQueued<Routes>>),
}

use Routers::{Garnet, InputQueued as Textbook};

impl Routers {
    /// Checks after every cycle that no flit and no credit is lost.
    pub(super) fn checked(self) -> Routers {
        match self {
            Garnet(network) => Garnet(network.checked()),
            Textbook(network) => Textbook(Box::new(network.checked())),
        }
    }

    /// Virtual channels of each class, and flits that each holds.
    pub(super) fn channels(&self) -> (u32, u32) {
        match self {
            Garnet(network) => {
                let settings = network.settings();
                (settings.vcs_per_vnet, settings.buffers_per_vc)
            }
            Textbook(network) => {
                let settings = network.settings();
                (settings.vcs / network.vnets(), settings.buffers_per_vc)
            }
        }
    }

    /// Where packets go.
    pub(super) fn routing(&self) -> &Routes {
        match self {
            Garnet(network) => network.routing(),
            Textbook(network) => network.routing(),
        }
    }

    /// Does the same with the routes of every part; returns what the first said.
    pub(super) fn route<T>(&mut self, mut act: impl FnMut(&mut Routes) -> T) -> T {
        match self {
            Garnet(network) => network.route(act),
            Textbook(network) => act(network.routing_mut()),
        }
    }

    /// The cycle that was simulated last.
    pub(super) fn now(&self) -> u64 {
        match self {
            Garnet(network) => network.now(),
            Textbook(network) => network.now(),
        }
    }

    /// Packets that have not arrived.
    pub(super) fn under_way(&self) -> u64 {
        match self {
            Garnet(network) => network.under_way(),
            Textbook(network) => network.under_way(),
        }
    }

    /// Flits that have crossed a router.
    pub(super) fn traversals(&self) -> u64 {
        match self {
            Garnet(network) => network.traversals(),
            Textbook(network) => network.traversals(),
        }
    }

    /// Use of each class of each channel up to now.
    pub(super) fn uses(&self) -> Vec<Vec<Use>> {
        match self {
            Garnet(network) => network.uses(),
            Textbook(network) => network.uses().map(Iterator::collect).collect(),
        }
    }

    /// `count` packets come at once, the last of them with `last` flits.
    pub(super) fn send_many(&mut self, cycle: u64, packet: Packet, count: (u64, u32), token: u64) {
        match self {
            Garnet(network) => network.send_many(cycle, packet, count, token),
            Textbook(network) => network.send_many(cycle, packet, count, token),
        }
    }

    /// The next cycle in which something can happen; `None` if nothing can.
    pub(super) fn next(&self) -> Option<u64> {
        match self {
            Garnet(network) => network.next(),
            Textbook(network) => network.next(),
        }
    }

    /// Simulates up to the end of a cycle. Packets that arrive come last in `arrived`, by token
    /// where they arrive in the same cycle. Their times add up to those from the cycle in which
    /// they were sent, which each router's own do not by one.
    pub(super) fn run(&mut self, until: u64, arrived: &mut Vec<Arrival>) {
        let before = arrived.len();
        match self {
            Garnet(network) => {
                network.run(until, arrived);
                arrived[before..].iter_mut().for_each(|arrival| arrival.network += 1);
            }
            Textbook(network) => {
                network.run(until, arrived);
                arrived[before..].iter_mut().for_each(|arrival| arrival.queued += 1);
                arrived[before..].sort_by_key(|arrival| (arrival.cycle, arrival.token));
            }
        }
    }

    /// Channels that wait for each other in a cycle, if nothing can move.
    pub(super) fn deadlock(&self) -> Option<Vec<Blocked>> {
        match self {
            Garnet(network) => network.deadlock(),
            Textbook(network) => network.deadlock(),
        }
    }
}

/// A network of Garnet's routers.
pub(super) fn of_garnet(
    fabric: &Fabric,
    classes: u16,
    settings: &Settings,
    routes: Routes,
) -> Result<Routers, Refused> {
    let keys = &settings.keys;
    let latency = keys.router_latency;
    let fill = || one_each(fabric, settings, latency.into()).min(4096) as u32;
    let router = garnet::Settings {
        vnets: classes,
        vcs_per_vnet: keys.virtual_channels.unwrap_or_else(fill),
        buffers_per_vc: keys.buffer.unwrap_or(settings.packet / settings.flit),
        router_latency: latency,
        interleaves: false,
        ordered: keys.ordered,
    };
    let threads = match keys.threads {
        // Ways over nodes at random are found where packets are.
        _ if matches!(settings.routing, RoutingChoice::Valiant { .. }) => 1,
        _ if keys.deadlock == Deadlock::Allow => 1,
        Some(threads) => threads as u16,
        None => side_by_side(fabric.routers),
    };
    Whole::new(fabric, router, routes, threads).map(Garnet)
}

/// A network of the textbook's routers.
pub(super) fn of_textbook(
    fabric: &Fabric,
    classes: u16,
    settings: &Settings,
    routes: Routes,
) -> Result<Routers, Refused> {
    let keys = &settings.keys;
    let pipeline = keys.pipeline.unwrap_or_default();
    let classes = u32::from(classes);
    let is_adaptive = matches!(settings.routing, RoutingChoice::Adaptive);
    let allowed = "router: garnet, or another routing";
    Refused::unless(!is_adaptive, "routing", "adaptive with router: input_queued", allowed)?;
    let threads = keys.threads.unwrap_or(1);
    Refused::unless(threads == 1, "threads", threads, "1 with router: input_queued")?;
    let stages = [
        pipeline.route_computation,
        pipeline.channel_allocation,
        pipeline.switch_allocation,
        pipeline.switch_traversal,
        pipeline.credit_processing,
    ];
    let stages = stages.into_iter().map(u64::from).sum();
    let each = match keys.virtual_channels {
        Some(each) => each,
        None if keys.ordered => 1,
        None if pipeline.waits_for_tail_credit => {
            one_each(fabric, settings, stages).min(u64::from(MOST / classes)) as u32
        }
        None => EACH.min(MOST / classes),
    };
    let allowed = "1 with ordered: true and router: input_queued";
    Refused::unless(!keys.ordered || each == 1, "virtual_channels", each, allowed)?;
    let fits = each.checked_mul(classes).is_some_and(|vcs| vcs <= MOST);
    let allowed = "at most 64 of all classes with router: input_queued";
    Refused::unless(fits, "virtual_channels", format!("{each} of {classes} classes"), allowed)?;
    // A class fills a link with the credits of a round trip.
    let fill = |channel: &Channel| {
        let flits = (round_trip(channel, stages) * CYCLE).div_ceil(channel.occupancy);
        flits.div_ceil(each.into())
    };
    let fill = || {
        let needs = fabric.channels.iter().map(fill).max().unwrap_or(1);
        needs.max(u64::from(settings.packet / settings.flit)).min(u16::MAX.into()) as u32
    };
    let router = input_queued::Settings {
        vcs: each * classes,
        buffers_per_vc: keys.buffer.unwrap_or_else(fill),
        pipeline,
        cut_through: keys.switching == FlitSwitching::CutThrough,
    };
    let network = InputQueued::new(fabric, router, routes)?;
    Ok(Textbook(Box::new(network)))
}

/// Threads for a network of this number of routers.
fn side_by_side(routers: u32) -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    (routers / ROUTERS).clamp(1, cores.min(64)) as u16
}

/// Virtual channels that keep every link busy if each holds one packet at a time: it is free again a
/// round trip after a packet has taken it.
fn one_each(fabric: &Fabric, settings: &Settings, router: u64) -> u64 {
    let flits = u64::from(settings.least_packet() / settings.flit);
    let needs = |channel: &Channel| {
        let packet = flits * channel.occupancy;
        (round_trip(channel, router) * CYCLE).div_ceil(packet) + 2
    };
    fabric.channels.iter().map(needs).max().unwrap_or(1)
}

/// Cycles from the departure of a flit until its room is known to be free.
fn round_trip(channel: &Channel, router: u64) -> u64 {
    let narrow = 6 * channel.occupancy.div_ceil(CYCLE);
    4 + 2 * u64::from(channel.latency) + router + narrow
}
