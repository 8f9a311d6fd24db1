//! Reading a trace against one that was decoded before: same program, found without decoding.
//!
//! The traces of an SPMD run differ in little more than the ranks and groups they name. So the
//! bytes of a few decoded traces (at most 16, together at most 32 MiB) are kept ([`Pattern`]), and
//! the next trace walks along them: equal bytes are equal nodes, holes (`marks.rs`) are read and
//! compared as seen from the rank, any other node is decoded on both sides and compared. The first
//! real difference ends the walk, and the trace is decoded as if nothing had been tried. Contract:
//! a match gives what the decoder would give, to the last note; no match says nothing, not even
//! about faults.

use super::attrs::{Key, Value};
use super::binary::{Frame, Frames, frame};
use super::decode::{Decoder, held};
use super::groups::Declared;
use super::marks::{Mark, Marks, What};
use super::notes::Notes;
use super::schema::{Raw, Schema, detect, is_metadata};
use super::source::{Format, sniff};
use super::{ReadOptions, SlotName};
use crate::wire::Cursor;
use graph::{MemoryChange, Node};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of traces kept; a larger trace is not.
const MOST_BYTES: usize = 32 << 20;
/// Traces kept: more than a run has pipeline stages, as a rule.
pub(crate) const MOST: usize = 16;

/// A decoded trace.
pub(crate) struct Pattern<'o> {
    bytes: Vec<u8>,
    marks: Marks,
    schema: Schema,
    /// The decoder of the trace, which knows its rank and groups.
    decoder: Decoder<'o>,
    slots: usize,
    program: u32,
    notes: Arc<Notes>,
}

/// Result for a trace that matches: all that its decoder would have found.
pub(crate) struct Match {
    pub program: u32,
    pub notes: Arc<Notes>,
    pub rank_free: bool,
    pub slots: Vec<SlotName>,
    pub declared: Vec<Declared>,
}

/// The patterns to try, the one that matched last in front.
pub(crate) struct Patterns<'o> {
    held: VecDeque<Pattern<'o>>,
    bytes: usize,
    most: usize,
}

impl<'o> Patterns<'o> {
    /// None yet, and never more than `most`.
    pub fn new(most: usize) -> Patterns<'o> {
        Patterns { held: VecDeque::new(), bytes: 0, most }
    }

    /// Reads the trace `bytes` of `rank` against the patterns.
    pub fn read(&mut self, bytes: &[u8], rank: u32, options: &'o ReadOptions) -> Option<Match> {
        if self.held.is_empty() || sniff(bytes) != Format::Binary {
            return None;
        }
        let schema = detect(Frames(bytes));
        // A failed attempt must cost little next to decoding: nodes decoded and bytes walked,
        // over all patterns.
        let (mut budget, mut walked) = (8 + self.held[0].marks.starts.len() / 8, 0);
        for i in 0..self.held.len() {
            let pattern = &mut self.held[i];
            if pattern.schema != schema || walked > bytes.len() {
                continue;
            }
            let mut walk = Walk { bytes, at: 0, decoder: Decoder::new("", rank, options), budget };
            if pattern.walk(&mut walk).is_some() {
                let (program, notes) = (pattern.program, pattern.notes.clone());
                if let Some(pattern) = self.held.remove(i) {
                    self.held.push_front(pattern);
                }
                let Decoder { rank_free, slots, declared, .. } = walk.decoder;
                return Some(Match { program, notes, rank_free, slots, declared });
            }
            (budget, walked) = (walk.budget, walked + walk.at);
        }
        None
    }

    /// Keeps a decoded trace as a pattern, and gives back storage that is free.
    pub fn keep(
        &mut self,
        bytes: Vec<u8>,
        marks: Marks,
        rank: u32,
        found: &Match,
        options: &'o ReadOptions,
    ) -> Vec<u8> {
        let Some(schema) =
            marks.schema.filter(|_| bytes.capacity() <= MOST_BYTES && found.notes.is_exact())
        else {
            return bytes;
        };
        let mut decoder = Decoder::new("", rank, options);
        decoder.slots.clone_from(&found.slots);
        self.bytes += bytes.capacity();
        let (slots, program, notes) = (found.slots.len(), found.program, found.notes.clone());
        self.held.push_front(Pattern { bytes, marks, schema, decoder, slots, program, notes });
        let mut free = Vec::new();
        while self.held.len() > self.most || self.bytes > MOST_BYTES {
            let Some(last) = self.held.pop_back() else { break };
            self.bytes -= last.bytes.capacity();
            free = last.bytes;
        }
        free
    }
}

/// The trace under way: its bytes and how far they are read.
struct Walk<'a, 'o> {
    bytes: &'a [u8],
    at: usize,
    decoder: Decoder<'o>,
    /// Nodes that may still be decoded.
    budget: usize,
}

