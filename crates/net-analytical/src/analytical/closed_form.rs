//! Times of messages that wait for none.

use super::{Analytical, Paths, Ports};
use crate::parts::Split;
use network::{ClosedForm, Transfer, Uncontended};
use topology::{Routing, Splitter};
use units::{Span, Time};

impl ClosedForm for Analytical {
    fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Uncontended> {
        let is_stack = matches!(self.paths, Paths::Stack { .. });
        if is_stack && self.paths.routing() == Routing::Spray {
            return None;
        }
        let occupancy = match self.departures.ports {
            Ports::OneAtATime => self.paths.occupancy(src, dst, bytes),
            Ports::Unlimited => Span::ZERO,
        };
        Some(Uncontended { transit: self.paths.span(src, dst, bytes), occupancy })
    }

    fn is_idle(&self, src: u32, dst: u32, at: Time) -> bool {
        match &self.paths {
            Paths::Graph { graph, costs } if Splitter::splits(graph) => {
                Split::of(graph, costs, (src, dst), u64::MAX).free(&self.departures.free) <= at
            }
            paths => self.departures.free_at(src, paths.port(src, dst)) <= at,
        }
    }

    fn carry(&mut self, transfer: Transfer, times: u64) {
        let started = u128::from(transfer.weight) * u128::from(times);
        let bytes = started * u128::from(transfer.bytes);
        match &self.paths {
            Paths::Stack { axes, crossing, .. } => {
                let carried = &mut self.bytes;
                Paths::cross(axes, *crossing, transfer.src, transfer.dst, |dim, axis, hops, _| {
                    carried[dim] += bytes * axis.leaving(hops);
                });
            }
            Paths::Graph { graph, costs } => {
                let Transfer { src, dst, weight, .. } = transfer;
                self.carried.start((src, dst), bytes, weight);
                if Splitter::splits(graph) {
                    let split = Split::of(graph, costs, (src, dst), transfer.bytes);
                    split.carry(&mut self.carried, transfer.bytes, started);
                } else {
                    graph.route(src, dst).for_each(|hop| self.carried.add(hop.link, bytes));
                }
                self.bytes[0] += bytes;
            }
        }
        self.transfers += started;
    }

    fn occupancy(&self, src: u32, dst: u32, bytes: u64) -> Span {
        self.paths.occupancy(src, dst, bytes)
    }

    fn paced(&self, src: u32, dst: u32, (bytes, paced): (u64, u64)) -> Option<Uncontended> {
        if let Paths::Graph { graph, costs } = &self.paths
            && graph.spreads()
        {
            return Some(Split::of(graph, costs, (src, dst), bytes).alone((bytes, paced)));
        }
        self.paced_on_one_link(src, dst, (bytes, paced))
    }

    fn links(&mut self, src: u32, dst: u32, links: &mut Vec<u32>) {
        match &self.paths {
            Paths::Graph { graph, costs } if graph.spreads() => {
                links.extend(Split::of(graph, costs, (src, dst), u64::MAX).departures());
            }
            _ => links.push(self.departure(src, dst)),
        }
    }

    fn departure(&self, src: u32, dst: u32) -> u32 {
        match &self.paths {
            Paths::Stack { axes, routing, .. } => {
                let (mut a, mut b) = (src, dst);
                for axis in axes {
                    let ((x, next_a), (y, next_b)) = (axis.split(a), axis.split(b));
                    if x != y {
                        let way = axis.way(*routing, (src, dst), (x, y), None);
                        return axis.port_seen_from(x, y) + way as u32;
                    }
                    (a, b) = (next_a, next_b);
                }
                u32::MAX
            }
            Paths::Graph { graph, .. } => graph.departure(src, dst),
        }
    }
}
