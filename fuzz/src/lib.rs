//! Targets of the fuzzer: one function for each reader, each true when the reader accepted the
//! bytes.
//!
//! A crash is a panic (overflow and debug assertions are on), more than [`LIMIT`] of CPU time for
//! one input, or more memory than the address space `.ci/fuzz` allows. What a reader takes must
//! also survive the next stage: the checks across ranks for traces, printing and reading again for
//! platforms and text workloads, expansion for custom collectives. Not here: mutation, coverage and
//! the corpus (libFuzzer), seeds (`bin/seeds.rs`).

use cpu_time::ThreadTime;
use flate2::{Compression, write::GzEncoder};
use graph::{CollectiveKind, Kernel, Node, Op, ProgramBuilder, Workload};
use platform::config::{astra_sim as peer, native};
use sim::{BackendKind, Config, Source, Watch, run};
use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace::chakra::{self, ReadOptions};
use units::{Bytes, Span};

/// CPU time one input may take.
const LIMIT: Duration = Duration::from_secs(1);
/// Between the files of one input for [`astra_sim`]: network, system, memory, groups, logical
/// topology.
pub const CUT: &str = "\n=====\n";

/// Inputs taken and refused, printed when the fuzzer's main thread ends; its files go then, too.
struct Outcomes {
    taken: Cell<u64>,
    refused: Cell<u64>,
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        eprintln!("outcomes: {} taken, {} refused", self.taken.get(), self.refused.get());
        for name in ["archive", "custom"] {
            // Most targets have no such file.
            let _ = std::fs::remove_file(scratch(name));
        }
    }
}

thread_local! {
    static OUTCOMES: Outcomes = const { Outcomes { taken: Cell::new(0), refused: Cell::new(0) } };
}

/// Runs `reader` on `data`, counts the outcome and watches the clock.
pub fn watched(data: &[u8], reader: fn(&[u8]) -> bool) {
    let start = ThreadTime::now();
    let taken = reader(data);
    let spent = start.elapsed();
    assert!(spent <= LIMIT, "{} bytes took {spent:?}", data.len());
    OUTCOMES.with(|all| {
        let counter = if taken { &all.taken } else { &all.refused };
        counter.set(counter.get() + 1);
    });
}

/// Every way to read a trace, by the size of the input, so that an input always means the same.
fn options(data: &[u8]) -> ReadOptions {
    ReadOptions { replay: data.len() & 1 != 0 }
}

fn decode(data: &[u8]) -> bool {
    chakra::decode(data, "trace.3.et", 3, &options(data)).is_ok()
}

/// Chakra protobuf of every schema.
pub fn trace_protobuf(data: &[u8]) -> bool {
    decode(data)
}

/// Chakra JSON of both kinds.
pub fn trace_json(data: &[u8]) -> bool {
    decode(data)
}

/// Archives and compressed traces from disk, to a checked workload. The first byte says how the
/// rest is wrapped, because a mutated checksum would end every gzip stream: bit 0 in gzip, bit 1 in
/// a tar archive of two ranks, neither: as it is.
pub fn trace_archive(data: &[u8]) -> bool {
    let Some((&how, rest)) = data.split_first() else {
        return false;
    };
    let tarred = if how & 2 != 0 { archive(rest) } else { rest.to_vec() };
    let bytes = if how & 1 != 0 { gzip(&tarred) } else { tarred };
    let path = scratch("archive");
    put(&path, &bytes);
    let npus = if how & 4 != 0 { Some(2) } else { None };
    let groups = [("tensor".to_string(), vec![0, 1])];
    let Ok(workload) = chakra::read(&path, npus, &groups, &options(data)) else {
        return false;
    };
    graph::check(&workload, workload.ranks.len() as u32);
    true
}

/// The input cut in two halves as the traces of ranks 0 and 1.
fn archive(data: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (rank, half) in [&data[..data.len() / 2], &data[data.len() / 2..]].into_iter().enumerate() {
        let mut header = tar::Header::new_gnu();
        header.set_size(half.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, format!("trace.{rank}.et"), half).expect("into memory");
    }
    builder.into_inner().expect("into memory")
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).expect("into memory");
    encoder.finish().expect("into memory")
}

