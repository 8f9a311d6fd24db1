//! A batch of bags: lengths and indices of all features, one after the other, and what can be wrong
//! with them.

use crate::fault::Fault;
use crate::tasks;

/// Numbers that one task looks through.
const FINITE: usize = 1 << 18;
/// Fewest indices that threads share.
const SHARED: usize = 1 << 17;

/// Integers of 32 or 64 bits.
#[derive(Clone, Copy, Debug)]
pub enum Integers<'a> {
    /// 32 bits.
    I32(&'a [i32]),
    /// 64 bits.
    I64(&'a [i64]),
}

/// An integer that may name a row.
pub trait Index: Copy + Send + Sync {
    /// The number; a negative one is larger than any table.
    fn row(self) -> u64;
}

impl Index for i32 {
    #[inline(always)]
    fn row(self) -> u64 {
        i64::from(self) as u64
    }
}

impl Index for i64 {
    #[inline(always)]
    fn row(self) -> u64 {
        self as u64
    }
}

impl Integers<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::I32(all) => all.len(),
            Self::I64(all) => all.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `at`.
    pub fn get(&self, at: usize) -> i64 {
        match self {
            Self::I32(all) => i64::from(all[at]),
            Self::I64(all) => all[at],
        }
    }
}

/// Bags of all features: those of the first feature, sample by sample, then those of the second.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Samples.
    pub samples: usize,
    /// Rows of each bag: `features * samples`.
    pub lengths: Integers<'a>,
    /// The rows, bag by bag.
    pub indices: Integers<'a>,
    /// Factor of each row.
    pub weights: Option<&'a [f32]>,
}

/// A feature, as far as a batch is checked against it.
pub struct Expected<'a> {
    /// Name of the feature.
    pub feature: &'a str,
    /// Table of the feature.
    pub table: &'a str,
    /// Rows of the table.
    pub rows: u64,
    /// Whether lookups may have weights.
    pub weighted: bool,
}

/// The first out of range of `indices`. The others are below `rows`.
fn out_of_range<I: Index>(indices: &[I], rows: u64) -> Option<usize> {
    // In blocks without a way out, which the compiler vectorizes.
    let all_in = |block: &[I]| block.iter().fold(true, |all, index| all & (index.row() < rows));
    let mut blocks = indices.chunks(1024).enumerate();
    let (block, indices) = blocks.find(|(_, block)| !all_in(block))?;
    indices.iter().position(|index| index.row() >= rows).map(|at| block * 1024 + at)
}

