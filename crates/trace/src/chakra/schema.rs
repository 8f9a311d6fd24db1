//! The protobuf schemas of Chakra, from the first to the current one, and how to tell them apart.
//!
//! | schema | file | node | attributes |
//! | --- | --- | --- | --- |
//! | `Typed` | `GlobalMetadata`, `Node`... | id 1, name 2, type 3, ctrl_deps 4, data_deps 5, start 6 and duration 7 in microseconds, inputs 8, outputs 9, attr 10, storage 11 | name 1, one of the typed values 3 to 32 |
//! | `Tagged` (2023) | `GlobalMetadata`, `Node`... | id 1, name 2, type 3, parent 4, inputs and outputs 5 to 10 as text, attribute 11 | name 1, type 2, values 4 to 13; `runtime` in microseconds |
//! | `Plain` (2022, "eg" and first "et") | `Node`... | id 1, name 2, node_type 3, parent 4, tensor_loc 5, tensor_size 6, simulated_run_time 7 in nanoseconds, 8 to 11 tensors, num_ops 12, comm_type 13, involved_dim 14, communicator_id 15, comm_src 16, comm_dst 17, comm_size 18, comm_tag 19, comm_priority 20 | none |
//!
//! The enumerations differ too (a collective's number, a node type's). Versions inside `Typed`
//! (with or without `version` in the metadata, `any_val`, `storage`) need no distinction: unknown
//! fields are counted and passed over. Source: the history of `et_def.proto` and `eg_def.proto` in
//! mlcommons/chakra.

use super::attrs::{Attrs, Key, Value};
use super::notes::Notes;
use crate::wire::{Cursor, Malformed, Wire, zigzag};
use graph::CollectiveKind;

/// Which schema a file follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// Typed attributes: schema 0.0.4 and its neighbours, current.
    Typed,
    /// Attributes with a type number.
    Tagged,
    /// No attributes; node types without the combined load and compute ("eg").
    PlainEg,
    /// No attributes; node types with it (first "et").
    PlainEt,
}

/// Kind of node according to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    Metadata,
    Load,
    Store,
    Compute,
    Send,
    Recv,
    Collective,
    /// Storage, batch and checkpoint nodes: time on the host.
    Host,
    /// A number no schema has.
    Unknown(u64),
}

/// The recorded duration in the schema's own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recorded {
    Nanos(u64),
    Micros(u64),
    FractionalMicros(f64),
}

/// One node as the file has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    /// Where the node starts in a binary file.
    pub offset: Option<u64>,
    pub id: u64,
    pub name: &'a [u8],
    pub kind: Kind,
    pub duration: Recorded,
    /// The text of `inputs.values`, which declares groups in metadata nodes.
    pub inputs: &'a [u8],
    pub attrs: Attrs<'a>,
}

impl<'a> Raw<'a> {
    /// An empty node at `offset`.
    pub fn new(offset: Option<u64>) -> Raw<'a> {
        Raw {
            offset,
            id: 0,
            name: b"",
            kind: Kind::Invalid,
            duration: Recorded::Micros(0),
            inputs: b"",
            attrs: Attrs::new(),
        }
    }
}

impl Schema {
    /// The node type behind its number.
    pub fn kind(self, number: u64) -> Kind {
        const TYPED: [Kind; 11] = [
            Kind::Invalid,
            Kind::Metadata,
            Kind::Load,
            Kind::Store,
            Kind::Compute,
            Kind::Send,
            Kind::Recv,
            Kind::Collective,
            Kind::Host,
            Kind::Host,
            Kind::Host,
        ];
        const EG: [Kind; 7] = [
            Kind::Invalid,
            Kind::Load,
            Kind::Store,
            Kind::Compute,
            Kind::Send,
            Kind::Recv,
            Kind::Collective,
        ];
        const ET: [Kind; 8] = [
            Kind::Invalid,
            Kind::Load,
            // A load and a computation in one node: no later schema has it and nothing says how its
            // time divides.
            Kind::Unknown(2),
            Kind::Store,
            Kind::Compute,
            Kind::Send,
            Kind::Recv,
            Kind::Collective,
        ];
        let table: &[Kind] = match self {
            Schema::Typed => &TYPED,
            Schema::Tagged => &TYPED[..8],
            Schema::PlainEg => &EG,
            Schema::PlainEt => &ET,
        };
        usize::try_from(number)
            .ok()
            .and_then(|n| table.get(n))
            .copied()
            .unwrap_or(Kind::Unknown(number))
    }

