//! Trees of switches with several roots: leaf-spine, k-ary fat tree, and Clos networks of any
//! number of tiers and any oversubscription.
//!
//! All three are parallel generalized fat trees PGFT(h; m; w; p): a switch of tier l has `m_l`
//! children and `w_{l+1}` parents, each by `p` cables. Nodes of tier l: `prod_{i>l} m_i *
//! prod_{i<=l} w_i`. Diameter `2 h`. Bisection: half of what the narrowest tier carries.
//!
//! Sources: Öhring, Ibel, Das, Kumar, "On generalized fat trees", IPPS 1995 (XGFT); Zahavi,
//! "D-Mod-K routing providing non-blocking traffic for shift permutations on real life fat trees",
//! CCIT 776, 2010 (PGFT); Al-Fares, Loukissas, Vahdat, SIGCOMM 2008 (the k-ary fat tree of three
//! tiers).

use super::generator::{FabricBuilder, Fault, Generator, Key, words};
use super::tree::{KINDS, Tree};
use crate::GraphDim;
use crate::recipe::{Recipe, Values};
use std::borrow::Cow;

/// The tree of `recipe`, where it is one.
pub(crate) fn tree(recipe: &Recipe) -> Option<Tree> {
    let tree: fn(&Values) -> Tree = match recipe.generator {
        name if name == LeafSpine.name() => LeafSpine::tree,
        name if name == FatTree.name() => FatTree::tree,
        name if name == Clos.name() => Clos::tree,
        _ => return None,
    };
    Some(tree(&recipe.values))
}

/// The tree several times over, each with a link to every NPU.
const PLANES: Key =
    Key::one("planes", "separate networks with a link to every NPU, one leaf switch each").or("1");

/// Leaf switches that are all joined to all spine switches.
pub(super) struct LeafSpine;

impl LeafSpine {
    fn tree(values: &Values) -> Tree {
        Tree {
            down: vec![values.one("npus_per_leaf"), values.one("leaves")],
            up: vec![values.one("planes"), values.one("spines")],
            cables: vec![1, values.one("cables")],
        }
    }
}

impl Generator for LeafSpine {
    fn name(&self) -> &'static str {
        "leaf_spine"
    }

    fn about(&self) -> &'static str {
        "leaf switches, each joined to every spine switch"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 5] = [
            Key::one("npus_per_leaf", "NPUs at a leaf switch"),
            Key::one("leaves", "leaf switches of a plane"),
            Key::one("spines", "spine switches of a plane"),
            Key::one("cables", "cables from each leaf to each spine").or("1"),
            PLANES,
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "leaves"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        LeafSpine::tree(values).faults("leaves")
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        LeafSpine::tree(values).dims(&["leaf", "spine"])
    }

    fn kinds(&self, _: &Values) -> Vec<Cow<'static, str>> {
        words(&KINDS[..2])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        Some(LeafSpine::tree(values).diameter())
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        LeafSpine::tree(values).wire(builder);
    }
}

/// The k-ary fat tree of three tiers: `k` pods of `k / 2` leaves and `k / 2` aggregation switches,
/// `(k / 2)^2` cores, `k^3 / 4` NPUs, full bisection.
pub(super) struct FatTree;

impl FatTree {
    fn tree(values: &Values) -> Tree {
        let half = values.one("radix") / 2;
        let pods = values.given("pods").unwrap_or(2 * half);
        Tree {
            down: vec![half, half, pods],
            up: vec![values.one("planes"), half, half],
            cables: vec![1; 3],
        }
    }
}

impl Generator for FatTree {
    fn name(&self) -> &'static str {
        "fat_tree"
    }

    fn about(&self) -> &'static str {
        "k-ary fat tree of three tiers, k^3/4 NPUs at full bisection"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 3] = [
            Key::one("radix", "ports of a switch, even").from(2),
            Key::one("pods", "pods, at most the number of ports; all when left out").or(""),
            PLANES,
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "pods"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let radix = values.one("radix");
        let mut faults = Vec::new();
        if !radix.is_multiple_of(2) || radix > 256 {
            let message = format!("a fat tree of switches with {radix} ports");
            faults.push(Fault::new("radix", message, "an even number from 2 to 256"));
        }
        if let Some(pods) = values.given("pods").filter(|&pods| pods > radix) {
            let message = format!("{pods} pods, but core switches have {radix} ports");
            faults.push(Fault::new("pods", message, format!("at most {radix}")));
        }
        faults
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        FatTree::tree(values).dims(&["leaf", "pod", "core"])
    }

    fn kinds(&self, _: &Values) -> Vec<Cow<'static, str>> {
        words(&KINDS[..3])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        Some(FatTree::tree(values).diameter())
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        FatTree::tree(values).wire(builder);
    }
}

/// Any number of tiers, children, parents and cables.
pub(super) struct Clos;

impl Clos {
    fn tree(values: &Values) -> Tree {
        let down = values.list("down").to_vec();
        let up = std::iter::once(values.one("planes")).chain(values.list("up").iter().copied());
        let cables = match values.list("cables") {
            [] => vec![1; down.len()],
            [one] => vec![*one; down.len()],
            list => list.to_vec(),
        };
        Tree { up: up.collect(), down, cables }
    }
}

impl Generator for Clos {
    fn name(&self) -> &'static str {
        "clos"
    }

    fn about(&self) -> &'static str {
        "tree of switches with any number of tiers, roots and planes, with any oversubscription"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 4] = [
            Key::many("down", "nodes below a switch, by tier from the NPUs outwards"),
            Key::many("up", "switches above a switch, by tier: one fewer than down").or(""),
            Key::many("cables", "cables to each node above, by tier, or one number for all tiers")
                .or("1"),
            PLANES,
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "down"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let tiers = values.list("down").len();
        let mut faults = Vec::new();
        if !(1..=KINDS.len()).contains(&tiers) {
            let allowed = format!("1 to {} tiers", KINDS.len());
            faults.push(Fault::new("down", format!("{tiers} tiers"), allowed));
        }
        let mut counted = |key, expected: &[usize]| {
            let count = values.list(key).len();
            if !expected.contains(&count) {
                let shown: Vec<String> = expected.iter().map(usize::to_string).collect();
                let message = format!("{count} values for {tiers} tiers");
                faults.push(Fault::new(key, message, format!("{} values", shown.join(" or "))));
            }
        };
        counted("up", &[tiers.saturating_sub(1)]);
        let either = [1, tiers];
        counted("cables", if tiers == 1 { &either[..1] } else { &either });
        if faults.is_empty() { Clos::tree(values).faults("down") } else { faults }
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        Clos::tree(values).dims(&["leaf", "tier2", "tier3", "tier4", "tier5", "tier6"])
    }

    fn kinds(&self, values: &Values) -> Vec<Cow<'static, str>> {
        words(&KINDS[..values.list("down").len().min(KINDS.len())])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        Some(Clos::tree(values).diameter())
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        Clos::tree(values).wire(builder);
    }
}
