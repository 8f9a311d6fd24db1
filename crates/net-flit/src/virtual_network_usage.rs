//! Use of the virtual networks of each channel, and waits of flits.
//!
//! A flit that is the first of its virtual channel waits because it *can not* move, for want of a
//! credit or of an idle virtual channel behind the link, or because another flit is chosen though
//! it can. What flits wait is added up when they move.

/// Use of a virtual network of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct Use {
    /// Flits carried.
    pub flits: u64,
    /// Packets whose flits it has carried.
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
    pub(crate) fn enters(&mut self, now: u64) {
        self.held += 1;
        self.held_max = self.held_max.max(self.held);
        self.held_cycles = self.held_cycles.wrapping_sub(now);
    }

    /// A flit leaves them.
    #[inline]
    pub(crate) fn leaves(&mut self, now: u64) {
        self.held -= 1;
        self.held_cycles = self.held_cycles.wrapping_add(now);
    }

    /// With the flits that are in the buffers counted up to `now`.
    pub(crate) fn until(self, now: u64) -> Use {
        let held_cycles = self.held_cycles.wrapping_add(u64::from(self.held) * now);
        Use { held_cycles, ..self }
    }

    /// Cycles in which flits waited to enter it.
    pub fn waited(&self) -> u64 {
        self.no_credit + self.no_channel + self.lost
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
