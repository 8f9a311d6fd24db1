//! A pool on a ring of stations; each holds some NPUs and some memory groups, and passes on what is
//! not for it.
//!
//! Every NPU takes `W / M` from each of M groups, the shorter way round, half each way where both
//! are as long. The busiest of the links (each direction by itself) carries `load * W`, found by
//! adding up all pairs of stations; a tensor crosses the links between the pair that is farthest
//! apart. Groups carry `G W / M`, an NPU's own link W. Uneven counts: the first stations hold one
//! more. Source: Won et al., ISPASS 2023, section IV-D, Fig. 5 (the shape; loads by counting).

use super::stations::deal;
use super::{Access, Fault, Groups, Load, Pipeline, Sharing, Stage, Wire};
use units::Bytes;

/// Stations a ring may have, so that pairs can be counted.
const MOST: u32 = 1 << 13;

/// A pool on a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Ring {
    /// Stations on the ring.
    pub stations: u32,
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

impl Ring {
    pub(super) fn access(&self, npus: u32) -> Result<Access, Fault> {
        self.groups.check()?;
        if !(1..=MOST).contains(&self.stations) {
            return Err(Fault::new(
                "stations",
                format!("a ring of {} stations", self.stations),
                format!("1 to {MOST}"),
            ));
        }
        let stations = deal(npus, self.stations);
        let hops = self.farthest(&stations);
        let wires = [self.memory_side, self.between, self.npu_side];
        Ok(along(&self.groups, wires, self.chunk, self.loads(&stations), hops))
    }

    /// The most links between a group and an NPU.
    fn farthest(&self, npus: &[u64]) -> u32 {
        let n = self.stations as usize;
        let groups = deal(self.groups.count, self.stations);
        let far = |apart: usize| {
            (0..n).any(|at| groups[at] > 0 && npus[(at + apart) % n] > 0)
                || (0..n).any(|at| npus[at] > 0 && groups[(at + apart) % n] > 0)
        };
        (1..=n / 2).rev().find(|&apart| far(apart)).unwrap_or(0) as u32
    }

    /// Loads on the busiest links of each kind, if this number of NPUs of each station access the
    /// pool.
    pub(super) fn loads(&self, npus: &[u64]) -> [Load; 3] {
        let all: u64 = npus.iter().sum();
        let groups = u128::from(self.groups.count);
        let between = Load::new(self.busiest(npus), 2 * groups);
        [Load::new(all.into(), groups), between, Load::ONE]
    }

    /// Twice the (NPU, group) pairs on the busiest link.
    fn busiest(&self, npus: &[u64]) -> u128 {
        let groups = deal(self.groups.count, self.stations);
        // Messages to the left go to the right in a mirror.
        let mirror = |of: &[u64]| of.iter().rev().copied().collect::<Vec<u64>>();
        to_the_right(&groups, npus).max(to_the_right(&mirror(&groups), &mirror(npus)))
    }
}

/// Twice the pairs on the busiest link to the right. A pair goes right if that is shorter, and half
/// of it does if it is as far to the left.
fn to_the_right(groups: &[u64], npus: &[u64]) -> u128 {
    let n = groups.len();
    let whole = n.saturating_sub(1) / 2;
    let ahead = RingSums::new(npus);
    let behind = RingSums::new(&groups.iter().rev().copied().collect::<Vec<u64>>());
    // Twice the NPUs that a group reaches at least `skip` links on; and the groups that an NPU is
    // reached from.
    let reached = |sums: &RingSums, at: usize, skip: usize| {
        let half = if n.is_multiple_of(2) { sums.sum(at + n / 2, 1) } else { 0 };
        2 * sums.sum(at + skip, (whole + 1).saturating_sub(skip)) + half
    };
    // The link out of station 0 carries what comes from the stations up to `n / 2` before it.
    let first = (0..n / 2)
        .map(|back| u128::from(groups[(n - back) % n]) * reached(&ahead, n - back, back + 1));
    let mut on_link: u128 = first.sum();
    let mut most = on_link;
    for at in 1..n {
        on_link += u128::from(groups[at]) * reached(&ahead, at, 1);
        on_link -= u128::from(npus[at]) * reached(&behind, n - 1 - at, 1);
        most = most.max(on_link);
    }
    most
}

/// Sums over neighbours on a ring.
struct RingSums(Vec<u128>);

impl RingSums {
    fn new(of: &[u64]) -> RingSums {
        let sum = |sum: &mut u128, &of: &u64| {
            *sum += u128::from(of);
            Some(*sum)
        };
        let twice = of.iter().chain(of).chain(of).scan(0, sum);
        RingSums(std::iter::once(0).chain(twice).collect())
    }

