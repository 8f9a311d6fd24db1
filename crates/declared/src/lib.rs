//! Keys of platform files, each declared once: name, type, unit, default, meaning, old names.
//!
//! `section!` declares a struct whose fields are the keys of a mapping. Its reader, its printed
//! form, its JSON, how parameters change by name, and its rows in the documentation follow. So do
//! constants with the names of the keys, such as `Nvls::latency`. Not here: the sections
//! (`config::native`, `library`, `platform`).
//!
//! ```ignore
//! section! {
//!     /// Reduction in a node's switch.
//!     #[derive(Clone, Debug, PartialEq)]
//!     pub struct Nvls {
//!         /// What it adds to a call.
//!         pub latency: Span, required;
//!         /// Fewest members in a node that use it.
//!         pub min_ranks: u32 as from_two, default 2, was ["least"];
//!     }
//! }
//! ```
//!
//! A key is `required`, has a `default` value, or is `like` an earlier key where it is left out.
//! - `as module` reads, prints and describes it by functions of that module (`counts!`).
//! - `says "text"` replaces the default in the documentation.
//! - `needed [words]` and `with [words]` name the models that need or read it ([`suited()`]).
//! - `was ["old"] by convert` names what it was called, and a function that converts old values.
//! - `struct Name by key` checks the keys that are given against the model that `key` names.
//! - `struct Name short key` lets a plain value stand for a mapping with that one key.

mod by_dim;
mod counts;
mod explained;
pub mod findings;
mod key;
mod keys_by_model;
pub mod parse;
mod problem;
mod reference;
mod renames;
mod section;
mod shown;
#[cfg(test)]
mod tests;
pub mod tree;
mod tried;
mod values;
mod words;

pub use by_dim::ByDim;
pub use explained::explained;
pub use key::{Absent, Key};
pub use keys_by_model::{Misfit, suited};
pub use problem::Problem;
pub use reference::{Listed, listed, table};
pub use renames::{rename, renamed_path};
pub use section::{absent, first, given, shortened};
#[doc(hidden)]
pub use serde_json;
pub use shown::{Shown, document};
pub use tried::Tried;
pub use values::Setting;
pub use words::Words;
