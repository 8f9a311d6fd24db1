//! The runs of reference files of other simulators, straight on a network: no executor decides what
//! is sent when.
//!
//! Here: Garnet's and BookSim2's traffic on the routers of flits (`flits`), the collectives of ns-3
//! and htsim on the packet backend (`packets`). Not here: settings and results of their files
//! (`armillary_lab.peers`).

pub mod flits;
pub mod packets;
