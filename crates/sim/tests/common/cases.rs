//! The recorded cases under `tests/golden/astra_sim`: parameters, workload and what ASTRA-sim
//! printed.
//!
//! A case becomes the files a user of ASTRA-sim has (traces, system, network, memory, groups) and
//! is read back from them.

use super::scratch::Scratch;
use graph::{
    CollectiveKind, Group, Kernel, Members, Node, Op, Program, ProgramBuilder, RankBinding, Reach,
    Workload,
};
use platform::config::astra_sim::{self, AstraSimArgs};
use serde::Deserialize;
use sim::Error;
use sim::{BackendKind, Config, Outcome, Source, Watch};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use units::{Bytes, Span};

/// `[ranks in a row, finish in ns, exposed communication in ns]`; exposed is missing where it was
/// not recorded.
pub type Stretch = (u32, u64, Option<u64>);

/// One case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    #[serde(rename = "tags")]
    _tags: Vec<String>,
    #[serde(default, rename = "note")]
    _note: String,
    #[serde(rename = "paper_us")]
    _paper_us: Option<f64>,
    network: serde_json::Value,
    system: serde_json::Value,
    memory: serde_json::Value,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    groups: BTreeMap<String, Vec<u32>>,
    /// All ranks read one file, which is named instead of a prefix.
    #[serde(default)]
    one_file: bool,
    programs: Vec<Vec<NodeSpec>>,
    /// Ranks in a row, their program, the names of the groups in its slots.
    ranks: Vec<(u32, u32, Vec<String>)>,
    pub expected: BTreeMap<String, Vec<Stretch>>,
    #[serde(default)]
    pub nothing_to_compare: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeSpec {
    id: u64,
    name: String,
    op: String,
    #[serde(default)]
    after: Vec<u64>,
    #[serde(default)]
    us: u64,
    ops: Option<u64>,
    bytes: Option<u64>,
    #[serde(default)]
    cpu: bool,
    #[serde(default)]
    peer: i32,
    #[serde(default)]
    tag: u32,
    #[serde(default)]
    slot: u32,
    #[serde(default)]
    priority: i32,
    dims: Option<Vec<u32>>,
}

impl NodeSpec {
    fn op(&self) -> Op {
        let bytes = Bytes(self.bytes.unwrap_or(0));
        let kind = CollectiveKind::ALL.into_iter().find(|k| k.name() == self.op);
        match (self.op.as_str(), kind) {
            ("invalid", _) => Op::Invalid,
            ("metadata", _) => Op::Metadata,
            ("load" | "store", _) => Op::Memory {
                store: self.op == "store",
                bytes,
                reach: Reach::Remote,
                tensor: 0,
                slot: None,
            },
            ("compute", _) => Op::Compute {
                operations: self.ops,
                bytes: self.bytes.map(Bytes),
                cpu: self.cpu,
                kernel: Kernel::Other,
            },
            ("send", _) => Op::Send { peer: self.peer.into(), bytes, tag: self.tag },
            ("recv", _) => Op::Recv { peer: self.peer.into(), bytes, tag: self.tag },
            (_, Some(kind)) => {
                let bits = |dims: &Vec<u32>| dims.iter().fold(0, |bits, d| bits | 1 << d);
                let dims = self.dims.as_ref().map_or(u32::MAX, bits);
                Op::Collective {
                    kind,
                    bytes,
                    slot: self.slot,
                    priority: self.priority,
                    dims,
                    root: 0,
                }
            }
            (other, None) => panic!("{other} is not an operation of a golden case"),
        }
    }
}

/// Every case, by family and id.
pub fn all() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/astra_sim");
    let entries = std::fs::read_dir(folder).expect("the golden cases are in the repository");
    let mut files: Vec<_> = entries.map(|e| e.expect("the folder can be listed").path()).collect();
    files.sort();
    files.iter().flat_map(|file| family(file)).collect()
}

fn family(file: &std::path::Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).expect("a golden file can be read");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The backend that answers one of ASTRA-sim's.
pub fn backend(peer: &str) -> BackendKind {
    if peer == "congestion_unaware" { BackendKind::Analytical } else { BackendKind::Link }
}

impl Case {
    /// Number of ranks.
    pub fn npus(&self) -> u32 {
        self.ranks.iter().map(|r| r.0).sum()
    }

    /// The workload, built without any file.
    pub fn workload(&self) -> Workload {
        let everybody = Group { name: "world".into(), members: Members::All };
        let listed = self.groups.iter().map(|(name, ranks)| (name.clone(), ranks.clone()));
        let listed: Vec<(String, Vec<u32>)> = listed.chain(self.unlisted()).collect();
        let index = |name: &String| {
            if name.is_empty() {
                0
            } else {
                1 + listed.iter().position(|g| g.0 == *name).expect("listed") as u32
            }
        };
        let mut workload = Workload {
            programs: self.programs.iter().map(|p| program(p)).collect(),
            ..Workload::default()
        };
        for (count, program, names) in &self.ranks {
            let binding = RankBinding { program: *program, slots: workload.slots.len() as u32 };
            let world = [String::new()];
            let names = if names.is_empty() { &world[..] } else { names };
            workload.slots.extend(names.iter().map(index));
            workload.ranks.extend((0..*count).map(|_| binding));
        }
        let group = |(name, ranks): &(String, Vec<u32>)| Group {
            name: name.clone(),
            members: Members::List(ranks.clone()),
        };
        workload.groups = std::iter::once(everybody).chain(listed.iter().map(group)).collect();
        workload
    }

