//! `collectives`: algorithms by kind, the hierarchy of all-reduce, algorithms from files.

use crate::platform::{Algorithm, Choice, Collectives, CustomPaths, Hierarchy, Rings};
use collective::{Phase, PlanError, PlanRequest};
use declared::findings::{At, Findings, did_you_mean};
use declared::tree::Value;
use declared::{Absent, Key, Setting, Shown, section};
use graph::CollectiveKind;
use std::path::Path;
use std::sync::LazyLock;
use topology::{Block, Paths};

/// The words of algorithms without a parameter. `direct(W)` is [`window`].
const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("ring", Algorithm::Ring),
    ("bidirectional_ring", Algorithm::BidirectionalRing),
    ("direct", Algorithm::Direct { window: None }),
    ("halving_doubling", Algorithm::HalvingDoubling),
    ("double_binary_tree", Algorithm::DoubleBinaryTree),
    ("in_network", Algorithm::InNetwork),
];
/// The word that leaves the choice to Armillary.
const AUTO: &str = "auto";

pub(super) const HIERARCHY: Key = Key::plain(
    "hierarchy",
    Hierarchy::kind,
    Absent::Text("`enhanced`"),
    "How an all-reduce goes over several dimensions ([hierarchies](../models/hierarchies.md)).",
);

const RINGS: Key = Key::plain(
    "rings",
    Rings::kind,
    Absent::Text("`both_ways`"),
    "How the rings run that `auto` chooses: `both_ways` at once, or `one_way`.",
);

/// `hierarchy`, `rings`, and each kind of collective.
static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let key = |kind: CollectiveKind| Key {
        inner: Entry::keys,
        short: Entry::SHORT,
        ..Key::plain(
            kind.name(),
            Entry::kind,
            Absent::Text("`auto`"),
            "Algorithm of each dimension: one for all, or a list.",
        )
    };
    [HIERARCHY, RINGS].into_iter().chain(CollectiveKind::ALL.map(key)).collect()
});

section! {
    /// Algorithm that runs a kind of collectives.
    #[derive(Clone, Debug)]
    pub(super) struct Entry short algorithm {
        /// `ring`, `bidirectional_ring`, `direct`, `direct(W)` with W messages in flight,
        /// `halving_doubling`, `double_binary_tree`, `in_network`, `auto`.
        pub algorithm: Option<PerDim>, default None, says "required with `flat`";
        /// One group over all NPUs in the order of ranks, instead of dimension by dimension.
        pub flat: bool, default false;
        /// A file with an algorithm ([custom](../models/collectives.md#from-a-file)).
        pub custom: Option<String>, default None;
    }
}

/// Algorithms by dimension.
#[derive(Clone, Debug)]
pub(super) enum PerDim {
    /// Chosen by block.
    Auto,
    /// One for all dimensions.
    One(Algorithm),
    /// One for each dimension.
    Each(Vec<Algorithm>),
}

impl Setting for PerDim {
    fn kind() -> String {
        "word, or list of words".into()
    }

    fn example() -> String {
        let words = ALGORITHMS.map(|(word, algorithm)| match algorithm {
            Algorithm::Direct { .. } => format!("{word}, {word}(W) with W messages in flight"),
            _ => word.to_string(),
        });
        words.join(", ")
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<PerDim> {
        match &at.tree.value {
            Value::Text(text) if text == AUTO => Some(PerDim::Auto),
            Value::List(_) => {
                let items = at.items();
                let read: Vec<Option<Algorithm>> =
                    items.iter().map(|item| algorithm(item, findings)).collect();
                Some(PerDim::Each(read.into_iter().collect::<Option<_>>()?))
            }
            _ => algorithm(at, findings).map(PerDim::One),
        }
    }

    fn show(&self) -> Option<Shown> {
        Some(match self {
            PerDim::Auto => Shown::of(AUTO),
            PerDim::One(algorithm) => Shown::of(word(*algorithm)),
            PerDim::Each(list) => {
                Shown::List(list.iter().map(|each| Shown::of(word(*each))).collect())
            }
        })
    }

    fn json(&self) -> serde_json::Value {
        match self {
            PerDim::Auto => AUTO.into(),
            PerDim::One(algorithm) => word(*algorithm).into(),
            PerDim::Each(list) => list.iter().map(|each| word(*each)).collect(),
        }
    }
}

fn algorithm(at: &At<'_>, findings: &mut Findings) -> Option<Algorithm> {
    let text = findings.text(at)?;
    let plain = ALGORITHMS.into_iter().find(|(word, _)| *word == text).map(|found| found.1);
    let found = plain.or_else(|| window(text).map(|w| Algorithm::Direct { window: Some(w) }));
    if found.is_none() {
        let hint = did_you_mean(text, ALGORITHMS.map(|found| found.0).into_iter().chain([AUTO]));
        let is_file = text.contains(['.', '/']);
        let allowed = if is_file { format!("{{custom: {text}}}") } else { PerDim::example() };
        findings.refuse(at, format!("unknown algorithm \"{text}\"{hint}"), allowed);
    }
    found
}

/// The number in `direct(4)`.
fn window(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("direct(")?.strip_suffix(')')?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|&w: &u32| w > 0 && plain)
}

