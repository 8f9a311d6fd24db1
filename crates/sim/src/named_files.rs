//! What is wrong with the files that a platform names, before a run needs them.

use crate::backends;
use graph::Problem;
use platform::{FlitRouting, Platform, custom_files, routes_file};

/// Problems of a platform's algorithms and of its table of routes, whatever a workload calls.
pub fn problems(platform: &Platform) -> Vec<Problem> {
    let mut problems = custom_files::problems(platform);
    problems.extend(routes(platform).err().into_iter().flatten());
    problems
}

fn routes(platform: &Platform) -> Result<(), Vec<Problem>> {
    let routing = platform.network.flit.as_ref().map(|flit| &flit.routing);
    let Some(FlitRouting::Table { file }) = routing else { return Ok(()) };
    let links = backends::links(platform).map_err(|problem| vec![problem])?;
    routes_file::read(file, &platform.fabric, &links).map(drop)
}
