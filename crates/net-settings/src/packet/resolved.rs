//! Meaning of `tcp: linux`, `rfc` and `ns3`.
//!
//! Not here: what the keys do (`net_packet`), and the keys that are the same for all
//! (`transport.rs`).

use super::like::Like;
use super::{Flight, Rescue, Tcp, TcpControl};
use units::Span;

impl Like {
    fn control(self) -> TcpControl {
        match self {
            // `DEFAULT_TCP_CONG` of `net/ipv4/Kconfig`.
            Like::Linux => TcpControl::Cubic,
            Like::Rfc | Like::Ns3 => TcpControl::NewReno,
        }
    }

    fn slow_start_limit(self, is_cubic: bool) -> u32 {
        let all = self == Like::Linux || self == Like::Ns3 && is_cubic;
        if all { u32::MAX } else { 1 }
    }

    fn threshold(self, is_cubic: bool) -> Flight {
        match self {
            Like::Rfc => Flight::Outstanding,
            Like::Ns3 if !is_cubic => Flight::Pipe,
            Like::Ns3 | Like::Linux => Flight::Window,
        }
    }

    fn rescue(self) -> Rescue {
        if self == Like::Ns3 { Rescue::Always } else { Rescue::Once }
    }

    /// `TCP_MAX_QUICKACKS`.
    fn prompt_acks(self) -> u32 {
        if self == Like::Linux { 16 } else { 1 }
    }

    /// `TCP_RTO_MAX`.
    fn rto_max(self) -> Span {
        let seconds = if self == Like::Linux { 120 } else { 60 };
        Span(seconds * 1_000_000_000_000)
    }
}

impl Tcp {
    /// The algorithm that sets the congestion window.
    pub fn control(&self) -> TcpControl {
        self.congestion_control.unwrap_or(self.like.control())
    }

    /// The settings with what `like` stands for, in every key that has an effect.
    #[must_use]
    pub fn resolved(self) -> Tcp {
        let (like, control) = (self.like, self.control());
        let is_cubic = control == TcpControl::Cubic;
        let or = |given: Option<bool>, reads: bool, value: bool| given.or(reads.then_some(value));
        let prompt = (self.ack_every > 1).then(|| like.prompt_acks());
        Tcp {
            congestion_control: Some(control),
            slow_start_limit: self.slow_start_limit.or(Some(like.slow_start_limit(is_cubic))),
            hystart: or(self.hystart, is_cubic, like != Like::Rfc),
            prompt_acks: self.prompt_acks.or(prompt),
            rto_max: self.rto_max.or(Some(like.rto_max())),
            threshold: self.threshold.or(Some(like.threshold(is_cubic))),
            rescue: self.rescue.or(self.sack.then(|| like.rescue())),
            resent_in_pipe: or(self.resent_in_pipe, self.sack, like == Like::Ns3),
            ..self
        }
    }
}
