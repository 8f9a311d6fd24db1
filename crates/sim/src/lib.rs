//! The simulator: checks, choice of parts, symmetry classes, report and the main path.
//!
//! Start at [`run()`].

mod accesses;
mod assumptions;
pub mod backends;
mod bounds;
mod capture;
mod check;
mod config;
pub mod contract;
mod error;
pub mod estimate;
mod exchange;
mod external_settings;
mod flit_refusals;
mod flits;
pub mod floor;
mod labels;
mod memory;
pub mod named_files;
mod names;
mod network;
mod packets;
mod parts;
mod picture;
mod pools;
mod report;
mod run;
mod symmetry;
pub mod text;
pub mod traffic;
mod wiring;

pub use backends::BackendKind;
pub use config::{Config, Source, Watch};
pub use error::Error;
pub use exchange::{Channel, Exchange};
pub use parts::{ClassTimes, Outcome};
pub use picture::picture_json;
pub use run::{OnEstimate, check, ends, read, run, run_with, run_with_estimate};
pub use wiring::wiring_json;
