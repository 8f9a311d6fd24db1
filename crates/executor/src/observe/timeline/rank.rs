//! The tracks of one simulated rank: a group that shows its state, with lanes of slices and
//! counters below it.
//!
//! Slices on one track must nest. A slice that overlaps goes to the lowest free lane. Lanes are
//! tracks of one name, which readers show as one. A track is written when something first happens
//! on it.

use super::instant::ns;
use super::words::Words;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use trace::perfetto::{Details, Track, Unit, Value, Writer};
use units::Time;

/// A group of tracks. Siblings are shown in the order of their numbers.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub group: u64,
    pub name: String,
    pub description: &'static str,
    pub order: u32,
}

impl Place {
    fn track<W: Write>(&self, unit: Option<Unit>, out: &mut Writer<W>) -> u64 {
        let Place { group, name, description, order } = self;
        out.track(&Track { parent: Some(*group), name, description, order: *order, unit })
    }
}

/// Slices that may overlap.
pub(super) struct Lanes {
    place: Place,
    tracks: Vec<u64>,
    free: BinaryHeap<Reverse<u32>>,
    /// Lane and begin of each slice under way, by its key.
    open: FxHashMap<(u32, u32), (u32, Time)>,
}

impl Lanes {
    pub(super) fn new(place: Place) -> Lanes {
        Lanes { place, tracks: Vec::new(), free: BinaryHeap::new(), open: FxHashMap::default() }
    }

    /// The track on which `key` begins.
    pub(super) fn open<W: Write>(
        &mut self,
        key: (u32, u32),
        now: Time,
        out: &mut Writer<W>,
    ) -> u64 {
        let lane = self.free.pop().map_or(self.tracks.len() as u32, |Reverse(lane)| lane);
        if lane as usize == self.tracks.len() {
            self.tracks.push(self.place.track(None, out));
        }
        self.open.insert(key, (lane, now));
        self.tracks[lane as usize]
    }

    /// The track on which `key` ends, and when it began. `None` if it has not begun.
    pub(super) fn close(&mut self, key: (u32, u32)) -> Option<(u64, Time)> {
        let (lane, began) = self.open.remove(&key)?;
        self.free.push(Reverse(lane));
        Some((self.tracks[lane as usize], began))
    }
}

/// A count over time.
pub(super) struct Counter {
    place: Place,
    unit: Unit,
    track: Option<u64>,
    pub value: u64,
    written: u64,
}

impl Counter {
    pub(super) fn new(place: Place, unit: Unit) -> Counter {
        Counter { place, unit, track: None, value: 0, written: 0 }
    }

    /// Track and value, if the value differs from the one written last.
    pub(super) fn news<W: Write>(&mut self, out: &mut Writer<W>) -> Option<(u64, u64)> {
        if self.value == self.written {
            return None;
        }
        self.written = self.value;
        let (place, unit) = (&self.place, self.unit);
        Some((*self.track.get_or_insert_with(|| place.track(Some(unit), out)), self.value))
    }
}

/// Parts of the step that a rank's time is charged to: stretches of one state, written when the
/// state changes.
#[derive(Default)]
pub(super) struct States {
    name: Option<u32>,
    since: Time,
    until: Time,
}

impl States {
    /// The rank has been in the state of that name, `None` for idle, between two times.
    pub(super) fn spent<W: Write>(
        &mut self,
        name: Option<u32>,
        (from, to): (Time, Time),
        (group, words): (u64, &Words),
        out: &mut Writer<W>,
    ) {
        if name == self.name && from == self.until {
            self.until = to;
            return;
        }
        self.write(group, words, out);
        *self = States { name, since: from, until: to };
    }

    /// Writes the last stretch.
    pub(super) fn write<W: Write>(&mut self, group: u64, words: &Words, out: &mut Writer<W>) {
        let Some(name) = self.name.take() else { return };
        let start = [(words.start, Value::Number(self.since.0))];
        let duration = [(words.duration, Value::Number(self.until.since(self.since).0))];
        let details = |arguments| Details { arguments, ..Details::default() };
        out.begin(ns(self.since), group, words.state, name, &details(&start));
        out.end(ns(self.until), group, &details(&duration));
    }
}

