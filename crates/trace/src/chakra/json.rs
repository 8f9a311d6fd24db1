//! The JSON forms of a Chakra trace, read node by node without building a document.
//!
//! A file is a run of objects (or a list of them), each a `GlobalMetadata` or a `Node` in
//! protobuf's JSON mapping with either spelling of its keys, or one object whose `workload_graph`
//! lists nodes with plain keys.

mod keys;
mod node;
mod values;

use super::decode::Decoder;
use super::decoded::Decoded;
use super::schema::{Kind, Raw, Recorded, Schema};
use graph::Problem;
use keys::{Field, FieldSeed};
use node::{JsonNode, Owned, whole};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use values::{AttrsSeed, DepsSeed, InputsSeed, ValueSeed};

/// Reads a whole JSON trace.
pub(crate) fn decode(bytes: &[u8], decoder: Decoder) -> Result<Decoded, Vec<Problem>> {
    let mut state = State::new(decoder);
    let mut json = serde_json::Deserializer::from_slice(bytes);
    while !state.decoder.problems.is_full() {
        state.inside = false;
        // Asking whether the end is reached would count the lines up to here each time, so the end
        // shows as an error.
        if let Err(error) = (TopSeed { state: &mut state }).deserialize(&mut json) {
            if state.inside || !error.is_eof() {
                state.fault(&error);
            }
            break;
        }
    }
    state.finish()
}

/// Kind of a file that turned out not to be a Chakra trace.
#[derive(Clone, Copy, PartialEq)]
enum Foreign {
    PyTorch,
    Kineto,
}

struct State<'o> {
    decoder: Decoder<'o>,
    node: JsonNode,
    nodes: u64,
    objects: u64,
    foreign: Option<Foreign>,
    has_graph: bool,
    /// True from the start of a top-level value on.
    inside: bool,
    top_keys: Vec<String>,
}

impl<'o> State<'o> {
    fn new(decoder: Decoder<'o>) -> State<'o> {
        State {
            decoder,
            node: JsonNode::default(),
            nodes: 0,
            objects: 0,
            foreign: None,
            has_graph: false,
            inside: false,
            top_keys: Vec::new(),
        }
    }

    fn fault(&mut self, error: &serde_json::Error) {
        let place = format!("line {} column {}", error.line(), error.column());
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text).to_string();
        let (message, help) = match error.is_eof() {
            true => (
                "the file ends in the middle of its JSON".to_string(),
                "a complete file: copy or write it again",
            ),
            false => {
                (message, "Chakra JSON: nodes with id, name, type, dependencies and attributes")
            }
        };
        self.decoder.problem(&place, message, help);
    }

    /// Hands the node over to the decoder.
    fn end_of_node(&mut self) {
        let node = &self.node;
        let mut raw = Raw::new(None);
        raw.id = node.id;
        raw.name = node.name.as_bytes();
        raw.kind = node.kind.unwrap_or(Kind::Invalid);
        raw.duration = node.duration.unwrap_or(Recorded::Micros(0));
        raw.inputs = node.inputs.as_bytes();
        node.attrs.iter().for_each(|(key, value)| raw.attrs.set(*key, value.view()));
        node.unknown.iter().for_each(|key| self.decoder.notes.attribute(key.as_bytes()));
        self.decoder.node(Schema::Typed, &raw, &node.deps);
        self.nodes += 1;
    }

    fn end_of_top(&mut self) {
        self.objects += 1;
        if self.node.is_node && !self.has_graph {
            self.end_of_node();
        } else if self.top_keys.len() < 5 {
            let keys = self.node.unknown.drain(..).take(5 - self.top_keys.len());
            self.top_keys.extend(keys);
        }
    }

    fn finish(mut self) -> Result<Decoded, Vec<Problem>> {
        let import = "a Chakra trace; import this file with `armillary import` first";
        match self.foreign {
            Some(Foreign::PyTorch) => self.decoder.problem(
                "",
                "a PyTorch execution trace of the host: operators and tensors, but no Chakra nodes to run",
                import,
            ),
            Some(Foreign::Kineto) => self.decoder.problem(
                "",
                "a Kineto (Chrome trace) profile: timed events without dependencies, no Chakra nodes to run",
                import,
            ),
            None if self.nodes == 0 && !self.has_graph && self.decoder.problems.is_empty() => {
                let keys = self.top_keys.join(", ");
                let message = match keys.is_empty() {
                    true => "this JSON holds no Chakra nodes".to_string(),
                    false => format!("this JSON holds no Chakra nodes; its keys are {keys}"),
                };
                self.decoder.problem("", message, "nodes with id, name and type, or a `workload_graph`");
            }
            None => {}
        }
        self.decoder.finish()
    }
}

