//! The remote memory file: `memory-type`, `remote-mem-latency` (ns), `remote-mem-bw` (bytes per
//! ns), both read as integers.

use super::syntax::{Syntax, integer, mapping};
use crate::config::file::Load;
use declared::findings::{At, Findings};
use device::memory::{Link, RemoteMemory, Sharing};
use units::{Bandwidth, Span};

const KEYS: [&str; 5] =
    ["memory-type", "remote-mem-latency", "remote-mem-bw", "num-nodes", "num-npus-per-node"];

#[derive(Clone, Copy)]
enum Kind {
    None,
    PerNpu,
    PerNode,
    Pool,
}

const KINDS: [(&str, Kind); 4] = [
    ("NO_MEMORY_EXPANSION", Kind::None),
    ("PER_NPU_MEMORY_EXPANSION", Kind::PerNpu),
    ("PER_NODE_MEMORY_EXPANSION", Kind::PerNode),
    ("MEMORY_POOL", Kind::Pool),
];

pub(super) struct Memory {
    pub memory: RemoteMemory,
    pub latency: u64,
    pub bandwidth: u64,
}

/// The outer option is whether the file could be read, the inner whether there is such memory.
pub(super) fn read(
    path: &str,
    npus: Option<u32>,
    load: &Load<'_>,
    all: &mut Findings,
) -> Option<Option<Memory>> {
    let mut findings = Findings::new(path);
    let memory = parse(npus, load, &mut findings);
    all.merge(findings);
    memory
}

fn parse(npus: Option<u32>, load: &Load<'_>, findings: &mut Findings) -> Option<Option<Memory>> {
    let tree = mapping("remote memory file", Syntax::Json, &KEYS, load, findings)?;
    let root = At::root(&tree);
    let names = KINDS.map(|(name, _)| name).join(", ");
    let kind = findings.need(&root, "memory-type", &names)?;
    let sharing = match findings.one_of(&kind, &KINDS)? {
        Kind::None => return Some(None),
        Kind::PerNpu => Some(Sharing::PerNpu),
        Kind::PerNode => nodes(&root, npus, findings),
        Kind::Pool => Some(Sharing::Pool),
    };
    let mut need = |key, least, most, allowed| {
        let at = findings.need(&root, key, allowed)?;
        integer(&at, least, most, findings)
    };
    let latency = need("remote-mem-latency", 0, 1_000_000_000_000, "a whole number from 0, in ns");
    let bandwidth =
        need("remote-mem-bw", 1, 1_000_000_000, "a whole number from 1, in GB/s of 1e9 bytes");
    let (latency, bandwidth, sharing) = (latency? as u64, bandwidth? as u64, sharing?);
    let link = Link {
        sharing,
        latency: Span::from_ns(latency),
        bandwidth: Bandwidth(bandwidth * 1_000_000_000),
        npus_per_node: None,
        capacity: None,
    };
    let memory = RemoteMemory::Link(link);
    Some(Some(Memory { memory, latency, bandwidth }))
}

fn nodes(root: &At<'_>, npus: Option<u32>, findings: &mut Findings) -> Option<Sharing> {
    let mut need = |key| {
        let at = findings.need(root, key, "a whole number from 1")?;
        integer(&at, 1, u32::MAX.into(), findings)
    };
    let (count, each) = (need("num-nodes"), need("num-npus-per-node"));
    let (count, each) = (count?, each?);
    if let Some(npus) = npus
        && count.saturating_mul(each) < i64::from(npus)
    {
        let message =
            format!("{count} nodes of {each} NPUs are fewer than the {npus} NPUs of the network");
        findings.add(
            "num-nodes",
            message,
            "num-nodes times num-npus-per-node at least the number of NPUs",
        );
        return None;
    }
    Some(Sharing::PerNode { npus: u32::try_from(each).ok()? })
}
