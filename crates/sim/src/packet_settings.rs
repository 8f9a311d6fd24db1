//! Settings of the packet backend, from the keys of a platform.
//!
//! Not here: the keys and which values are allowed (`platform::packet`), what they do
//! (`net_packet`).

use net_packet as net;
use platform::packet::{self as keys, Packet, Protocol, Transport};
use topology::{Fabric, LinkGraph};
use units::{Ratio, Span};

/// The settings that `packet`, which has no faults, asks for on the links of `fabric`.
pub(crate) fn protocols(packet: &Packet, fabric: &Fabric, links: &LinkGraph) -> net::Protocols {
    let each = packet.protocols().iter().map(|protocol| settings(packet, protocol)).collect();
    let kinds = match packet.lists()[..] {
        [] => Vec::new(),
        _ => crate::wiring::kinds(fabric, links),
    };
    net::Protocols::by_kind(each, kinds)
}

/// The settings of a dimension.
fn settings(packet: &Packet, protocol: &Protocol) -> net::Settings {
    net::Settings {
        mtu: short(protocol.mtu),
        header: short(protocol.headers),
        framing: short(protocol.framing),
        injection: injection(packet, protocol),
        tick: packet.tick,
        switch: switch(packet, protocol),
        seed: packet.seed,
        spraying: match packet.spraying {
            keys::Spraying::InTurns => net::Spraying::InTurns,
            keys::Spraying::ShortestQueue => net::Spraying::ShortestQueue,
        },
        transport: match protocol.transport {
            Transport::Tcp => net::Transport::Tcp(tcp(protocol)),
            Transport::Rdma => net::Transport::Rdma(rdma(&protocol.rdma)),
        },
    }
}

/// ns-3 sends what an application has written one step of its clock later.
fn injection(packet: &Packet, protocol: &Protocol) -> Span {
    let step = match packet.like {
        keys::Like::Rfc => Span::ZERO,
        keys::Like::Ns3 => packet.tick.max(Span(1)),
    };
    protocol.injection_latency + step
}

/// A size within a packet, which has at most 65,535 bytes.
fn short(size: u64) -> u16 {
    u16::try_from(size).unwrap_or(u16::MAX)
}

fn switch(packet: &Packet, protocol: &Protocol) -> net::Switch {
    let buffer = |buffer: &keys::Buffer| match (buffer.per_port, buffer.shared) {
        (Some(size), _) => net::Buffer::Port(size),
        (None, Some(total)) => {
            net::Buffer::Shared { total, alpha: buffer.alpha.unwrap_or(Ratio::ONE) }
        }
        (None, None) => net::Buffer::Unlimited,
    };
    net::Switch {
        buffer: protocol.buffer.as_ref().map_or(net::Buffer::Unlimited, buffer),
        marking: protocol.marking.as_ref().map(|marking| net::Marking {
            from: marking.from,
            to: marking.to,
            most: marking.probability,
        }),
        control_first: packet.control_first,
        small_first: packet.small_messages_first,
        pause: protocol
            .pause
            .as_ref()
            .map(|pause| net::Pause { above: pause.above, below: pause.below }),
        ties: match protocol.ties {
            keys::Ties::Drawn => net::Ties::Drawn,
            keys::Ties::InOrder => net::Ties::InOrder,
        },
    }
}

fn tcp(protocol: &Protocol) -> net::Tcp {
    let tcp = &protocol.tcp;
    let control = match tcp.congestion_control {
        keys::TcpControl::NewReno => net::Control::NewReno,
        keys::TcpControl::Cubic => net::Control::Cubic,
        keys::TcpControl::Dctcp => net::Control::Dctcp,
    };
    let like = match protocol.like {
        keys::Like::Rfc => net::Tcp::default(),
        keys::Like::Ns3 => net::Tcp::ns3(control),
    };
    net::Tcp {
        control,
        initial_window: tcp.initial_window,
        slow_start_limit: tcp.slow_start_limit.unwrap_or(like.slow_start_limit),
        hystart: tcp.hystart.unwrap_or(like.hystart),
        window: tcp.window,
        ack_every: tcp.ack_every,
        prompt_acks: tcp.prompt_acks,
        ack_delay: tcp.ack_delay,
        sack: tcp.sack,
        rto_min: tcp.rto_min,
        rto_max: tcp.rto_max,
        flight: tcp.threshold.map_or(like.flight, |threshold| match threshold {
            keys::Flight::Outstanding => net::Flight::Outstanding,
            keys::Flight::Pipe => net::Flight::Pipe,
            keys::Flight::Window => net::Flight::Window,
        }),
        rescue: tcp.rescue.map_or(like.rescue, |rescue| match rescue {
            keys::Rescue::Once => net::Rescue::Once,
            keys::Rescue::Always => net::Rescue::Always,
        }),
        resent_in_pipe: tcp.resent_in_pipe.unwrap_or(like.resent_in_pipe),
        stalls: like.stalls,
        partial: protocol.like == keys::Like::Ns3,
        reduction: match tcp.recovery {
            keys::TcpRecovery::Proportional => net::Reduction::Proportional,
            keys::TcpRecovery::Half => net::Reduction::Half,
        },
        restart: tcp.restart_after_idle,
    }
}

fn rdma(rdma: &keys::Rdma) -> net::Rdma {
    net::Rdma {
        window: rdma.window,
        ack_every: rdma.ack_every,
        recovery: match rdma.recovery {
            keys::RdmaRecovery::GoBackN => net::Recovery::GoBackN,
            keys::RdmaRecovery::Selective => net::Recovery::Selective,
        },
        reordering: rdma.reordering,
        timeout: rdma.timeout,
        dcqcn: match rdma.congestion_control {
            keys::RdmaControl::Dcqcn => Some(dcqcn(&rdma.dcqcn.clone().unwrap_or_default())),
            keys::RdmaControl::None => None,
        },
    }
}

fn dcqcn(dcqcn: &keys::Dcqcn) -> net::Dcqcn {
    net::Dcqcn {
        report_interval: dcqcn.report_interval,
        gain: dcqcn.gain,
        alpha_interval: dcqcn.alpha_interval,
        rate_interval: dcqcn.rate_interval,
        rate_bytes: dcqcn.rate_bytes,
        recovery_steps: dcqcn.recovery_steps,
        additive: dcqcn.additive_increase,
        hyper: dcqcn.hyper_increase,
        least: dcqcn.rate_min,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::ByDim;
    use units::Bytes;

    fn only(packet: &Packet) -> net::Settings {
        settings(packet, &packet.protocol(0))
    }

    #[test]
    fn platforms_and_the_backend_have_the_same_defaults() {
        assert_eq!(only(&Packet::default()), net::Settings::default());
        let transport = ByDim::All(Transport::Rdma);
        let packet = Packet { transport, ..Packet::default() };
        let transport = net::Transport::Rdma(net::Rdma::default());
        assert_eq!(only(&packet), net::Settings::with(transport));
    }

    #[test]
    fn buffers_are_of_ports_or_shared() {
        let of = |buffer: keys::Buffer| {
            let buffer = ByDim::All(Some(buffer));
            only(&Packet { buffer, ..Packet::default() }).switch.buffer
        };
        let port = keys::Buffer { per_port: Some(Bytes(7)), ..keys::Buffer::default() };
        assert_eq!(of(port), net::Buffer::Port(Bytes(7)));
        let shared = keys::Buffer { shared: Some(Bytes(7)), ..keys::Buffer::default() };
        assert_eq!(of(shared), net::Buffer::Shared { total: Bytes(7), alpha: Ratio::ONE });
    }
}
