//! Tokens of each expert of one rank: how routers spread tokens over experts.
//!
//! `balanced` deals tokens to experts in turn. A power law gives each expert a share that is drawn
//! from the density `x^-exponent`, and the busiest rank is the one that is timed; `DRAWS` draws of
//! a fixed seed are averaged. No expert takes a token twice, and what rounding leaves goes to the
//! experts with the fewest tokens.
//!
//! Source: ai-dynamo/aiconfigurator, collector/helper.py at 006afd78 (the loads of its measured
//! layers of experts).

use serde::Deserialize;
use std::cell::RefCell;
use std::collections::HashMap;

/// Loads that a thread remembers, at most.
const REMEMBERED: usize = 1 << 16;

thread_local! {
    /// Loads by their counts: a fit asks for the same ones at every step.
    static LOADS: RefCell<HashMap<(Routed, Routing, u64), Load>> = RefCell::default();
}

/// How a router spreads tokens over experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Routing {
    /// In turn.
    #[serde(rename = "balanced")]
    Balanced,
    /// A power law with exponent 1.01.
    #[serde(rename = "power_law_1.01")]
    Mild,
    /// A power law with exponent 1.2.
    #[serde(rename = "power_law_1.2")]
    Strong,
}

/// Draws of a power law that are averaged.
const DRAWS: u32 = 4;

/// Averages over the draws, of the rank that is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Experts that have a token.
    pub active: f64,
    /// Tokens of all experts together.
    pub rows: f64,
    /// Tokens that have an expert on the rank.
    pub tokens: f64,
    /// Tiles of `tile` rows that hold the tokens of each expert.
    pub tiles: f64,
}

/// The counts that routing depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Routed {
    /// Tokens.
    pub tokens: u64,
    /// Experts of the layer.
    pub experts: u64,
    /// Experts of each token.
    pub top_k: u64,
    /// Ranks that share the experts.
    pub ep: u64,
}

impl Routed {
    /// Load of the rank with `tile` rows in a tile.
    pub fn load(self, routing: Routing, tile: u64) -> Load {
        let key = (self, routing, tile);
        LOADS.with_borrow_mut(|loads| {
            if loads.len() >= REMEMBERED {
                loads.clear();
            }
            *loads.entry(key).or_insert_with(|| self.counted(routing, tile))
        })
    }

    fn counted(self, routing: Routing, tile: u64) -> Load {
        let draws = match routing {
            Routing::Balanced => 1,
            Routing::Mild | Routing::Strong => DRAWS,
        };
        let mut random = Random(12_345);
        let mut sum = Load::default();
        for _ in 0..draws {
            let counts = match routing {
                Routing::Balanced => self.in_turn(),
                Routing::Mild => self.drawn(&mut random, |low, high, u| {
                    hundredth(1.0 / (hundred_root(high)), 1.0 / hundred_root(low), u)
                }),
                Routing::Strong => self.drawn(&mut random, |low, high, u| {
                    fifth(1.0 / root(high, 5), 1.0 / root(low, 5), u)
                }),
            };
            let mine = &counts[..(self.experts / self.ep) as usize];
            sum.active += mine.iter().filter(|&&count| count > 0).count() as f64;
            sum.rows += mine.iter().sum::<u64>() as f64;
            sum.tokens += self.reached(&counts) as f64;
            sum.tiles += mine.iter().map(|count| count.div_ceil(tile)).sum::<u64>() as f64;
        }
        let draws = f64::from(draws);
        Load {
            active: sum.active / draws,
            rows: sum.rows / draws,
            tokens: sum.tokens / draws,
            tiles: sum.tiles / draws,
        }
    }

    /// Experts in turn, a stride apart for the choices of one token.
    fn in_turn(self) -> Vec<u64> {
        let stride = self.experts.div_ceil(self.top_k);
        let rounds = if self.tokens >= stride { self.tokens / self.experts } else { 0 };
        let mut counts = vec![rounds * self.top_k; self.experts as usize];
        for token in rounds * self.experts..self.tokens {
            let first = if self.tokens >= stride { token } else { token * stride / self.tokens };
            for choice in 0..self.top_k {
                counts[((first + choice * stride) % self.experts) as usize] += 1;
            }
        }
        counts
    }