/// A top-level value.
struct TopSeed<'s, 'o> {
    state: &'s mut State<'o>,
}

impl<'de> DeserializeSeed<'de> for TopSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TopSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object or a list of nodes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.state.inside = true;
        self.state.node.clear();
        while let Some(field) = map.next_key_seed(FieldSeed)? {
            match field {
                Field::Graph => {
                    self.state.has_graph = true;
                    map.next_value_seed(NodesSeed { state: self.state })?;
                    self.state.node.clear();
                }
                Field::TraceEvents => {
                    self.state.foreign = Some(Foreign::Kineto);
                    map.next_value::<IgnoredAny>()?;
                }
                Field::Nodes => {
                    self.state.foreign = Some(Foreign::PyTorch);
                    map.next_value::<IgnoredAny>()?;
                }
                field => node_field(&mut self.state.node, field, &mut map)?,
            }
        }
        self.state.end_of_top();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        self.state.inside = true;
        NodesSeed { state: self.state }.visit_seq(seq)
    }
}

/// A list of nodes.
struct NodesSeed<'s, 'o> {
    state: &'s mut State<'o>,
}

impl<'de> DeserializeSeed<'de> for NodesSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NodesSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(NodeSeed { node: &mut self.state.node })?.is_some() {
            if self.state.node.is_node {
                self.state.end_of_node();
            }
        }
        Ok(())
    }
}

/// One node of a list.
struct NodeSeed<'s> {
    node: &'s mut JsonNode,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a node")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.node.clear();
        while let Some(field) = map.next_key_seed(FieldSeed)? {
            node_field(self.node, field, &mut map)?;
        }
        Ok(())
    }
}

fn node_field<'de, A: MapAccess<'de>>(
    node: &mut JsonNode,
    field: Field,
    map: &mut A,
) -> Result<(), A::Error> {
    match field {
        Field::Id => {
            node.is_node = true;
            node.id = whole(map.next_value_seed(ValueSeed::Number)?)
                .ok_or_else(|| A::Error::custom("an id is not a number"))?;
        }
        Field::Name => {
            node.is_node = true;
            if let Owned::Text(name) = map.next_value_seed(ValueSeed::Plain)? {
                node.name = name;
            }
        }
        Field::Type => {
            node.is_node = true;
            node.kind =
                Some(kind(map.next_value_seed(ValueSeed::Plain)?).map_err(A::Error::custom)?);
        }
        Field::Deps => map.next_value_seed(DepsSeed { deps: &mut node.deps })?,
        Field::Duration => {
            node.duration = match map.next_value_seed(ValueSeed::Number)? {
                Owned::Unsigned(micros) => Some(Recorded::Micros(micros)),
                Owned::Real(micros) => Some(Recorded::FractionalMicros(micros)),
                Owned::Negative(micros) => Some(Recorded::FractionalMicros(micros as f64)),
                _ => return Err(A::Error::custom("a duration is not a number")),
            }
        }
        Field::Inputs => map.next_value_seed(InputsSeed { values: &mut node.inputs })?,
        Field::Attr => map.next_value_seed(AttrsSeed { node })?,
        Field::Known(key) => {
            let value = map.next_value_seed(ValueSeed::Plain)?;
            node.attrs.push((key, value));
        }
        Field::Unknown(key) => {
            node.unknown.push(key);
            map.next_value::<IgnoredAny>()?;
        }
        Field::Passed | Field::Graph | Field::TraceEvents | Field::Nodes => {
            map.next_value::<IgnoredAny>()?;
        }
    }
    Ok(())
}

fn kind(value: Owned) -> Result<Kind, String> {
    let text = match value {
        Owned::Unsigned(number) => return Ok(Schema::Typed.kind(number)),
        Owned::Text(text) => text,
        other => return Err(format!("a node type is {}", other.view())),
    };
    Ok(match text.as_str() {
        "INVALID_NODE" => Kind::Invalid,
        "METADATA_NODE" => Kind::Metadata,
        "MEM_LOAD_NODE" => Kind::Load,
        "MEM_STORE_NODE" => Kind::Store,
        "COMP_NODE" => Kind::Compute,
        "COMM_SEND_NODE" => Kind::Send,
        "COMM_RECV_NODE" => Kind::Recv,
        "COMM_COLL_NODE" => Kind::Collective,
        "STORAGE_NODE" | "BATCH_NODE" | "CHECKPOINT_NODE" => Kind::Host,
        _ => return Err(format!("node type \"{text}\" is unknown")),
    })
}
