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
        let (halves, hops) = self.busiest(npus);
        let load = Load::new(halves, 2 * u128::from(self.groups.count));
        Ok(pool(
            npus,
            &self.groups,
            [self.memory_side, self.between, self.npu_side],
            self.chunk,
            load,
            hops,
        ))
    }

    /// Twice the (NPU, group) pairs on the busiest link, and the most links between a group and an
    /// NPU.
    fn busiest(&self, npus: u32) -> (u128, u32) {
        let n = self.stations as usize;
        let (npus, groups) = (deal(npus, self.stations), deal(self.groups.count, self.stations));
        // Pairs that start using the link out of a station less those that stop, by direction.
        let (mut right, mut left) = (vec![0i128; 2 * n + 1], vec![0i128; 2 * n + 1]);
        let mut hops = 0;
        for (from, &g) in groups.iter().enumerate().filter(|g| *g.1 > 0) {
            for apart in (1..n).filter(|apart| npus[(from + apart) % n] > 0) {
                let pairs = i128::from(g) * i128::from(npus[(from + apart) % n]);
                let (up, down) = if 2 * apart == n {
                    (1, 1)
                } else if 2 * apart < n {
                    (2, 0)
                } else {
                    (0, 2)
                };
                add(&mut right, from, apart, up * pairs);
                add(&mut left, from + apart, n - apart, down * pairs);
                hops = hops.max(apart.min(n - apart) as u32);
            }
        }
        (most(&right, n).max(most(&left, n)), hops)
    }
}

/// `pairs` more on `length` links from link `from` on; twice round so that no interval wraps.
fn add(change: &mut [i128], from: usize, length: usize, pairs: i128) {
    let n = (change.len() - 1) / 2;
    let from = from % n;
    change[from] += pairs;
    change[from + length] -= pairs;
}

/// The most on any link.
fn most(change: &[i128], n: usize) -> u128 {
    let mut sum = 0;
    let along: Vec<i128> = change[..2 * n]
        .iter()
        .map(|c| {
            sum += c;
            sum
        })
        .collect();
    (0..n).map(|link| (along[link] + along[link + n]) as u128).max().unwrap_or(0)
}

/// The way from groups over links between stations to NPUs, which a ring and a mesh share.
pub(super) fn pool(
    npus: u32,
    groups: &Groups,
    wires: [Wire; 3],
    chunk: Bytes,
    load: Load,
    hops: u32,
) -> Access {
    let [memory, between, npu] = wires;
    let stage = |name, load, wire: Wire, hops| Stage {
        name,
        load,
        bandwidth: wire.bandwidth,
        latency: wire.latency,
        hops,
    };
    let mut stages =
        vec![stage("memory to station", Load::new(npus.into(), groups.count.into()), memory, 1)];
    if hops > 0 {
        stages.push(stage("station to station", load, between, hops));
    }
    stages.push(stage("station to NPU", Load::ONE, npu, 1));
    let own = Pipeline { stages, chunk: Some(chunk) };
    Access::new(Sharing::PerNpu, own, vec![groups.store()])
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
            let (halves, hops) = ring(n, n).busiest(n);
            assert_eq!((halves, hops), (u128::from(n) * u128::from(n) / 4, n / 2), "{n}");
        }
    }

    /// One group at station 0 of 4, an NPU a station: station 1 one hop right; station 2 half each
    /// way; station 3 left.
    #[test]
    fn one_group_sends_both_ways() {
        assert_eq!(ring(4, 1).busiest(4), (3, 2));
        let access = ring(4, 1).access(4).unwrap();
        let loads: Vec<f64> = access.own.stages.iter().map(|s| s.load.value()).collect();
        assert_eq!(loads, [4.0, 1.5, 1.0]);
    }

    #[test]
    fn one_station_has_no_ring() {
        assert_eq!(ring(1, 3).access(8).unwrap().own.stages.len(), 2);
        assert_eq!(ring(0, 3).access(8).unwrap_err().message, "a ring of 0 stations");
    }

    proptest! {
        /// What all links carry is what all pairs are apart, so the busiest carries at least the
        /// mean.
        #[test]
        fn no_less_than_the_mean(n in 2u32..20, groups in 1u32..25, npus in 1u32..25) {
            let (halves, _) = ring(n, groups).busiest(npus);
            let (g, p) = (deal(groups, n), deal(npus, n));
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
