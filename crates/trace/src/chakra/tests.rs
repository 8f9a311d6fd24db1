//! Round trips, broken input and the recorded files of others.

use super::*;
use crate::wire::{put_bytes, put_number, put_varint};
use graph::{
    CollectiveKind, Gemm, Group, Kernel, Members, Node, Op, ProgramBuilder, RankBinding, Workload,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Bytes, Span};

/// A directory of its own that goes when the test does.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("armillary-trace-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if !path.exists() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    Some(path)
}

fn op() -> impl Strategy<Value = Op> {
    let kind = proptest::sample::select(CollectiveKind::ALL.to_vec());
    prop_oneof![
        Just(Op::Metadata),
        Just(Op::Invalid),
        (
            any::<Option<u64>>(),
            any::<Option<u64>>(),
            any::<bool>(),
            proptest::sample::select(Kernel::ALL.to_vec())
        )
            .prop_map(|(operations, bytes, cpu, kernel)| Op::Compute {
                operations,
                bytes: bytes.map(Bytes),
                cpu,
                kernel
            }),
        (any::<[u32; 4]>(), any::<u8>()).prop_map(|([batch, m, n, k], width)| Op::Gemm(Gemm {
            batch,
            m,
            n,
            k,
            width
        })),
        (any::<[u32; 4]>(), any::<u8>()).prop_map(|([batch, m, n, k], width)| Op::Grouped(Gemm {
            batch,
            m,
            n,
            k,
            width
        })),
        (any::<bool>(), any::<u64>(), proptest::sample::select(graph::Reach::ALL.to_vec()))
            .prop_map(|(store, bytes, reach)| Op::Memory { store, bytes: Bytes(bytes), reach }),
        (1i32..3, any::<u64>(), any::<u32>()).prop_map(|(peer, b, tag)| Op::Send {
            peer,
            bytes: Bytes(b),
            tag
        }),
        (-2i32..0, any::<u64>(), any::<u32>()).prop_map(|(peer, b, tag)| Op::Recv {
            peer,
            bytes: Bytes(b),
            tag
        }),
        (kind, any::<u64>(), 0u32..3, any::<i32>(), any::<u32>(), 0u32..2).prop_map(
            |(kind, bytes, slot, priority, dims, root)| Op::Collective {
                kind,
                bytes: Bytes(bytes),
                slot,
                priority,
                // No dimension at all is not a thing a list of flags can say apart from dimension 0
                // left out.
                dims: dims.max(1),
                root,
            }
        ),
    ]
}

/// A program whose slots are numbered in the order of first use, as every program read from a file
/// has them.
fn program() -> impl Strategy<Value = Program> {
    let node = (
        op(),
        any::<u32>(),
        ("[a-z_@.]{0,12}", "[a-c.]{0,2}"),
        1u64..4,
        proptest::collection::vec(0usize..20, 0..4),
    );
    proptest::collection::vec(node, 1..20).prop_map(|nodes| {
        let (mut ids, mut id, mut order) = (Vec::new(), 0, Vec::new());
        let mut builder = ProgramBuilder::default();
        for (i, (mut op, picos, (name, layer), step, deps)) in nodes.into_iter().enumerate() {
            id += step;
            if let Op::Collective { slot, .. } = &mut op {
                let known = order.iter().position(|s| s == slot);
                *slot = known.unwrap_or_else(|| {
                    order.push(*slot);
                    order.len() - 1
                }) as u32;
            }
            let deps: Vec<u64> = deps.into_iter().filter(|&d| d < i).map(|d| ids[d]).collect();
            builder.push(Node { id, duration: Span(u64::from(picos)), op }, &name, deps);
            builder.label(&layer);
            let (allocates, frees) =
                (Bytes(u64::from(picos % 3)), Bytes(u64::from(picos % 7 / 5) << 40));
            builder.hold(i, graph::Held { allocates, frees });
            ids.push(id);
        }
        builder.build().unwrap()
    })
}

