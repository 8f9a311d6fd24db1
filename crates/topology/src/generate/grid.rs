//! Tori, twisted tori and meshes as graphs: NPUs are joined to their neighbours in each dimension,
//! and messages may cross the dimensions in any order.
//!
//! `Ring(a)_Ring(b)` and `Mesh(a)_Mesh(b)` are the same wiring crossed in order. Diameter: the sum
//! of `floor(n / 2)` (torus) or `n - 1` (mesh). A dimension of two has one link each way.
//!
//! A twisted torus has sizes `k` and `2k` only. The links that close a dimension of `k` also go `k`
//! places on along every dimension of `2k`. So it looks the same from every NPU and along every
//! dimension: `k x 2k` is the rectangular twisted torus, `k x k x 2k` the face-centred and
//! `k x 2k x 2k` the body-centred cubic lattice. TPU v4 pods offer the last two. A line of a
//! dimension of `k` does not close by itself, so its places do not look alike.
//!
//! [`Metric`] gives distances by formula, so that routes need no tables.
//!
//! Sources: Cámara, Moretó, Vallejo, Beivide, Miguel-Alonso, Martínez, Navaridas, "Twisted torus
//! topologies for enhanced interconnection networks", TPDS 21 (2010); Camarero, Martínez, Beivide,
//! "Lattice graphs for high-scale interconnection topologies", TPDS 26 (2015); Jouppi and others,
//! "TPU v4", ISCA 2023, section 2.8.

use super::generator::{FabricBuilder, Fault, Generator, Key, MOST_NPUS, words};
use crate::recipe::{Recipe, Values};
use crate::{GraphDim, Symmetry, coordinates, rank};
use std::borrow::Cow;

/// Most dimensions.
const DIMS: usize = 6;
const NAMES: [&str; DIMS] = ["x", "y", "z", "dim4", "dim5", "dim6"];

/// How the ends of a line are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Open,
    Closed,
    Twisted,
}

pub(super) struct Grid {
    ends: Ends,
}

pub(super) static TORUS: Grid = Grid { ends: Ends::Closed };
pub(super) static TWISTED: Grid = Grid { ends: Ends::Twisted };
pub(super) static MESH: Grid = Grid { ends: Ends::Open };

/// The shift of a twisted torus: its short size, if its sizes are `k` and `2k`.
fn twist(sizes: &[u32]) -> Option<u32> {
    let short = *sizes.iter().min()?;
    let fits = sizes.iter().all(|&size| size == short || size / 2 == short && size % 2 == 0);
    (fits && short > 1 && sizes.contains(&(2 * short))).then_some(short)
}

impl Grid {
    /// The place to which a link of dimension `dim` leads on from `at`, if there is one.
    fn next(&self, sizes: &[u32], at: &[u32], dim: usize) -> Option<Vec<u32>> {
        let mut next = at.to_vec();
        next[dim] += 1;
        if next[dim] < sizes[dim] {
            return Some(next);
        }
        next[dim] = 0;
        match self.ends {
            Ends::Open => None,
            Ends::Closed => (sizes[dim] > 2).then_some(next),
            Ends::Twisted => {
                let k = twist(sizes)?;
                if sizes[dim] == k {
                    let long = |(place, &size): (&mut u32, &u32)| {
                        *place = if size == k { *place } else { (*place + k) % size };
                    };
                    next.iter_mut().zip(sizes).for_each(long);
                }
                Some(next)
            }
        }
    }
}

