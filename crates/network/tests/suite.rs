//! The conformance suite finds what is wrong with a backend, or it would prove nothing: a wire
//! between every pair of NPUs passes, and each of its faults is named.

use network::{
    Alike, Backend, BlockedPort, ClosedForm, Contention, Delivery, LinkEnds, LinkUsage,
    NetworkSink, Sending, Stuck, Transfer, Uncontended, Usage, conformance,
};
use std::collections::BTreeMap;
use units::{Span, Time};

const LATENCY: u64 = 1_000;
/// Picoseconds for each byte.
const BYTE: u64 = 10;

/// What is wrong with a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Delivers before the minimum.
    TooEarly,
    /// Delivers one transfer twice.
    Twice,
    /// Loses the transfers of NPU 1 and says nothing.
    Loses,
    /// Stops before it has delivered those of NPU 1, and says so.
    Deadlocks,
    /// Reports a circle that is none.
    BrokenCircle,
    /// Calls itself stuck when everything was delivered.
    Complains,
    /// Never lets an event pass.
    Hangs,
    /// Counts too few bytes.
    Forgets,
    /// Does not report the transfers of NPU 1.
    Hides,
    /// Sends over a link that is busy.
    Overlaps,
    /// Says that a link is free a picosecond late.
    LateIdle,
    /// Accounts for half of what was timed by the closed form.
    CarriesLess,
    /// Says that nothing waits for anything.
    ClaimsNoContention,
    /// The wires of NPU 1 are slower when they are busy, yet called alike. There is no closed form
    /// to show it.
    Unlike,
}

/// A wire between every pair of NPUs, one message at a time.
struct Wires {
    fault: Fault,
    free: BTreeMap<(u32, u32), (Time, LinkUsage)>,
    /// By arrival and order of starts.
    under_way: BTreeMap<(Time, u64), u64>,
    usage: Usage,
    sink: Option<Box<dyn NetworkSink>>,
    held: u64,
}

fn wires(fault: Fault) -> Wires {
    let usage = Usage { bytes: vec![0], ..Usage::default() };
    let (free, under_way) = (BTreeMap::new(), BTreeMap::new());
    Wires { fault, free, under_way, usage, sink: None, held: 0 }
}

fn ends(src: u32, dst: u32) -> LinkEnds {
    LinkEnds { link: src * 1000 + dst, from: src, to: dst, dim: 0, count: None }
}

impl Wires {
    fn count(&mut self, transfer: &Transfer, times: u64) {
        let Transfer { src, dst, bytes, weight, .. } = *transfer;
        let bytes = if self.fault == Fault::Forgets { bytes / 2 } else { bytes };
        self.usage.bytes[0] += u128::from(bytes) * u128::from(weight * times);
        self.usage.transfers += u128::from(weight * times);
        let link = &mut self.free.entry((src, dst)).or_default().1;
        *link = LinkUsage {
            from: src,
            to: dst,
            bytes: link.bytes + bytes * times,
            messages: link.messages + times,
            busy: link.busy + Span(bytes * BYTE) * times,
            ..LinkUsage::default()
        };
    }
}

impl Backend for Wires {
    fn start(&mut self, now: Time, transfer: Transfer) {
        let Transfer { src, dst, bytes, token, .. } = transfer;
        self.count(&transfer, 1);
        let free = &mut self.free.entry((src, dst)).or_default().0;
        let slow = self.fault == Fault::Unlike && src == 1 && *free > now;
        let begin = now.max(*free) + Span(u64::from(slow));
        let end = begin + Span(bytes * BYTE);
        *free = end;
        if let Some(sink) = self.sink.as_mut().filter(|_| self.fault != Fault::Hides || src != 1) {
            let begin = if self.fault == Fault::Overlaps { now } else { begin };
            sink.starts(now, &transfer);
            sink.sends(&Sending { link: ends(src, dst), token, begin, end, bytes });
        }
        let arrival = match self.fault {
            Fault::TooEarly => Time(end.0 + LATENCY - 1),
            _ => Time(end.0 + LATENCY),
        };
        match self.fault {
            Fault::Loses | Fault::Deadlocks | Fault::BrokenCircle if src == 1 => self.held += 1,
            _ => drop(self.under_way.insert((arrival, self.usage.transfers as u64), token)),
        }
        if self.fault == Fault::Twice && src == 1 {
            self.under_way.insert((arrival, self.usage.transfers as u64 + (1 << 32)), token);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.under_way.keys().next().map(|key| key.0)
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        let next = self.under_way.first_entry().filter(|entry| entry.key().0 <= until);
        if let Some(entry) = next.filter(|_| self.fault != Fault::Hangs) {
            let ((time, _), token) = entry.remove_entry();
            let delivery = Delivery { token, time };
            if let Some(sink) = &mut self.sink {
                sink.arrives(&delivery);
            }
            finished.push(delivery);
        }
    }

    fn physical_minimum(&self, _: u32, _: u32, bytes: u64) -> Span {
        Span(LATENCY + bytes * BYTE)
    }

    fn usage(&self, _: Time) -> Usage {
        let links = self.free.values().map(|(_, link)| link.clone());
        Usage { links: links.collect(), ..self.usage.clone() }
    }

    fn contention(&self) -> Contention {
        match self.fault {
            Fault::ClaimsNoContention => Contention::None,
            Fault::Unlike => Contention::Links,
            _ => Contention::Departures,
        }
    }

    fn alike(&self) -> Alike {
        Alike::OneLink
    }

    fn stalled(&self) -> Option<Stuck> {
        let place = |from, to| BlockedPort { from, to, channel: None, waits_for: "paused".into() };
        let back = if self.fault == Fault::BrokenCircle { 2 } else { 0 };
        match self.fault {
            Fault::Complains => Some(Stuck::default()),
            Fault::Deadlocks | Fault::BrokenCircle
                if self.held > 0 && self.under_way.is_empty() =>
            {
                Some(Stuck { transfers: self.held, cycle: vec![place(0, 1), place(1, back)] })
            }
            _ => None,
        }
    }

    fn observe(&mut self, sink: Box<dyn NetworkSink>) -> bool {
        self.sink = Some(sink);
        true
    }

    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        (self.fault != Fault::Unlike).then_some(self)
    }

