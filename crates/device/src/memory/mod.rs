//! Memory: that of an NPU, and what stands behind one contract outside it: links, CXL, CPU and
//! NVMe, pools behind switches, rings, meshes.
//!
//! Here: the contract. A [`RemoteMemory`], brought to a number of NPUs, is [`Access`]: the time of
//! an access of some bytes, and who takes turns. One model a file; those in which a tensor crosses
//! several links make a [`Pipeline`] of the loads on their busiest links. A [`Pool`] says what these
//! are when some of the NPUs access it. Not here: when an access
//! starts and what it delays (`sim`), the network between NPUs (`net-*`).

mod cxl;
pub mod keys;
mod link;
mod local;
mod mesh;
mod offload;
mod pipeline;
mod pool;
mod ring;
mod stations;
mod switches;
mod tree;

pub use cxl::Cxl;
pub use link::Link;
pub use local::Local;
pub use mesh::Mesh;
pub use offload::{Offload, Tier};
pub use pipeline::{Load, Pipeline, Stage};
pub use pool::{Loads, Pool};
pub use ring::Ring;
pub use switches::{Level, Switches};
pub use tree::{Crowd, Gather};

use graph::Reach;
use units::{Bandwidth, Bytes, Span};

/// Who takes turns at a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Only the accesses of one NPU.
    PerNpu,
    /// `npus` consecutive ranks share one.
    PerNode {
        /// Ranks a node.
        npus: u32,
    },
    /// The whole machine shares one.
    Pool,
}

/// One link: what a message pays once, and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Wire {
    /// Fixed part of a transfer.
    #[serde(rename = "latency_ps")]
    pub latency: Span,
    /// Bytes per second.
    pub bandwidth: Bandwidth,
}

/// The memory groups of a pool; tensors are spread evenly over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Groups {
    /// How many.
    pub count: u32,
    /// Capacity of each memory, if known.
    #[serde(rename = "capacity_bytes")]
    pub capacity: Option<Bytes>,
}

/// Memory outside the NPUs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "model")]
pub enum RemoteMemory {
    /// A latency and a bandwidth.
    Link(Link),
    /// A CXL-like link.
    Cxl(Cxl),
    /// Each NPU its own CPU memory and NVMe (ZeRO-Infinity).
    Offload(Offload),
    /// A pool behind levels of switches; two of them are the paper's hierarchical pool.
    Switches(Switches),
    /// A pool on a ring.
    Ring(Ring),
    /// A pool on a mesh.
    Mesh(Mesh),
}

/// Reason why a memory can't be brought to this number of NPUs: the key it is about, the fault, and
/// the allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `groups`, `levels`, ...
    pub key: &'static str,
    /// With the numbers.
    pub message: String,
    /// Allowed values.
    pub allowed: String,
}

impl Fault {
    pub(crate) fn new(
        key: &'static str,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Fault {
        Fault { key, message: message.into(), allowed: allowed.into() }
    }
}

/// Times of accesses on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who takes turns.
    pub sharing: Sharing,
    /// The links that accesses of several NPUs share, with `own` and `in_switch` as all of them
    /// use these at once.
    pub pool: Option<Pool>,
    /// A load or store of an NPU's own tensor.
    pub own: Pipeline,
    /// A load that gathers (a store that scatters) the shards of all NPUs in the switches, where
    /// there are any.
    pub in_switch: Option<Pipeline>,
    /// A load or store of a tensor in the host's memory, if that differs from `own`.
    pub host: Option<Pipeline>,
    /// A load or store of a tensor on a disk behind the host's memory, if there is one.
    pub disk: Option<Pipeline>,
    /// The memories in which tensors lie, from the NPUs outwards; accesses of reach `remote` are to
    /// the last one.
    pub stores: Vec<Store>,
}

/// Memories of one kind in which tensors lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Name for people.
    pub name: &'static str,
    /// Whose tensors lie in one of them.
    pub of: Sharing,
    /// Bytes that one of them holds, if known.
    pub capacity: Option<u128>,
}

impl Store {
    /// Which of the memories holds the tensors of `rank`.
    pub fn index(&self, rank: u32) -> u32 {
        match self.of {
            Sharing::PerNpu => rank,
            Sharing::PerNode { npus } => rank / npus.max(1),
            Sharing::Pool => 0,
        }
    }
}

impl Access {
    /// Accesses to tensors that lie in `stores`.
    pub(crate) fn new(sharing: Sharing, own: Pipeline, stores: Vec<Store>) -> Self {
        Access { sharing, pool: None, own, in_switch: None, host: None, disk: None, stores }
    }

    /// The same over links that NPUs share.
    fn shared(self, pool: Pool) -> Access {
        Access { pool: Some(pool), ..self }
    }

    /// The same for an NPU that no other NPU ever delays.
    pub fn alone(self) -> Access {
        let own = self.pool.as_ref().map(|pool| self.own.under(&pool.alone()));
        Access { own: own.unwrap_or_else(|| self.own.clone()), ..self }
    }

    /// Which of the stores an access is to; `None` for the NPU's own memory, and where there is no
    /// such store.
    pub fn store(&self, reach: Reach) -> Option<usize> {
        match reach {
            Reach::Local => None,
            Reach::Remote | Reach::InSwitch => self.stores.len().checked_sub(1),
            Reach::Host => Some(0),
            Reach::Disk => self.disk.as_ref().and_then(|_| self.stores.len().checked_sub(1)),
        }
    }
}

impl RemoteMemory {
    /// Times of accesses on a machine of `npus` NPUs.
    ///
    /// # Errors
    /// A [`Fault`] with the numbers: no groups, no such level, fewer stations than one, a capacity
    /// without end.
    pub fn access(&self, npus: u32) -> Result<Access, Fault> {
        match self {
            RemoteMemory::Link(link) => Ok(link.access()),
            RemoteMemory::Cxl(cxl) => cxl.access(),
            RemoteMemory::Offload(offload) => Ok(offload.access()),
            RemoteMemory::Switches(switches) => {
                Ok(switches.access(npus)?.shared(Pool::Tree(switches.tree(npus))))
            }
            RemoteMemory::Ring(ring) => Ok(ring.access(npus)?.shared(Pool::Ring(*ring, npus))),
            RemoteMemory::Mesh(mesh) => Ok(mesh.access(npus)?.shared(Pool::Mesh(*mesh, npus))),
        }
    }

    /// The word of the model in files and reports.
    pub fn name(&self) -> &'static str {
        match self {
            RemoteMemory::Link(_) => "link",
            RemoteMemory::Cxl(_) => "cxl",
            RemoteMemory::Offload(_) => "zero_infinity",
            RemoteMemory::Switches(_) => "switches",
            RemoteMemory::Ring(_) => "ring",
            RemoteMemory::Mesh(_) => "mesh",
        }
    }
}

impl Groups {
    /// The pool that they make.
    pub(crate) fn store(&self) -> Store {
        let capacity = self.capacity.map(|each| u128::from(each.0) * u128::from(self.count));
        Store { name: "memory pool", of: Sharing::Pool, capacity }
    }

    /// Refuses a pool of nothing.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.count > 0 {
            return Ok(());
        }
        Err(Fault::new("groups", "the pool has 0 memory groups", "a whole number from 1"))
    }
}
