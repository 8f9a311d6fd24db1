//! Perfetto's native trace format, written as a stream: tracks, slices, flows and counters.
//!
//! A trace is a sequence of packets; each is written when it is made, so memory does not grow with
//! the trace. Texts are interned: a packet brings those that are new with it. Equation: a slice
//! lasts from its begin to its end on its track, in whole nanoseconds (Perfetto knows no shorter
//! time); a counter keeps a value until the next. Packets may go back in time, for readers sort
//! them; of one time they keep the order of the file. Not here: which tracks a run has and what
//! happens on them (`sim::observe`). Nothing reads them back. Source: Perfetto's
//! `trace_packet.proto`, `track_descriptor.proto`, `track_event.proto`, `interned_data.proto`.

use crate::wire::{put_bytes, put_fixed64, put_message, put_number};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// The only sequence of packets.
const SEQUENCE: u64 = 1;
const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;

/// Fields of a packet.
mod packet {
    pub const TIME: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const EVENT: u32 = 11;
    pub const INTERNED: u32 = 12;
    pub const FLAGS: u32 = 13;
    pub const TRACK: u32 = 60;
}

/// Which texts an interned text belongs to; each table counts for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Categories of slices.
    Category,
    /// Names of slices.
    Name,
    /// Names of arguments.
    Key,
    /// Values of arguments.
    Value,
}

impl Table {
    fn field(self) -> u32 {
        [1, 2, 3, 29][self as usize]
    }
}

/// A track: a row that slices or a counter stand on, below its parent.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// `None` at the top.
    pub parent: Option<u64>,
    /// Siblings of one name are shown as one track with lanes.
    pub name: &'a str,
    /// Description of the track, for people.
    pub description: &'a str,
    /// Place among its siblings.
    pub order: u32,
    /// Unit of a counter.
    pub unit: Option<Unit>,
}

/// Unit of a counter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Parts of a hundred.
    Percent,
}

/// The value of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A text of [`Table::Value`].
    Text(u32),
}

/// Facts at the begin or the end of a slice in addition to its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details<'a> {
    /// Names (of [`Table::Key`]) and values; those of begin and end are one list.
    pub arguments: &'a [(u32, Value)],
    /// Flows that start or go on here.
    pub flows: &'a [u64],
    /// Flows that end here.
    pub ends: &'a [u64],
}

/// Writes a trace to `out`. The first error is kept, and nothing is written after it.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    failed: Option<io::Error>,
    buffer: Vec<u8>,
    texts: [FxHashMap<Box<str>, u32>; 4],
    /// Entries of `InternedData` that the next packet brings.
    fresh: Vec<u8>,
    tracks: u64,
    packets: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    pub fn new(out: W) -> Writer<W> {
        let mut writer = Writer {
            out,
            failed: None,
            buffer: Vec::new(),
            texts: Default::default(),
            fresh: Vec::new(),
            tracks: 0,
            packets: 0,
        };
        writer.packet(|packet| put_number(packet, packet::FLAGS, 1)); // texts are numbered anew from here
        writer
    }

    /// Whether writing has failed; [`Writer::finish`] says why.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// The first that there was.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// The number of a text in a table, from 1.
    pub fn intern(&mut self, table: Table, text: &str) -> u32 {
        let known = &mut self.texts[table as usize];
        if let Some(&number) = known.get(text) {
            return number;
        }
        let number = known.len() as u32 + 1;
        known.insert(text.into(), number);
        put_message(&mut self.fresh, table.field(), |entry| {
            put_number(entry, 1, number.into());
            put_bytes(entry, 2, text.as_bytes());
        });
        number
    }

    /// Adds a track and returns its number.
    pub fn track(&mut self, track: &Track) -> u64 {
        self.tracks += 1;
        let number = self.tracks;
        self.packet(|packet| {
            put_message(packet, packet::TRACK, |out| describe(out, number, track))
        });
        number
    }

    /// A slice begins on `track`, within the one that has begun there and not ended.
    pub fn begin(&mut self, ns: u64, track: u64, category: u32, name: u32, details: &Details) {
        self.event(ns, BEGIN, track, |event| {
            put_number(event, 3, category.into());
            put_number(event, 10, name.into());
            put_details(event, details);
        });
    }

    /// The innermost slice on `track` ends.
    pub fn end(&mut self, ns: u64, track: u64, details: &Details) {
        self.event(ns, END, track, |event| put_details(event, details));
    }

    /// A counter has a value from now on.
    pub fn count(&mut self, ns: u64, track: u64, value: u64) {
        self.event(ns, COUNTER, track, |event| put_number(event, 30, value));
    }

    /// As [`Writer::count`], with decimals.
    pub fn measure(&mut self, ns: u64, track: u64, value: f64) {
        self.event(ns, COUNTER, track, |event| put_fixed64(event, 44, value.to_bits()));
    }

    #[inline]
    fn event(&mut self, ns: u64, kind: u64, track: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        let fresh = std::mem::take(&mut self.fresh);
        self.packet(|packet| {
            put_number(packet, packet::TIME, ns);
            if !fresh.is_empty() {
                put_bytes(packet, packet::INTERNED, &fresh);
            }
            put_message(packet, packet::EVENT, |event| {
                put_number(event, 9, kind);
                put_number(event, 11, track);
                fill(event);
            });
        });
    }

    #[inline]
    fn packet(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.failed.is_some() {
            return;
        }
        self.buffer.clear();
        put_message(&mut self.buffer, 1, |packet| {
            put_number(packet, packet::SEQUENCE, SEQUENCE);
            fill(packet);
        });
        self.packets += 1;
        self.failed = self.out.write_all(&self.buffer).err();
    }
}

fn describe(out: &mut Vec<u8>, number: u64, track: &Track) {
    put_number(out, 1, number);
    put_bytes(out, 2, track.name.as_bytes());
    if let Some(parent) = track.parent {
        put_number(out, 5, parent);
    }
    put_number(out, 12, track.order.into());
    if !track.description.is_empty() {
        put_bytes(out, 14, track.description.as_bytes());
    }
    match track.unit {
        None => put_number(out, 11, 3), // children stand in the order that they name
        Some(Unit::Count) => put_message(out, 8, |counter| put_number(counter, 3, 2)),
        Some(Unit::Bytes) => put_message(out, 8, |counter| put_number(counter, 3, 3)),
        Some(Unit::Percent) => put_message(out, 8, |counter| put_bytes(counter, 6, b"%")),
    }
}

fn put_details(event: &mut Vec<u8>, details: &Details) {
    for &(key, value) in details.arguments {
        put_message(event, 4, |argument| {
            put_number(argument, 1, key.into());
            match value {
                Value::Number(number) => put_number(argument, 3, number),
                Value::Text(text) => put_number(argument, 17, text.into()),
            }
        });
    }
    details.flows.iter().for_each(|&flow| put_fixed64(event, 47, flow));
    details.ends.iter().for_each(|&flow| put_fixed64(event, 48, flow));
}

#[cfg(test)]
#[path = "perfetto_tests.rs"]
mod tests;
