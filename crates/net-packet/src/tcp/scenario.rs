//! One connection over a path of fixed delay that loses or delays what a test names, event by
//! event.

use super::sender::Emit;
use super::{Answer, Receiver, Sack, Sender, Tcp, TcpRecovery};
use std::collections::BTreeMap;
use units::{Bytes, Span, Time};

const SEGMENT: u64 = 1000;
const MS: u64 = 1_000_000_000;
/// Round trip.
const TRIP: Span = Span(10 * MS);

/// Fate of a data packet on the path.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    /// Arrives so much later.
    Late(Span),
}

enum Event {
    Data(Emit),
    Ack(u64, Sack),
    DelayedAck,
}

/// A packet that was sent: when, the number of its first segment, and whether again.
type Sent = (u64, u64, bool);

struct Path<F> {
    tcp: Tcp,
    /// Round trip.
    trip: Span,
    sender: Sender,
    receiver: Receiver,
    now: Time,
    events: BTreeMap<(Time, u64), Event>,
    order: u64,
    /// By number of the packet, counted from 0 as they are sent.
    fate: F,
    sent: Vec<Sent>,
    /// The window after each acknowledgement.
    windows: Vec<(u64, u64)>,
    /// When acknowledgements left the receiver, and up to which segment.
    acks: Vec<(u64, u64)>,
}

fn settings() -> Tcp {
    Tcp { ack_every: 1, rto_min: Span(200 * MS), window: Bytes(1 << 30), ..Tcp::default() }
}

impl<F: FnMut(usize, Emit) -> Fate> Path<F> {
    fn new(tcp: Tcp, fate: F) -> Path<F> {
        Path {
            trip: TRIP,
            sender: Sender::new(&tcp, SEGMENT, TRIP),
            receiver: Receiver::default(),
            tcp,
            now: Time::ZERO,
            events: BTreeMap::new(),
            order: 0,
            fate,
            sent: Vec::new(),
            windows: Vec::new(),
            acks: Vec::new(),
        }
    }

    fn push(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.events.insert((time, self.order), event);
    }

    fn write(&mut self, segments: u64) {
        self.sender.write(self.now, segments * SEGMENT, &self.tcp);
        self.pump();
    }

    fn pump(&mut self) {
        while let Some(emit) = self.sender.take(self.now, &self.tcp) {
            let number = self.sent.len();
            self.sent.push((self.now.0 / MS, emit.seq / SEGMENT, emit.again));
            let arrival = self.now + Span(self.trip.0 / 2);
            match (self.fate)(number, emit) {
                Fate::Arrives => self.push(arrival, Event::Data(emit)),
                Fate::Late(more) => self.push(arrival + more, Event::Data(emit)),
                Fate::Lost => {}
            }
        }
    }

    fn answer(&mut self) {
        self.receiver.acknowledge();
        self.acks.push((self.now.0 / MS, self.receiver.next / SEGMENT));
        let sack = if self.tcp.sack { self.receiver.sack() } else { Sack::default() };
        self.push(self.now + Span(self.trip.0 / 2), Event::Ack(self.receiver.next, sack));
    }

    /// Goes on until nothing is under way or `until` has passed.
    fn run(&mut self, until: u64) {
        loop {
            let next = self.events.keys().next().map(|&(time, _)| time);
            let timer = self.sender.deadline;
            let Some(time) = next.into_iter().chain(timer).min() else { return };
            if time.0 > until * MS {
                return;
            }
            self.now = time;
            if next != Some(time) {
                self.sender.timed_out(time, &self.tcp);
                self.pump();
                continue;
            }
            let Some((_, event)) = self.events.pop_first() else { return };
            match event {
                Event::Data(emit) => {
                    match self.receiver.data((emit.seq, emit.len.into()), &self.tcp) {
                        Answer::Now => self.answer(),
                        Answer::Delay if self.receiver.due.is_none() => {
                            let due = time + self.tcp.ack_delay;
                            self.receiver.due = Some(due);
                            self.push(due, Event::DelayedAck);
                        }
                        Answer::Delay => {}
                    }
                }
                Event::DelayedAck => {
                    if self.receiver.due == Some(time) {
                        self.answer();
                    }
                }
                Event::Ack(upto, sack) => {
                    let sack = (sack.len > 0).then_some(&sack);
                    self.sender.acknowledged(time, (upto, sack, false), &self.tcp);
                    self.windows.push((time.0 / MS, self.sender.window() / SEGMENT));
                    self.pump();
                }
            }
        }
    }

