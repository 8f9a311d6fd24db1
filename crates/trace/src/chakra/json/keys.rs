//! Keys of top-level objects and nodes, and names of attributes, in every spelling.

use crate::chakra::attrs::Key;
use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};
use std::fmt;

/// Meaning of a key of a top-level object or a node.
pub(super) enum Field {
    Id,
    Name,
    Type,
    Deps,
    Duration,
    Inputs,
    Attr,
    Known(Key),
    Passed,
    Graph,
    TraceEvents,
    Nodes,
    Unknown(String),
}

pub(super) struct FieldSeed;

impl<'de> DeserializeSeed<'de> for FieldSeed {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Field, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldSeed {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Field, E> {
        Ok(match key {
            "id" | "Id" => Field::Id,
            "name" | "Name" => Field::Name,
            "type" | "NodeType" | "node_type" => Field::Type,
            "ctrlDeps" | "ctrl_deps" | "dataDeps" | "data_deps" | "parent" => Field::Deps,
            "durationMicros" | "duration_micros" | "runtime" => Field::Duration,
            "inputs" => Field::Inputs,
            "attr" => Field::Attr,
            "version" | "outputs" | "startTimeMicros" | "start_time_micros" => Field::Passed,
            "workload_graph" => Field::Graph,
            "traceEvents" => Field::TraceEvents,
            "nodes" => Field::Nodes,
            _ => match Key::from_name(key.as_bytes()) {
                Some(key) => Field::Known(key),
                None => Field::Unknown(key.to_string()),
            },
        })
    }
}
