//! Turns of connections at a port.

use rustc_hash::FxHashMap;
use units::Time;

/// The turns of a port that sends a packet of each connection in turn (Nagle, RFC 970): packets of
/// one connection leave in order, each in a turn of its own. Turns are numbered like times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// The last turn of each connection that has packets in line.
    last: FxHashMap<u32, Time>,
    /// The turn of the packet that began last.
    now: Time,
}

impl Turns {
    /// The turn of a packet that comes.
    pub(crate) fn next(&mut self, connection: u32) -> Time {
        let last = self.last.entry(connection).or_default();
        *last = Time(self.now.max(*last).0 + 1);
        *last
    }

    /// A packet begins to leave in its turn.
    pub(crate) fn begins(&mut self, connection: u32, turn: Time) {
        self.now = self.now.max(turn);
        if self.last.get(&connection) == Some(&turn) {
            self.last.remove(&connection);
        }
    }
}