    /// Segments sent at a millisecond.
    fn at(&self, ms: u64) -> Vec<u64> {
        self.sent.iter().filter(|sent| sent.0 == ms).map(|sent| sent.1).collect()
    }

    fn again(&self) -> Vec<(u64, u64)> {
        self.sent.iter().filter(|sent| sent.2).map(|sent| (sent.0, sent.1)).collect()
    }

    fn arrived(&self) -> u64 {
        self.receiver.next / SEGMENT
    }
}

/// RFC 5681, section 3.1: without delayed acknowledgements the window doubles each round trip; with
/// one for every two segments it grows by half.
#[test]
fn slow_start_doubles_the_window() {
    for (every, expected) in [(1, [10, 20, 40, 80, 160]), (2, [10, 15, 22, 33, 49])] {
        let mut path = Path::new(Tcp { ack_every: every, ..settings() }, |_, _| Fate::Arrives);
        path.write(2000);
        path.run(45);
        for (trip, expected) in expected.into_iter().enumerate() {
            let sent = path.at(10 * trip as u64).len();
            assert!(sent.abs_diff(expected) <= 1, "round trip {trip}: {sent}, not {expected}");
        }
    }
}

/// RFC 5681, section 3.1: beyond the threshold the window grows by a segment each round trip.
#[test]
fn congestion_avoidance_adds_a_segment_each_round_trip() {
    let mut path = Path::new(settings(), |number, _| match number {
        40 => Fate::Lost,
        _ => Fate::Arrives,
    });
    path.write(5000);
    path.run(1000);
    let window = |ms| path.windows.iter().rfind(|&&(at, _)| at <= ms).map(|&(_, size)| size);
    let (early, late) = (window(400).expect("acknowledged"), window(600).expect("acknowledged"));
    assert!((19..=21).contains(&(late - early)), "{early} to {late} in 20 round trips");
    assert_eq!(path.sender.losses.timeouts, 0);
}

/// RFC 5681, section 3.2: the third duplicate acknowledgement sends the segment again, and the
/// window is half of what was under way.
#[test]
fn a_single_loss_is_sent_again_after_three_duplicates() {
    for (sack, reduction) in
        [(true, TcpRecovery::Half), (true, TcpRecovery::Proportional), (false, TcpRecovery::Half)]
    {
        let tcp = Tcp { sack, reduction, initial_window: 20, ..settings() };
        let mut path =
            Path::new(tcp, |number, _| if number == 4 { Fate::Lost } else { Fate::Arrives });
        path.write(60);
        path.run(500);
        assert_eq!(path.again(), [(10, 4)], "sack {sack}");
        assert_eq!(path.arrived(), 60);
        let losses = path.sender.losses;
        assert_eq!((losses.fast_recoveries, losses.timeouts), (1, 0));
        // Segments 4 to 27 were under way at the loss: 20, and two for each of 4 acknowledged.
        let after = path.windows.iter().rfind(|&&(at, _)| at == 20).expect("acknowledged").1;
        assert!((12..=13).contains(&after), "sack {sack}: {after} segments");
    }
}

/// RFC 6675: a burst of losses is mended within a round trip or two. RFC 6582: without selective
/// acknowledgements one loss is mended each round trip.
#[test]
fn a_burst_takes_one_round_trip_with_sack_and_one_for_each_loss_without() {
    let lost = [5, 6, 7, 8];
    for (sack, last) in [(true, 20), (false, 40)] {
        let tcp = Tcp { sack, initial_window: 30, ..settings() };
        let mut path =
            Path::new(
                tcp,
                |number, _| {
                    if lost.contains(&number) { Fate::Lost } else { Fate::Arrives }
                },
            );
        path.write(100);
        path.run(500);
        let again = path.again();
        let segments: Vec<u64> = again.iter().map(|sent| sent.1).collect();
        assert_eq!(segments, [5, 6, 7, 8], "sack {sack}");
        let end = again.last().expect("sent again").0;
        assert!(end <= last && (sack || end == last), "sack {sack}: last at {end} ms");
        assert_eq!(path.sender.losses.timeouts, 0, "sack {sack}");
        assert_eq!(path.arrived(), 100);
    }
}