/// Lines of click logs, by a recipe that the size of the input chooses. What is taken has a sample
/// for each line, and is the same when it is read in three pieces; a fault is in a line that exists.
pub fn clicks(data: &[u8]) -> bool {
    let lines = data.split(|byte| *byte == b'\n').count() - usize::from(data.ends_with(b"\n"));
    let lines = if data.is_empty() { 0 } else { lines };
    let recipe = recipe(data.len());
    let whole = match ingest::parse::<i64>(data, &recipe) {
        Ok(whole) => whole,
        Err(faults) => {
            assert!(!faults.is_empty() && faults.iter().all(|fault| fault.line < lines));
            return false;
        }
    };
    assert_eq!(whole.len(), lines);
    let several = recipe.categories.len() * lines;
    assert!(whole.lengths.is_empty() || whole.lengths.len() == several);
    let (mut labels, mut dense, mut values) = (Vec::new(), Vec::new(), 0);
    for piece in ingest::pieces(data, 3) {
        let part = ingest::parse::<i64>(piece, &recipe).expect("its lines were read");
        labels.extend(part.labels);
        dense.extend(part.dense.iter().map(|value| value.to_bits()));
        values += part.indices.len();
    }
    let bits: Vec<u32> = whole.dense.iter().map(|value| value.to_bits()).collect();
    assert_eq!((labels, dense, values), (whole.labels, bits, whole.indices.len()));
    true
}

/// A label, two numbers and three categories, which may have several values.
fn recipe(size: usize) -> ingest::Recipe {
    use ingest::{Category, Dense, Field, Kind, Missing, Numbers};
    let category = |name, kind, rows| Category { rows, ..Category::new(name, kind) };
    let mut words = category("words", Kind::Text, Some(1000));
    if size & 1 != 0 {
        (words.between, words.missing) = (Some(b','), Missing::Skip);
    }
    let whole = Dense::new("whole", Numbers::Whole, 0.0).clip(0.0, 1e6).log(1.0);
    ingest::Recipe {
        separator: if size & 2 == 0 { b'\t' } else { b';' },
        fields: vec![
            Field::Label,
            Field::Dense(0),
            Field::Dense(1),
            Field::Category(0),
            Field::Skip,
            Field::Category(1),
            Field::Category(2),
        ],
        dense: vec![whole, Dense::new("decimal", Numbers::Decimal, -1.0).normalize(0.5, 2.0)],
        categories: vec![
            category("hex", Kind::Hexadecimal, Some(7)),
            Category { hash: Some(3), ..category("number", Kind::Whole, Some(1 << 40)) },
            words,
        ],
    }
}

/// One file, used again for every input; in memory where the system has such a folder.
fn scratch(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    folder.join(format!("armillary-fuzz-{}-{name}", std::process::id()))
}

fn put(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("the temporary folder can be written");
}

/// Text workloads. What is taken is printed and read again, and must be the same; laid out for
/// eight NPUs it passes the checks across ranks and is recognised as layers again.
pub fn text(data: &[u8]) -> bool {
    let Ok(layers) = trace::text::parse(data, "workload.txt") else {
        return false;
    };
    assert_eq!(
        trace::text::parse(layers.to_string().as_bytes(), "workload.txt"),
        Ok(layers.clone())
    );
    let passes = 1 + data.len() as u32 % 3;
    let Ok(workload) = layers.workload(passes, Some(&[2, 4]), "workload.txt") else {
        return false;
    };
    if !workload.program(0).nodes().is_empty() {
        assert_eq!(graph::check(&workload, 8), []);
        // Groups of experts have no words outside of SimAI's dialect, which is read only.
        if !matches!(layers.parallelism, trace::text::Parallelism::SimAi(_)) {
            let recovered = trace::text::recover(&workload, None, &|node| node.duration);
            assert!(recovered.is_ok(), "{recovered:?}\n{layers}");
        }
    }
    true
}

/// MSCCL XML, expanded for a size.
pub fn msccl(data: &[u8]) -> bool {
    let Ok(algorithm) = trace::msccl::parse(data, "algorithm.xml") else {
        return false;
    };
    let positions =
        algorithm.programs(Bytes(1 << 20)).into_iter().map(std::sync::Arc::new).collect();
    collective::custom::Custom { name: "fuzz".into(), positions }.check().is_empty()
}

/// A custom collective as one Chakra file that every position runs.
pub fn custom(data: &[u8]) -> bool {
    let path = scratch("custom");
    put(&path, data);
    let positions = Some(1 + data.len() as u32 % 4);
    let Ok(positions) = trace::custom::read(&path, positions, &options(data)) else {
        return false;
    };
    collective::custom::Custom { name: "fuzz".into(), positions }.check().is_empty()
}

/// Native platform files. What is taken is printed and read again, and must be the same.
pub fn platform(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(platform) = native::from_yaml(text, "platform.yml", &[]) else {
        return false;
    };
    let printed = native::to_yaml(&platform);
    let again = native::from_yaml(&printed, "platform.yml", &[]);
    match again {
        Ok(again) => assert_eq!(again, platform, "printed and read again:\n{printed}"),
        Err(problems) => panic!("{problems:?}\nprinted:\n{printed}"),
    }
    true
}

