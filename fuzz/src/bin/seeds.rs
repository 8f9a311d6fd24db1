//! Writes the seeds: `seeds FOLDER` makes `FOLDER/<target>/<name>` for every target, from our own
//! writers, the project's platforms and examples, and recorded inputs where they lie next to the
//! checkout.

// Linked for the instrumentation's hooks, which the readers call here too.
use libfuzzer_sys as _;

use graph::{
    CollectiveKind, Group, Kernel, Members, Node, Op, ProgramBuilder, RankBinding, Reach, Workload,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use units::{Bytes, Span};

/// Larger inputs slow the search down.
const LARGEST: u64 = 24 << 10;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "seeds".into()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = Seeds { folder, count: 0 };
    seeds.traces()?;
    seeds.texts()?;
    for place in ["systems", "examples", "tests", "../shared/traces", "../shared/conformance/bad"] {
        seeds.collect(&root.join(place))?;
    }
    println!("{} seeds in {}", seeds.count, seeds.folder.display());
    Ok(())
}

struct Seeds {
    folder: PathBuf,
    count: usize,
}

impl Seeds {
    fn add(&mut self, target: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{:04}", self.count)), bytes)?;
        self.count += 1;
        Ok(())
    }

    fn traces(&mut self) -> io::Result<()> {
        let workload = everything();
        let (mut protobuf, mut json) = (Vec::new(), Vec::new());
        trace::chakra::write_protobuf(&workload, 0, &mut protobuf)?;
        trace::chakra::write_json(&workload, 0, &mut json)?;
        for extra in 0..4 {
            // The size chooses the options; a cut end is a seed too.
            self.add("trace_protobuf", &protobuf[..protobuf.len() - extra])?;
            self.add("trace_json", &json[..json.len() - extra])?;
            self.add("custom", &protobuf[..protobuf.len() - extra])?;
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        trace::chakra::write_protobuf(&exchange(), 0, &mut first)?;
        trace::chakra::write_protobuf(&exchange(), 1, &mut second)?;
        self.add("custom", &first)?;
        self.add("custom", &alone()?)?;
        for how in 0..8 {
            self.add("trace_archive", &[&[how], &first[..], &second[..]].concat())?;
            self.add("trace_archive", &[&[how], &alone()?[..]].concat())?;
            self.add("trace_archive", &[&[how], &protobuf[..]].concat())?;
            self.add("trace_archive", &[&[how], &json[..]].concat())?;
        }
        Ok(())
    }

    fn texts(&mut self) -> io::Result<()> {
        for text in [
            "Ring(4)_FullyConnected(8)_Switch(16)",
            "R(2)_SW(3)",
            "50 GB/s",
            "400 Gb/s",
            "1.5 us",
            "64 MiB",
            "989 TFLOPS",
        ] {
            self.add("notation", text.as_bytes())?;
        }
        self.add("platform", PLATFORM.as_bytes())?;
        for shape in ["R(4)", "FC(3)_SW(4)", "R(2)_R(2)_SW(2)"] {
            let links = "links: {bandwidth: 50 GB/s, per: link, latency: 500 ns}";
            for choices in [
                "",
                "scheduler: {policy: lifo, chunks: 3, comm_streams: 1}",
                "collectives: {all_reduce: double_binary_tree}",
            ] {
                self.add(
                    "simulate",
                    format!("topology: {shape}\n{links}\n{choices}\n").as_bytes(),
                )?;
            }
        }
        self.add("simulate", GRAPH.as_bytes())?;
        self.add("platform", GRAPH.as_bytes())?;
        self.add("msccl", MSCCL.as_bytes())?;
        for separator in ["\t", ";"] {
            for end in ["", "\n", "\n\n", "0\n"] {
                let lines = CLICKS.map(|fields| fields.join(separator)).join("\n");
                self.add("clicks", format!("{lines}{end}").as_bytes())?;
            }
        }
        for first in TEXT_HEADS {
            let own = if first == "HYBRID_CUSTOMIZED" { " HYBRID_DATA_MODEL" } else { "" };
            let layers: String = TEXT_LAYERS.map(|layer| format!("{layer}{own}\n")).concat();
            self.add("text", format!("{first}\n{}\n{layers}", TEXT_LAYERS.len()).as_bytes())?;
        }
        self.add("astra_sim", ASTRA_SIM.join(fuzz::CUT).as_bytes())?;
        self.add("astra_sim", ASTRA_SIM[..3].join(fuzz::CUT).as_bytes())
    }

    /// Files by their endings, folders within folders.
    fn collect(&mut self, place: &Path) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(place) else {
            return Ok(());
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                self.collect(&path)?;
                continue;
            }
            let targets: &[&str] = match path.extension().and_then(|e| e.to_str()) {
                Some("et" | "eg") => &["trace_protobuf", "custom"],
                Some("json") => &["trace_json"],
                Some("yml" | "yaml") => &["platform"],
                Some("xml") => &["msccl"],
                _ => &[],
            };
            if fs::metadata(&path)?.len() <= LARGEST {
                for target in targets {
                    self.add(target, &fs::read(&path)?)?;
                }
            }
        }
        Ok(())
    }
}