impl Generator for Grid {
    fn name(&self) -> &'static str {
        match self.ends {
            Ends::Open => "mesh",
            Ends::Closed => "torus",
            Ends::Twisted => "twisted_torus",
        }
    }

    fn about(&self) -> &'static str {
        match self.ends {
            Ends::Open => "lines in every dimension; routes cross dimensions in any order",
            Ends::Closed => "rings in every dimension; routes cross dimensions in any order",
            Ends::Twisted => "torus of sizes k and 2k whose short dimensions close with a shift",
        }
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 1] = [Key::many("sizes", "NPUs along each dimension")];
        const TWISTED: [Key; 1] =
            [Key::many("sizes", "NPUs along each dimension: k and 2k, such as 4, 4, 8")];
        if self.ends == Ends::Twisted { &TWISTED } else { &KEYS }
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
        if npus > u128::from(MOST_NPUS) {
            let allowed = format!("at most {MOST_NPUS} NPUs");
            faults.push(Fault::new("sizes", format!("{npus} NPUs"), allowed));
        }
        if self.ends == Ends::Twisted && twist(sizes).is_none() {
            let shown: Vec<String> = sizes.iter().map(u32::to_string).collect();
            let message = format!("a twisted torus of {}", shown.join(" x "));
            faults.push(Fault::new(
                "sizes",
                message,
                "sizes k and 2k, at least one of each, k from 2",
            ));
        }
        faults
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let sizes = values.list("sizes");
        let short = |size| self.ends == Ends::Twisted && twist(sizes) == Some(size);
        let symmetry = |size| match self.ends {
            _ if size <= 2 => Symmetry::Full,
            Ends::Open => Symmetry::None,
            _ if short(size) => Symmetry::None,
            _ => Symmetry::Rotation,
        };
        let dim = |(&size, &name): (&u32, &&'static str)| GraphDim::new(name, size, symmetry(size));
        sizes.iter().zip(&NAMES).map(dim).collect()
    }

    fn kinds(&self, values: &Values) -> Vec<Cow<'static, str>> {
        words(&NAMES[..values.list("sizes").len().min(DIMS)])
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        let sizes = values.list("sizes");
        Some(match self.ends {
            Ends::Open => sizes.iter().map(|n| n - 1).sum(),
            Ends::Closed => sizes.iter().map(|n| n / 2).sum(),
            Ends::Twisted => {
                let metric =
                    Metric { sizes: sizes.to_vec(), latency: vec![0; DIMS], ends: self.ends };
                (0..sizes.iter().product()).map(|npu| metric.far(0, npu).0).max().unwrap_or(0)
            }
        })
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let sizes = values.list("sizes");
        for npu in 0..sizes.iter().product() {
            let at = coordinates(npu, sizes);
            for dim in 0..sizes.len() {
                if let Some(next) = self.next(sizes, &at, dim) {
                    builder.cables(npu, rank(&next, sizes), dim as u32, 1);
                }
            }
        }
    }
}

/// Distances between the NPUs of a grid, by formula.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    sizes: Vec<u32>,
    /// Latency of a link of each dimension, ps.
    latency: Vec<u64>,
    ends: Ends,
}

/// Distances in the fabric of `recipe`, where that is a grid.
pub(crate) fn metric(recipe: &Recipe) -> Option<Metric> {
    let grid = [&TORUS, &TWISTED, &MESH].into_iter().find(|g| g.name() == recipe.generator)?;
    let latency = recipe.wires.iter().map(|wire| wire.latency.0).collect();
    Some(Metric { sizes: recipe.values.list("sizes").to_vec(), latency, ends: grid.ends })
}

impl Metric {
    /// Links and latency (ps) of the nearest way between two NPUs: the fewest links, then the least
    /// latency.
    pub(crate) fn far(&self, from: u32, to: u32) -> (u32, u64) {
        let (mut a, mut b) = (from, to);
        let mut apart = [0i64; DIMS];
        for (apart, &size) in apart.iter_mut().zip(&self.sizes) {
            *apart = i64::from(b % size) - i64::from(a % size);
            (a, b) = (a / size, b / size);
        }
        match twist(&self.sizes).filter(|_| self.ends == Ends::Twisted) {
            None => self.straight(&apart),
            Some(k) => self.twisted(i64::from(k), apart, 0),
        }
    }

    /// The distance of two places that are `apart` along each dimension.
    fn straight(&self, apart: &[i64; DIMS]) -> (u32, u64) {
        let (mut links, mut latency) = (0, 0u64);
        for ((&size, &apart), &each) in self.sizes.iter().zip(apart).zip(&self.latency) {
            let (size, straight) = (u64::from(size), apart.unsigned_abs());
            let hops = match self.ends {
                Ends::Open => straight,
                Ends::Closed => straight.min(size - straight),
                // A dimension of k closes by the choices in `twisted`.
                Ends::Twisted if Some(size) == twist(&self.sizes).map(u64::from) => straight,
                Ends::Twisted => (straight % size).min(size - straight % size),
            };
            links += hops as u32;
            latency = latency.saturating_add(hops.saturating_mul(each));
        }
        (links, latency)
    }

    /// The least distance over all ways to close the dimensions of `k` from `dim` on: not, or once
    /// in either direction, each with `k` more along all dimensions of `2k`.
    fn twisted(&self, k: i64, apart: [i64; DIMS], dim: usize) -> (u32, u64) {
        let short = |dim: &usize| i64::from(self.sizes[*dim]) == k;
        let Some(dim) = (dim..self.sizes.len()).find(short) else { return self.straight(&apart) };
        let closed = |turn: i64| {
            let mut apart = apart;
            apart[dim] += turn * k;
            for (long, _) in self.sizes.iter().enumerate().filter(|(d, _)| !short(d)) {
                apart[long] += turn * k;
            }
            self.twisted(k, apart, dim + 1)
        };
        [-1, 0, 1].into_iter().map(closed).min().unwrap_or_default()
    }
}
