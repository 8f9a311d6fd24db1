//! Measured matrix multiplications: a table from shape to time, and what lies between its shapes.
//!
//! Model: a multiplication never gets faster when a dimension grows, and its time never grows
//! faster than the dimension. So a measured shape s with time t bounds every shape x of the same
//! element width, `t * prod min(1, x_d / s_d)  <=  time(x)  <=  t * prod max(1, x_d / s_d)` over d
//! = batch, m, n, k. L is the largest lower bound of all measured shapes, U the smallest upper one;
//! `time(x) = sqrt(L(x) * U(x))`, the middle of what the measurements allow on a logarithmic scale.
//! It equals the measurement at a measured shape and grows with every dimension, unless
//! measurements contradict the two assumptions: then it lies between the contradicting ones and
//! grows all the same. A dimension beyond the largest measured one is cut to that and the time
//! scaled up by what was cut, which keeps the efficiency; outside the measured dimensions the
//! roofline is a lower bound. Element widths that were not measured, and other kernels, go by the
//! roofline.
//!
//! Source: the middle of the upper and lower extension of a function of bounded growth is the best
//! in the worst case (McShane, Bull. AMS 1934; Sukharev, "Minimax models in the theory of numerical
//! methods", 1992). Not here: reading the table (`measured_csv`).

use super::{Estimate, Roofline, Validity, Work, measured_csv};
use graph::{Gemm, Problem};
use std::collections::BTreeMap;
use units::Span;

/// Fractional bits of a picosecond while a bound is computed, so that its roundings vanish.
const FRACTION: u32 = 20;
/// Bounds stop here: two years.
const MOST: u128 = 1 << 66;
/// Bounds further apart than this factor are worth a warning.
const SPARSE: u128 = 4;

/// A table, and the roofline for everything it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Measured {
    /// The measurements.
    pub table: Table,
    /// Everything else.
    pub rest: Roofline,
}

/// Measured times of matrix multiplications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    /// Where it was read.
    pub path: String,
    rows: BTreeMap<u8, Rows>,
}

/// The shapes of one element width.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rows {
    measured: Vec<([u32; 4], Span)>,
    /// Least and largest of each dimension.
    least: [u32; 4],
    most: [u32; 4],
}

fn dimensions(gemm: &Gemm) -> [u32; 4] {
    [gemm.batch, gemm.m, gemm.n, gemm.k].map(|v| v.max(1))
}

impl Table {
    /// Reads the text of a CSV file; `path` is how problems call it.
    ///
    /// # Errors
    /// Every fault of the text.
    pub fn read(path: &str, text: &str) -> Result<Table, Vec<Problem>> {
        Ok(Table::of(path, measured_csv::read(path, text)?))
    }

    /// The table of `shapes`, which are all different.
    pub fn of(path: &str, shapes: impl IntoIterator<Item = (Gemm, Span)>) -> Table {
        let mut rows: BTreeMap<u8, Rows> = BTreeMap::new();
        for (gemm, time) in shapes {
            let shape = dimensions(&gemm);
            let of_width = rows.entry(gemm.width).or_insert(Rows {
                measured: Vec::new(),
                least: shape,
                most: shape,
            });
            of_width.measured.push((shape, time));
            of_width.least = std::array::from_fn(|d| of_width.least[d].min(shape[d]));
            of_width.most = std::array::from_fn(|d| of_width.most[d].max(shape[d]));
        }
        Table { path: path.to_string(), rows }
    }

    /// The same table, said to be at `path`.
    pub fn kept_at(self, path: String) -> Table {
        Table { path, ..self }
    }

    /// Bytes an element, and how many shapes of that width there are.
    pub fn widths(&self) -> impl Iterator<Item = (u8, usize)> {
        self.rows.iter().map(|(&width, rows)| (width, rows.measured.len()))
    }

    /// Every number of the table, in order.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let row =
            |&(shape, time): &([u32; 4], Span)| shape.map(u64::from).into_iter().chain([time.0]);
        self.rows.iter().flat_map(move |(&width, rows)| {
            std::iter::once(u64::from(width)).chain(rows.measured.iter().flat_map(row))
        })
    }

    /// Time and validity of a multiplication; nothing when no shape of its width was measured.
    pub fn estimate(&self, gemm: &Gemm) -> Option<Estimate> {
        let rows = self.rows.get(&gemm.width)?;
        let shape = dimensions(gemm);
        let inside: [u32; 4] = std::array::from_fn(|d| shape[d].min(rows.most[d]));
        let (lower, upper) = rows.bounds(inside);
        let middle = scaled(root(lower * upper), shape, inside);
        let beyond = (0..4).any(|d| !(rows.least[d]..=rows.most[d]).contains(&shape[d]));
        let validity = match (beyond, upper > SPARSE * lower) {
            (true, _) => Validity::Outside,
            (false, true) => Validity::Sparse,
            (false, false) => Validity::Covered,
        };
        Some(Estimate { time: Span(u64::try_from(middle).unwrap_or(u64::MAX)), validity })
    }
}

impl Rows {
    /// Largest lower and smallest upper bound in picoseconds, each at most 2^63.
    fn bounds(&self, shape: [u32; 4]) -> (u128, u128) {
        let (mut lower, mut upper) = (0, MOST << FRACTION);
        for &(measured, time) in &self.measured {
            let time = u128::from(time.0) << FRACTION;
            let smaller: [u32; 4] = std::array::from_fn(|d| shape[d].min(measured[d]));
            let larger: [u32; 4] = std::array::from_fn(|d| shape[d].max(measured[d]));
            lower = lower.max(scaled(time, smaller, measured));
            upper = upper.min(scaled(time, larger, measured));
        }
        let whole = |bound: u128| bound.div_ceil(1 << FRACTION).min(1 << 63);
        (whole(lower), whole(upper))
    }
}

/// The square root, rounded up.
fn root(value: u128) -> u128 {
    let down = value.isqrt();
    if down * down < value { down + 1 } else { down }
}

/// `value * prod to_d / from_d`, rounded up after every factor: never less for more, whatever the
/// roundings.
fn scaled(value: u128, to: [u32; 4], from: [u32; 4]) -> u128 {
    let step = |value: u128, d: usize| {
        if to[d] == from[d] {
            value
        } else {
            (value * u128::from(to[d])).div_ceil(u128::from(from[d]))
        }
    };
    (0..4).fold(value, |value, d| step(value, d).min(MOST << FRACTION))
}

impl Measured {
    /// Time for `work`.
    pub fn estimate(&self, work: &Work) -> Estimate {
        let roofline = Estimate { time: self.rest.span(work), validity: Validity::Covered };
        let Some(gemm) = &work.gemm else { return roofline };
        match self.table.estimate(gemm) {
            None => Estimate { validity: Validity::OtherWidth, ..roofline },
            Some(outside) if outside.validity == Validity::Outside => {
                Estimate { time: outside.time.max(roofline.time), ..outside }
            }
            Some(inside) => inside,
        }
    }
}

#[cfg(test)]
#[path = "measured_tests.rs"]
mod tests;
