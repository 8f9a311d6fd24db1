//! Text workloads of ASTRA-sim 1.0: layers, the training loop they run in, and back.
//!
//! The first line names the parallelisation, the second counts the layers, every further line is
//! one layer (`layers.rs` has the columns):
//!
//! ```text
//! DATA
//! 2
//! conv1 -1 13003 NONE 0 12864 NONE 0 32291 ALLREDUCE 37632 3229
//! fc    -1 16416 NONE 0 27708 NONE 0  9220 ALLREDUCE 8192000 922
//! ```
//!
//! The paper's Fig. 8 prints the same with one labelled field on a line (`labelled.rs`).
//!
//! Here: text to [`Layers`] (`parse.rs`) and back (`Display`), the training loops (`loops.rs`),
//! layers to a [`graph::Workload`] (`build.rs`) and back ([`recover()`]). The text holds no number
//! of NPUs, of dimensions or of passes: the caller gives them. Not here: what the workload takes on
//! a platform (`sim`). Model: a rank computes one thing after another; collectives run alongside,
//! and the loop says what waits for which. Source: Rashidi et al., "ASTRA-SIM", ISPASS 2020,
//! section IV and Fig. 8; Rashidi et al., HOTI 2020, Fig. 3 (DLRM); the README of the workload
//! inputs and the behaviour of the workload layer of ASTRA-sim 1.0. SimAI's dialect has a source of
//! its own (`simai.rs`).

mod buckets;
mod build;
mod compare;
mod dialect;
mod fold;
mod guesses;
mod labelled;
#[cfg(test)]
mod labelled_tests;
mod labels;
mod layers;
#[cfg(test)]
mod loop_settings_tests;
mod loops;
mod parse;
mod recover;
mod simai;
#[cfg(test)]
mod simai_tests;
mod steps;
#[cfg(test)]
mod tests;

pub use build::{MOST_LAYERS, MOST_TIME};
pub use dialect::{Reach, SimAi};
pub use layers::{
    Blocks, KILOBYTE, Layer, LayerParallelism, Layers, Parallelism, Part, Pass, Recompute, Update,
};
pub use parse::parse;
pub use recover::recover;

use crate::chakra::source::{Content, Format, io_problem, sniff};
use graph::{LoopSettings, Problem, Workload};
use std::io::Read;
use std::path::Path;

/// Reads the text workload `path`, plain or gzipped, to run as `loop_settings` say on a machine whose
/// dimensions have `sizes`, innermost first; without sizes it gets as few ranks as it can run on.
///
/// # Errors
/// Every problem found: of the file, by line and column, or of the machine it can't run on.
pub fn read(
    path: &Path,
    loop_settings: LoopSettings,
    sizes: Option<&[u32]>,
) -> Result<Workload, Vec<Problem>> {
    let name = path.display().to_string();
    let fault = |error: std::io::Error| vec![io_problem(&name, &error)];
    let content = Content::open(path, Vec::new()).map_err(fault)?;
    if content.rest.is_some() {
        let message = "the file is too large for a text workload";
        return Err(vec![Problem::new(name, "", message).help("64 MiB")]);
    }
    parse(&content.head, &name)?.workload(loop_settings, sizes, &name)
}

/// True when the file `path` looks like a text workload: its first word is a parallelisation, or
/// its second line a number.
///
/// # Errors
/// What opening and reading it reports.
pub fn is_text(path: &Path) -> std::io::Result<bool> {
    let mut file = files::open(path)?;
    let mut head = Vec::new();
    (&mut file).take(2).read_to_end(&mut head)?;
    if head == [0x1f, 0x8b] {
        let packed = flate2::read::MultiGzDecoder::new(std::io::Cursor::new(head).chain(file));
        let mut head = Vec::new();
        // Anything but a gzip stream fails here, and is not text either.
        return Ok(packed.take(HEAD).read_to_end(&mut head).is_ok() && looks_like_text(&head));
    }
    file.take(HEAD).read_to_end(&mut head)?;
    Ok(looks_like_text(&head))
}

/// How much of a file is looked at.
const HEAD: u64 = 4096;

fn looks_like_text(head: &[u8]) -> bool {
    if !matches!(sniff(head), Format::Text(_)) {
        return false;
    }
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().and_then(|line| line.split_whitespace().next()).unwrap_or_default();
    let second = lines.next().unwrap_or_default().trim();
    labels::begins(&text)
        || Parallelism::WORDS.contains(&first)
        || (!second.is_empty() && second.bytes().all(|byte| byte.is_ascii_digit()))
}
