//! HyperX: switches on a grid of any number of dimensions, all joined along every line of it.
//!
//! `t` NPUs at a switch, `s_1 x s_2 x ...` switches, `k_i` cables between every two switches of a
//! line of dimension i. One dimension is a full mesh of switches, sizes of two are a hypercube, two
//! dimensions a flattened butterfly. Diameter: one link for each dimension of two or more, and two
//! for the NPUs. Cutting the last dimension in halves cuts `k s^2 / 4` cables for each line of it.
//!
//! Source: Ahn, Binkert, Davis, McLaren, Schreiber, "HyperX: topology, routing, and packaging of
//! efficient large-scale networks", SC 2009.

use super::generator::{FabricBuilder, Fault, Generator, Key, MOST_NPUS, words};
use crate::recipe::Values;
use crate::{GraphDim, Symmetry, coordinates};
use std::borrow::Cow;

pub(super) struct HyperX;

/// Most dimensions of switches.
const DIMS: usize = 6;
/// Names of kinds and dimensions; the first is that of NPUs.
const NAMES: [&str; DIMS + 1] = ["npu", "x", "y", "z", "dim4", "dim5", "dim6"];

/// Cables along each dimension.
fn cables(values: &Values, dims: usize) -> Vec<u32> {
    match values.list("cables") {
        [] => vec![1; dims],
        [one] => vec![*one; dims],
        list => list.to_vec(),
    }
}

impl Generator for HyperX {
    fn name(&self) -> &'static str {
        "hyperx"
    }

    fn about(&self) -> &'static str {
        "switches on a grid, all joined along every line"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 3] = [
            Key::one("npus_per_switch", "NPUs at a switch"),
            Key::many("sizes", "switches along each dimension"),
            Key::many("cables", "cables between two switches, by dimension, or one number for all")
                .or("1"),
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "sizes"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let (sizes, given) = (values.list("sizes"), values.list("cables").len());
        let mut faults = Vec::new();
        if !(1..=DIMS).contains(&sizes.len()) {
            let message = format!("{} dimensions", sizes.len());
            faults.push(Fault::new("sizes", message, format!("1 to {DIMS} dimensions")));
        }
        if given > 1 && given != sizes.len() {
            let message = format!("{given} values for {} dimensions", sizes.len());
            faults.push(Fault::new("cables", message, format!("1 or {} values", sizes.len())));
        }
        let switches: u128 = sizes.iter().map(|&n| u128::from(n)).product();
        if switches * u128::from(values.one("npus_per_switch")) > u128::from(MOST_NPUS) {
            let message = format!("{switches} switches");
            faults.push(Fault::new("sizes", message, format!("at most {MOST_NPUS} NPUs")));
        }
        faults
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let sizes = std::iter::once(values.one("npus_per_switch"));
        let sizes = sizes.chain(values.list("sizes").iter().copied());
        let dim = |(name, size)| GraphDim::new(name, size, Symmetry::Full);
        ["switch"].into_iter().chain(NAMES[1..].iter().copied()).zip(sizes).map(dim).collect()
    }

    fn kinds(&self, values: &Values) -> Vec<Cow<'static, str>> {
        words(&NAMES[..=values.list("sizes").len().min(DIMS)])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        let switches = values.list("sizes").iter().filter(|&&size| size > 1).count() as u32;
        let alone = switches == 0 && values.one("npus_per_switch") == 1;
        Some(if alone { 0 } else { 2 + switches })
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let (npus, sizes) = (values.one("npus_per_switch"), values.list("sizes"));
        let (count, cables) = (sizes.iter().product::<u32>(), cables(values, sizes.len()));
        let first = builder.switches("switch", count, 1);
        for npu in 0..npus * count {
            builder.cables(npu, first + npu / npus, 0, 1);
        }
        for switch in 0..count {
            let at = coordinates(switch, sizes);
            let mut stride = 1;
            for (dim, &size) in sizes.iter().enumerate() {
                for further in 1..size - at[dim] {
                    let other = switch + further * stride;
                    builder.cables(first + switch, first + other, dim as u32 + 1, cables[dim]);
                }
                stride *= size;
            }
        }
    }
}