/// ASTRA-sim's files, cut at [`CUT`]; a part that is missing is a file that is missing.
pub fn astra_sim(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let parts: Vec<&str> = text.split(CUT).collect();
    let names = ["network.yml", "system.json", "memory.json", "groups.json", "logical.json"];
    let load = |path: &str| {
        let part = names.iter().position(|name| *name == path).and_then(|i| parts.get(i));
        part.map(|part| part.as_bytes().to_vec()).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    };
    let args = peer::AstraSimArgs {
        workload: "trace".into(),
        network: names[0].into(),
        system: names[1].into(),
        memory: names[2].into(),
        comm_group: (parts.len() > 3).then(|| names[3].into()),
        logical_topology: (parts.len() > 4).then(|| names[4].into()),
        ..Default::default()
    };
    peer::read_from(&args, &load).is_ok()
}

/// Every collective, and a computation between them, on a platform file of few NPUs: both backends
/// end, folded as unfolded.
pub fn simulate(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(platform) = native::from_yaml(text, "platform.yml", &[]) else {
        return false;
    };
    let npus = platform.fabric.npus();
    let chunks = u64::from(platform.scheduler.chunks) * u64::from(npus) * u64::from(npus);
    if npus > 64 || chunks > 1 << 16 || platform.custom_paths != Default::default() {
        return false;
    }
    BackendKind::ALL.into_iter().all(|backend| {
        let run = |fold| {
            let workload = Source::Built(Box::new(every_collective(npus)));
            let config = Config {
                workload,
                groups: Vec::new(),
                platform: platform.clone(),
                backend: backend.clone(),
                fold,
                watch: Watch::default(),
            };
            run(&config, &mut |_| true)
        };
        match (run(true), run(false)) {
            (Ok(folded), Ok(unfolded)) => {
                assert_eq!(folded.report.digest, unfolded.report.digest, "folding on {backend:?}");
                true
            }
            (Err(_), Err(_)) => false,
            (folded, unfolded) => {
                panic!("{backend:?}: {:?} folded, {:?} unfolded", folded.err(), unfolded.err())
            }
        }
    })
}

/// A chain on every rank.
fn every_collective(npus: u32) -> Workload {
    let collective = |kind| Op::Collective {
        kind,
        bytes: Bytes(10_000),
        slot: 0,
        priority: 0,
        dims: u32::MAX,
        root: 0,
    };
    let compute = Op::Compute {
        operations: Some(1 << 30),
        bytes: Some(Bytes(1 << 20)),
        cpu: false,
        kernel: Kernel::Other,
    };
    let ops = CollectiveKind::ALL.into_iter().map(collective).chain([compute]);
    let mut builder = ProgramBuilder::default();
    for (id, op) in (0u64..).zip(ops) {
        // Two at a time, so that collectives overlap.
        builder.push(Node { id, duration: Span::ZERO, op }, "", id.checked_sub(2));
    }
    Workload::uniform(builder.build().expect("a chain"), npus)
}

/// Topologies and quantities in their notation, on one line each. A topology is printed and read
/// again.
pub fn notation(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let bandwidth = text.parse::<units::Bandwidth>().is_ok_and(|q| q.to_string().parse() == Ok(q));
    let bytes = text.parse::<units::Bytes>().is_ok_and(|q| q.to_string().parse() == Ok(q));
    let flops = text.parse::<units::Flops>().is_ok_and(|q| q.to_string().parse() == Ok(q));
    let span = text.parse::<units::Span>().is_ok_and(|q| q.to_string().parse() == Ok(q));
    let topology = text.parse::<topology::Topology>().is_ok_and(|shape| {
        assert_eq!(shape.to_string().parse(), Ok(shape.clone()));
        assert_eq!(shape.short().parse(), Ok(shape.clone()));
        shape.npus() == shape.sizes().iter().product::<u32>()
    });
    bandwidth || bytes || flops || span || topology
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_refuse_noise_and_take_what_is_right() {
        assert!(
            !trace_protobuf(b"\x01\x02\x03")
                && !trace_json(b"{")
                && !trace_archive(b"")
                && !msccl(b"<a>")
                && !platform(b"x")
        );
        assert!(notation(b"Ring(4)_FC(8)") && notation(b"50 GB/s") && !notation(b"Ring(0)"));
        assert!(!astra_sim(b"topology: [Ring]"));
        // 28 bytes: tabs, and one word; 29: several words.
        assert!(clicks(b"1\t5\t-1.5e3\t0a\tx\t123\tlonger12"));
        assert!(clicks(b"1\t5\t-1.5e3\t0a\tx\t123\tlon,ger12") && !clicks(b"2\t\t\t\t\t\t"));
    }
}
