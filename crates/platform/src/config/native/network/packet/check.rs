//! Which values of `network.packet` fit together.

use super::{Dcqcn, Like, Packet, Rdma, RdmaControl, RdmaRecovery, Tcp, Ties, Transport};
use crate::config::declared::{Misfit, Setting, Words, suited};
use crate::config::findings::{At, Findings};
use units::{Bytes, Ratio, Span};

/// Largest MTU. Jumbo frames have about 9,000 bytes; InfiniBand's largest is 4,096.
const MTU_MAX: u64 = 65_000;
/// Most bytes that a link carries for a packet: lengths have 16 bits (RFC 791).
const WIRE_MAX: u64 = 65_535;

/// A value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The keys that lead to it from `network.packet`: `tcp`, `window`.
    pub keys: Vec<&'static str>,
    /// What is wrong, with the value.
    pub message: String,
    /// What is allowed.
    pub allowed: String,
}

/// Refuses values that cannot be, and warns of keys that have no effect. `sprays`: each packet takes
/// a way of its own.
pub(crate) fn check(packet: &Packet, sprays: bool, at: &At<'_>, findings: &mut Findings) {
    let tag = Packet::transport;
    suited(at, Packet::keys(), tag, packet.transport.word(), Misfit::Warn, findings);
    if let (Some(rdma), Some(at)) = (&packet.rdma, at.get(Packet::rdma)) {
        let word = rdma.congestion_control.word();
        suited(&at, Rdma::keys(), Rdma::congestion_control, word, Misfit::Warn, findings);
    }
    if let (Some(tcp), Some(at)) = (&packet.tcp, at.get(Packet::tcp)) {
        let word = tcp.congestion_control.word();
        suited(&at, Tcp::keys(), Tcp::congestion_control, word, Misfit::Warn, findings);
    }
    for (keys, why) in packet.idle(sprays) {
        if let Some(place) = keys.iter().try_fold(at.clone(), |at, key| at.get(key)) {
            findings.warnings.push(format!("{} has no effect {why}", place.path));
        }
    }
    for Fault { keys, message, allowed } in packet.faults() {
        // A default may not fit to what was given: then the place is that of its section.
        let place = keys.iter().fold(at.clone(), |at, key| at.get(key).unwrap_or(at));
        findings.refuse(&place, message, allowed);
    }
}

/// Collects faults.
struct Faults(Vec<Fault>);

