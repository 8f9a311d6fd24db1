//! A collective over several dimensions as phases, each on one dimension.
//!
//! With sizes `s_1 .. s_D` (dimension 1 innermost) and `m` bytes per NPU, the input of each phase:
//! reduce-scatter ascending, `m, m/s_1, m/(s_1 s_2), ...`; all-gather descending, `m, m s_D, ...`;
//! all-to-all ascending, always `m`; broadcast descending and reduce ascending, always `m`; scatter
//! descending, `m, m/s_D, ...`; gather ascending, `m, m s_1, ...`; barrier ascending, nothing.
//! Every division rounds up. All-reduce: see [`Hierarchy`]. Not here: the algorithm of a phase (one
//! file each) and when it starts (`sim`). Source: Rashidi et al., ISPASS 2020, section III-D;
//! Rashidi et al., HOTI 2020, Table II.

use declared::words;
use graph::CollectiveKind;

/// How an all-reduce over several dimensions is split into phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hierarchy {
    /// A whole all-reduce in each dimension in turn (ISPASS 2020, section III-D, "baseline").
    Baseline,
    /// Multi-rail: reduce-scatter on all dimensions but the last, all-reduce on the last,
    /// all-gather back. `2D-1` phases, and each dimension carries only what the ones inside it left
    /// (ISPASS 2020 "enhanced" on two dimensions; ASTRA-sim "localBWAware" on any number).
    Enhanced,
    /// HOTI 2020, Table II, "hierarchical all-reduce": a full all-reduce within the super-node
    /// (dimension 1), then one among the i-th nodes of all super-nodes, dimension by dimension. The
    /// phases of `Baseline`.
    Hierarchical,
    /// HOTI 2020, Table II, "hierarchical optimal" (3-phase): reduce-scatter on dimension 1, a full
    /// all-reduce in each of the others, all-gather on dimension 1. On three dimensions the 4-phase
    /// "enhanced" of ISPASS 2020, section III-D.
    HierarchicalOptimal,
}

words!(
    Hierarchy:
    "baseline" = Hierarchy::Baseline,
    "enhanced" = Hierarchy::Enhanced,
    "hierarchical" = Hierarchy::Hierarchical,
    "hierarchical_optimal" = Hierarchy::HierarchicalOptimal,
);

/// One algorithm on one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// Index of the dimension; `None`: one flat group over all ranks.
    pub dim: Option<u32>,
    /// Kind of the phase.
    pub kind: CollectiveKind,
    /// Bytes per NPU as `graph::Op::Collective` means them for `kind`.
    pub bytes: u64,
}

impl Phase {
    /// One phase over all ranks of the group, whatever its dimensions.
    pub fn flat(kind: CollectiveKind, bytes: u64) -> Phase {
        Phase { dim: None, kind, bytes }
    }
}

/// The phases of one collective over `dims`, pairs of dimension index and size, innermost first;
/// size 1 takes no part. `bytes` per NPU as `graph::Op::Collective` means them. Empty when there is
/// nothing to do.
///
/// The root of a phase is the root's coordinate in its dimension; who enters a phase of a rooted
/// kind: [`takes_part`].
pub fn phases(
    kind: CollectiveKind,
    bytes: u64,
    dims: &[(u32, u32)],
    hierarchy: Hierarchy,
) -> Vec<Phase> {
    let dims: Vec<(u32, u32)> = dims.iter().copied().filter(|&(_, size)| size > 1).collect();
    let up = || dims.iter();
    let down = || dims.iter().rev();
    match kind {
        CollectiveKind::AllReduce => all_reduce(bytes, &dims, hierarchy),
        CollectiveKind::ReduceScatter => sweep(kind, bytes, up(), divide),
        CollectiveKind::Scatter => sweep(kind, bytes, down(), divide),
        CollectiveKind::AllGather => sweep(kind, bytes, down(), multiply),
        CollectiveKind::Gather => sweep(kind, bytes, up(), multiply),
        CollectiveKind::Broadcast => sweep(kind, bytes, down(), keep),
        CollectiveKind::AllToAll | CollectiveKind::Reduce => sweep(kind, bytes, up(), keep),
        CollectiveKind::Barrier => sweep(kind, 0, up(), keep),
    }
}

