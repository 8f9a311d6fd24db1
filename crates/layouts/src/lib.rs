//! Steps and memory of many layouts of one model, composed of times of their parts.
//!
//! The parts of a step are timed by the simulator, each alone. Here they are put together: the
//! passes of a pipeline in their order (`passes.rs`, `pipeline.rs`), walking through them with few of
//! its periods (`stop.rs`, `repeats.rs`, `rates.rs`), the time of a step (`step.rs` with `forms.rs`,
//! `estimate.rs` with `script.rs`, `traffic.rs`, `apart.rs`), the peak memory of a rank (`memory.rs`), and both for
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
mod script;
mod space;
mod step;
mod stop;
mod traffic;

pub use memory::{Held, Stage};
pub use parts::{Block, Data, Gradients, Place, Sizes, Split, Unit, Work};
pub use passes::{Kind, Pass, Schedule, order};
pub use picture::Cell;
pub use pipeline::Pipeline;
pub use script::{Op, STARTED};
pub use space::{Answer, Found, Group, Limits, Space, Tally};
