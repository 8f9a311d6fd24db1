//! Places in the bytes of a trace that are remembered so that the next one can be read against it.
//!
//! Here: where each node starts, which nodes mean something else on another rank, and where in them
//! the values stand that do (the holes): the group's name of a collective, the ranks of a message.
//! Not here: the comparison (`pattern.rs`). Only schema `Typed` has holes; rank-dependent nodes of
//! the others are opaque.

use super::attrs::{Key, Value};
use super::schema::{Kind, Raw, Schema};
use crate::wire::{Cursor, Malformed, Wire};
use graph::Op;

/// The nodes of one trace by their place in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// The schema, once there is a node.
    pub schema: Option<Schema>,
    /// The offset of each node's message with its length.
    pub starts: Vec<u32>,
    /// The nodes whose meaning depends on the rank or on the nodes before, in the order of the
    /// file.
    pub marks: Vec<Mark>,
}

/// A node whose meaning its bytes alone don't tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Index of the node in the file.
    pub index: u32,
    /// Kind of the node.
    pub what: What,
    /// Where values stand that may differ, ascending.
    pub holes: [Option<Hole>; 2],
}

/// Kinds of marked nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A collective: node id and slot.
    Collective { id: u64, slot: u32 },
    /// A send or receive: the relative peer.
    Message { peer: i32 },
    /// One that must be decoded again each time.
    Opaque,
}

/// The bytes of a value, counted from the start of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub start: u32,
    pub end: u32,
    /// True for the rank whose trace it is.
    pub own: bool,
}

impl Marks {
    /// Takes up a node: its bytes are `message`, with their length `taken` bytes from `offset`.
    #[inline]
    pub fn add(
        &mut self,
        offset: u64,
        schema: Schema,
        raw: &Raw,
        op: Op,
        message: &[u8],
        taken: usize,
    ) {
        self.schema = Some(schema);
        let index = self.starts.len() as u32;
        self.starts.push(offset as u32);
        if matches!(raw.kind, Kind::Send | Kind::Recv | Kind::Collective | Kind::Metadata) {
            let header = (taken - message.len()) as u32;
            let (what, holes) =
                examine(schema, raw, op, message, header).unwrap_or((What::Opaque, [None; 2]));
            self.marks.push(Mark { index, what, holes });
        }
    }
}

/// The marked node's kind and holes, `None` where it has to stay opaque.
fn examine(
    schema: Schema,
    raw: &Raw,
    op: Op,
    message: &[u8],
    header: u32,
) -> Option<(What, [Option<Hole>; 2])> {
    let own = match op {
        _ if schema != Schema::Typed => return None,
        Op::Collective { slot, .. } => {
            let hole = match raw.attrs.get(Key::PgName) {
                // The text lies in the message, so its address gives the place.
                Some(Value::Text(text)) => {
                    let start = header + (text.as_ptr().addr() - message.as_ptr().addr()) as u32;
                    Some(Hole { start, end: start + text.len() as u32, own: false })
                }
                _ => None,
            };
            return Some((What::Collective { id: raw.id, slot }, [hole, None]));
        }
        Op::Send { .. } => Key::CommSrc,
        Op::Recv { .. } => Key::CommDst,
        _ => return None,
    };
    let (Op::Send { peer, .. } | Op::Recv { peer, .. }) = op else { return None };
    Some((What::Message { peer: peer.unnumbered() }, ranks(message, own, header)?))
}

/// Where a message's ranks stand, `own` being the attribute of the rank itself; the other one must
/// be there.
fn ranks(message: &[u8], own: Key, header: u32) -> Option<[Option<Hole>; 2]> {
    let mut holes: Vec<Hole> = Vec::with_capacity(2);
    let mut cursor = Cursor::new(message);
    while let Some((number, wire)) = cursor.field().ok()? {
        let (10, Wire::Bytes(attr)) = (number, wire) else { continue };
        let Some((key, span)) = rank_value(attr).ok()? else { continue };
        let (start, end) = span?;
        let base = header as usize + message.len() - cursor.remaining() - attr.len();
        let hole = Hole { start: (base + start) as u32, end: (base + end) as u32, own: key == own };
        // The last value of an attribute given twice counts; the decoder knows.
        if holes.iter().any(|other| other.own == hole.own) {
            return None;
        }
        holes.push(hole);
    }
    holes.iter().any(|hole| !hole.own).then(|| [holes.first().copied(), holes.get(1).copied()])
}

type Span = Option<(usize, usize)>;

/// Which rank an attribute holds and where, if it holds one: the place only of a plain varint.
fn rank_value(attr: &[u8]) -> Result<Option<(Key, Span)>, Malformed> {
    let (mut name, mut span): (&[u8], Span) = (b"", None);
    let mut cursor = Cursor::new(attr);
    while !cursor.is_at_end() {
        let mut start = cursor;
        let Some(field) = cursor.field()? else { break };
        match field {
            (1, Wire::Bytes(text)) => name = text,
            (2, _) => {}
            (7 | 9 | 11 | 13, Wire::Varint(_)) => {
                start.varint()?;
                span = Some((attr.len() - start.remaining(), attr.len() - cursor.remaining()));
            }
            _ => span = None,
        }
    }
    Ok(Key::from_name(name)
        .filter(|key| matches!(key, Key::CommSrc | Key::CommDst))
        .map(|key| (key, span)))
}