    /// The collective behind its number.
    pub fn collective(self, number: u64) -> Option<CollectiveKind> {
        use CollectiveKind::*;
        const TYPED: [CollectiveKind; 10] = [
            AllReduce,
            Reduce,
            AllGather,
            Gather,
            Scatter,
            Broadcast,
            AllToAll,
            ReduceScatter,
            ReduceScatter,
            Barrier,
        ];
        const TAGGED: [CollectiveKind; 5] =
            [AllReduce, AllToAll, AllGather, ReduceScatter, Broadcast];
        let table: &[CollectiveKind] = match self {
            Schema::Typed => &TYPED,
            Schema::Tagged => &TAGGED,
            // 0 is "invalid" here, so the others stand one higher.
            Schema::PlainEg | Schema::PlainEt => {
                return number.checked_sub(1).and_then(|n| TAGGED[..4].get(n as usize)).copied();
            }
        };
        usize::try_from(number).ok().and_then(|n| table.get(n)).copied()
    }

    /// Allowed values of `comm_type`, for people.
    pub fn collectives(self) -> &'static str {
        match self {
            Schema::Typed => {
                "0 all-reduce, 1 reduce, 2 all-gather, 3 gather, 4 scatter, 5 broadcast, 6 all-to-all, \
                 7 or 8 reduce-scatter, 9 barrier"
            }
            Schema::Tagged => {
                "0 all-reduce, 1 all-to-all, 2 all-gather, 3 reduce-scatter, 4 broadcast"
            }
            _ => "1 all-reduce, 2 all-to-all, 3 all-gather, 4 reduce-scatter",
        }
    }

    /// Allowed types of a node, for people.
    pub fn kinds(self) -> &'static str {
        match self {
            Schema::Typed => {
                "0 invalid, 1 metadata, 2 load, 3 store, 4 compute, 5 send, 6 receive, 7 collective, 8 storage, \
                 9 batch, 10 checkpoint"
            }
            Schema::Tagged => {
                "0 invalid, 1 metadata, 2 load, 3 store, 4 compute, 5 send, 6 receive, 7 collective"
            }
            Schema::PlainEg => {
                "0 invalid, 1 load, 2 store, 3 compute, 4 send, 5 receive, 6 collective"
            }
            Schema::PlainEt => {
                "0 invalid, 1 load, 3 store, 4 compute, 5 send, 6 receive, 7 collective"
            }
        }
    }

    /// Reads one `Node` message into `raw` and its dependencies into `deps`.
    pub fn node<'a>(
        self,
        message: &'a [u8],
        raw: &mut Raw<'a>,
        deps: &mut Vec<u64>,
        notes: &mut Notes,
    ) -> Result<(), Malformed> {
        match self {
            Schema::Typed => typed_node(message, raw, deps, notes),
            Schema::Tagged => tagged_node(message, raw, deps, notes),
            _ => plain_node(self, message, raw, deps, notes),
        }
    }
}

fn typed_node<'a>(
    message: &'a [u8],
    raw: &mut Raw<'a>,
    deps: &mut Vec<u64>,
    notes: &mut Notes,
) -> Result<(), Malformed> {
    let mut cursor = Cursor::new(message);
    while let Some(field) = cursor.field()? {
        match field {
            (10, Wire::Bytes(attr)) => typed_attr(attr, &mut raw.attrs, notes)?,
            (1, Wire::Varint(id)) => raw.id = id,
            (2, Wire::Bytes(name)) => raw.name = name,
            (3, Wire::Varint(kind)) => raw.kind = Schema::Typed.kind(kind),
            (4 | 5, Wire::Varint(dep)) => deps.push(dep),
            (4 | 5, Wire::Bytes(packed)) => unpack(packed, deps)?,
            (6, Wire::Varint(_)) | (9, Wire::Bytes(_)) | (11, Wire::Bytes(_)) => {}
            (7, Wire::Varint(micros)) => raw.duration = Recorded::Micros(micros),
            (8, Wire::Bytes(inputs)) => raw.inputs = io_values(inputs),
            (1..=11, _) => return Err(Malformed),
            (number, _) => notes.field(number),
        }
    }
    Ok(())
}

