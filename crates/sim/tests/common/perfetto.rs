//! A small reader of Perfetto traces: what a timeline's packets say, nothing checked beyond that
//! they are well formed.
//!
//! Independent of the writer; numbers of fields are those of Perfetto's `trace_packet.proto` and
//! what it includes.

use std::collections::BTreeMap;

/// A field's value: a number (a varint, or 8 bytes) or bytes.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a whole varint");
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (taken, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(taken.try_into().expect("eight bytes")))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(taken)
            }
            other => panic!("wire type {other}"),
        };
        all.push((key >> 3, value));
    }
    all
}

fn number(fields: &[(u64, Field)], which: u64) -> Option<u64> {
    fields.iter().find_map(|&(n, value)| match value {
        Field::Number(number) if n == which => Some(number),
        _ => None,
    })
}

fn numbers(fields: &[(u64, Field)], which: u64) -> Vec<u64> {
    let of = |&(n, value): &(u64, Field)| number(&[(n, value)], which);
    fields.iter().filter_map(of).collect()
}

fn messages<'a>(fields: &[(u64, Field<'a>)], which: u64) -> Vec<&'a [u8]> {
    let of = |&(n, value): &(u64, Field<'a>)| match value {
        Field::Bytes(bytes) if n == which => Some(bytes),
        _ => None,
    };
    fields.iter().filter_map(of).collect()
}

fn text(fields: &[(u64, Field)], which: u64) -> String {
    messages(fields, which)
        .first()
        .map_or(String::new(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// A track and the one above it.
#[derive(Clone, Debug, Default)]
pub struct Track {
    pub parent: u64,
    pub name: String,
}

/// A slice. Times are those of its arguments, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    pub track: u64,
    pub category: String,
    pub name: String,
    pub numbers: BTreeMap<String, u64>,
    pub texts: BTreeMap<String, String>,
    /// Begin and end as Perfetto has them, ns.
    pub ns: (u64, u64),
}

impl Slice {
    pub fn start(&self) -> u64 {
        self.numbers["start_ps"]
    }

    pub fn end(&self) -> u64 {
        self.start() + self.numbers["duration_ps"]
    }
}

/// What a timeline holds.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub tracks: BTreeMap<u64, Track>,
    /// In order of their begins in the file.
    pub slices: Vec<Slice>,
    /// Slices at the ends of a flow.
    pub flows: Vec<(usize, usize)>,
    /// Flows that end and have not begun, or begin twice.
    pub stray: usize,
    /// Time in ns and value, by track.
    pub counters: BTreeMap<u64, Vec<(u64, f64)>>,
    texts: BTreeMap<(u64, u64), String>,
    open: BTreeMap<u64, Vec<usize>>,
    begun: BTreeMap<u64, usize>,
}

pub fn read(trace: &[u8]) -> Timeline {
    let mut timeline = Timeline::default();
    messages(&fields(trace), 1).iter().for_each(|packet| timeline.packet(&fields(packet)));
    assert!(timeline.open.values().all(Vec::is_empty), "a slice does not end");
    timeline
}

impl Timeline {
    fn packet(&mut self, packet: &[(u64, Field)]) {
        for texts in messages(packet, 12) {
            for (table, value) in fields(texts) {
                let Field::Bytes(entry) = value else { panic!("a text is a message") };
                let entry = fields(entry);
                self.texts.insert((table, number(&entry, 1).unwrap_or(0)), text(&entry, 2));
            }
        }
        for track in messages(packet, 60) {
            let track = fields(track);
            let known = Track { parent: number(&track, 5).unwrap_or(0), name: text(&track, 2) };
            self.tracks.insert(number(&track, 1).expect("tracks have numbers"), known);
        }
        for event in messages(packet, 11) {
            self.event(number(packet, 8).unwrap_or(0), &fields(event));
        }
    }

    fn event(&mut self, ns: u64, event: &[(u64, Field)]) {
        let track = number(event, 11).expect("events have a track");
        assert!(self.tracks.contains_key(&track), "a track is described before it is used");
        let slice = match number(event, 9) {
            Some(1) => self.begin(ns, track, event),
            Some(2) => {
                let slice =
                    self.open.get_mut(&track).and_then(Vec::pop).expect("what ends has begun");
                self.slices[slice].ns.1 = ns;
                slice
            }
            _ => {
                let whole = number(event, 30).map(|value| value as f64);
                let value = whole.or(number(event, 44).map(f64::from_bits)).expect("a value");
                self.counters.entry(track).or_default().push((ns, value));
                return;
            }
        };
        self.arguments(slice, event);
        for flow in numbers(event, 47) {
            self.stray += usize::from(self.begun.insert(flow, slice).is_some());
        }
        for flow in numbers(event, 48) {
            match self.begun.get(&flow) {
                Some(&from) => self.flows.push((from, slice)),
                None => self.stray += 1,
            }
        }
    }

    fn begin(&mut self, ns: u64, track: u64, event: &[(u64, Field)]) -> usize {
        let named = |table, which| self.texts[&(table, number(event, which).unwrap_or(0))].clone();
        let slice = Slice {
            track,
            category: named(1, 3),
            name: named(2, 10),
            ns: (ns, ns),
            ..Slice::default()
        };
        self.slices.push(slice);
        self.open.entry(track).or_default().push(self.slices.len() - 1);
        self.slices.len() - 1
    }

    fn arguments(&mut self, slice: usize, event: &[(u64, Field)]) {
        for argument in messages(event, 4) {
            let argument = fields(argument);
            let key = self.texts[&(3, number(&argument, 1).unwrap_or(0))].clone();
            match (number(&argument, 3), number(&argument, 17)) {
                (Some(value), _) => drop(self.slices[slice].numbers.insert(key, value)),
                (_, Some(value)) => {
                    drop(self.slices[slice].texts.insert(key, self.texts[&(29, value)].clone()))
                }
                _ => panic!("an argument without a value"),
            }
        }
    }

    /// The tracks at the top, without that of the machine.
    pub fn groups(&self) -> Vec<u64> {
        let top = self.tracks.iter().filter(|(_, track)| {
            track.parent == 0 && !["all NPUs", "network"].contains(&track.name.as_str())
        });
        top.map(|(&number, _)| number).collect()
    }

    /// Slices on the tracks of a name below a group; on the group itself without one.
    pub fn on(&self, group: u64, name: Option<&str>) -> Vec<&Slice> {
        let there = |slice: &&Slice| match name {
            None => slice.track == group,
            Some(name) => {
                let track = &self.tracks[&slice.track];
                track.parent == group && track.name == name
            }
        };
        self.slices.iter().filter(there).collect()
    }

    /// The counter of a name below a group, 0 before its first value.
    pub fn counter(&self, group: u64, name: &str) -> Option<&Vec<(u64, f64)>> {
        let of = |(_, track): &(&u64, &Track)| track.parent == group && track.name == name;
        let track =
            self.tracks.iter().filter(of).find(|(number, _)| self.counters.contains_key(number))?;
        self.counters.get(track.0)
    }
}

/// Picoseconds in which at least one of the slices is under way.
pub fn union(slices: &[&Slice]) -> u64 {
    let mut spans: Vec<(u64, u64)> =
        slices.iter().map(|slice| (slice.start(), slice.end())).collect();
    spans.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for (from, to) in spans {
        sum += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    sum
}

/// Picoseconds of all slices together.
pub fn sum(slices: &[&Slice]) -> u64 {
    slices.iter().map(|slice| slice.numbers["duration_ps"]).sum()
}
