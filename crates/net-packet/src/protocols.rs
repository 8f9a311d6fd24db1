//! Settings that differ by kind of link.
//!
//! A port has those of its link. A connection has those of the outermost kind of link on its way,
//! and the smallest MTU of all.

use crate::port::{Marks, Port};
use crate::settings::{Buffer, Settings};
use net_settings::packet::{Packet, Ties};
use network::LinkCost;
use topology::{Fabric, LinkGraph};

/// The settings of each kind of link, innermost first, and the kind of each link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocols {
    each: Vec<Settings>,
    /// The kind of each link; empty where there is one kind.
    kinds: Vec<u16>,
}

impl From<Settings> for Protocols {
    fn from(settings: Settings) -> Protocols {
        Protocols::by_kind(vec![settings], Vec::new())
    }
}

impl Protocols {
    /// Settings that `packet`, which has no faults, asks for on the links of `fabric`.
    pub fn new(packet: &Packet, fabric: &Fabric, links: &LinkGraph) -> Protocols {
        let settings = |protocol| Settings::new(packet, protocol);
        let each = packet.protocols().iter().map(settings).collect();
        let kinds = if packet.lists().is_empty() { Vec::new() } else { links.kinds(fabric) };
        Protocols::by_kind(each, kinds)
    }

    /// One kind for each of `each`, which have the same `tick`, `spraying`, `seed`, and of
    /// `switch` the same `ties`, `control_first` and `small_first`. Every MTU exceeds the header of its
    /// kind and of outer ones. `kinds`: the kind of each link.
    ///
    /// # Panics
    /// If `each` is empty, or a link has a kind beyond it.
    pub fn by_kind(each: Vec<Settings>, kinds: Vec<u16>) -> Protocols {
        assert!(!each.is_empty(), "links have settings");
        assert!(kinds.iter().all(|&kind| usize::from(kind) < each.len()), "kinds are known");
        let kinds = if each.len() > 1 { kinds } else { Vec::new() };
        let each = each.into_iter().map(Settings::resolved).collect();
        Protocols { each, kinds }
    }

    /// Settings that are the same for all.
    #[inline]
    pub(crate) fn whole(&self) -> &Settings {
        &self.each[0]
    }

    /// Those of a kind.
    #[inline]
    pub(crate) fn of(&self, kind: u16) -> &Settings {
        &self.each[usize::from(kind)]
    }

    /// The kind of a link.
    #[inline]
    pub(crate) fn kind(&self, link: u32) -> u16 {
        self.kinds.get(link as usize).copied().unwrap_or(0)
    }

    /// Those of a link.
    pub(crate) fn of_link(&self, link: u32) -> &Settings {
        self.of(self.kind(link))
    }

    /// The port of a link. Packets of an NPU wait in its memory, and nothing marks them there.
    pub(crate) fn port(&self, link: u32, cost: LinkCost, in_switch: bool) -> Port {
        let switch = self.of_link(link).switch;
        let marks = Marks::new(switch.marking.filter(|_| in_switch));
        let draws = in_switch && switch.draws();
        let room = match switch.buffer {
            Buffer::Port(bytes) => bytes.0,
            Buffer::Unlimited | Buffer::Shared { .. } => u64::MAX,
        };
        let ties = if draws { Ties::Drawn } else { Ties::InOrder };
        Port::new(cost, self.whole().tick, (marks, ties), in_switch.then_some(room))
    }

    /// Those of a connection over these links: its kind, and most bytes of data in its packets.
    pub(crate) fn on_way(&self, links: impl Iterator<Item = u32>) -> (u16, u16) {
        let further = |(kind, mtu): (u16, u16), link| {
            let other = self.kind(link);
            (kind.max(other), mtu.min(self.of(other).mtu))
        };
        let (kind, mtu) = links.fold((0, u16::MAX), further);
        (kind, mtu - self.of(kind).header)
    }

    /// The outermost kind of the links on a way.
    pub(crate) fn outermost<W: Iterator<Item = u32>>(&self, way: impl FnOnce() -> W) -> u16 {
        if self.kinds.is_empty() { 0 } else { way().map(|link| self.kind(link)).max().unwrap_or(0) }
    }

    /// Bytes of data in the smallest packets.
    pub(crate) fn least_payload(&self) -> u64 {
        self.each.iter().map(Settings::payload).min().unwrap_or(1)
    }

    /// Whether some links pause.
    pub(crate) fn pauses(&self) -> bool {
        self.each.iter().any(|settings| settings.switch.pause.is_some())
    }
}
