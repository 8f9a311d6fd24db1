//! `network.flow`: the fair-flow backend.

use declared::{section, words};
use units::{Bandwidth, Ratio, Span};

/// How flows share a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weights {
    /// All alike.
    #[default]
    Equal,
    /// In inverse proportion to the latency of their route there and back, as TCP does.
    RoundTrip,
}

words!(Weights: "equal" = Weights::Equal, "round_trip" = Weights::RoundTrip);

section! {
    /// Settings of the fair-flow backend.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Flow {
        /// Most bandwidth that one transfer gets, such as one stream of a NIC.
        pub stream_bandwidth_max: Option<Bandwidth>, default None, says "what its links give";
        /// The part of every link's bandwidth that data can use. The rest is packet headers.
        pub efficiency: Ratio, default Ratio::ONE;
        /// How transfers share a link: all alike, or in inverse proportion to the latency of their
        /// route, as TCP does.
        pub weights: Weights, default Weights::Equal;
        /// Rates are found anew at most once in this time; 0: at each start and end. Runs with many
        /// flows are much faster with some hundred nanoseconds.
        pub rates_every: Span, default Span::ZERO;
        /// Rates are the fair ones of links whose bandwidths differ by at most this.
        pub tolerance: Ratio, default Ratio(Ratio::ONE.0 / 100);
        /// Rates are exact, whatever `tolerance` says. Runs with many flows are several times
        /// slower.
        pub exact: bool, default false;
    }
}

impl Default for Flow {
    fn default() -> Flow {
        declared::absent()
    }
}