/// RFC 3042: each of the first two duplicates sends a new segment.
#[test]
fn duplicates_send_new_segments() {
    for sack in [true, false] {
        let tcp = Tcp { sack, initial_window: 3, ..settings() };
        let mut path =
            Path::new(tcp, |number, _| if number == 0 { Fate::Lost } else { Fate::Arrives });
        path.write(10);
        path.run(15);
        assert_eq!(path.at(10), [3, 4], "sack {sack}");
        path.run(500);
        assert_eq!(path.again(), [(20, 0)], "sack {sack}");
        assert_eq!((path.arrived(), path.sender.losses.timeouts), (10, 0));
    }
}

/// RFC 6675, `NextSeg`, rule 4: with a loss to mend, the last segment is sent again once, so that
/// its loss needs no timeout. A lost tail alone has nothing to show it and waits for the timer.
#[test]
fn a_lost_tail_is_rescued_in_a_recovery() {
    for (lost, expected) in [(vec![2, 19], 0), (vec![19], 1)] {
        let tcp = Tcp { initial_window: 20, ..settings() };
        let fate = move |number, _| {
            if lost.contains(&number) { Fate::Lost } else { Fate::Arrives }
        };
        let mut path = Path::new(tcp, fate);
        path.write(20);
        path.run(1000);
        assert_eq!(path.arrived(), 20);
        assert_eq!(path.sender.losses.timeouts, expected, "{:?}", path.again());
        assert!(path.again().iter().any(|sent| sent.1 == 19));
    }
}

/// RFC 9438, section 4.2: after a loss at W_max the window follows C (t - K)^3 + W_max with K =
/// cbrt(0.3 W_max / C) and C = 0.4, from the end of the recovery on.
#[test]
fn cubic_follows_its_curve() {
    let control = super::TcpControl::Cubic;
    let tcp = Tcp { control, initial_window: 1000, reduction: TcpRecovery::Half, ..settings() };
    let mut path =
        Path::new(tcp, |number, _| if number == 10 { Fate::Lost } else { Fate::Arrives });
    path.trip = Span(100 * MS);
    path.write(1_000_000);
    path.run(18_000);
    // Segments under way at the loss: the window, and two for each of 10 acknowledged.
    let most = 1010.0f64;
    let k = (0.3 * most / 0.4).cbrt();
    println!("{:>5} {:>8} {:>8}   K = {k:.2} s", "s", "window", "W(t)");
    // The recovery ends with the acknowledgement of what was sent again.
    let begin = 200.0;
    for second in 1..=17u64 {
        let at = second * 1000;
        let window = path.windows.iter().rfind(|&&(ms, _)| ms <= at).expect("acknowledged").1;
        let t = (at as f64 - begin) / 1000.0;
        let expected = 0.4 * (t - k).powi(3) + most;
        println!("{t:>5.1} {window:>8} {expected:>8.1}");
        assert!((window as f64 / expected - 1.0).abs() < 0.03, "{window} after {t} s");
    }
    assert_eq!((path.sender.losses.fast_recoveries, path.sender.losses.timeouts), (1, 0));
}

/// A retransmission that is lost as well waits for the timer (RFC 6675, section 5).
#[test]
fn a_lost_retransmission_waits_for_the_timer() {
    let mut times = 0;
    let mut path = Path::new(Tcp { initial_window: 20, ..settings() }, move |_, emit| {
        if emit.seq == 4 * SEGMENT {
            times += 1;
        }
        if emit.seq == 4 * SEGMENT && times <= 2 { Fate::Lost } else { Fate::Arrives }
    });
    path.write(40);
    path.run(2000);
    let again: Vec<_> = path.again().into_iter().filter(|sent| sent.1 == 4).collect();
    assert_eq!(again[0].0, 10);
    // The timer was set when segment 4 was sent again.
    assert_eq!(again[1].0, 210);
    assert_eq!(path.sender.losses.timeouts, 1);
    assert_eq!(path.arrived(), 40);
}

