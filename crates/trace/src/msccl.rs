//! MSCCL algorithms: the XML that MSCCL's runtime and msccl-tools exchange.
//!
//! `<algo name coll ngpus nchunksperloop ...>` holds a `<gpu id i_chunks o_chunks s_chunks>` for
//! each rank, that holds threadblocks `<tb id send recv chan>` (peers, -1 for none), that hold
//! `<step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep>`. Steps of a threadblock run in
//! order; `depid`, `deps` name a threadblock and step of the same rank to wait for. What a rank
//! sends another over a channel arrives in the order of its steps. Equation: `chunk = buffer /
//! nchunksperloop`, the buffer being the larger of input and output; `bytes = ceil(cnt * chunk)`.
//! What an algorithm computes is in `proof.rs`. Source: the XML emitter
//! of msccl-tools and the parser in MSCCL's runtime.

mod algorithm;
mod parse;
mod proof;

pub use algorithm::{Algorithm, Buffer, Step, StepKind, Threadblock};
pub use proof::Proof;

use graph::Problem;
use parse::Parser;
use roxmltree::Document;
use std::path::Path;

/// Reads an algorithm from a file.
///
/// # Errors
/// As [`parse()`], and files that can't be read.
pub fn read(path: &Path) -> Result<Algorithm, Vec<Problem>> {
    let name = path.display().to_string();
    match files::read(path, files::MOST_TEXT) {
        Ok(bytes) => parse(&bytes, &name),
        Err(error) => Err(vec![
            Problem::new(name, "", format!("can't be read: {error}")).help("an MSCCL XML file"),
        ]),
    }
}

/// Reads an algorithm from XML, `file` standing for its name.
///
/// # Errors
/// Everything wrong with it, with line and value.
pub fn parse(xml: &[u8], file: &str) -> Result<Algorithm, Vec<Problem>> {
    let text = std::str::from_utf8(xml).map_err(|error| {
        vec![
            Problem::new(file, format!("byte {}", error.valid_up_to()), "not UTF-8 text")
                .help("MSCCL XML"),
        ]
    })?;
    let document = Document::parse(text).map_err(|error| {
        let place = format!("line {}", error.pos().row);
        vec![Problem::new(file, place, format!("not XML: {error}")).help("MSCCL XML")]
    })?;
    let mut parser = Parser { file, document: &document, problems: Vec::new() };
    let algorithm = parser.algorithm();
    match (algorithm, parser.problems.is_empty()) {
        (Some(algorithm), true) => Ok(algorithm),
        _ => Err(parser.problems),
    }
}

#[cfg(test)]
#[path = "msccl_tests.rs"]
mod tests;
