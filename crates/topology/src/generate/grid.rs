//! Tori and meshes as graphs: NPUs are joined to their neighbours in each dimension, and messages
//! may cross the dimensions in any order.
//!
//! `Ring(a)_Ring(b)` and `Mesh(a)_Mesh(b)` are the same wiring without tables, crossed in order.
//! Here the table of every NPU has a row for every NPU, so sizes are bounded. Diameter: the sum of
//! `floor(n / 2)` (torus) or `n - 1` (mesh). A dimension of two has one link each way.

use super::generator::{Draft, Fault, Generator, Key};
use crate::recipe::Values;
use crate::{GraphDim, Symmetry, coordinates, rank};

/// Most NPUs: tables of 24 bytes a pair stay below half a gigabyte.
const MOST: u64 = 4096;
/// Most dimensions.
const DIMS: usize = 6;
const NAMES: [&str; DIMS] = ["x", "y", "z", "dim4", "dim5", "dim6"];

pub(super) struct Grid {
    wraps: bool,
}

pub(super) static TORUS: Grid = Grid { wraps: true };
pub(super) static MESH: Grid = Grid { wraps: false };

impl Generator for Grid {
    fn name(&self) -> &'static str {
        if self.wraps { "torus" } else { "mesh" }
    }

    fn about(&self) -> &'static str {
        if self.wraps {
            "rings in every dimension; routes cross dimensions in any order"
        } else {
            "lines in every dimension; routes cross dimensions in any order"
        }
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 1] = [Key::many("sizes", "NPUs along each dimension")];
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
        let npus: u128 = sizes.iter().map(|&n| u128::from(n)).product();
        if npus > u128::from(MOST) {
            let block = if self.wraps { "Ring" } else { "Mesh" };
            let stack: Vec<String> = sizes.iter().map(|n| format!("{block}({n})")).collect();
            let allowed = format!("at most {MOST} NPUs, or topology: {}", stack.join("_"));
            faults.push(Fault::new("sizes", format!("{npus} NPUs"), allowed));
        }
        faults
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let symmetry = |size| match size {
            2 => Symmetry::Full,
            _ if self.wraps => Symmetry::Rotation,
            _ => Symmetry::None,
        };
        let dim = |(&size, &name): (&u32, &&'static str)| GraphDim {
            name,
            size,
            symmetry: symmetry(size),
        };
        values.list("sizes").iter().zip(&NAMES).map(dim).collect()
    }

    fn kinds(&self, values: &Values) -> Vec<&'static str> {
        NAMES[..values.list("sizes").len().min(DIMS)].to_vec()
    }

    fn diameter(&self, values: &Values) -> u32 {
        let far = |&n: &u32| if self.wraps { n / 2 } else { n - 1 };
        values.list("sizes").iter().map(far).sum()
    }

    fn wire(&self, values: &Values, draft: &mut Draft) {
        let sizes = values.list("sizes");
        for npu in 0..sizes.iter().product() {
            let at = coordinates(npu, sizes);
            for (dim, &size) in sizes.iter().enumerate() {
                let last = at[dim] + 1 == size;
                if last && !(self.wraps && size > 2) {
                    continue;
                }
                let mut next = at.clone();
                next[dim] = if last { 0 } else { at[dim] + 1 };
                draft.cables(npu, rank(&next, sizes), dim as u32, 1);
            }
        }
    }
}
