//! ASTRA-sim's own files and flags, read as that simulator reads them.
//!
//! Units are the peer's: network GB/s of 2^30 bytes, `local-mem-bw` and remote memory GB/s of 1e9,
//! latencies in ns, peak in TFLOP/s. The raw numbers are kept in [`AstraSimParameters`]; the
//! platform's integers are the nearest they can be. Keys the peer does not know are ignored with a
//! warning, as it ignores them; what it would crash or hang on is a problem. Files of version 1.0
//! are recognised by their content ([`one`]).

mod args;
mod groups;
mod memory;
mod network;
pub mod one;
mod syntax;
mod system;
#[cfg(test)]
mod tests;

use super::file;
use super::file::Load;
use crate::config::native::network::Network;
use crate::platform::{Like, Measured, Platform};
use crate::profile::{AstraSimParameters, Profile};
pub use args::AstraSimArgs;
use declared::ByDim;
use declared::findings::Findings;
use graph::Problem;
use topology::Routing;
use units::Span;

/// A platform and communicator groups (name, ranks in ring order) as ASTRA-sim's files give them.
pub type AstraSimInputs = (Platform, Vec<(String, Vec<u32>)>);

/// Reads a communicator group file by itself: names and ranks in ring order. `npus` bounds the
/// ranks.
///
/// # Errors
/// Every fault of the file.
pub fn groups(path: &str, npus: Option<u32>) -> Result<Vec<(String, Vec<u32>)>, Vec<Problem>> {
    let mut all = Findings::new("");
    groups::read(Some(path), npus, &file::disk, &mut all).ok_or(all.problems)
}

/// Reads every file the arguments name; the workload itself is the trace reader's business.
///
/// # Errors
/// Every fault of every file.
pub fn read(args: &AstraSimArgs) -> Result<AstraSimInputs, Vec<Problem>> {
    read_from(args, &file::disk)
}

/// [`read`] with the files from somewhere else than the disk.
///
/// # Errors
/// Every fault of every file.
pub fn read_from(args: &AstraSimArgs, load: &Load<'_>) -> Result<AstraSimInputs, Vec<Problem>> {
    if one::is_first(&args.network, &args.system, load) {
        return first_version(args, load);
    }
    let mut all = Findings::new("");
    if args.memory.is_empty() {
        all.problems.push(args::missing("remote-memory-configuration"));
    }
    let network = network::read(&args.network, load, &mut all);
    let npus = network.as_ref().map(|n| n.fabric.npus());
    let dims = network.as_ref().map(|n| n.latency.len());
    let system = system::read(args, dims, load, &mut all);
    let memory = match args.memory.is_empty() {
        false => memory::read(&args.memory, npus, load, &mut all),
        true => None,
    };
    let groups = groups::read(args.comm_group.as_deref(), npus, load, &mut all);
    let logical = groups::logical(args.logical_topology.as_deref(), npus, load, &mut all);
    if let (Some(network), Some(system), Some(memory), Some(groups), Some(logical), true) =
        (network, system, memory, groups, logical, all.problems.is_empty())
    {
        let raw = AstraSimParameters {
            bandwidth: network.bandwidth,
            latency: network.latency,
            remote_latency: memory.as_ref().map_or(0, |m| m.latency),
            remote_bandwidth: memory.as_ref().map_or(0, |m| m.bandwidth),
            ..system.raw
        };
        let platform = Platform {
            name: network.name,
            source: format!("{}, {}", args.network, args.system),
            measured: Measured::NotSaid,
            fabric: network.fabric,
            network: Network { routing: Routing::Lowest, ..Network::default() },
            logical,
            npu: system.npu,
            remote_memory: memory.map(|m| m.memory),
            collectives: system.collectives,
            library: None,
            scheduler: system.scheduler,
            custom_paths: system.custom_paths,
            profile: Profile::AstraSim(Box::new(raw)),
            warnings: all.warnings,
            like: Like::default(),
        };
        return Ok((platform, groups));
    }
    Err(all.problems)
}

/// Files of version 1.0, which are run natively.
fn first_version(args: &AstraSimArgs, load: &Load<'_>) -> Result<AstraSimInputs, Vec<Problem>> {
    let mut platform = one::platform(&args.network, &args.system, load)?;
    let delay = platform.scheduler.endpoint_delay.0 as f64 * args.injection_scale;
    platform.scheduler.endpoint_delay = Span(delay as u64);
    platform.scheduler.rendezvous = args.rendezvous;
    if args.num_queues_per_dim > 1 {
        platform.scheduler.queues_per_dim = ByDim::All(args.num_queues_per_dim);
    }
    let mut all = Findings::new("");
    let npus = Some(platform.fabric.npus());
    let groups = groups::read(args.comm_group.as_deref(), npus, load, &mut all);
    platform.logical =
        groups::logical(args.logical_topology.as_deref(), npus, load, &mut all).unwrap_or_default();
    platform.warnings.extend(args.ignored());
    if !args.memory.is_empty() {
        let text = "--remote-memory-configuration has no effect: ASTRA-sim 1.0 has no memory";
        platform.warnings.push(text.into());
    }
    match groups {
        Some(groups) if all.problems.is_empty() => Ok((platform, groups)),
        _ => Err(all.problems),
    }
}