/// RFC 5681, section 3.2: two duplicates are held to be reordering, three to be a loss.
#[test]
fn little_reordering_is_no_loss() {
    for (behind, expected) in [(2, 0), (3, 1)] {
        // All segments of a window arrive at one moment, so the late one arrives behind the others:
        // the path reorders it behind all that were sent with it.
        let tcp = Tcp { initial_window: 1 + behind, ..settings() };
        let late = Fate::Late(Span(1));
        let mut path = Path::new(tcp, |number, _| if number == 0 { late } else { Fate::Arrives });
        path.write(u64::from(1 + behind));
        path.run(100);
        assert_eq!(path.sender.losses.retransmits, expected, "behind {behind}");
        assert_eq!(path.sender.losses.timeouts, 0);
    }
}

/// RFC 6298, section 5.5: the timeout doubles until something is acknowledged.
#[test]
fn the_timeout_backs_off() {
    let mut path = Path::new(Tcp { initial_window: 1, ..settings() }, |number, _| {
        if number < 6 { Fate::Lost } else { Fate::Arrives }
    });
    path.write(1);
    path.run(20_000);
    let times: Vec<u64> = path.again().into_iter().map(|sent| sent.0).collect();
    assert_eq!(times, [200, 600, 1400, 3000, 6200, 12_600]);
    assert_eq!(path.arrived(), 1);
    assert_eq!(path.sender.deadline, None, "nothing is left to time out");
}

