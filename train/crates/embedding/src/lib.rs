//! Embedding tables and what a training step does with them: lookups of all tables in one call, and
//! gradients that meet the optimizer row by row. Also the products of pairs of features. Knows no
//! Python and no torch.
//!
//! A batch is *features* by *samples*. Each pair of them is a *bag*: the rows of the feature's table
//! that the sample looks up. Results have the same bits for any number of threads and any
//! instruction set: sums have one order, no multiplication is fused with an addition, and sums over
//! a row are those of 16 lanes.

pub mod distribution;

mod backward;
mod batch;
mod cache;
mod engine;
mod fault;
mod fill;
mod forward;
mod gradient;
mod grads;
mod initial;
mod lanes;
mod memory;
mod optimizer;
pub mod pairs;
mod part;
mod passes;
mod precision;
mod prepared;
mod random;
mod row;
mod scratch;
mod sort;
mod table;
mod tasks;
mod update;
mod workers;

pub use batch::{Batch, Expected, Integers, check};
pub use cache::{Cache, Caching, Counts, Folder, Policy, Staging};
pub use engine::{Engine, Feature, Pooling};
pub use fault::Fault;
pub use lanes::Level;
pub use memory::{Memory, Pool};
pub use optimizer::{Optimizer, Round, RowSums, Rule};
pub use part::Part;
pub use precision::Precision;
pub use table::Table;