fn tagged_node<'a>(
    message: &'a [u8],
    raw: &mut Raw<'a>,
    deps: &mut Vec<u64>,
    notes: &mut Notes,
) -> Result<(), Malformed> {
    let mut cursor = Cursor::new(message);
    while let Some(field) = cursor.field()? {
        match field {
            (1, Wire::Varint(id)) => raw.id = id,
            (2, Wire::Bytes(name)) => raw.name = name,
            (3, Wire::Varint(kind)) => raw.kind = Schema::Tagged.kind(kind),
            (4, Wire::Varint(dep)) => deps.push(dep),
            (4, Wire::Bytes(packed)) => unpack(packed, deps)?,
            (5, Wire::Bytes(inputs)) => raw.inputs = inputs,
            (6..=10, Wire::Bytes(_)) => {}
            (11, Wire::Bytes(attr)) => tagged_attr(attr, &mut raw.attrs, notes)?,
            (1..=11, _) => return Err(Malformed),
            (number, _) => notes.field(number),
        }
    }
    match raw.attrs.get(Key::Runtime) {
        Some(Value::Unsigned(micros)) => raw.duration = Recorded::Micros(micros),
        Some(Value::Real(micros)) => raw.duration = Recorded::FractionalMicros(micros),
        _ => {}
    }
    Ok(())
}

fn plain_node<'a>(
    schema: Schema,
    message: &'a [u8],
    raw: &mut Raw<'a>,
    deps: &mut Vec<u64>,
    notes: &mut Notes,
) -> Result<(), Malformed> {
    let (mut bits, mut count) = (0, 0);
    // An absent tag is 0 in this schema, and so is everything else that is optional.
    raw.attrs.set(Key::CommTag, Value::Unsigned(0));
    raw.duration = Recorded::Nanos(0);
    let mut cursor = Cursor::new(message);
    while let Some(field) = cursor.field()? {
        match field {
            (1, Wire::Varint(id)) => raw.id = id,
            (2, Wire::Bytes(name)) => raw.name = name,
            (3, Wire::Varint(kind)) => raw.kind = schema.kind(kind),
            (4, Wire::Varint(dep)) => deps.push(dep),
            (4, Wire::Bytes(packed)) => unpack(packed, deps)?,
            (5 | 8 | 9 | 10 | 11 | 21 | 22, Wire::Varint(_)) => {}
            (6, Wire::Varint(v)) => raw.attrs.set(Key::TensorSize, Value::Unsigned(v)),
            (7, Wire::Varint(nanos)) => raw.duration = Recorded::Nanos(nanos),
            (12, Wire::Varint(v)) => raw.attrs.set(Key::NumOps, Value::Unsigned(v)),
            (13, Wire::Varint(v)) => raw.attrs.set(Key::CommType, Value::Unsigned(v)),
            (14, Wire::Varint(v)) => Value::flag(&mut bits, &mut count, v != 0),
            (14, Wire::Bytes(packed)) => (bits, count) = flags(packed)?,
            // Groups are numbered from 1; 0 is everybody.
            (15, Wire::Varint(v)) => raw.attrs.set(Key::PgName, Value::Unsigned(v)),
            (16, Wire::Varint(v)) => raw.attrs.set(Key::CommSrc, Value::Unsigned(v)),
            (17, Wire::Varint(v)) => raw.attrs.set(Key::CommDst, Value::Unsigned(v)),
            (18, Wire::Varint(v)) => raw.attrs.set(Key::CommSize, Value::Unsigned(v)),
            (19, Wire::Varint(v)) => raw.attrs.set(Key::CommTag, Value::Unsigned(v)),
            (20, Wire::Varint(v)) => raw.attrs.set(Key::CommPriority, Value::Unsigned(v)),
            (1..=22, _) => return Err(Malformed),
            (number, _) => notes.field(number),
        }
    }
    if count > 0 {
        raw.attrs.set(Key::InvolvedDim, Value::Flags { bits, count });
    }
    Ok(())
}

