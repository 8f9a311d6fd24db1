//! Dragonfly: groups of routers that are all joined to each other, and groups that are all joined
//! to each other.
//!
//! `p` NPUs at a router, `a` routers in a group, `h` global links at a router, `g <= a h + 1`
//! groups. Every pair of groups has `floor(a h / (g - 1))` cables. Cable k from group i to group j
//! leaves by global port `(d - 1) c + k` of group i, `d = (j - i) mod g`; port q belongs to router
//! `q / h`. Turning all groups by one leaves the wiring as it is, but how far two groups are from
//! each other depends on the routers.
//!
//! Routes are the minimal ones of the paper's section 4.1 ([`groups`]): between two groups a message
//! takes one global link, and at most one local link before and after it. Its router's own cable goes
//! first where there is one (`minimal.rs`). A route over two global links through a third group is
//! not taken, even where it has fewer links.
//!
//! Source: Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA
//! 2008; the order of ports is that of Camarero, Vallejo, Beivide, TACO 11 (2014), "palmtree".

use super::generator::{FabricBuilder, Fault, Generator, Key, MOST_NPUS, words};
use crate::recipe::{Recipe, Values};
use crate::{GraphDim, Symmetry};
use std::borrow::Cow;

pub(super) struct Dragonfly;

/// (NPUs at a router, routers in a group, global links at a router, groups).
fn numbers(values: &Values) -> (u32, u32, u32, u32) {
    let (a, h) = (values.one("routers_per_group"), values.one("global_links"));
    let all = a.saturating_mul(h).saturating_add(1);
    (values.one("npus_per_router"), a, h, values.given("groups").unwrap_or(all))
}

/// Group of each node, where the fabric of `recipe` is a dragonfly.
pub(crate) fn groups(recipe: &Recipe) -> Option<Box<[u32]>> {
    if recipe.generator != Dragonfly.name() {
        return None;
    }
    let (p, a, _, g) = numbers(&recipe.values);
    let npus = (0..p * a * g).map(|npu| npu / (p * a));
    Some(npus.chain((0..a * g).map(|router| router / a)).collect())
}

/// Cables between two groups.
fn cables(a: u32, h: u32, g: u32) -> u32 {
    if g > 1 { a * h / (g - 1) } else { 0 }
}

/// The routers that cables between groups join, each numbered through all groups of `a` routers.
pub(super) fn between_groups(a: u32, h: u32, g: u32) -> impl Iterator<Item = (u32, u32)> {
    let c = cables(a, h, g);
    let pairs = (0..g).flat_map(move |i| (i + 1..g).map(move |j| (i, j)));
    pairs.flat_map(move |(i, j)| {
        let d = j - i;
        (0..c).map(move |k| {
            let (here, there) = ((d - 1) * c + k, (g - d - 1) * c + (c - 1 - k));
            (i * a + here / h, j * a + there / h)
        })
    })
}

impl Generator for Dragonfly {
    fn name(&self) -> &'static str {
        "dragonfly"
    }

    fn about(&self) -> &'static str {
        "groups of routers, all joined within a group; every two groups joined"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 4] = [
            Key::one("npus_per_router", "NPUs at a router"),
            Key::one("routers_per_group", "routers in a group"),
            Key::one("global_links", "links of a router to other groups"),
            Key::one("groups", "groups; the most that the links allow when left out").or(""),
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "groups"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let (p, a, h, g) = numbers(values);
        let most = u64::from(a) * u64::from(h) + 1;
        if u64::from(g) > most {
            let message = format!("{g} groups, but a group has only {} links to others", most - 1);
            return vec![Fault::new("groups", message, format!("at most {most}"))];
        }
        let routers = u64::from(a) * u64::from(g);
        if routers * u64::from(p) > MOST_NPUS || routers > MOST_NPUS {
            let message = format!("{routers} routers with {p} NPUs each");
            return vec![Fault::new("groups", message, "a smaller fabric")];
        }
        Vec::new()
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let (p, a, _, g) = numbers(values);
        vec![
            GraphDim::new("router", p, Symmetry::Full),
            GraphDim::new("group", a, Symmetry::Full),
            GraphDim::new("global", g, Symmetry::None),
        ]
    }

    fn kinds(&self, _: &Values) -> Vec<Cow<'static, str>> {
        words(&["npu", "local", "global"])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        let (p, a, h, g) = numbers(values);
        // Two links of NPUs; between routers a local link at both ends unless each router has a
        // cable to each group.
        let between = match (a, g) {
            (1, 1) => return Some(2 * u32::from(p > 1)),
            (_, 1) => 1,
            (1, _) => 1,
            _ if cables(a, h, g) >= a && h >= g - 1 => 2,
            _ => 3,
        };
        Some(2 + between)
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let (p, a, h, g) = numbers(values);
        let first = builder.switches("router", a * g, 1);
        for npu in 0..p * a * g {
            builder.cables(npu, first + npu / p, 0, 1);
        }
        for group in 0..g {
            for (x, y) in (0..a).flat_map(|x| (x + 1..a).map(move |y| (x, y))) {
                builder.cables(first + group * a + x, first + group * a + y, 1, 1);
            }
        }
        for (here, there) in between_groups(a, h, g) {
            builder.cables(first + here, first + there, 2, 1);
        }
    }
}
