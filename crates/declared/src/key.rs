//! A declared key.

use crate::findings::At;
use crate::tree::Value;

/// A key of a mapping, as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As users write it.
    pub name: &'static str,
    /// Names of the key in earlier versions.
    pub old: &'static [&'static str],
    /// The type of its value.
    pub kind: fn() -> String,
    /// Value that is used when the key is left out.
    pub absent: Absent,
    /// Allowed values, for a problem with a key that is missing.
    pub example: fn() -> String,
    /// The models that need it, in a mapping whose keys depend on a model.
    pub needed: fn() -> Vec<&'static str>,
    /// The models that also read it. A key without models is read by all.
    pub with: fn() -> Vec<&'static str>,
    /// Meaning of the key, in lines that begin with a space.
    pub doc: &'static str,
    /// The keys of its value, where that is a mapping or a list of mappings.
    pub inner: fn() -> &'static [Key],
    /// Whether its value is a list of mappings.
    pub list: bool,
    /// The inner key that a plain value stands for: `compute: roofline` is short for
    /// `compute: {model: roofline}`.
    pub short: Option<&'static str>,
    /// The value at a place, as a platform file writes it; nothing when it is wrong or left out.
    pub shown: fn(&At<'_>) -> Option<String>,
    /// Turns a value of its old name into one of the new name, where they differ.
    pub convert: Option<fn(&mut Value)>,
}

/// Value that is used when a key is left out.
#[derive(Clone, Copy, Debug)]
pub enum Absent {
    /// Nothing: it must be given.
    Required,
    /// This value.
    Value(fn() -> String),
    /// The value of another key.
    Like(&'static str),
    /// The value that this text describes.
    Text(&'static str),
}

impl Key {
    /// A key without old names, inner keys and models.
    pub const fn plain(
        name: &'static str,
        kind: fn() -> String,
        absent: Absent,
        doc: &'static str,
    ) -> Key {
        Key {
            name,
            old: &[],
            kind,
            absent,
            example: kind,
            needed: Vec::new,
            with: Vec::new,
            doc,
            inner: || &[],
            list: false,
            short: None,
            shown: |_| None,
            convert: None,
        }
    }

    /// Whether the value at `at` is the one that is used when the key is left out, however it is
    /// written: `1000 us` for `1 ms`.
    pub fn has_default(&self, at: &At<'_>) -> bool {
        match self.absent {
            Absent::Value(default) => (self.shown)(at) == Some(default()),
            _ => false,
        }
    }

    /// Every model that reads it; empty where all do.
    pub fn models(&self) -> Vec<&'static str> {
        let mut models = (self.needed)();
        models.extend((self.with)());
        models
    }
}
