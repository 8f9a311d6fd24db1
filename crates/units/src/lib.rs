//! Physical quantities of the simulator, exact and integer: picoseconds, bytes, bytes per second,
//! operations per second, cycles per second, and factors.
//!
//! Here: the types, their arithmetic, the one rounding rule (up, in 128 bits), and parsing and
//! printing with units. Not here: what the quantities mean (topology, device) and event order
//! (engine). Equation: `span(bytes, bandwidth) = ceil(bytes * 1e12 / bandwidth)` picoseconds.
//!
//! Fields are public: every number is a valid quantity, so a constructor would have nothing to
//! check. Rates of zero are refused where they are parsed.

mod decimal;
mod parse;
mod print;
mod quantity;

pub use decimal::{QuantityError, Reason};
pub use print::counted;
pub use quantity::{
    Bandwidth, Bytes, Flops, Frequency, GIGA, PS_PER_NS, PS_PER_US, Ratio, Span, TERA, Time,
};
