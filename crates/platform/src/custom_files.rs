//! Collective algorithms from files, loaded for the kinds and nodes a workload calls.

use crate::platform::{CustomAlgorithm, Platform};
use collective::custom::Custom;
use graph::{CollectiveKind, Op, Problem, Workload};
use std::path::Path;
use std::sync::Arc;
use trace::chakra::ReadOptions;
use trace::msccl::{Algorithm, Proof};

/// The platform with the algorithms its paths name, as far as `workload` needs them; and what is
/// wrong with the files that cannot be read or hold no algorithm that can run. What is not known of
/// them is among the platform's warnings.
pub fn load(platform: &Platform, workload: &Workload) -> (Platform, Vec<Problem>) {
    let mut loaded = platform.clone();
    let mut found = Findings::default();
    let nodes = || workload.bodies().flat_map(|p| p.nodes());
    for (kind, path) in CollectiveKind::ALL.into_iter().zip(&platform.custom_paths.kinds) {
        let Some(path) = path else { continue };
        if nodes().any(|n| matches!(n.op, Op::Collective { kind: k, .. } if k == kind)) {
            loaded.collectives.custom[kind as usize] = found.read(path, Some(kind));
        }
    }
    for (&id, path) in &platform.custom_paths.nodes {
        let called = nodes().find(|n| n.id == id).map(|n| match n.op {
            Op::Collective { kind, .. } => Some(kind),
            _ => None,
        });
        if let Some(kind) = called {
            let algorithm = found.read(path, kind);
            loaded.collectives.custom_nodes.extend(algorithm.map(|a| (id, a)));
        }
    }
    loaded.warnings.extend(found.warnings);
    (loaded, found.problems)
}

/// Faults of the algorithms that a platform names, whatever a workload calls: files that can't be
/// read, those of another kind than they are for, and those that compute something else.
pub fn findings(platform: &Platform) -> Findings {
    let mut found = Findings::default();
    for (kind, path) in CollectiveKind::ALL.into_iter().zip(&platform.custom_paths.kinds) {
        let Some(path) = path else { continue };
        found.read(path, Some(kind));
    }
    for path in platform.custom_paths.nodes.values() {
        found.read(path, None);
    }
    found
}

/// Findings from reading algorithms.
#[derive(Debug, Default)]
pub struct Findings {
    /// Faults of the files.
    pub problems: Vec<Problem>,
    /// Unknown properties of the files.
    pub warnings: Vec<String>,
}

impl Findings {
    /// The algorithm in a file for a collective, if that is known.
    fn read(&mut self, path: &str, kind: Option<CollectiveKind>) -> Option<CustomAlgorithm> {
        let algorithm = read(path).map_err(|found| self.problems.extend(found)).ok()?;
        match &algorithm {
            CustomAlgorithm::Msccl(found) => self.prove(path, found, kind),
            CustomAlgorithm::Chakra(found) => self.look(path, found, kind),
        }
        Some(algorithm)
    }

    /// MSCCL says what each step does with which chunk.
    fn prove(&mut self, path: &str, found: &Algorithm, kind: Option<CollectiveKind>) {
        if let Some((wanted, given)) =
            kind.zip(found.kind).filter(|(wanted, given)| wanted != given)
        {
            let text = format!("{} is an algorithm for {}", found.name, given.name());
            let help = format!("coll=\"{}\"", wanted.name().replace('_', ""));
            self.problems.push(Problem::new(path, "", text).help(help));
            return;
        }
        match found.proof() {
            Proof::Holds => {}
            Proof::Fails(text) => self.refuse(path, found.kind, text),
            Proof::Unknown(why) => self.warn(path, &why),
        }
    }

    /// Chakra files name the sender and the receiver.
    fn look(&mut self, path: &str, found: &Custom, kind: Option<CollectiveKind>) {
        match kind.and_then(|kind| found.unheard(kind)) {
            Some(text) => self.refuse(path, kind, text),
            None => self.warn(path, "a Chakra file does not say which data a message carries"),
        }
    }

    fn refuse(&mut self, path: &str, kind: Option<CollectiveKind>, text: String) {
        let name = kind.map_or("collective", CollectiveKind::name);
        self.problems
            .push(Problem::new(path, "", text).help(format!("an algorithm that does the {name}")));
    }

    fn warn(&mut self, path: &str, why: &str) {
        self.warnings.push(format!("{path}: the result of this algorithm was not checked: {why}"));
    }
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
