//! The flit backend: routers with virtual channels and credits, cycle by cycle.
//!
//! Here: what networks are made of (`fabric.rs`), the calendar of events (`calendar.rs`), and one
//! folder per router: [`garnet`] and [`input_queued`]. What both share lies next to these. Not here: packets with congestion
//! control (`net-packet`).

mod array;
mod backend;
mod bits;
mod calendar;
mod checker;
mod fabric;
pub mod garnet;
mod grid;
pub mod input_queued;
mod queue;
mod refused;
mod report;
mod virtual_network_usage;

pub use backend::{Flits, Hop, PacketsByKind, Refusal, RoutingChoice, Settings, Table};
pub use engine::Random;
pub use fabric::{CYCLE, Channel, End, Fabric, Head, Packet, Routing, Way};
pub use grid::{DimensionOrder, Grid, GridWays};
pub use refused::Refused;
pub use report::{Arrival, Blocked};
pub use virtual_network_usage::Use;
