//! Names of ranks by the generator of a workload: `stage 3`.
//!
//! The names of the classes of its summary, which are in the order of programs, each for a number of
//! programs that follow each other.

use graph::{Mesh, Workload};
use serde::Deserialize;

/// See the module.
pub(crate) struct Labels<'a> {
    workload: &'a Workload,
    mesh: Option<&'a Mesh>,
    names: Vec<String>,
    /// Programs that share a name.
    alike: usize,
}

#[derive(Deserialize)]
struct Summary {
    classes: Vec<Class>,
}

#[derive(Deserialize)]
struct Class {
    name: String,
}

impl Labels<'_> {
    pub(crate) fn of_workload(workload: &Workload) -> Labels<'_> {
        let declaration = workload.declaration.as_deref();
        let summary =
            declaration.and_then(|d| serde_json::from_str::<Summary>(d.summary.as_deref()?).ok());
        let names: Vec<String> = summary
            .map_or_else(Vec::new, |s| s.classes.into_iter().map(|class| class.name).collect());
        let mesh = declaration.and_then(|declaration| declaration.mesh.as_ref());
        let programs = mesh.map_or(workload.programs.len(), Mesh::points);
        let fits = !names.is_empty() && programs.is_multiple_of(names.len());
        let alike = if fits { programs / names.len() } else { 0 };
        Labels { workload, mesh, names, alike }
    }

    /// The name of a rank's class; empty where it has none.
    pub(crate) fn of(&self, rank: u32) -> String {
        let program = self
            .mesh
            .map_or(self.workload.ranks[rank as usize].program as usize, |mesh| mesh.point(rank));
        program
            .checked_div(self.alike)
            .and_then(|class| self.names.get(class))
            .cloned()
            .unwrap_or_default()
    }
}
