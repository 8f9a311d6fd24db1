//! Streams over memory: copies, scales, sums and other elementwise kernels.
//!
//! Model: `time = launch + bytes / (memory bandwidth * efficiency)`.
//! Source: McCalpin, "STREAM: Sustainable Memory Bandwidth in High Performance Computers".

use crate::values::{part, seconds};
use crate::{Chip, Estimate, Refused};
use declared::section;
use serde::Deserialize;
use units::{Ratio, Span};

section! {
    /// Streams over memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Parameters {
        /// Time of an empty kernel.
        pub launch: Span, required "2 us";
        /// Part of the memory bandwidth that long streams reach.
        pub efficiency: Ratio, required "0.9";
    }
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Bytes read and written.
    pub bytes: u64,
}

/// Time of a stream.
pub fn estimate(chip: &Chip, own: Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    let launch = seconds(own.launch);
    let memory = shape.bytes as f64 / (chip.memory * part(own.efficiency));
    Ok(Estimate {
        seconds: launch + memory,
        operations: 0.0,
        bytes: shape.bytes as f64,
        parts: vec![("launch", launch), ("memory", memory)],
    })
}
