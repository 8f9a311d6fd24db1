//! Messages: records of 40 bytes, little-endian.
//!
//! A record has a kind, three numbers of 32 bits (`a`, `b`, `c`) and three of 64 bits (`x`, `y`,
//! `z`). A few kinds are followed by `y` bytes of text. Times are picoseconds, sizes bytes, rates
//! bytes per second.

use std::fmt;

/// Version of the protocol. Both sides send theirs first.
pub const VERSION: u32 = 2;

/// Bytes of a record.
pub(crate) const SIZE: usize = 40;

/// Most bytes of text behind a record.
pub(crate) const TEXT_MAX: u64 = 1 << 20;

/// "Never", as a time.
pub(crate) const NEVER: u64 = u64::MAX;

/// Kinds of records.
pub mod kinds {
    /// To the simulator and back. a: version, b: NPUs, c: nodes, x: links, y: bytes of text that
    /// follow (settings). Back: a: version, b: see [`routes`](super::routes), c: 1 if all further
    /// messages go by shared memory, else 0, y: bytes of text that follow (the simulator's name).
    pub const HELLO: u32 = 1;
    /// A link. a: from node, b: to node, c: dimension, x: bandwidth, y: latency, z: its number.
    pub const LINK: u32 = 2;
    /// The next link of a route. a: from NPU, b: to NPU, c: link, x: place on the route, from 0,
    /// y: lane.
    pub const ROUTE: u32 = 3;
    /// The end of links and routes.
    pub const READY: u32 = 4;
    /// A transfer starts, or a part of it. a: from NPU, b: to NPU, c: lane, x: time, y: bytes,
    /// z: token, the same for all parts.
    pub const START: u32 = 5;
    /// Go on to the first delivery, and no further than x.
    pub const ADVANCE: u32 = 6;
    /// Say what was carried.
    pub const USAGE: u32 = 7;

    /// Delivery: one `START` sent has arrived. x: time, z: token.
    pub const DELIVERY: u32 = 16;
    /// Ends the answer to `ADVANCE`. x: when there is something to do next, or all ones.
    pub const NEXT: u32 = 17;
    /// Traffic of a link. a: link, b: longest queue (packets), x: bytes, y: packets, z: time
    /// sending.
    pub const CARRIED: u32 = 18;
    /// A count over the run. a: see [`counts`](super::counts), x: value.
    pub const COUNT: u32 = 19;
    /// Ends the answer to `USAGE`.
    pub const DONE: u32 = 20;
    /// Still at work. x: simulated time.
    pub const BUSY: u32 = 21;
    /// The simulator gives up. y: bytes of text that follow.
    pub const ERROR: u32 = 22;
}

/// Which routes a simulator wants to hear of.
pub mod routes {
    /// None: it finds its own.
    pub const NONE: u32 = 0;
    /// Those of a lane between two NPUs, both ways, before its first transfer.
    pub const USED: u32 = 1;
    /// All, before `READY`.
    pub const ALL: u32 = 2;
}

/// Counts over a run.
pub mod counts {
    /// Packets with data.
    pub const DATA: u32 = 1;
    /// Acknowledgements.
    pub const ACKNOWLEDGEMENTS: u32 = 2;
    /// Links crossed by packets.
    pub const HOPS: u32 = 3;
    /// Packets dropped.
    pub const DROPS: u32 = 4;
    /// Packets marked.
    pub const MARKS: u32 = 5;
    /// Packets sent again.
    pub const RETRANSMITS: u32 = 6;
    /// Fast recoveries.
    pub const FAST_RECOVERIES: u32 = 7;
    /// Timeouts.
    pub const TIMEOUTS: u32 = 8;
    /// Most bytes that waited in a port of a switch.
    pub const LONGEST_QUEUE: u32 = 9;
    /// Round trips that were measured.
    pub const ROUND_TRIPS: u32 = 10;
    /// Their mean, ps.
    pub const ROUND_TRIP_MEAN: u32 = 11;
}

/// One message, without the text behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// See [`kinds`].
    pub kind: u32,
    /// First number.
    pub a: u32,
    /// Second number.
    pub b: u32,
    /// Third number.
    pub c: u32,
    /// First long number.
    pub x: u64,
    /// Second long number.
    pub y: u64,
    /// Third long number.
    pub z: u64,
}

impl Record {
    /// Bytes of the record.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        for (at, word) in [self.kind, self.a, self.b, self.c].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        }
        for (at, long) in [self.x, self.y, self.z].into_iter().enumerate() {
            bytes[16 + 8 * at..24 + 8 * at].copy_from_slice(&long.to_le_bytes());
        }
        bytes
    }

    /// The record of these bytes.
    pub fn decode(bytes: &[u8; SIZE]) -> Record {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Record {
            kind: word(0),
            a: word(4),
            b: word(8),
            c: word(12),
            x: long(16),
            y: long(24),
            z: long(32),
        }
    }

    /// Bytes of text behind it.
    pub(crate) fn text(&self) -> u64 {
        if matches!(self.kind, kinds::HELLO | kinds::ERROR) { self.y } else { 0 }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { kind, a, b, c, x, y, z } = *self;
        match kind {
            kinds::HELLO => write!(f, "HELLO of version {a}"),
            kinds::LINK => write!(f, "LINK {z} from node {a} to node {b}"),
            kinds::ROUTE => write!(f, "ROUTE from NPU {a} to NPU {b}, link {c}"),
            kinds::READY => f.write_str("READY"),
            kinds::START => {
                write!(f, "START of token {z}: {y} bytes from NPU {a} to NPU {b} at {x} ps")
            }
            kinds::ADVANCE if x == NEVER => f.write_str("ADVANCE without limit"),
            kinds::ADVANCE => write!(f, "ADVANCE until {x} ps"),
            kinds::USAGE => f.write_str("USAGE"),
            kinds::DELIVERY => write!(f, "DELIVERY of token {z} at {x} ps"),
            kinds::NEXT if x == NEVER => f.write_str("NEXT: nothing to do"),
            kinds::NEXT => write!(f, "NEXT at {x} ps"),
            kinds::CARRIED => write!(f, "CARRIED: {x} bytes by link {a}"),
            kinds::COUNT => write!(f, "COUNT {a}: {x}"),
            kinds::DONE => f.write_str("DONE"),
            kinds::BUSY => write!(f, "BUSY at {x} ps"),
            kinds::ERROR => f.write_str("ERROR"),
            _ => {
                write!(f, "unknown kind {kind}, bytes")?;
                self.encode().iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of `adapters/armillary.h`: four words, three long words, little-endian.
    #[test]
    fn a_record_has_the_documented_layout() {
        let record = Record {
            kind: kinds::START,
            a: 1,
            b: 0x0102_0304,
            c: 3,
            x: 0x0102_0304_0506_0708,
            y: 5,
            z: u64::MAX,
        };
        let bytes = record.encode();
        assert_eq!(bytes[..12], [5, 0, 0, 0, 1, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!(bytes[16..24], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[32..], [255; 8]);
        assert_eq!(Record::decode(&bytes), record);
    }
}
