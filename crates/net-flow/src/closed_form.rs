//! Flows that meet no other: their times without simulation.
//!
//! Such a flow has one rate from its start until it drains, so its time is that of its slowest
//! link. Whether it meets others is for the caller to know ([`ClosedForm::links`]).

use crate::backend::FairFlows;
use crate::fluid::Fluid;
use crate::limits::rate;
use network::{ClosedForm, Transfer, Uncontended};
use units::{Span, Time};

impl FairFlows {
    /// How many flows a transfer stands for on the links.
    fn copies(&self, transfer: &Transfer) -> u128 {
        if self.links.is_folded() { transfer.weight.into() } else { 1 }
    }

    /// How long a flow takes to drain when it has its links to itself.
    fn drains_alone(&mut self, transfer: &Transfer) -> Span {
        let copies = self.copies(transfer);
        let ends = (transfer.src, transfer.dst);
        let route = self.routes.of(&mut self.links, &self.limits, ends, transfer.bytes);
        let level = route.level(&self.links.states, copies);
        let mut fluid = Fluid::new(transfer.bytes, Time::ZERO);
        fluid.weight = route.weight;
        (fluid.rate, fluid.rounded) = (rate(level.value, route.weight), !level.exact);
        fluid.drains().since(Time::ZERO)
    }
}

impl ClosedForm for FairFlows {
    /// Unknown: flows of one NPU share its links instead of waiting.
    fn uncontended(&self, _: u32, _: u32, _: u64) -> Option<Uncontended> {
        None
    }

    fn is_idle(&self, _: u32, _: u32, _: Time) -> bool {
        false
    }

    fn unshared(&mut self, transfer: &Transfer) -> Option<Uncontended> {
        let copies = self.copies(transfer);
        let ends = (transfer.src, transfer.dst);
        let route = self.routes.of(&mut self.links, &self.limits, ends, transfer.bytes);
        let latency = route.latency;
        if transfer.bytes == 0 {
            return Some(Uncontended { transit: latency, occupancy: Span::ZERO });
        }
        // The rest of a byte goes to the next flow on that link: then the order counts.
        let whole = route.crossed.iter().all(|crossed| {
            let bytes = copies * crossed.parts * u128::from(transfer.bytes);
            bytes.is_multiple_of(self.links.states[crossed.link as usize].unit)
        });
        let drains = whole.then(|| self.drains_alone(transfer))?;
        Some(Uncontended { transit: drains + latency, occupancy: drains })
    }

    fn links(&mut self, src: u32, dst: u32, links: &mut Vec<u32>) {
        let route = self.routes.of(&mut self.links, &self.limits, (src, dst), u64::MAX);
        links.extend(route.crossed.iter().map(|crossed| crossed.link));
    }

    fn carry(&mut self, transfer: Transfer, times: u64) {
        let copies = self.copies(&transfer);
        let started = u128::from(transfer.weight) * u128::from(times);
        let drains = (transfer.bytes > 0).then(|| self.drains_alone(&transfer));
        let ends = (transfer.src, transfer.dst);
        let route = self.routes.of(&mut self.links, &self.limits, ends, transfer.bytes);
        self.transfers += started;
        for &(place, parts) in &route.leaving {
            self.bytes[place] += started * u128::from(transfer.bytes) * parts;
        }
        let Some(drains) = drains else { return };
        for crossed in &route.crossed {
            let bytes = copies * crossed.parts * u128::from(transfer.bytes);
            let messages = copies * u128::from(crossed.crossings);
            self.links.carry(crossed.link, (messages, bytes), drains, times);
        }
    }

    fn departure(&self, src: u32, dst: u32) -> u32 {
        self.links.graph.departure(src, dst)
    }

    /// Nothing: the next flow starts at once and shares the link.
    fn occupancy(&self, _: u32, _: u32, _: u64) -> Span {
        Span::ZERO
    }
}
