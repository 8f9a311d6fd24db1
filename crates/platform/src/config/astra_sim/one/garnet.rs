//! Network files of the Garnet backend: packages with local rings, in a torus or around switches.
//!
//! Widths are bits a cycle, latencies cycles. A hop takes the link and a router. A torus has the
//! dimensions local, vertical, horizontal; `package-rows` is the size of the vertical one. Rings
//! within a package run one way, those between packages both ways.

use super::dim::{Dim, RING, SWITCH};
use super::flits;
use super::keys::{mapping, without_effect};
use crate::config::astra_sim::syntax::number;
use crate::config::file::Load;
use declared::findings::{At, Findings};
use units::{Bandwidth, Ratio, Span};

const KEYS: [&str; 21] = [
    "num-npus",
    "num-packages",
    "package-rows",
    "topology",
    "local-rings",
    "vertical-rings",
    "horizontal-rings",
    "links-per-tile",
    "global-switches",
    "flit-width",
    "local-packet-size",
    "package-packet-size",
    "tile-link-width",
    "package-link-width",
    "vcs-per-vnet",
    "routing-algorithm",
    "router-latency",
    "local-link-latency",
    "package-link-latency",
    "buffers-per-vc",
    "local-link-efficiency",
];
const LAST: &str = "package-link-efficiency";
/// Switches, as files and as Table III call them.
const LINKS: [&str; 2] = ["links-per-tile", "global-switches"];
/// B/s of one bit in a cycle of 1 ns.
const BIT: u64 = 125_000_000;
const MOST: u32 = 1 << 24;
/// Most rings or switches: rings of both ways are twice the links.
const MOST_RINGS: u32 = 1 << 15;

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Torus,
    Switches,
}

/// Words of the files, and of Table III.
const SHAPES: [(&str, Shape); 4] = [
    ("Torus3D", Shape::Torus),
    ("NV_Switch", Shape::Switches),
    ("Torus2D", Shape::Torus),
    ("AllToAll", Shape::Switches),
];

/// The dimensions, those of one NPU among them, and the keys of `network.flit`.
pub(super) fn read(load: &Load<'_>, findings: &mut Findings) -> Option<(Vec<Dim>, Vec<String>)> {
    let known: Vec<&str> = KEYS.iter().copied().chain([LAST]).collect();
    let tree = mapping("network file", &known, load, findings)?;
    let root = At::root(&tree);
    let dims = dims(&root, findings);
    // The first dimension is within packages.
    let of_dim = (0..).zip(dims.iter().flatten()).filter(|(_, dim)| dim.size > 1);
    let local: Vec<bool> = of_dim.map(|(at, _)| at == 0).collect();
    let flits = flits::read(&root, &local, findings);
    Some((dims?, flits))
}

/// The dimensions.
fn dims(root: &At<'_>, findings: &mut Findings) -> Option<Vec<Dim>> {
    let at = findings.need(root, "topology", "Torus3D, NV_Switch");
    let shape = at.and_then(|at| findings.one_of(&at, &SHAPES));
    let npus = count(root, "num-npus", None, findings);
    let packages = count(root, "num-packages", None, findings);
    let local = divided(root, ("num-npus", npus), ("num-packages", packages), findings);
    let router = cycles(root, "router-latency", Some(0), findings);
    let wire = |place: &str, width: &str, findings: &mut Findings| {
        let bits = count(root, width, None, findings);
        let cycles = cycles(root, &format!("{place}-link-latency"), None, findings);
        let efficiency = part(root, &format!("{place}-link-efficiency"), findings);
        Some((Bandwidth(u64::from(bits?) * BIT), cycles? + router?, efficiency?))
    };
    let (near, far) = (
        wire("local", "tile-link-width", findings),
        wire("package", "package-link-width", findings),
    );
    let rings = |place: &str, size: Option<u32>, findings: &mut Findings| {
        let missing = (size == Some(1)).then_some(1);
        count(root, &format!("{place}-rings"), missing, findings)
    };
    let one_way = rings("local", local, findings);
    let dim = |block, size, (bandwidth, cycles, efficiency), links, queues| Dim {
        block,
        size,
        bandwidth,
        latency: Span(cycles * 1_000),
        links: Some(links),
        efficiency,
        queues,
    };
    let outer = match shape? {
        Shape::Torus => {
            let rows = count(root, "package-rows", None, findings);
            let columns =
                divided(root, ("num-packages", packages), ("package-rows", rows), findings);
            let vertical = rings("vertical", rows, findings);
            let horizontal = rings("horizontal", columns, findings);
            without_effect(root, &LINKS, "a torus has no switches", findings);
            let both = |size, rings: u32| {
                Some(dim(RING, size, far?, rings.saturating_mul(2), rings.saturating_mul(2)))
            };
            vec![both(rows?, vertical?)?, both(columns?, horizontal?)?]
        }
        Shape::Switches => {
            let key = LINKS.into_iter().find(|k| root.get(k).is_some());
            let links = count(root, key.unwrap_or("links-per-tile"), None, findings);
            let idle = ["vertical-rings", "horizontal-rings"];
            without_effect(root, &idle, "packages around switches have no rings", findings);
            vec![dim(SWITCH, packages?, far?, links?, links?)]
        }
    };
    let inner = dim(RING, local?, near?, one_way?, one_way?);
    Some(std::iter::once(inner).chain(outer).collect())
}

/// A whole number from 1, or `missing` where the key is left out; without that it is a problem.
fn count(root: &At<'_>, key: &str, missing: Option<u32>, findings: &mut Findings) -> Option<u32> {
    let is_links = key.ends_with("-rings") || LINKS.contains(&key);
    match (root.get(key), missing) {
        (None, Some(missing)) => Some(missing),
        (Some(at), _) => findings.whole(&at, 1, if is_links { MOST_RINGS } else { MOST }),
        (None, None) => {
            findings.missing(root, key, "a whole number from 1");
            None
        }
    }
}

/// A number of cycles.
fn cycles(root: &At<'_>, key: &str, missing: Option<u64>, findings: &mut Findings) -> Option<u64> {
    match (root.get(key), missing) {
        (None, Some(missing)) => Some(missing),
        (Some(at), _) => findings.whole(&at, 0, u32::MAX).map(u64::from),
        (None, None) => {
            findings.missing(root, key, "a whole number of cycles from 0");
            None
        }
    }
}

/// The part of a link that data can use, the whole where the key is left out.
fn part(root: &At<'_>, key: &str, findings: &mut Findings) -> Option<Ratio> {
    let Some(at) = root.get(key) else { return Some(Ratio::ONE) };
    let inside = |x: f64| (0.000_001..=1.0).contains(&x);
    let part = number(&at, inside, "a number above 0, at most 1", findings)?;
    Some(Ratio((part * Ratio::ONE.0 as f64).round() as u64))
}

/// One number over another, which must divide it.
fn divided(
    root: &At<'_>,
    (name, number): (&str, Option<u32>),
    (key, by): (&str, Option<u32>),
    findings: &mut Findings,
) -> Option<u32> {
    let (number, by) = (number?, by?);
    if !number.is_multiple_of(by) {
        let at = root.get(key).unwrap_or_else(|| root.clone());
        findings.refuse(
            &at,
            format!("{by} does not divide {name}, {number}"),
            format!("a divisor of {number}"),
        );
        return None;
    }
    Some(number / by)
}
