//! What the executor is told: the platform's choices, in the terms of its profile.

use crate::astra_sim::AstraSimLowering;
use crate::compute;
use crate::executor::{Lowering, Settings};
use crate::memory;
use crate::native::NativeLowering;
use crate::platform::{Launch, Platform};
use graph::Workload;
use trace::chakra::ReadOptions;

/// How forgiving the trace reader is.
pub fn read_options(platform: &Platform) -> ReadOptions {
    ReadOptions { replay: platform.scheduler.replay_only }
}

/// The lowering of the platform's profile.
pub fn lowering(platform: &Platform) -> Box<dyn Lowering + '_> {
    match &platform.astra_sim {
        Some(parameters) => Box::new(AstraSimLowering::new(platform, parameters, platform.sizes())),
        None => Box::new(NativeLowering::new(platform, platform.sizes())),
    }
}

/// The executor's settings.
pub fn settings(platform: &Platform, workload: &Workload) -> Settings {
    let scheduler = &platform.scheduler;
    let peer = platform.astra_sim.as_ref();
    Settings {
        ranks: workload.ranks.len() as u32,
        sizes: platform.sizes(),
        aligned_groups: peer.is_none(),
        custom_nodes: platform.collectives.custom_nodes.keys().copied().collect(),
        queues_per_dim: scheduler.queues().0,
        per_queue: scheduler.queues().1,
        comm_streams: if peer.is_some() { 1 } else { scheduler.comm_streams },
        memory_is_communication: peer.is_some(),
        policy: scheduler.policy,
        rendezvous: scheduler.rendezvous,
        replay_only: scheduler.replay_only,
        match_bytes: peer.is_some(),
        canonical: peer.is_none(),
        contention_free: false,
        departures_only: false,
        closed_form: true,
        local_memory: platform.npu.memory_bandwidth,
        remote_memory: memory::sharing(platform),
        spill: memory::spill(platform),
        memory_limit: platform
            .npu
            .memory_capacity
            .map(|capacity| (capacity, platform.npu.memory_exceeded)),
        resident: memory::resident(workload),
        durations: compute::durations(workload, platform),
        launch: if platform.scheduler.replay_only {
            Launch::default()
        } else {
            platform.npu.launch
        },
        beside: compute::beside(workload, platform),
    }
}
