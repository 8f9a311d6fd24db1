//! The keys of `remote_memory`, the memory of keys, and the keys of a memory again, to print it.

use super::{Cxl, Fault, Groups, Mesh, Offload, RemoteMemory, Ring, Sharing, Switches, Wire};
use declared::findings::{At, Findings};
use declared::tree::Value;
use declared::{Setting, Shown, Words, absent, section, words};
use units::{Bandwidth, Bytes, Span};

/// Model of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A latency and a bandwidth.
    Link,
    /// A CXL-like link.
    Cxl,
    /// CPU memory and NVMe of each NPU.
    ZeroInfinity,
    /// A pool behind switches in nodes and outside of them.
    Hierarchical,
    /// A pool behind levels of switches.
    Switches,
    /// A pool on a ring.
    Ring,
    /// A pool on a mesh.
    Mesh,
}

words!(
    Model:
    "link" = Model::Link,
    "cxl" = Model::Cxl,
    "zero_infinity" = Model::ZeroInfinity,
    "hierarchical" = Model::Hierarchical,
    "switches" = Model::Switches,
    "ring" = Model::Ring,
    "mesh" = Model::Mesh,
);

/// Who shares one memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// One NPU.
    PerNpu,
    /// Those of a node.
    PerNode,
    /// All.
    Pool,
}

words!(
    Shared:
    "per_npu" = Shared::PerNpu,
    "per_node" = Shared::PerNode,
    "pool" = Shared::Pool,
);

/// Links that the bandwidth of a memory group is given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerGroup {
    /// One.
    Link,
    /// All of a group.
    Group,
}

words!(PerGroup: "link" = PerGroup::Link, "group" = PerGroup::Group);

/// Links that the bandwidth of a node is given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerNode {
    /// One.
    Link,
    /// All of a node.
    Node,
}

words!(PerNode: "link" = PerNode::Link, "node" = PerNode::Node);

section! {
    /// Memory outside the NPUs.
    #[derive(Clone, Debug)]
    pub struct Remote by model {
        /// Model of the memory ([memory](../models/memory.md)).
        pub model: Model, default Model::Link;
        /// Who shares one memory.
        pub sharing: Option<Shared>, default None, needed [Model::Link, Model::Cxl];
        /// Consecutive ranks whose tensors lie in one memory; required with `per_node`. With `link`
        /// and `per_npu`, each has its own link to it.
        pub npus_per_node: Option<u32>, default None, with [Model::Link, Model::Cxl];
        /// Time of an access.
        pub latency: Option<Span>, default None, needed [Model::Link, Model::Cxl];
        /// Bandwidth of an access.
        pub bandwidth: Option<Bandwidth>, default None, needed [Model::Link, Model::Cxl];
        /// Bytes of a flit, 68 or 256.
        pub flit_size: Option<u32>, default None, says "68", with [Model::Cxl], was ["flit"];
        /// Lines in flight at once.
        pub max_outstanding: Option<u32>, default None, says "unlimited", with [Model::Cxl],
            was ["outstanding"];
        /// CPU memory of an NPU.
        pub cpu: Option<Tier>, default None, needed [Model::ZeroInfinity];
        /// NVMe of an NPU.
        pub nvme: Option<Tier>, default None, with [Model::ZeroInfinity];
        /// Memory groups of a pool.
        pub groups: Option<u32>, default None,
            needed [Model::Hierarchical, Model::Switches, Model::Ring, Model::Mesh];
        /// Capacity of each memory group of a pool, or of each memory (`link`, `cxl`).
        pub capacity: Option<Bytes>, default None, says "unlimited",
            with [Model::Link, Model::Cxl, Model::Hierarchical, Model::Switches, Model::Ring, Model::Mesh];
        /// Bytes that a memory group hands out at a time; with `zero_infinity` those that move at a
        /// time (the default is everything).
        pub chunk_size: Option<Bytes>, default None,
            needed [Model::Hierarchical, Model::Switches, Model::Ring, Model::Mesh],
            with [Model::ZeroInfinity], was ["chunk"];
        /// Link of a memory group; with `hierarchical` its bandwidth is `per` `link` or `group`.
        pub memory_side: Option<MemorySide>, default None,
            needed [Model::Hierarchical, Model::Switches, Model::Ring, Model::Mesh];
        /// Nodes, each with its switch.
        pub nodes: Option<u32>, default None, needed [Model::Hierarchical];
        /// Switches between nodes and memory.
        pub out_switches: Option<u32>, default None, needed [Model::Hierarchical];
        /// Link from the outer switches to a node (`hierarchical`, `per` `link` or `node`), or from
        /// a station to an NPU (`ring`, `mesh`).
        pub npu_side: Option<NpuSide>, default None,
            needed [Model::Hierarchical, Model::Ring, Model::Mesh];
        /// Link from a node's switch to an NPU.
        pub in_node: Option<Line>, default None, needed [Model::Hierarchical];
        /// Levels of switches, from the NPUs outwards.
        pub levels: Option<Vec<Level>>, default None, needed [Model::Switches];
        /// Level whose switches the memory groups are linked to, from 1.
        pub memory_level: Option<u32>, default None, says "the last", with [Model::Switches];
        /// Stations: how many (`ring`), or `[x, y]` (`mesh`).
        pub stations: Option<Stations>, default None, needed [Model::Ring, Model::Mesh];
        /// Link between two stations, each way.
        pub between: Option<Line>, default None, needed [Model::Ring, Model::Mesh];
    }
}

