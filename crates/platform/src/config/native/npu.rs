//! `npu`: its compute, its launches and its memory.

use super::compute::{self, Compute, Given, Places};
use crate::config::file;
use crate::platform::{self, Exceeded, Launch};
use declared::findings::{At, Findings};
use declared::tree::Origin;
use declared::{Tried, absent, section};
use kernels::Kernels;
use std::path::{Component, Path};
use units::{Bandwidth, Bytes, Flops, Span};

section! {
    /// The NPU.
    #[derive(Clone, Debug)]
    pub(super) struct Npu {
        /// Name for people.
        pub name: String, default "NPU".into(), says "`NPU`";
        /// How long compute nodes take: a word, or a mapping ([compute](../models/compute.md)).
        pub compute: Tried<Compute>, default Tried::Absent,
            says "`roofline` if `peak` is given, else `recorded`";
        /// Peak floating-point rate.
        pub peak: Tried<Flops>, default Tried::Absent;
        /// Time that the host needs to launch a kernel, a collective or a send: one time, or a
        /// mapping ([launches](../models/compute.md#launches)).
        pub launch: Launch, default Launch::default();
        /// The NPU's own memory ([memory](../models/memory.md)).
        pub memory: Own, default Own::default(), says "never limits";
        /// Kernels of the NPU by themselves, as `armillary kernel` times them
        /// ([kernels](../models/kernels.md)).
        pub kernels: Option<Kernels>, default None, says "`armillary kernel` has no answer";
    }
}

section! {
    /// `npu.memory`.
    #[derive(Clone, Debug, Default)]
    pub(super) struct Own {
        /// Bandwidth of the NPU's memory. Without it memory never limits, and reductions cost
        /// nothing.
        pub bandwidth: Option<Bandwidth>, default None;
        /// Latency of the NPU's own memory: of every load and store that stays there, and of every
        /// kernel that moves bytes, except measured ones.
        pub latency: Span, default Span::ZERO;
        /// Size of the NPU's memory ([what an NPU holds](../models/memory.md#what-an-npu-holds)).
        pub capacity: Option<Bytes>, default None;
        /// Behaviour where an NPU holds more than its memory.
        pub on_overflow: Exceeded, default Exceeded::Warn, was ["exceeded"];
        /// While their NPU communicates, kernels have the bandwidth that communication leaves.
        pub contention: bool, default false;
    }
}

/// The NPU of the keys at `at`, or nothing and at least one problem.
pub(super) fn resolve(
    keys: Tried<Npu>,
    at: Option<&At<'_>>,
    findings: &mut Findings,
) -> Option<platform::Npu> {
    let Npu { name, compute, peak, launch, memory, kernels } = keys.or(absent)?;
    // A peak that is wrong is one problem. That compute has none would be another.
    let stand_in = peak.is_given().then_some(Flops(1));
    let peak = peak.value();
    let given =
        Given { peak: peak.or(stand_in), memory: memory.bandwidth, latency: memory.latency };
    let compute_at = at.and_then(|at| at.get(Npu::compute));
    let places = Places { npu: at, compute: compute_at.as_ref() };
    let read = compute::resolve(compute, given, places, findings)?;
    let kernels = kernels.map(|kernels| located(kernels, at, findings));
    Some(platform::Npu {
        name,
        compute: read.compute,
        compute_scale: read.speedup,
        comm_overlap_slowdown: read.slowdown,
        fitted_on: read.fitted_on,
        peak,
        launch,
        memory_bandwidth: memory.bandwidth,
        memory_latency: memory.latency,
        memory_capacity: memory.capacity,
        memory_on_overflow: memory.on_overflow,
        memory_contention: memory.contention,
        kernels,
    })
}

/// The kernels with the whole path of their file of measured ones, which is read when a kernel is
/// timed. A relative path leads to a file in or below the folder of the platform file.
fn located(kernels: Kernels, npu: Option<&At<'_>>, findings: &mut Findings) -> Kernels {
    let at = npu.and_then(|at| at.get(Npu::kernels)).and_then(|at| at.get(Kernels::measured));
    let Some(at) = at else { return kernels };
    let measured = kernels.measured.as_deref().and_then(|name| {
        let path = Path::new(name);
        let leaves = path.components().any(|part| part == Component::ParentDir);
        if path.is_relative() && leaves && matches!(at.tree.origin, Origin::Line { .. }) {
            let allowed = "the path of a file next to the platform file, or a whole path";
            findings.refuse(&at, format!("\"{name}\" leads out of its folder"), allowed);
            return None;
        }
        Some(file::whole(&file::place(&at, name, findings)))
    });
    Kernels { measured, ..kernels }
}

/// The keys that read back to an NPU.
pub(super) fn keys(npu: &platform::Npu) -> Npu {
    Npu {
        name: npu.name.clone(),
        compute: Tried::Read(compute::keys(npu)),
        peak: npu.peak.into(),
        launch: npu.launch,
        memory: Own {
            bandwidth: npu.memory_bandwidth,
            latency: npu.memory_latency,
            capacity: npu.memory_capacity,
            on_overflow: npu.memory_on_overflow,
            contention: npu.memory_contention,
        },
        kernels: npu.kernels.clone(),
    }
}
