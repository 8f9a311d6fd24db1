//! Inputs on disk, in ASTRA-sim's formats and by our own writer, and the configurations that read
//! them.

use graph::{CollectiveKind, Node, Op, ProgramBuilder, Workload};
use platform::config::astra_sim::{self, AstraSimArgs};
use sim::{BackendKind, Config, Source, Watch};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use units::{Bytes, Span};

/// A folder of its own, removed in the end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a folder among the temporary files.
    ///
    /// # Errors
    /// What the disk says.
    pub fn new(name: &str) -> io::Result<Folder> {
        let path =
            std::env::temp_dir().join(format!("armillary-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind at worst; nothing depends on it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The platform of a generated case.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// Block of each dimension, by ASTRA-sim's name.
    pub blocks: Vec<&'a str>,
    /// Size of each dimension.
    pub sizes: Vec<u32>,
    /// Chunks.
    pub splits: u32,
}

impl Shape<'_> {
    /// Writes `network.yml`, `system.json` and `memory.json`: 50 GB/s, 500 ns, the algorithm that
    /// suits each block.
    ///
    /// # Errors
    /// What the disk says.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let each = |value: &str| vec![value; self.sizes.len()].join(", ");
        let network = format!(
            "topology: [{}]\nnpus_count: {:?}\nbandwidth: [{}]\nlatency: [{}]\n",
            self.blocks.join(", "),
            self.sizes,
            each("50.0"),
            each("500.0")
        );
        let algorithm = |block: &&str| match *block {
            "Ring" => "\"ring\"",
            "FullyConnected" => "\"direct\"",
            _ => "\"halvingDoubling\"",
        };
        let algorithms = self.blocks.iter().map(algorithm).collect::<Vec<_>>().join(", ");
        let kinds = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"];
        let lists =
            kinds.map(|kind| format!("\"{kind}-implementation\": [{algorithms}]")).join(", ");
        let system = format!(
            "{{\"scheduling-policy\": \"LIFO\", \"endpoint-delay\": 10, \"active-chunks-per-dimension\": 1, \
             \"preferred-dataset-splits\": {}, \"collective-optimization\": \"localBWAware\", \"local-mem-bw\": 1600, \
             \"roofline-enabled\": 1, \"peak-perf\": 900, {lists}}}",
            self.splits
        );
        fs::write(folder.join("network.yml"), network)?;
        fs::write(folder.join("system.json"), system)?;
        fs::write(folder.join("memory.json"), "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}")
    }
}

/// One all-reduce of `bytes` on every rank.
pub fn all_reduce(bytes: u64, ranks: u32) -> Workload {
    let op = Op::Collective {
        kind: CollectiveKind::AllReduce,
        bytes: Bytes(bytes),
        slot: 0,
        priority: 0,
        dims: u32::MAX,
        root: 0,
    };
    let mut builder = ProgramBuilder::default();
    builder.push(Node { id: 1, duration: Span::ZERO, op }, "all_reduce", []);
    Workload::uniform(builder.build().expect("one node"), ranks)
}

/// Writes `trace.<rank>.et` of the first `ranks` ranks, and `comm_group.json` when there are
/// groups.
///
/// # Errors
/// What the disk says.
pub fn write_traces(workload: &Workload, ranks: u32, folder: &Path) -> io::Result<()> {
    for rank in 0..ranks {
        let mut file = BufWriter::new(fs::File::create(folder.join(format!("trace.{rank}.et")))?);
        trace::chakra::write_protobuf(workload, rank, &mut file)?;
        file.flush()?;
    }
    if workload.groups.len() > 1 {
        trace::chakra::write_groups(
            workload,
            &mut fs::File::create(folder.join("comm_group.json"))?,
        )?;
    }
    Ok(())
}

/// Reads the files of `folder` as ASTRA-sim's; traces are read when the configuration runs.
///
/// # Panics
/// When a file is wrong: the benchmarks made it, or it is recorded.
pub fn configure(folder: &Path, traces: &str, backend: BackendKind, fold: bool) -> Config {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let groups = folder.join("comm_group.json");
    let args = AstraSimArgs {
        workload: file(traces),
        system: file("system.json"),
        network: file("network.yml"),
        memory: file("memory.json"),
        comm_group: groups.exists().then(|| groups.to_string_lossy().into_owned()),
        ..AstraSimArgs::default()
    };
    let (platform, groups) =
        astra_sim::read(&args).unwrap_or_else(|problems| panic!("{problems:?}"));
    Config {
        workload: Source::Traces(args.workload.into()),
        groups,
        platform,
        backend,
        fold,
        watch: Watch::default(),
    }
}

/// The same configuration with the workload in memory.
pub fn built(config: &Config, workload: Workload) -> Config {
    Config { workload: Source::Built(Box::new(workload)), ..config.clone() }
}

/// Numbers that look random and are the same everywhere (SplitMix64).
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring all-reduce of one chunk among 4: 6 steps of 500 ns, of a quarter of the bytes at 50
    /// GiB/s, 10 ns endpoint delay and the reduction. The peer's figure for its neighbours in size
    /// is in the data; here it is enough that the input runs.
    #[test]
    fn a_written_case_reads_and_runs() {
        let folder = Folder::new("inputs-test").unwrap();
        let shape = Shape { blocks: vec!["Ring", "Switch"], sizes: vec![4, 2], splits: 2 };
        shape.write(folder.path()).unwrap();
        write_traces(&all_reduce(1 << 20, 8), 1, folder.path()).unwrap();
        let config = configure(folder.path(), "trace.0.et", BackendKind::Analytical, false);
        let outcome = sim::run(&config, &mut |_| true).unwrap();
        assert_eq!(outcome.report.ranks, 8);
        assert!(outcome.report.step_time_ns > 6.0 * 500.0);
    }
}
