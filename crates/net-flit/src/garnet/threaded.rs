//! A network on one thread or on several, with the same results to the byte.

use super::border::{Border, parts};
use super::side_by_side::Parts;
use super::{Garnet, Settings};
use crate::fabric::{Fabric, Packet, Routing};
use crate::refused::Refused;
use crate::report::{Arrival, Blocked};
use crate::virtual_network_usage::Use;

/// A network of Garnet's routers, in one part or in several that run side by side.
pub struct Whole<R>(Kind<R>);

enum Kind<R> {
    One(Box<Garnet<R>>),
    Many(Box<Parts<R>>),
}

impl<R: Routing + Clone + Send + 'static> Whole<R> {
    /// An empty network in cycle 0, in `threads` parts where its fabric allows that.
    ///
    /// # Errors
    /// A [`Refused`] setting.
    pub fn new(
        fabric: &Fabric,
        settings: Settings,
        routing: R,
        threads: u16,
    ) -> Result<Whole<R>, Refused> {
        let count = threads.min(u16::try_from(fabric.routers).unwrap_or(u16::MAX));
        let whole = Garnet::new(fabric, settings, routing.clone())?;
        let split = (count > 1).then(|| parts(fabric, count)).flatten();
        let Some((routers, nodes)) = split else { return Ok(Whole(Kind::One(Box::new(whole)))) };
        let borders = (0..count).map(|own| Border::new(fabric, (&routers, &nodes), own)).collect();
        // The settings were taken before.
        let make =
            || Garnet::new(fabric, settings, routing.clone()).unwrap_or_else(|_| unreachable!());
        Ok(Whole(Kind::Many(Box::new(Parts::new(make, borders, nodes)))))
    }
}

impl<R: Routing> Whole<R> {
    /// Checks after every cycle that no flit and no credit is lost; on one thread only.
    #[must_use]
    pub fn checked(self) -> Whole<R> {
        match self.0 {
            Kind::One(network) => Whole(Kind::One(Box::new(network.checked()))),
            many @ Kind::Many(_) => Whole(many),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        match &self.0 {
            Kind::One(network) => network.settings(),
            Kind::Many(parts) => &parts.settings,
        }
    }

    /// Routing that decides where packets go.
    pub fn routing(&self) -> &R {
        match &self.0 {
            Kind::One(network) => network.routing(),
            Kind::Many(parts) => &parts.routing,
        }
    }

    /// Does the same with the routing of every part; returns what the first said.
    pub fn route<T>(&mut self, mut act: impl FnMut(&mut R) -> T) -> T {
        match &mut self.0 {
            Kind::One(network) => act(network.routing_mut()),
            Kind::Many(parts) => {
                parts.each(|part| {
                    act(part.routing_mut());
                });
                act(&mut parts.routing)
            }
        }
    }

    /// The cycle that was simulated last.
    pub fn now(&self) -> u64 {
        match &self.0 {
            Kind::One(network) => network.now(),
            Kind::Many(parts) => parts.now,
        }
    }

    /// Packets that have not arrived.
    pub fn under_way(&self) -> u64 {
        match &self.0 {
            Kind::One(network) => network.under_way(),
            Kind::Many(parts) => parts.under_way,
        }
    }

    /// Flits that have crossed a router.
    pub fn traversals(&self) -> u64 {
        match &self.0 {
            Kind::One(network) => network.traversals(),
            Kind::Many(parts) => parts.each(|part| part.traversals()).into_iter().sum(),
        }
    }

    /// Use of each virtual network of each channel up to now.
    pub fn uses(&self) -> Vec<Vec<Use>> {
        let of = |network: &Garnet<R>| network.uses().map(Iterator::collect).collect::<Vec<_>>();
        match &self.0 {
            Kind::One(network) => of(network),
            Kind::Many(parts) => merged(parts.each(|part| of(part)), |one: Vec<Use>, other| {
                one.into_iter().zip(other).map(|(one, other)| one.and(other)).collect()
            }),
        }
    }

    /// `count` packets come at once, the last of them with `last` flits: [`Garnet::send_many`].
    pub fn send_many(&mut self, cycle: u64, packet: Packet, count: (u64, u32), token: u64) {
        match &mut self.0 {
            Kind::One(network) => network.send_many(cycle, packet, count, token),
            Kind::Many(parts) => parts.send_many(cycle, packet, count, token),
        }
    }

    /// The next cycle in which something can happen; `None` if nothing can.
    pub fn next(&self) -> Option<u64> {
        match &self.0 {
            Kind::One(network) => network.next(),
            Kind::Many(parts) => parts.next(),
        }
    }

    /// Simulates up to the end of a cycle. Packets that arrive come last in `arrived`, by token
    /// where they arrive in the same cycle.
    pub fn run(&mut self, until: u64, arrived: &mut Vec<Arrival>) {
        let before = arrived.len();
        match &mut self.0 {
            Kind::One(network) => network.run(until, arrived),
            Kind::Many(parts) => parts.run(until, arrived),
        }
        arrived[before..].sort_by_key(|arrival| (arrival.cycle, arrival.token));
    }

    /// Channels that wait for each other in a cycle, if nothing can move. Networks that could lock
    /// up are in one part.
    pub fn deadlock(&self) -> Option<Vec<Blocked>> {
        match &self.0 {
            Kind::One(network) => network.deadlock(),
            Kind::Many(_) => None,
        }
    }
}

/// The sum of rows, place by place.
fn merged<T>(rows: Vec<Vec<T>>, and: impl Fn(T, T) -> T) -> Vec<T> {
    let add = |one: Vec<T>, other: Vec<T>| {
        one.into_iter().zip(other).map(|(one, other)| and(one, other)).collect()
    };
    rows.into_iter().reduce(add).unwrap_or_default()
}