/// One program on rank 2 of 8, its three slots bound to different groups.
fn workload(program: Program) -> Workload {
    let groups = vec![
        Group { name: "world".into(), members: Members::All },
        Group { name: "1".into(), members: Members::List(vec![2, 0, 5]) },
        Group { name: "tp".into(), members: Members::Strided { first: 0, count: 4, step: 2 } },
    ];
    let binding = RankBinding { program: 0, slots: 0 };
    Workload {
        programs: vec![Arc::new(program)],
        ranks: vec![binding; 8],
        slots: vec![1, 0, 2],
        groups,
        ..Workload::default()
    }
}

fn names(workload: &Workload, rank: u32) -> Vec<String> {
    let slots = workload.program(rank).slots();
    let group = |slot| &workload.groups[workload.group_of(rank, slot) as usize];
    (0..slots)
        .map(
            |s| {
                if group(s).members == Members::All { String::new() } else { group(s).name.clone() }
            },
        )
        .collect()
}

proptest! {
    #[test]
    fn protobuf_written_reads_back_equal(program in program()) {
        let workload = workload(program);
        let mut bytes = Vec::new();
        write_protobuf(&workload, 2, &mut bytes).unwrap();
        let decoded = decode(&bytes, "x.2.et", 2, &ReadOptions::default()).unwrap();
        prop_assert_eq!(&decoded.program, workload.program(2));
        let slots: Vec<String> = decoded.slots.into_iter().map(|s| s.name).collect();
        prop_assert_eq!(slots, names(&workload, 2));
    }

    #[test]
    fn json_written_reads_back_equal(program in program()) {
        let workload = workload(program);
        let mut bytes = Vec::new();
        write_json(&workload, 2, &mut bytes).unwrap();
        let decoded = decode(&bytes, "x.2.json", 2, &ReadOptions::default()).unwrap();
        prop_assert_eq!(&decoded.program, workload.program(2));
        let slots: Vec<String> = decoded.slots.into_iter().map(|s| s.name).collect();
        prop_assert_eq!(slots, names(&workload, 2));
    }

    /// Large files come in blocks that end anywhere.
    #[test]
    fn blocks_read_like_the_whole(program in program(), size in 1usize..100) {
        let workload = workload(program);
        let mut bytes = Vec::new();
        write_protobuf(&workload, 2, &mut bytes).unwrap();
        let options = ReadOptions::default();
        let mut reader = binary::BinaryReader::new(decode::Decoder::new("x", 2, &options));
        let (mut waiting, mut ahead) = (Vec::new(), bytes.chunks(size).peekable());
        while let Some(block) = ahead.next() {
            waiting.extend_from_slice(block);
            let used = reader.block(&waiting, ahead.peek().is_none()).unwrap();
            waiting.drain(..used);
        }
        prop_assert!(waiting.is_empty());
        prop_assert_eq!(&reader.decoder.finish().unwrap().program, workload.program(2));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes, "x", 0, &ReadOptions::default());
    }

    #[test]
    fn arbitrary_text_never_panics(text in r#"[\{\}\[\]",:a-z0-9 _-]{0,80}"#) {
        let _ = decode(format!("{{{text}").as_bytes(), "x", 0, &ReadOptions::default());
    }

    #[test]
    fn damaged_files_never_panic(program in program(), at in any::<prop::sample::Index>(), byte: u8, json: bool) {
        let mut bytes = Vec::new();
        let workload = workload(program);
        match json {
            true => write_json(&workload, 2, &mut bytes).unwrap(),
            false => write_protobuf(&workload, 2, &mut bytes).unwrap(),
        }
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(&bytes, "x", 2, &ReadOptions::default());
        bytes.truncate(at);
        let _ = decode(&bytes, "x", 2, &ReadOptions { replay: true });
    }
}

/// A protobuf trace of 2 nodes with `attrs` on the second.
fn trace(kind: u64, attrs: &[(&str, u32, i64)]) -> Vec<u8> {
    let mut file = vec![0];
    let mut first = Vec::new();
    put_number(&mut first, 1, 7);
    put_number(&mut first, 3, 4);
    let mut second = Vec::new();
    put_number(&mut second, 1, 8);
    put_number(&mut second, 3, kind);
    put_number(&mut second, 5, 7);
    for (name, field, value) in attrs {
        let mut attr = Vec::new();
        put_bytes(&mut attr, 1, name.as_bytes());
        put_number(&mut attr, *field, *value as u64);
        put_bytes(&mut second, 10, &attr);
    }
    for message in [first, second] {
        put_varint(&mut file, message.len() as u64);
        file.extend(message);
    }
    file
}