#[inline]
fn unpack(packed: &[u8], deps: &mut Vec<u64>) -> Result<(), Malformed> {
    let mut cursor = Cursor::new(packed);
    while !cursor.is_at_end() {
        deps.push(cursor.varint()?);
    }
    Ok(())
}

#[inline]
fn typed_attr<'a>(
    attr: &'a [u8],
    attrs: &mut Attrs<'a>,
    notes: &mut Notes,
) -> Result<(), Malformed> {
    let (mut name, mut value): (&[u8], Option<Value>) = (b"", None);
    let mut cursor = Cursor::new(attr);
    while let Some((number, wire)) = cursor.field()? {
        match (number, wire) {
            (1, Wire::Bytes(text)) => name = text,
            (2, _) => {}
            _ => value = Some(typed_value(number, wire)?),
        }
    }
    match (Key::from_name(name), value) {
        (Some(key), Some(value)) => attrs.set(key, value),
        // A value of the type's default (0, false, "") is still written inside a oneof, so none
        // means none.
        (Some(_), None) => {}
        (None, _) => notes.attribute(name),
    }
    Ok(())
}

#[inline]
fn typed_value(number: u32, wire: Wire) -> Result<Value, Malformed> {
    Ok(match (number, wire) {
        (7 | 9, Wire::Varint(v)) => Value::signed(v as i64),
        (11 | 13, Wire::Varint(v)) => Value::Unsigned(v),
        (27, Wire::Varint(v)) => Value::Bool(v != 0),
        (29 | 31, Wire::Bytes(v)) => Value::Text(v),
        (15 | 17, Wire::Varint(v)) => Value::signed(zigzag(v)),
        (3, Wire::Fixed64(v)) => Value::Real(f64::from_bits(v)),
        (5, Wire::Fixed32(v)) => Value::Real(f64::from(f32::from_bits(v))),
        (19, Wire::Fixed32(v)) => Value::Unsigned(u64::from(v)),
        (21, Wire::Fixed64(v)) => Value::Unsigned(v),
        (23, Wire::Fixed32(v)) => Value::signed(i64::from(v as i32)),
        (25, Wire::Fixed64(v)) => Value::signed(v as i64),
        (28, Wire::Bytes(v)) => {
            let (bits, count) = flag_list(v)?;
            Value::Flags { bits, count }
        }
        (3..=34, Wire::Bytes(_)) => Value::List,
        (3..=34, _) => return Err(Malformed),
        _ => Value::List,
    })
}

fn tagged_attr<'a>(
    attr: &'a [u8],
    attrs: &mut Attrs<'a>,
    notes: &mut Notes,
) -> Result<(), Malformed> {
    let (mut name, mut value): (&[u8], Option<Value>) = (b"", None);
    let (mut bits, mut count) = (0, 0);
    let mut cursor = Cursor::new(attr);
    while let Some(field) = cursor.field()? {
        match field {
            (1, Wire::Bytes(text)) => name = text,
            (2 | 3, _) => {}
            (4, Wire::Varint(v)) => value = Some(Value::Bool(v != 0)),
            (5, Wire::Fixed32(v)) => value = Some(Value::Real(f64::from(f32::from_bits(v)))),
            (6, Wire::Varint(v)) => value = Some(Value::Unsigned(v)),
            (7, Wire::Varint(v)) => value = Some(Value::signed(v as i64)),
            (8, Wire::Bytes(v)) => value = Some(Value::Text(v)),
            (9, Wire::Varint(v)) => Value::flag(&mut bits, &mut count, v != 0),
            (9, Wire::Bytes(packed)) => (bits, count) = flags(packed)?,
            (10..=13, _) => value = Some(Value::List),
            (1..=13, _) => return Err(Malformed),
            (number, _) => notes.field(number),
        }
    }
    if count > 0 {
        value = Some(Value::Flags { bits, count });
    }
    match (Key::from_name(name), value) {
        (Some(key), Some(value)) => attrs.set(key, value),
        (Some(_), None) => {}
        (None, _) => notes.attribute(name),
    }
    Ok(())
}