impl Pattern<'_> {
    /// Walks along the pattern; `None` at the first difference.
    fn walk(&mut self, walk: &mut Walk) -> Option<()> {
        if let Frame::Whole(message, taken) = frame(walk.bytes)
            && is_metadata(message)
        {
            walk.at = taken;
        }
        let mut next = 0;
        for i in 0..self.marks.marks.len() {
            let mark = self.marks.marks[i];
            self.plain(next, mark.index as usize, walk)?;
            self.marked(&mark, walk)?;
            next = mark.index as usize + 1;
        }
        self.plain(next, self.marks.starts.len(), walk)?;
        (walk.at == walk.bytes.len()).then_some(())
    }

    /// Where node `i` starts, or the file ends.
    fn start(&self, i: usize) -> usize {
        self.marks.starts.get(i).map_or(self.bytes.len(), |&start| start as usize)
    }

    /// Nodes that mean what their bytes say.
    fn plain(&mut self, from: usize, to: usize, walk: &mut Walk) -> Option<()> {
        if walk.equal(&self.bytes[self.start(from)..self.start(to)]) {
            return Some(());
        }
        for i in from..to {
            if !walk.equal(&self.bytes[self.start(i)..self.start(i + 1)]) {
                self.decoded(i, walk)?;
            }
        }
        Some(())
    }

    /// A node whose meaning depends on the rank.
    #[inline]
    fn marked(&mut self, mark: &Mark, walk: &mut Walk) -> Option<()> {
        let i = mark.index as usize;
        let node = &self.bytes[self.start(i)..self.start(i + 1)];
        match walk
            .ahead(node.len())
            .filter(|ahead| mark.what != What::Opaque && equal_but(node, ahead, mark))
        {
            Some(ahead) => {
                walk.at += ahead.len();
                self.holes(mark, ahead, &mut walk.decoder)
            }
            None => self.decoded(i, walk),
        }
    }

    /// Reads the holes of a node that is equal apart from them.
    #[inline]
    fn holes(&self, mark: &Mark, ahead: &[u8], decoder: &mut Decoder) -> Option<()> {
        match mark.what {
            What::Collective { id, slot } => {
                let name = match mark.holes[0] {
                    Some(hole) => &ahead[hole.start as usize..hole.end as usize],
                    None => self.decoder.slots[slot as usize].name.as_bytes(),
                };
                (decoder.slot_named(if name == b"0" { b"" } else { name }, id) == slot)
                    .then_some(())
            }
            What::Message { peer } => {
                decoder.rank_free = false;
                mark.holes
                    .iter()
                    .flatten()
                    .all(|hole| {
                        let wanted =
                            i64::from(decoder.rank) + if hole.own { 0 } else { i64::from(peer) };
                        let mut value = Cursor::new(&ahead[hole.start as usize..hole.end as usize]);
                        u32::try_from(wanted)
                            .is_ok_and(|rank| value.varint() == Ok(u64::from(rank)))
                            && value.is_at_end()
                    })
                    .then_some(())
            }
            What::Opaque => None,
        }
    }

    /// Any node: decoded on both sides and compared, notes and all.
    #[cold]
    fn decoded(&mut self, i: usize, walk: &mut Walk) -> Option<()> {
        walk.budget = walk.budget.checked_sub(1)?;
        let Frame::Whole(ours, taken) = frame(&walk.bytes[walk.at..]) else { return None };
        let Frame::Whole(known, _) = frame(&self.bytes[self.start(i)..]) else { return None };
        let known = meaning(&mut self.decoder, self.schema, known);
        let same = known.is_some() && known == meaning(&mut walk.decoder, self.schema, ours);
        // The decoder already knows what this node holds.
        self.decoder.slots.truncate(self.slots);
        self.decoder.declared.clear();
        walk.at += taken;
        same.then_some(())
    }
}

impl<'a> Walk<'a, '_> {
    fn ahead(&self, length: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.at..self.at + length)
    }

    /// Steps over `bytes` if they come next.
    fn equal(&mut self, bytes: &[u8]) -> bool {
        let equal = self.bytes[self.at..].starts_with(bytes);
        self.at += if equal { bytes.len() } else { 0 };
        equal
    }
}

/// True when the nodes differ in the mark's holes only.
#[inline]
fn equal_but(node: &[u8], other: &[u8], mark: &Mark) -> bool {
    let mut from = 0;
    for hole in mark.holes.iter().flatten() {
        let to = hole.start as usize;
        if node[from..to] != other[from..to] {
            return false;
        }
        from = hole.end as usize;
    }
    node[from..] == other[from..]
}

/// A node by itself: what it is and holds, its name and layer, what it depends on, what it adds to
/// the notes; `None` for a faulty one.
fn meaning<'a>(decoder: &mut Decoder, schema: Schema, message: &'a [u8]) -> Option<Meaning<'a>> {
    let (mut raw, mut deps) = (Raw::new(None), Vec::new());
    if message.is_empty() {
        return None;
    }
    schema.node(message, &mut raw, &mut deps, &mut decoder.notes).ok()?;
    let node = decoder.lower(schema, &raw).ok()?;
    // The decoder notes a layer that is not a name.
    let layer = raw.attrs.get(Key::Layer);
    let usable = layer.is_none_or(|layer| matches!(layer, Value::Text(_) | Value::Unsigned(_)));
    let held = held(&raw).ok()?;
    usable.then(|| ((node, held), raw.name, layer, deps, std::mem::take(&mut decoder.notes)))
}

type Meaning<'a> = ((Node, MemoryChange), &'a [u8], Option<Value<'a>>, Vec<u64>, Notes);
