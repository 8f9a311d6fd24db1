//! The contract itself.

use crate::{ClosedForm, Delivery, NetworkSink, Ordered, Stuck, Transfer, Usage};
use units::{Span, Time};

/// Where transfers can hold one another up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// Nowhere.
    None,
    /// Only on the link by which they leave their NPU, see [`ClosedForm::departure`].
    Departures,
    /// Anywhere on their way.
    Links,
}

/// Which links are alike, so that one rank can be simulated for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alike {
    /// None. Every rank is simulated.
    Nothing,
    /// Links out of NPUs with equal [`ClosedForm::departure`]. Transfers of different NPUs never
    /// meet.
    Departures,
    /// Links from NPU to NPU with equal [`Backend::physical_minimum`], as long as a transfer takes
    /// one link and only one NPU sends over that link.
    OneLink,
    /// Links that the caller finds alike and passes to [`Backend::fold`]: what they carry depends
    /// only on their cost and on the transfers that take them.
    Classes,
}

/// Which links of a folded run are alike: they carry alike flows at all times, so that one stands
/// for all of them.
pub trait LinkClasses: Send {
    /// The link that stands for `link`, and how many links it stands for. It stands for itself.
    fn of(&mut self, link: u32) -> (u32, u64);
}

/// Memory that a backend will take, for the estimate before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes for each transfer under way, besides a queued event.
    pub transfer: u64,
    /// Links of the network.
    pub links: u64,
    /// Bytes for each link.
    pub link: u64,
    /// Bytes for each link that carries something, in addition.
    pub used_link: u64,
    /// Data of the largest packet, in bytes. Each packet takes an event on every link; 0 where
    /// messages are not cut into packets.
    pub packet: u64,
}

/// A network. It sees transfers, never a graph, a collective or another backend. A query changes
/// nothing, and the same calls always give the same answers; a backend may use threads as long as
/// that holds.
///
/// The caller starts transfers at times that never decrease, and advances past every event earlier
/// than the next start. Making a backend is cheap: large tables wait for the first start.
pub trait Backend: Send {
    /// Starts `transfer` at `now`. It comes back through [`Backend::advance`] exactly once.
    fn start(&mut self, now: Time, transfer: Transfer);

    /// When the backend next has something to do; `None` when nothing is under way, or when
    /// nothing can move (see [`Backend::stalled`]).
    fn next_event(&self) -> Option<Time>;

    /// Handles events up to and including `until` in the backend's own order, and stops at the
    /// first time at which it delivers. Appends the deliveries to `finished`: one or more, all of
    /// that time. A backend with much to do before that may return earlier with nothing
    /// delivered, and is called again: a run that takes long can be stopped in between.
    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>);

    /// A lower bound on the time of any transfer of `bytes` from `src` to `dst`.
    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span;

    /// Bytes that links have carried until then, which is not before the last event that was
    /// handled. A link that is sending then counts with the part that it has sent. With
    /// [`Time::MAX`], all that was begun counts.
    fn usage(&self, until: Time) -> Usage;

    /// Where transfers can hold one another up.
    fn contention(&self) -> Contention {
        Contention::Links
    }

    /// Which links are alike. The default is always right.
    fn alike(&self) -> Alike {
        Alike::Nothing
    }

    /// Learns which links are alike, before the first start of a folded run. Called where
    /// [`Backend::alike`] is [`Alike::Classes`]; from then on the weight of a
    /// transfer counts on the links as well.
    fn fold(&mut self, _classes: Box<dyn LinkClasses>) {}

    /// Memory that grows with the network or with the transfers under way.
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    /// Why transfers are under way and no event is left; `None` while anything can move, and when
    /// everything was delivered.
    fn stalled(&self) -> Option<Stuck> {
        None
    }

    /// Why a backend that depends on something outside of it can no longer answer. It then has no
    /// next event, and what it has delivered counts for nothing.
    fn failed(&self) -> Option<String> {
        None
    }

    /// Events between two reports of a run's progress: few where an event may take long.
    fn progress_every(&self) -> u64 {
        1 << 6
    }

    /// Reports to `sink` from now on; called before the first start. False when the backend
    /// reports nothing.
    fn observe(&mut self, _sink: Box<dyn NetworkSink>) -> bool {
        false
    }

    /// Times that the backend knows without simulation.
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        None
    }

    /// The same, to account for what was timed that way.
    fn closed_form_mut(&mut self) -> Option<&mut dyn ClosedForm> {
        None
    }

    /// One order of events with the caller, for ASTRA-sim's profile.
    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        None
    }
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn start(&mut self, now: Time, transfer: Transfer) {
        (**self).start(now, transfer);
    }

    fn next_event(&self) -> Option<Time> {
        (**self).next_event()
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        (**self).advance(until, finished);
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        (**self).physical_minimum(src, dst, bytes)
    }

    fn usage(&self, until: Time) -> Usage {
        (**self).usage(until)
    }

    fn contention(&self) -> Contention {
        (**self).contention()
    }

    fn alike(&self) -> Alike {
        (**self).alike()
    }

    fn fold(&mut self, classes: Box<dyn LinkClasses>) {
        (**self).fold(classes);
    }

    fn footprint(&self) -> Footprint {
        (**self).footprint()
    }

    fn stalled(&self) -> Option<Stuck> {
        (**self).stalled()
    }

    fn failed(&self) -> Option<String> {
        (**self).failed()
    }

    fn progress_every(&self) -> u64 {
        (**self).progress_every()
    }

    fn observe(&mut self, sink: Box<dyn NetworkSink>) -> bool {
        (**self).observe(sink)
    }

    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        (**self).closed_form()
    }

    fn closed_form_mut(&mut self) -> Option<&mut dyn ClosedForm> {
        (**self).closed_form_mut()
    }

    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        (**self).ordered()
    }
}
