//! Chakra execution traces: files to [`graph::Workload`] and back.
//!
//! Read, by content and not by file name:
//! - protobuf (`GlobalMetadata` then `Node` messages, each behind its varint length) of every
//!   public schema: 0.0.4 with typed attributes and its neighbours before and after (2023 to now),
//!   the attributes with type numbers before it (2023), and the attribute-less "eg" and "et"
//!   schemas of 2022; `schema.rs` has the tables;
//! - JSON: the messages as protobuf's JSON mapping prints them (the Chakra jsonizer), and
//!   `{"workload_graph": [...]}` (Chakra's JSON feeder); fractions of microseconds are kept;
//! - either of them gzipped, or in a tar archive, plain or gzipped.
//!
//! PyTorch host traces and Kineto profiles are recognised and refused by name: they hold no Chakra
//! nodes yet.
//!
//! What a rank does is kept as seen from that rank: `peer = other - rank`, groups are slots
//! numbered in the order of first use. Ranks that do the same then have equal programs, and equal
//! programs are stored once. Not here: custom collectives (`crate::custom`), checks across ranks
//! (`graph::check`).

mod assemble;
mod attrs;
mod binary;
mod compact;
mod decode;
mod decoded;
mod find;
mod groups;
mod json;
mod marks;
mod notes;
mod pattern;
#[cfg(test)]
mod pattern_tests;
pub(crate) mod problems;
mod schema;
pub(crate) mod source;
#[cfg(test)]
mod tests;
mod write;

pub use assemble::read;
pub use compact::write as write_compact;
pub use decoded::{Decoded, ReadOptions, SlotName};
pub use find::{Found, find};
pub use write::{write_groups, write_json, write_protobuf, write_ranks};

use decode::Decoder;
use graph::Problem;

/// Reads the uncompressed trace `bytes` of `rank`, protobuf or JSON.
///
/// # Errors
/// Everything that is wrong with it, `file` standing for its name.
pub fn decode(
    bytes: &[u8],
    file: &str,
    rank: u32,
    options: &ReadOptions,
) -> Result<Decoded, Vec<Problem>> {
    let decoder = Decoder::new(file, rank, options);
    match source::sniff(bytes) {
        source::Format::Json => json::decode(bytes, decoder),
        source::Format::Binary => {
            let mut reader = binary::BinaryReader::new(decoder);
            // A fault is in the decoder's problems already.
            let _ = reader.block(bytes, true);
            reader.decoder.finish()
        }
        other => Err(vec![source::refuse(other, file, rank)]),
    }
}
