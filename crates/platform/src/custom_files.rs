//! Collective algorithms from files, loaded for the kinds and nodes a workload calls.

use crate::platform::{CustomAlgorithm, Platform};
use collective::custom::Custom;
use graph::{CollectiveKind, Op, Problem, Workload};
use std::path::Path;
use std::sync::Arc;
use trace::chakra::ReadOptions;

/// The platform with the algorithms its paths name, as far as `workload` needs them; and what is
/// wrong with the files that cannot be read or hold no algorithm that can run.
pub fn load(platform: &Platform, workload: &Workload) -> (Platform, Vec<Problem>) {
    let mut loaded = platform.clone();
    let mut problems = Vec::new();
    let nodes = || workload.programs.iter().flat_map(|p| p.nodes());
    for (kind, path) in platform.custom_paths.kinds.iter().enumerate() {
        let Some(path) = path else { continue };
        if nodes().any(|n| matches!(n.op, Op::Collective { kind: k, .. } if k as usize == kind)) {
            loaded.collectives.custom[kind] = keep(read(path), &mut problems);
        }
    }
    for (&id, path) in &platform.custom_paths.nodes {
        if nodes().any(|n| n.id == id) {
            let algorithm = keep(read(path), &mut problems);
            loaded.collectives.custom_nodes.extend(algorithm.map(|a| (id, a)));
        }
    }
    (loaded, problems)
}

/// What is wrong with the algorithms that a platform names, whatever a workload calls: files that
/// can't be read, and those of another kind than they are for.
pub fn problems(platform: &Platform) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (kind, path) in CollectiveKind::ALL.into_iter().zip(&platform.custom_paths.kinds) {
        let Some(path) = path else { continue };
        match keep(read(path), &mut problems) {
            Some(CustomAlgorithm::Msccl(found)) if found.kind.is_some_and(|k| k != kind) => {
                let text = format!("{} is not an algorithm for {}", found.name, kind.name());
                problems.push(
                    Problem::new(path, "", text)
                        .help(format!("coll=\"{}\"", kind.name().replace('_', ""))),
                );
            }
            _ => {}
        }
    }
    for path in platform.custom_paths.nodes.values() {
        keep(read(path), &mut problems);
    }
    problems
}

fn keep(
    result: Result<CustomAlgorithm, Vec<Problem>>,
    problems: &mut Vec<Problem>,
) -> Option<CustomAlgorithm> {
    result.map_err(|found| problems.extend(found)).ok()
}

/// MSCCL XML by its ending, Chakra otherwise.
fn read(path: &str) -> Result<CustomAlgorithm, Vec<Problem>> {
    if path.ends_with(".xml") {
        return trace::msccl::read(Path::new(path)).map(|a| CustomAlgorithm::Msccl(Arc::new(a)));
    }
    let positions = trace::custom::read(Path::new(path), None, &ReadOptions::default())?;
    let custom = Custom { name: path.to_string(), positions };
    let problems = custom.check();
    if problems.is_empty() { Ok(CustomAlgorithm::Chakra(Arc::new(custom))) } else { Err(problems) }
}
