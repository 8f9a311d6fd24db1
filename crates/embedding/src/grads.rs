//! Where the gradient of a lookup is: the part of the result's gradient that belongs to its bag.

use crate::batch::Batch;
use crate::engine::{Engine, Feature, Pooling};

/// The gradient of a result, and how lookups refer to it. A lookup's *source* is a code of its bag,
/// or its place in the batch where that matters: with weights and without pooling.
pub struct Grads<'a> {
    grad: &'a [f32],
    width: usize,
    offsets: &'a [usize],
    samples: usize,
    /// First column of each feature.
    columns: Vec<usize>,
    /// Bits of a sample in a bag's code; the feature is above.
    shift: u32,
    kind: Kind<'a>,
}

enum Kind<'a> {
    /// Bags, all of whose rows have the bag's gradient; or its share, in the features with a mean.
    Bags(Vec<bool>),
    /// Lookups with their own gradients.
    Rows,
    /// Lookups with a factor, and the code of their bag.
    Weighted(&'a [f32], Vec<u64>),
}

impl<'a> Grads<'a> {
    /// The gradient `grad`, which has the engine's shape, of a batch that was checked.
    pub fn new(engine: &Engine, batch: &Batch<'a>, offsets: &'a [usize], grad: &'a [f32]) -> Self {
        let (_, width) = engine.shape(batch.samples, batch.indices.len());
        let shift = usize::BITS - batch.samples.leading_zeros();
        let samples = batch.samples;
        let kind = match batch.weights {
            Some(weights) => {
                let mut codes = Vec::with_capacity(weights.len());
                for (bag, ends) in offsets.windows(2).enumerate() {
                    let code = ((bag / samples) << shift) | (bag % samples);
                    codes.resize(ends[1], code as u64);
                }
                Kind::Weighted(weights, codes)
            }
            None if engine.is_unpooled() => Kind::Rows,
            None => {
                let mean = |feature: &Feature| feature.pooling == Pooling::Mean;
                Kind::Bags(engine.features().iter().map(mean).collect())
            }
        };
        Self { grad, width, offsets, samples, columns: engine.columns(), shift, kind }
    }

    /// Bags of a feature: their sources and where their lookups are.
    pub fn bag(&self, feature: usize, sample: usize) -> (u64, std::ops::Range<usize>) {
        let bag = feature * self.samples + sample;
        (((feature << self.shift) | sample) as u64, self.offsets[bag]..self.offsets[bag + 1])
    }

    /// Whether the source of a lookup is the code of its bag, not its place.
    pub fn by_bag(&self) -> bool {
        matches!(self.kind, Kind::Bags(_))
    }

    /// All sources are below this.
    pub fn sources(&self) -> u64 {
        if self.by_bag() {
            (self.columns.len() as u64) << self.shift
        } else {
            self.offsets[self.offsets.len() - 1] as u64
        }
    }

    /// The feature and the sample of a code.
    #[inline(always)]
    fn coded(&self, code: usize) -> (usize, usize) {
        (code >> self.shift, code & ((1 << self.shift) - 1))
    }

    /// Where the gradient of a lookup starts, and its factor.
    #[inline(always)]
    pub fn of(&self, source: usize) -> (usize, f32) {
        match &self.kind {
            Kind::Bags(mean) => {
                let (feature, sample) = self.coded(source);
                let place = sample * self.width + self.columns[feature];
                if !mean[feature] {
                    return (place, 1.0);
                }
                let bag = feature * self.samples + sample;
                (place, 1.0 / (self.offsets[bag + 1] - self.offsets[bag]) as f32)
            }
            Kind::Rows => (source * self.width, 1.0),
            Kind::Weighted(weights, codes) => {
                let (feature, sample) = self.coded(codes[source] as usize);
                (sample * self.width + self.columns[feature], weights[source])
            }
        }
    }

    /// The gradient from `at` on.
    #[inline(always)]
    pub fn from(&self, at: usize) -> *const f32 {
        self.grad.as_ptr().wrapping_add(at)
    }
}
