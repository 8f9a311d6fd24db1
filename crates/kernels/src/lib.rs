//! Time of a kernel alone on a GPU, from its shape, a data sheet and a few fitted parameters.
//!
//! Here: one file for each kind of kernel, with its shape, its parameters (keys of
//! `npu.kernels.<kind>`) and its formula. Not here: graphs and runs, which time kernels in training
//! (`device::compute`), and platform files (`platform::config`).
//!
//! Formulas use addition, multiplication, division, comparison and square roots alone, whose
//! results are the same on every machine.

pub mod allreduce;
pub mod attention;
mod chip;
pub mod combine;
pub mod dispatch;
mod estimate;
pub mod exchange;
pub mod experts;
pub mod flash;
mod format;
pub mod gemm;
pub mod mla;
mod routing;
pub mod stream;
mod values;

pub use chip::{Chip, Rates, Sheet};
pub use estimate::{Estimate, Refused};
pub use format::Format;

use declared::section;
use serde::Deserialize;
use units::{Bytes, Frequency};

section! {
    /// Kernels of this NPU alone ([kernels](../models/kernels.md)).
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Kernels {
        /// Generation of GPUs whose measured kernels the parameters are fitted to.
        pub generation: String, required "hopper";
        /// Multiprocessors.
        pub multiprocessors: u32, required "132";
        /// Clock of the multiprocessors under load.
        pub clock: Frequency, required "1755 MHz";
        /// Size of the L2 cache.
        pub l2_cache: Bytes, required "50 MB";
        /// Peak rate of products of 8-bit integers, where `compute.peak_by_type` does not hold for
        /// them.
        pub peak_int8: Option<units::Flops>, default None, says "`npu.compute.peak_by_type.fp8`";
        /// Products of matrices.
        pub gemm: Option<gemm::Parameters>, default None;
        /// All-reduces of inference engines.
        pub allreduce: Option<allreduce::Parameters>, default None;
        /// Layers of experts.
        pub experts: Option<experts::Parameters>, default None;
        /// Dispatch of tokens to experts.
        pub dispatch: Option<dispatch::Parameters>, default None;
        /// Combination of the results of experts.
        pub combine: Option<combine::Parameters>, default None;
        /// Streams over memory.
        pub stream: Option<stream::Parameters>, default None;
        /// Attention.
        pub attention: Option<attention::Parameters>, default None;
        /// Multi-head latent attention.
        pub mla: Option<mla::Parameters>, default None;
        /// A file of measured kernels ([measured
        /// tables](../models/kernels.md#measured-tables)), seen from the platform file; with
        /// `--set` from the working directory.
        pub measured: Option<String>, default None, says "formulas alone";
    }
}

/// A kernel, with its shape.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kernel {
    /// A product of two matrices.
    Gemm(gemm::Shape),
    /// An all-reduce of an inference engine.
    Allreduce(allreduce::Shape),
    /// A layer of experts.
    Experts(experts::Shape),
    /// Dispatch of tokens to experts.
    Dispatch(exchange::Shape),
    /// Combination of the results of experts.
    Combine(exchange::Shape),
    /// A stream over memory.
    Stream(stream::Shape),
    /// Attention.
    Attention(attention::Shape),
    /// Multi-head latent attention.
    Mla(mla::Shape),
}

impl Kernel {
    /// Ranks that the kernel's messages reach, its own with them, where these may be on several
    /// nodes.
    pub fn ranks(&self) -> Option<u64> {
        match self {
            Kernel::Dispatch(shape) | Kernel::Combine(shape) => Some(shape.ep),
            _ => None,
        }
    }
}

impl Kernels {
    /// The data sheet of the NPU.
    pub fn sheet(&self) -> Sheet {
        Sheet {
            multiprocessors: self.multiprocessors,
            clock: self.clock,
            l2_cache: self.l2_cache,
            peak_int8: self.peak_int8,
        }
    }

    /// Time of a kernel on the chip, or why there is none.
    pub fn estimate(&self, chip: &Chip, kernel: &Kernel) -> Result<Estimate, Refused> {
        match kernel {
            Kernel::Gemm(shape) => gemm::estimate(chip, fitted(self.gemm.as_ref(), "gemm")?, shape),
            Kernel::Allreduce(shape) => {
                allreduce::estimate(chip, fitted(self.allreduce.as_ref(), "allreduce")?, shape)
            }
            Kernel::Experts(shape) => {
                experts::estimate(chip, fitted(self.experts.as_ref(), "experts")?, shape)
            }
            Kernel::Dispatch(shape) => {
                dispatch::estimate(chip, &fitted(self.dispatch.as_ref(), "dispatch")?, shape)
            }
            Kernel::Combine(shape) => {
                combine::estimate(chip, &fitted(self.combine.as_ref(), "combine")?, shape)
            }
            Kernel::Stream(shape) => {
                stream::estimate(chip, fitted(self.stream.as_ref(), "stream")?, shape)
            }
            Kernel::Attention(shape) => {
                attention::estimate(chip, &fitted(self.attention.as_ref(), "attention")?, shape)
            }
            Kernel::Mla(shape) => mla::estimate(chip, &fitted(self.mla.as_ref(), "mla")?, shape),
        }
    }
}

/// The parameters of a kind, or that the platform lacks them.
fn fitted<T>(parameters: Option<&T>, kind: &str) -> Result<T, Refused>
where
    T: Clone,
{
    parameters.cloned().ok_or_else(|| Refused::lacking(kind))
}