/// Whether an NPU enters phase `index` of `phases`; `at_root(d)`: its coordinate in dimension `d`
/// is the root's.
///
/// Broadcast and scatter spread from the root: an NPU enters once its lines hold something, so it
/// must share the root's coordinate in the dimensions still to come. Reduce and gather close in: it
/// must share those already done.
pub fn takes_part(phases: &[Phase], index: usize, at_root: impl Fn(u32) -> bool) -> bool {
    let others = match phases[index].kind {
        CollectiveKind::Broadcast | CollectiveKind::Scatter => &phases[index + 1..],
        CollectiveKind::Reduce | CollectiveKind::Gather => &phases[..index],
        _ => return true,
    };
    others.iter().filter_map(|p| p.dim).all(at_root)
}

fn divide(bytes: u64, size: u32) -> u64 {
    bytes.div_ceil(u64::from(size))
}

fn multiply(bytes: u64, size: u32) -> u64 {
    bytes.saturating_mul(u64::from(size))
}

fn keep(bytes: u64, _: u32) -> u64 {
    bytes
}

/// `kind` on each dimension in turn; `next` makes the input of the following phase of this one's.
fn sweep<'a>(
    kind: CollectiveKind,
    bytes: u64,
    dims: impl Iterator<Item = &'a (u32, u32)>,
    next: impl Fn(u64, u32) -> u64,
) -> Vec<Phase> {
    let mut left = bytes;
    let phase = |&(dim, size): &(u32, u32)| {
        let bytes = left;
        left = next(left, size);
        Phase { dim: Some(dim), kind, bytes }
    };
    dims.map(phase).collect()
}