    /// Shares of a power law, rounded, with the busiest rank first.
    fn drawn(self, random: &mut Random, share: impl Fn(f64, f64, f64) -> f64) -> Vec<u64> {
        let slots = self.tokens * self.top_k;
        let (low, high) =
            if slots > self.experts { (1.0, self.tokens as f64 * 0.8) } else { (0.01, 2.0) };
        let shares: Vec<f64> = (0..self.experts).map(|_| share(low, high, random.next())).collect();
        let total: f64 = shares.iter().sum();
        let mut counts: Vec<u64> = shares
            .iter()
            .map(|share| (share / total * slots as f64).round_ties_even() as u64)
            .collect();
        let over: u64 = counts.iter().map(|count| count.saturating_sub(self.tokens)).sum();
        for count in &mut counts {
            *count = (*count).min(self.tokens);
        }
        self.raise(&mut counts, over);
        let now: u64 = counts.iter().sum();
        self.raise(&mut counts, slots.saturating_sub(now));
        self.lower(&mut counts, now.saturating_sub(slots));
        let each = (self.experts / self.ep) as usize;
        let busiest = (0..self.ep as usize)
            .rev()
            .max_by_key(|rank| counts[rank * each..(rank + 1) * each].iter().sum::<u64>())
            .unwrap_or(0);
        for expert in 0..each {
            counts.swap(expert, busiest * each + expert);
        }
        counts
    }

    /// Adds `left` tokens, one for each rank in turn, to its first expert with the fewest.
    fn raise(self, counts: &mut [u64], mut left: u64) {
        let each = (self.experts / self.ep) as usize;
        let mut places: Vec<(u64, usize)> =
            counts.chunks(each).map(|own| (least(own), 0)).collect();
        while left > 0 {
            let mut moved = false;
            for (own, (level, next)) in counts.chunks_mut(each).zip(&mut places) {
                while *next < each && own[*next] != *level {
                    *next += 1;
                }
                if *next == each {
                    (*level, *next) = (least(own), 0);
                    while own[*next] != *level {
                        *next += 1;
                    }
                }
                if *level >= self.tokens || left == 0 {
                    continue;
                }
                own[*next] += 1;
                (left, moved) = (left - 1, true);
            }
            if !moved {
                return;
            }
        }
    }

    /// Takes `left` tokens, one for each rank in turn, from its first expert with the most.
    fn lower(self, counts: &mut [u64], mut left: u64) {
        let each = (self.experts / self.ep) as usize;
        let mut places: Vec<(u64, usize)> = counts.chunks(each).map(|own| (most(own), 0)).collect();
        while left > 0 {
            for (own, (level, next)) in counts.chunks_mut(each).zip(&mut places) {
                while *next < each && own[*next] != *level {
                    *next += 1;
                }
                if *next == each {
                    (*level, *next) = (most(own), 0);
                    while own[*next] != *level {
                        *next += 1;
                    }
                }
                if *level > 0 && left > 0 {
                    own[*next] -= 1;
                    left -= 1;
                }
            }
        }
    }

    /// Tokens with an expert on the first rank: experts take tokens in turn, the busiest first.
    fn reached(self, counts: &[u64]) -> u64 {
        let each = (self.experts / self.ep) as usize;
        if self.ep == 1 {
            return self.tokens;
        }
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by_key(|&expert| (std::cmp::Reverse(counts[expert]), expert));
        let (mut at, mut parts) = (0, Vec::new());
        for expert in order {
            let count = counts[expert];
            if expert < each && count > 0 {
                let first = at % self.tokens;
                parts.push((first, (first + count).min(self.tokens)));
                parts.push((0, (first + count).saturating_sub(self.tokens)));
            }
            at += count;
        }
        parts.sort_unstable();
        let (mut end, mut found) = (0, 0);
        for (from, to) in parts {
            found += to.saturating_sub(from.max(end));
            end = end.max(to);
        }
        found
    }
}

