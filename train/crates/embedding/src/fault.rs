//! A fault of the input, described so that the user can mend it.

use std::fmt;

/// Fault of a batch, a gradient or a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Table, feature, sample.
    pub place: String,
    /// Description of the fault, with the value.
    pub message: String,
    /// Allowed values; empty when the message says it all.
    pub allowed: String,
}

impl Fault {
    /// A fault at `place`.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), allowed: String::new() }
    }

    /// With what is allowed.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = allowed.into();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if self.allowed.is_empty() { Ok(()) } else { write!(f, " (allowed: {})", self.allowed) }
    }
}

impl std::error::Error for Fault {}
