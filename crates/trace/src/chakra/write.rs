//! Writers: current-schema protobuf that ASTRA-sim reads, and protobuf's JSON mapping, one message
//! a line.
//!
//! Peers become ranks again and slots become group names. Durations are microseconds in the schema;
//! a fraction of one is rounded up there and kept exactly in the attribute
//! `duration_picos`, which other readers pass over. The kind of a kernel is the attribute `kernel`:
//! `attention`, `embedding(rows)` (`embedding_update(rows)`) for lookups in tables, or
//! `gemm(batch,m,n,k,width)` (`grouped(...)`) for a matrix multiplication, whose
//! `num_ops` and `tensor_size` follow from its shape. An access to memory that is not simply
//! outside the NPU says so in `memory_reach`: `local`, `in_switch`, `host` or `disk`; its tensor is
//! the number `memory_tensor`, where it is known. The group whose shards are gathered in switches is
//! `pg_name`, as that of a collective. The root of a rooted collective is the attribute `comm_root`, its position in the group, 0 when absent. What a
//! node changes in the memory of its NPU are `memory_allocates` (at its start) and `memory_frees`
//! (at its end), in bytes. The layer of a node is the attribute `layer`, where the name doesn't begin
//! with it. Groups themselves go to a communicator group file ([`write_groups`]): ASTRA-sim can't
//! read them from a trace.

use crate::wire::{put_bytes, put_number, put_varint};
use graph::{CollectiveKind, Gemm, Kernel, Members, MemoryChange, Op, Program, Reach, Workload};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use units::PS_PER_US;

const VERSION: &str = "0.0.4";

/// One attribute value with the type it is written as.
enum Attr {
    Int32(i32),
    Int64(i64),
    Uint32(u32),
    Uint64(u64),
    Bool(bool),
    Flags(u32),
    Text(String),
}

/// The number and name of a node's type.
fn node_type(op: &Op) -> (u64, &'static str) {
    match op {
        Op::Invalid => (0, "INVALID_NODE"),
        Op::Metadata => (1, "METADATA_NODE"),
        Op::Memory { store: false, .. } => (2, "MEM_LOAD_NODE"),
        Op::Memory { store: true, .. } => (3, "MEM_STORE_NODE"),
        Op::Compute { .. } | Op::Gemm(_) | Op::Grouped(_) | Op::Lookup(_) => (4, "COMP_NODE"),
        Op::Send { .. } => (5, "COMM_SEND_NODE"),
        Op::Recv { .. } => (6, "COMM_RECV_NODE"),
        Op::Collective { .. } => (7, "COMM_COLL_NODE"),
    }
}

fn comm_type(kind: CollectiveKind) -> i64 {
    match kind {
        CollectiveKind::AllReduce => 0,
        CollectiveKind::Reduce => 1,
        CollectiveKind::AllGather => 2,
        CollectiveKind::Gather => 3,
        CollectiveKind::Scatter => 4,
        CollectiveKind::Broadcast => 5,
        CollectiveKind::AllToAll => 6,
        CollectiveKind::ReduceScatter => 7,
        CollectiveKind::Barrier => 9,
    }
}