    /// The sum over `count` stations from `from` on; at most three times round.
    fn sum(&self, from: usize, count: usize) -> u128 {
        self.0[from + count] - self.0[from]
    }
}

/// The way from groups over links between stations to NPUs, which a ring and a mesh share.
pub(super) fn along(
    groups: &Groups,
    wires: [Wire; 3],
    chunk: Bytes,
    loads: [Load; 3],
    hops: u32,
) -> Access {
    let names = ["memory to station", "station to station", "station to NPU"];
    let stage = |(name, (wire, load)): (&'static str, (Wire, Load))| Stage {
        name,
        load,
        bandwidth: wire.bandwidth,
        latency: wire.latency,
        hops: if name == names[1] { hops } else { 1 },
    };
    let stages = names.into_iter().zip(wires.into_iter().zip(loads)).map(stage).collect();
    Access::new(Sharing::PerNpu, Pipeline::new(stages, Some(chunk)), vec![groups.store()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::{Bandwidth, Span};

    fn ring(stations: u32, groups: u32) -> Ring {
        let wire = Wire { latency: Span::from_ns(10), bandwidth: Bandwidth(100_000_000_000) };
        let groups = Groups { count: groups, capacity: None };
        Ring {
            stations,
            groups,
            memory_side: wire,
            between: wire,
            npu_side: wire,
            chunk: Bytes(1_000),
        }
    }

    /// Even rings, an NPU and a group a station: a link carries the mean distance over two ways,
    /// n/8 of the n pairs' sum: n^2/8 of n W.
    #[test]
    fn an_even_ring_carries_an_eighth_of_its_size() {
        for n in [2u32, 4, 8, 64] {
            let (ring, npus) = (ring(n, n), deal(n, n));
            assert_eq!(ring.busiest(&npus), u128::from(n) * u128::from(n) / 4, "{n}");
            assert_eq!(ring.farthest(&npus), n / 2, "{n}");
        }
    }

    /// One group at station 0 of 4, an NPU a station: station 1 one hop right; station 2 half each
    /// way; station 3 left.
    #[test]
    fn one_group_sends_both_ways() {
        assert_eq!((ring(4, 1).busiest(&[1; 4]), ring(4, 1).farthest(&[1; 4])), (3, 2));
        let access = ring(4, 1).access(4).unwrap();
        let loads: Vec<f64> = access.own.stages.iter().map(|s| s.load.value()).collect();
        assert_eq!(loads, [4.0, 1.5, 1.0]);
    }

    #[test]
    fn one_station_has_no_ring() {
        assert_eq!(ring(1, 3).access(8).unwrap().own.stages[1].hops, 0);
        assert_eq!(ring(0, 3).access(8).unwrap_err().message, "a ring of 0 stations");
    }

    /// Twice the pairs on each link, to the right and to the left, pair by pair.
    fn walked(groups: &[u64], npus: &[u64]) -> u128 {
        let n = groups.len();
        let mut links = vec![[0u128; 2]; n];
        for (from, to) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|p| p.0 != p.1) {
            let pairs = u128::from(groups[from]) * u128::from(npus[to]);
            let right = (to + n - from) % n;
            let halves = match (2 * right).cmp(&n) {
                std::cmp::Ordering::Less => [2, 0],
                std::cmp::Ordering::Equal => [1, 1],
                std::cmp::Ordering::Greater => [0, 2],
            };
            (0..right).for_each(|k| links[(from + k) % n][0] += halves[0] * pairs);
            (0..n - right).for_each(|k| links[(to + k) % n][1] += halves[1] * pairs);
        }
        links.into_iter().flatten().max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn sums_count_what_walking_counts(
            npus in prop::collection::vec(0u64..4, 1..20), groups in 1u32..25,
        ) {
            let n = npus.len() as u32;
            prop_assert_eq!(ring(n, groups).busiest(&npus), walked(&deal(groups, n), &npus));
        }

        /// The load of all links together is the sum of the distances of all pairs, so the busiest
        /// carries at least the mean.
        #[test]
        fn no_less_than_the_mean(n in 2u32..20, groups in 1u32..25, npus in 1u32..25) {
            let (g, p) = (deal(groups, n), deal(npus, n));
            let halves = ring(n, groups).busiest(&p);
            let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
            let total: u64 = pairs.map(|(a, b)| {
                let d = a.abs_diff(b);
                g[a as usize] * p[b as usize] * u64::from(d.min(n - d))
            }).sum();
            prop_assert!(halves * 2 * u128::from(n) >= 2 * u128::from(total));
            prop_assert!(halves <= 2 * u128::from(total));
        }
    }
}
