//! Steps and memory of many layouts of one model, composed of times of their parts.
//!
//! The parts of a step are timed by the simulator, each alone. Here they are put together: the
//! passes of a pipeline in their order (`passes.rs`, `pipeline.rs`), walking through them with few of
//! its periods (`repeats.rs`, `rates.rs`), the time of a step (`step.rs` with `forms.rs`,
//! `estimate.rs` with `traffic.rs`, `apart.rs`), the peak memory of a rank (`memory.rs`), and both for
//! a whole space of layouts (`space.rs`, `picture.rs`).
//! Not here: which layouts there are, and what a layer does (`python/armillary/workload`). All times
//! are ps, all sizes bytes.

mod apart;
mod estimate;
mod forms;
mod memory;
mod parts;
mod passes;
mod picture;
mod pipeline;
mod rates;
mod repeats;
mod space;
mod step;
mod traffic;

pub use estimate::{Op, STARTED};
pub use memory::{Held, Stage};
pub use parts::{Block, Data, Gradients, Place, Sizes, Split, Unit, Work};
pub use passes::{Kind, Pass, Schedule, order};
pub use picture::Cell;
pub use pipeline::Pipeline;
pub use space::{Answer, Found, Group, Limits, Space, Tally};