/// The attributes of node `i`; `groups` are the names behind the program's slots.
fn attributes(
    groups: &[String],
    rank: u32,
    program: &Program,
    i: usize,
) -> io::Result<Vec<(&'static str, Attr)>> {
    let (mut attrs, node) = (Vec::new(), &program.nodes()[i]);
    match node.op {
        Op::Metadata | Op::Invalid => {}
        Op::Compute { operations, bytes, cpu, kernel } => {
            attrs.push(("is_cpu_op", Attr::Bool(cpu)));
            attrs.extend(operations.map(|n| ("num_ops", Attr::Uint64(n))));
            attrs.extend(bytes.map(|b| ("tensor_size", Attr::Uint64(b.0))));
            attrs.extend(
                (kernel != Kernel::Other).then(|| ("kernel", Attr::Text(kernel.name().into()))),
            );
        }
        Op::Gemm(gemm) | Op::Grouped(gemm) => {
            let kind = if matches!(node.op, Op::Gemm(_)) { Kernel::Gemm } else { Kernel::Grouped };
            let Gemm { batch, m, n, k, width } = gemm;
            attrs.push(("is_cpu_op", Attr::Bool(false)));
            // Other readers know these two, in 64 bits; the shape gives them back.
            attrs.push((
                "num_ops",
                Attr::Uint64(u64::try_from(gemm.operations()).unwrap_or(u64::MAX)),
            ));
            attrs.push(("tensor_size", Attr::Uint64(gemm.bytes().0)));
            attrs.push((
                "kernel",
                Attr::Text(format!("{}({batch},{m},{n},{k},{width})", kind.name())),
            ));
        }
        Op::Lookup(lookup) => {
            attrs.push(("is_cpu_op", Attr::Bool(false)));
            attrs.push(("num_ops", Attr::Uint64(lookup.operations)));
            attrs.push(("tensor_size", Attr::Uint64(lookup.bytes.0)));
            let kernel = format!("{}({})", lookup.kernel().name(), lookup.rows);
            attrs.push(("kernel", Attr::Text(kernel)));
        }
        Op::Memory { bytes, reach, tensor, slot, .. } => {
            attrs.push(("tensor_size", Attr::Uint64(bytes.0)));
            attrs.extend((tensor != 0).then_some(("memory_tensor", Attr::Uint32(tensor))));
            attrs.extend(
                (reach != Reach::Remote).then(|| ("memory_reach", Attr::Text(reach.name().into()))),
            );
            let group = slot.map(|slot| groups[slot as usize].clone());
            attrs.extend(group.map(|group| ("pg_name", Attr::Text(group))));
        }
        Op::Send { peer, bytes, tag } | Op::Recv { peer, bytes, tag } => {
            let other = absolute(rank, program.offset(peer))?;
            let (src, dst) =
                if matches!(node.op, Op::Send { .. }) { (rank, other) } else { (other, rank) };
            attrs.push(("is_cpu_op", Attr::Bool(false)));
            attrs.push(("comm_src", Attr::Uint32(src)));
            attrs.push(("comm_dst", Attr::Uint32(dst)));
            attrs.push(("comm_tag", Attr::Uint32(tag)));
            attrs.push(("comm_size", Attr::Uint64(bytes.0)));
        }
        Op::Collective { kind, bytes, slot, priority, dims, root } => {
            attrs.push(("is_cpu_op", Attr::Bool(false)));
            attrs.push(("comm_type", Attr::Int64(comm_type(kind))));
            attrs.push(("comm_size", Attr::Uint64(bytes.0)));
            let group = &groups[slot as usize];
            attrs.extend((!group.is_empty()).then(|| ("pg_name", Attr::Text(group.clone()))));
            attrs.extend((priority != 0).then_some(("comm_priority", Attr::Int32(priority))));
            attrs.extend((dims != u32::MAX).then_some(("involved_dim", Attr::Flags(dims))));
            attrs.extend((root != 0).then_some(("comm_root", Attr::Uint32(root))));
        }
    }
    if !node.duration.0.is_multiple_of(PS_PER_US) {
        attrs.push(("duration_picos", Attr::Uint64(node.duration.0)));
    }
    attrs.extend(program.label(i).map(|layer| ("layer", Attr::Text(layer.into()))));
    let MemoryChange { allocates, frees } = program.held(i).unwrap_or_default();
    let sizes = [("memory_allocates", allocates.0), ("memory_frees", frees.0)];
    attrs.extend(
        sizes.into_iter().filter(|size| size.1 > 0).map(|(name, size)| (name, Attr::Uint64(size))),
    );
    Ok(attrs)
}

fn absolute(rank: u32, peer: i32) -> io::Result<u32> {
    u32::try_from(i64::from(rank) + i64::from(peer)).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("rank {rank} has a peer at {peer}, which is not a rank"),
        )
    })
}

fn ids<'p>(program: &'p Program, node: usize) -> impl Iterator<Item = u64> + 'p {
    program.deps(node).iter().map(|&dep| program.nodes()[dep as usize].id)
}

/// How many truth values `dims` needs.
fn flag_count(dims: u32) -> u32 {
    (32 - dims.leading_zeros()).max(1)
}

/// The names of the groups behind a rank's slots, "" for everybody.
fn group_names(workload: &Workload, rank: u32) -> Vec<String> {
    let name = |slot| {
        let group = &workload.groups[workload.group_of(rank, slot) as usize];
        if group.members == Members::All { String::new() } else { group.name.clone() }
    };
    (0..workload.program(rank).slots()).map(name).collect()
}

/// Writes the trace of `rank` as protobuf (schema 0.0.4).
///
/// # Errors
/// What `out` reports, and `InvalidData` for a peer below rank 0.
pub fn write_protobuf(workload: &Workload, rank: u32, out: &mut impl Write) -> io::Result<()> {
    write_program(workload.program(rank), &group_names(workload, rank), rank, out)
}

/// Writes a program as `rank` runs it, `groups` naming the groups behind its slots.
pub(super) fn write_program(
    program: &Program,
    groups: &[String],
    rank: u32,
    out: &mut impl Write,
) -> io::Result<()> {
    let (mut message, mut framed) = (Vec::new(), Vec::new());
    put_bytes(&mut message, 1, VERSION.as_bytes());
    frame(&message, &mut framed);
    for i in 0..program.nodes().len() {
        message.clear();
        encode_node(groups, rank, program, i, &mut message)?;
        frame(&message, &mut framed);
        if framed.len() > 1 << 16 {
            out.write_all(&framed)?;
            framed.clear();
        }
    }
    out.write_all(&framed)
}

fn frame(message: &[u8], framed: &mut Vec<u8>) {
    put_varint(framed, message.len() as u64);
    framed.extend_from_slice(message);
}

