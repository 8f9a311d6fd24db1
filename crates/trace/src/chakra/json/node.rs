//! One node as its keys arrive, and values that own their text.

use crate::chakra::attrs::{Key, Value};
use crate::chakra::schema::{Kind, Recorded};

/// One node while its keys arrive.
#[derive(Default)]
pub(super) struct JsonNode {
    pub(super) is_node: bool,
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) kind: Option<Kind>,
    pub(super) deps: Vec<u64>,
    pub(super) duration: Option<Recorded>,
    pub(super) inputs: String,
    pub(super) attrs: Vec<(Key, Owned)>,
    pub(super) unknown: Vec<String>,
}

/// A [`Value`] that owns its text.
#[derive(Clone, Debug)]
pub(super) enum Owned {
    Unsigned(u64),
    Negative(i64),
    Real(f64),
    Bool(bool),
    Text(String),
    Flags { bits: u32, count: u32 },
    List,
}

impl Owned {
    pub(super) fn view(&self) -> Value<'_> {
        match self {
            Owned::Unsigned(v) => Value::Unsigned(*v),
            Owned::Negative(v) => Value::Negative(*v),
            Owned::Real(v) => Value::Real(*v),
            Owned::Bool(v) => Value::Bool(*v),
            Owned::Text(v) => Value::Text(v.as_bytes()),
            Owned::Flags { bits, count } => Value::Flags { bits: *bits, count: *count },
            Owned::List => Value::List,
        }
    }
}

/// The number that `text` holds.
pub(super) fn number(text: &str) -> Option<Owned> {
    match (text.parse::<u64>(), text.parse::<i64>()) {
        (Ok(v), _) => Some(Owned::Unsigned(v)),
        (_, Ok(v)) => Some(Owned::Negative(v)),
        _ => text.parse().ok().map(Owned::Real),
    }
}

impl JsonNode {
    pub(super) fn clear(&mut self) {
        let name = std::mem::take(&mut self.name);
        let deps = std::mem::take(&mut self.deps);
        let attrs = std::mem::take(&mut self.attrs);
        *self = JsonNode { name, deps, attrs, ..JsonNode::default() };
        self.name.clear();
        self.deps.clear();
        self.attrs.clear();
    }
}

/// The number that `value` is, where it is a whole one.
pub(super) fn whole(value: Owned) -> Option<u64> {
    match value {
        Owned::Unsigned(v) => Some(v),
        _ => None,
    }
}
