//! `network.yml`: `topology`, `npus_count`, `bandwidth` (GB/s of 2^30 bytes), `latency` (ns), four
//! lists of one length.

use super::syntax::{Syntax, mapping, number, span};
use crate::config::file::Load;
use declared::findings::{At, Findings};
use declared::tree::Value;
use topology::{Block, Dim, Fabric};
use units::Bandwidth;

const KEYS: [&str; 4] = ["topology", "npus_count", "bandwidth", "latency"];
/// Blocks that the format knows.
const BLOCKS: [Block; 3] = [Block::Ring, Block::FullyConnected, Block::Switch];
/// Bytes in the peer's network GB.
const GB: f64 = (1u64 << 30) as f64;

pub(super) struct Network {
    pub name: String,
    pub fabric: Fabric,
    pub bandwidth: Vec<f64>,
    pub latency: Vec<f64>,
}

pub(super) fn read(path: &str, load: &Load<'_>, all: &mut Findings) -> Option<Network> {
    let mut findings = Findings::new(path);
    let network = parse(path, load, &mut findings);
    all.merge(findings);
    network
}

fn parse(path: &str, load: &Load<'_>, findings: &mut Findings) -> Option<Network> {
    let tree = mapping("network file", Syntax::Yaml, &KEYS, load, findings)?;
    let root = At::root(&tree);
    let lists = KEYS.map(|key| list(&root, key, findings));
    let [Some(blocks), Some(sizes), Some(bandwidths), Some(latencies)] = lists else { return None };
    if KEYS
        .iter()
        .zip([&sizes, &bandwidths, &latencies])
        .any(|(_, list)| list.len() != blocks.len())
    {
        let lengths = [&blocks, &sizes, &bandwidths, &latencies].map(Vec::len);
        let shown: Vec<String> =
            KEYS.iter().zip(lengths).map(|(key, n)| format!("{key} {n}")).collect();
        findings.refuse(
            &root,
            format!("lists of unequal length: {}", shown.join(", ")),
            "four lists with one entry for each dimension",
        );
        return None;
    }
    let before = findings.problems.len();
    let blocks: Vec<_> = blocks
        .iter()
        .filter_map(|at| findings.one_of(at, &BLOCKS.map(|b| (b.name(), b))))
        .collect();
    let sizes: Vec<_> = sizes.iter().filter_map(|at| size(at, findings)).collect();
    let bandwidth: Vec<_> = bandwidths.iter().filter_map(|at| rate(at, findings)).collect();
    let latency: Vec<_> = latencies.iter().filter_map(|at| delay(at, findings)).collect();
    if sizes.iter().try_fold(1u32, |npus, &size| npus.checked_mul(size)).is_none() {
        findings.add(
            "npus_count",
            "more than 4,294,967,295 NPUs",
            "sizes with a product below 2^32",
        );
    }
    if findings.problems.len() > before {
        return None;
    }
    let dim = |i: usize| Dim {
        block: blocks[i],
        size: sizes[i],
        bandwidth: Bandwidth((bandwidth[i] * GB).round() as u64),
        latency: span(latency[i]),
        parallel: 1,
    };
    let fabric = Fabric::Stacked((0..blocks.len()).map(dim).collect());
    let name = std::path::Path::new(path)
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    Some(Network { name, fabric, bandwidth, latency })
}

fn list<'a>(root: &At<'a>, key: &str, findings: &mut Findings) -> Option<Vec<At<'a>>> {
    let at = findings.need(root, key, "a list with one entry for each dimension")?;
    match &at.tree.value {
        Value::List(items) if !items.is_empty() && items.len() <= 32 => Some(at.items()),
        _ => {
            findings.refuse(
                &at,
                format!("{} is not allowed", at.tree.show()),
                "a list with one entry for each dimension, 1 to 32 of them",
            );
            None
        }
    }
}

fn size(at: &At<'_>, findings: &mut Findings) -> Option<u32> {
    findings.whole(at, 2, u32::MAX)
}

fn rate(at: &At<'_>, findings: &mut Findings) -> Option<f64> {
    number(
        at,
        |x| x * GB >= 1.0 && x <= 1e9,
        "a number above 0, at most 1e9, in GB/s of 2^30 bytes",
        findings,
    )
}

fn delay(at: &At<'_>, findings: &mut Findings) -> Option<f64> {
    number(at, |x| (0.0..=1e12).contains(&x), "a number from 0 to 1e12, in ns", findings)
}
