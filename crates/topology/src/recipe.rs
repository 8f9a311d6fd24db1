//! How a generated fabric was made.

use std::collections::BTreeMap;
use units::{Bandwidth, Span};

/// Parameters by name. One value is a list of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Values {
    lists: BTreeMap<&'static str, Vec<u32>>,
    parts: BTreeMap<&'static str, Part>,
}

/// A fabric that is a parameter of another: a generator and its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Name of the generator.
    pub generator: &'static str,
    /// Parameters of the generator.
    pub values: Values,
}

impl Values {
    /// Sets a parameter.
    pub fn set(&mut self, key: &'static str, values: Vec<u32>) {
        self.lists.insert(key, values);
    }

    /// Sets a parameter that is a fabric.
    pub fn set_part(&mut self, key: &'static str, part: Part) {
        self.parts.insert(key, part);
    }

    /// The fabric that is a parameter, if it was given.
    pub fn part(&self, key: &str) -> Option<&Part> {
        self.parts.get(key)
    }

    /// The values of a parameter; none when it was left out.
    pub fn list(&self, key: &str) -> &[u32] {
        self.lists.get(key).map_or(&[], Vec::as_slice)
    }

    /// The value of a parameter, if it was given.
    pub fn given(&self, key: &str) -> Option<u32> {
        self.list(key).first().copied()
    }

    /// The value of a parameter that was given or has a default; else 1.
    pub(crate) fn one(&self, key: &str) -> u32 {
        self.given(key).unwrap_or(1)
    }
}

/// Bandwidth and latency of a kind of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wire {
    /// Bandwidth of one link in one direction.
    pub bandwidth: Bandwidth,
    /// Latency of one link.
    pub latency: Span,
}

/// How a fabric was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Name of the generator.
    pub generator: &'static str,
    /// Parameters of the part.
    pub values: Values,
    /// Links of the part, by kind.
    pub wires: Vec<Wire>,
}