/// Lines of click logs, as `fuzz::clicks` reads them.
const CLICKS: [[&str; 7]; 3] = [
    ["1", "5", "-1.5e3", "68fd1e64", "skipped", "123", "some,words"],
    ["0", "", "", "", "", "", ""],
    ["0", "-3", "0.25", "0A", "", "-9", "word"],
];

/// A send, a receive and a computation between two ranks.
fn exchange() -> Workload {
    let program = |peer: i32| {
        let mut builder = ProgramBuilder::default();
        let message = |op| Node { id: 0, duration: Span::ZERO, op };
        let send = message(Op::Send { peer: peer.into(), bytes: Bytes(100), tag: 1 });
        let receive =
            Node { id: 1, ..message(Op::Recv { peer: peer.into(), bytes: Bytes(100), tag: 1 }) };
        builder.push(send, "", []);
        builder.push(receive, "", [0]);
        Arc::new(builder.build().expect("ids are unique and dependencies exist"))
    };
    Workload {
        programs: vec![program(1), program(-1)],
        ranks: vec![RankBinding { program: 0, slots: 0 }, RankBinding { program: 1, slots: 0 }],
        ..Workload::default()
    }
}

/// Two computations that any rank can run.
fn alone() -> io::Result<Vec<u8>> {
    let mut builder = ProgramBuilder::default();
    for id in 0..2u64 {
        let op = Op::Compute {
            operations: Some(10),
            bytes: Some(Bytes(10)),
            cpu: false,
            kernel: Kernel::Other,
        };
        builder.push(Node { id, duration: Span::ZERO, op }, "work", id.checked_sub(1));
    }
    let workload = Workload::uniform(builder.build().map_err(io::Error::other)?, 1);
    let mut bytes = Vec::new();
    trace::chakra::write_protobuf(&workload, 0, &mut bytes)?;
    Ok(bytes)
}

/// One program with every operation, on four ranks in two groups.
fn everything() -> Workload {
    let mut ops = vec![
        Op::Metadata,
        Op::Compute {
            operations: Some(1 << 40),
            bytes: Some(Bytes(1 << 20)),
            cpu: false,
            kernel: Kernel::Other,
        },
        Op::Compute { operations: None, bytes: None, cpu: true, kernel: Kernel::Other },
        Op::Memory {
            store: false,
            bytes: Bytes(4096),
            reach: Reach::Remote,
            tensor: 0,
            slot: None,
        },
        Op::Memory { store: true, bytes: Bytes(1), reach: Reach::InSwitch, tensor: 7, slot: None },
        Op::Send { peer: 1.into(), bytes: Bytes(77), tag: 5 },
        Op::Recv { peer: 2.into(), bytes: Bytes(1 << 33), tag: 0 },
    ];
    ops.extend(CollectiveKind::ALL.into_iter().zip(0..).map(|(kind, i)| Op::Collective {
        kind,
        bytes: Bytes(if kind == CollectiveKind::Barrier { 0 } else { 1000 }),
        slot: i % 2,
        priority: i as i32 - 4,
        dims: if i < 6 { u32::MAX } else { 5 },
        root: u32::from(kind == CollectiveKind::Broadcast),
    }));
    let mut builder = ProgramBuilder::default();
    for (id, op) in (0u64..).zip(ops) {
        let deps: Vec<u64> = [1, 3].iter().filter_map(|d| id.checked_sub(*d)).collect();
        builder.push(Node { id, duration: Span(id * 1_500_000), op }, &format!("node{id}"), deps);
    }
    let program = builder.build().expect("ids are unique and dependencies exist");
    Workload {
        programs: vec![Arc::new(program)],
        ranks: vec![RankBinding { program: 0, slots: 0 }; 4],
        slots: vec![0, 1],
        groups: vec![
            Group { name: "world".into(), members: Members::All },
            Group { name: "tensor".into(), members: Members::List(vec![0, 1, 2, 3]) },
        ],
        ..Workload::default()
    }
}

