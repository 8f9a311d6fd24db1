//! Congestion control: what sets the window. One algorithm one file.

mod cubic;
mod dctcp;
mod hystart;
mod new_reno;
mod window;

use super::Tcp;
use cubic::Cubic;
use dctcp::Dctcp;

pub(crate) use window::{Acked, Window};

/// An algorithm and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Algorithm {
    NewReno,
    Cubic(Cubic),
    Dctcp(Dctcp),
}

impl Algorithm {
    pub(crate) fn new(control: super::TcpControl) -> Algorithm {
        match control {
            super::TcpControl::NewReno => Algorithm::NewReno,
            super::TcpControl::Cubic => Algorithm::Cubic(Cubic::default()),
            super::TcpControl::Dctcp => Algorithm::Dctcp(Dctcp::default()),
        }
    }

    /// Something new was acknowledged outside of recovery: the window grows.
    #[inline]
    pub(crate) fn grow(&mut self, window: &mut Window, acked: &Acked, tcp: &Tcp) {
        if let Algorithm::Cubic(cubic) = self
            && tcp.hystart
            && window.size < window.threshold
            && cubic.hystart.ends(window, acked)
        {
            window.threshold = window.size;
        }
        let bytes = if tcp.partial { window.whole(acked.bytes) } else { acked.bytes };
        let acked = &Acked { bytes, ..*acked };
        let bytes = if window.size < window.threshold {
            window.slow_start(bytes, tcp.slow_start_limit)
        } else {
            bytes
        };
        if bytes == 0 || window.size < window.threshold {
            return;
        }
        match self {
            Algorithm::NewReno | Algorithm::Dctcp(_) => new_reno::avoid(window),
            Algorithm::Cubic(cubic) => cubic.avoid(window, acked, tcp.hystart),
        }
    }

    /// The threshold after a loss or a mark with this number of bytes under way.
    pub(crate) fn reduced(&mut self, window: &Window, flight: u64) -> u64 {
        match self {
            Algorithm::NewReno | Algorithm::Dctcp(_) => new_reno::reduced(window, flight),
            Algorithm::Cubic(cubic) => cubic.reduced(window, flight),
        }
    }

    /// The retransmission timer has expired.
    pub(crate) fn timed_out(&mut self) {
        if let Algorithm::Cubic(cubic) = self {
            cubic.timed_out();
        }
    }

    /// Whether it measures how many bytes are marked, instead of shrinking the window once.
    pub(crate) fn measures(&self) -> bool {
        matches!(self, Algorithm::Dctcp(_))
    }

    /// Hears of every acknowledgement. Returns the window to go on with where marks ask for less.
    #[inline]
    pub(crate) fn marks(&mut self, window: &Window, acked: &Acked) -> Option<u64> {
        match self {
            Algorithm::Dctcp(dctcp) => dctcp.acknowledged(window, acked),
            _ => None,
        }
    }
}
