//! Layouts whose collectives never wait for each other: their estimate is their bound.
//!
//! That is so where no kernel loses speed next to collectives, no passes run side by side, and the
//! collectives of layers, of dense parameters, of experts and of replicas use dimensions of their
//! own. A layer then takes in a step what it takes alone.

use crate::parts::{Block, Data, Unit};
use crate::script::Op;
use crate::step::Walk;
use crate::traffic::Traffic;

/// Dimensions that collectives of a block's layers use, a bit for each; none where a layer next to
/// other collectives takes another time than alone.
pub(crate) fn dims(block: &Block, scripts: &[Vec<Op>], slowdown: f64) -> Option<u8> {
    let mut found = 0;
    for unit in &block.units {
        let Unit { forward, narrow, again, backward, inputs, weights, .. } = unit;
        let works = [forward, narrow, again, backward, inputs, weights];
        for (work, &script) in works.into_iter().zip(&unit.scripts) {
            let script = &scripts[script as usize];
            let mut traffic = Traffic::default();
            let end = traffic.play(0, script, 0.0);
            if slowdown != 0.0 || end != work.time || !traffic.is_quiet(end) {
                return None;
            }
            found |= script.iter().fold(0, |dims, op| dims | op.dims());
        }
    }
    Some(found)
}

/// Whether no collectives of a layout wait for each other; `layers` are the dimensions that its
/// layers use.
pub(crate) fn holds(walk: &Walk<'_>, layers: u8) -> bool {
    let data = walk.data;
    let any = |times: &[[u64; 2]], at: usize| times.iter().any(|each| each[at] > 0);
    let own =
        |at: usize| any(&data.reduce, at) || any(&data.gather, at) || any(&data.reduce_all, at);
    let used = [own(0), own(1), any(&data.replicas, 0) || any(&data.replicas, 1)];
    let mut taken = layers;
    let apart = used.into_iter().zip(data.dims).filter(|&(used, _)| used).all(|(_, dims)| {
        let free = taken & dims == 0;
        taken |= dims;
        free
    });
    apart && !walk.pipeline.overlaps && in_pieces(data)
}

/// Whether just those reductions have pieces that take time.
fn in_pieces(data: &Data) -> bool {
    data.reduce.len() == data.pieces.len()
        && data.reduce.iter().zip(&data.pieces).all(|(times, pieces)| {
            times.iter().zip(pieces).all(|(&time, &count)| (time > 0) == (count > 0))
        })
}
