//! Custom collectives as Chakra files: one trace a position of the group, `prefix.<position>.et`.
//!
//! The files are ordinary Chakra traces in which sends, receives and computations act and
//! `comm_src`/`comm_dst` are positions in the group. Peers become offsets in positions, so `peer =
//! other position - own position`. Not here: what an algorithm does with its sizes (`collective`),
//! MSCCL XML ([`crate::msccl`]).

use crate::chakra::{self, ReadOptions};
use graph::{Op, Problem, Program};
use std::path::Path;
use std::sync::Arc;

/// The programs of positions 0, 1, 2, ..., equal ones shared. `path` takes every form of
/// [`chakra::find`]; `positions` is the size of the group, `None` for the number of files.
///
/// # Errors
/// Whatever is wrong with the traces, and nodes that a custom collective can't hold.
pub fn read(
    path: &Path,
    positions: Option<u32>,
    options: &ReadOptions,
) -> Result<Vec<Arc<Program>>, Vec<Problem>> {
    let workload = chakra::read(path, positions, &[], options)?;
    let file = path.display().to_string();
    let mut problems = Vec::new();
    for (i, program) in workload.programs.iter().enumerate() {
        let position =
            workload.ranks.iter().position(|binding| binding.program as usize == i).unwrap_or(0);
        problems.extend(program.nodes().iter().filter_map(|node| {
            let what = refused(&node.op)?;
            let place = format!("position {position} node {}", node.id);
            let help = "sends, receives, computations and metadata";
            Some(
                Problem::new(&file, place, format!("a custom collective contains a {what}"))
                    .help(help),
            )
        }));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(workload
        .ranks
        .iter()
        .map(|binding| Arc::clone(&workload.programs[binding.program as usize]))
        .collect())
}

fn refused(op: &Op) -> Option<&'static str> {
    match op {
        Op::Collective { .. } => Some("collective"),
        Op::Memory { .. } => Some("memory access"),
        Op::Send { .. }
        | Op::Recv { .. }
        | Op::Compute { .. }
        | Op::Gemm(_)
        | Op::Grouped(_)
        | Op::Lookup(_)
        | Op::Metadata
        | Op::Invalid => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chakra::write_protobuf;
    use graph::{CollectiveKind, Node, ProgramBuilder, Workload};
    use units::{Bytes, Span};

    fn written(name: &str, ranks: u32, op: impl Fn(u32) -> Vec<Op>) -> std::path::PathBuf {
        let directory =
            std::env::temp_dir().join(format!("armillary-custom-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for rank in 0..ranks {
            let mut builder = ProgramBuilder::default();
            for (id, op) in (0..).zip(op(rank)) {
                builder.push(Node { id, duration: Span::ZERO, op }, "", []);
            }
            let workload = Workload::uniform(builder.build().unwrap(), ranks);
            let mut bytes = Vec::new();
            write_protobuf(&workload, rank, &mut bytes).unwrap();
            std::fs::write(directory.join(format!("c.{rank}.et")), bytes).unwrap();
        }
        directory
    }

    #[test]
    fn positions_with_the_same_offsets_share_a_program() {
        let ring = |rank: u32| {
            let (next, previous) = (if rank == 3 { -3 } else { 1 }, if rank == 0 { 3 } else { -1 });
            let bytes = Bytes(64);
            vec![
                Op::Send { peer: next.into(), bytes, tag: 0 },
                Op::Recv { peer: previous.into(), bytes, tag: 0 },
            ]
        };
        let directory = written("ring", 4, ring);
        let programs = read(&directory, Some(4), &ReadOptions::default()).unwrap();
        assert_eq!(programs.len(), 4);
        assert!(Arc::ptr_eq(&programs[1], &programs[2]));
        assert_eq!(
            programs[3].by_offset(programs[3].nodes()[0]).op,
            Op::Send { peer: (-3).into(), bytes: Bytes(64), tag: 0 }
        );
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_collective_inside_is_refused() {
        let kind = CollectiveKind::AllReduce;
        let op =
            Op::Collective { kind, bytes: Bytes(8), slot: 0, priority: 0, dims: u32::MAX, root: 0 };
        let directory = written("nested", 2, |_| vec![op]);
        let problems = read(&directory, None, &ReadOptions::default()).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0]
                .to_string()
                .contains("position 0 node 0: a custom collective contains a collective")
        );
        std::fs::remove_dir_all(directory).unwrap();
    }

    /// ASTRA-sim's own example: a ring all-reduce of 1 MiB on 8 positions moves 14 pieces of an
    /// eighth.
    #[test]
    fn the_published_ring_reads() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/traces/astra-sim+astra-sim/examples/system/custom_collectives")
            .join("custom_ring_allreduce_8npus_1MB");
        if !path.exists() {
            println!("skipped: {} is absent", path.display());
            return;
        }
        let programs = read(&path, Some(8), &ReadOptions::default()).unwrap();
        for program in &programs {
            let sends = program.nodes().iter().filter_map(|n| match n.op {
                Op::Send { bytes, .. } => Some(bytes.0),
                _ => None,
            });
            assert_eq!(sends.collect::<Vec<_>>(), vec![131_072; 14]);
        }
    }
}
