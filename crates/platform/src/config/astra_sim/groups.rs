//! Communicator groups, `{"1": [0, 1], ...}` in ring order, and the logical topology,
//! `{"logical-dims": ["8", "4"]}`.

use super::syntax::{Syntax, mapping};
use crate::config::file::Load;
use declared::findings::{At, Findings};
use declared::tree::Value;

/// Groups by ascending id; none when there is no file or its path contains `empty`, which is how
/// the peer says none.
pub(super) fn read(
    path: Option<&str>,
    npus: Option<u32>,
    load: &Load<'_>,
    all: &mut Findings,
) -> Option<Vec<(String, Vec<u32>)>> {
    let Some(path) = path.filter(|p| !p.contains("empty")) else { return Some(Vec::new()) };
    let mut findings = Findings::new(path);
    let groups = parse(npus, load, &mut findings);
    let fine = findings.problems.is_empty();
    all.merge(findings);
    groups.filter(|_| fine)
}

fn parse(
    npus: Option<u32>,
    load: &Load<'_>,
    findings: &mut Findings,
) -> Option<Vec<(String, Vec<u32>)>> {
    let tree = mapping("communicator group file", Syntax::Json, &[], load, findings)?;
    let mut groups = Vec::new();
    for (key, at) in At::root(&tree).entries() {
        let id = key.name.parse::<u32>().ok().filter(|&id| id > 0 && id <= i32::MAX as u32);
        if id.is_none() {
            findings.refuse(
                &at,
                format!("the group id \"{}\" is not allowed", key.name),
                "a whole number from 1 to 2147483647",
            );
        }
        let ranks = ranks(&at, npus, findings);
        if let (Some(id), Some(ranks)) = (id, ranks) {
            groups.push((id, key.name.clone(), ranks));
        }
    }
    groups.sort_by_key(|group| group.0);
    Some(groups.into_iter().map(|(_, name, ranks)| (name, ranks)).collect())
}

fn ranks(at: &At<'_>, npus: Option<u32>, findings: &mut Findings) -> Option<Vec<u32>> {
    if !matches!(&at.tree.value, Value::List(items) if !items.is_empty()) {
        findings.refuse(
            at,
            format!("{} is not allowed", at.tree.show()),
            "a list of one or more ranks",
        );
        return None;
    }
    let before = findings.problems.len();
    let most = npus.map_or(u32::MAX, |n| n - 1);
    let ranks: Vec<u32> =
        at.items().iter().filter_map(|item| findings.whole(item, 0, most)).collect();
    let mut sorted: Vec<(u32, usize)> = ranks.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|w| w[0].0 == w[1].0) {
        findings.refuse(at, format!("rank {} is in the group twice", pair[0].0), "each rank once");
    }
    (findings.problems.len() == before).then_some(ranks)
}

/// The logical sizes; the outer option is whether the file could be read.
pub(super) fn logical(
    path: Option<&str>,
    npus: Option<u32>,
    load: &Load<'_>,
    all: &mut Findings,
) -> Option<Option<Vec<u32>>> {
    let Some(path) = path else { return Some(None) };
    let mut findings = Findings::new(path);
    let sizes = parse_logical(npus, load, &mut findings);
    all.merge(findings);
    sizes.map(Some)
}

fn parse_logical(npus: Option<u32>, load: &Load<'_>, findings: &mut Findings) -> Option<Vec<u32>> {
    let tree = mapping("logical topology file", Syntax::Json, &["logical-dims"], load, findings)?;
    let allowed = "a list of sizes as texts, such as [\"8\", \"4\"]";
    let at = findings.need(&At::root(&tree), "logical-dims", allowed)?;
    if !matches!(&at.tree.value, Value::List(items) if (1..=32).contains(&items.len())) {
        findings.refuse(&at, format!("{} is not allowed", at.tree.show()), allowed);
        return None;
    }
    let items = at.items();
    let sizes: Vec<u32> = items.iter().filter_map(|item| logical_size(item, findings)).collect();
    if sizes.len() < items.len() {
        return None;
    }
    let product = sizes.iter().try_fold(1u32, |a, &b| a.checked_mul(b));
    if npus.is_some() && product != npus {
        let shown = product.map_or("more than 4,294,967,295".to_string(), |p| p.to_string());
        let message = format!(
            "the logical dimensions hold {shown} NPUs, the network {}",
            npus.unwrap_or_default()
        );
        findings.refuse(&at, message, "sizes whose product is the number of NPUs");
        return None;
    }
    Some(sizes)
}

fn logical_size(at: &At<'_>, findings: &mut Findings) -> Option<u32> {
    let size = match &at.tree.value {
        Value::Text(text) => text.parse().ok(),
        Value::Int(i) => u32::try_from(*i).ok(),
        _ => None,
    };
    let size = size.filter(|&size| size > 0);
    if size.is_none() {
        findings.refuse(at, format!("{} is not allowed", at.tree.show()), "a whole number from 1");
    }
    size
}
