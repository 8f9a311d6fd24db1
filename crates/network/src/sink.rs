//! Observations of a backend while it runs.

use crate::{Delivery, Transfer};
use units::Time;

/// One link, as the topology numbers links and nodes (NPUs first).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkEnds {
    /// Number of the link.
    pub link: u32,
    /// Node it leaves.
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Dimension, 0-based.
    pub dim: u32,
    /// Links that it stands for by [`Backend::fold`](crate::Backend::fold); `None` where nothing
    /// was passed there.
    pub count: Option<u64>,
}

/// A link sends something of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The link.
    pub link: LinkEnds,
    /// Token of the transfer.
    pub token: u64,
    /// First moment.
    pub begin: Time,
    /// End: the link is free again.
    pub end: Time,
    /// Bytes sent.
    pub bytes: u64,
}

/// Hears what a backend observes. A backend without one pays a branch per event. Reports of one
/// kind come in order of their time (`begin` of a [`Sending`]).
pub trait NetworkSink: Send {
    /// A transfer starts.
    fn starts(&mut self, _now: Time, _transfer: &Transfer) {}
    /// A transfer has arrived.
    fn arrives(&mut self, _delivery: &Delivery) {}
    /// A link sends.
    fn sends(&mut self, _sending: &Sending) {}
    /// `messages` wait for a link from now on, or flits where the network has those.
    fn waits(&mut self, _now: Time, _link: LinkEnds, _messages: u32) {}
    /// `flits` are in the buffers behind a link from now on.
    fn holds(&mut self, _now: Time, _link: LinkEnds, _flits: u32) {}
}