/// RFC 6298, sections 2.5 and 5.5: the timeout doubles up to its bound of 60 s.
#[test]
fn the_timeout_has_a_bound() {
    let tcp = Tcp { initial_window: 1, rto_min: Span(1000 * MS), ..settings() };
    let mut path = Path::new(tcp, |number, _| if number < 9 { Fate::Lost } else { Fate::Arrives });
    path.write(1);
    path.run(1_000_000);
    let mut times = vec![0];
    times.extend(path.again().into_iter().map(|sent| sent.0 / 1000));
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    println!("seconds between attempts: {waits:?}");
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

/// RFC 9293, section 3.8.6.3, and RFC 5681, section 4.2: an acknowledgement for two segments, or
/// after the delay; at once for the first segment of a connection, beyond a gap, and in a gap.
#[test]
fn acknowledgements_wait_for_a_second_segment() {
    let tcp = Tcp { ack_every: 2, ack_delay: Span(40 * MS), initial_window: 6, ..settings() };
    let late = Fate::Late(Span(2 * MS));
    let mut path = Path::new(tcp, |number, _| if number == 3 { late } else { Fate::Arrives });
    path.write(6);
    path.run(500);
    // Segment 0; 1 and 2; 4 and 5 beyond the gap; 3, which fills it.
    assert_eq!(path.acks, [(5, 1), (5, 3), (5, 3), (5, 3), (7, 6)]);
    path.now = Time(1000 * MS);
    path.write(1);
    path.run(2000);
    assert_eq!(path.acks[5..], [(1045, 7)], "alone: after 40 ms");
}

/// RFC 6298, section 2: the smoothed round trip and its variation.
#[test]
fn the_timeout_follows_the_round_trip() {
    let tcp = Tcp { rto_min: Span(0), ..settings() };
    let mut rtt = super::rtt::Rtt::new(Span(100));
    // SRTT 100, RTTVAR 50.
    assert_eq!(rtt.timeout(&tcp), Span(300));
    rtt.sample(Span(180));
    // RTTVAR 3/4 50 + 1/4 80 = 57.5, SRTT 7/8 100 + 1/8 180 = 110.
    assert_eq!(rtt.timeout(&tcp), Span(110 + 4 * 57));
    rtt.back_off();
    assert_eq!(rtt.timeout(&tcp), Span(2 * (110 + 4 * 57)));
    rtt.progress();
    assert_eq!(rtt.timeout(&tcp), Span(110 + 4 * 57));
}

/// RFC 6298, section 2.3: without variation, the timeout is a tick of the clock behind the round
/// trip. A tick is 1 ms, or the least timeout if that is shorter.
#[test]
fn the_timeout_of_a_steady_path_is_behind_the_round_trip() {
    let us = 1_000_000;
    let mut rtt = super::rtt::Rtt::new(Span(50 * us));
    (0..100).for_each(|_| rtt.sample(Span(50 * us)));
    for (least, expected) in [(0, 50), (20, 70), (100, 150), (1000, 1050), (10_000, 10_000)] {
        let tcp = Tcp { rto_min: Span(least * us), ..settings() };
        assert_eq!(rtt.timeout(&tcp).0 / us, expected, "least {least} us");
    }
}

/// RFC 5681, section 3.1: after a timeout the window is one segment, and the acknowledgement of that
/// one makes it two, which are acknowledged together. ns-3 stays at one, whose acknowledgement waits.
#[test]
fn the_acknowledgement_after_a_timeout_grows_the_window() {
    let tcp = Tcp { ack_every: 2, ack_delay: Span(40 * MS), initial_window: 1, ..settings() };
    for (stalls, at_210, last) in [(false, vec![1, 2], 210), (true, vec![1], 260)] {
        let tcp = Tcp { stalls, ..tcp };
        let mut path =
            Path::new(tcp, |number, _| if number == 0 { Fate::Lost } else { Fate::Arrives });
        path.write(3);
        path.run(1000);
        assert_eq!(path.again(), [(200, 0)], "stalls {stalls}");
        assert_eq!(path.at(210), at_210, "stalls {stalls}");
        assert_eq!(path.sent.last().map(|sent| sent.0), Some(last), "stalls {stalls}");
    }
}

/// The same where the receiver delays the acknowledgement of the first segment beyond the timeout:
/// one timeout, not one for each segment.
#[test]
fn a_delayed_acknowledgement_costs_one_timeout() {
    let (ack_delay, rto_min) = (Span(400 * MS), Span(100 * MS));
    let first = Tcp { ack_every: 2, prompt_acks: 0, initial_window: 1, ..settings() };
    for (stalls, timeouts) in [(false, 1), (true, 9)] {
        let tcp = Tcp { ack_delay, rto_min, stalls, ..first };
        let mut path = Path::new(tcp, |_, _| Fate::Arrives);
        path.write(10);
        let mut until = 0;
        while path.arrived() < 10 {
            until += 5;
            path.run(until);
        }
        assert_eq!(path.sender.losses.timeouts, timeouts, "stalls {stalls}");
    }
}

/// RFC 3168, section 6.1.2: an echo shrinks the window by half (RFC 9438, section 4.6: to 0.7), once
/// for what is under way, and says so with the next new segment. The window does not grow meanwhile.
#[test]
fn an_echo_of_marks_shrinks_the_window_once() {
    use super::TcpControl;
    for (control, tenths) in [(TcpControl::NewReno, 5), (TcpControl::Cubic, 7)] {
        let reduction = TcpRecovery::Half;
        let tcp = Tcp { control, initial_window: 20, reduction, ..settings() };
        let mut sender = Sender::new(&tcp, SEGMENT, TRIP);
        let now = Time(0) + TRIP;
        sender.write(Time(0), 100 * SEGMENT, &tcp);
        let sent = std::iter::from_fn(|| sender.take(Time(0), &tcp)).count();
        assert_eq!(sent, 20);
        // 19 segments are under way when the first echo comes.
        let less = 19 * SEGMENT * tenths / 10;
        let mut reduced = Vec::new();
        for acked in 1..=20 {
            sender.acknowledged(now, (acked * SEGMENT, None, true), &tcp);
            assert_eq!(sender.window(), less, "{control:?}: segment {acked}");
            reduced.extend(std::iter::from_fn(|| sender.take(now, &tcp)).map(|emit| emit.reduced));
        }
        assert_eq!(reduced.iter().filter(|&&said| said).count(), 1, "{control:?}");
        assert_eq!(reduced.first(), Some(&true), "{control:?}");
        assert_eq!(sender.losses, network::LossUsage::default());
        // A mark of the next window counts again.
        let under_way = sender.next - 21 * SEGMENT;
        sender.acknowledged(now + TRIP, (21 * SEGMENT, None, true), &tcp);
        assert_eq!(sender.window(), (under_way * tenths / 10).max(2 * SEGMENT), "{control:?}");
    }
}

/// RFC 3168, section 6.1.3: marks are echoed until the sender has answered. RFC 8257, section 3.2:
/// DCTCP's are echoed one by one.
#[test]
fn marks_are_echoed_until_the_sender_has_answered() {
    use super::TcpControl;
    let heard = [(true, false), (false, false), (false, true), (true, true), (false, false)];
    let classic = [true, true, false, true, true];
    let each = [true, false, false, true, false];
    for (control, echoes) in [(TcpControl::NewReno, classic), (TcpControl::Dctcp, each)] {
        let tcp = Tcp { control, ..settings() };
        let mut receiver = Receiver::default();
        let found = heard.map(|(marked, reduced)| {
            receiver.hears(marked, reduced, &tcp);
            receiver.marked
        });
        assert_eq!(found, echoes, "{control:?}");
    }
}

/// RFC 5681, section 4.1: a connection that was idle for longer than its timeout starts again with
/// the initial window.
#[test]
fn an_idle_connection_starts_again() {
    for (restart, expected) in [(true, 10), (false, 100)] {
        let mut path = Path::new(Tcp { restart, ..settings() }, |_, _| Fate::Arrives);
        path.write(160);
        path.run(1000);
        path.now = Time(1000 * MS);
        path.write(100);
        assert_eq!(path.at(1000).len(), expected, "restart {restart}");
    }
}

/// Mathis, Semke, Mahdavi, Ott, CCR 27 (1997): with a loss every 1 / p packets the rate is
/// `sqrt(3 / 2 p)` segments each round trip, within 10 %, and a period is that of the sawtooth from
/// half the window to the window.
#[test]
fn the_sawtooth_has_mathis_mean_and_period() {
    println!("a loss every   segments a trip, Mathis   trips a period, theory");
    for every in [200usize, 800, 3200, 12_800] {
        let mut fresh = 0;
        let mut path = Path::new(Tcp { initial_window: 2, ..settings() }, move |_, emit| {
            if emit.again {
                return Fate::Arrives;
            }
            fresh += 1;
            if fresh % every == 0 { Fate::Lost } else { Fate::Arrives }
        });
        path.write(1_000_000);
        path.run(4_000);
        let (from, begin) = (path.arrived(), path.sender.losses.fast_recoveries);
        path.run(24_000);
        let trips = 20_000.0 / 10.0;
        let rate = (path.arrived() - from) as f64 / trips;
        let mathis = (1.5 * every as f64).sqrt();
        let begun = path.sender.losses.fast_recoveries - begin;
        let period = trips / begun as f64;
        let theory = (8.0 * every as f64 / 3.0).sqrt() / 2.0;
        println!("{every:>12} {rate:>17.1} {mathis:>7.1} {period:>16.1} {theory:>7.1}");
        assert!((rate / mathis - 1.0).abs() < 0.1, "{rate} segments a trip, Mathis {mathis}");
        // Half the window at its peak, in round trips: W / 2 with W = sqrt(8 / 3 p).
        assert!((period / theory - 1.0).abs() < 0.1, "{period} trips a period, theory {theory}");
        assert_eq!(path.sender.losses.timeouts, 0);
    }
}

/// Whatever is lost or late, everything arrives, in order and once.
#[test]
fn everything_arrives_whatever_is_lost() {
    for seed in 0..200u64 {
        let mut state = seed;
        let mut random = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            (state >> 33) % most
        };
        let tcp = Tcp {
            sack: seed % 2 == 0,
            reduction: if seed % 4 < 2 { TcpRecovery::Half } else { TcpRecovery::Proportional },
            ack_every: 1 + (seed % 3) as u32,
            initial_window: 1 + (seed % 13) as u32,
            control: [
                super::TcpControl::NewReno,
                super::TcpControl::Cubic,
                super::TcpControl::Dctcp,
            ][(seed % 3) as usize],
            window: Bytes(40_000),
            ..settings()
        };
        let mut path = Path::new(tcp, move |_, _| match random(10) {
            0 | 1 => Fate::Lost,
            2 => Fate::Late(Span(random(20) * MS)),
            _ => Fate::Arrives,
        });
        path.write(500);
        path.run(4_000_000);
        assert_eq!(path.arrived(), 500, "seed {seed}");
        assert_eq!(path.sender.una, 500 * SEGMENT, "seed {seed}");
        assert!(path.sender.is_settled(), "seed {seed}");
    }
}
