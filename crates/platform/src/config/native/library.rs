//! `library`: the parameters of a communication library, read and shown.

use crate::config::findings::{At, Findings};
use crate::config::tree::Value;
use crate::library::{Between, Correction, Inside, Library, Name, Nvls, Short};
use graph::CollectiveKind;
use std::fmt::Write;
use topology::{Fabric, Paths};
use units::{Bandwidth, Bytes, Ratio, Span};

/// Words for `library.name`.
const NAMES: [(&str, Name); 2] = [("nccl", Name::Nccl), ("rccl", Name::Rccl)];
const NODE: [&str; 9] =
    ["efficiency", "fill", "step", "simple_start", "share", "tree", "pair", "pairs", "host"];
const NETWORK: [&str; 12] = [
    "efficiency",
    "step",
    "level",
    "share",
    "tree",
    "tree_of_two",
    "pair",
    "pairs",
    "crossing",
    "pxn",
    "single",
    "short",
];
const SHORT: [&str; 2] = ["most", "pair"];
const NVLS: [&str; 4] = ["efficiency", "latency", "ramp", "least"];
const STEPS: &str = "three times, of LL, LL128 and Simple, such as [0.6 us, 1.9 us, 3.4 us]";
const SHARES: &str = "two parts, of LL and LL128, such as [0.25, 0.92]";

/// The library on a fabric; nothing and at least one problem when it is wrong or means nothing
/// there.
pub(super) fn read(
    at: &At<'_>,
    fabric: &Fabric,
    logical: bool,
    findings: &mut Findings,
) -> Option<Library> {
    findings
        .mapping(at, &["name", "start", "send", "gap", "node", "network", "nvls", "corrections"])?;
    let before = findings.problems.len();
    suits(at, fabric, logical, findings);
    let name = findings.need(at, "name", "nccl, rccl").and_then(|at| findings.one_of(&at, &NAMES));
    let start = findings
        .need(at, "start", "a time, such as \"8 us\"")
        .and_then(|at| findings.quantity(&at));
    let send: Option<Span> = at.get("send").and_then(|at| findings.quantity(&at));
    let gap = at.get("gap").and_then(|at| findings.quantity(&at)).unwrap_or_default();
    let node = findings.need(at, "node", &format!("a mapping with {}", NODE.join(", ")));
    let node = node.and_then(|at| inside(&at, findings));
    let network = at.get("network").and_then(|at| between(&at, findings));
    if network.as_ref().is_some_and(|n| n.pxn.is_some() && n.crossing.is_some()) {
        findings
            .warnings
            .push("without effect beside \"library.network.pxn\": library.network.crossing".into());
    }
    let nvls = given(at, "nvls").and_then(|at| multicast(&at, findings));
    let corrections = at.get("corrections").map_or(Vec::new(), |at| corrections(&at, findings));
    if findings.problems.len() > before {
        return None;
    }
    Some(Library {
        corrections,
        name: name?,
        start: start?,
        send: send.or(start)?,
        gap,
        node: node?,
        network,
        nvls,
    })
}

/// Refuses networks that the model does not describe.
fn suits(at: &At<'_>, fabric: &Fabric, logical: bool, findings: &mut Findings) {
    if logical {
        findings.refuse(
            at,
            "a library runs over the physical dimensions",
            "no \"logical\" beside \"library\"",
        );
    }
    let Fabric::Stacked(dims) = fabric else {
        if fabric.sizes().len() > 1 {
            let allowed = "Switch(n)_Switch(m), or no library";
            findings.refuse(at, "the library does not know generated fabrics", allowed);
        }
        return;
    };
    let relayed = dims.iter().any(|d| d.block.paths() == Paths::Relayed);
    let switched = |d: &topology::Dim| d.block.paths() == Paths::Switched;
    if relayed || dims.len() > 2 || dims.get(1).is_some_and(|d| !switched(d)) {
        let allowed = "Switch(n) or FullyConnected(n) as the node, and Switch(m) as the network if there is one";
        findings.refuse(at, "the library has no rings for this topology", allowed);
    }
    if dims.len() == 2 && at.get("network").is_none() {
        findings.missing(at, "network", &format!("a mapping with {}", NETWORK.join(", ")));
    }
}

