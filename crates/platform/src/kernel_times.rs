//! Times of single kernels on a platform's NPU: its data sheet, for the formulas of `kernels`.

use crate::platform::Platform;
use device::compute::{Compute, Roofline};
use kernels::{Chip, Estimate, Kernel, Rates, Refused};
use topology::{Fabric, Paths};
use units::Bandwidth;

impl Platform {
    /// Time of a kernel alone on the NPU, or why there is none.
    pub fn kernel(&self, kernel: &Kernel) -> Result<Estimate, Refused> {
        let npu = &self.npu;
        let lacking = |key: &str| Refused::new(format!("the platform has no {key}"));
        let kernels = npu.kernels.as_ref().ok_or_else(|| lacking("npu.kernels"))?;
        let usual = npu.peak.ok_or_else(|| lacking("npu.peak"))?;
        let memory = npu.memory_bandwidth.ok_or_else(|| lacking("npu.memory.bandwidth"))?;
        let [fp4, fp8, fp32] = roofline(&npu.compute).map_or([None; 3], |found| found.widths);
        let rates = Rates { usual, fp4, fp8, fp32 };
        let (node, link) = node(&self.fabric);
        let beyond = kernel.ranks().and_then(|ranks| network(&self.fabric, node, ranks));
        let chip = Chip::new(kernels.sheet(), rates, memory, link, node).behind(beyond);
        kernels.estimate(&chip, kernel)
    }
}

fn roofline(compute: &Compute) -> Option<&Roofline> {
    match compute {
        Compute::Recorded => None,
        Compute::Roofline(roofline) => Some(roofline),
        Compute::Systolic(systolic) => Some(&systolic.rest),
        Compute::Measured(measured) => Some(&measured.rest),
    }
}

/// NPUs of a node, and the bandwidth of one to the others of it together, one way.
fn node(fabric: &Fabric) -> (u32, Bandwidth) {
    match fabric {
        Fabric::Stacked(dims) => {
            let first = &dims[0];
            let others = u64::from(first.size.saturating_sub(1).max(1));
            let ways = if first.block.paths() == Paths::Direct { others } else { 1 };
            (first.size, Bandwidth(first.bandwidth.0.saturating_mul(ways)))
        }
        Fabric::Graph(graph) => {
            let inside = &graph.dims[..graph.machine().0.min(graph.dims.len())];
            (inside.iter().map(|dim| dim.size).product(), graph.machine_bandwidth())
        }
    }
}

/// The least bandwidth of an NPU, one way, along the dimensions beyond its node that `ranks`
/// neighbouring NPUs take; nothing where they are in one node, or where there are fewer.
fn network(fabric: &Fabric, node: u32, ranks: u64) -> Option<Bandwidth> {
    let along: Vec<(u32, Bandwidth)> = match fabric {
        Fabric::Stacked(dims) => dims.iter().skip(1).map(|dim| (dim.size, dim.bandwidth)).collect(),
        Fabric::Graph(graph) => {
            let inside = graph.machine().0;
            let reach = graph.reach().iter().skip(inside);
            graph
                .dims
                .iter()
                .skip(inside)
                .zip(reach)
                .map(|(dim, at)| (dim.size, at.share))
                .collect()
        }
    };
    let (mut reached, mut least) = (u64::from(node), None);
    for (size, bandwidth) in along {
        if reached >= ranks {
            break;
        }
        reached *= u64::from(size);
        least = Some(least.map_or(bandwidth, |found: Bandwidth| found.min(bandwidth)));
    }
    least.filter(|_| reached >= ranks)
}
