//! The data sheet of a GPU, as formulas take it.

use crate::{Format, Refused};
use units::{Bandwidth, Bytes, Flops, Frequency};

/// Peak rates that a platform states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Elements of 2 bytes.
    pub usual: Flops,
    /// Elements of 4 bits.
    pub fp4: Option<Flops>,
    /// Elements of 1 byte.
    pub fp8: Option<Flops>,
    /// Elements of 4 bytes.
    pub fp32: Option<Flops>,
}

/// Numbers of a data sheet that kernels alone need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Clock of the multiprocessors.
    pub clock: Frequency,
    /// Size of the L2 cache.
    pub l2_cache: Bytes,
    /// Peak rate of products of 8-bit integers, where it is another than that of 8-bit floats.
    pub peak_int8: Option<Flops>,
}

/// A GPU: numbers of its data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chip {
    /// Multiprocessors.
    pub multiprocessors: f64,
    /// Clock of the multiprocessors, Hz.
    pub clock: f64,
    /// Bandwidth of the memory, bytes a second.
    pub memory: f64,
    /// Size of the L2 cache, bytes.
    pub l2_cache: f64,
    /// Bandwidth to the GPUs of the same node, one direction, bytes a second.
    pub link: f64,
    /// GPUs of a node.
    pub node: f64,
    /// Bandwidth of a GPU to those of other nodes, one direction, bytes a second; nothing in a
    /// platform of one node.
    pub network: Option<f64>,
    rates: Rates,
    int8: Option<Flops>,
}

impl Chip {
    /// The data sheet of a platform's NPU; `link` and `node` are its innermost links and how many
    /// NPUs they join.
    pub fn new(sheet: Sheet, rates: Rates, memory: Bandwidth, link: Bandwidth, node: u32) -> Chip {
        Chip {
            multiprocessors: f64::from(sheet.multiprocessors),
            clock: sheet.clock.0 as f64,
            memory: memory.0 as f64,
            l2_cache: sheet.l2_cache.0 as f64,
            link: link.0 as f64,
            node: f64::from(node),
            network: None,
            rates,
            int8: sheet.peak_int8,
        }
    }

    /// The same GPU with a network between nodes.
    #[must_use]
    pub fn behind(self, network: Option<Bandwidth>) -> Chip {
        Chip { network: network.map(|found| found.0 as f64), ..self }
    }

    /// Peak rate of products whose elements are multiplied in `format`, operations a second.
    pub fn peak(&self, format: Format) -> Result<f64, Refused> {
        let lacking =
            |key: &str| Refused::new(format!("no peak rate of {}: set npu.{key}", format.word()));
        let rate = match format {
            Format::Bf16 | Format::Fp16 => Some(self.rates.usual),
            Format::Fp32 => self.rates.fp32,
            Format::Fp8 | Format::Fp8Block => self.rates.fp8,
            Format::Int8 => self.int8.or(self.rates.fp8),
            Format::Nvfp4 | Format::Mxfp4 => self.rates.fp4,
        };
        let key = match format {
            Format::Int8 => "sheet.peak_int8",
            Format::Nvfp4 | Format::Mxfp4 => "compute.peak_by_type.fp4",
            Format::Fp32 => "compute.peak_by_type.fp32",
            _ => "compute.peak_by_type.fp8",
        };
        rate.map(|rate| rate.0 as f64).ok_or_else(|| lacking(key))
    }
}