    fn closed_form_mut(&mut self) -> Option<&mut dyn ClosedForm> {
        Some(self)
    }
}

impl ClosedForm for Wires {
    fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Uncontended> {
        let transit = self.physical_minimum(src, dst, bytes);
        Some(Uncontended { transit, occupancy: self.occupancy(src, dst, bytes) })
    }

    fn is_idle(&self, src: u32, dst: u32, at: Time) -> bool {
        let free = self.free.get(&(src, dst)).map_or(Time::ZERO, |link| link.0);
        free <= if self.fault == Fault::LateIdle { Time(at.0.saturating_sub(1)) } else { at }
    }

    fn carry(&mut self, transfer: Transfer, times: u64) {
        let times = if self.fault == Fault::CarriesLess { times / 2 } else { times };
        self.count(&transfer, times);
    }

    fn departure(&self, _: u32, dst: u32) -> u32 {
        dst
    }

    fn occupancy(&self, _: u32, _: u32, bytes: u64) -> Span {
        Span(bytes * BYTE)
    }
}

/// Every NPU of three sends two messages to each other one, two of them at once.
fn traffic() -> Vec<(Time, Transfer)> {
    let pairs = [(0, 1), (1, 0), (1, 2), (0, 2), (2, 1), (2, 0)];
    let all = pairs.iter().chain(&pairs).zip(0..);
    let transfer = |(&(src, dst), token): (&(u32, u32), u64)| {
        let (bytes, weight) = (100 + token % 3, 1 + token % 2);
        let transfer = Transfer { src, dst, bytes, paced: bytes, token, weight };
        (Time(token / 4 * 500), transfer)
    };
    all.map(transfer).collect()
}

fn check(fault: Fault) -> Result<(), String> {
    let bound = |backend: &Wires, t: &Transfer| backend.physical_minimum(t.src, t.dst, t.bytes);
    conformance::check(|| wires(fault), &traffic(), bound)
}

#[test]
fn a_sound_backend_passes() {
    assert_eq!(check(Fault::None), Ok(()));
}

#[test]
fn every_fault_is_named() {
    let faults = [
        (Fault::TooEarly, "minimum"),
        (Fault::Twice, "delivered 2 times"),
        (Fault::Loses, "delivered 0 times"),
        (Fault::Deadlocks, "delivered 0 times"),
        (Fault::Complains, "stuck before anything started"),
        (Fault::Hangs, "without end"),
        (Fault::Forgets, "bytes were sent"),
        (Fault::Hides, "the sink heard of 8 starts"),
        (Fault::Overlaps, "while the link is busy"),
        (Fault::LateIdle, "the link of"),
        (Fault::CarriesLess, "accounted for"),
        (Fault::ClaimsNoContention, "with nothing else"),
        (Fault::Unlike, "are called alike"),
    ];
    for (fault, words) in faults {
        let found = check(fault).expect_err("a fault passed");
        assert!(found.contains(words), "{fault:?}: {found}");
    }
}

#[test]
fn a_deadlock_is_reported_with_its_circle() {
    let stuck = conformance::stuck(|| wires(Fault::Deadlocks), &traffic()).expect("it is stuck");
    let circle: Vec<_> = stuck.cycle.iter().map(|place| (place.from, place.to)).collect();
    assert_eq!((stuck.transfers, circle), (4, vec![(0, 1), (1, 0)]));
}

#[test]
fn a_wrong_report_of_a_deadlock_is_found() {
    let found = |fault| conformance::stuck(|| wires(fault), &traffic()).expect_err("it passed");
    assert_eq!(found(Fault::None), "everything was delivered");
    assert!(found(Fault::Loses).contains("4 transfers never arrive"), "{}", found(Fault::Loses));
    let broken = found(Fault::BrokenCircle);
    assert!(broken.contains("does not lead to"), "{broken}");
}