section! {
    /// A link.
    #[derive(Clone, Debug)]
    pub struct Line {
        /// Bandwidth of the link.
        pub bandwidth: Bandwidth, required;
        /// Latency of the link.
        pub latency: Span, default Span::ZERO;
    }
}

section! {
    /// The link of a memory group.
    #[derive(Clone, Debug)]
    pub struct MemorySide {
        /// Bandwidth, as `per` says.
        pub bandwidth: Bandwidth, required;
        /// Latency of the link.
        pub latency: Span, default Span::ZERO;
        /// Whether the bandwidth is of one link or of all links together (`hierarchical`).
        pub per: Option<PerGroup>, default None, says "`link`";
    }
}

section! {
    /// The link of a node, or of an NPU.
    #[derive(Clone, Debug)]
    pub struct NpuSide {
        /// Bandwidth, as `per` says.
        pub bandwidth: Bandwidth, required;
        /// Latency of the link.
        pub latency: Span, default Span::ZERO;
        /// Whether the bandwidth is of one link or of all links together (`hierarchical`).
        pub per: Option<PerNode>, default None, says "`link`";
    }
}

section! {
    /// Memory of a tier.
    #[derive(Clone, Debug)]
    pub struct Tier {
        /// Bandwidth.
        pub bandwidth: Bandwidth, required;
        /// Latency.
        pub latency: Span, default Span::ZERO;
        /// Capacity of the memory.
        pub capacity: Option<Bytes>, default None, says "unlimited";
    }
}

section! {
    /// A level of switches.
    #[derive(Clone, Debug)]
    pub struct Level {
        /// Switches of this level.
        pub switches: u32, required;
        /// Bandwidth of one link towards the NPUs.
        pub bandwidth: Bandwidth, required;
        /// Latency of one link towards the NPUs.
        pub latency: Span, default Span::ZERO;
    }
}

/// `stations`: on a ring, or along the two sides of a mesh.
#[derive(Clone, Copy, Debug)]
pub enum Stations {
    /// How many.
    Ring(u32),
    /// Along x and along y.
    Mesh([u32; 2]),
}

impl Setting for Stations {
    fn kind() -> String {
        "count, or two".into()
    }

