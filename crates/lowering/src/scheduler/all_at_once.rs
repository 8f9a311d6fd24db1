//! All dimensions at once: a collective is cut into shares, and each begins on a dimension of its
//! own.
//!
//! Share r takes the dimensions in the order `r, r+1, ..., D, 1, ..., r-1`. With `L(r, d)`, the time
//! that the whole collective in this order keeps the links of dimension d, the shares `w(r)` add up
//! to 1 and make the largest load `max over d of sum over r of w(r) L(r, d)` small: sixty-fourths
//! are given out one after the other, each where the sorted loads stay lowest. Where all dimensions
//! are alike the shares are equal, and so are all loads: every link of an NPU works all the time,
//! in the number of rounds that one chunk takes.
//!
//! A share is cut into chunks, so that reductions and latencies of one hide behind the bytes of
//! others, but not where the latencies of a chunk take more than four times as long as its bytes:
//! small collectives wait for latencies, and chunks for one another. Not here: chunks of a share, and their phases (`native/orders.rs`). Source:
//! the torus collectives that jax-ml/scaling-book, "Sharded matrices", counts with: bytes over the
//! links of all axes.

use super::job::{Costs, Job, Order, Weigh};
use graph::Problem;
use units::Span;

/// Parts of a collective, for each dimension, that are given to shares.
const GRAINS: u32 = 64;

/// Latencies of a chunk over the time of its bytes, at most.
const LATENCIES: u64 = 4;

/// A part of a collective.
pub struct Share {
    /// The dimensions in order.
    pub order: Order,
    /// Part of the bytes, in grains; the grains of all shares are the whole.
    pub grains: u32,
    /// Chunks that it is cut into at most.
    pub chunks: u32,
}

/// The orders: one that begins on each dimension, where dimensions that can only do whole
/// all-reduces come last.
fn rotations(whole: &[bool]) -> Vec<Order> {
    let (last, free): (Order, Order) = (0..whole.len() as u32).partition(|&at| whole[at as usize]);
    let rotated = |by: usize| {
        let mut order = free.clone();
        order.rotate_left(by);
        order.into_iter().chain(last.iter().copied()).collect()
    };
    (0..free.len()).map(rotated).collect()
}

/// Equal shares of `dims` dimensions about which nothing is known.
pub(super) fn equal(dims: usize) -> Vec<Share> {
    let share = |order| Share { order, grains: GRAINS, chunks: u32::MAX };
    rotations(&vec![false; dims]).into_iter().map(share).collect()
}

/// The shares of a collective of one chunk.
///
/// # Errors
/// Those of `costs`.
pub(super) fn shares(job: &Job, costs: &Costs) -> Result<Vec<Share>, Problem> {
    let orders = rotations(job.whole);
    let whole: u64 = job.chunks.iter().sum();
    let add = |bytes: u64, order: &Order, weigh: &Weigh| {
        let mut loads = vec![Span::ZERO; job.dims.len()];
        job.load(bytes, order, weigh, &mut loads).map(|()| loads)
    };
    let loads = |order| add(whole, order, &|phase| costs(phase).map(|c| c.link));
    let loads: Vec<Vec<Span>> = orders.iter().map(loads).collect::<Result<_, _>>()?;
    let all = GRAINS as usize * orders.len();
    let mut shares = Vec::with_capacity(orders.len());
    for ((order, grains), loads) in orders.into_iter().zip(level(&loads)).zip(loads) {
        let sum = |loads: Vec<Span>| loads.into_iter().map(|load| u128::from(load.0)).sum::<u128>();
        // One byte takes its latencies and nothing else.
        let latencies = sum(add(1, &order, &|phase| costs(phase).map(|c| c.alone))?);
        let bytes = sum(loads) * u128::from(grains) / all as u128;
        let chunks = (u128::from(LATENCIES) * bytes).checked_div(latencies);
        let chunks = chunks.map_or(u32::MAX, |chunks| u32::try_from(chunks).unwrap_or(u32::MAX));
        shares.push(Share { order, grains, chunks: chunks.max(1) });
    }
    shares.retain(|share| share.grains > 0);
    Ok(shares)
}

/// Gives out grains: each to the order with which the loads stay lowest, the largest one first; at
/// equal loads to the order that has fewest.
fn level(loads: &[Vec<Span>]) -> Vec<u32> {
    let mut sums = vec![Span::ZERO; loads.first().map_or(0, Vec::len)];
    let mut grains = vec![0; loads.len()];
    for _ in 0..GRAINS as usize * loads.len() {
        let with = |order: usize| {
            let mut with: Vec<Span> =
                sums.iter().zip(&loads[order]).map(|(a, b)| *a + *b).collect();
            with.sort_unstable_by(|a, b| b.cmp(a));
            (with, grains[order])
        };
        let Some(best) = (0..loads.len()).min_by_key(|&order| with(order)) else { break };
        sums.iter_mut().zip(&loads[best]).for_each(|(sum, load)| *sum += *load);
        grains[best] += 1;
    }
    grains
}
