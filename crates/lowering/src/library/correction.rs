//! Measurements of a machine on top of the model: factors by size for one collective on one number
//! of members.
//!
//! ```text
//! time = factor * time of the model
//!        at a measured size, below the smallest and above the largest
//! time = low + (high - low) (model - model low) / (model high - model low)
//!        between two sizes, if both change in the same direction
//! time = linear in the square root of the size
//!        between two sizes, otherwise
//! ```
//!
//! So the time between two measured sizes lies between the two measured times. It falls with more
//! bytes only where the measured times do. `armillary calibrate` finds the factors
//! (python/armillary/calibrate).

use super::place::Placement;
use graph::CollectiveKind;
use platform::library::Correction;

/// A model that changes by less than this between two sizes (natural logarithm) doesn't tell where
/// between them a time changes.
const FLAT: f64 = 0.1;

/// A size in bytes with a factor: what the model says there, and what it says corrected.
struct Known {
    size: f64,
    model: f64,
    time: f64,
}

/// Whether `correction` is of this collective over these members.
pub(super) fn suits(correction: &Correction, kind: CollectiveKind, place: &Placement) -> bool {
    (correction.kind, correction.ranks_per_node, correction.nodes)
        == (kind, place.inside, place.between)
}

/// The corrected time at `size` bytes, of a model's time by size.
pub(super) fn time(correction: &Correction, size: f64, model: impl Fn(f64) -> f64) -> f64 {
    let points = &correction.points;
    let value = |at: usize| points[at].1.as_f64();
    let known = |at: usize| {
        let size = points[at].0.0 as f64;
        Known { size, model: model(size), time: model(size) * value(at) }
    };
    match points.iter().position(|(bytes, _)| bytes.0 as f64 >= size) {
        None => model(size) * value(points.len() - 1),
        Some(0) => model(size) * value(0),
        Some(at) => between(&known(at - 1), &known(at), size, model(size)),
    }
}

/// The time at `size` between two known ones, where the model says `model`.
fn between(low: &Known, high: &Known, size: f64, model: f64) -> f64 {
    let change = (high.model / low.model).ln();
    let alike = change.abs() > FLAT && (change > 0.0) == (high.time > low.time);
    let part = if alike {
        ((model - low.model) / (high.model - low.model)).clamp(0.0, 1.0)
    } else {
        (size.sqrt() - low.size.sqrt()) / (high.size.sqrt() - low.size.sqrt())
    };
    low.time + (high.time - low.time) * part
}
