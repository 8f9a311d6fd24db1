//! Which layers exchange their weight gradients together, and in which pieces.
//!
//! From the last layer to the first, gradients join a bucket as long as it has room. Those that are
//! exchanged in another way, or among other ranks, begin a new one. What is larger than a bucket is
//! cut into pieces that are as even as they come. Models in Python have the same buckets
//! (`workload/buckets.py`). Not here: when a bucket is exchanged (`loops.rs`). Source: Li et al.
//! 2020, arXiv:2006.15704.

use super::layers::{Layers, Pass};
use units::Bytes;

/// The layers of each bucket, the last one first, by the layer whose gradient completes it.
pub(super) fn buckets(layers: &Layers, size: Option<Bytes>) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    for layer in (0..layers.layers.len()).rev().filter(|&layer| kind(layers, layer).is_some()) {
        match found.last_mut().filter(|bucket| joins(layers, bucket, layer, size)) {
            Some(bucket) => bucket.push(layer),
            None => found.push(vec![layer]),
        }
    }
    let mut by_last = vec![Vec::new(); layers.layers.len()];
    for bucket in found {
        let last = bucket[bucket.len() - 1];
        by_last[last] = bucket;
    }
    by_last
}

/// The bytes of the layers' weight gradients together.
pub(super) fn bytes(layers: &Layers, bucket: &[usize]) -> u64 {
    let of = |&layer: &usize| layers.layers[layer].weight_gradient.bytes;
    bucket.iter().map(of).fold(0, u64::saturating_add)
}

/// The bytes of each collective that exchanges `bytes`.
pub(super) fn pieces(bytes: u64, size: Option<Bytes>) -> Vec<u64> {
    let count = u128::from(count(bytes, size));
    let until = |i: u128| (u128::from(bytes) * i / count) as u64;
    (0..count).map(|i| until(i + 1) - until(i)).collect()
}

/// The number of these collectives.
pub(super) fn count(bytes: u64, size: Option<Bytes>) -> u64 {
    size.map_or(1, |most| bytes.div_ceil(most.0.max(1)).max(1))
}

fn joins(layers: &Layers, bucket: &[usize], layer: usize, size: Option<Bytes>) -> bool {
    let together = bytes(layers, bucket).saturating_add(bytes(layers, &[layer]));
    size.is_some_and(|most| together <= most.0) && kind(layers, bucket[0]) == kind(layers, layer)
}

/// How and within which group a layer's weight gradients are exchanged.
fn kind(layers: &Layers, layer: usize) -> Option<(graph::CollectiveKind, super::layers::Scope)> {
    let collective = layers.layers[layer].weight_gradient.collective?;
    Some((collective, layers.scope(layer, Pass::WeightGradient)?))
}
