//! Sixteen numbers at a time, with one implementation for each instruction set. All of them give
//! the same bits.
#![allow(unsafe_code)] // Rows of tables are read and written through pointers, by intrinsics.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod call;
mod element;
mod level;
mod portable;
#[cfg(test)]
mod tests;
mod vector;

pub use call::{Kernel, call};
pub use element::{Bf16, Element, F16, F32, I8, Stored, load_part, store_part};
pub use level::Level;
pub use portable::ask;
pub use vector::{Lanes, WIDTH};
