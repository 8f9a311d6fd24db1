//! A declared key.

use crate::config::tree::Value;

/// A key of a mapping, as it is declared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// As users write it.
    pub name: &'static str,
    /// What earlier versions called it.
    pub old: &'static [&'static str],
    /// The type of its value.
    pub kind: fn() -> String,
    /// What goes without it.
    pub absent: Absent,
    /// Its meaning, in lines that begin with a space.
    pub doc: &'static str,
    /// The keys of its value, where that is a mapping or a list of them.
    pub inner: &'static [Key],
    /// What makes a value of its old name one of the new, where they differ.
    pub convert: Option<fn(&mut Value)>,
}

/// What goes where a key is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    /// Nothing: it must be given.
    Required,
    /// This value.
    Value(fn() -> String),
    /// The value of another key.
    Like(&'static str),
    /// What this text says.
    Text(&'static str),
}