impl Faults {
    /// A fault unless `holds`.
    fn need(&mut self, holds: bool, keys: &[&'static str], message: String, allowed: String) {
        if !holds {
            self.0.push(Fault { keys: keys.to_vec(), message, allowed });
        }
    }

    fn above_zero(&mut self, value: Span, keys: &[&'static str]) {
        let key = keys.last().copied().unwrap_or_default();
        let message = format!("\"{key}\" is {value}");
        self.need(value > Span::ZERO, keys, message, "a time above 0".into());
    }

    fn at_most_one(&mut self, value: Ratio, keys: &[&'static str]) {
        let key = keys.last().copied().unwrap_or_default();
        let message = format!("\"{key}\" is {value}");
        self.need(value <= Ratio::ONE, keys, message, "above 0, at most 1 (100 %)".into());
    }
}

impl Packet {
    /// Keys that others leave without effect, if they are given, and why.
    fn idle(&self, sprays: bool) -> Vec<(Vec<&'static str>, &'static str)> {
        let mut idle = Vec::new();
        let mut unless = |reads: bool, keys: &[&'static str], why: &'static str| {
            if !reads {
                idle.push((keys.to_vec(), why));
            }
        };
        unless(self.meets(), &[Packet::ties], "without a buffer or marking");
        unless(self.draws(), &[Packet::seed], "where nothing is drawn");
        unless(sprays, &[Packet::spraying], "without routing: spray");
        let is_step = self.marking.as_ref().is_some_and(|marking| marking.from == marking.to);
        let probability = [Packet::marking, super::Marking::probability];
        unless(!is_step, &probability, "where all packets are marked from one queue on");
        match self.transport {
            Transport::Tcp => idle_of_tcp(&self.tcp.clone().unwrap_or_default(), unless),
            Transport::Rdma => self.idle_of_rdma(unless),
        }
        idle
    }

    /// Whether it matters which packet comes first to a switch.
    fn meets(&self) -> bool {
        self.buffer.is_some() || self.marking.is_some()
    }

    fn draws(&self) -> bool {
        let chance = self.marking.as_ref().is_some_and(|marking| marking.from < marking.to);
        chance || self.meets() && self.ties_used() == Ties::Drawn
    }

    /// The order of packets that meet: `ties`, or that of `like`.
    pub fn ties_used(&self) -> Ties {
        self.ties.unwrap_or(match self.like {
            Like::Rfc => Ties::Drawn,
            Like::Ns3 => Ties::InOrder,
        })
    }

    fn idle_of_rdma(&self, mut unless: impl FnMut(bool, &[&'static str], &'static str)) {
        let rdma = self.rdma.clone().unwrap_or_default();
        let reacts = rdma.congestion_control == RdmaControl::Dcqcn;
        unless(reacts, &[Packet::marking], "with rdma.congestion_control: none");
        let marks = !reacts || self.marking.is_some();
        unless(marks, &[Packet::rdma, Rdma::dcqcn], "without marking: no congestion is reported");
        let selects = rdma.recovery == RdmaRecovery::Selective;
        unless(selects, &[Packet::rdma, Rdma::reordering], "with recovery: go_back_n");
    }

    /// Values that cannot be, of the transport that is used.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults(Vec::new());
        self.sizes(&mut faults);
        // Without a size of packets nothing can be compared with it.
        if faults.0.is_empty() {
            self.queues(&mut faults);
            match self.transport {
                Transport::Tcp => tcp(&self.tcp.clone().unwrap_or_default(), self, &mut faults),
                Transport::Rdma => rdma(&self.rdma.clone().unwrap_or_default(), self, &mut faults),
            }
        }
        faults.0
    }

    /// Bytes of data in the largest packet.
    fn segment(&self) -> u64 {
        self.mtu.0 - self.header_bytes().0
    }

    /// Bytes that a link carries for the largest packet.
    fn wire(&self) -> u64 {
        self.mtu.0 + self.framing.0
    }

    fn sizes(&self, faults: &mut Faults) {
        let (mtu, headers, framing) = (self.mtu.0, self.header_bytes().0, self.framing.0);
        let keys = [Packet::mtu];
        let message =
            format!("an MTU of {mtu} B leaves no byte for data: headers take {headers} B");
        let allowed = format!("more than {headers}, at most {MTU_MAX}");
        faults.need(mtu > headers, &keys, message, allowed.clone());
        faults.need(mtu <= MTU_MAX, &keys, format!("an MTU of {mtu} B"), allowed);
        let room = WIRE_MAX.saturating_sub(mtu);
        let message = format!("{framing} B around each packet");
        let fits = framing <= room || mtu > MTU_MAX;
        faults.need(fits, &[Packet::framing], message, format!("at most {room}"));
    }

    fn queues(&self, faults: &mut Faults) {
        self.buffers(faults);
        if let Some(skip) = self.skip {
            faults.at_most_one(skip, &[Packet::skip]);
        }
        if let Some(marking) = &self.marking {
            let (from, to) = (marking.from, marking.to);
            let message = format!("marking ends at {to}, before it begins at {from}");
            faults.need(from <= to, &[Packet::marking], message, "\"from\" up to \"to\"".into());
            let keys = [Packet::marking, super::Marking::probability];
            faults.at_most_one(marking.probability, &keys);
        }
        if let Some(pause) = &self.pause {
            let (above, below) = (pause.above, pause.below);
            let message = format!("links paused above {above} resume at {below}");
            let allowed = "\"below\" at most \"above\"".into();
            faults.need(below <= above, &[Packet::pause], message, allowed);
        }
    }

    fn buffers(&self, faults: &mut Faults) {
        let Some(buffer) = &self.buffer else { return };
        let wire = self.wire();
        let mut holds = |size: u64, key, what: String| {
            let message = format!("{what} hold no packet of {wire} B (MTU and framing)");
            let allowed = format!("at least {wire} B");
            faults.need(size >= wire, &[Packet::buffer, key], message, allowed);
        };
        match (buffer.per_port, buffer.shared) {
            (Some(size), None) => holds(size.0, super::Buffer::per_port, size.to_string()),
            (None, Some(size)) => {
                let alpha = buffer.alpha.unwrap_or(Ratio::ONE);
                let share = u128::from(size.0) * u128::from(alpha.0) / u128::from(Ratio::ONE.0);
                let share = u64::try_from(share).unwrap_or(u64::MAX).min(size.0);
                let what = format!("{size} shared with \"alpha\" {alpha}");
                holds(share, super::Buffer::shared, what);
            }
            (port, shared) => {
                let both = port.is_some() && shared.is_some();
                let message = if both { "two kinds of buffer" } else { "a buffer without a size" };
                let allowed = "per_port, or shared with alpha".to_string();
                faults.need(false, &[Packet::buffer], message.to_string(), allowed);
            }
        }
        if buffer.shared.is_none() {
            let message = "\"alpha\" without \"shared\"".to_string();
            let keys = [Packet::buffer, super::Buffer::alpha];
            faults.need(buffer.alpha.is_none(), &keys, message, "shared with alpha".into());
        }
    }
}

fn idle_of_tcp(tcp: &Tcp, mut unless: impl FnMut(bool, &[&'static str], &'static str)) {
    for key in [Tcp::ack_delay, Tcp::prompt_acks] {
        unless(tcp.ack_every > 1, &[Packet::tcp, key], "with ack_every: 1");
    }
    for key in [Tcp::rescue, Tcp::resent_in_pipe, Tcp::recovery] {
        unless(tcp.sack, &[Packet::tcp, key], "with sack: false");
    }
}

/// A window must hold a segment.
fn window(size: Bytes, packet: &Packet, section: &'static str, faults: &mut Faults) {
    let segment = packet.segment();
    let message = format!("a window of {size} holds no segment of {segment} B (MTU less headers)");
    let keys = [section, Tcp::window];
    faults.need(size.0 >= segment, &keys, message, format!("at least {segment} B"));
}

fn tcp(tcp: &Tcp, packet: &Packet, faults: &mut Faults) {
    window(tcp.window, packet, Packet::tcp, faults);
    let keys = [Packet::tcp, Tcp::rto_min];
    faults.above_zero(tcp.rto_min, &keys);
    let (least, most) = (tcp.rto_min, tcp.rto_max);
    let message = format!("\"rto_min\" {least} is above \"rto_max\" {most}");
    faults.need(least <= most, &keys, message, "at most \"rto_max\"".into());
}

fn rdma(rdma: &Rdma, packet: &Packet, faults: &mut Faults) {
    window(rdma.window, packet, Packet::rdma, faults);
    faults.above_zero(rdma.timeout, &[Packet::rdma, Rdma::timeout]);
    if rdma.congestion_control == RdmaControl::Dcqcn {
        dcqcn(&rdma.dcqcn.clone().unwrap_or_default(), faults);
    }
}

fn dcqcn(dcqcn: &Dcqcn, faults: &mut Faults) {
    let keys = |key| [Packet::rdma, Rdma::dcqcn, key];
    faults.above_zero(dcqcn.alpha_interval, &keys(Dcqcn::alpha_interval));
    faults.above_zero(dcqcn.rate_interval, &keys(Dcqcn::rate_interval));
    faults.at_most_one(dcqcn.gain, &keys(Dcqcn::gain));
    let message = "\"rate_bytes\" is 0 B".to_string();
    let keys = keys(Dcqcn::rate_bytes);
    faults.need(dcqcn.rate_bytes.0 > 0, &keys, message, "a size above 0 B".into());
}
