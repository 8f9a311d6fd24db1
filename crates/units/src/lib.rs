//! Physical quantities of the simulator, exact and integer: picoseconds, bytes, bytes per second,
//! operations per second, cycles per second, and factors.
//!
//! Here: the types, their arithmetic, the one rounding rule (up, in 128 bits), and parsing and
//! printing with units. Not here: what the quantities mean (topology, device) and event order
//! (engine). Equation: `span(bytes, bandwidth) = ceil(bytes * 1e12 / bandwidth)` picoseconds.

mod decimal;
mod parse;
mod print;
mod quantity;

pub use decimal::{QuantityError, Reason};
pub use quantity::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span, Time};
