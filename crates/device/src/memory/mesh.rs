//! A pool on a mesh of stations, `x` by `y`; each holds some NPUs and some memory groups, and
//! passes on what is not for it.
//!
//! Every NPU takes `W / M` from each of M groups, along x first and then along y. A link along x in
//! row r between columns c and c+1 carries `groups(row r, up to c) * npus(columns beyond c)` pairs
//! to the right; one along y in column c `groups(rows up to r) * npus(column c, rows beyond r)`;
//! and the other ways alike. A tensor crosses `x - 1 + y - 1` links at most. Uneven counts: the
//! first stations, row by row, hold one more. Source: Won et al., ISPASS 2023, section IV-D, Fig. 5
//! (the shape; loads by counting).

use super::ring::along;
use super::stations::deal;
use super::{Access, Fault, Groups, Load, Wire};
use units::Bytes;

/// Stations a mesh may have.
const MOST: u64 = 1 << 20;

/// A pool on a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Mesh {
    /// Stations along x and along y.
    pub stations: [u32; 2],
    /// Memory groups.
    pub groups: Groups,
    /// From a memory group to its station.
    pub memory_side: Wire,
    /// From a station to the next, each way.
    pub between: Wire,
    /// From a station to one of its NPUs.
    pub npu_side: Wire,
    /// Bytes a memory group hands out at a time.
    #[serde(rename = "chunk_bytes")]
    pub chunk: Bytes,
}

impl Mesh {
    pub(super) fn access(&self, npus: u32) -> Result<Access, Fault> {
        self.groups.check()?;
        let [x, y] = self.stations;
        if x == 0 || y == 0 || u64::from(x) * u64::from(y) > MOST {
            let message = format!("a mesh of {x} x {y} stations");
            return Err(Fault::new(
                "stations",
                message,
                format!("[x, y], both at least 1, with a product of at most {MOST}"),
            ));
        }
        let loads = self.loads(&deal(npus, x * y));
        let wires = [self.memory_side, self.between, self.npu_side];
        Ok(along(&self.groups, wires, self.chunk, loads, x + y - 2))
    }

    /// Loads on the busiest links of each kind, if this number of NPUs of each station access the
    /// pool.
    pub(super) fn loads(&self, npus: &[u64]) -> [Load; 3] {
        let all: u64 = npus.iter().sum();
        let groups = u128::from(self.groups.count);
        [Load::new(all.into(), groups), Load::new(self.busiest(npus), groups), Load::ONE]
    }

    /// The (NPU, group) pairs on the busiest link.
    fn busiest(&self, npus: &[u64]) -> u128 {
        let (x, y) = (self.stations[0] as usize, self.stations[1] as usize);
        let groups = deal(self.groups.count, (x * y) as u32);
        let sums = |of: &[u64], along: bool| -> Vec<u64> {
            let line = |i| {
                if along {
                    of[i * x..(i + 1) * x].iter().sum()
                } else {
                    of.iter().skip(i).step_by(x).sum()
                }
            };
            (0..if along { y } else { x }).map(line).collect()
        };
        let columns = sums(npus, false);
        let rows = (0..y).map(|row| crossings(&groups[row * x..(row + 1) * x], &columns));
        let by_row = sums(&groups, true);
        let column = |c: usize| npus.iter().skip(c).step_by(x).copied().collect::<Vec<u64>>();
        let along_y = (0..x).map(|c| crossings(&by_row, &column(c)));
        rows.chain(along_y).max().unwrap_or(0)
    }
}

/// The most pairs over any link of a line whose stations send `from` and take `to`, either way.
fn crossings(from: &[u64], to: &[u64]) -> u128 {
    let total = |of: &[u64]| of.iter().map(|&n| u128::from(n)).sum::<u128>();
    let (all_from, all_to) = (total(from), total(to));
    let (mut before, mut taken, mut most) = (0u128, 0u128, 0);
    for (f, t) in from.iter().zip(to).take(from.len().saturating_sub(1)) {
        (before, taken) = (before + u128::from(*f), taken + u128::from(*t));
        most = most.max(before * (all_to - taken)).max((all_from - before) * taken);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use units::{Bandwidth, Span};

    fn mesh(x: u32, y: u32, groups: u32) -> Mesh {
        let wire = Wire { latency: Span::from_ns(10), bandwidth: Bandwidth(100_000_000_000) };
        let groups = Groups { count: groups, capacity: None };
        Mesh {
            stations: [x, y],
            groups,
            memory_side: wire,
            between: wire,
            npu_side: wire,
            chunk: Bytes(1_000),
        }
    }

    /// Walks every pair over its links and counts.
    fn walked(mesh: &Mesh, npus: &[u64]) -> u128 {
        let [x, y] = mesh.stations;
        let groups = deal(mesh.groups.count, x * y);
        let mut links = BTreeMap::<(u32, u32), u128>::new();
        for (a, b) in (0..x * y).flat_map(|a| (0..x * y).map(move |b| (a, b))) {
            let pairs = u128::from(groups[a as usize]) * u128::from(npus[b as usize]);
            let (mut at, end) = ((a % x, a / x), (b % x, b / x));
            while at != end {
                let next = match (at.0.cmp(&end.0), at.1.cmp(&end.1)) {
                    (std::cmp::Ordering::Less, _) => (at.0 + 1, at.1),
                    (std::cmp::Ordering::Greater, _) => (at.0 - 1, at.1),
                    (_, std::cmp::Ordering::Less) => (at.0, at.1 + 1),
                    _ => (at.0, at.1 - 1),
                };
                *links.entry((at.1 * x + at.0, next.1 * x + next.0)).or_default() += pairs;
                at = next;
            }
        }
        links.into_values().max().unwrap_or(0)
    }

    /// 2 x 2, an NPU and a group each: a link along x carries one group to two NPUs.
    #[test]
    fn the_smallest_mesh() {
        assert_eq!(mesh(2, 2, 4).busiest(&[1; 4]), 2);
        assert_eq!(mesh(2, 2, 4).access(4).unwrap().own.stages[1].hops, 2);
    }

    #[test]
    fn a_mesh_without_stations_is_refused() {
        assert_eq!(mesh(0, 4, 1).access(4).unwrap_err().message, "a mesh of 0 x 4 stations");
    }

    proptest! {
        #[test]
        fn sums_count_what_walking_counts(
            x in 1u32..6, y in 1u32..6, groups in 1u32..40, npus in prop::collection::vec(0u64..4, 25),
        ) {
            let (mesh, npus) = (mesh(x, y, groups), &npus[..(x * y) as usize]);
            prop_assert_eq!(mesh.busiest(npus), walked(&mesh, npus));
        }
    }
}