    /// Groups that a trace names and no file defines: they are written into the traces only.
    fn unlisted(&self) -> impl Iterator<Item = (String, Vec<u32>)> {
        let names = self
            .ranks
            .iter()
            .flat_map(|r| &r.2)
            .filter(|n| !n.is_empty() && !self.groups.contains_key(*n));
        names.map(|name| (name.clone(), Vec::new())).collect::<BTreeMap<_, _>>().into_iter()
    }

    /// Writes every file of the case.
    pub fn write(&self, folder: &Scratch) {
        let workload = self.workload();
        let files = if self.one_file { 1 } else { self.npus() };
        for rank in 0..files {
            let mut trace = Vec::new();
            trace::chakra::write_protobuf(&workload, rank, &mut trace).expect("writing to memory");
            folder.write(&format!("trace.{rank}.et"), trace);
        }
        folder.write("system.json", self.system.to_string());
        folder.write("memory.json", self.memory.to_string());
        // ASTRA-sim's network files are YAML with one flow list a key.
        let lists = self.network.as_object().expect("a mapping").iter();
        folder.write(
            "network.yml",
            lists.map(|(key, list)| format!("{key}: {list}\n")).collect::<String>(),
        );
        if !self.groups.is_empty() {
            folder.write("comm_group.json", serde_json::json!(self.groups).to_string());
        }
    }

    /// Reads what [`Case::write`] wrote, by the flags a user would give.
    pub fn read(&self, folder: &Scratch) -> Result<Config, Error> {
        read_folder(Path::new(&folder.file("")), &self.args, self.one_file)
    }
}

/// Reads a folder of ASTRA-sim's files by ASTRA-sim's own command line; with `one_file` all ranks
/// run `trace.0.et`.
pub fn read_folder(folder: &Path, args: &[String], one_file: bool) -> Result<Config, Error> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut arguments = vec![
        format!("--workload-configuration={}", file("trace")),
        format!("--system-configuration={}", file("system.json")),
        format!("--network-configuration={}", file("network.yml")),
        format!("--remote-memory-configuration={}", file("memory.json")),
    ];
    if folder.join("comm_group.json").is_file() {
        arguments.push(format!("--comm-group-configuration={}", file("comm_group.json")));
    }
    arguments.extend_from_slice(args);
    let args = AstraSimArgs::parse(&arguments)?;
    let (platform, groups) = astra_sim::read(&args)?;
    let path = if one_file { file("trace.0.et") } else { args.workload };
    let workload = Source::Traces(path.into());
    let mut config = Config {
        workload,
        groups,
        platform,
        backend: BackendKind::Analytical,
        fold: false,
        watch: Watch::default(),
    };
    config.workload = Source::Built(Box::new(sim::read(&config)?));
    Ok(config)
}

fn program(nodes: &[NodeSpec]) -> Arc<Program> {
    let mut builder = ProgramBuilder::default();
    for spec in nodes {
        let node = Node { id: spec.id, duration: Span::from_ns(1000 * spec.us), op: spec.op() };
        builder.push(node, &spec.name, spec.after.iter().copied());
    }
    Arc::new(builder.build().expect("a golden program is sound"))
}

/// Finish and exposed communication of every rank in ns.
pub fn times(outcome: &Outcome) -> Vec<(f64, f64)> {
    (0..outcome.report.ranks as u32)
        .map(|r| (outcome.finish(r).as_ns(), outcome.exposed(r).as_ns()))
        .collect()
}

/// The first rank whose times are not the expected ones, in words.
pub fn difference(expected: &[Stretch], got: &[(f64, f64)]) -> Option<String> {
    let wanted = expected
        .iter()
        .flat_map(|&(count, finish, exposed)| (0..count).map(move |_| (finish, exposed)));
    let wanted: Vec<_> = wanted.collect();
    if wanted.len() != got.len() {
        return Some(format!("{} ranks, expected {}", got.len(), wanted.len()));
    }
    let differs = |((finish, exposed), got): (&(u64, Option<u64>), &(f64, f64))| {
        *finish as f64 != got.0 || exposed.is_some_and(|e| e as f64 != got.1)
    };
    let rank = wanted.iter().zip(got).position(differs)?;
    let ((finish, exposed), got) = (wanted[rank], got[rank]);
    let exposed = exposed.map_or("not recorded".to_string(), |e| e.to_string());
    Some(format!(
        "rank {rank}: finish {} and exposed {}, expected {finish} and {exposed}",
        got.0, got.1
    ))
}
