//! How long none of a group of virtual channels was idle. Nothing is counted while heads wait: a
//! group adds up the time in which none was idle, and a head takes the difference when it moves.

/// The time of one group. Only the lowest bits are kept, because differences are what matters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closed {
    /// Cycles before the last closing.
    total: u32,
    /// The cycle in which the last idle one was taken.
    since: u32,
}

impl Closed {
    /// The last idle one is taken in this cycle.
    #[inline]
    pub(super) fn closes(&mut self, now: u64) {
        self.since = now as u32;
    }

    /// One is idle again, from this cycle on.
    #[inline]
    pub(super) fn opens(&mut self, now: u64) {
        self.total = self.before(now, true);
    }

    /// Cycles before `now` without an idle one, where it is said whether this is one.
    #[inline]
    pub(super) fn before(&self, now: u64, is_closed: bool) -> u32 {
        let cycles = (now as u32).wrapping_sub(self.since).saturating_sub(1);
        self.total.wrapping_add(if is_closed { cycles } else { 0 })
    }
}
