//! Each NPU its own CPU memory, and behind that its own NVMe (ZeRO-Infinity).
//!
//! Model: a pipeline of the tiers; with NVMe, tensors lie there and pass the CPU's memory on their
//! way. Nothing is shared, so every link carries what its NPU accesses. Sources: Rajbhandari et
//! al., ZeRO-Infinity, SC 2021; Won et al., ISPASS 2023, Fig. 10.

use super::{Access, Pipeline, Sharing, Stage, Store, Wire};
use units::Bytes;

/// A tier of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Tier {
    /// From it to the next tier inwards.
    pub wire: Wire,
    /// Bytes that it can hold of one NPU, if known.
    #[serde(rename = "capacity_bytes")]
    pub capacity: Option<Bytes>,
}

/// CPU memory and, behind it, NVMe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Offload {
    /// CPU memory.
    pub cpu: Tier,
    /// NVMe, if tensors lie there.
    pub nvme: Option<Tier>,
    /// Bytes moved at a time between the tiers.
    #[serde(rename = "chunk_bytes")]
    pub chunk: Option<Bytes>,
}

impl Offload {
    pub(super) fn access(&self) -> Access {
        let stage = |name, tier: &Tier| Stage::plain(name, tier.wire.latency, tier.wire.bandwidth);
        let pipeline = |stages| Pipeline::new(stages, self.chunk);
        let near = || stage("CPU memory to NPU", &self.cpu);
        let host = pipeline(vec![near()]);
        let far = |tier| pipeline(vec![stage("NVMe to CPU memory", tier), near()]);
        let disk = self.nvme.as_ref().map(far);
        let store = |name, tier: &Tier| {
            let capacity = tier.capacity.map(|each| each.0.into());
            Store { name, of: Sharing::PerNpu, capacity }
        };
        let stores = std::iter::once(store("CPU memory", &self.cpu))
            .chain(self.nvme.as_ref().map(|tier| store("NVMe", tier)))
            .collect();
        let own = disk.clone().unwrap_or_else(|| host.clone());
        Access { host: Some(host), disk, ..Access::new(Sharing::PerNpu, own, stores) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bandwidth, Span};

    fn tier(gb: u64) -> Tier {
        Tier {
            wire: Wire { latency: Span::ZERO, bandwidth: Bandwidth(gb * 1_000_000_000) },
            capacity: Some(Bytes(50)),
        }
    }

    /// 4 chunks of 1 kB: 40 ns each from NVMe, the last one 10 ns more from the CPU's memory.
    #[test]
    fn nvme_lies_behind_the_cpu() {
        let offload = Offload { cpu: tier(100), nvme: Some(tier(25)), chunk: Some(Bytes(1_000)) };
        let access = offload.access();
        assert_eq!(access.own.span(Bytes(4_000)), Span::from_ns(4 * 40 + 10));
        assert_eq!(access.disk.unwrap().span(Bytes(4_000)), Span::from_ns(4 * 40 + 10));
        assert_eq!(access.host.unwrap().span(Bytes(4_000)), Span::from_ns(40));
        assert_eq!(access.stores.iter().map(|s| s.capacity).collect::<Vec<_>>(), [Some(50); 2]);
        let cpu = Offload { nvme: None, ..offload };
        assert_eq!(cpu.access().own.span(Bytes(4_000)), Span::from_ns(40));
        assert_eq!(cpu.access().disk, None);
    }
}