fn encode_node(
    groups: &[String],
    rank: u32,
    program: &Program,
    i: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let node = &program.nodes()[i];
    // Zeros are written too: an all-zero node would be an empty message.
    put_number(out, 1, node.id);
    if !program.name(i).is_empty() {
        put_bytes(out, 2, program.name(i).as_bytes());
    }
    put_number(out, 3, node_type(&node.op).0);
    let mut packed = Vec::new();
    ids(program, i).for_each(|id| put_varint(&mut packed, id));
    if !packed.is_empty() {
        put_bytes(out, 5, &packed);
    }
    if node.duration.0 > 0 {
        put_number(out, 7, node.duration.0.div_ceil(PS_PER_US));
    }
    for (name, value) in attributes(groups, rank, program, i)? {
        put_bytes(out, 10, &encode_attr(name, &value));
    }
    Ok(())
}

fn encode_attr(name: &str, value: &Attr) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    put_bytes(&mut out, 1, name.as_bytes());
    match value {
        Attr::Int32(v) => put_number(&mut out, 7, i64::from(*v) as u64),
        Attr::Int64(v) => put_number(&mut out, 9, *v as u64),
        Attr::Uint32(v) => put_number(&mut out, 11, u64::from(*v)),
        Attr::Uint64(v) => put_number(&mut out, 13, *v),
        Attr::Bool(v) => put_number(&mut out, 27, u64::from(*v)),
        Attr::Text(v) => put_bytes(&mut out, 29, v.as_bytes()),
        Attr::Flags(dims) => {
            let packed: Vec<u8> = (0..flag_count(*dims)).map(|d| (dims >> d & 1) as u8).collect();
            let mut list = Vec::new();
            put_bytes(&mut list, 1, &packed);
            put_bytes(&mut out, 28, &list);
        }
    }
    out
}

/// Writes the trace of `rank` as JSON, the metadata and then one node a line.
///
/// # Errors
/// What `out` reports, and `InvalidData` for a peer below rank 0.
pub fn write_json(workload: &Workload, rank: u32, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::json!({ "version": VERSION }))?;
    let (program, groups) = (workload.program(rank), group_names(workload, rank));
    for (i, node) in program.nodes().iter().enumerate() {
        let attrs: Vec<serde_json::Value> = attributes(&groups, rank, program, i)?
            .iter()
            .map(|(name, value)| json_attr(name, value))
            .collect();
        let line = serde_json::json!({
            "id": node.id.to_string(),
            "name": program.name(i),
            "type": node_type(&node.op).1,
            "dataDeps": ids(program, i).map(|id| id.to_string()).collect::<Vec<_>>(),
            "durationMicros": node.duration.0.div_ceil(PS_PER_US).to_string(),
            "attr": attrs,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn json_attr(name: &str, value: &Attr) -> serde_json::Value {
    use serde_json::json;
    match value {
        Attr::Int32(v) => json!({ "name": name, "int32Val": v }),
        Attr::Int64(v) => json!({ "name": name, "int64Val": v.to_string() }),
        Attr::Uint32(v) => json!({ "name": name, "uint32Val": v }),
        Attr::Uint64(v) => json!({ "name": name, "uint64Val": v.to_string() }),
        Attr::Bool(v) => json!({ "name": name, "boolVal": v }),
        Attr::Text(v) => json!({ "name": name, "stringVal": v }),
        Attr::Flags(dims) => {
            let values: Vec<bool> = (0..flag_count(*dims)).map(|d| dims >> d & 1 == 1).collect();
            json!({ "name": name, "boolList": { "values": values } })
        }
    }
}

/// Writes the groups that are not everybody as ASTRA-sim's communicator group file: `{"name":
/// [ranks]}`.
///
/// # Errors
/// What `out` reports.
pub fn write_groups(workload: &Workload, out: &mut impl Write) -> io::Result<()> {
    let world = workload.ranks.len() as u32;
    let mut object = serde_json::Map::new();
    for group in workload.groups.iter().filter(|group| group.members != Members::All) {
        let ranks: Vec<u32> =
            (0..group.members.len(world)).map(|p| group.members.rank(p)).collect();
        object.insert(group.name.clone(), ranks.into());
    }
    writeln!(out, "{}", serde_json::Value::Object(object))
}

/// Writes one trace a rank, `trace.<rank>.et`, into the directory `folder`, which must exist, and
/// `comm_group.json` next to them. Groups are numbered, because ASTRA-sim takes no other names.
///
/// # Errors
/// What the file system reports, and `InvalidData` for a peer below rank 0.
pub fn write_ranks(workload: &Workload, folder: &Path) -> io::Result<()> {
    let mut numbered = workload.clone();
    numbered.groups.iter_mut().enumerate().for_each(|(i, group)| group.name = (i + 1).to_string());
    for rank in 0..workload.ranks.len() as u32 {
        let mut out = BufWriter::new(File::create(folder.join(format!("trace.{rank}.et")))?);
        write_protobuf(&numbered, rank, &mut out)?;
        out.flush()?;
    }
    write_groups(&numbered, &mut File::create(folder.join("comm_group.json"))?)
}
