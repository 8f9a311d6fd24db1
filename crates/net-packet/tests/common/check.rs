//! Checks that hold in every run.

use net_packet::{Buffer, Packets};
use network::{Backend, Delivery, NetworkSink, Sending, Transfer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use units::Time;

/// Every packet that was sent has arrived, was dropped or is under way; what has arrived in order is
/// what was sent, `bytes`; and no queue of a switch was above its buffer.
pub fn counts(network: &Packets, bytes: u64) {
    let totals = network.totals();
    let sent = totals.sent.data + totals.sent.acknowledgements;
    let known = network.arrived() + totals.events.drops + network.under_way();
    assert_eq!(sent, known, "packets: {totals:?}");
    let carried: u64 = network.flows().map(|flow| flow.carried.bytes).sum();
    assert_eq!(carried, bytes, "bytes that have arrived");
    let room = |link| match network.settings(link).switch.buffer {
        Buffer::Unlimited => u64::MAX,
        Buffer::Port(bytes) => bytes.0,
        Buffer::Shared { total, .. } => total.0,
    };
    let most = network.counters().map(|(link, _)| room(link)).max().unwrap_or(u64::MAX);
    assert!(totals.events.longest_queue <= most, "a queue of {} B", totals.events.longest_queue);
}

/// What a [`Watch`] has seen.
#[derive(Default)]
struct Seen {
    /// By link: until when it sends.
    busy: HashMap<u32, Time>,
    /// By token: bytes of transfers that have not arrived.
    open: HashMap<u64, u64>,
    /// By link: bytes.
    bytes: HashMap<u32, u64>,
    sendings: u64,
}

/// Watches that a link never sends two packets at once, and that each transfer arrives once.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Seen>>);

impl Watch {
    /// Watches a network from now on.
    pub fn over(network: &mut Packets) -> Watch {
        let watch = Watch::default();
        assert!(network.observe(Box::new(watch.clone())));
        watch
    }

    /// Each link was reported to send what it has sent in all, but for what still waits.
    pub fn compare(&self, network: &Packets) {
        let seen = self.0.lock().expect("no panic before");
        for (link, counters) in network.counters() {
            let reported = seen.bytes.get(&link).copied().unwrap_or_default();
            let waits = counters.bytes - reported;
            assert!(waits <= counters.longest, "link {link}: {reported} of {}", counters.bytes);
        }
    }

    /// Everything has arrived; returns how often links have sent.
    pub fn end(&self) -> u64 {
        let seen = self.0.lock().expect("no panic before");
        assert!(seen.open.is_empty(), "{} transfers have not arrived", seen.open.len());
        seen.sendings
    }
}

impl NetworkSink for Watch {
    fn starts(&mut self, _: Time, transfer: &Transfer) {
        let mut seen = self.0.lock().expect("no panic before");
        assert!(seen.open.insert(transfer.token, transfer.bytes).is_none(), "twice the same token");
    }

    fn arrives(&mut self, delivery: &Delivery) {
        let mut seen = self.0.lock().expect("no panic before");
        assert!(seen.open.remove(&delivery.token).is_some(), "{delivery:?} for the second time");
    }

    fn sends(&mut self, sending: &Sending) {
        let mut seen = self.0.lock().expect("no panic before");
        let until = seen.busy.insert(sending.link.link, sending.end).unwrap_or(Time::ZERO);
        assert!(until <= sending.begin, "{sending:?} while the link sends until {until:?}");
        assert!(sending.begin < sending.end);
        *seen.bytes.entry(sending.link.link).or_default() += sending.bytes;
        seen.sendings += 1;
    }
}
