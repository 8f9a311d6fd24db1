//! The notation of stacked shapes: `Ring(4)_FullyConnected(8)_Switch(16)`, short
//! `R(4)_FC(8)_SW(16)`.
//!
//! Dimension 1 (innermost, fastest in the rank) comes first. Names are case-insensitive.

use crate::{Block, NOTATION};
use std::fmt;
use std::str::FromStr;

/// A stacked shape without bandwidth and latency.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    /// Block and size of each dimension, innermost first; at least one, sizes at least 1, product
    /// below 2^32.
    pub dims: Vec<(Block, u32)>,
}

/// Why a text is not a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// Character of the text the fault is at, from 1.
    pub column: usize,
    /// Description of the fault, with the value.
    pub message: String,
}

impl Topology {
    /// Number of NPUs.
    pub fn npus(&self) -> u32 {
        self.dims.iter().map(|&(_, size)| size).product()
    }

    /// Sizes by dimension, innermost first.
    pub fn sizes(&self) -> Vec<u32> {
        self.dims.iter().map(|&(_, size)| size).collect()
    }

    /// The short form, `R(4)_SW(16)`.
    pub fn short(&self) -> String {
        self.join(Block::short)
    }

    fn join(&self, name: impl Fn(Block) -> &'static str) -> String {
        let parts: Vec<String> =
            self.dims.iter().map(|&(block, size)| format!("{}({size})", name(block))).collect();
        parts.join("_")
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.join(Block::name))
    }
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {} (allowed: {NOTATION})", self.message, self.column)
    }
}

impl std::error::Error for NotationError {}

impl FromStr for Topology {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Topology, NotationError> {
        let start = text.chars().take_while(|c| c.is_whitespace()).count() + 1;
        let text = text.trim();
        let mut dims = Vec::new();
        let mut column = start;
        for part in text.split('_') {
            dims.push(parse_block(part, column)?);
            column += part.chars().count() + 1;
        }
        if dims.iter().try_fold(1u32, |npus, &(_, size)| npus.checked_mul(size)).is_none() {
            return Err(fault(start, format!("\"{text}\" has more than 4,294,967,295 NPUs")));
        }
        Ok(Topology { dims })
    }
}

fn fault(column: usize, message: String) -> NotationError {
    NotationError { column, message }
}

fn parse_block(part: &str, column: usize) -> Result<(Block, u32), NotationError> {
    if part.is_empty() {
        return Err(fault(column, "a block is missing".into()));
    }
    let (name, rest) = part.split_once('(').unwrap_or((part, ""));
    let block =
        Block::from_name(name).ok_or_else(|| fault(column, format!("unknown block \"{name}\"")))?;
    let at_size = column + name.chars().count() + 1;
    let Some(size) = rest.strip_suffix(')') else {
        return Err(fault(at_size, format!("\"{part}\" has no size in parentheses")));
    };
    let digits = !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit());
    match size.parse::<u32>() {
        Ok(size) if digits && size > 0 => Ok((block, size)),
        _ => Err(fault(
            at_size,
            format!("the size \"{size}\" is not a whole number from 1 to 4294967295"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_and_any_case_mean_the_same() {
        let expected = Topology {
            dims: vec![(Block::Ring, 4), (Block::FullyConnected, 8), (Block::Switch, 16)],
        };
        let texts = [
            "Ring(4)_FullyConnected(8)_Switch(16)",
            "R(4)_FC(8)_SW(16)",
            " r(4)_fullyconnected(08)_SWITCH(16) ",
        ];
        for text in texts {
            assert_eq!(text.parse().as_ref(), Ok(&expected), "{text}");
        }
        assert_eq!(expected.to_string(), texts[0]);
        assert_eq!(expected.short(), texts[1]);
        assert_eq!(expected.npus(), 512);
    }

    #[test]
    fn faults_name_their_place() {
        let cases = [
            ("", 1, "a block is missing"),
            ("Ring(4)_", 9, "a block is missing"),
            ("Ring(4)__Switch(2)", 9, "a block is missing"),
            ("Ring(4)_Torus(8)", 9, "unknown block \"Torus\""),
            (
                "Ring(4) Switch(8)",
                6,
                "the size \"4) Switch(8\" is not a whole number from 1 to 4294967295",
            ),
            ("Ring", 6, "\"Ring\" has no size in parentheses"),
            ("Ring(4", 6, "\"Ring(4\" has no size in parentheses"),
            ("R(2)_Ring(0)", 11, "the size \"0\" is not a whole number from 1 to 4294967295"),
            ("Ring(-4)", 6, "the size \"-4\" is not a whole number from 1 to 4294967295"),
            ("Ring(+4)", 6, "the size \"+4\" is not a whole number from 1 to 4294967295"),
            ("Ring(4.5)", 6, "the size \"4.5\" is not a whole number from 1 to 4294967295"),
            ("R(65536)_R(65536)", 1, "\"R(65536)_R(65536)\" has more than 4,294,967,295 NPUs"),
        ];
        for (text, column, message) in cases {
            assert_eq!(text.parse::<Topology>(), Err(fault(column, message.into())), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_shapes_read_back(dims in prop::collection::vec((0..Block::ALL.len(), 1u32..40), 1..6)) {
            let topology = Topology { dims: dims.into_iter().map(|(b, size)| (Block::ALL[b], size)).collect() };
            prop_assert_eq!(topology.to_string().parse(), Ok(topology.clone()));
            prop_assert_eq!(topology.short().parse(), Ok(topology.clone()));
        }

        #[test]
        fn no_text_panics(text in "[RFCSWMring()_0-9é ]{0,30}") {
            let _ = text.parse::<Topology>();
        }
    }
}