const PLATFORM: &str = "name: seed
source: none
topology: FullyConnected(8)_Switch(16)
links:
  - {bandwidth: 450 GB/s, per: npu, latency: 300 ns}
  - {bandwidth: 50 GB/s, latency: 2 us}
npu: {name: H100, compute: roofline, peak: 989 TFLOPS, memory: {bandwidth: 3350 GB/s, capacity: 80 GB}}
remote_memory: {sharing: per_node, npus_per_node: 8, latency: 1 us, bandwidth: 100 GB/s}
collectives: {all_reduce: [direct, halving_doubling], all_to_all: direct(4), hierarchy: enhanced}
scheduler: {policy: fifo, chunks: 16, active_chunks: 1, queues_per_dim: 1, endpoint_delay: 10 ns}
logical: [8, 16]
";

const GRAPH: &str = "graph:
  npus: 2
  switches: [spine]
  links:
    - {between: [npu0, spine], bandwidth: 25 GB/s, latency: 700 ns}
    - {from: npu1, to: spine, bandwidth: 10 GB/s, latency: 1 us}
    - {from: spine, to: npu1, bandwidth: 20 GB/s, latency: 1 us}
";

const MSCCL: &str = r#"<algo name="ring" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0">
  <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"#;

const ASTRA_SIM: [&str; 5] = [
    "topology: [Ring, Switch]\nnpus_count: [4, 2]\nbandwidth: [50.0, 25.0]\nlatency: [500.0, 1000.0]\n",
    r#"{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 2, "preferred-dataset-splits": 4,
"all-reduce-implementation": ["ring", "halvingDoubling"], "all-gather-implementation": ["ring", "direct"],
"reduce-scatter-implementation": ["ring", "oneRing"], "all-to-all-implementation": ["direct", "direct4"],
"collective-optimization": "localBWAware", "local-mem-bw": 1600, "boost-mode": 0, "roofline-enabled": 1, "peak-perf": 900,
"model-shared-bus": 1, "trace-enabled": 0, "replay-only": 0, "L": 0, "o": 0, "g": 0, "G": 0}"#,
    r#"{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 1000, "remote-mem-bw": 100, "num-nodes": 2, "num-npus-per-node": 4}"#,
    r#"{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}"#,
    r#"{"logical-dims": ["4", "2"]}"#,
];

/// First lines of text workloads, one of every kind.
const TEXT_HEADS: [&str; 11] = [
    "DATA",
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_CUSTOMIZED",
    "HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 4",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 4 checkpoints: 2 0 2 checkpoint_initiates: 2 3 1",
    "HYBRID_DLRM\t1",
    "HYBRID_DLRM_ENHANCED\t1",
    "MICRO",
    "DISTRIBUTED_INFERENCE",
];

const TEXT_LAYERS: [&str; 4] = [
    "embedding -1 300 ALLTOALL 98304 300 ALLTOALL 98304 300 NONE 0 98",
    "a -1 1280 ALLGATHER 512 794 REDUCESCATTER 512 896 ALLREDUCE 13312 13",
    "a -1 6400 NONE 0 6400 ALLREDUCE 64 4480 ALLREDUCE 1064960 0",
    "b -1 0 NONE 0 0 NONE 0 1792 NONE 0 524",
];
