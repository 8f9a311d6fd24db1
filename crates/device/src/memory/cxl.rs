//! A CXL-like link: loads and stores of 64-byte lines in flits, with a bounded number of them under
//! way.
//!
//! Model: `latency + bytes / rate`, `rate = min(bandwidth * 64 / flit, outstanding * 64 B /
//! latency)`, the first term where the link is the bound, the second (Little's law) where the lines
//! under way are. A flit of 68 bytes carries a line (CXL 1.1 and 2.0); one of 256 carries 15 slots
//! of 16 bytes, three lines and their headers. Source: CXL Consortium, CXL 2.0 and 3.0
//! specifications, link layer.

use super::link::behind;
use super::{Access, Fault, Pipeline, Sharing, Stage};
use units::{Bandwidth, Bytes, Span};

const LINE: u64 = 64;
const PS_PER_S: u128 = 1_000_000_000_000;

/// A CXL-like link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Cxl {
    /// Who takes turns.
    pub sharing: Sharing,
    /// From a load to its line.
    #[serde(rename = "latency_ps")]
    pub latency: Span,
    /// Raw bytes per second, flits and all.
    pub bandwidth: Bandwidth,
    /// Bytes a flit: 68 or 256.
    pub flit: u32,
    /// Lines under way at once; no bound when not given.
    pub outstanding: Option<u32>,
    /// Bytes that one memory holds, if known.
    #[serde(rename = "capacity_bytes", skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
}

impl Cxl {
    /// Bytes of lines and of the flits that carry them.
    fn payload(&self) -> (u64, u64) {
        if self.flit == 256 { (3 * LINE, 256) } else { (LINE, 68) }
    }

    /// Bytes of data per second.
    ///
    /// # Errors
    /// A flit that is neither 68 nor 256 bytes; less than one byte per second.
    pub fn rate(&self) -> Result<Bandwidth, Fault> {
        if ![68, 256].contains(&self.flit) {
            return Err(Fault::new("flit", format!("a flit of {} bytes", self.flit), "68 or 256"));
        }
        let (lines, flit) = self.payload();
        let link = u128::from(self.bandwidth.0) * u128::from(lines) / u128::from(flit);
        let under_way = self.outstanding.filter(|_| self.latency > Span::ZERO).map(|lines| {
            u128::from(lines) * u128::from(LINE) * PS_PER_S / u128::from(self.latency.0)
        });
        let rate = under_way.map_or(link, |bound| bound.min(link));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        if rate == 0 {
            return Err(Fault::new(
                "bandwidth",
                "less than one byte per second",
                "more lines in flight, or more bandwidth",
            ));
        }
        Ok(Bandwidth(rate))
    }

    pub(super) fn access(&self) -> Result<Access, Fault> {
        let own = Pipeline::single(Stage::plain("CXL memory to NPU", self.latency, self.rate()?));
        Ok(Access::new(self.sharing, own, behind(self.sharing, self.capacity)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cxl(flit: u32, outstanding: Option<u32>) -> Cxl {
        let (latency, bandwidth) = (Span::from_ns(200), Bandwidth(64_000_000_000));
        Cxl { sharing: Sharing::PerNpu, latency, bandwidth, flit, outstanding, capacity: None }
    }

    #[test]
    fn flits_take_their_part() {
        assert_eq!(cxl(68, None).rate().unwrap(), Bandwidth(64_000_000_000 * 64 / 68));
        assert_eq!(cxl(256, None).rate().unwrap(), Bandwidth(48_000_000_000));
        assert_eq!(
            cxl(256, None).access().unwrap().own.span(Bytes(48_000)),
            Span::from_ns(200 + 1_000)
        );
    }

    /// 64 lines of 64 bytes every 200 ns are 20.48 GB/s.
    #[test]
    fn few_lines_under_way_bound_the_rate() {
        assert_eq!(cxl(68, Some(64)).rate().unwrap(), Bandwidth(20_480_000_000));
        assert_eq!(cxl(68, Some(1_000)).rate(), cxl(68, None).rate());
    }

    #[test]
    fn other_flits_are_refused() {
        assert_eq!(cxl(64, None).rate().unwrap_err().message, "a flit of 64 bytes");
    }
}
