//! A loss that is being mended, and how much may be sent meanwhile.

/// Event that a recovery began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A segment is held to be lost.
    Loss,
    /// The timer has expired: slow start goes on meanwhile.
    Timeout,
    /// The receiver has echoed a mark: nothing is lost (RFC 3168, section 6.1.2).
    Mark,
}

/// A recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// It ends when this byte is acknowledged.
    pub point: u64,
    pub cause: Cause,
    /// RFC 9937: bytes under way at its start (`RecoverFS`), delivered and sent since then.
    flight: u64,
    delivered: u64,
    pub out: u64,
    /// The next segment leaves whatever the window.
    pub forced: bool,
    /// The last segment was sent again (RFC 6675, `RescueRxt`).
    pub rescued: bool,
}

impl Recovery {
    /// A recovery up to byte `point`, with this number of bytes under way.
    pub(super) fn new(point: u64, flight: u64, cause: Cause) -> Recovery {
        Recovery { point, cause, flight, delivered: 0, out: 0, forced: false, rescued: false }
    }

    /// `delivered` bytes more have arrived, with `pipe` bytes in the network. Returns the window of
    /// proportional rate reduction (RFC 9937, section 6): in proportion above the threshold; below
    /// it what was delivered, and a segment more on progress without further losses (`is_safe`).
    pub(super) fn reduce(
        &mut self,
        delivered: u64,
        pipe: u64,
        (threshold, segment): (u64, u64),
        is_safe: bool,
    ) -> u64 {
        self.delivered += delivered;
        let may_send = if pipe > threshold {
            let part = u128::from(self.delivered) * u128::from(threshold);
            let part = part.div_ceil(u128::from(self.flight.max(1)));
            (part as u64).saturating_sub(self.out)
        } else {
            let behind = self.delivered.saturating_sub(self.out);
            let most = behind.max(delivered) + if is_safe { segment } else { 0 };
            most.min(threshold - pipe)
        };
        pipe + if self.out == 0 { may_send.max(segment) } else { may_send }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;

    /// RFC 9937, section 6, by hand: 20 segments under way, 4 of them lost, threshold 10.
    #[test]
    fn the_window_shrinks_in_proportion() {
        let mut recovery = Recovery::new(20_000, 20_000, Cause::Loss);
        let (mut pipe, mut sent) = (20_000 - 4_000, 0);
        for _ in 0..16 {
            pipe -= SEGMENT;
            let bounds = (10_000, SEGMENT);
            let window = recovery.reduce(SEGMENT, pipe, bounds, false);
            let may = (window - pipe) / SEGMENT * SEGMENT;
            (pipe, sent) = (pipe + may, sent + may);
            recovery.out += may;
        }
        // Every second acknowledgement sends one until the pipe is at the threshold, then each one.
        assert_eq!((pipe, sent), (10_000, 10_000));
    }

    /// Below the threshold it grows by at most a segment more than what arrives.
    #[test]
    fn the_window_grows_slowly_below_the_threshold() {
        let mut recovery = Recovery::new(20_000, 20_000, Cause::Loss);
        recovery.out = SEGMENT;
        let bounds = (10_000, SEGMENT);
        assert_eq!(recovery.reduce(SEGMENT, 3_000, bounds, false), 4_000);
        assert_eq!(recovery.reduce(SEGMENT, 3_000, bounds, true), 5_000);
        assert_eq!(recovery.reduce(SEGMENT, 9_500, bounds, true), 10_000);
    }
}