fn least(counts: &[u64]) -> u64 {
    counts.iter().copied().min().unwrap_or(0)
}

fn most(counts: &[u64]) -> u64 {
    counts.iter().copied().max().unwrap_or(0)
}

/// Numbers from 0 to below 1 (Steele and others, "Fast Splittable Pseudorandom Number Generators").
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / 9_007_199_254_740_992.0
    }
}

/// `y^-5`, with y between `low` and `high` by `u`.
fn fifth(high: f64, low: f64, u: f64) -> f64 {
    let y = (high - low) * u + low;
    let square = y * y;
    1.0 / (square * square * y)
}

/// `y^-100`, with y between `low` and `high` by `u`.
fn hundredth(high: f64, low: f64, u: f64) -> f64 {
    let y = (high - low) * u + low;
    let (fourth, mut power) = (y * y * y * y, 1.0);
    for _ in 0..25 {
        power *= fourth;
    }
    1.0 / power
}

/// The root of degree 100 of a positive number.
fn hundred_root(x: f64) -> f64 {
    root(x.sqrt().sqrt(), 25)
}

/// The root of a positive number, by Newton's steps from above.
fn root(x: f64, degree: u32) -> f64 {
    let degree_f = f64::from(degree);
    let mut y = 1.0 + (x - 1.0).max(0.0) / degree_f;
    for _ in 0..60 {
        let mut power = 1.0;
        for _ in 1..degree {
            power *= y;
        }
        y -= (power * y - x) / (degree_f * power);
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn roots_are_roots() {
        for x in [0.01f64, 1.0, 2.0, 13_107.2] {
            assert!((root(x, 5) / x.powf(0.2) - 1.0).abs() < 1e-12);
            assert!((hundred_root(x) / x.powf(0.01) - 1.0).abs() < 1e-12);
        }
    }

    fn routed() -> impl Strategy<Value = Routed> {
        (1..600u64, 0..4u32, 0..3u32, 1..9u64).prop_map(|(tokens, ranks, more, top_k)| {
            let ep = 1 << ranks;
            let experts = (ep << more) * 8;
            Routed { tokens, experts, top_k, ep }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_choice_has_an_expert(routed in routed()) {
            let slots = routed.tokens * routed.top_k;
            for (seed, share) in [(1, 5u32), (2, 100)] {
                let counts = routed.drawn(&mut Random(seed), |low, high, u| match share {
                    5 => fifth(1.0 / root(high, 5), 1.0 / root(low, 5), u),
                    _ => hundredth(1.0 / hundred_root(high), 1.0 / hundred_root(low), u),
                });
                prop_assert_eq!(counts.iter().sum::<u64>(), slots);
                prop_assert!(counts.iter().all(|&count| count <= routed.tokens));
                let each = counts.chunks((routed.experts / routed.ep) as usize);
                let ranks: Vec<u64> = each.map(|own| own.iter().sum()).collect();
                prop_assert_eq!(Some(&ranks[0]), ranks.iter().max());
            }
            prop_assert_eq!(routed.in_turn().iter().sum::<u64>(), slots);
        }

        #[test]
        fn loads_agree_with_each_other(routed in routed(), tile in 1..200u64) {
            for routing in [Routing::Balanced, Routing::Mild, Routing::Strong] {
                let load = routed.load(routing, tile);
                let choices = routed.tokens as f64 * routed.top_k as f64;
                prop_assert!(load.rows <= choices + 1e-9 && load.active <= load.tiles + 1e-9);
                prop_assert!(load.active <= (routed.experts / routed.ep) as f64);
                prop_assert!(load.tiles * tile as f64 + 1e-9 >= load.rows);
                prop_assert!(load.tokens <= load.rows + 1e-9 || routed.ep == 1);
                let alone = Routed { ep: 1, ..routed }.load(routing, tile);
                prop_assert!((alone.rows - choices).abs() < 1e-6);
            }
        }
    }
}