fn fault(bytes: &[u8], rank: u32) -> String {
    let problems = decode(bytes, "t.et", rank, &ReadOptions::default()).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

#[test]
fn every_fault_of_a_node_names_file_rank_node_value_and_what_is_allowed() {
    let send = |src, dst, size| {
        trace(
            5,
            &[
                ("comm_src", 7, src),
                ("comm_dst", 7, dst),
                ("comm_tag", 7, 1),
                ("comm_size", 9, size),
            ],
        )
    };
    let cases = [
        (send(3, 3, 8), "rank 3 sends to itself", "another rank"),
        (send(2, 1, 8), "comm_src is 2 in the trace of rank 3", "the rank whose trace"),
        (send(3, 1, -5), "comm_size is -5", "zero or more"),
        (trace(7, &[("comm_type", 9, 0)]), "comm_size is missing", "zero or more"),
        (trace(7, &[("comm_size", 9, 8)]), "comm_type is missing", "zero or more"),
        (trace(7, &[("comm_type", 9, 42), ("comm_size", 9, 8)]), "comm_type is 42", "0 all-reduce"),
        (trace(77, &[]), "node type 77 is unknown", "7 collective"),
        (trace(2, &[]), "tensor_size is missing", "zero or more"),
    ];
    for (bytes, message, help) in cases {
        let text = fault(&bytes, 3);
        assert!(text.starts_with("t.et: rank 3 node 8 (byte "), "{text}");
        assert!(text.contains(message) && text.contains(help), "{text}");
    }
}

#[test]
fn all_faults_are_listed() {
    let mut bytes = trace(77, &[]);
    bytes.extend_from_slice(&trace(78, &[])[1..]);
    let problems = decode(&bytes, "t.et", 0, &ReadOptions::default()).unwrap_err();
    let text: Vec<String> = problems.iter().map(|p| p.message.clone()).collect();
    assert_eq!(problems.len(), 4, "{text:?}");
    assert!(text[2].contains("node id 7 is defined twice"), "{text:?}");
}

#[test]
fn cut_empty_and_foreign_files_say_what_they_are() {
    let whole = trace(4, &[]);
    let text = fault(&whole[..whole.len() - 1], 0);
    assert!(
        text.contains("rank 0 byte 6") && text.contains("ends 1 bytes before the end"),
        "{text}"
    );
    assert!(fault(b"", 0).contains("the file is empty"));
    assert!(fault(b"\x7fELF\x02\x01\x01\0\0\0\0\0", 0).contains("no Chakra trace"));
    assert!(fault(&[0; 100], 0).contains("a node should stand here"));
    assert!(fault(b"hello world", 0).contains("no Chakra trace but text"));
    assert!(fault(b"{\"schedulingPolicy\": 1}", 0).contains("its keys are schedulingPolicy"));
    assert!(fault(b"{\"traceEvents\": []}", 0).contains("Kineto"));
    assert!(fault(b"{\"schema\": \"1.0.2\", \"nodes\": []}", 0).contains("PyTorch"));
    assert!(fault(b"{\"workload_graph\": [{\"Id\": 1", 0).contains("line 1"));
}

#[test]
fn nodes_without_attributes_can_be_replayed() {
    let options = ReadOptions { replay: true };
    let decoded = decode(&trace(7, &[]), "t.et", 0, &options).unwrap();
    assert!(matches!(decoded.program.nodes()[1].op, Op::Compute { cpu: false, .. }));
}

/// Field numbers of the "eg" schema, from its definition of 2022.
#[test]
fn the_plain_schemas_read() {
    let message = |fields: &[(u32, u64)]| {
        let mut out = Vec::new();
        fields.iter().take(1).for_each(|&(n, v)| put_number(&mut out, n, v));
        put_bytes(&mut out, 2, b"n");
        fields.iter().skip(1).for_each(|&(n, v)| put_number(&mut out, n, v));
        let mut framed = Vec::new();
        put_varint(&mut framed, out.len() as u64);
        framed.extend(out);
        framed
    };
    for (compute, collective, send) in [(3, 6, 4), (4, 7, 5)] {
        let mut file = message(&[(1, 1), (3, compute), (7, 1500)]);
        // comm_type 2 is all-to-all, communicator 4, dimensions 0 and 2 of 3.
        file.extend(message(&[
            (1, 2),
            (3, collective),
            (4, 1),
            (13, 2),
            (14, 1),
            (14, 0),
            (14, 1),
            (15, 4),
            (18, 64),
        ]));
        file.extend(message(&[
            (1, 3),
            (3, send),
            (4, 2),
            (4, 1),
            (16, 5),
            (17, 6),
            (18, 32),
            (19, 9),
        ]));
        let decoded = decode(&file, "t.eg", 5, &ReadOptions::default()).unwrap();
        let nodes = decoded.program.nodes();
        assert_eq!(nodes[0].duration, Span(1_500_000), "nanoseconds");
        let Op::Collective { kind, bytes, dims, .. } = nodes[1].op else {
            panic!("{:?}", nodes[1])
        };
        assert_eq!((kind, bytes, dims), (CollectiveKind::AllToAll, Bytes(64), 0b101));
        assert_eq!(decoded.slots[0].name, "4");
        assert_eq!(nodes[2].op, Op::Send { peer: 1, bytes: Bytes(32), tag: 9 });
        assert_eq!(decoded.program.deps(2), [1, 0]);
    }
}

/// Field numbers of the schema with attribute types, from its definition of 2023.
#[test]
fn the_tagged_schema_reads() {
    let attr = |name: &str, field: u32, value: u64| {
        let mut out = Vec::new();
        put_bytes(&mut out, 1, name.as_bytes());
        put_number(&mut out, 2, 2);
        put_number(&mut out, field, value);
        out
    };
    let mut metadata = Vec::new();
    put_bytes(&mut metadata, 1, &attr("pid", 6, 1));
    let mut compute = Vec::new();
    put_number(&mut compute, 1, 0);
    put_bytes(&mut compute, 2, b"c");
    put_number(&mut compute, 3, 4);
    put_bytes(&mut compute, 11, &attr("runtime", 6, 12));
    put_bytes(&mut compute, 11, &attr("is_cpu_op", 4, 1));
    let mut collective = Vec::new();
    put_number(&mut collective, 1, 1);
    put_bytes(&mut collective, 2, b"a2a");
    put_number(&mut collective, 3, 7);
    put_number(&mut collective, 4, 0);
    put_bytes(&mut collective, 11, &attr("comm_type", 7, 1));
    put_bytes(&mut collective, 11, &attr("comm_size", 6, 100));
    let mut file = Vec::new();
    for message in [metadata, compute, collective] {
        put_varint(&mut file, message.len() as u64);
        file.extend(message);
    }
    let decoded = decode(&file, "t.et", 0, &ReadOptions::default()).unwrap();
    let nodes = decoded.program.nodes();
    assert_eq!(nodes[0].duration, Span(12_000_000), "microseconds");
    assert!(matches!(nodes[0].op, Op::Compute { cpu: true, .. }));
    let Op::Collective { kind, bytes, .. } = nodes[1].op else { panic!("{:?}", nodes[1]) };
    assert_eq!((kind, bytes), (CollectiveKind::AllToAll, Bytes(100)));
    assert_eq!(decoded.program.deps(1), [0]);
}

#[test]
fn the_feeder_s_json_reads_with_fractions_of_a_microsecond() {
    let json = br#"{"workload_graph": [
        {"Id": 3, "Name": "a", "NodeType": 4, "runtime": 1.25, "data_deps": [], "is_cpu_op": false},
        {"Id": 5, "Name": "b", "NodeType": 7, "ctrlDeps": [3], "data_deps": [3], "comm_type": 2, "comm_size": 8,
         "color": "red"}], "ngpus": 8}"#;
    let decoded = decode(json, "t.json", 0, &ReadOptions::default()).unwrap();
    assert_eq!(decoded.program.nodes()[0].duration, Span(1_250_000));
    assert_eq!(decoded.program.deps(1), [0]);
    assert!(matches!(
        decoded.program.nodes()[1].op,
        Op::Collective { kind: CollectiveKind::AllGather, .. }
    ));
    assert_eq!(
        decoded.notes.into_sorted(),
        [("trace attribute `color` is not used".to_string(), 1)]
    );
}