/// The value of `key`, or what stands for it.
fn or<T: std::str::FromStr<Err = units::QuantityError>>(
    at: &At<'_>,
    key: &str,
    default: T,
    findings: &mut Findings,
) -> T {
    at.get(key).and_then(|at| findings.quantity(&at)).unwrap_or(default)
}

/// The value of `key`, unless it is nothing.
fn given<'a>(at: &At<'a>, key: &str) -> Option<At<'a>> {
    at.get(key).filter(|at| at.tree.value != Value::Null)
}

/// A required list of exactly `N` quantities.
fn list<T: std::str::FromStr<Err = units::QuantityError> + Copy, const N: usize>(
    at: &At<'_>,
    allowed: &str,
    findings: &mut Findings,
) -> Option<[T; N]> {
    let items = at.items();
    if items.len() != N || !matches!(at.tree.value, Value::List(_)) {
        findings.refuse(at, format!("{} values instead of {N}", items.len()), allowed);
        return None;
    }
    let values: Vec<T> = items.iter().filter_map(|item| findings.quantity(item)).collect();
    values.try_into().ok()
}

fn inside(at: &At<'_>, findings: &mut Findings) -> Option<Inside> {
    findings.mapping(at, &NODE)?;
    let efficiency =
        findings.need(at, "efficiency", "a part of the link bandwidth, such as 0.8")?;
    let step = findings.need(at, "step", STEPS)?;
    let share = findings.need(at, "share", SHARES)?;
    let host: Option<Bandwidth> = at.get("host").and_then(|at| findings.quantity(&at));
    Some(Inside {
        efficiency: findings.quantity(&efficiency)?,
        fill: at.get("fill").and_then(|at| findings.quantity(&at)),
        step: list(&step, STEPS, findings)?,
        simple_start: or(at, "simple_start", Span::ZERO, findings),
        share: list(&share, SHARES, findings)?,
        tree: or(at, "tree", Ratio::ONE, findings),
        pair: or(at, "pair", Span::ZERO, findings),
        pairs: or(at, "pairs", Ratio::ONE, findings),
        host,
    })
}

fn between(at: &At<'_>, findings: &mut Findings) -> Option<Between> {
    findings.mapping(at, &NETWORK)?;
    let efficiency =
        findings.need(at, "efficiency", "a part of the network's bandwidth, such as 0.92")?;
    let step = findings.need(at, "step", STEPS)?;
    let share = findings.need(at, "share", SHARES)?;
    let step = list(&step, STEPS, findings)?;
    let level = match at.get("level") {
        Some(at) => list(&at, STEPS, findings)?,
        None => step,
    };
    Some(Between {
        efficiency: findings.quantity(&efficiency)?,
        step,
        level,
        share: list(&share, SHARES, findings)?,
        tree: or(at, "tree", Ratio::ONE, findings),
        tree_of_two: or(at, "tree_of_two", Ratio::ONE, findings),
        pair: or(at, "pair", Span::ZERO, findings),
        pairs: or(at, "pairs", Ratio::ONE, findings),
        crossing: given(at, "crossing").and_then(|at| findings.quantity(&at)),
        pxn: given(at, "pxn").and_then(|at| findings.whole(&at, 1, u32::MAX)),
        single: given(at, "single").and_then(|at| findings.quantity(&at)),
        short: given(at, "short").and_then(|at| short(&at, findings)),
    })
}

fn short(at: &At<'_>, findings: &mut Findings) -> Option<Short> {
    findings.mapping(at, &SHORT)?;
    let most = findings.need(at, "most", "a message size, such as \"192 B\"")?;
    let pair = findings.need(at, "pair", "a time, such as \"12 us\"")?;
    Some(Short { most: findings.quantity(&most)?, pair: findings.quantity(&pair)? })
}

