//! Readers and writers of traces: files to [`graph::Workload`] and back.
//!
//! Here: Chakra execution traces ([`chakra`]), text workloads of ASTRA-sim 1.0 ([`text`]), custom
//! collectives as Chakra files ([`custom`]) or MSCCL XML ([`msccl`]); [`read()`] distinguishes
//! workloads by their content. Written only: Perfetto's traces ([`perfetto`]). Not here: the checks
//! across ranks (`graph::check`), what a trace means in time (`sim`). Everything wrong with an
//! input is a [`graph::Problem`]; nothing a file holds can panic a reader.

pub mod chakra;
pub mod custom;
pub mod msccl;
pub mod perfetto;
mod read;
pub mod text;
mod wire;

pub use read::read;