fn collective_program(bytes: u64) -> Program {
    let mut builder = ProgramBuilder::default();
    let op = Op::Collective {
        kind: CollectiveKind::AllReduce,
        bytes: Bytes(bytes),
        slot: 0,
        priority: 0,
        dims: u32::MAX,
        root: 0,
    };
    builder.push(Node { id: 1, duration: Span::ZERO, op }, "ar", []);
    builder.build().unwrap()
}

fn file_of(program: Program, group: usize) -> Vec<u8> {
    let mut workload = workload(program);
    workload.slots = vec![group as u32];
    let mut bytes = Vec::new();
    write_protobuf(&workload, 0, &mut bytes).unwrap();
    bytes
}

#[test]
fn equal_files_share_a_program_and_every_path_form_finds_them() {
    let scratch = Scratch::new("forms");
    let bytes = file_of(collective_program(64), 0);
    (0..4).for_each(|rank| drop(scratch.write(&format!("t.{rank}.et"), &bytes)));
    let root = scratch.0.display().to_string();
    for form in [
        format!("{root}/t"),
        format!("{root}/t.%d.et"),
        format!("{root}/t.{{rank}}.et"),
        root.clone(),
    ] {
        let workload = read(Path::new(&form), None, &[], &ReadOptions::default()).unwrap();
        assert_eq!(
            (workload.ranks.len(), workload.programs.len(), workload.slots.len()),
            (4, 1, 1),
            "{form}"
        );
        assert_eq!(workload.origin, form);
        assert_eq!(workload.groups[workload.group_of(3, 0) as usize].members, Members::All);
    }
    let one = format!("{root}/t.0.et");
    let workload = read(Path::new(&one), Some(1000), &[], &ReadOptions::default()).unwrap();
    assert_eq!((workload.ranks.len(), workload.programs.len()), (1000, 1));
}

