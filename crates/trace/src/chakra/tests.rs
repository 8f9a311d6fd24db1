//! Round trips, broken input and the recorded files of others.

mod corpus;
mod faults;
mod files;
mod schemas;

use super::*;
use crate::wire::{put_bytes, put_number, put_varint};
use graph::{
    CollectiveKind, Gemm, Group, Kernel, Lookup, Members, Node, Op, Program, ProgramBuilder,
    RankBinding, Workload,
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
        (any::<[u64; 3]>(), any::<bool>()).prop_map(|([operations, bytes, rows], update)| {
            Op::Lookup(Lookup { operations, bytes: Bytes(bytes), rows, update })
        }),
        (any::<bool>(), any::<u64>(), proptest::sample::select(graph::Reach::ALL.to_vec()))
            .prop_map(|(store, bytes, reach)| Op::Memory {
                store,
                bytes: Bytes(bytes),
                reach,
                tensor: (bytes % 5) as u32,
                slot: (reach == graph::Reach::InSwitch && bytes % 2 == 0)
                    .then_some((bytes % 3) as u32),
            }),
        (1i32..3, any::<u64>(), any::<u32>()).prop_map(|(peer, b, tag)| Op::Send {
            peer: peer.into(),
            bytes: Bytes(b),
            tag
        }),
        (-2i32..0, any::<u64>(), any::<u32>()).prop_map(|(peer, b, tag)| Op::Recv {
            peer: peer.into(),
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
            if let Op::Collective { slot, .. } | Op::Memory { slot: Some(slot), .. } = &mut op {
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
            builder.hold(i, graph::MemoryChange { allocates, frees });
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
