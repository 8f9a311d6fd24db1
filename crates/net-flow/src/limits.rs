//! Limits of flows besides the links, and how they share them.

use net_settings::flow::{Flow, Weights};
use units::{Bandwidth, PS_PER_US, Ratio, Span};

const PS_PER_MS: u64 = PS_PER_US * 1_000;
/// Rates are counted in 1 / 2^16 bytes per second.
pub(crate) const RATE_BITS: u32 = 16;

/// Limits of flows besides the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The settings that users give.
    pub settings: Flow,
    /// A flow that splits is not faster than on one of its routes.
    pub one_route: bool,
}

impl Default for Limits {
    /// The links alone, with exact rates.
    fn default() -> Limits {
        Limits::from(Flow { exact: true, ..Flow::default() })
    }
}

impl From<Flow> for Limits {
    fn from(settings: Flow) -> Limits {
        Limits { settings, one_route: false }
    }
}

/// Units of rate of a bandwidth.
pub(crate) fn units_of(bandwidth: Bandwidth) -> u64 {
    u64::try_from(u128::from(bandwidth.0) << RATE_BITS).unwrap_or(u64::MAX)
}

/// Units of rate of a flow.
#[inline]
pub(crate) fn rate(level: u64, weight: u64) -> u64 {
    level.saturating_mul(weight).max(1)
}

impl Limits {
    /// The weight of a flow whose route has this latency.
    pub(crate) fn weight(&self, latency: Span) -> u64 {
        match self.settings.weights {
            Weights::Equal => 1,
            Weights::RoundTrip => (PS_PER_MS / latency.0.max(1)).clamp(1, 1 << 20),
        }
    }

    /// Whether rates are those of the given links, rather than of links within the tolerance.
    pub(crate) fn is_exact(&self) -> bool {
        self.settings.exact
    }

    /// How much more or less of a link of this capacity than all may be used.
    pub(crate) fn slack(&self, capacity: u128) -> u128 {
        if self.settings.exact {
            return 0;
        }
        let Ratio(part) = self.settings.tolerance;
        capacity / u128::from(Ratio::ONE.0) * u128::from(part)
    }

    /// The highest level of a flow of this weight, whose slowest link has the rate `slowest`.
    #[inline]
    pub(crate) fn level(&self, weight: u64, slowest: impl FnOnce() -> u64) -> Option<u64> {
        let stream = self.settings.stream_bandwidth_max.map(units_of);
        let route = self.one_route.then(slowest);
        let most = stream.into_iter().chain(route).min()?;
        Some((most / weight).max(1))
    }
}
