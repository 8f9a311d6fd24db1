//! Which of several equally near next hops a message takes.
//!
//! A message carries a *key*. At a node with `k` next hops it takes hop `key % k` and goes on with
//! `key / k`: the choices along a route are the digits of its key. So one number decides the whole
//! route, choices at different nodes are independent, and on a fat tree the key `dst` gives
//! D-mod-K. The high bits of a key of D-mod-K turn every choice: messages to one destination that
//! leave by different cards then take different ways (`cards.rs`).
//!
//! Sources: D-mod-K: Zahavi, Johnson, Kerbyson, Lang, "Optimized InfiniBand fat-tree routing for
//! shift all-to-all communication patterns", CCPE 22 (2010). ECMP: RFC 2992. The hash is SplitMix64
//! (Steele, Lea, Flood, OOPSLA 2014).

use crate::LaneId;
use std::fmt;
use std::str::FromStr;

/// Which of several equally near next hops a message takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Routing {
    /// The policy that suits the fabric: on a graph [`Routing::DModK`], over all cards of an NPU;
    /// on a stack, opposite places of an even ring use both ways round.
    #[default]
    Auto,
    /// The lowest: all messages to a destination take one way.
    Lowest,
    /// Choice by destination: neighbouring destinations take different ways.
    DModK,
    /// By a hash of source and destination: all messages of a pair take one way (ECMP).
    Hash {
        /// Changes which way each pair takes.
        seed: u64,
    },
    /// Each node sends one message after the other to its next hops in turn.
    Spray,
}

impl Routing {
    /// The words of the policies, for files and error messages.
    pub const NAMES: [&'static str; 5] = ["auto", "lowest", "d_mod_k", "hash", "spray"];

    /// The word of the policy.
    pub const fn name(self) -> &'static str {
        match self {
            Routing::Auto => "auto",
            Routing::Lowest => "lowest",
            Routing::DModK => "d_mod_k",
            Routing::Hash { .. } => "hash",
            Routing::Spray => "spray",
        }
    }

    /// The key with which a message from `src` to destination number `dst` starts.
    #[inline]
    pub fn key(self, src: u32, dst: u32) -> u64 {
        match self {
            Routing::Auto | Routing::Lowest | Routing::Spray => 0,
            Routing::DModK => u64::from(dst),
            Routing::Hash { seed } => {
                mix(mix(seed).wrapping_add(u64::from(src) << 32 | u64::from(dst)))
            }
        }
    }
}

/// SplitMix64's step and output function.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The next digit of a key: one of `ways`, at least 1.
#[inline]
pub(crate) fn digit(key: &mut u64, ways: u32) -> u32 {
    let ways = u64::from(ways);
    let digit = *key % ways;
    *key /= ways;
    digit as u32
}

/// Low bits of a key of [`Routing::DModK`]; those above turn its choices.
const DIGITS: u32 = 48;

/// In the high bits: all cards are equally near, whatever their latency.
const OVER_CARDS: u16 = 1 << 15;

/// Whether all cards are equally near for a message with this key.
#[inline]
pub(crate) fn is_over_cards(key: u64) -> bool {
    (key >> DIGITS) as u16 & OVER_CARDS != 0
}

/// A key of [`Routing::DModK`] from its digits, with choices turned by the low bits of `turn`.
#[inline]
pub(crate) fn turned(digits: u64, turn: u16) -> u64 {
    digits & ((1 << DIGITS) - 1) | u64::from(turn) << DIGITS
}

/// The key of a lane between NPUs of these numbers, with `ways` to leave. The turn does not count
/// for the card.
pub(crate) fn over_cards((src, dst): (u32, u32), ways: u32, lane: LaneId) -> u64 {
    let (ways, dst, turn) = (u64::from(ways), u64::from(dst), u64::from(lane.turn));
    let back = ways - turn % ways;
    let first = u64::from(src) + dst + u64::from(lane.card) + back;
    turned(dst * ways + first % ways, lane.turn | OVER_CARDS)
}

/// The next digit of such a key: one of `ways`, at least 1.
#[inline]
pub(crate) fn turned_digit(key: &mut u64, ways: u32) -> u32 {
    let (high, mut digits) = ((*key >> DIGITS) as u16, turned(*key, 0));
    let way = digit(&mut digits, ways);
    *key = turned(digits, high);
    let turn = u64::from(high & !OVER_CARDS);
    ((u64::from(way) + turn) % u64::from(ways)) as u32
}

/// Whose turn it is at each node, for [`Routing::Spray`].
#[derive(Clone, Debug, Default)]
pub struct SprayTurns(Vec<u32>);

impl SprayTurns {
    /// The turn of `node`, one of `ways`.
    pub fn take(&mut self, node: u32, ways: u32) -> u32 {
        let node = node as usize;
        if self.0.len() <= node {
            self.0.resize(node + 1, 0);
        }
        let turn = self.0[node] % ways;
        self.0[node] = self.0[node].wrapping_add(1);
        turn
    }
}

/// `auto`, `lowest`, `d_mod_k`, `hash`, `hash(7)` with a seed, `spray`.
impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Routing::Hash { seed } if *seed != 0 => write!(f, "hash({seed})"),
            other => f.pad(other.name()),
        }
    }
}

impl FromStr for Routing {
    /// The allowed words.
    type Err = String;

    fn from_str(text: &str) -> Result<Routing, String> {
        let seed = text.strip_prefix("hash(").and_then(|rest| rest.strip_suffix(')'));
        match (text, seed.map(str::parse)) {
            ("auto", _) => Ok(Routing::Auto),
            ("lowest", _) => Ok(Routing::Lowest),
            ("d_mod_k", _) => Ok(Routing::DModK),
            ("hash", _) => Ok(Routing::Hash { seed: 0 }),
            ("spray", _) => Ok(Routing::Spray),
            (_, Some(Ok(seed))) => Ok(Routing::Hash { seed }),
            _ => Err("auto, lowest, d_mod_k, hash, hash(seed) such as hash(7), spray".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_print_and_read_back() {
        for text in ["auto", "lowest", "d_mod_k", "hash", "hash(7)", "spray"] {
            assert_eq!(text.parse::<Routing>().unwrap().to_string(), text);
        }
        for text in ["", "ecmp", "hash()", "hash(-1)", "hash(1", "Spray"] {
            assert!(text.parse::<Routing>().unwrap_err().starts_with("auto, lowest"), "{text}");
        }
    }

    #[test]
    fn digits_of_destinations_use_every_path_once() {
        // 4 x 8 ways: 32 neighbouring destinations take 32 different ones.
        let path = |dst| {
            let mut key = Routing::DModK.key(9, dst);
            (digit(&mut key, 4), digit(&mut key, 8))
        };
        let mut paths: Vec<_> = (64..96).map(path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), 32);
    }

    #[test]
    fn hashed_pairs_spread_evenly() {
        // 65,536 pairs over 16 x 16 ways: 256 each on average, standard deviation 16.
        let mut hits = [0u32; 256];
        for (src, dst) in (0..256).flat_map(|s| (0..256).map(move |d| (s, d))) {
            let mut key = Routing::Hash { seed: 1 }.key(src, dst);
            hits[(digit(&mut key, 16) * 16 + digit(&mut key, 16)) as usize] += 1;
        }
        assert!(hits.iter().all(|&h| (256 - 80..=256 + 80).contains(&h)), "{hits:?}");
        let other = Routing::Hash { seed: 2 };
        assert_ne!(other.key(0, 1), Routing::Hash { seed: 1 }.key(0, 1));
    }
}
