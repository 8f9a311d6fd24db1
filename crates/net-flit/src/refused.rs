//! Settings that cannot be simulated, by name.

use std::fmt;

/// A setting that a network or a run cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The setting.
    pub name: &'static str,
    /// Value of the setting.
    pub value: String,
    /// Allowed values.
    pub allowed: &'static str,
}

impl Refused {
    /// A value of a setting.
    pub fn new(name: &'static str, value: impl fmt::Display, allowed: &'static str) -> Refused {
        Refused { name, value: value.to_string(), allowed }
    }

    /// The error if something does not hold.
    pub fn unless(
        holds: bool,
        name: &'static str,
        value: impl fmt::Display,
        allowed: &'static str,
    ) -> Result<(), Refused> {
        if holds { Ok(()) } else { Err(Refused::new(name, value, allowed)) }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}; allowed: {}", self.name, self.value, self.allowed)
    }
}

impl std::error::Error for Refused {}
