//! A bus: one message at a time in the whole machine, first come first served.
//!
//! Model: a message that gets the bus at t keeps it until `t + bytes / bandwidth` and arrives
//! `latency` later. Not modelled: arbitration, collisions. Source: none, it is an example.

use graph::Problem;
use network::{Backend, Delivery, LinkCost, Transfer, Usage};
use platform::Platform;
use sim::backends::Registration;
use std::collections::VecDeque;
use topology::Fabric;
use units::{Span, Time};

/// Registration behind `--backend bus`. [`sim::backends::BackendKind::Other`] runs it.
pub const BUS: Registration = Registration { name: "bus", make };

fn make(platform: &Platform) -> Result<Box<dyn Backend>, Problem> {
    match &platform.fabric {
        Fabric::Stacked(dims) if dims.len() == 1 => Ok(Box::new(Bus::new(LinkCost::Exact {
            bandwidth: dims[0].bandwidth,
            latency: dims[0].latency,
        }))),
        _ => Err(Problem::new(&platform.name, "topology", "a bus has one dimension")),
    }
}

/// The bus.
pub struct Bus {
    cost: LinkCost,
    free: Time,
    under_way: VecDeque<Delivery>,
    carried: Usage,
}

impl Bus {
    /// An idle bus.
    pub fn new(cost: LinkCost) -> Bus {
        let carried = Usage { bytes: vec![0], ..Usage::default() };
        Bus { cost, free: Time::ZERO, under_way: VecDeque::new(), carried }
    }
}

impl Backend for Bus {
    fn start(&mut self, now: Time, transfer: Transfer) {
        let begin = now.max(self.free);
        self.free = begin + self.cost.occupancy(transfer.bytes);
        let time = begin + self.cost.transit(1, transfer.bytes);
        self.under_way.push_back(Delivery { token: transfer.token, time });
        self.carried.bytes[0] += u128::from(transfer.bytes) * u128::from(transfer.weight);
        self.carried.transfers += u128::from(transfer.weight);
    }

    fn next_event(&self) -> Option<Time> {
        self.under_way.front().map(|delivery| delivery.time)
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        if self.next_event().is_some_and(|next| next <= until) {
            finished.extend(self.under_way.pop_front());
        }
    }

    fn physical_minimum(&self, _src: u32, _dst: u32, bytes: u64) -> Span {
        self.cost.transit(1, bytes)
    }

    fn usage(&self, _until: Time) -> Usage {
        self.carried.clone()
    }
}
