//! The Python face of reference runs of other simulators: `armillary_lab._peers`.
//!
//! Here: conversions and exceptions. Not here: the runs (`peers`), and what files of other
//! simulators say of them (`armillary_lab.peers`). Signatures and their documentation are in
//! `lab/python/armillary_lab/_peers.pyi`.

mod flits;
mod packets;

use pyo3::prelude::*;

/// The native half of `armillary_lab.peers`.
#[pymodule]
mod _peers {
    #[pymodule_export]
    use super::flits::{
        booksim_alone, booksim_at_load, booksim_batches, garnet_all_reduce, garnet_all_to_all,
        garnet_synthetic,
    };
    #[pymodule_export]
    use super::packets::packet_all_reduce;
}