/// Measured factors; each names a collective and a number of members of its own.
fn corrections(at: &At<'_>, findings: &mut Findings) -> Vec<Correction> {
    let mut all: Vec<Correction> = Vec::new();
    for at in at.items() {
        let Some(found) = correction(&at, findings) else { continue };
        if all
            .iter()
            .any(|c| (c.kind, c.inside, c.between) == (found.kind, found.inside, found.between))
        {
            findings.refuse(
                &at,
                "the collective is corrected twice on these members",
                "one list of sizes and factors",
            );
        }
        all.push(found);
    }
    all
}

fn correction(at: &At<'_>, findings: &mut Findings) -> Option<Correction> {
    findings.mapping(at, &["collective", "inside", "between", "sizes", "factors"])?;
    let kinds = CollectiveKind::ALL.map(|kind| (kind.name(), kind));
    let kind = findings.need(at, "collective", "a collective, such as all_reduce")?;
    let inside = findings.need(at, "inside", "members in a node")?;
    let between = findings.need(at, "between", "nodes")?;
    let sizes = findings.need(at, "sizes", "sizes, ascending, such as [8 B, 1 MiB]")?;
    let factors = findings.need(at, "factors", "as many factors as sizes, such as [1.1, 0.97]")?;
    let bytes: Vec<Bytes> =
        sizes.items().iter().filter_map(|item| findings.quantity(item)).collect();
    let parts: Vec<Ratio> =
        factors.items().iter().filter_map(|item| findings.quantity(item)).collect();
    if bytes.is_empty() || bytes.len() != parts.len() {
        findings.refuse(
            &factors,
            format!("{} factors for {} sizes", parts.len(), bytes.len()),
            "a factor a size",
        );
        return None;
    }
    if bytes.windows(2).any(|pair| pair[0] >= pair[1]) || parts.iter().any(|part| part.0 == 0) {
        findings.refuse(
            at,
            "sizes don't ascend, or a factor is 0",
            "each size once, ascending; factors above 0",
        );
        return None;
    }
    let points = bytes.into_iter().zip(parts).collect();
    let (inside, between) =
        (findings.whole(&inside, 1, u32::MAX)?, findings.whole(&between, 1, u32::MAX)?);
    Some(Correction { kind: findings.one_of(&kind, &kinds)?, inside, between, points })
}

fn multicast(at: &At<'_>, findings: &mut Findings) -> Option<Nvls> {
    findings.mapping(at, &NVLS)?;
    let efficiency =
        findings.need(at, "efficiency", "a part of the link bandwidth, such as 0.67")?;
    let latency = findings.need(at, "latency", "a time, such as \"60 us\"")?;
    Some(Nvls {
        efficiency: findings.quantity(&efficiency)?,
        latency: findings.quantity(&latency)?,
        ramp: or(at, "ramp", Span::ZERO, findings),
        least: at.get("least").and_then(|at| findings.whole(&at, 2, u32::MAX)).unwrap_or(2),
    })
}

fn texts<T: std::fmt::Display>(values: &[T]) -> String {
    let shown: Vec<String> = values.iter().map(T::to_string).collect();
    format!("[{}]", shown.join(", "))
}

