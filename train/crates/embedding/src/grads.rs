//! Gradients of bags next to each other. In the gradient of a result they are a row of it apart,
//! often a power of two, so that few sets of a cache hold all of them.

use crate::batch::Batch;
use crate::engine::{Engine, Pooling};
use crate::lanes::ask;
use crate::scratch::Vector;
use std::ops::Range;

/// Bags ahead of the current one whose gradient is asked for.
const AHEAD: usize = 16;

/// The gradient of a result, and the bags of the batch.
pub struct Grads<'a> {
    pub grad: &'a [f32],
    /// Numbers from a row of the result to the next.
    pub width: usize,
    /// First column of each feature.
    pub columns: Vec<usize>,
    /// Where each bag starts in the lookups, and the end.
    pub offsets: &'a [usize],
    pub samples: usize,
    pub unpooled: bool,
}

impl<'a> Grads<'a> {
    /// The gradient `grad`, which has the engine's shape, of a batch that was checked.
    pub fn new(engine: &Engine, batch: &Batch<'a>, offsets: &'a [usize], grad: &'a [f32]) -> Self {
        let (_, width) = engine.shape(batch.samples, batch.indices.len());
        let unpooled = engine.is_unpooled();
        Self { grad, width, columns: engine.columns(), offsets, samples: batch.samples, unpooled }
    }

    /// The lookups of a bag.
    pub fn bag(&self, feature: usize, sample: usize) -> Range<usize> {
        let bag = feature * self.samples + sample;
        self.offsets[bag]..self.offsets[bag + 1]
    }

    /// The lookups of a feature.
    pub fn lookups(&self, feature: usize) -> Range<usize> {
        self.offsets[feature * self.samples]..self.offsets[(feature + 1) * self.samples]
    }

    /// The gradient of a bag with `dim` columns.
    pub fn of_bag(&self, feature: usize, sample: usize, dim: usize) -> &'a [f32] {
        &self.grad[sample * self.width + self.columns[feature]..][..dim]
    }

    /// The gradients of `features`, which look into one table with `dim` columns. They are copied to
    /// `to`, unless that would only read them once more.
    pub fn sources(
        &self,
        features: &[usize],
        pooling: impl Fn(usize) -> Pooling,
        dim: usize,
        to: &mut Vec<Vector>,
    ) -> Sources<'static> {
        to.clear();
        if let [feature] = *features
            && dim.is_multiple_of(16)
        {
            let lookups = self.lookups(feature);
            let there = |start: usize, stride| {
                let grads = self.grad.as_ptr().wrapping_add(start);
                Sources { grads, stride, far: true, factors: None, squares: None }
            };
            match pooling(feature) {
                Pooling::None => return there(lookups.start * dim, dim),
                Pooling::Sum if lookups.len() <= self.samples => {
                    return there(self.columns[feature], self.width);
                }
                _ => {}
            }
        }
        for &feature in features {
            self.copy(feature, pooling(feature), dim, to);
        }
        let (grads, stride) = (to.as_ptr().cast(), dim.next_multiple_of(16));
        Sources { grads, stride, far: false, factors: None, squares: None }
    }

    /// Adds the gradients of a feature to `to`, each in whole vectors: one for each bag, which the
    /// rows of a mean share; without pooling, one for each lookup.
    fn copy(&self, feature: usize, pooling: Pooling, dim: usize, to: &mut Vec<Vector>) {
        if pooling == Pooling::None {
            let rows = self.lookups(feature);
            self.grad[rows.start * dim..rows.end * dim]
                .chunks(dim)
                .for_each(|row| push(row, 1.0, to));
            return;
        }
        to.reserve(self.samples * dim.div_ceil(16));
        for sample in 0..self.samples {
            if sample + AHEAD < self.samples {
                let ahead = self.of_bag(feature, sample + AHEAD, dim);
                ahead.iter().step_by(16).for_each(|number| ask(number));
            }
            let rows = self.bag(feature, sample).len().max(1);
            let share = if pooling == Pooling::Mean { 1.0 / rows as f32 } else { 1.0 };
            push(self.of_bag(feature, sample, dim), share, to);
        }
    }
}

/// Adds `share` of `from` to `to`, in whole vectors.
fn push(from: &[f32], share: f32, to: &mut Vec<Vector>) {
    let (whole, rest) = from.as_chunks::<16>();
    if share == 1.0 {
        to.extend(whole.iter().map(|numbers| Vector(*numbers)));
    } else {
        to.extend(whole.iter().map(|numbers| Vector(numbers.map(|number| number * share))));
    }
    if !rest.is_empty() {
        let mut vector = Vector::default();
        vector.0.iter_mut().zip(rest).for_each(|(to, from)| *to = from * share);
        to.push(vector);
    }
}

/// Where the gradient of a lookup is. Its source is the number of its bag, or its own number; with
/// factors, the source is its place in the two lists.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The gradients.
    pub grads: *const f32,
    /// Numbers from one to the next.
    pub stride: usize,
    /// Whether they were not copied just now, and so are asked for.
    pub far: bool,
    /// Numbers, and bag of each lookup, if lookups have factors.
    pub factors: Option<(&'a [f32], &'a [u32])>,
    /// The sum of the squares of each gradient, if it is known.
    pub squares: Option<&'a [f32]>,
}

impl Sources<'_> {
    /// The gradient of a lookup, and its factor.
    #[inline(always)]
    pub fn of<const FACTORS: bool>(&self, source: usize) -> (*const f32, f32) {
        let (at, factor) = match self.factors {
            Some((factors, bags)) if FACTORS => (bags[source] as usize, factors[source]),
            _ => (source, 1.0),
        };
        (self.grads.wrapping_add(at * self.stride), factor)
    }
}
