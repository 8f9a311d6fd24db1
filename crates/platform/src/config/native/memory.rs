//! `npu.memory` and `remote_memory`: read, and shown as they are read. Not here: the models
//! (`device::memory`).

use crate::config::declared::{Setting, entry, keys, section};
use crate::config::findings::{At, Findings};
use crate::config::tree::Value;
use crate::platform::{Exceeded, Platform};
use device::memory::{
    Cxl, Fault, Groups, Level, Link, Mesh, Offload, RemoteMemory, Ring, Sharing, Switches, Tier,
    Wire,
};
use std::fmt::Write;
use units::{Bandwidth, Bytes, QuantityError, Span};

section! {
    /// `npu.memory`.
    #[derive(Default)]
    pub(super) struct Own {
        /// Bandwidth of the NPU's memory. Without it memory never limits, and reductions cost
        /// nothing.
        pub bandwidth: Option<Bandwidth>, default None;
        /// Time that a load or store node adds that stays in the NPU's own memory.
        pub latency: Span, default Span::ZERO;
        /// Size of the NPU's memory ([what an NPU holds](../models/memory.md#what-an-npu-holds)).
        pub capacity: Option<Bytes>, default None;
        /// What happens where an NPU holds more than its memory.
        pub on_overflow: Exceeded, default Exceeded::Warn, was ["exceeded"];
        /// While their NPU communicates, kernels have the bandwidth that communication leaves.
        pub contention: bool, default false;
    }
}

/// An NPU's own memory; a fault is noted and the default stands in.
pub(super) fn own(at: Option<At<'_>>, findings: &mut Findings) -> Own {
    at.and_then(|at| Own::read(&at, findings)).unwrap_or_default()
}

keys! { pub(super) REMOTE:
    /// What it is ([memory](../models/memory.md)).
    model: "`link`, `cxl`, `zero_infinity`, `hierarchical`, `switches`, `ring`, `mesh`", "`link`";
    /// Who shares one (`link`, `cxl`).
    sharing: "`per_npu`, `per_node`, `pool`", "required with `link`, `cxl`";
    /// Consecutive ranks that share one.
    npus_per_node: "count", "required with `per_node`";
    /// Time of an access (`link`, `cxl`).
    latency: "time", "required with `link`, `cxl`";
    /// Bandwidth of an access (`link`, `cxl`).
    bandwidth: "bandwidth", "required with `link`, `cxl`";
    /// Bytes of a flit, 68 or 256 (`cxl`).
    flit_size: "count", "68", was ["flit"];
    /// Lines in flight at once (`cxl`).
    max_outstanding: "count", "unlimited", was ["outstanding"];
    /// CPU memory of an NPU (`zero_infinity`).
    cpu: "mapping", "required with `zero_infinity`", in TIER;
    /// NVMe of an NPU (`zero_infinity`).
    nvme: "mapping", "none", in TIER;
    /// Memory groups of a pool.
    groups: "count", "required with a pool";
    /// What each memory group of a pool holds.
    capacity: "size", "none";
    /// What a memory group hands out at a time; with `zero_infinity` what moves at a time
    /// (everything).
    chunk_size: "size", "required with a pool", was ["chunk"];
    /// Link of a memory group; with `hierarchical` its bandwidth is `per` `link` or `group`.
    memory_side: "mapping", "required with a pool", in WIRE_PER;
    /// Nodes, each with its switch (`hierarchical`).
    nodes: "count", "required with `hierarchical`";
    /// Switches between nodes and memory (`hierarchical`).
    out_switches: "count", "required with `hierarchical`";
    /// Link from the outer switches to a node (`hierarchical`, `per` `link` or `node`), or from a
    /// station to an NPU (`ring`, `mesh`).
    npu_side: "mapping", "required with `hierarchical`, `ring`, `mesh`", in WIRE_PER;
    /// Link from a node's switch to an NPU (`hierarchical`).
    in_node: "mapping", "required with `hierarchical`", in LINE;
    /// Levels from the NPUs outwards (`switches`).
    levels: "list of mappings", "required with `switches`", in LEVEL;
    /// Level whose switches the memory groups are linked to, from 1 (`switches`).
    memory_level: "count", "the last";
    /// Stations: how many (`ring`), or `[x, y]` (`mesh`).
    stations: "count, or two", "required with `ring`, `mesh`";
    /// Link between two stations, each way (`ring`, `mesh`).
    between: "mapping", "required with `ring`, `mesh`", in LINE;
}
keys! { LINE:
    /// Bandwidth of the link.
    bandwidth: "bandwidth", "required";
    /// Latency of the link.
    latency: "time", "0 ns";
}
keys! { WIRE_PER:
    /// Bandwidth, as `per` says.
    bandwidth: "bandwidth", "required";
    /// Latency of the link.
    latency: "time", "0 ns";
    /// Whether the bandwidth is of one link or of all links together.
    per: "`link`, `group`, `node`", "`link`";
}
keys! { TIER:
    /// Bandwidth.
    bandwidth: "bandwidth", "required";
    /// Latency.
    latency: "time", "0 ns";
    /// What it holds.
    capacity: "size", "unlimited";
}
keys! { LEVEL:
    /// Switches of this level.
    switches: "count", "required";
    /// Bandwidth of one link towards the NPUs.
    bandwidth: "bandwidth", "required";
    /// Latency of one link towards the NPUs.
    latency: "time", "0 ns";
}

