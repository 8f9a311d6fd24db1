//! Reading traces: a file of a gigabyte of protobuf, and smaller ones as JSON and gzip, each in a
//! process of its own.

use crate::{Arguments, cells, child as measured, digits, head};
use benches::clock::{Effort, peak_memory_mb};
use benches::inputs::{Folder, Numbers, Shape, all_reduce, configure, write_traces};
use flate2::{Compression, write::GzEncoder};
use graph::{CollectiveKind, Kernel, Node, Op, ProgramBuilder, Workload};
use sim::{BackendKind, read};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use trace::chakra::{ReadOptions, write_json, write_protobuf};
use units::{Bytes, Span};

/// Nodes that are made and written at a time.
const BLOCK: u64 = 50_000;

type Writer = fn(&Workload, &mut Vec<u8>) -> io::Result<()>;

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "Reading one trace",
        &["file", "MB", "nodes", "CPU s", "M nodes/s", "MB/s", "peak memory MB", "of the file"],
    );
    let size: u64 = if arguments.quick { 2_000_000 } else { 1_000_000_000 };
    let protobuf: Writer = |workload, out| write_protobuf(workload, 0, out);
    let json: Writer = |workload, out| write_json(workload, 0, out);
    let forms = [
        ("protobuf", size, protobuf, false),
        ("json", size / 4, json, false),
        ("protobuf gzip", size / 4, protobuf, true),
    ];
    for (name, size, writer, gzip) in forms {
        if arguments.row(name) {
            let folder = Folder::new("reading")?;
            let path = folder.path().join("trace.0.et");
            let nodes = generate(&path, size, writer, gzip)?;
            line(name, &path, nodes)?;
        }
    }
    ranks(arguments)
}

/// Writes nodes until `size` bytes before compression are reached, and says how many.
fn generate(path: &Path, size: u64, writer: Writer, gzip: bool) -> io::Result<u64> {
    let file = BufWriter::new(File::create(path)?);
    let mut out: Box<dyn Write> =
        if gzip { Box::new(GzEncoder::new(file, Compression::fast())) } else { Box::new(file) };
    let (mut written, mut nodes, mut bytes) = (0, 0, Vec::new());
    while written < size {
        bytes.clear();
        writer(&block(nodes), &mut bytes)?;
        // Only the first block keeps its metadata, a short message behind a length of one byte, or
        // a line.
        let skip = match (nodes, bytes[0]) {
            (0, _) => 0,
            (_, b'{') => bytes.iter().position(|&b| b == b'\n').map_or(0, |at| at + 1),
            (_, length) => 1 + usize::from(length),
        };
        out.write_all(&bytes[skip..])?;
        written += (bytes.len() - skip) as u64;
        nodes += BLOCK;
    }
    out.flush()?;
    Ok(nodes)
}

/// Nodes as training traces have them: mostly computations, a tenth collectives, names, durations
/// and one or two dependencies.
fn block(first: u64) -> Workload {
    let mut numbers = Numbers(first);
    let mut builder = ProgramBuilder::default();
    for id in first..first + BLOCK {
        let bytes = Bytes(4096 * (1 + numbers.below(1 << 16)));
        let collective = Op::Collective {
            kind: CollectiveKind::AllReduce,
            bytes,
            slot: 0,
            priority: 0,
            dims: u32::MAX,
            root: 0,
        };
        let compute = Op::Compute {
            operations: Some(numbers.below(1 << 34)),
            bytes: Some(bytes),
            cpu: false,
            kernel: Kernel::Other,
        };
        let op = if numbers.below(10) == 0 { collective } else { compute };
        let deps = [1, 1 + numbers.below(20)]
            .into_iter()
            .filter_map(|back| id.checked_sub(back))
            .filter(|&dep| dep >= first);
        let name = ["aten::mm", "aten::add_", "nccl:all_reduce", "aten::layer_norm"]
            [numbers.below(4) as usize];
        builder.push(
            Node { id, duration: Span::from_ns(1000 * numbers.below(900)), op },
            name,
            deps,
        );
    }
    Workload::uniform(builder.build().expect("ids ascend"), 1)
}

fn line(name: &str, path: &Path, nodes: u64) -> io::Result<()> {
    let size = std::fs::metadata(path)?.len() as f64 / 1e6;
    let said = measured(&["reading", &path.to_string_lossy()])?;
    let number = |i: usize| said[i].parse::<f64>().map_err(io::Error::other);
    let (seconds, memory) = (number(0)?, number(1)?);
    if number(2)? != nodes as f64 {
        return Err(io::Error::other(format!("{nodes} nodes were written, {} read", said[2])));
    }
    cells(&[
        name.to_string(),
        digits(size),
        nodes.to_string(),
        digits(seconds),
        digits(nodes as f64 / seconds / 1e6),
        digits(size / seconds),
        digits(memory),
        digits(memory / size),
    ]);
    Ok(())
}

/// Prints seconds, megabytes and nodes of reading `[path]`.
pub fn child(words: &[String]) -> io::Result<()> {
    let once = Effort { runs: 1, ..Effort::FULL };
    let (seconds, workload) = once
        .least(|| trace::chakra::read(Path::new(&words[0]), Some(1), &[], &ReadOptions::default()));
    let workload = workload.map_err(|problems| io::Error::other(format!("{problems:?}")))?;
    println!("{seconds} {} {}", peak_memory_mb().unwrap_or(0.0), workload.operations());
    Ok(())
}

/// Many small files: what the files cost besides the nodes in them.
fn ranks(arguments: &Arguments) -> io::Result<()> {
    head("Reading one small trace a rank", &["files", "CPU ms", "us a file"]);
    let count = if arguments.quick { 64 } else { 4096 };
    let folder = Folder::new("ranks")?;
    Shape { blocks: vec!["Ring"], sizes: vec![count], splits: 1 }.write(folder.path())?;
    write_traces(&all_reduce(1 << 30, count), count, folder.path())?;
    let (seconds, workload) = arguments
        .effort()
        .least(|| read(&configure(folder.path(), "trace", BackendKind::Analytical, false)));
    let files = workload.map_err(|error| io::Error::other(error.to_string()))?.ranks.len();
    cells(&[files.to_string(), digits(seconds * 1e3), digits(seconds * 1e6 / files as f64)]);
    Ok(())
}
