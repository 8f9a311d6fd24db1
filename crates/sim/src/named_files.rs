//! Faults of the files that a platform names, before a run needs them.

use crate::backends;
use graph::Problem;
use net_settings::flit::FlitRouting;
use platform::custom_files::{self, Findings};
use platform::{Platform, routes_file};

/// Problems of a platform's algorithms and of its table of routes, whatever a workload calls, and
/// what is not known of them.
pub fn findings(platform: &Platform) -> Findings {
    let mut found = custom_files::findings(platform);
    found.problems.extend(routes(platform).err().into_iter().flatten());
    found
}

fn routes(platform: &Platform) -> Result<(), Vec<Problem>> {
    let routing = platform.network.flit.as_ref().map(|flit| &flit.routing);
    let Some(FlitRouting::Table(file)) = routing else { return Ok(()) };
    let links = backends::one_route(platform).map_err(|problem| vec![problem])?;
    routes_file::read(file, &platform.fabric, &links).map(drop)
}