#[test]
fn missing_and_superfluous_ranks_are_named() {
    let scratch = Scratch::new("ranks");
    let bytes = file_of(collective_program(64), 0);
    let _ = [0, 1, 3].map(|rank| scratch.write(&format!("t.{rank}.et"), &bytes));
    let prefix = scratch.0.join("t");
    let read_n = |npus| read(&prefix, npus, &[], &ReadOptions::default());
    let problems = read_n(None).unwrap_err();
    assert!(problems[0].message.contains("no trace for rank 2"), "{problems:?}");
    scratch.write("t.2.et", &bytes);
    let problems = read_n(Some(6)).unwrap_err();
    assert!(problems[0].message.contains("ranks 4-5: there are 4 traces"), "{problems:?}");
    assert!(read_n(Some(2)).unwrap_err()[0].message.contains("4 traces for a platform of 2"));
    scratch.write("other.0.et", &bytes);
    let problems = read(&scratch.0, None, &[], &ReadOptions::default()).unwrap_err();
    assert!(problems[0].message.contains("other.*.et (1), t.*.et (4)"), "{problems:?}");
    assert!(read(&scratch.0.join("none"), None, &[], &ReadOptions::default()).is_err());
}

#[test]
fn groups_are_bound_by_name_and_unknown_ones_named() {
    let scratch = Scratch::new("groups");
    (0..4).for_each(|rank| {
        drop(scratch.write(&format!("t.{rank}.et"), &file_of(collective_program(64), 1)))
    });
    let prefix = scratch.0.join("t");
    let groups = [("1".to_string(), vec![3, 1, 0, 2]), ("7".to_string(), vec![0, 1, 2, 3])];
    let workload = read(&prefix, Some(4), &groups, &ReadOptions::default()).unwrap();
    assert_eq!(
        workload.groups[workload.group_of(2, 0) as usize].members,
        Members::List(vec![3, 1, 0, 2])
    );
    let problems = read(&prefix, Some(4), &groups[1..], &ReadOptions::default()).unwrap_err();
    assert_eq!(problems.len(), 1, "one problem for ranks that share a trace: {problems:?}");
    let text = problems[0].to_string();
    assert!(
        text.contains("rank 0 node 1") && text.contains("pg_name \"1\"") && text.contains(", 7"),
        "{text}"
    );
}

