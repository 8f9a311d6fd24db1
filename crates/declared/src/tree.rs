//! A YAML or JSON document as a tree in which every value knows where it stands.
//!
//! Readers walk this tree instead of deserialising structs, so that one pass finds every fault and
//! each names its place.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Characters of a value that a problem repeats.
const MOST_SHOWN: usize = 200;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Built by the program.
    #[default]
    Made,
    /// A line, from 1, of a file: 0 is the file that is read, others are those it extends
    /// (`Findings::files`).
    Line {
        /// Place of the file.
        file: u32,
        /// Number of the line.
        line: u64,
    },
    /// `--set` on the command line.
    Set,
}

/// A value and its origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// Where the value stands.
    pub origin: Origin,
    /// The value.
    pub value: Value,
}

/// A key and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Where the key stands.
    pub origin: Origin,
    /// Name of the key.
    pub name: String,
}

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    #[default]
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// A mapping, in file order.
    Map(Vec<(Key, Tree)>),
}

impl Tree {
    /// A value that the program built.
    pub fn made(value: Value) -> Tree {
        Tree { origin: Origin::Made, value }
    }

    /// A text that the program built.
    pub fn text(text: &str) -> Tree {
        Tree::made(Value::Text(text.to_string()))
    }

    /// A mapping that the program built.
    pub fn map(entries: Vec<(&str, Tree)>) -> Tree {
        let key = |(name, tree): (&str, Tree)| {
            (Key { origin: Origin::Made, name: name.to_string() }, tree)
        };
        Tree::made(Value::Map(entries.into_iter().map(key).collect()))
    }

    /// The value as a message shows it.
    pub fn show(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Bool(b) => b.to_string(),
            Value::Int(i) => i.to_string(),
            Value::Float(x) => float(*x),
            // A whole file of something else is a text, too.
            Value::Text(text) => match text.char_indices().nth(MOST_SHOWN) {
                Some((end, _)) => format!("\"{}...\"", &text[..end]),
                None => format!("\"{text}\""),
            },
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
        }
    }

    fn stamp(&mut self, change: &impl Fn(Origin) -> Origin) {
        self.origin = change(self.origin);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.stamp(change)),
            Value::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
                key.origin = change(key.origin);
                value.stamp(change);
            }),
            _ => {}
        }
    }

    /// Marks everything in the tree as coming from the command line.
    pub fn set_on_command_line(mut self) -> Tree {
        self.stamp(&|_| Origin::Set);
        self
    }

    /// Marks every line in the tree as one of file `file`.
    pub fn in_file(mut self, file: u32) -> Tree {
        self.stamp(&|origin| match origin {
            Origin::Line { line, .. } => Origin::Line { file, line },
            other => other,
        });
        self
    }
}

/// A float as people write it.
pub fn float(x: f64) -> String {
    if x != 0.0 && !(1e-4..1e15).contains(&x.abs()) { format!("{x:e}") } else { x.to_string() }
}

fn line(line: u64) -> Origin {
    Origin::Line { file: 0, line }
}

/// A value at the place where the parser found it.
pub fn located(spanned: Spanned<Value>) -> Tree {
    Tree { origin: line(spanned.referenced.line()), value: spanned.value }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(located(item));
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Spanned<Value>>()? {
            let key = Key { origin: line(key.referenced.line()), name: key.value };
            map.push((key, located(value)));
        }
        Ok(Value::Map(map))
    }
}