#[derive(Clone, Copy)]
enum Model {
    Link,
    Cxl,
    ZeroInfinity,
    Hierarchical,
    Switches,
    Ring,
    Mesh,
}

const MODELS: [(&str, Model); 7] = [
    ("link", Model::Link),
    ("cxl", Model::Cxl),
    ("zero_infinity", Model::ZeroInfinity),
    ("hierarchical", Model::Hierarchical),
    ("switches", Model::Switches),
    ("ring", Model::Ring),
    ("mesh", Model::Mesh),
];

/// Memory outside the NPUs, or nothing and at least one problem.
pub(super) fn remote(at: &At<'_>, npus: u32, findings: &mut Findings) -> Option<RemoteMemory> {
    if !at.is_map() {
        findings.mapping(at, &["model"])?;
    }
    let model =
        at.get("model").map_or(Some(Model::Link), |word| findings.one_of(&word, &MODELS))?;
    let memory = match model {
        Model::Link => link(at, findings).map(RemoteMemory::Link),
        Model::Cxl => cxl(at, findings).map(RemoteMemory::Cxl),
        Model::ZeroInfinity => offload(at, findings).map(RemoteMemory::Offload),
        Model::Hierarchical => hierarchical(at, findings).map(RemoteMemory::Switches),
        Model::Switches => switches(at, findings).map(RemoteMemory::Switches),
        Model::Ring => ring(at, findings).map(RemoteMemory::Ring),
        Model::Mesh => mesh(at, findings).map(RemoteMemory::Mesh),
    }?;
    match memory.access(npus) {
        Ok(_) => Some(memory),
        Err(Fault { key, message, allowed }) => {
            findings.refuse(at.get(key).as_ref().unwrap_or(at), message, allowed);
            None
        }
    }
}

const TIME: &str = "a time, such as \"1 us\"";
const RATE: &str = "a bandwidth, such as \"100 GB/s\"";
const SIZE: &str = "a size, such as \"1 MiB\"";
const COUNT: &str = "a whole number from 1";
const WIRE: &str = "a mapping with bandwidth and latency";

fn optional<T: std::str::FromStr<Err = QuantityError>>(
    at: &At<'_>,
    key: &str,
    findings: &mut Findings,
) -> Option<T> {
    at.get(key).and_then(|at| findings.quantity(&at))
}

