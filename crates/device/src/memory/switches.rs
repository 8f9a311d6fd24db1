//! A pool behind levels of switches; two levels are the hierarchical pool of in-node and out-node
//! switches.
//!
//! G NPUs are dealt evenly to the n_1 switches of level 1; every switch of a level is linked to
//! every one of the next; every one of M memory groups to every switch of the level the memory is
//! on. Tensors are striped over all groups and paths. For W bytes on each of G NPUs:
//!
//! | link | own tensor | in-switch |
//! | --- | --- | --- |
//! | memory group to a switch of level k > 1 | `G W / (M n_k)` | the same |
//! | memory group to a switch of level 1 | `ceil(G / n_1) W / M` | `G W / M` |
//! | switch of level i+1 to one of level i, i > 1 | `G W / (n_i n_i+1)` | the same |
//! | switch of level 2 to one of level 1 | `ceil(G / n_1) W / n_2` | `G W / n_2` |
//! | switch of level 1 to an NPU | `W` | `G W` |
//!
//! In-switch, shards of W are gathered as they are loaded (reduced and scattered as they are
//! stored), so an NPU gets G W bytes. Where G does not divide by n_1, the fullest switch counts. If
//! fewer NPUs access the pool, `tree.rs` says what the links carry.
//! Source: Won et al., ISPASS 2023, section IV-D, Figs. 6 and 8.

use super::tree::{Links, Tree, Users};
use super::{Access, Fault, Groups, Load, Pipeline, Sharing, Stage, Wire};
use units::Bytes;

/// Switches side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Level {
    /// How many.
    pub switches: u32,
    /// One of the links from a switch towards the NPUs.
    pub down: Wire,
}

/// A pool behind levels of switches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Switches {
    /// From the NPUs outwards.
    pub levels: Vec<Level>,
    /// The level that the memory groups are linked to, from 1.
    pub memory_level: u32,
    /// Memory groups.
    pub groups: Groups,
    /// One of the links between a memory group and a switch.
    pub memory_side: Wire,
    /// Bytes a memory group hands to a switch at a time.
    #[serde(rename = "chunk_bytes")]
    pub chunk: Bytes,
}

impl Switches {
    pub(super) fn access(&self, npus: u32) -> Result<Access, Fault> {
        self.check(npus)?;
        let links = self.links();
        let pipeline = |loads: &[Load]| {
            let stage = |(&(links, name, wire), &load): (&Link, &Load)| Stage {
                name,
                load,
                bandwidth: links.bandwidth,
                latency: wire.latency,
                hops: 1,
            };
            Pipeline::new(links.iter().zip(loads).map(stage).collect(), Some(self.chunk))
        };
        let (own, gather) = self.tree(npus).everybody();
        Ok(Access {
            in_switch: Some(pipeline(&gather)),
            ..Access::new(Sharing::PerNpu, pipeline(&own), vec![self.groups.store()])
        })
    }

    /// The links that NPUs share.
    pub(super) fn tree(&self, npus: u32) -> Tree {
        let links = self.links().into_iter().map(|link| link.0).collect();
        Tree::new(npus, self.levels[0].switches, links)
    }

    fn check(&self, npus: u32) -> Result<(), Fault> {
        self.groups.check()?;
        let levels = self.levels.len() as u32;
        if !(1..=levels).contains(&self.memory_level) {
            let message =
                format!("unknown switch level {}: the pool has {levels}", self.memory_level);
            return Err(Fault::new("memory_level", message, format!("1 to {levels}")));
        }
        if self.chunk.0 == 0 {
            return Err(Fault::new("chunk", "chunks of 0 bytes", "a size from 1 B"));
        }
        let first = self.levels[0].switches;
        if self.levels.iter().any(|level| level.switches == 0) || first > npus {
            let message = format!("{first} switches for {npus} NPUs");
            return Err(Fault::new(
                "levels",
                message,
                format!("1 to {npus} switches next to the NPUs, 1 or more above"),
            ));
        }
        Ok(())
    }

    /// From the memory to an NPU.
    fn links(&self) -> Vec<Link> {
        let used = &self.levels[..self.memory_level as usize];
        let n = |level: usize| u128::from(used[level].switches);
        let groups = u128::from(self.groups.count);
        let link = |users, parallel, name, wire: Wire| {
            (Links { users, parallel, bandwidth: wire.bandwidth }, name, wire)
        };
        let memory = match used.len() {
            1 => (Users::Node, groups),
            _ => (Users::All, groups * n(used.len() - 1)),
        };
        let mut links = vec![link(memory.0, memory.1, "memory to switch", self.memory_side)];
        for level in (1..used.len()).rev() {
            let (users, parallel) = match level {
                1 => (Users::Node, n(1)),
                _ => (Users::All, n(level) * n(level - 1)),
            };
            links.push(link(users, parallel, "switch to switch", used[level].down));
        }
        links.push(link(Users::One, 1, "switch to NPU", used[0].down));
        links
    }
}

