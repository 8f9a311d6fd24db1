//! A tensor on its way over several links, cut into chunks: the loads on the busiest links, moved
//! in step.
//!
//! Every NPU accesses a tensor of W bytes at once. A [`Stage`] stands for links of one kind; its
//! busiest link carries `load * W`. The first link moves `chunk` bytes at a time, `S =
//! ceil(load_1 W / chunk)` times; meanwhile link h moves its `load_h / load_1` of that. In a step
//! each link moves the chunk that the link before it moved in the step before; a step ends when its
//! slowest link has:
//!
//! `time = sum of latencies + sum over steps i of max over h of t_h(chunk i - h)`, `t_h(c) = c
//! load_h / (load_1 bandwidth_h)`
//!
//! The last chunk is what is left. If fewer NPUs access the memory, the loads are smaller, and a
//! tensor keeps its number of chunks ([`Pipeline::under`]). Source: Won et al., ASTRA-sim 2.0, ISPASS 2023, section IV-D,
//! Figs. 6 to 8.

use units::{Bandwidth, Bytes, Span};

const PS_PER_S: u128 = 1_000_000_000_000;

/// Bytes on a link for each byte an NPU accesses: a fraction, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    over: u128,
    under: u128,
}

/// Links of one kind, `hops` of them one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name of the links, for people.
    pub name: &'static str,
    /// On the busiest of them.
    pub load: Load,
    /// Bytes per second.
    pub bandwidth: Bandwidth,
    /// Paid once an access, by each hop.
    pub latency: Span,
    /// One behind the other.
    pub hops: u32,
}

/// The links from the memory to an NPU, the memory's own first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// In order; at least one.
    pub stages: Vec<Stage>,
    /// Bytes the first link moves at a time; everything at once when not given.
    pub chunk: Option<Bytes>,
    /// The load of the first link by which chunks are counted.
    first: Load,
}

impl Load {
    /// `over / under`; `under` is not 0.
    pub fn new(over: u128, under: u128) -> Load {
        let divisor = gcd(over, under).max(1);
        Load { over: over / divisor, under: (under / divisor).max(1) }
    }

    /// The bytes that the NPU accesses.
    pub const ONE: Load = Load { over: 1, under: 1 };

