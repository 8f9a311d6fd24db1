//! Values of parameters as formulas take them, and words as platform files write them.

use serde::Serialize;
use units::{Ratio, Span};

/// The part of a `Ratio`.
pub fn part(ratio: Ratio) -> f64 {
    ratio.0 as f64 * 1e-6
}

/// The seconds of a `Span`.
pub fn seconds(span: Span) -> f64 {
    span.0 as f64 * 1e-12
}

/// The word of a choice, such as `triton_kernels`.
pub fn word(choice: impl Serialize) -> String {
    let value = serde_json::to_value(choice).unwrap_or_default();
    value.as_str().unwrap_or_default().to_string()
}