/// `BoolList { repeated bool values = 1 }`.
fn flag_list(list: &[u8]) -> Result<(u32, u32), Malformed> {
    let (mut bits, mut count) = (0, 0);
    let mut cursor = Cursor::new(list);
    while let Some(field) = cursor.field()? {
        match field {
            (1, Wire::Varint(v)) => Value::flag(&mut bits, &mut count, v != 0),
            (1, Wire::Bytes(packed)) => (bits, count) = flags(packed)?,
            _ => return Err(Malformed),
        }
    }
    Ok((bits, count))
}

fn flags(packed: &[u8]) -> Result<(u32, u32), Malformed> {
    let (mut bits, mut count) = (0, 0);
    let mut cursor = Cursor::new(packed);
    while !cursor.is_at_end() {
        let set = cursor.varint()? != 0;
        Value::flag(&mut bits, &mut count, set);
    }
    Ok((bits, count))
}

/// `IOInfo { string values = 1; ... }`: the values.
fn io_values(inputs: &[u8]) -> &[u8] {
    let mut cursor = Cursor::new(inputs);
    while let Ok(Some(field)) = cursor.field() {
        if let (1, Wire::Bytes(values)) = field {
            return values;
        }
    }
    b""
}

/// True when `message` can be the `GlobalMetadata` that files of all but the `Plain` schemas start
/// with.
///
/// It holds only length-delimited fields 1 and 2, and a node holds at least a number.
pub(crate) fn is_metadata(message: &[u8]) -> bool {
    let mut cursor = Cursor::new(message);
    loop {
        match cursor.field() {
            Ok(None) => return true,
            Ok(Some((1 | 2, Wire::Bytes(_)))) => {}
            _ => return false,
        }
    }
}

/// Distinguishes the schemas by the first messages of a file, which `messages` yields without their
/// length.
pub(crate) fn detect<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Schema {
    let mut evidence = Evidence::default();
    for (i, message) in messages.take(4096).enumerate() {
        if i == 0 {
            evidence.starts_with_node = !is_metadata(message);
        }
        if i > 0 || evidence.starts_with_node {
            evidence.add(message);
        }
        if evidence.typed > 0 {
            // Nothing that follows can outweigh it.
            break;
        }
    }
    evidence.verdict()
}

#[derive(Default)]
struct Evidence {
    starts_with_node: bool,
    typed: u32,
    tagged: u32,
    plain: u32,
    eg: u32,
    et: u32,
}

impl Evidence {
    fn add(&mut self, message: &[u8]) {
        let (mut kind, mut has_comm_type, mut has_peer, mut has_time) = (0, false, false, false);
        let mut cursor = Cursor::new(message);
        while let Ok(Some(field)) = cursor.field() {
            match field {
                (3, Wire::Varint(v)) => kind = v,
                (7, Wire::Varint(_)) => has_time = true,
                (10, Wire::Bytes(attr)) => self.typed += u32::from(attr.first() == Some(&0x0a)),
                // `storage` of the current schema sits at 11 too, but starts with a number or a
                // message.
                (11, Wire::Bytes(attr)) => self.tagged += u32::from(attr.first() == Some(&0x0a)),
                (12, Wire::Varint(_)) => (self.plain, has_time) = (self.plain + 1, true),
                (13, Wire::Varint(v)) => {
                    (self.plain, has_comm_type) = (self.plain + 1, has_comm_type || v > 0)
                }
                (16 | 17, Wire::Varint(_)) => (self.plain, has_peer) = (self.plain + 1, true),
                (14..=22, Wire::Varint(_)) => self.plain += 1,
                _ => {}
            }
        }
        match kind {
            7 => self.et += 1,
            6 if has_comm_type => self.eg += 1,
            6 if has_peer => self.et += 1,
            4 if has_peer => self.eg += 1,
            4 if has_time && !has_comm_type => self.et += 1,
            3 if has_time => self.eg += 1,
            _ => {}
        }
    }

    fn verdict(&self) -> Schema {
        if self.typed > 0 {
            Schema::Typed
        } else if self.tagged > 0 && !self.starts_with_node {
            Schema::Tagged
        } else if self.plain > 0 || self.starts_with_node {
            if self.eg > self.et { Schema::PlainEg } else { Schema::PlainEt }
        } else {
            Schema::Typed
        }
    }
}
