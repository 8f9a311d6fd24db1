//! How long none of a group of virtual channels was idle. Nothing is counted while heads wait: a
//! group adds up the time in which none was idle, and a head takes the difference when it moves.

/// The time of one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// Cycles before the last closing.
    total: u64,
    /// The first cycle without an idle one; `u64::MAX` while there is one.
    since: u64,
}

impl Default for Closed {
    fn default() -> Closed {
        Closed { total: 0, since: u64::MAX }
    }
}

impl Closed {
    /// The last idle one is taken in this cycle.
    #[inline]
    pub(super) fn closes(&mut self, now: u64) {
        self.since = now + 1;
    }

    /// One is idle again, from this cycle on.
    #[inline]
    pub(super) fn opens(&mut self, now: u64) {
        self.total = self.before(now);
        self.since = u64::MAX;
    }

    /// Cycles before `now`.
    #[inline]
    pub(super) fn before(&self, now: u64) -> u64 {
        self.total + now.saturating_sub(self.since)
    }
}