    fn example() -> String {
        "a whole number from 1 (ring), or two, such as [4, 8] (mesh)".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Stations> {
        match &at.tree.value {
            Value::List(_) => Setting::read(at, findings).map(Stations::Mesh),
            _ => Setting::read(at, findings).map(Stations::Ring),
        }
    }

    fn show(&self) -> Option<Shown> {
        match self {
            Stations::Ring(count) => count.show(),
            Stations::Mesh(sides) => sides.show(),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Stations::Ring(count) => count.json(),
            Stations::Mesh(sides) => sides.json(),
        }
    }
}

/// The memory of the keys at `at`, or nothing and at least one problem.
pub fn resolve(
    keys: Remote,
    at: &At<'_>,
    npus: u32,
    findings: &mut Findings,
) -> Option<RemoteMemory> {
    let before = findings.problems.len();
    single(&keys, at, findings);
    let sharing = sharing(&keys, at, findings);
    if findings.problems.len() > before {
        return None;
    }
    let memory = keys.memory(sharing, at, findings)?;
    match memory.access(npus) {
        Ok(_) => Some(memory),
        Err(Fault { key, message, allowed }) => {
            findings.refuse(at.get(key).as_ref().unwrap_or(at), message, allowed);
            None
        }
    }
}

/// Refuses a bandwidth of several links where there is one.
fn single(keys: &Remote, at: &At<'_>, findings: &mut Findings) {
    if keys.model == Model::Hierarchical {
        return;
    }
    let memory = keys.memory_side.as_ref().and_then(|wire| wire.per) == Some(PerGroup::Group);
    let npu = keys.npu_side.as_ref().and_then(|wire| wire.per) == Some(PerNode::Node);
    for (_, place) in [
        (memory, at.get(Remote::memory_side).and_then(|at| at.get(MemorySide::per))),
        (npu, at.get(Remote::npu_side).and_then(|at| at.get(NpuSide::per))),
    ]
    .into_iter()
    .filter(|(several, _)| *several)
    {
        if let Some(place) = place {
            let message = format!("there is one link with model: {}", keys.model.word());
            findings.refuse(&place, message, "link, or no per");
        }
    }
}

fn sharing(keys: &Remote, at: &At<'_>, findings: &mut Findings) -> Option<Sharing> {
    let key = Remote::npus_per_node;
    match (keys.sharing?, keys.npus_per_node) {
        (Shared::PerNode, Some(npus)) => Some(Sharing::PerNode { npus }),
        (Shared::PerNode, None) => {
            findings.missing(at, key, &u32::example());
            None
        }
        (Shared::PerNpu, Some(_)) if keys.model == Model::Link => Some(Sharing::PerNpu),
        (Shared::PerNpu | Shared::Pool, Some(_)) => {
            let message = format!("\"{key}\" has no meaning without sharing: per_node");
            findings.refuse(&at.get(key)?, message, "leave it out");
            None
        }
        (Shared::PerNpu, None) => Some(Sharing::PerNpu),
        (Shared::Pool, None) => Some(Sharing::Pool),
    }
}

impl Remote {
    /// The memory; every key that the model needs is there.
    fn memory(
        self,
        sharing: Option<Sharing>,
        at: &At<'_>,
        findings: &mut Findings,
    ) -> Option<RemoteMemory> {
        Some(match self.model {
            Model::Link => RemoteMemory::Link(super::Link {
                sharing: sharing?,
                latency: self.latency?,
                bandwidth: self.bandwidth?,
                npus_per_node: self.npus_per_node.filter(|_| sharing == Some(Sharing::PerNpu)),
                capacity: self.capacity,
            }),
            Model::Cxl => RemoteMemory::Cxl(Cxl {
                sharing: sharing?,
                latency: self.latency?,
                bandwidth: self.bandwidth?,
                flit: self.flit_size.unwrap_or(68),
                outstanding: self.max_outstanding,
                capacity: self.capacity,
            }),
            Model::ZeroInfinity => RemoteMemory::Offload(Offload {
                cpu: self.cpu?.tier(),
                nvme: self.nvme.map(Tier::tier),
                chunk: self.chunk_size,
            }),
            Model::Hierarchical => RemoteMemory::Switches(self.hierarchical()?),
            Model::Switches => RemoteMemory::Switches(self.switches()?),
            Model::Ring => RemoteMemory::Ring(Ring {
                stations: match self.stations? {
                    Stations::Ring(count) => count,
                    Stations::Mesh(_) => return self.wrong_stations("one number", at, findings),
                },
                groups: self.pool_groups()?,
                memory_side: self.memory_side?.wire(1),
                between: self.between?.wire(),
                npu_side: self.npu_side?.wire(1),
                chunk: self.chunk_size?,
            }),
            Model::Mesh => RemoteMemory::Mesh(Mesh {
                stations: match self.stations? {
                    Stations::Mesh(sides) => sides,
                    Stations::Ring(_) => {
                        let allowed = "two whole numbers, such as [4, 8]";
                        return self.wrong_stations(allowed, at, findings);
                    }
                },
                groups: self.pool_groups()?,
                memory_side: self.memory_side?.wire(1),
                between: self.between?.wire(),
                npu_side: self.npu_side?.wire(1),
                chunk: self.chunk_size?,
            }),
        })
    }