#[test]
fn archives_and_gzip_read() {
    let scratch = Scratch::new("archive");
    let (small, large) = (file_of(collective_program(64), 0), file_of(collective_program(128), 0));
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    scratch.write("g.0.et.gz", &gzip(&small));
    scratch.write("g.1.et.gz", &gzip(&large));
    let from_gzip = read(&scratch.0.join("g"), Some(2), &[], &ReadOptions::default()).unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in
        [("w/g.1.et", &large), ("w/g.0.et", &small), ("w/README", &b"text".to_vec())]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    for (name, bytes) in [("a.tar", tar.clone()), ("a.tgz", gzip(&tar))] {
        let workload =
            read(&scratch.write(name, &bytes), None, &[], &ReadOptions::default()).unwrap();
        for rank in 0..2 {
            assert_eq!(workload.program(rank), from_gzip.program(rank), "{name}");
        }
    }
    let broken = scratch.write("broken.0.et.gz", &gzip(&small)[..20]);
    assert!(read(&broken, None, &[], &ReadOptions::default()).is_err());
}

#[test]
fn a_trace_may_declare_its_groups() {
    let mut node = Vec::new();
    put_number(&mut node, 1, 1);
    put_number(&mut node, 3, 1);
    let mut io = Vec::new();
    put_bytes(&mut io, 1, br#"["[{\"pg_name\": \"1\", \"ranks\": [1, 0], \"group_size\": 2}]"]"#);
    put_bytes(&mut node, 8, &io);
    let mut collective = Vec::new();
    put_number(&mut collective, 1, 2);
    put_number(&mut collective, 3, 7);
    for (name, field, value) in [("comm_type", 9, 0), ("comm_size", 9, 8), ("pg_name", 13, 1)] {
        let mut attr = Vec::new();
        put_bytes(&mut attr, 1, name.as_bytes());
        put_number(&mut attr, field, value);
        put_bytes(&mut collective, 10, &attr);
    }
    let mut file = vec![0];
    for message in [node, collective] {
        put_varint(&mut file, message.len() as u64);
        file.extend(message);
    }
    let scratch = Scratch::new("declared");
    (0..3).for_each(|rank| drop(scratch.write(&format!("t.{rank}.et"), &file)));
    let workload = read(&scratch.0, None, &[], &ReadOptions::default()).unwrap();
    assert_eq!(workload.groups.len(), 2);
    assert_eq!(
        workload.groups[workload.group_of(0, 0) as usize].members,
        Members::List(vec![1, 0])
    );
}

#[test]
fn recorded_traces_of_the_conformance_corpus_read() {
    let Some(cases) = shared("conformance/astra-sim/cases") else { return };
    let mut read_cases = 0;
    for case in std::fs::read_dir(cases).unwrap() {
        let case = case.unwrap().path();
        let groups = group_file(&case.join("comm_group.json"));
        let outcome = read(&case.join("trace"), None, &groups, &ReadOptions::default());
        if case.ends_with("N_Ring4_pg_unknown") {
            assert!(outcome.unwrap_err()[0].message.contains("pg_name"));
        } else {
            let workload =
                outcome.unwrap_or_else(|problems| panic!("{}: {}", case.display(), problems[0]));
            let problems = graph::check(&workload, workload.ranks.len() as u32);
            // The peer aborts on the one and stalls on the other; it finishes all the rest or stops
            // for the platform's sake.
            let wrong = ["N_Ring8_grp_nonmember", "N_Ring4_size_mismatch"]
                .iter()
                .any(|name| case.ends_with(name));
            assert_eq!(!problems.is_empty(), wrong, "{}: {problems:?}", case.display());
        }
        read_cases += 1;
    }
    assert!(read_cases > 200, "{read_cases} cases");
}

fn group_file(path: &Path) -> Vec<(String, Vec<u32>)> {
    let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&bytes).unwrap();
    object.into_iter().map(|(name, ranks)| (name, serde_json::from_value(ranks).unwrap())).collect()
}

