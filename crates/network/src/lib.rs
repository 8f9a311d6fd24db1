//! The Backend contract: what the executor may ask of a network, whatever its fidelity. No
//! implementation is here.
//!
//! Here: [`Backend`], [`Transfer`], [`Delivery`], [`Stamp`] and [`Sequence`] (the total order of
//! events across components), [`LinkCost`] (what one link asks for a message), [`Usage`], and the
//! [`conformance`] suite every backend runs. Not here: queues, routes in time, packets (`net-*`),
//! and anything about graphs or collectives (`sim`).

pub mod conformance;
mod cost;

pub use cost::LinkCost;
use units::{Span, Time};

/// A place in the total order of events: time first, then the order in which events were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// When.
    pub time: Time,
    /// Unique among events of one run; drawn from [`Sequence`] when the event is scheduled.
    pub order: u64,
}

impl Stamp {
    /// After every event.
    pub const MAX: Stamp = Stamp { time: Time::MAX, order: u64::MAX };
}

/// Gives out orders. One run has one, shared by the executor and its backend, so that events of one
/// instant are handled in the order in which they were scheduled, whoever scheduled them.
#[derive(Clone, Debug, Default)]
pub struct Sequence(u64);

impl Sequence {
    /// The next order.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// Bytes from a source rank to a destination rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Source rank.
    pub src: u32,
    /// Destination rank, different from the source.
    pub dst: u32,
    /// Size; zero is allowed and costs latency only.
    pub bytes: u64,
    /// The caller's name for it, returned with the delivery.
    pub token: u64,
    /// How many like it it stands for (1, more in a folded run); counts in [`Usage`], not in time.
    pub weight: u64,
}

/// A transfer that has arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The transfer's token.
    pub token: u64,
    /// When it arrived.
    pub time: Time,
}

/// A transfer that no other NPU's can hold up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// From its start to its arrival.
    pub transit: Span,
    /// How long it keeps the next one from the same source to the same destination waiting.
    pub occupancy: Span,
}

/// A network. It sees transfers, never a graph, a collective or another backend; a query changes
/// nothing.
///
/// The caller starts transfers with times that never decrease, and advances to `next_event` before
/// starting anything later.
pub trait Backend {
    /// Starts `transfer` at `now`. It comes back through [`Backend::advance`] exactly once.
    fn start(&mut self, now: Time, transfer: Transfer, sequence: &mut Sequence);

    /// When the backend next has something to do; `None` when nothing is under way.
    fn next_event(&self) -> Option<Stamp>;

    /// Handles events up to and including `until`, in order, and stops after the first one that
    /// delivers.
    fn advance(&mut self, until: Stamp, sequence: &mut Sequence, finished: &mut Vec<Delivery>);

    /// What a transfer takes when no other NPU's can hold it up; `None` when one can (the closed
    /// form of DESIGN 4 stands on this).
    fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Alone>;

    /// True when a transfer from `src` to `dst` started at `at` would wait for none of `src`'s own.
    /// Asked where [`Backend::uncontended`] answers.
    fn is_idle(&self, src: u32, dst: u32, at: Time) -> bool;

    /// Accounts for `times` transfers, none waiting for another, that the caller timed by
    /// [`Backend::uncontended`].
    fn carry(&mut self, transfer: Transfer, times: u64);

    /// A lower bound on the time of any transfer of `bytes` from `src` to `dst`.
    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span;

    /// How long a transfer keeps the link by which it leaves `src` from the next one.
    fn occupancy(&self, src: u32, dst: u32, bytes: u64) -> Span {
        self.physical_minimum(src, dst, bytes).saturating_sub(self.physical_minimum(src, dst, 0))
    }

    /// Which of the links out of `src` a transfer to `dst` leaves by: transfers of one NPU with
    /// equal numbers may wait for each other. On stacked blocks NPUs number a link alike that leads
    /// the same way; elsewhere the number says no more than that.
    fn departure(&self, src: u32, dst: u32) -> u32;

    /// What has been carried so far.
    fn usage(&self) -> Usage;
}

/// What a backend has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes by dimension on links that leave an NPU (a ring counts every hop). One dimension where
    /// the fabric has none.
    pub bytes: Vec<u128>,
    /// Transfers started, by weight.
    pub transfers: u128,
    /// Time for which messages were sent on by what they had been stored in on their way, ps, by
    /// weight.
    pub stored: u128,
    /// Per link that was used, in link order; empty for backends without links.
    pub links: Vec<LinkUsage>,
}

/// What one link has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Node it leaves, as the topology numbers nodes (NPUs first).
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Dimension, 0-based.
    pub dim: u32,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Time sending.
    pub busy: Span,
    /// Sum of the waits in the queue.
    pub waited: Span,
    /// Most messages waiting at once.
    pub longest_queue: u32,
}