/// As a part of a platform file.
pub(super) fn show(library: &Library, out: &mut String) {
    let name = NAMES.into_iter().find(|n| n.1 == library.name).map_or("", |n| n.0);
    let node = &library.node;
    let Library { start, send, gap, .. } = library;
    let _ = writeln!(
        out,
        "library:\n  name: {name}\n  start: {start}\n  send: {send}\n  gap: {gap}\n  node:"
    );
    let _ = writeln!(out, "    efficiency: {}", node.efficiency);
    if let Some(fill) = node.fill {
        let _ = writeln!(out, "    fill: {fill}");
    }
    let _ =
        writeln!(out, "    step: {}\n    simple_start: {}", texts(&node.step), node.simple_start);
    let _ = writeln!(out, "    share: {}\n    tree: {}", texts(&node.share), node.tree);
    let _ = writeln!(out, "    pair: {}\n    pairs: {}", node.pair, node.pairs);
    if let Some(host) = node.host {
        let _ = writeln!(out, "    host: {host}");
    }
    if let Some(n) = &library.network {
        let _ = writeln!(
            out,
            "  network:\n    efficiency: {}\n    step: {}",
            n.efficiency,
            texts(&n.step)
        );
        let _ = writeln!(
            out,
            "    level: {}\n    share: {}\n    tree: {}",
            texts(&n.level),
            texts(&n.share),
            n.tree
        );
        let _ = writeln!(
            out,
            "    tree_of_two: {}\n    pair: {}\n    pairs: {}",
            n.tree_of_two, n.pair, n.pairs
        );
        if let Some(crossing) = n.crossing {
            let _ = writeln!(out, "    crossing: {crossing}");
        }
        if let Some(together) = n.pxn {
            let _ = writeln!(out, "    pxn: {together}");
        }
        if let Some(most) = n.single {
            let _ = writeln!(out, "    single: {most}");
        }
        if let Some(short) = &n.short {
            let _ = writeln!(out, "    short: {{most: {}, pair: {}}}", short.most, short.pair);
        }
    }
    if let Some(n) = &library.nvls {
        let _ = writeln!(
            out,
            "  nvls: {{efficiency: {}, latency: {}, ramp: {}, least: {}}}",
            n.efficiency, n.latency, n.ramp, n.least
        );
    }
    if !library.corrections.is_empty() {
        out.push_str("  corrections:\n");
    }
    for c in &library.corrections {
        let (sizes, factors): (Vec<_>, Vec<_>) = c.points.iter().copied().unzip();
        let of =
            format!("collective: {}, inside: {}, between: {}", c.kind.name(), c.inside, c.between);
        let _ =
            writeln!(out, "    - {{{of}, sizes: {}, factors: {}}}", texts(&sizes), texts(&factors));
    }
}

/// For the report: integers with their unit in the key, parts in millionths.
pub(super) fn json(library: &Library) -> serde_json::Value {
    let ps = |spans: &[Span]| spans.iter().map(|s| s.0).collect::<Vec<_>>();
    let parts = |ratios: &[Ratio]| ratios.iter().map(|r| r.0).collect::<Vec<_>>();
    let node = &library.node;
    serde_json::json!({
        "name": NAMES.into_iter().find(|n| n.1 == library.name).map(|n| n.0),
        "start_ps": library.start.0,
        "send_ps": library.send.0,
        "gap_ps": library.gap.0,
        "node": {
            "efficiency_ppm": node.efficiency.0,
            "fill_ppm": node.fill.map(|f| f.0),
            "step_ps": ps(&node.step),
            "simple_start_ps": node.simple_start.0,
            "share_ppm": parts(&node.share),
            "tree_ppm": node.tree.0,
            "pair_ps": node.pair.0,
            "pairs_ppm": node.pairs.0,
            "host_bandwidth": node.host.map(|b| b.0),
        },
        "network": library.network.as_ref().map(|n| serde_json::json!({
            "efficiency_ppm": n.efficiency.0,
            "step_ps": ps(&n.step),
            "level_ps": ps(&n.level),
            "share_ppm": parts(&n.share),
            "tree_ppm": n.tree.0,
            "tree_of_two_ppm": n.tree_of_two.0,
            "pair_ps": n.pair.0,
            "pairs_ppm": n.pairs.0,
            "crossing_ppm": n.crossing.map(|c| c.0),
            "pxn": n.pxn,
            "single_bandwidth": n.single.map(|b| b.0),
            "short": n.short.as_ref().map(|s| serde_json::json!({"most_bytes": s.most.0, "pair_ps": s.pair.0})),
        })),
        "nvls": library.nvls.as_ref().map(|n| serde_json::json!({
            "efficiency_ppm": n.efficiency.0,
            "latency_ps": n.latency.0,
            "ramp_ps": n.ramp.0,
            "least": n.least,
        })),
        "corrections": library.corrections.iter().map(|c| serde_json::json!({
            "collective": c.kind.name(),
            "inside": c.inside,
            "between": c.between,
            "sizes_bytes": c.points.iter().map(|p| p.0.0).collect::<Vec<_>>(),
            "factors_ppm": c.points.iter().map(|p| p.1.0).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}
