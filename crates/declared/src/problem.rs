//! One thing wrong with the user's input, said so that it can be mended.

/// Fault of an input: the description, the place, and the allowed values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Problem {
    /// File as the user named it; empty when the fault is in no file (a flag, an argument).
    pub file: String,
    /// Line, field, node or rank: `line 3`, `topology[1]`, `rank 4 node 17`.
    pub place: String,
    /// Description of the fault, with the value: `bandwidth -5 GB/s is negative`.
    pub message: String,
    /// Allowed values: `a bandwidth above zero with a unit, such as "50 GB/s"`; empty when the
    /// message says it all.
    pub help: String,
}

impl Problem {
    /// A problem in `file` at `place`.
    pub fn new(
        file: impl Into<String>,
        place: impl Into<String>,
        message: impl Into<String>,
    ) -> Problem {
        Problem {
            file: file.into(),
            place: place.into(),
            message: message.into(),
            help: String::new(),
        }
    }

    /// Adds what is allowed.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = help.into();
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [&self.file, &self.place].into_iter().filter(|s| !s.is_empty());
        for part in parts {
            write!(f, "{part}: ")?;
        }
        write!(f, "{}", self.message)?;
        if !self.help.is_empty() {
            write!(f, " (allowed: {})", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