/// The word for an algorithm.
fn word(algorithm: Algorithm) -> String {
    let (plain, suffix) = match algorithm {
        Algorithm::Direct { window: Some(w) } => {
            (Algorithm::Direct { window: None }, format!("({w})"))
        }
        plain => (plain, String::new()),
    };
    let found = ALGORITHMS.into_iter().find(|(_, other)| *other == plain);
    found.map_or("", |found| found.0).to_string() + &suffix
}

/// `collectives`, as a file gives it.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    hierarchy: Option<Hierarchy>,
    rings: Option<Rings>,
    /// By `CollectiveKind as usize`.
    entries: [Option<Entry>; CollectiveKind::ALL.len()],
}

impl Setting for Given {
    fn keys() -> &'static [Key] {
        &KEYS
    }

    fn kind() -> String {
        "mapping".into()
    }

    fn example() -> String {
        "a mapping with kinds of collectives".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Given> {
        findings.declared(at, &KEYS)?;
        let before = findings.problems.len();
        let mut given = Given::default();
        if let Some(at) = at.get(HIERARCHY.name) {
            given.hierarchy = Hierarchy::read(&at, findings);
        }
        if let Some(at) = at.get(RINGS.name) {
            given.rings = Rings::read(&at, findings);
        }
        for kind in CollectiveKind::ALL {
            if let Some(at) = at.get(kind.name()) {
                given.entries[kind as usize] = Entry::read(&at, findings);
            }
        }
        (findings.problems.len() == before).then_some(given)
    }

    fn show(&self) -> Option<Shown> {
        let hierarchy = self.hierarchy.and_then(|found| Some((HIERARCHY.name, found.show()?)));
        let entries = CollectiveKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind.name(), self.entries[kind as usize].as_ref()?.show()?)));
        let rings = self.rings.and_then(|found| Some((RINGS.name, found.show()?)));
        Some(Shown::Map(hierarchy.into_iter().chain(rings).chain(entries).collect()))
    }

    fn json(&self) -> serde_json::Value {
        let mut out = serde_json::Map::new();
        let hierarchy = self.hierarchy.unwrap_or(Hierarchy::Enhanced);
        out.insert(HIERARCHY.name.into(), hierarchy.json());
        out.insert(RINGS.name.into(), self.rings.unwrap_or_default().json());
        for kind in CollectiveKind::ALL {
            out.insert(kind.name().into(), self.entries[kind as usize].json());
        }
        out.into()
    }
}

/// The settings; a fault is noted and the default is used. `blocks` are those of the dimensions
/// that collectives run over, where each dimension is one block.
pub(super) fn resolve(
    given: &Given,
    at: Option<&At<'_>>,
    sizes: &[u32],
    blocks: &[Block],
    findings: &mut Findings,
) -> (Collectives, CustomPaths) {
    let mut paths = CustomPaths::default();
    let mut collectives = Collectives {
        choices: std::array::from_fn(|_| None),
        hierarchy: given.hierarchy.unwrap_or(Hierarchy::Enhanced),
        rings: given.rings.unwrap_or_default(),
        custom: std::array::from_fn(|_| None),
        custom_nodes: Default::default(),
    };
    for kind in CollectiveKind::ALL {
        let place = at.and_then(|at| at.get(kind.name()));
        let (Some(entry), Some(at)) = (&given.entries[kind as usize], place) else { continue };
        let choice = choice(entry, &at, sizes.len(), findings);
        if let Some(choice) = &choice {
            suits(kind, choice, &at, sizes, collectives.hierarchy, findings);
            switched(choice, &at, blocks, findings);
        }
        collectives.choices[kind as usize] = choice;
        let path = entry.custom.as_ref();
        paths.kinds[kind as usize] = path.map(|path| custom(path, &at, findings));
    }
    (collectives, paths)
}

/// The places of the algorithms of an entry.
fn places<'a>(at: &At<'a>) -> Vec<At<'a>> {
    at.get(Entry::algorithm).unwrap_or_else(|| at.clone()).items()
}

