//! The NPU's own memory.
//!
//! Model: `latency + bytes / bandwidth` for a load or store node; without a bandwidth it takes the
//! latency. With contention, kernels that run during communication share the bandwidth with it:
//! `bandwidth - 2 * what the NPU sends at most`, a byte sent being read here, and written where it
//! arrives. Source: Won et al., ISPASS 2023, section IV-D (the local memory model).

use units::{Bandwidth, Bytes, Span};

/// An NPU's own memory as accesses see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Local {
    /// Fixed part of an access.
    pub latency: Span,
    /// Bytes per second; accesses take no longer than the latency when not known.
    pub bandwidth: Option<Bandwidth>,
}

impl Local {
    /// Time of a load or store of `bytes`.
    pub fn span(&self, bytes: Bytes) -> Span {
        self.latency + self.bandwidth.map_or(Span::ZERO, |bandwidth| bandwidth.span(bytes))
    }

    /// Bandwidth that is left during communication at `sent` bytes per second; nothing when
    /// communication uses it all.
    pub fn left_for_kernels(&self, sent: Bandwidth) -> Option<Bandwidth> {
        let bandwidth = self.bandwidth?;
        bandwidth.0.checked_sub(sent.0.saturating_mul(2)).filter(|&left| left > 0).map(Bandwidth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn latency_and_bytes_over_bandwidth() {
        let local = Local { latency: Span::from_ns(100), bandwidth: Some(Bandwidth(2_000 * GB)) };
        assert_eq!(local.span(Bytes(4_000_000)), Span::from_ns(100 + 2_000));
        assert_eq!(Local { bandwidth: None, ..local }.span(Bytes(u64::MAX)), Span::from_ns(100));
    }

    #[test]
    fn communication_takes_twice_what_it_sends() {
        let local = Local { latency: Span::ZERO, bandwidth: Some(Bandwidth(2_000 * GB)) };
        assert_eq!(local.left_for_kernels(Bandwidth(450 * GB)), Some(Bandwidth(1_100 * GB)));
        assert_eq!(local.left_for_kernels(Bandwidth(1_000 * GB)), None);
    }
}