/// Prints how every recorded trace loads: `cargo test -p trace recorded_public -- --nocapture`.
#[test]
fn recorded_public_traces_read_or_say_why_not() {
    let Some(root) = shared("traces") else { return };
    let mut stack = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { stack.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let groups = group_file(&root.join("stg/g64/comm_group.json"));
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let rank =
            find::split(file.file_name().unwrap().to_str().unwrap(), b".").map_or(0, |s| s.1);
        let bytes = std::fs::read(&file).unwrap();
        let outcome = match name.ends_with(".et") {
            true => decode(&bytes, &name, rank, &ReadOptions::default())
                .map(|d| d.program.nodes().len()),
            false => {
                read(&file, None, &groups, &ReadOptions::default()).map(|w| w.operations() as usize)
            }
        };
        match outcome {
            Ok(nodes) => {
                println!("{name}: {nodes} nodes");
                assert!(nodes > 0, "{name}");
            }
            Err(problems) => {
                println!("{name}: {} ({} problems)", problems[0], problems.len());
                assert!(
                    !name.ends_with(".et") || name.contains("/trace."),
                    "{name}: {}",
                    problems[0]
                );
                assert!(!problems[0].message.is_empty());
            }
        }
    }
    let replay = ReadOptions { replay: true };
    let recorded = read(
        &root.join("mlcommons+chakra/tests/data/feeder_tests_trace.tar.gz"),
        None,
        &[],
        &replay,
    );
    let recorded = recorded.unwrap_or_else(|problems| panic!("{}", problems[0]));
    println!("feeder_tests_trace replayed: {} nodes, {:?}", recorded.operations(), recorded.notes);
    assert!(recorded.operations() > 1000);
    let workload =
        read(&root.join("stg/g64/workload"), Some(64), &groups, &ReadOptions::default()).unwrap();
    println!(
        "stg/g64: {} ranks, {} programs, {} groups",
        64,
        workload.programs.len(),
        workload.groups.len()
    );
    assert_eq!(workload.programs.len(), 2, "two pipeline stages, each the same on 32 ranks");
    assert_eq!(graph::check(&workload, 64), []);
}

/// Each broken input of the corpus whose fault is in its traces: rank, and a part of what must be
/// said.
#[test]
fn broken_traces_of_the_conformance_corpus_are_explained() {
    let Some(bad) = shared("conformance/bad") else { return };
    let cases = [
        ("cycle_partial", "nodes wait for each other in a cycle: 1 -> 2 -> 1"),
        ("dangling_dep", "node 1: it depends on node 99, which is not in the trace"),
        ("dup_id", "node id 0 is defined twice"),
        ("metadata_only", "rank 2: the trace holds no nodes"),
        ("more_npus_than_traces", "no trace for"),
        ("fewer_npus_than_traces", "4 traces for a platform of"),
        ("negative_size", "comm_size is -5"),
        ("rank_mismatch_size", "disagree about collective 1"),
        ("send_to_self", "sends to itself"),
        ("send_wrong_src", "comm_src is 1 in the trace of rank 0"),
        ("trunc_half", "trunc_half/trace.2.et: rank 2 byte 8: the file ends"),
        ("unknown_comm_type", "comm_type is 42"),
    ];
    for (case, message) in cases {
        let npus = std::fs::read_to_string(bad.join(case).join("network.yml")).unwrap();
        let npus = npus
            .split("npus_count:")
            .nth(1)
            .unwrap()
            .split(['[', ']'])
            .nth(1)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let path = bad.join(case).join("trace");
        let problems = match read(&path, Some(npus), &[], &ReadOptions::default()) {
            Ok(workload) => graph::check(&workload, npus),
            Err(problems) => problems,
        };
        assert!(problems.iter().any(|p| p.to_string().contains(message)), "{case}: {problems:?}");
    }
}
