//! `library.corrections`: measured factors on predicted times.

use declared::findings::{At, Findings};
use declared::{Key, Setting, Shown, section};
use graph::CollectiveKind;
use serde_json::Value;
use units::{Bytes, Ratio};

/// Factors of a collective over `ranks_per_node` members in each of `nodes` nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Correction {
    /// Which collective.
    pub kind: CollectiveKind,
    /// Members in a node.
    pub ranks_per_node: u32,
    /// Nodes.
    pub nodes: u32,
    /// Size (the larger of a member's two buffers) and factor, by ascending size; not empty.
    pub points: Vec<(Bytes, Ratio)>,
}

section! {
    /// A correction as its keys say it.
    #[derive(Clone, Debug)]
    struct Keys {
        /// The collective.
        pub collective: CollectiveKind, required;
        /// Members in a node.
        pub ranks_per_node: u32, required "members in a node", was ["inside"];
        /// Nodes.
        pub nodes: u32, required "nodes", was ["between"];
        /// Sizes (the larger of a member's two buffers), ascending.
        pub sizes: Vec<Bytes>, required "sizes, ascending, such as [8 B, 1 MiB]";
        /// Factors on the predicted time, one for each size.
        pub factors: Vec<Ratio>, required "one factor for each size, such as [1.1, 0.97]";
    }
}

impl Correction {
    fn as_keys(&self) -> Keys {
        let (sizes, factors) = self.points.iter().copied().unzip();
        let Correction { kind: collective, ranks_per_node, nodes, .. } = *self;
        Keys { collective, ranks_per_node, nodes, sizes, factors }
    }
}

impl Setting for Correction {
    fn keys() -> &'static [Key] {
        Keys::keys()
    }

    fn kind() -> String {
        Keys::kind()
    }

    fn example() -> String {
        Keys::example()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Correction> {
        let Keys { collective: kind, ranks_per_node, nodes, sizes, factors } =
            Keys::read(at, findings)?;
        if sizes.is_empty() || sizes.len() != factors.len() {
            let message = format!("{} factors for {} sizes", factors.len(), sizes.len());
            findings.refuse(at, message, "one factor for each size");
            return None;
        }
        if sizes.windows(2).any(|pair| pair[0] >= pair[1]) || factors.iter().any(|part| part.0 == 0)
        {
            let message = "the sizes do not ascend, or a factor is 0";
            findings.refuse(at, message, "each size once, ascending; factors above 0");
            return None;
        }
        let points = sizes.into_iter().zip(factors).collect();
        Some(Correction { kind, ranks_per_node, nodes, points })
    }

    fn show(&self) -> Option<Shown> {
        self.as_keys().show()
    }

    fn json(&self) -> Value {
        self.as_keys().json()
    }
}
