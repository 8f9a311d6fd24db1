//! Predictions of a platform's library for a collective or a message, outside any run.

use super::pairwise::message;
use super::place::Placement;
use super::time::{Prediction, predict};
use crate::shape::Shape;
use graph::CollectiveKind;
use platform::Platform;
use units::Span;

/// Prediction of the library for a collective of all NPUs, `bytes` as a workload counts them;
/// `None` where it has no part in it.
pub fn choice(platform: &Platform, kind: CollectiveKind, bytes: u64) -> Option<Prediction> {
    let collectives = &platform.collectives;
    let own = collectives.choices[kind as usize].is_some()
        || platform.custom_paths.kinds[kind as usize].is_some();
    let library = platform.library.as_ref().filter(|_| !own)?;
    predict(library, &Placement::of(&platform.fabric, &Shape::World, |_| true), kind, bytes)
}

/// Time of a message of the library alone over the outermost dimension.
pub fn message_time(platform: &Platform, bytes: u64) -> Option<Span> {
    let dim = platform.fabric.sizes().iter().rposition(|&size| size > 1)?;
    message(platform.library.as_ref()?, &platform.fabric, dim as u32, bytes)
}

/// Times of the library, us, for each of `bytes` (as a workload counts them) with parameters
/// changed by key; `None` where it has no part in it.
///
/// # Errors
/// The first key that it has no parameter for.
pub fn times<'k>(
    platform: &Platform,
    changes: &'k [(String, f64)],
    kind: CollectiveKind,
    bytes: &[u64],
) -> Result<Option<Vec<f64>>, &'k str> {
    let Some(mut library) = platform.library.clone() else { return Ok(None) };
    for (key, value) in changes {
        library.change(key, *value)?;
    }
    let place = Placement::of(&platform.fabric, &Shape::World, |_| true);
    let time = |&bytes: &u64| predict(&library, &place, kind, bytes).map(|p| p.time.as_ns() / 1e3);
    Ok(bytes.iter().map(time).collect())
}