fn all_reduce(bytes: u64, dims: &[(u32, u32)], hierarchy: Hierarchy) -> Vec<Phase> {
    let scattered = match hierarchy {
        Hierarchy::Baseline | Hierarchy::Hierarchical => 0,
        Hierarchy::Enhanced => dims.len().saturating_sub(1),
        Hierarchy::HierarchicalOptimal => dims.len().saturating_sub(1).min(1),
    };
    let (inner, outer) = dims.split_at(scattered);
    let mut phases = sweep(CollectiveKind::ReduceScatter, bytes, inner.iter(), divide);
    let left = inner.iter().fold(bytes, |bytes, &(_, size)| divide(bytes, size));
    phases.extend(sweep(CollectiveKind::AllReduce, left, outer.iter(), keep));
    let mut back: Vec<Phase> = phases[..scattered].to_vec();
    for (phase, &(_, size)) in back.iter_mut().zip(inner) {
        *phase =
            Phase { kind: CollectiveKind::AllGather, bytes: divide(phase.bytes, size), ..*phase };
    }
    phases.extend(back.into_iter().rev());
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIMS: [(u32, u32); 3] = [(0, 2), (1, 1), (2, 8)];

    fn list(
        kind: CollectiveKind,
        bytes: u64,
        dims: &[(u32, u32)],
        hierarchy: Hierarchy,
    ) -> Vec<(u32, &'static str, u64)> {
        let phases = phases(kind, bytes, dims, hierarchy);
        phases.iter().map(|p| (p.dim.unwrap(), p.kind.name(), p.bytes)).collect()
    }

    #[test]
    fn ispass_four_phases_and_multi_rail() {
        let dims = [(0, 4), (1, 2), (2, 8)];
        let (rs, ar, ag) = ("reduce_scatter", "all_reduce", "all_gather");
        assert_eq!(
            list(CollectiveKind::AllReduce, 800, &dims, Hierarchy::HierarchicalOptimal),
            [(0, rs, 800), (1, ar, 200), (2, ar, 200), (0, ag, 200)]
        );
        assert_eq!(
            list(CollectiveKind::AllReduce, 800, &dims, Hierarchy::Enhanced),
            [(0, rs, 800), (1, rs, 200), (2, ar, 100), (1, ag, 100), (0, ag, 200)]
        );
        let whole = [(0, ar, 800), (1, ar, 800), (2, ar, 800)];
        assert_eq!(list(CollectiveKind::AllReduce, 800, &dims, Hierarchy::Baseline), whole);
        assert_eq!(list(CollectiveKind::AllReduce, 800, &dims, Hierarchy::Hierarchical), whole);
    }

    /// ASTRA-sim 2.0, Table IV: megabytes (2^20) per dimension and NPU of a 1 GiB all-reduce on
    /// 2_8_8_32, both ways together.
    #[test]
    fn table_iv_message_sizes() {
        let dims = [(0, 2), (1, 8), (2, 8), (3, 32)];
        let mut moved = [0.0; 4];
        for p in phases(CollectiveKind::AllReduce, 1 << 30, &dims, Hierarchy::Enhanced) {
            let size = f64::from(dims[p.dim.unwrap() as usize].1);
            let factor = match p.kind {
                CollectiveKind::ReduceScatter => (size - 1.0) / size,
                CollectiveKind::AllReduce => 2.0 * (size - 1.0) / size,
                _ => size - 1.0,
            };
            moved[p.dim.unwrap() as usize] += p.bytes as f64 * factor / f64::from(1 << 20);
        }
        assert_eq!(moved, [1024.0, 896.0, 112.0, 15.5]);
    }

    #[test]
    fn sizes_of_one_take_no_part_and_divisions_round_up() {
        let h = Hierarchy::Enhanced;
        assert_eq!(
            list(CollectiveKind::ReduceScatter, 7, &DIMS, h),
            [(0, "reduce_scatter", 7), (2, "reduce_scatter", 4)]
        );
        assert_eq!(
            list(CollectiveKind::AllGather, 3, &DIMS, h),
            [(2, "all_gather", 3), (0, "all_gather", 24)]
        );
        assert_eq!(
            list(CollectiveKind::AllToAll, 5, &DIMS, h),
            [(0, "all_to_all", 5), (2, "all_to_all", 5)]
        );
        assert_eq!(
            list(CollectiveKind::Scatter, 33, &DIMS, h),
            [(2, "scatter", 33), (0, "scatter", 5)]
        );
        assert_eq!(list(CollectiveKind::Gather, 3, &DIMS, h), [(0, "gather", 3), (2, "gather", 6)]);
        assert_eq!(
            list(CollectiveKind::Barrier, 9, &DIMS, h),
            [(0, "barrier", 0), (2, "barrier", 0)]
        );
        for h in [h, Hierarchy::Baseline, Hierarchy::Hierarchical, Hierarchy::HierarchicalOptimal] {
            assert_eq!(list(CollectiveKind::AllReduce, 9, &[(0, 1)], h), []);
            assert_eq!(list(CollectiveKind::AllReduce, 9, &[(3, 5)], h), [(3, "all_reduce", 9)]);
        }
    }

    #[test]
    fn sizes_saturate_instead_of_wrapping() {
        let last =
            phases(CollectiveKind::AllGather, u64::MAX / 2, &[(0, 8), (1, 8)], Hierarchy::Enhanced)
                .pop();
        assert_eq!(last.map(|p| p.bytes), Some(u64::MAX));
    }

    #[test]
    fn rooted_kinds_start_or_end_on_the_roots_line() {
        let broadcast = phases(CollectiveKind::Broadcast, 9, &DIMS, Hierarchy::Enhanced);
        assert_eq!(broadcast[0].dim, Some(2));
        assert!(takes_part(&broadcast, 0, |d| d == 0) && !takes_part(&broadcast, 0, |d| d == 2));
        assert!(takes_part(&broadcast, 1, |_| false));
        let reduce = phases(CollectiveKind::Reduce, 9, &DIMS, Hierarchy::Enhanced);
        assert!(takes_part(&reduce, 0, |_| false) && !takes_part(&reduce, 1, |d| d == 2));
    }
}