/// Refuses an algorithm that cannot run a phase of the collective on its dimension.
fn suits(
    kind: CollectiveKind,
    choice: &Choice,
    at: &At<'_>,
    sizes: &[u32],
    hierarchy: Hierarchy,
    findings: &mut Findings,
) {
    let dims: Vec<(u32, u32)> = (0..).zip(sizes.iter().copied()).collect();
    let phases = if choice.flat {
        vec![Phase::flat(kind, 0)]
    } else {
        collective::phases(kind, 0, &dims, hierarchy)
    };
    let list = places(at);
    for phase in phases {
        let dim = phase.dim.unwrap_or(0) as usize;
        let n = if choice.flat { sizes.iter().product() } else { sizes[dim] };
        let algorithm = choice.per_dim[dim];
        let request = PlanRequest { kind: phase.kind, algorithm, n, bytes: 0, root: 0, chunk: 0 };
        if let Err(error @ (PlanError::NotPowerOfTwo { .. } | PlanError::Unsupported { .. })) =
            request.check()
        {
            let place =
                if choice.flat { String::new() } else { format!(", dimension {}", dim + 1) };
            let at = list.get(dim).unwrap_or(&list[0]);
            findings.refuse(at, format!("{}{place}", error.message()), error.allowed());
            return;
        }
    }
}

/// Refuses in-network reduction where there is no switch to do it.
fn switched(choice: &Choice, at: &At<'_>, blocks: &[Block], findings: &mut Findings) {
    let list = places(at);
    for (dim, _) in choice.per_dim.iter().enumerate().filter(|(_, a)| **a == Algorithm::InNetwork) {
        let block = blocks.get(dim).filter(|_| !choice.flat || blocks.len() == 1);
        if block.map(|block| block.paths()) != Some(Paths::Switched) {
            let what = block.map_or("no single switch".to_string(), |block| format!("a {block:?}"));
            let message = format!("in_network on dimension {}, which is {what}", dim + 1);
            let at = list.get(dim).unwrap_or(&list[0]);
            findings.refuse(at, message, "a Switch dimension, or another algorithm");
        }
    }
}

/// The path of an algorithm's file; one in a file that this one extends is seen from there.
fn custom(path: &str, at: &At<'_>, findings: &Findings) -> String {
    let origin = at.get(Entry::custom).map_or(at.tree.origin, |at| at.tree.origin);
    let file = findings.file_of(origin);
    let folder = Path::new(file).parent().filter(|_| file != findings.file);
    folder.map_or(path.into(), |folder| folder.join(path).to_string_lossy().into_owned())
}

/// The algorithm of each of `dims` dimensions; nothing where it is chosen by block.
fn choice(entry: &Entry, at: &At<'_>, dims: usize, findings: &mut Findings) -> Option<Choice> {
    let flat = entry.flat;
    let wanted = if flat { 1 } else { dims };
    let place = at.get(Entry::algorithm).unwrap_or_else(|| at.clone());
    let mut per_dim = match &entry.algorithm {
        None if flat || entry.custom.is_none() => {
            findings.missing(at, Entry::algorithm, &PerDim::example());
            return None;
        }
        None => return None,
        Some(PerDim::Auto) => {
            if flat {
                findings.refuse(&place, "a flat group needs an algorithm", PerDim::example());
            }
            return None;
        }
        Some(PerDim::One(algorithm)) => vec![*algorithm],
        Some(PerDim::Each(list)) if list.len() == wanted => list.clone(),
        Some(PerDim::Each(list)) => {
            let (message, allowed) = match flat {
                true => (
                    format!("{} algorithms for one flat group", list.len()),
                    "one algorithm".to_string(),
                ),
                false => (
                    format!("{} algorithms for {dims} dimensions", list.len()),
                    format!("one algorithm for all, or a list of {dims}"),
                ),
            };
            findings.refuse(&place, message, allowed);
            return None;
        }
    };
    per_dim.resize(wanted, per_dim[0]);
    Some(Choice { per_dim, flat })
}

/// The keys that read back to the settings.
pub(super) fn keys(collectives: &Collectives, paths: &CustomPaths) -> Given {
    let entry = |kind: CollectiveKind| {
        let choice = collectives.choices[kind as usize].as_ref();
        let custom = paths.kinds[kind as usize].clone();
        (choice.is_some() || custom.is_some()).then(|| Entry {
            algorithm: choice.map(|choice| PerDim::Each(shown(choice).to_vec())),
            flat: choice.is_some_and(|choice| choice.flat),
            custom,
        })
    };
    let entries = CollectiveKind::ALL.map(entry);
    Given { hierarchy: Some(collectives.hierarchy), rings: Some(collectives.rings), entries }
}

/// The algorithms of a choice that its file gives.
fn shown(choice: &Choice) -> &[Algorithm] {
    if choice.flat { &choice.per_dim[..1] } else { &choice.per_dim }
}

/// The words of a choice, for the report.
pub(super) fn words_of(choice: &Choice) -> Vec<String> {
    shown(choice).iter().map(|&algorithm| word(algorithm)).collect()
}
