//! Times that a backend knows without simulation.

use crate::Transfer;
use units::{Span, Time};

/// A transfer that no other NPU's can hold up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncontended {
    /// From its start to its arrival.
    pub transit: Span,
    /// How long it keeps the next one from the same source to the same destination waiting.
    pub occupancy: Span,
}

/// Times of transfers that a backend knows without simulating them. A caller may take the times
/// from here instead of starting the transfers, and then accounts for them by
/// [`ClosedForm::carry`].
pub trait ClosedForm {
    /// Time of a transfer that no other NPU's can hold up; `None` when one can.
    fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Uncontended>;

    /// True when a transfer from `src` to `dst` started at `at` would wait for none of `src`'s own.
    /// Means something only where [`ClosedForm::uncontended`] answers.
    fn is_idle(&self, src: u32, dst: u32, at: Time) -> bool;

    /// Accounts for `times` transfers, none waiting for another.
    fn carry(&mut self, transfer: Transfer, times: u64);

    /// Number of the link by which a transfer to `dst` leaves `src`. Transfers of one NPU with
    /// equal numbers may wait for each other. On stacked blocks, NPUs give the same number to links
    /// that lead the same way; on an explicit graph it is the link's own number.
    fn departure(&self, src: u32, dst: u32) -> u32;

    /// How long a transfer keeps that link from the next one.
    fn occupancy(&self, src: u32, dst: u32, bytes: u64) -> Span;

    /// As [`ClosedForm::uncontended`], for a transfer of (bytes, [`Transfer::paced`]).
    fn paced(&self, src: u32, dst: u32, (bytes, paced): (u64, u64)) -> Option<Uncontended> {
        self.paced_on_one_link(src, dst, (bytes, paced))
    }

    /// [`ClosedForm::paced`] of a transfer that leaves by one link.
    fn paced_on_one_link(
        &self,
        src: u32,
        dst: u32,
        (bytes, paced): (u64, u64),
    ) -> Option<Uncontended> {
        let alone = self.uncontended(src, dst, bytes)?;
        if paced <= bytes {
            return Some(alone);
        }
        let occupancy = self.occupancy(src, dst, paced);
        let latency = self.uncontended(src, dst, 0)?.transit;
        Some(Uncontended { transit: alone.transit.max(latency + occupancy), occupancy })
    }

    /// Time of a transfer that has all of its [`ClosedForm::links`] to itself for as long as it
    /// occupies them; `None` where that depends on more than the transfer.
    fn unshared(&mut self, transfer: &Transfer) -> Option<Uncontended> {
        self.paced(transfer.src, transfer.dst, (transfer.bytes, transfer.paced))
    }

    /// Adds to `links` numbers of the links on which a transfer may meet others. Links that are
    /// alike in a folded run have one number.
    fn links(&mut self, src: u32, dst: u32, links: &mut Vec<u32>) {
        links.push(self.departure(src, dst));
    }

    /// Learns of every link (by its number in the topology) whether only one NPU ever sends over
    /// it. [`ClosedForm::uncontended`] may then answer for more transfers.
    fn set_private_links(&mut self, _private: Vec<bool>) {}
}