    fn wrong_stations(
        &self,
        allowed: &str,
        at: &At<'_>,
        findings: &mut Findings,
    ) -> Option<RemoteMemory> {
        let place = at.get(Remote::stations)?;
        let message = format!("wrong stations for model: {}", self.model.word());
        findings.refuse(&place, message, allowed);
        None
    }

    fn pool_groups(&self) -> Option<Groups> {
        Some(Groups { count: self.groups?, capacity: self.capacity })
    }

    fn hierarchical(self) -> Option<Switches> {
        let (nodes, outer) = (self.nodes?, self.out_switches?);
        let levels = vec![
            super::Level { switches: nodes, down: self.in_node.as_ref()?.wire() },
            super::Level { switches: outer, down: self.npu_side.as_ref()?.wire(outer) },
        ];
        Some(Switches {
            levels,
            memory_level: 2,
            groups: self.pool_groups()?,
            memory_side: self.memory_side?.wire(outer),
            chunk: self.chunk_size?,
        })
    }

    fn switches(self) -> Option<Switches> {
        let groups = self.pool_groups()?;
        let level = |level: &Level| super::Level {
            switches: level.switches,
            down: Wire { bandwidth: level.bandwidth, latency: level.latency },
        };
        let levels: Vec<super::Level> = self.levels?.iter().map(level).collect();
        Some(Switches {
            memory_level: self.memory_level.unwrap_or(levels.len() as u32),
            levels,
            groups,
            memory_side: self.memory_side?.wire(1),
            chunk: self.chunk_size?,
        })
    }
}

impl Line {
    fn wire(&self) -> Wire {
        Wire { bandwidth: self.bandwidth, latency: self.latency }
    }

    fn of(wire: Wire) -> Line {
        Line { bandwidth: wire.bandwidth, latency: wire.latency }
    }
}

/// One of `links` links that have a bandwidth together.
fn one_of(links: Option<u32>, bandwidth: Bandwidth, latency: Span) -> Wire {
    let links = u64::from(links.unwrap_or(1).max(1));
    Wire { bandwidth: Bandwidth((bandwidth.0 / links).max(1)), latency }
}

impl MemorySide {
    /// The link; a memory group has `links` of them.
    fn wire(&self, links: u32) -> Wire {
        let several = (self.per == Some(PerGroup::Group)).then_some(links);
        one_of(several, self.bandwidth, self.latency)
    }

