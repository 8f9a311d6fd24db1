//! What measurements of a machine add to the model: factors by size for one collective on one number of members.
//!
//! ```text
//! time = factor(size) * time of the model
//! ```
//!
//! Between two measured sizes the factor goes straight over the square root of the size; below the least and above the largest it is theirs.
//! Where they come from: `armillary calibrate` (python/armillary/calibrate).

use super::Place;
use graph::CollectiveKind;
use units::{Bytes, Ratio};

/// Factors of a collective over `inside` members in each of `between` nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Correction {
    /// Which collective.
    pub kind: CollectiveKind,
    /// Members in a node.
    pub inside: u32,
    /// Nodes.
    pub between: u32,
    /// Size (the larger of a member's two buffers) and factor, by ascending size; not empty.
    pub points: Vec<(Bytes, Ratio)>,
}

impl Correction {
    /// Whether it is of this collective over these members.
    pub(super) fn suits(&self, kind: CollectiveKind, place: &Place) -> bool {
        (self.kind, self.inside, self.between) == (kind, place.inside, place.between)
    }

    /// The factor at `size` bytes.
    pub(super) fn factor(&self, size: f64) -> f64 {
        let value = |at: usize| self.points[at].1.0 as f64 / 1e6;
        let bytes = |at: usize| self.points[at].0.0 as f64;
        let above = self.points.iter().position(|(bytes, _)| bytes.0 as f64 >= size);
        match above {
            None => value(self.points.len() - 1),
            Some(0) => value(0),
            Some(at) => {
                let (low, high) = (bytes(at - 1).sqrt(), bytes(at).sqrt());
                let part = (size.sqrt() - low) / (high - low);
                value(at - 1) * (1.0 - part) + value(at) * part
            }
        }
    }
}
