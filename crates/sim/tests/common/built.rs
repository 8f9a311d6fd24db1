//! Workloads built node by node.

use graph::{
    CollectiveKind, Group, Kernel, Members, Node, Op, ProgramBuilder, RankBinding, Workload,
};
use platform::config::native;
use sim::{BackendKind, Config, Source, Watch};
use std::sync::Arc;
use units::{Bytes, Span};

pub const WORK: Op =
    Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };

/// A workload of a program for each rank, equal ones stored once, with groups 0 (everybody) and the
/// given ones in every rank's slots.
pub fn workload(programs: &[&[(Op, &[u64])]], groups: &[&[u32]]) -> Workload {
    let mut built = Workload::default();
    for nodes in programs {
        let mut builder = ProgramBuilder::default();
        for (id, (op, after)) in nodes.iter().enumerate() {
            let node = Node { id: id as u64, duration: Span::from_ns(10), op: *op };
            builder.push(node, &format!("n{id}"), after.iter().copied());
        }
        let program = builder.build().expect("ids are unique");
        let known = built.programs.iter().position(|p| **p == program);
        let index = known.unwrap_or(built.programs.len());
        if known.is_none() {
            built.programs.push(Arc::new(program));
        }
        built.ranks.push(RankBinding { program: index as u32, slots: 0 });
    }
    built.slots = (0..=groups.len() as u32).collect();
    built.groups = vec![Group { name: "world".into(), members: Members::All }];
    let named = |(i, ranks): (usize, &&[u32])| Group {
        name: format!("g{i}"),
        members: Members::List(ranks.to_vec()),
    };
    built.groups.extend(groups.iter().enumerate().map(named));
    built
}

/// A run of `workload` on the native platform that `text` describes.
pub fn config(text: &str, workload: Workload, backend: BackendKind) -> Config {
    let platform = native::from_yaml(text, "p.yml", &[])
        .unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
    let workload = Source::Built(Box::new(workload));
    Config { workload, groups: Vec::new(), platform, backend, fold: true, watch: Watch::default() }
}

pub fn collective(kind: CollectiveKind, bytes: u64, slot: u32) -> Op {
    Op::Collective { kind, bytes: Bytes(bytes), slot, priority: 0, dims: u32::MAX, root: 0 }
}

pub fn send(peer: i32, bytes: u64) -> Op {
    Op::Send { peer: peer.into(), bytes: Bytes(bytes), tag: 0 }
}

pub fn recv(peer: i32, bytes: u64) -> Op {
    Op::Recv { peer: peer.into(), bytes: Bytes(bytes), tag: 0 }
}