fn quantity<T>(at: &At<'_>, key: &str, allowed: &str, findings: &mut Findings) -> Option<T>
where
    T: std::str::FromStr<Err = QuantityError>,
{
    findings.need(at, key, allowed).and_then(|at| findings.quantity(&at))
}

/// A count; none is left to the model to refuse, which knows why.
fn count(at: &At<'_>, key: &str, findings: &mut Findings) -> Option<u32> {
    findings.need(at, key, COUNT).and_then(|at| findings.whole(&at, 0, u32::MAX))
}

fn sharing(at: &At<'_>, findings: &mut Findings) -> Option<Sharing> {
    let words =
        [("per_npu", Some(Sharing::PerNpu)), ("per_node", None), ("pool", Some(Sharing::Pool))];
    let word = findings.need(at, "sharing", "per_npu, per_node, pool")?;
    match (findings.one_of(&word, &words)?, at.get("npus_per_node")) {
        (Some(_), Some(each)) => {
            findings.refuse(
                &each,
                "\"npus_per_node\" means something only with sharing: per_node",
                "leave it out",
            );
            None
        }
        (Some(sharing), None) => Some(sharing),
        (None, _) => {
            let each = findings.need(at, "npus_per_node", COUNT)?;
            Some(Sharing::PerNode { npus: findings.whole(&each, 1, u32::MAX)? })
        }
    }
}

fn link(at: &At<'_>, findings: &mut Findings) -> Option<Link> {
    findings.mapping(at, &["model", "sharing", "npus_per_node", "latency", "bandwidth"])?;
    let sharing = sharing(at, findings);
    let latency = quantity(at, "latency", TIME, findings);
    let bandwidth = quantity(at, "bandwidth", RATE, findings);
    Some(Link { sharing: sharing?, latency: latency?, bandwidth: bandwidth? })
}

fn cxl(at: &At<'_>, findings: &mut Findings) -> Option<Cxl> {
    let keys = [
        "model",
        "sharing",
        "npus_per_node",
        "latency",
        "bandwidth",
        "flit_size",
        "max_outstanding",
    ];
    findings.mapping(at, &keys)?;
    let before = findings.problems.len();
    let sharing = sharing(at, findings);
    let latency = quantity(at, "latency", TIME, findings);
    let bandwidth = quantity(at, "bandwidth", RATE, findings);
    let flit = at.get("flit_size").map_or(Some(68), |at| findings.whole(&at, 1, 4096));
    let outstanding = at.get("max_outstanding").and_then(|at| findings.whole(&at, 1, u32::MAX));
    let made = Cxl {
        sharing: sharing?,
        latency: latency?,
        bandwidth: bandwidth?,
        flit: flit?,
        outstanding,
    };
    (findings.problems.len() == before).then_some(made)
}

fn offload(at: &At<'_>, findings: &mut Findings) -> Option<Offload> {
    findings.mapping(at, &["model", "cpu", "nvme", "chunk_size"])?;
    let before = findings.problems.len();
    let cpu = findings.need(at, "cpu", WIRE).and_then(|at| tier(&at, findings));
    let nvme = at.get("nvme").and_then(|at| tier(&at, findings));
    let made = Offload { cpu: cpu?, nvme, chunk: optional(at, "chunk_size", findings) };
    (findings.problems.len() == before).then_some(made)
}

fn tier(at: &At<'_>, findings: &mut Findings) -> Option<Tier> {
    findings.mapping(at, &["bandwidth", "latency", "capacity"])?;
    let wire = wire(at, findings);
    let capacity = optional(at, "capacity", findings);
    Some(Tier { wire: wire?, capacity })
}

/// `bandwidth`, and `latency`, which is 0 when not given.
fn wire(at: &At<'_>, findings: &mut Findings) -> Option<Wire> {
    let bandwidth = quantity(at, "bandwidth", RATE, findings);
    let latency = at.get("latency").map_or(Some(Span::ZERO), |at| findings.quantity(&at));
    Some(Wire { bandwidth: bandwidth?, latency: latency? })
}

fn plain_wire(at: &At<'_>, key: &str, findings: &mut Findings) -> Option<Wire> {
    let at = findings.need(at, key, WIRE)?;
    findings.mapping(&at, &["bandwidth", "latency"])?;
    wire(&at, findings)
}

/// A wire whose bandwidth is of one link, or of the `links` links of what `whole` names together.
fn wire_per(
    at: &At<'_>,
    key: &str,
    whole: &str,
    links: Option<u32>,
    findings: &mut Findings,
) -> Option<Wire> {
    let at = findings.need(at, key, WIRE)?;
    findings.mapping(&at, &["bandwidth", "latency", "per"])?;
    let per = at.get("per").map_or(Some(1), |word| {
        findings.one_of(&word, &[("link", 1), (whole, links.unwrap_or(1).max(1))])
    });
    let wire = wire(&at, findings)?;
    Some(Wire { bandwidth: Bandwidth((wire.bandwidth.0 / u64::from(per?)).max(1)), ..wire })
}

fn groups(at: &At<'_>, findings: &mut Findings) -> Option<Groups> {
    let count = count(at, "groups", findings);
    let capacity = at.get("capacity").map(|at| findings.quantity(&at));
    match capacity {
        Some(None) => None,
        capacity => Some(Groups { count: count?, capacity: capacity.flatten() }),
    }
}

fn hierarchical(at: &At<'_>, findings: &mut Findings) -> Option<Switches> {
    let keys = [
        "model",
        "nodes",
        "out_switches",
        "groups",
        "capacity",
        "memory_side",
        "npu_side",
        "in_node",
        "chunk_size",
    ];
    findings.mapping(at, &keys)?;
    let (nodes, out) = (count(at, "nodes", findings), count(at, "out_switches", findings));
    let groups = groups(at, findings);
    let memory_side = wire_per(at, "memory_side", "group", out, findings);
    let npu_side = wire_per(at, "npu_side", "node", out, findings);
    let in_node = plain_wire(at, "in_node", findings);
    let chunk = quantity(at, "chunk_size", SIZE, findings);
    let levels =
        vec![Level { switches: nodes?, down: in_node? }, Level { switches: out?, down: npu_side? }];
    Some(Switches {
        levels,
        memory_level: 2,
        groups: groups?,
        memory_side: memory_side?,
        chunk: chunk?,
    })
}

fn switches(at: &At<'_>, findings: &mut Findings) -> Option<Switches> {
    findings.mapping(
        at,
        &["model", "levels", "memory_level", "groups", "capacity", "memory_side", "chunk_size"],
    )?;
    let list = findings.need(at, "levels", "a list of levels, from the NPUs outwards");
    let levels: Option<Vec<Level>> =
        list.and_then(|at| at.items().iter().map(|at| level(at, findings)).collect());
    let top = levels.as_ref().map_or(1, |levels| levels.len() as u32);
    let memory_level =
        at.get("memory_level").map_or(Some(top), |at| findings.whole(&at, 0, u32::MAX));
    let groups = groups(at, findings);
    let memory_side = plain_wire(at, "memory_side", findings);
    let chunk = quantity(at, "chunk_size", SIZE, findings);
    let (levels, memory_level) = (levels?, memory_level?);
    Some(Switches {
        levels,
        memory_level,
        groups: groups?,
        memory_side: memory_side?,
        chunk: chunk?,
    })
}

fn level(at: &At<'_>, findings: &mut Findings) -> Option<Level> {
    findings.mapping(at, &["switches", "bandwidth", "latency"])?;
    let switches = count(at, "switches", findings);
    let down = wire(at, findings);
    Some(Level { switches: switches?, down: down? })
}

const STATIONS: [&str; 8] =
    ["model", "stations", "groups", "capacity", "memory_side", "between", "npu_side", "chunk_size"];

fn ring(at: &At<'_>, findings: &mut Findings) -> Option<Ring> {
    findings.mapping(at, &STATIONS)?;
    let stations = count(at, "stations", findings);
    let (groups, [memory_side, between, npu_side], chunk) = around(at, findings);
    let (memory_side, between, npu_side) = (memory_side?, between?, npu_side?);
    Some(Ring {
        stations: stations?,
        groups: groups?,
        memory_side,
        between,
        npu_side,
        chunk: chunk?,
    })
}

fn mesh(at: &At<'_>, findings: &mut Findings) -> Option<Mesh> {
    findings.mapping(at, &STATIONS)?;
    let stations = findings.need(at, "stations", "[x, y]").and_then(|at| pair(&at, findings));
    let (groups, [memory_side, between, npu_side], chunk) = around(at, findings);
    let (memory_side, between, npu_side) = (memory_side?, between?, npu_side?);
    Some(Mesh {
        stations: stations?,
        groups: groups?,
        memory_side,
        between,
        npu_side,
        chunk: chunk?,
    })
}

/// What a ring and a mesh share.
fn around(
    at: &At<'_>,
    findings: &mut Findings,
) -> (Option<Groups>, [Option<Wire>; 3], Option<Bytes>) {
    let groups = groups(at, findings);
    let wires = ["memory_side", "between", "npu_side"].map(|key| plain_wire(at, key, findings));
    (groups, wires, quantity(at, "chunk_size", SIZE, findings))
}

fn pair(at: &At<'_>, findings: &mut Findings) -> Option<[u32; 2]> {
    if !matches!(&at.tree.value, Value::List(items) if items.len() == 2) {
        findings.refuse(
            at,
            format!("{} is not allowed", at.tree.show()),
            "two whole numbers, such as [4, 8]",
        );
        return None;
    }
    let sizes: Vec<u32> =
        at.items().iter().filter_map(|at| findings.whole(at, 0, u32::MAX)).collect();
    sizes.try_into().ok()
}

/// Both, as keys that read back to them.
pub(super) fn show(platform: &Platform, out: &mut String) {
    let npu = &platform.npu;
    let own = Own {
        bandwidth: npu.memory_bandwidth,
        latency: npu.memory_latency,
        capacity: npu.memory_capacity,
        on_overflow: npu.memory_on_overflow,
        contention: npu.memory_contention,
    };
    if let Some(shown) = own.show() {
        entry("memory", &shown, 2, out);
    }
    if let Some(remote) = &platform.remote_memory {
        let _ = writeln!(out, "remote_memory: {{model: {}, {}}}", remote.name(), keys(remote));
    }
}

fn keys(memory: &RemoteMemory) -> String {
    match memory {
        RemoteMemory::Link(link) => {
            format!(
                "{}, latency: {}, bandwidth: {}",
                shared(link.sharing),
                link.latency,
                link.bandwidth
            )
        }
        RemoteMemory::Cxl(cxl) => {
            let outstanding = cxl
                .outstanding
                .map_or(String::new(), |lines| format!(", max_outstanding: {lines}"));
            let link = format!(
                "{}, latency: {}, bandwidth: {}",
                shared(cxl.sharing),
                cxl.latency,
                cxl.bandwidth
            );
            format!("{link}, flit_size: {}{outstanding}", cxl.flit)
        }
        RemoteMemory::Offload(offload) => {
            let tier = |name: &str, tier: &Tier| {
                let capacity =
                    tier.capacity.map_or(String::new(), |bytes| format!(", capacity: {bytes}"));
                format!("{name}: {{{}{capacity}}}", shown(&tier.wire))
            };
            let nvme = offload
                .nvme
                .as_ref()
                .map_or(String::new(), |nvme| format!(", {}", tier("nvme", nvme)));
            let chunk =
                offload.chunk.map_or(String::new(), |chunk| format!(", chunk_size: {chunk}"));
            format!("{}{nvme}{chunk}", tier("cpu", &offload.cpu))
        }
        RemoteMemory::Switches(pool) => {
            let level =
                |level: &Level| format!("{{switches: {}, {}}}", level.switches, shown(&level.down));
            let levels: Vec<String> = pool.levels.iter().map(level).collect();
            let memory = format!("memory_level: {}, {}", pool.memory_level, held(&pool.groups));
            let wire = format!("memory_side: {{{}}}", shown(&pool.memory_side));
            format!("levels: [{}], {memory}, {wire}, chunk_size: {}", levels.join(", "), pool.chunk)
        }
        RemoteMemory::Ring(ring) => {
            let wires = [ring.memory_side, ring.between, ring.npu_side];
            format!("stations: {}, {}", ring.stations, stations(&ring.groups, wires, ring.chunk))
        }
        RemoteMemory::Mesh(mesh) => {
            let wires = [mesh.memory_side, mesh.between, mesh.npu_side];
            let [x, y] = mesh.stations;
            format!("stations: [{x}, {y}], {}", stations(&mesh.groups, wires, mesh.chunk))
        }
    }
}

fn shared(sharing: Sharing) -> String {
    match sharing {
        Sharing::PerNpu => "sharing: per_npu".to_string(),
        Sharing::PerNode { npus } => format!("sharing: per_node, npus_per_node: {npus}"),
        Sharing::Pool => "sharing: pool".to_string(),
    }
}

fn shown(wire: &Wire) -> String {
    format!("bandwidth: {}, latency: {}", wire.bandwidth, wire.latency)
}

fn held(groups: &Groups) -> String {
    let capacity = groups.capacity.map_or(String::new(), |each| format!(", capacity: {each}"));
    format!("groups: {}{capacity}", groups.count)
}

fn stations(groups: &Groups, [memory, between, npu]: [Wire; 3], chunk: Bytes) -> String {
    let wires = [("memory_side", memory), ("between", between), ("npu_side", npu)];
    let wires: Vec<String> =
        wires.iter().map(|(key, wire)| format!("{key}: {{{}}}", shown(wire))).collect();
    format!("{}, {}, chunk_size: {chunk}", held(groups), wires.join(", "))
}
