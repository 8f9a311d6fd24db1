//! The settings of the built-in network backends, each declared once: its key in platform files,
//! default, bounds and meaning.
//!
//! The reader of platform files (`platform`) and the backends (`net-*`) both use these types, so
//! that nothing translates one into the other. Here: one file for each backend, `packet/` and
//! `flit/` for those with many keys. Not here: which backend runs (`platform`), and what a setting
//! does (`net-*`).

pub mod analytical;
mod entries;
pub mod external;
pub mod flit;
pub mod flow;
pub mod link;
pub mod packet;
