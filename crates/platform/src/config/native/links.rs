//! `links`: bandwidth and latency, by dimension or by kind.

use declared::findings::{At, Findings};
use declared::tree::Value;
use declared::{Key, Setting, Shown, counts, section, words};
use units::{Bandwidth, Ratio, Span};

/// Links that a bandwidth is given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    /// One link in one direction.
    Link,
    /// The links that leave an NPU, together.
    Npu,
}

words!(Per: "link" = Per::Link, "npu" = Per::Npu);

section! {
    /// The links of a dimension, or of a kind.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct Link {
        /// Bandwidth, as `per` says.
        pub bandwidth: Bandwidth, required;
        /// Latency of one link; a switch is crossed by two.
        pub latency: Span, required "a time, such as \"500 ns\"";
        /// `link`: the bandwidth is of one link in one direction. `npu`: of all links that leave an
        /// NPU in that dimension together (`n-1` of a FullyConnected, 2 of a Ring, 1 of a Switch).
        /// Generated fabrics have `link` only.
        pub per: Option<Per>, default None, says "`link`; FullyConnected must say it";
        /// Links side by side, each with `bandwidth`: rings of a Ring, cables to a Switch. A message
        /// uses them all; on flits each has channels of its own, and packets take turns. With
        /// `per: npu`, all links that leave an NPU in that dimension.
        pub count: Option<u32> as parallel, default None, says "1";
        /// The part of the bandwidth that data can use. The rest is packet headers.
        pub efficiency: Option<Ratio>, default None, says "1";
        /// The card of `nics` at which the links of this dimension start
        /// ([shared cards](../models/topologies.md#dimensions-that-share-a-card)).
        pub nic: Option<String>, default None;
    }
}

counts! {
    /// Links side by side.
    parallel: 1 to 65_536;
}

impl Link {
    /// One link.
    pub(super) fn one(bandwidth: Bandwidth, latency: Span, per: Option<Per>) -> Link {
        Link { bandwidth, latency, per, count: None, efficiency: None, nic: None }
    }

    /// Bandwidth of `count` of them together, headers left out; nothing and a problem where more
    /// than the whole is for data.
    pub(super) fn together(&self, at: &At<'_>, findings: &mut Findings) -> Option<Bandwidth> {
        let efficiency = self.efficiency.unwrap_or_default();
        if efficiency > Ratio::ONE {
            let place = at.get(Link::efficiency).unwrap_or_else(|| at.clone());
            let message = format!("{} is more than the whole link", efficiency);
            findings.refuse(&place, message, "a ratio up to 1, such as 0.94 or 94 %");
            return None;
        }
        let all = self.bandwidth.0.saturating_mul(u64::from(self.count.unwrap_or(1)));
        Some(Bandwidth(all).times(efficiency))
    }
}

/// `links`: one mapping for all, or a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Links {
    All(Link),
    Each(Vec<Link>),
}

impl Links {
    /// One entry for each of `count` dimensions or kinds, with its place; nothing where the list
    /// has another length.
    pub(super) fn entries<'a>(&self, at: &At<'a>, count: usize) -> Option<Vec<(Link, At<'a>)>> {
        match self {
            Links::All(link) => Some(vec![(link.clone(), at.clone()); count]),
            Links::Each(links) if links.len() == count => {
                Some(links.iter().cloned().zip(at.items()).collect())
            }
            Links::Each(_) => None,
        }
    }

    /// All entries.
    pub(super) fn each(&self) -> &[Link] {
        match self {
            Links::All(link) => std::slice::from_ref(link),
            Links::Each(links) => links,
        }
    }

    /// Entries of the list.
    pub(super) fn len(&self) -> usize {
        match self {
            Links::All(_) => 1,
            Links::Each(links) => links.len(),
        }
    }
}

impl Setting for Links {
    const LIST: bool = true;

    fn keys() -> &'static [Key] {
        Link::keys()
    }

    fn kind() -> String {
        "mapping, or a list of them".into()
    }

    fn example() -> String {
        "one mapping for each dimension with bandwidth and latency".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Links> {
        match &at.tree.value {
            Value::List(_) => Vec::read(at, findings).map(Links::Each),
            _ => Link::read(at, findings).map(Links::All),
        }
    }

    fn show(&self) -> Option<Shown> {
        match self {
            Links::All(link) => link.show(),
            Links::Each(links) => links.show(),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Links::All(link) => link.json(),
            Links::Each(links) => links.json(),
        }
    }
}