/// Links of one kind, their name and one of them.
type Link = (Links, &'static str, Wire);

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bandwidth, Span};

    const GB: u64 = 1_000_000_000;

    fn wire(gb: u64) -> Wire {
        Wire { latency: Span::ZERO, bandwidth: Bandwidth(gb * GB) }
    }

    /// The worked example of section IV-D: 16 nodes of 16 GPUs, 4 out-node switches, 8 remote
    /// memory groups.
    fn example() -> Switches {
        Switches {
            levels: vec![
                Level { switches: 16, down: wire(256) },
                Level { switches: 4, down: wire(50) },
            ],
            memory_level: 2,
            groups: Groups { count: 8, capacity: None },
            memory_side: wire(100),
            chunk: Bytes(1_000_000),
        }
    }

    fn loads(pipeline: &Pipeline, w: u64) -> Vec<u64> {
        pipeline.stages.iter().map(|stage| stage.load.of(Bytes(w)).0).collect()
    }

    /// "Each link has to transfer 8W", "4W", and W to each GPU; each of the 8 groups has 4 links,
    /// so 32W.
    #[test]
    fn links_of_the_worked_example_carry_what_the_paper_says() {
        let w = 1_000_003;
        let access = example().access(256).unwrap();
        assert_eq!(loads(&access.own, w), [8 * w, 4 * w, w]);
        assert_eq!(4 * loads(&access.own, w)[0], 32 * w);
        // "forwarding 64W to each node. As a result, each in-node switch receives 256W".
        let in_switch = access.in_switch.unwrap();
        assert_eq!(loads(&in_switch, w), [8 * w, 64 * w, 256 * w]);
    }

    /// The paper's five equations for the number of stages and the three times, with their own
    /// symbols.
    #[test]
    fn stage_counts_and_times_are_the_papers() {
        let (w, gpus, nodes, groups, switches, chunk) =
            (64_000_000u64, 256u64, 16u64, 8u64, 4u64, 1_000_000u64);
        let access = example().access(256).unwrap();
        let count = w * gpus / groups / switches / chunk;
        let ns = |bytes: u64, gb: u64| Span::from_ns(bytes / gb);
        assert_eq!(access.own.chunks(Bytes(w)), count);
        let own = [
            ns(chunk, 100),
            ns(groups * chunk / nodes, 50),
            Span(groups * switches * chunk * 1_000 / gpus / 256 + 1),
        ];
        assert_eq!(access.own.times(chunk), own);
        let in_switch = access.in_switch.unwrap();
        assert_eq!(in_switch.chunks(Bytes(w)), count);
        assert_eq!(
            in_switch.times(chunk),
            [ns(chunk, 100), ns(groups * chunk, 50), ns(groups * switches * chunk, 256)]
        );
        // The sum of the critical path: t1, max(t1, t2), then whole steps, max(t2, t3), t3; t1 = t2
        // = 10 us here.
        let t3 = own[2];
        assert_eq!(access.own.span(Bytes(w)), Span::from_ns(10_000) * (count + 1) + t3);
        // In-switch the last link is the slowest: 10 us, 160 us, then 125 us... max is 160 us all
        // along.
        assert_eq!(in_switch.span(Bytes(w)), Span::from_ns(10_000 + 160_000 * count + 125_000));
    }

    /// All groups are linked to each of 4 nodes of 16 and, if 62 NPUs are dealt, 15.
    #[test]
    fn memory_next_to_the_nodes_is_shared_by_node() {
        let levels = vec![Level { switches: 4, down: wire(256) }];
        let pool = Switches { levels, memory_level: 1, ..example() };
        for npus in [64, 62] {
            let access = pool.access(npus).unwrap();
            assert_eq!(loads(&access.own, 1_000), [2_000, 1_000]);
            let all = u64::from(npus) * 1_000;
            assert_eq!(loads(&access.in_switch.unwrap(), 1_000), [all / 8, all]);
        }
    }

    /// 250 NPUs on 16 switches: the fullest has 16.
    #[test]
    fn the_fullest_switch_counts() {
        let access = example().access(250).unwrap();
        assert_eq!(loads(&access.own, 32_000), [250_000, 128_000, 32_000]);
    }

    #[test]
    fn a_third_level_splits_once_more() {
        let mut pool = example();
        pool.levels.push(Level { switches: 2, down: wire(400) });
        pool.memory_level = 3;
        let access = pool.access(256).unwrap();
        // 256 W over 8 groups of 2 links; over 2 x 4 links; then as before.
        assert_eq!(loads(&access.own, 1_000), [16_000, 32_000, 4_000, 1_000]);
        assert_eq!(loads(&access.in_switch.unwrap(), 1_000), [16_000, 32_000, 64_000, 256_000]);
    }

    #[test]
    fn impossible_pools_are_refused_with_the_numbers() {
        let refusal = |change: &dyn Fn(&mut Switches)| {
            let mut pool = example();
            change(&mut pool);
            pool.access(256).unwrap_err().message
        };
        assert_eq!(refusal(&|p| p.groups.count = 0), "the pool has 0 memory groups");
        assert_eq!(refusal(&|p| p.memory_level = 3), "unknown switch level 3: the pool has 2");
        assert_eq!(refusal(&|p| p.levels[0].switches = 300), "300 switches for 256 NPUs");
        assert_eq!(refusal(&|p| p.chunk = Bytes(0)), "chunks of 0 bytes");
    }
}
