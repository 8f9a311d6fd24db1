//! The Backend contract: what a network of any fidelity must answer. No implementation is here.
//!
//! Here: [`Backend`] (`backend.rs`), what passes through it ([`Transfer`], [`Delivery`]:
//! `transfer.rs`) and its optional parts: [`ClosedForm`] (`closed_form.rs`: times
//! known without simulation), [`Ordered`] (`order.rs`: one order of events with the caller, for
//! ASTRA-sim's profile), [`NetworkSink`] (`sink.rs`: what a backend observes) and [`Stuck`]
//! (`stuck.rs`: why it cannot go on). Also [`LinkCost`] (`cost.rs`: what one link asks for a
//! message), [`Parts`] (`parts.rs`: messages in several parts), [`Usage`] (`usage.rs`; counts of packets and flits as reports have them) and the [`conformance`] suite that every backend runs. Not
//! here: queues, routes in time, packets (`net-*`), and anything about graphs or collectives.

mod backend;
mod closed_form;
pub mod conformance;
mod cost;
mod order;
mod parts;
mod sink;
mod stuck;
mod transfer;
mod usage;

pub use backend::{Alike, Backend, Contention, Footprint, LinkClasses};
pub use closed_form::{ClosedForm, Uncontended};
pub use cost::LinkCost;
pub use order::{Ordered, Sequence, Stamp};
pub use parts::Parts;
pub use sink::{LinkEnds, NetworkSink, Sending};
pub use stuck::{BlockedPort, Stuck};
pub use transfer::{Delivery, Transfer};
pub use usage::{
    ChannelUsage, ConnectionBytes, ConnectionRoundTrips, ConnectionUsage, FlitCounts,
    FlitLinkUsage, FlitUsage, LinkUsage, LossUsage, PacketEvents, PacketTimes, PacketUsage,
    PortCounts, PortUsage, RoundTrips, SentPackets, Usage,
};