/// Tracks of a rank, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Compute,
    Communication,
    Dimension(u32),
    Remote,
    Local,
    Host,
}

/// See the module.
pub(super) struct RankTracks {
    pub group: u64,
    pub states: States,
    compute: Lanes,
    communication: Lanes,
    dimensions: Vec<Lanes>,
    remote: Lanes,
    local: Lanes,
    host: Lanes,
    /// Chunks in queues, then chunks in a phase, by dimension.
    counters: [Vec<Counter>; 2],
    /// Bytes in the NPU's memory.
    pub held: Counter,
    /// Nodes that have ended at an instant, each with its event.
    pub ended: (Time, Vec<(u32, usize)>),
}

/// Counters of a rank, by dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    Waiting,
    Running,
}

impl RankTracks {
    /// The tracks below `group` for `dimensions` of these names.
    pub(super) fn new(group: u64, dimensions: &[String]) -> RankTracks {
        let place = |order: u32, name: &str, description| Place {
            group,
            name: name.into(),
            description,
            order,
        };
        let lanes = |order, name: &str, description| Lanes::new(place(order, name, description));
        let many = dimensions.len() as u32;
        let dimension = |(at, name): (usize, &String)| {
            lanes(3 + at as u32, name, "Chunks of collectives in a phase on it.")
        };
        let counters = |order: u32, what: &str, description: &'static str| -> Vec<Counter> {
            let named = |(at, name): (usize, &String)| {
                Counter::new(
                    place(order + 2 * at as u32, &format!("{what} {name}"), description),
                    Unit::Count,
                )
            };
            dimensions.iter().enumerate().map(named).collect()
        };
        RankTracks {
            group,
            states: States::default(),
            compute: lanes(1, "compute", "Computation on the NPU."),
            communication: lanes(
                2,
                "communication",
                "Collectives and sends from their issue to their end, and receives while their message is under way.",
            ),
            dimensions: dimensions.iter().enumerate().map(dimension).collect(),
            remote: lanes(3 + many, "remote memory", "Accesses to memory outside the NPU."),
            local: lanes(4 + many, "local memory", "Accesses to the NPU's own memory."),
            host: lanes(5 + many, "host", "Computation on the host."),
            counters: [
                counters(6 + many, "waiting for", "Chunks in its queue."),
                counters(7 + many, "using", "Chunks in a phase on it."),
            ],
            held: Counter::new(
                place(9 + 3 * many, "memory held", "Bytes in the memory of the NPU."),
                Unit::Bytes,
            ),
            ended: Default::default(),
        }
    }

    pub(super) fn lanes(&mut self, row: Row) -> &mut Lanes {
        match row {
            Row::Compute => &mut self.compute,
            Row::Communication => &mut self.communication,
            Row::Dimension(dim) => &mut self.dimensions[dim as usize],
            Row::Remote => &mut self.remote,
            Row::Local => &mut self.local,
            Row::Host => &mut self.host,
        }
    }

    pub(super) fn counter(&mut self, what: Chunks, dim: u32) -> &mut Counter {
        &mut self.counters[what as usize][dim as usize]
    }

    /// Counters whose value has changed: track and value.
    pub(super) fn news<'a, W: Write>(
        &'a mut self,
        out: &'a mut Writer<W>,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.counters
            .iter_mut()
            .flatten()
            .chain([&mut self.held])
            .filter_map(|counter| counter.news(out))
    }

    /// The event of the end of `node` at this instant.
    pub(super) fn end_of(&self, node: u32, now: Time) -> Option<usize> {
        let of = |&&(ended, _): &&(u32, usize)| ended == node;
        self.ended.1.iter().rev().find(of).map(|&(_, event)| event).filter(|_| self.ended.0 == now)
    }

    /// Notes such an event.
    pub(super) fn note_end(&mut self, node: u32, event: usize, now: Time) {
        if self.ended.0 != now {
            self.ended = (now, std::mem::take(&mut self.ended.1));
            self.ended.1.clear();
        }
        self.ended.1.push((node, event));
    }
}