/// Where each bag starts in the indices, and their end: `features * samples + 1` numbers.
///
/// # Errors
///
/// The first fault of the batch: a number of lengths or weights that does not fit, a negative
/// length, lengths that do not add up, an index out of range, a weight that is not finite or that
/// the feature does not take.
pub fn check(
    batch: &Batch<'_>,
    features: &[Expected<'_>],
    threads: usize,
) -> Result<Vec<usize>, Fault> {
    let (samples, count) = (batch.samples, features.len());
    if Some(batch.lengths.len()) != samples.checked_mul(count) {
        let message = format!("{} lengths", batch.lengths.len());
        return Err(
            Fault::new("batch", message).allowed(format!("{count} features x {samples} samples"))
        );
    }
    let (offsets, negative) = match batch.lengths {
        Integers::I32(lengths) => offsets(lengths, i64::from),
        Integers::I64(lengths) => offsets(lengths, |length| length),
    };
    if let Some(bag) = negative {
        let place =
            format!("feature {:?}: sample {}", features[bag / samples].feature, bag % samples);
        let message = format!("length {}", batch.lengths.get(bag));
        return Err(Fault::new(place, message).allowed("0 or more"));
    }
    let indices = batch.indices.len();
    if offsets[offsets.len() - 1] != indices {
        let sum: i128 = (0..batch.lengths.len()).map(|at| i128::from(batch.lengths.get(at))).sum();
        let message = format!("lengths sum to {sum}, but there are {indices} indices");
        return Err(Fault::new("batch", message));
    }
    let sharing = if indices < SHARED { 1 } else { threads };
    let wrong = tasks::first(count, sharing, |at| {
        let (first, last) = (offsets[at * samples], offsets[(at + 1) * samples]);
        let found = match batch.indices {
            Integers::I32(all) => out_of_range(&all[first..last], features[at].rows),
            Integers::I64(all) => out_of_range(&all[first..last], features[at].rows),
        };
        found.map(|found| first + found)
    });
    if let Some(wrong) = wrong {
        let bag = offsets.partition_point(|&start| start <= wrong) - 1;
        let message = format!("index {}", batch.indices.get(wrong));
        let allowed = format!("0 to {}", features[bag / samples].rows - 1);
        let place = place(&offsets, samples, features, wrong);
        return Err(Fault::new(place, message).allowed(allowed));
    }
    weights(batch, features, &offsets, threads)?;
    Ok(offsets)
}

/// Checks the weights of a batch.
fn weights(
    batch: &Batch<'_>,
    features: &[Expected<'_>],
    offsets: &[usize],
    threads: usize,
) -> Result<(), Fault> {
    let Some(weights) = batch.weights else { return Ok(()) };
    if weights.len() != batch.indices.len() {
        let message = format!("{} weights for {} indices", weights.len(), batch.indices.len());
        return Err(Fault::new("batch", message));
    }
    if let Some(feature) = features.iter().find(|feature| !feature.weighted) {
        let place = format!("feature {:?}", feature.feature);
        let message = "a batch with weights, but the rows of this feature are not summed";
        return Err(Fault::new(place, message).allowed("weights with pooling \"sum\" only"));
    }
    if let Some(at) = first_not_finite(weights, threads) {
        let message = format!("the weight of a lookup is {}", weights[at]);
        return Err(Fault::new(place(offsets, batch.samples, features, at), message));
    }
    Ok(())
}

/// The first of `numbers` that is infinite or not a number.
pub fn first_not_finite(numbers: &[f32], threads: usize) -> Option<usize> {
    let all_finite = |block: &[f32]| block.iter().fold(true, |all, x| all & x.is_finite());
    tasks::first(numbers.len().div_ceil(FINITE), threads, |task| {
        let first = task * FINITE;
        let part = &numbers[first..numbers.len().min(first + FINITE)];
        let (block, numbers) =
            part.chunks(1024).enumerate().find(|(_, block)| !all_finite(block))?;
        let at = numbers.iter().position(|number| !number.is_finite())?;
        Some(first + block * 1024 + at)
    })
}

/// Sums of the lengths before each bag, and the first bag with a negative length. A sum that is too
/// large for any batch stays so.
fn offsets<T: Copy>(lengths: &[T], number: impl Fn(T) -> i64) -> (Vec<usize>, Option<usize>) {
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    let mut sum = 0usize;
    offsets.push(sum);
    for (block, lengths) in lengths.chunks(1024).enumerate() {
        // Without a way out, which the compiler vectorizes.
        let bits = lengths.iter().fold(0, |bits, &length| bits | number(length));
        if bits < 0 {
            let at = lengths.iter().position(|&length| number(length) < 0);
            return (offsets, at.map(|at| block * 1024 + at));
        }
        if bits >> 32 == 0 && sum >> 62 == 0 {
            offsets.extend(lengths.iter().map(|&length| {
                sum += number(length) as usize;
                sum
            }));
        } else {
            offsets.extend(lengths.iter().map(|&length| {
                sum = sum.saturating_add(number(length) as usize);
                sum
            }));
        }
    }
    (offsets, None)
}

/// Names the table, feature and sample of the lookup at `at`.
fn place(offsets: &[usize], samples: usize, features: &[Expected<'_>], at: usize) -> String {
    let bag = offsets.partition_point(|&first| first <= at) - 1;
    let Expected { feature, table, .. } = features[bag / samples];
    format!("table {table:?}: feature {feature:?}: sample {}", bag % samples)
}
