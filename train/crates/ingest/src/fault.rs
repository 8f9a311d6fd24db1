//! Faults of a line.

/// Faults that are kept of a text: a file of another format has one in every line.
pub const MOST_FAULTS: usize = 20;

/// A line that can't be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Lines before it in the text.
    pub line: usize,
    /// Name of the column; empty if the line as a whole is wrong.
    pub column: String,
    /// Description of the fault, with the value.
    pub message: String,
    /// Allowed values.
    pub allowed: String,
}

/// Bytes of a value that a message shows.
const SHOWN: usize = 40;

/// A value as a message shows it.
pub fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(&value[..value.len().min(SHOWN)]);
    format!("'{text}'")
}
