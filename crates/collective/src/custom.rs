//! Algorithms read from files: a small operation graph for each position (Chakra custom collectives, MSCCL XML).
//!
//! The sizes are the file's own for Chakra; for MSCCL they are fractions of the buffer and `Custom::scaled` makes bytes of them.

use graph::Program;
use std::sync::Arc;

/// One algorithm from a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Custom {
    /// Name for people and errors.
    pub name: String,
    /// One program a position; sends and receives use peer offsets in positions. Programs may be shared.
    pub positions: Vec<Arc<Program>>,
}
