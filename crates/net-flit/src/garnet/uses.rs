//! What the virtual networks of each channel have done, and what flits waited for.
//!
//! A flit that is the first of its virtual channel waits because it *can not* move, for want of a
//! credit or of an idle virtual channel behind the link, or because another flit is chosen though
//! it can. Nothing is counted while flits wait: a group of virtual channels adds up the time in
//! which none of them was idle, a body the cycle from which it has a credit, and the difference is
//! taken when the flit moves.

/// What a virtual network of a channel has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Flits carried.
    pub flits: u64,
    /// Packets of which it has carried flits.
    pub packets: u64,
    /// Cycles in which flits waited to enter it without a credit.
    pub no_credit: u64,
    /// Cycles in which heads waited to enter it while no virtual channel was idle.
    pub no_channel: u64,
    /// Cycles in which flits could have entered it and others were chosen.
    pub lost: u64,
    /// Cycles of flits in its buffers, where it leads to a router.
    pub held_cycles: u64,
    /// Flits in them now, and the most at once.
    pub held: u32,
    /// See `held`.
    pub held_max: u32,
}

impl Use {
    /// A flit comes into the buffers.
    #[inline]
    pub(super) fn enters(&mut self, now: u64) {
        self.held += 1;
        self.held_max = self.held_max.max(self.held);
        self.held_cycles = self.held_cycles.wrapping_sub(now);
    }

    /// A flit leaves them.
    #[inline]
    pub(super) fn leaves(&mut self, now: u64) {
        self.held -= 1;
        self.held_cycles = self.held_cycles.wrapping_add(now);
    }

    /// With the flits that are in the buffers counted up to `now`.
    pub(super) fn until(self, now: u64) -> Use {
        let held_cycles = self.held_cycles.wrapping_add(u64::from(self.held) * now);
        Use { held_cycles, ..self }
    }

    /// Both together.
    pub fn and(self, other: Use) -> Use {
        Use {
            flits: self.flits + other.flits,
            packets: self.packets + other.packets,
            no_credit: self.no_credit + other.no_credit,
            no_channel: self.no_channel + other.no_channel,
            lost: self.lost + other.lost,
            held_cycles: self.held_cycles + other.held_cycles,
            held: self.held + other.held,
            held_max: self.held_max.max(other.held_max),
        }
    }
}

/// How long none of a group of virtual channels was idle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closed {
    /// Cycles before the last closing.
    total: u64,
    /// The first cycle without an idle one.
    since: u64,
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
        self.total += now.saturating_sub(self.since);
    }

    /// Cycles before `now`.
    #[inline]
    pub(super) fn before(&self, now: u64, is_open: bool) -> u64 {
        self.total + if is_open { 0 } else { now.saturating_sub(self.since) }
    }
}
