//! Messages of ranks when tables are sharded: indices on their way to the shards, pooled rows on
//! their way back.
//!
//! A *block* is the lengths of some samples' bags of one feature, and their indices. Batches are
//! concatenated blocks: all lengths, then all indices. A rank routes its batch ([`Router`]): whole
//! features are copied to each of their shards, features of tables cut by rows are bucketized. What
//! it receives from `W` ranks, for `T` local features, is in the order `(W, T, B)`;
//! [`Blocks::permute_lookups`] makes `(T, W, B)` of it. [`Columns`] moves pooled rows between a
//! batch's order and that of the shards. Everything keeps the order of samples and of positions within a
//! bag.

mod columns;
mod number;
mod permute;
mod route;
#[cfg(test)]
mod tests;
mod wide;

pub use columns::{Columns, Run};
pub use number::Number;
pub use permute::Blocks;
pub use route::{Cut, Router, Routes, Sent};
