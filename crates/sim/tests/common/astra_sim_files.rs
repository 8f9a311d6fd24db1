//! Sound files of ASTRA-sim, to be spoiled.

use super::refusals::run_and_check;
use super::scratch::Scratch;
use super::wire::{COLLECTIVE, COMPUTE, node, trace};
use platform::config::astra_sim::{self, AstraSimArgs};
use sim::{BackendKind, Config, Error, Outcome, Source, Watch};

pub const SYSTEM: &str = r#"{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
"preferred-dataset-splits": 4, "collective-optimization": "localBWAware", "local-mem-bw": 1600,
"all-reduce-implementation": ["ring"]}"#;
pub const NETWORK: &str = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]  # ns\n";

pub fn all_reduce(id: u64, bytes: i64) -> Vec<u8> {
    node(id, COLLECTIVE, &[], 0, &[("comm_type", 0), ("comm_size", bytes)])
}

pub fn compute(id: u64, deps: &[u64]) -> Vec<u8> {
    node(id, COMPUTE, deps, 1, &[("is_cpu_op", 0)])
}

/// The files of a run; sound until a test spoils one.
pub struct Files {
    pub traces: Vec<Option<Vec<u8>>>,
    pub system: Option<String>,
    pub network: Option<String>,
    pub memory: Option<String>,
    pub groups: Option<String>,
    pub args: Vec<String>,
}

impl Files {
    pub fn sound() -> Files {
        Files {
            traces: vec![Some(trace(&[all_reduce(0, 1 << 20)])); 4],
            system: Some(SYSTEM.into()),
            network: Some(NETWORK.into()),
            memory: Some(r#"{"memory-type": "NO_MEMORY_EXPANSION"}"#.into()),
            groups: None,
            args: Vec::new(),
        }
    }

    pub fn run(&self, folder: &Scratch) -> Result<Outcome, Error> {
        run_and_check(&self.config(folder)?)
    }

    pub fn config(&self, folder: &Scratch) -> Result<Config, Error> {
        for (rank, bytes) in self.traces.iter().enumerate() {
            bytes.iter().for_each(|bytes| drop(folder.write(&format!("trace.{rank}.et"), bytes)));
        }
        let named = [
            ("system.json", &self.system),
            ("network.yml", &self.network),
            ("memory.json", &self.memory),
        ];
        for (name, text) in named.into_iter().chain([("groups.json", &self.groups)]) {
            text.iter().for_each(|text| drop(folder.write(name, text)));
        }
        let mut flags = vec![
            format!("--workload-configuration={}", folder.file("trace")),
            format!("--system-configuration={}", folder.file("system.json")),
            format!("--network-configuration={}", folder.file("network.yml")),
            format!("--remote-memory-configuration={}", folder.file("memory.json")),
        ];
        flags.extend(
            self.groups
                .iter()
                .map(|_| format!("--comm-group-configuration={}", folder.file("groups.json"))),
        );
        flags.extend(self.args.iter().cloned());
        let args = AstraSimArgs::parse(&flags)?;
        let (platform, groups) = astra_sim::read(&args)?;
        let workload = Source::Traces(args.workload.into());
        Ok(Config {
            workload,
            groups,
            platform,
            backend: BackendKind::Analytical,
            fold: true,
            watch: Watch::default(),
        })
    }
}
