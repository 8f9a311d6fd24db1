//! Values of `network.packet` that cannot be.

use super::{Dcqcn, Packet, Protocol, Rdma, RdmaControl, Tcp, Transport};
use crate::entries::misfit;
use topology::Fabric;
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
    /// The fault, with the value.
    pub message: String,
    /// Allowed values.
    pub allowed: String,
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
    /// Lists that do not fit to a fabric.
    pub fn misfits(&self, fabric: &Fabric) -> Vec<Fault> {
        let fault = |(key, entries)| {
            let (message, allowed) = misfit(entries, fabric)?;
            Some(Fault { keys: vec![key], message, allowed })
        };
        self.lists().into_iter().filter_map(fault).collect()
    }

    /// Values that cannot be, with the dimension that has them.
    pub fn faults(&self) -> Vec<(usize, Fault)> {
        let protocols = self.protocols();
        let mut all = Vec::new();
        for (place, protocol) in protocols.iter().enumerate() {
            let mut faults = protocol.faults();
            if faults.is_empty() {
                faults = protocol.passed(&protocols[place + 1..]);
            }
            all.extend(faults.into_iter().map(|fault| (place, fault)));
        }
        all
    }
}

impl Protocol {
    /// Why packets of the `outer` dimensions cannot cross links of this one.
    fn passed(&self, outer: &[Protocol]) -> Vec<Fault> {
        let most = |of: fn(&Protocol) -> u64| outer.iter().map(of).max().unwrap_or(0);
        let mut faults = Faults(Vec::new());
        let (mtu, headers) = (self.mtu, most(|protocol| protocol.headers));
        let message = format!(
            "an MTU of {mtu} B leaves no byte for data of an outer dimension: headers take {headers} B"
        );
        faults.need(mtu > headers, &[Packet::mtu], message, format!("more than {headers}"));
        let framing = self.framing.max(most(|protocol| protocol.framing));
        Protocol { framing, ..self.clone() }.buffers(&mut faults);
        faults.0
    }

    /// Values that cannot be, of the transport that is used.
    fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults(Vec::new());
        self.sizes(&mut faults);
        // Without a size of packets nothing can be compared with it.
        if faults.0.is_empty() {
            self.queues(&mut faults);
            match self.transport {
                Transport::Tcp => tcp(&self.tcp, self, &mut faults),
                Transport::Rdma => rdma(&self.rdma, self, &mut faults),
            }
        }
        faults.0
    }

    fn sizes(&self, faults: &mut Faults) {
        let (mtu, headers, framing) = (self.mtu, self.headers, self.framing);
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

/// A window must hold a segment.
fn window(size: Bytes, packet: &Protocol, section: &'static str, faults: &mut Faults) {
    let segment = packet.segment();
    let message = format!("a window of {size} holds no segment of {segment} B (MTU less headers)");
    let keys = [section, Tcp::window];
    faults.need(size.0 >= segment, &keys, message, format!("at least {segment} B"));
}

fn tcp(tcp: &Tcp, packet: &Protocol, faults: &mut Faults) {
    window(tcp.window, packet, Packet::tcp, faults);
    let keys = [Packet::tcp, Tcp::rto_min];
    faults.above_zero(tcp.rto_min, &keys);
    let (least, most) = (tcp.rto_min, tcp.rto_max.unwrap_or(tcp.rto_min));
    let message = format!("\"rto_min\" {least} is above \"rto_max\" {most}");
    faults.need(least <= most, &keys, message, "at most \"rto_max\"".into());
}

fn rdma(rdma: &Rdma, packet: &Protocol, faults: &mut Faults) {
    window(rdma.window, packet, Packet::rdma, faults);
    faults.above_zero(rdma.timeout, &[Packet::rdma, Rdma::timeout]);
    if rdma.congestion_control == RdmaControl::Dcqcn {
        dcqcn(&rdma.dcqcn.unwrap_or_default(), faults);
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
