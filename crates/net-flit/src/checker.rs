//! Checks of tests after every cycle, of either router: no flit and no credit is lost, flits of a
//! virtual channel keep their order, and none waits for ever for a turn.

use std::collections::VecDeque;

/// Flits under way on each virtual channel. Slots number these.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    /// Flits on the link, in the order in which they were sent.
    sent: Vec<VecDeque<u32>>,
    /// Credits on the way back.
    back: Vec<u64>,
    /// Cycles in a row in which the first flit could have moved, and did not.
    waits: Vec<u64>,
    /// Flits that have left their source, and that have reached their destination.
    flits: [u64; 2],
}

impl Checker {
    /// A checker without flits under way on this number of virtual channels.
    pub(crate) fn new(slots: usize) -> Checker {
        Checker {
            sent: vec![VecDeque::new(); slots],
            back: vec![0; slots],
            waits: vec![0; slots],
            flits: [0; 2],
        }
    }

    /// A flit goes on the link, from a node if `enters`.
    pub(crate) fn sends(&mut self, slot: usize, flit: u32, enters: bool) {
        self.sent[slot].push_back(flit);
        self.flits[0] += u64::from(enters);
    }

    /// A flit comes from the link, to a node if `leaves`.
    pub(crate) fn arrives(&mut self, slot: usize, flit: u32, leaves: bool) {
        assert_eq!(self.sent[slot].pop_front(), Some(flit), "slot {slot}: order of flits");
        self.flits[1] += u64::from(leaves);
    }

    /// A credit is on its way back.
    pub(crate) fn gives_back(&mut self, slot: usize) {
        self.back[slot] += 1;
    }

    /// A credit is back.
    pub(crate) fn credit(&mut self, slot: usize) {
        assert!(self.back[slot] > 0, "slot {slot}: a credit that was never given back");
        self.back[slot] -= 1;
    }

    /// The first flit of a virtual channel moves on.
    pub(crate) fn moves(&mut self, slot: usize) {
        self.waits[slot] = 0;
    }

    /// Credits, flits in the buffer and both on the link make up the buffer.
    pub(crate) fn room(&self, slot: usize, (credits, flits): (u64, u64), buffer: u64) {
        let on_link = self.sent[slot].len() as u64 + self.back[slot];
        assert_eq!(credits + flits + on_link, buffer, "slot {slot}: credits");
        assert!(flits <= buffer, "slot {slot}: flits in its buffer");
    }

    /// The first flit of a virtual channel `could` have moved in this cycle if it had had its turn.
    /// It waits for at most `bound` of these.
    pub(crate) fn waits(&mut self, slot: usize, could: bool, bound: u64) {
        let waits = if could { self.waits[slot] + 1 } else { 0 };
        assert!(waits <= bound, "slot {slot} waits for more than {bound} cycles");
        self.waits[slot] = waits;
    }

    /// Flits in buffers and on links are those that have entered the network and not left it.
    pub(crate) fn conserves(&self, in_buffers: u64) {
        let on_links: usize = self.sent.iter().map(VecDeque::len).sum();
        assert_eq!(in_buffers + on_links as u64, self.flits[0] - self.flits[1], "flits");
    }
}