    /// On a link for an access of `bytes`, rounded up.
    pub fn of(self, bytes: Bytes) -> Bytes {
        let exact = u128::from(bytes.0).saturating_mul(self.over).div_ceil(self.under);
        Bytes(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    /// As a number, for people.
    pub fn value(self) -> f64 {
        self.over as f64 / self.under as f64
    }

    fn per(self, other: Load) -> Load {
        let (a, b) = (self.over.saturating_mul(other.under), self.under.saturating_mul(other.over));
        Load::new(a, b)
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Stage {
    /// One link after which nothing is shared.
    pub fn plain(name: &'static str, latency: Span, bandwidth: Bandwidth) -> Stage {
        Stage { name, load: Load::ONE, bandwidth, latency, hops: 1 }
    }

    /// Time for the part of `chunk` bytes of the first link that this link moves.
    fn time(&self, chunk: u64, first: Load) -> Span {
        let Load { over, under } = self.load.per(first);
        let exact = u128::from(chunk).checked_mul(PS_PER_S).and_then(|ps| ps.checked_mul(over));
        let bandwidth = u128::from(self.bandwidth.0).saturating_mul(under);
        Span(
            exact
                .and_then(|exact| u64::try_from(exact.div_ceil(bandwidth)).ok())
                .unwrap_or(u64::MAX),
        )
    }
}

impl Pipeline {
    /// Links that move `chunk` bytes at a time; there is at least one.
    pub fn new(stages: Vec<Stage>, chunk: Option<Bytes>) -> Pipeline {
        Pipeline { first: stages[0].load, stages, chunk }
    }

    /// One link.
    pub fn single(stage: Stage) -> Pipeline {
        Pipeline::new(vec![stage], None)
    }

    /// The same links with other loads; a tensor is cut into the same number of chunks.
    pub fn under(&self, loads: &[Load]) -> Pipeline {
        let stage = |(stage, &load): (&Stage, &Load)| Stage { load, ..stage.clone() };
        Pipeline { stages: self.stages.iter().zip(loads).map(stage).collect(), ..self.clone() }
    }

    /// Gathers of `members` NPUs by switches, where these are the gathers of `npus` NPUs.
    pub fn of_group(&self, members: u32, npus: u32) -> Pipeline {
        let part = |load: Load| {
            let (over, under) = (u128::from(members), u128::from(npus));
            Load::new(load.over.saturating_mul(over), load.under.saturating_mul(under))
        };
        let stage = |stage: &Stage| Stage { load: part(stage.load), ..stage.clone() };
        let stages = self.stages.iter().map(stage).collect();
        Pipeline { stages, chunk: self.chunk, first: part(self.first) }
    }

    /// Chunks that an access of `bytes` takes: the paper's number of pipeline stages.
    pub fn chunks(&self, bytes: Bytes) -> u64 {
        let first = self.first.of(bytes).0;
        self.chunk.map_or(u64::from(first > 0), |chunk| first.div_ceil(chunk.0.max(1)))
    }

    /// Time of an access of `bytes`; `Span(u64::MAX)` beyond 213 days.
    pub fn span(&self, bytes: Bytes) -> Span {
        let latency: Span = self.stages.iter().map(|s| s.latency * u64::from(s.hops)).sum();
        let (first, chunks) = (self.first.of(bytes).0, self.chunks(bytes));
        if chunks == 0 {
            return latency;
        }
        let chunk = self.chunk.map_or(first, |chunk| chunk.0);
        let last = first - (chunks - 1) * chunk;
        latency + in_step(&self.times(chunk), &self.times(last), chunks)
    }

    /// Time that each hop needs to move its part of `chunk` bytes of the first link.
    pub fn times(&self, chunk: u64) -> Vec<Span> {
        let hops =
            |stage: &Stage| std::iter::repeat_n(stage.time(chunk, self.first), stage.hops as usize);
        self.stages.iter().flat_map(hops).collect()
    }
}

/// The steps of `chunks` chunks over hops that take `full` each, `last` for the last chunk.
fn in_step(full: &[Span], last: &[Span], chunks: u64) -> Span {
    let hops = full.len() as u64;
    // While every hop is at work on a whole chunk, steps are alike.
    let alike = chunks.saturating_sub(hops);
    let filling = steps(full, last, chunks - alike);
    filling + full.iter().copied().max().unwrap_or_default() * alike
}

/// Step by step.
fn steps(full: &[Span], last: &[Span], chunks: u64) -> Span {
    let (hops, chunks) = (full.len(), chunks as usize);
    let step = |i: usize| {
        // Hop h moves chunk i - h, if there is one.
        let (low, high) = ((i + 1).saturating_sub(chunks), i.min(hops - 1));
        let whole = |h: usize| if i - h + 1 == chunks { last[h] } else { full[h] };
        (low..=high).map(whole).max().unwrap_or_default()
    };
    (0..hops + chunks - 1).map(step).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(over: u128, under: u128, gb: u64) -> Stage {
        let bandwidth = Bandwidth(gb * 1_000_000_000);
        Stage {
            name: "",
            load: Load::new(over, under),
            bandwidth,
            latency: Span::from_ns(7),
            hops: 1,
        }
    }

    #[test]
    fn one_link_is_latency_and_bytes_over_bandwidth() {
        let pipeline = Pipeline::single(stage(1, 1, 100));
        assert_eq!(pipeline.span(Bytes(1_000)), Span::from_ns(7 + 10));
        assert_eq!(pipeline.span(Bytes(0)), Span::from_ns(7));
        // Cutting into chunks changes nothing on one link.
        let cut = Pipeline { chunk: Some(Bytes(300)), ..pipeline };
        assert_eq!((cut.chunks(Bytes(1_000)), cut.span(Bytes(1_000))), (4, Span::from_ns(17)));
    }

    /// Two chunks over two links: t1, max(t1, t2), t2.
    #[test]
    fn a_step_ends_with_its_slowest_link() {
        let pipeline = Pipeline::new(vec![stage(1, 1, 100), stage(1, 1, 50)], Some(Bytes(1_000)));
        assert_eq!(pipeline.span(Bytes(2_000)), Span::from_ns(14 + 10 + 20 + 20));
    }

    #[test]
    fn what_no_span_holds_is_the_longest_one() {
        let slow = Stage { bandwidth: Bandwidth(1), ..stage(u128::from(u32::MAX), 1, 1) };
        assert_eq!(Pipeline::single(slow).span(Bytes(u64::MAX)), Span(u64::MAX));
    }

    proptest! {
        /// The short cut through steps that are alike changes nothing.
        #[test]
        fn alike_steps_may_be_counted(
            times in prop::collection::vec((1u64..50, 0u64..50), 1..6), chunks in 1u64..30,
        ) {
            let full: Vec<Span> = times.iter().map(|&(t, _)| Span(t)).collect();
            let last: Vec<Span> = times.iter().map(|&(t, l)| Span(l.min(t))).collect();
            prop_assert_eq!(in_step(&full, &last, chunks), steps(&full, &last, chunks));
        }

        /// No less than the busiest link's bytes, no more than every link's, one after the other.
        #[test]
        fn between_the_busiest_link_and_all_in_turn(
            links in prop::collection::vec((1u128..9, 1u128..9, 1u64..500), 1..5), bytes in 1u64..1 << 30, chunk in 1u64..1 << 22,
        ) {
            let stages: Vec<Stage> = links.iter().map(|&(over, under, gb)| stage(over, under, gb)).collect();
            let pipeline = Pipeline::new(stages, Some(Bytes(chunk)));
            let alone: Vec<u64> = pipeline.stages.iter().map(|s| s.bandwidth.span(s.load.of(Bytes(bytes))).0).collect();
            let latency = 7_000 * links.len() as u64;
            let (chunks, span) = (pipeline.chunks(Bytes(bytes)), pipeline.span(Bytes(bytes)).0);
            // Every step and every load rounds up by less than a picosecond or a byte.
            let slack = chunks + links.len() as u64 * 2_000;
            prop_assert!(span + slack >= latency + alone.iter().max().unwrap());
            prop_assert!(span <= latency + alone.iter().sum::<u64>() + links.len() as u64 * (chunks + 2_000));
        }
    }
}
