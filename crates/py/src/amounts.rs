//! The operations of each program of a workload, counted: products by shape, kernels by
//! operations and bytes, collectives and messages by bytes and members.
//!
//! Not here: sums by group (`workload.rs`).

use graph::{Op, Workload};
use std::collections::BTreeMap;

/// Program, ranks that run it, kind, numbers of the operation, how many there are.
///
/// The numbers are batch, m, n, k and bytes of an element of a product; operations and bytes of a
/// kernel; bytes of an access to memory; bytes, then members, of a collective; bytes and both ranks
/// of a message.
pub type Amount = (u32, u64, &'static str, Vec<u64>, u64);

/// Rows of each program, by kind and numbers; groups are those of its first rank.
pub fn amounts(workload: &Workload) -> Vec<Amount> {
    let mut first: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for (rank, binding) in workload.ranks.iter().enumerate() {
        first.entry(binding.program).or_insert((rank as u32, 0)).1 += 1;
    }
    let of = |(program, (rank, ranks)): (u32, (u32, u64))| {
        let row = move |((kind, numbers), count)| (program, ranks, kind, numbers, count);
        counted(workload, rank).into_iter().map(row)
    };
    first.into_iter().flat_map(of).collect()
}

/// How often a rank does the same.
fn counted(workload: &Workload, rank: u32) -> BTreeMap<(&'static str, Vec<u64>), u64> {
    let program = workload.program(rank);
    // Members of a group of many ranks are written once for each size, not for each node.
    let mut by_op: BTreeMap<(&'static str, Vec<u64>, Option<u32>), u64> = BTreeMap::new();
    for node in program.nodes() {
        let (kind, numbers, slot) = match node.op {
            Op::Gemm(shape) | Op::Grouped(shape) => {
                let kind = if matches!(node.op, Op::Gemm(_)) { "gemm" } else { "grouped" };
                let sides = [shape.batch, shape.m, shape.n, shape.k, u32::from(shape.width)];
                (kind, sides.map(u64::from).to_vec(), None)
            }
            Op::Compute { operations, bytes, kernel, .. } => {
                let bytes = bytes.map_or(0, |bytes| bytes.0);
                (kernel.name(), vec![operations.unwrap_or(0), bytes], None)
            }
            Op::Lookup(lookup) => {
                (lookup.kernel().name(), vec![lookup.operations, lookup.bytes.0], None)
            }
            Op::Memory { store, bytes, .. } => {
                (if store { "store" } else { "load" }, vec![bytes.0], None)
            }
            Op::Send { peer, bytes, .. } => {
                let to = rank.wrapping_add_signed(program.offset(peer));
                ("send", vec![bytes.0, u64::from(rank), u64::from(to)], None)
            }
            Op::Collective { kind, bytes, slot, .. } => (kind.name(), vec![bytes.0], Some(slot)),
            Op::Recv { .. } | Op::Metadata | Op::Invalid => continue,
        };
        *by_op.entry((kind, numbers, slot)).or_default() += 1;
    }
    let world = workload.ranks.len() as u32;
    let mut found = BTreeMap::new();
    for ((kind, mut numbers, slot), count) in by_op {
        if let Some(slot) = slot {
            let members = &workload.groups[workload.group_of(rank, slot) as usize].members;
            let ranks = (0..members.len(world)).map(|at| u64::from(members.rank(at)));
            numbers.extend(ranks);
        }
        *found.entry((kind, numbers)).or_default() += count;
    }
    found
}
