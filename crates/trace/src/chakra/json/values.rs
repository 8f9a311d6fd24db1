//! Values of a node: numbers, texts, dependencies and attributes.

use super::node::{JsonNode, Owned, number, whole};
use crate::chakra::attrs::{Key, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Any value, as far as an attribute can use it.
pub(super) enum ValueSeed {
    /// Text stays text.
    Plain,
    /// Text that holds a number is one: protobuf's JSON mapping writes 64-bit integers as text.
    Number,
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Owned;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Owned, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Owned;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Owned, E> {
        Ok(Owned::Bool(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Owned, E> {
        Ok(Owned::Unsigned(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Owned, E> {
        Ok(if v < 0 { Owned::Negative(v) } else { Owned::Unsigned(v as u64) })
    }

    fn visit_f64<E>(self, v: f64) -> Result<Owned, E> {
        Ok(Owned::Real(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Owned, E> {
        let number = match self {
            ValueSeed::Plain => None,
            ValueSeed::Number => number(v),
        };
        Ok(number.unwrap_or_else(|| Owned::Text(v.to_string())))
    }

    fn visit_unit<E>(self) -> Result<Owned, E> {
        Ok(Owned::List)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Owned, A::Error> {
        let (mut bits, mut count, mut all_flags) = (0, 0, true);
        while let Some(item) = seq.next_element_seed(ValueSeed::Number)? {
            match item {
                Owned::Bool(set) => Value::flag(&mut bits, &mut count, set),
                _ => all_flags = false,
            }
        }
        Ok(if all_flags { Owned::Flags { bits, count } } else { Owned::List })
    }

    /// `{"values": [...]}` is a list too.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Owned, A::Error> {
        let mut found = Owned::List;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "values" => found = map.next_value_seed(ValueSeed::Plain)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// A list of ids, each a number or its text, or a single one.
pub(super) struct DepsSeed<'s> {
    pub(super) deps: &'s mut Vec<u64>,
}

impl<'de> DeserializeSeed<'de> for DepsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DepsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of node ids")
    }

    fn visit_u64<E>(self, id: u64) -> Result<(), E> {
        self.deps.push(id);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(value) = seq.next_element_seed(ValueSeed::Number)? {
            let id =
                whole(value).ok_or_else(|| A::Error::custom("a dependency is not a node id"))?;
            self.deps.push(id);
        }
        Ok(())
    }
}

/// `{"values": "...", ...}`: the text of the values.
pub(super) struct InputsSeed<'s> {
    pub(super) values: &'s mut String,
}

impl<'de> DeserializeSeed<'de> for InputsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if let Owned::Text(text) = ValueSeed::Plain.deserialize(json)? {
            *self.values = text;
        }
        Ok(())
    }
}

/// A list of `AttributeProto`.
pub(super) struct AttrsSeed<'s> {
    pub(super) node: &'s mut JsonNode,
}

impl<'de> DeserializeSeed<'de> for AttrsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AttrsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of attributes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some((name, value)) = seq.next_element_seed(AttrSeed)? {
            match (name, value) {
                (AttrName::Known(key), Some(value)) => self.node.attrs.push((key, value)),
                (AttrName::Known(_), None) => {}
                (AttrName::Other(name), _) => self.node.unknown.push(name),
            }
        }
        Ok(())
    }
}

/// The name of an attribute.
enum AttrName {
    Known(Key),
    Other(String),
}

struct AttrNameSeed;

impl<'de> DeserializeSeed<'de> for AttrNameSeed {
    type Value = AttrName;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<AttrName, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for AttrNameSeed {
    type Value = AttrName;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the name of an attribute")
    }

    fn visit_str<E>(self, name: &str) -> Result<AttrName, E> {
        Ok(Key::from_name(name.as_bytes())
            .map_or_else(|| AttrName::Other(name.to_string()), AttrName::Known))
    }
}

/// A key of an `AttributeProto`.
enum AttrPart {
    Name,
    Passed,
    Value(ValueSeed),
}

struct AttrPartSeed;

impl<'de> DeserializeSeed<'de> for AttrPartSeed {
    type Value = AttrPart;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<AttrPart, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for AttrPartSeed {
    type Value = AttrPart;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<AttrPart, E> {
        Ok(match key {
            "name" => AttrPart::Name,
            "docString" | "doc_string" | "type" => AttrPart::Passed,
            "stringVal" | "string_val" | "bytesVal" | "bytes_val" | "value" => {
                AttrPart::Value(ValueSeed::Plain)
            }
            _ => AttrPart::Value(ValueSeed::Number),
        })
    }
}

/// One `AttributeProto`: its name and the value under whichever key it stands.
struct AttrSeed;

impl<'de> DeserializeSeed<'de> for AttrSeed {
    type Value = (AttrName, Option<Owned>);

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AttrSeed {
    type Value = (AttrName, Option<Owned>);

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an attribute")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut name, mut value) = (AttrName::Other(String::new()), None);
        while let Some(part) = map.next_key_seed(AttrPartSeed)? {
            match part {
                AttrPart::Name => name = map.next_value_seed(AttrNameSeed)?,
                AttrPart::Passed => drop(map.next_value::<IgnoredAny>()?),
                AttrPart::Value(seed) => value = Some(map.next_value_seed(seed)?),
            }
        }
        Ok((name, value))
    }
}
