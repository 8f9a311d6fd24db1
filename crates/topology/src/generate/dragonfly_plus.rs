//! Dragonfly+: groups of leaf and spine routers, all leaves of a group joined to all its spines, and
//! groups joined to each other by their spines.
//!
//! `p` NPUs at a leaf, `l` leaves and `s` spines in a group, `h` global links at a spine,
//! `g <= s h + 1` groups. Every two groups have `floor(s h / (g - 1))` cables, ordered as those of a
//! dragonfly (`dragonfly.rs`). Any leaf reaches every global link of its group over one spine, so a
//! message between groups takes 5 links, whichever groups they are. Routes are the shortest.
//!
//! Source: Shpiner, Haramaty, Eliad, Zdornov, Gafni, Zahavi, "Dragonfly+: Low cost topology for
//! scaling datacenters", HiPINEB 2017.

use super::dragonfly::between_groups;
use super::generator::{FabricBuilder, Fault, Generator, Key, MOST_NPUS, words};
use crate::recipe::Values;
use crate::{GraphDim, Symmetry};
use std::borrow::Cow;

pub(super) struct DragonflyPlus;

struct Numbers {
    npus: u32,
    leaves: u32,
    spines: u32,
    globals: u32,
    groups: u32,
}

impl Numbers {
    fn of(values: &Values) -> Numbers {
        let (spines, globals) = (values.one("spines"), values.one("global_links"));
        let all = spines.saturating_mul(globals).saturating_add(1);
        Numbers {
            npus: values.one("npus_per_leaf"),
            leaves: values.one("leaves"),
            spines,
            globals,
            groups: values.given("groups").unwrap_or(all),
        }
    }
}

impl Generator for DragonflyPlus {
    fn name(&self) -> &'static str {
        "dragonfly_plus"
    }

    fn about(&self) -> &'static str {
        "groups of leaves and spines; every two groups joined by their spines"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 5] = [
            Key::one("npus_per_leaf", "NPUs at a leaf router"),
            Key::one("leaves", "leaf routers in a group"),
            Key::one("spines", "spine routers in a group"),
            Key::one("global_links", "links of a spine to other groups"),
            Key::one("groups", "groups; the most that the links allow when left out").or(""),
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "groups"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let n = Numbers::of(values);
        let most = u64::from(n.spines) * u64::from(n.globals) + 1;
        if u64::from(n.groups) > most {
            let groups = n.groups;
            let message = format!("{groups} groups, but a group has only {} links", most - 1);
            return vec![Fault::new("groups", message, format!("at most {most}"))];
        }
        let routers = u128::from(n.groups) * u128::from(n.leaves.max(n.spines));
        if routers * u128::from(n.npus) > u128::from(MOST_NPUS) {
            let message = format!("{} groups of {} leaves", n.groups, n.leaves);
            return vec![Fault::new("groups", message, "a smaller fabric")];
        }
        Vec::new()
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let n = Numbers::of(values);
        let dim = |name, size| GraphDim::new(name, size, Symmetry::Full);
        vec![dim("leaf", n.npus), dim("group", n.leaves), dim("global", n.groups)]
    }

    fn kinds(&self, _: &Values) -> Vec<Cow<'static, str>> {
        words(&["npu", "local", "global"])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        let n = Numbers::of(values);
        Some(match () {
            () if n.groups > 1 => 5,
            () if n.leaves > 1 => 4,
            () => 2 * u32::from(n.npus > 1),
        })
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let n = Numbers::of(values);
        let leaves = builder.switches("leaf", n.leaves * n.groups, 1);
        let spines = builder.switches("spine", n.spines * n.groups, 2);
        for npu in 0..n.npus * n.leaves * n.groups {
            builder.cables(npu, leaves + npu / n.npus, 0, 1);
        }
        for leaf in 0..n.leaves * n.groups {
            let first = spines + leaf / n.leaves * n.spines;
            (0..n.spines).for_each(|spine| builder.cables(leaves + leaf, first + spine, 1, 1));
        }
        for (here, there) in between_groups(n.spines, n.globals, n.groups) {
            builder.cables(spines + here, spines + there, 2, 1);
        }
    }
}
