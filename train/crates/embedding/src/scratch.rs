//! Memory that threads use again.

use crate::sort::{Lookup, Packed};
use std::sync::Mutex;

/// Sixteen numbers in one line of a cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct Vector(pub [f32; 16]);

/// Memory that a thread keeps from range to range, and from step to step.
#[derive(Default)]
pub struct Scratch {
    /// Lookups and room to sort them.
    pub packed: [Vec<Packed>; 2],
    /// The same, where rows or sources need more bits.
    pub wide: [Vec<Lookup>; 2],
    /// Gradients of bags.
    pub grads: Vec<Vector>,
    /// The sums of their squares.
    pub squares: Vec<f32>,
    /// Factors and bags of lookups with weights.
    pub factors: (Vec<f32>, Vec<u32>),
}

/// Scratch that no thread uses at the moment.
pub type Spare = Mutex<Vec<Scratch>>;
