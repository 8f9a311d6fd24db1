//! Which values of `network.packet` fit together.

use super::{Fault, Packet, Protocol, Rdma, RdmaControl, RdmaRecovery, Tcp, Transport};
use declared::findings::{At, Findings};
use declared::tree::Value;
use declared::{Key, Misfit, Setting, Words, suited};
use topology::Fabric;

/// Refuses values that cannot be, and warns of keys that have no effect. `sprays`: each packet takes
/// a way of its own.
pub fn check(packet: &Packet, fabric: &Fabric, sprays: bool, at: &At<'_>, findings: &mut Findings) {
    let misfits = packet.misfits(fabric);
    if !misfits.is_empty() {
        misfits.into_iter().for_each(|fault| {
            let place = at.get(fault.keys[0]).unwrap_or_else(|| at.clone());
            findings.refuse(&place, fault.message, fault.allowed);
        });
        return;
    }
    let protocols = packet.protocols();
    let warnings: Vec<Vec<Warning>> = (0..)
        .zip(&protocols)
        .map(|(place, protocol)| warnings(protocol, sprays, at, place))
        .collect();
    for warning in warnings.iter().flatten() {
        // A value for all has an effect where one dimension reads it.
        let counts = warning.own || warnings.iter().all(|others| others.contains(warning));
        if counts && !findings.warnings.contains(&warning.text) {
            findings.warnings.push(warning.text.clone());
        }
    }
    let before = findings.problems.len();
    for (place, fault) in packet.faults() {
        refuse(fault, at, place, findings);
    }
    // Faults of all dimensions are reported once.
    let mut seen = Vec::new();
    for problem in findings.problems.split_off(before) {
        if !seen.contains(&problem) {
            seen.push(problem);
        }
    }
    findings.problems.extend(seen);
}

/// A key without effect.
#[derive(PartialEq)]
struct Warning {
    text: String,
    /// It is an entry of a list, for one dimension.
    own: bool,
}

/// The entry of a list for a dimension, or the value itself; and whether it is an entry.
fn entry<'a>(at: At<'a>, place: usize) -> (At<'a>, bool) {
    let is_list = matches!(at.tree.value, Value::List(_));
    let found = if is_list { at.items().into_iter().nth(place) } else { None };
    (found.unwrap_or(at), is_list)
}

/// The value at `keys` for a dimension, if it is given, and whether it is only that dimension's.
fn given<'a>(at: &At<'a>, keys: &[&str], place: usize) -> Option<(At<'a>, bool)> {
    let step = |(at, own): (At<'a>, bool), key: &&str| {
        let (found, is_entry) = entry(at.get(key)?, place);
        (found.tree.value != Value::Null).then_some((found, own || is_entry))
    };
    keys.iter().try_fold((at.clone(), false), step)
}

/// Keys without effect on the connections and links of a dimension.
fn warnings(protocol: &Protocol, sprays: bool, at: &At<'_>, place: usize) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut suit = |at: &At<'_>, own: bool, keys: &[Key], tag: &str, word: &str| {
        let mut found = Findings::default();
        suited(at, keys, tag, word, Misfit::Warn, &mut found);
        all.extend(found.warnings.into_iter().map(|text| Warning { text, own }));
    };
    let transport = protocol.transport.word();
    suit(at, false, Packet::keys(), Packet::transport, transport);
    if let Some((at, own)) = given(at, &[Packet::rdma], place) {
        let word = protocol.rdma.congestion_control.word();
        suit(&at, own, Rdma::keys(), Rdma::congestion_control, word);
    }
    if let Some((at, own)) = given(at, &[Packet::tcp], place) {
        let word = protocol.tcp.control().word();
        suit(&at, own, Tcp::keys(), Tcp::congestion_control, word);
    }
    for (key, model) in [(Packet::tcp, Transport::Tcp), (Packet::rdma, Transport::Rdma)] {
        if let Some((at, true)) = given(at, &[key], place)
            && protocol.transport != model
        {
            let text = format!("{} has no effect with {}: {transport}", at.path, Packet::transport);
            all.push(Warning { text, own: true });
        }
    }
    for (keys, why) in protocol.idle(sprays) {
        if let Some((found, own)) = given(at, &keys, place)
            && !is_default(&found, &keys)
        {
            all.push(Warning { text: format!("{} has no effect {why}", found.path), own });
        }
    }
    all
}

/// Whether the value of the key at this path of `network.packet` is its default: a platform that was
/// printed has those of all keys.
fn is_default(at: &At<'_>, path: &[&str]) -> bool {
    let key = |keys: &'static [Key], name: &str| keys.iter().find(|key| key.name == name);
    let first = key(Packet::keys(), path[0]);
    let found = path[1..].iter().fold(first, |outer, name| key((outer?.inner)(), name));
    found.is_some_and(|key| key.has_default(at))
}

/// Refuses a value of a dimension.
fn refuse(fault: Fault, at: &At<'_>, place: usize, findings: &mut Findings) {
    let Fault { keys, message, allowed } = fault;
    // A default may not fit to what was given: then the place is that of its section.
    let mut found = at.clone();
    for key in keys {
        found = found.get(key).map_or(found, |at| entry(at, place).0);
    }
    findings.refuse(&found, message, allowed);
}

impl Protocol {
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
            Transport::Tcp => idle_of_tcp(&self.tcp, unless),
            Transport::Rdma => self.idle_of_rdma(unless),
        }
        idle
    }

    fn idle_of_rdma(&self, mut unless: impl FnMut(bool, &[&'static str], &'static str)) {
        let rdma = &self.rdma;
        let reacts = rdma.congestion_control == RdmaControl::Dcqcn;
        unless(reacts, &[Packet::marking], "with rdma.congestion_control: none");
        let marks = !reacts || self.marking.is_some();
        unless(marks, &[Packet::rdma, Rdma::dcqcn], "without marking: no congestion is reported");
        let selects = rdma.recovery == RdmaRecovery::Selective;
        unless(selects, &[Packet::rdma, Rdma::reordering], "with recovery: go_back_n");
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
