//! Concentrated meshes and tori: several NPUs at each router of a grid.
//!
//! `c` NPUs at a router, `k_1 x k_2 x ...` routers, each joined to its neighbours in every dimension.
//! Fewer and wider routers shorten the ways: a mesh of 8x8 routers with 4 NPUs each has the diameter
//! of 8x8, not of 16x16. Diameter: `k - 1` links for each dimension of a mesh, `floor(k / 2)` of a
//! torus, and two for the NPUs. Cutting the largest dimension of a mesh in halves cuts one cable for
//! each line of it.
//!
//! Source: Balfour and Dally, "Design tradeoffs for tiled CMP on-chip networks", ICS 2006, section 3
//! (CMesh).

use super::generator::{FabricBuilder, Fault, Generator, Key, MOST_NPUS, words};
use crate::recipe::Values;
use crate::{GraphDim, Symmetry, coordinates};
use std::borrow::Cow;

/// Most dimensions of routers.
const DIMS: usize = 6;
/// Names of kinds and dimensions; the first is that of NPUs.
const NAMES: [&str; DIMS + 1] = ["npu", "x", "y", "z", "dim4", "dim5", "dim6"];

pub(super) struct Concentrated {
    /// Whether the ends of a line are joined.
    closed: bool,
}

pub(super) static MESH: Concentrated = Concentrated { closed: false };
pub(super) static TORUS: Concentrated = Concentrated { closed: true };

impl Generator for Concentrated {
    fn name(&self) -> &'static str {
        if self.closed { "concentrated_torus" } else { "concentrated_mesh" }
    }

    fn about(&self) -> &'static str {
        if self.closed {
            "routers with several NPUs each, in rings in every dimension"
        } else {
            "routers with several NPUs each, in lines in every dimension"
        }
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 2] = [
            Key::one("npus_per_router", "NPUs at a router"),
            Key::many("sizes", "routers along each dimension"),
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "sizes"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let sizes = values.list("sizes");
        let mut faults = Vec::new();
        if !(1..=DIMS).contains(&sizes.len()) {
            let message = format!("{} dimensions", sizes.len());
            faults.push(Fault::new("sizes", message, format!("1 to {DIMS} dimensions")));
        }
        let routers: u128 = sizes.iter().map(|&n| u128::from(n)).product();
        if routers * u128::from(values.one("npus_per_router")) > u128::from(MOST_NPUS) {
            let message = format!("{routers} routers");
            faults.push(Fault::new("sizes", message, format!("at most {MOST_NPUS} NPUs")));
        }
        faults
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let symmetry = |size| match self.closed {
            _ if size <= 2 => Symmetry::Full,
            true => Symmetry::Rotation,
            false => Symmetry::None,
        };
        let lines = values.list("sizes").iter().zip(&NAMES[1..]);
        let line =
            |(&size, &name): (&u32, &&'static str)| GraphDim::new(name, size, symmetry(size));
        let router = GraphDim::new("router", values.one("npus_per_router"), Symmetry::Full);
        std::iter::once(router).chain(lines.map(line)).collect()
    }

    fn kinds(&self, values: &Values) -> Vec<Cow<'static, str>> {
        words(&NAMES[..=values.list("sizes").len().min(DIMS)])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        let sizes = values.list("sizes");
        let alone = values.one("npus_per_router") == 1 && sizes.iter().all(|&size| size == 1);
        let along = |&size: &u32| if self.closed { size / 2 } else { size - 1 };
        Some(if alone { 0 } else { 2 + sizes.iter().map(along).sum::<u32>() })
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let (npus, sizes) = (values.one("npus_per_router"), values.list("sizes"));
        let count = sizes.iter().product::<u32>();
        let first = builder.switches("router", count, 1);
        for npu in 0..npus * count {
            builder.cables(npu, first + npu / npus, 0, 1);
        }
        for router in 0..count {
            let (at, mut stride) = (coordinates(router, sizes), 1);
            for (dim, &size) in sizes.iter().enumerate() {
                let next = if at[dim] + 1 < size {
                    Some(router + stride)
                } else {
                    (self.closed && size > 2).then(|| router - (size - 1) * stride)
                };
                if let Some(next) = next {
                    builder.cables(first + router, first + next, dim as u32 + 1, 1);
                }
                stride *= size;
            }
        }
    }
}