    fn of(wire: Wire) -> MemorySide {
        MemorySide { bandwidth: wire.bandwidth, latency: wire.latency, per: None }
    }
}

impl NpuSide {
    /// The link; a node has `links` of them.
    fn wire(&self, links: u32) -> Wire {
        let several = (self.per == Some(PerNode::Node)).then_some(links);
        one_of(several, self.bandwidth, self.latency)
    }

    fn of(wire: Wire) -> NpuSide {
        NpuSide { bandwidth: wire.bandwidth, latency: wire.latency, per: None }
    }
}

impl Tier {
    fn tier(self) -> super::Tier {
        let wire = Wire { bandwidth: self.bandwidth, latency: self.latency };
        super::Tier { wire, capacity: self.capacity }
    }

    fn of(tier: super::Tier) -> Tier {
        let Wire { bandwidth, latency } = tier.wire;
        Tier { bandwidth, latency, capacity: tier.capacity }
    }
}

/// The keys that read back to a memory.
pub fn keys(memory: &RemoteMemory) -> Remote {
    let keys: Remote = absent();
    let shared = |sharing: Sharing, latency: Span, bandwidth: Bandwidth, keys: Remote| {
        let (sharing, npus_per_node) = match sharing {
            Sharing::PerNpu => (Shared::PerNpu, None),
            Sharing::PerNode { npus } => (Shared::PerNode, Some(npus)),
            Sharing::Pool => (Shared::Pool, None),
        };
        Remote {
            sharing: Some(sharing),
            npus_per_node,
            latency: Some(latency),
            bandwidth: Some(bandwidth),
            ..keys
        }
    };
    let pool = |model: Model, groups: &Groups, side: Wire, chunk: Bytes, keys: Remote| Remote {
        model,
        groups: Some(groups.count),
        capacity: groups.capacity,
        memory_side: Some(MemorySide::of(side)),
        chunk_size: Some(chunk),
        ..keys
    };
    let around = |between: Wire, npu_side: Wire, stations: Stations| Remote {
        between: Some(Line::of(between)),
        npu_side: Some(NpuSide::of(npu_side)),
        stations: Some(stations),
        ..absent()
    };
    match memory {
        RemoteMemory::Link(link) => {
            let keys = shared(link.sharing, link.latency, link.bandwidth, keys);
            Remote {
                capacity: link.capacity,
                npus_per_node: keys.npus_per_node.or(link.npus_per_node),
                ..keys
            }
        }
        RemoteMemory::Cxl(cxl) => Remote {
            model: Model::Cxl,
            flit_size: Some(cxl.flit),
            max_outstanding: cxl.outstanding,
            capacity: cxl.capacity,
            ..shared(cxl.sharing, cxl.latency, cxl.bandwidth, keys)
        },
        RemoteMemory::Offload(offload) => Remote {
            model: Model::ZeroInfinity,
            cpu: Some(Tier::of(offload.cpu)),
            nvme: offload.nvme.map(Tier::of),
            chunk_size: offload.chunk,
            ..keys
        },
        RemoteMemory::Switches(switches) => {
            let level = |level: &super::Level| Level {
                switches: level.switches,
                bandwidth: level.down.bandwidth,
                latency: level.down.latency,
            };
            let keys = Remote {
                levels: Some(switches.levels.iter().map(level).collect()),
                memory_level: Some(switches.memory_level),
                ..keys
            };
            let Switches { groups, memory_side, chunk, .. } = switches;
            pool(Model::Switches, groups, *memory_side, *chunk, keys)
        }
        RemoteMemory::Ring(ring) => {
            let keys = around(ring.between, ring.npu_side, Stations::Ring(ring.stations));
            pool(Model::Ring, &ring.groups, ring.memory_side, ring.chunk, keys)
        }
        RemoteMemory::Mesh(mesh) => {
            let keys = around(mesh.between, mesh.npu_side, Stations::Mesh(mesh.stations));
            pool(Model::Mesh, &mesh.groups, mesh.memory_side, mesh.chunk, keys)
        }
    }
}
