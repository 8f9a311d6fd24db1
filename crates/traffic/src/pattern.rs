//! Patterns of sources and destinations (Dally and Towles, "Principles and Practices of
//! Interconnection Networks", section 3.2).

use engine::Random;
use std::fmt;

/// Messages from one NPU to another, as a share of what the busiest NPU sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Source.
    pub src: u32,
    /// Destination.
    pub dst: u32,
    /// Weight, above 0.
    pub weight: f64,
}

/// Pattern of sources and destinations. An NPU whose destination is itself does not send.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// To any other NPU, each alike.
    Uniform,
    /// To the next NPU in every dimension.
    Neighbor,
    /// Almost half way round in every dimension: `ceil(k / 2) - 1` places further.
    Tornado,
    /// Two dimensions of one size: the coordinates swapped. Else the halves of the number's bits.
    Transpose,
    /// To the NPU whose number has all bits inverted.
    BitComplement,
    /// To the NPU whose number has its bits in reverse order.
    BitReverse,
    /// To the NPU whose number has its bits rotated left by one.
    Shuffle,
    /// A random permutation in which no NPU sends to itself.
    Permutation,
    /// A share of the messages to a few NPUs, the others uniformly.
    Hotspot {
        /// NPUs that get more.
        npus: Vec<u32>,
        /// Share of the messages, 0 to 1.
        share: f64,
    },
    /// To the next NPU of one ring of all: a ring collective.
    Ring,
    /// To all others in turn, the next first: a direct all-to-all.
    AllToAll,
    /// To the NPUs whose number differs in one bit, in turn: recursive doubling.
    RecursiveDoubling,
    /// These.
    Flows(Vec<Flow>),
}

impl Pattern {
    /// Patterns without parameters, each with its name and what it is.
    pub const NAMED: [(&'static str, &'static str, Pattern); 11] = [
        ("uniform", "to any other NPU", Pattern::Uniform),
        ("neighbor", "to the next NPU in every dimension", Pattern::Neighbor),
        ("tornado", "almost half way round in every dimension", Pattern::Tornado),
        ("transpose", "rows and columns swapped", Pattern::Transpose),
        ("bit-complement", "all bits of the number inverted", Pattern::BitComplement),
        ("bit-reverse", "the bits of the number reversed", Pattern::BitReverse),
        ("shuffle", "the bits of the number rotated", Pattern::Shuffle),
        ("permutation", "a random permutation", Pattern::Permutation),
        ("ring", "to the next NPU of one ring of all, as a ring collective", Pattern::Ring),
        ("all-to-all", "to all other NPUs in turn, as a direct all-to-all", Pattern::AllToAll),
        (
            "recursive-doubling",
            "to NPUs 1, 2, 4, ... away in turn, as recursive doubling",
            Pattern::RecursiveDoubling,
        ),
    ];
}

/// Why a pattern does not fit a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Description of the fault.
    pub message: String,
    /// Allowed values.
    pub allowed: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.allowed)
    }
}

#[derive(Clone, Debug)]
enum Rule {
    Uniform,
    /// Destination of each source.
    Fixed(Vec<u32>),
    Hotspot(Vec<u32>, u64),
    /// Destinations by source, with the upper end of each one's part of 2^64.
    Weighted(Vec<Vec<(u64, u32)>>),
    AllToAll,
    /// Doublings of numbers of this number of bits.
    Doubling(u32),
}

/// Destinations of messages, one by one.
#[derive(Clone, Debug)]
pub struct Destinations {
    rule: Rule,
    npus: u32,
    /// Messages that each source has sent.
    turns: Vec<u32>,
    /// Rate of each source as a share of the highest.
    rates: Vec<f64>,
}

impl Destinations {
    /// Destinations by `pattern` among NPUs in dimensions of these sizes, innermost first.
    ///
    /// # Errors
    /// A pattern that does not fit: a number of NPUs that is not a power of two, an NPU that does
    /// not exist, or no NPU that sends.
    pub fn new(pattern: &Pattern, sizes: &[u32], seed: u64) -> Result<Destinations, PatternError> {
        let npus: u32 = sizes.iter().product();
        let bits = || power_of_two(npus);
        let map = |to: &dyn Fn(u32) -> u32| Rule::Fixed((0..npus).map(to).collect());
        let mut rates = vec![1.0; npus as usize];
        let rule = match pattern {
            Pattern::Uniform => Rule::Uniform,
            Pattern::Neighbor => map(&|src| shifted(sizes, src, |_| 1)),
            Pattern::Tornado => map(&|src| shifted(sizes, src, |size| size.div_ceil(2) - 1)),
            Pattern::Transpose => transpose(sizes, npus)?,
            Pattern::BitComplement => {
                bits()?;
                map(&|src| npus - 1 - src)
            }
            Pattern::BitReverse => {
                let bits = bits()?;
                map(&|src| if bits == 0 { 0 } else { src.reverse_bits() >> (32 - bits) })
            }
            Pattern::Shuffle => {
                let bits = bits()?;
                map(&|src| if bits == 0 { 0 } else { (src << 1 | src >> (bits - 1)) & (npus - 1) })
            }
            Pattern::Permutation => Rule::Fixed(derangement(npus, seed)),
            Pattern::Hotspot { npus: hot, share } => hotspot(hot, *share, npus)?,
            Pattern::Ring => map(&|src| (src + 1) % npus),
            Pattern::AllToAll => Rule::AllToAll,
            Pattern::RecursiveDoubling => Rule::Doubling(bits()?),
            Pattern::Flows(flows) => weighted(flows, npus, &mut rates)?,
        };
        if npus < 2 {
            return Err(error("a single NPU has no destination", "at least 2 NPUs"));
        }
        if let Rule::Fixed(to) = &rule {
            (0..).zip(to).filter(|(src, dst)| src == *dst).for_each(|(src, _)| {
                rates[src as usize] = 0.0;
            });
        }
        if rates.iter().all(|&rate| rate == 0.0) {
            let text = "every NPU is its own destination, so nothing is sent";
            return Err(error(text, "another pattern, or larger dimensions"));
        }
        Ok(Destinations { rule, npus, turns: vec![0; npus as usize], rates })
    }

    /// NPUs that send, each with its rate as a share of the highest.
    pub fn senders(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        (0..).zip(&self.rates).filter(|(_, rate)| **rate > 0.0).map(|(src, &rate)| (src, rate))
    }

    /// Where the next message of `src` goes; never to itself.
    pub fn next(&mut self, src: u32, random: &mut Random) -> u32 {
        let npus = self.npus;
        let mut other = |src: u32| {
            let any = random.below(u64::from(npus) - 1) as u32;
            any + u32::from(any >= src)
        };
        let turn = &mut self.turns[src as usize];
        match &self.rule {
            Rule::Uniform => other(src),
            Rule::Fixed(to) => to[src as usize],
            Rule::Hotspot(hot, share) => {
                let is_hot = random.bits() < *share;
                let picked = hot[random.below(hot.len() as u64) as usize];
                if is_hot && picked != src {
                    return picked;
                }
                let any = random.below(u64::from(npus) - 1) as u32;
                any + u32::from(any >= src)
            }
            Rule::Weighted(flows) => {
                let (draw, flows) = (random.bits(), &flows[src as usize]);
                let at = flows.partition_point(|&(end, _)| end <= draw).min(flows.len() - 1);
                flows[at].1
            }
            Rule::AllToAll => {
                *turn = *turn % (npus - 1) + 1;
                (src + *turn) % npus
            }
            Rule::Doubling(bits) => {
                let bit = *turn % bits;
                *turn = (bit + 1) % bits;
                src ^ (1 << bit)
            }
        }
    }
}

fn error(message: impl Into<String>, allowed: impl Into<String>) -> PatternError {
    PatternError { message: message.into(), allowed: allowed.into() }
}

/// How many bits the numbers of NPUs have.
fn power_of_two(npus: u32) -> Result<u32, PatternError> {
    if npus.is_power_of_two() {
        return Ok(npus.ilog2());
    }
    let text = format!("the pattern swaps bits, and {npus} NPUs are not a power of two");
    Err(error(text, "a power of two of NPUs"))
}

/// The NPU that is `by` places further in every dimension.
fn shifted(sizes: &[u32], src: u32, by: impl Fn(u32) -> u32) -> u32 {
    let (mut stride, mut to) = (1, 0);
    for &size in sizes {
        to += (src / stride + by(size)) % size * stride;
        stride *= size;
    }
    to
}

fn transpose(sizes: &[u32], npus: u32) -> Result<Rule, PatternError> {
    if let [width, height] = *sizes
        && width == height
    {
        let swap = |src: u32| src % width * width + src / width;
        return Ok(Rule::Fixed((0..npus).map(swap).collect()));
    }
    let bits = power_of_two(npus).ok().filter(|bits| bits % 2 == 0);
    let Some(bits) = bits else {
        let text = format!("{npus} NPUs are not a square of two equal halves");
        return Err(error(text, "two dimensions of one size, or 4, 16, 64, 256, ... NPUs"));
    };
    let half = bits / 2;
    let swap = |src: u32| src >> half | (src & ((1 << half) - 1)) << half;
    Ok(Rule::Fixed((0..npus).map(swap).collect()))
}

/// Sattolo's algorithm (1986): one cycle through all NPUs, so that none sends to itself.
fn derangement(npus: u32, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut order: Vec<u32> = (0..npus).collect();
    for last in (1..npus as usize).rev() {
        order.swap(last, random.below(last as u64) as usize);
    }
    order
}

fn exists(npu: u32, npus: u32) -> Result<(), PatternError> {
    if npu < npus {
        return Ok(());
    }
    Err(error(format!("NPU {npu} does not exist"), format!("0 to {}", npus.saturating_sub(1))))
}

/// A share as a part of 2^64.
fn part(share: f64) -> u64 {
    (share * 2f64.powi(64)) as u64
}

fn hotspot(hot: &[u32], share: f64, npus: u32) -> Result<Rule, PatternError> {
    if hot.is_empty() {
        return Err(error("no NPU is a hotspot", "at least one NPU"));
    }
    if !(0.0..=1.0).contains(&share) {
        return Err(error(format!("invalid share: {share}"), "from 0 to 1"));
    }
    hot.iter().try_for_each(|&npu| exists(npu, npus))?;
    Ok(Rule::Hotspot(hot.to_vec(), part(share)))
}

fn weighted(flows: &[Flow], npus: u32, rates: &mut [f64]) -> Result<Rule, PatternError> {
    let mut rows: Vec<Vec<(f64, u32)>> = vec![Vec::new(); npus as usize];
    for &Flow { src, dst, weight } in flows {
        exists(src, npus)?;
        exists(dst, npus)?;
        if src == dst {
            return Err(error(format!("NPU {src} sends to itself"), "another destination"));
        }
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(error(format!("invalid weight: {weight}"), "a number above 0"));
        }
        rows[src as usize].push((weight, dst));
    }
    let sums: Vec<f64> = rows.iter().map(|row| row.iter().map(|flow| flow.0).sum()).collect();
    let most = sums.iter().copied().fold(0.0, f64::max);
    for (rate, sum) in rates.iter_mut().zip(&sums) {
        *rate = if most > 0.0 { sum / most } else { 0.0 };
    }
    let ends = |(row, sum): (Vec<(f64, u32)>, f64)| {
        let mut before = 0.0;
        let end = |(weight, dst)| {
            before += weight / sum;
            (part(before), dst)
        };
        row.into_iter().map(end).collect()
    };
    Ok(Rule::Weighted(rows.into_iter().zip(sums).map(ends).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(pattern: Pattern, sizes: &[u32]) -> Vec<(u32, u32)> {
        let mut to = Destinations::new(&pattern, sizes, 1).expect("a pattern that fits");
        let mut random = Random::new(1);
        let senders: Vec<u32> = to.senders().map(|(src, _)| src).collect();
        senders.into_iter().map(|src| (src, to.next(src, &mut random))).collect()
    }

    #[test]
    fn bits_are_swapped_as_the_book_says() {
        // Dally and Towles, table 3.1, for 4 bits.
        assert!(fixed(Pattern::BitComplement, &[16]).contains(&(0b0011, 0b1100)));
        assert!(fixed(Pattern::BitReverse, &[16]).contains(&(0b0010, 0b0100)));
        assert!(fixed(Pattern::Shuffle, &[16]).contains(&(0b1010, 0b0101)));
        assert!(fixed(Pattern::Transpose, &[16]).contains(&(0b0111, 0b1101)));
        assert!(fixed(Pattern::Transpose, &[4, 4]).contains(&(0b0111, 0b1101)));
        assert!(fixed(Pattern::Transpose, &[5, 5]).contains(&(1, 5)));
    }

    #[test]
    fn shifts_are_in_every_dimension() {
        assert!(fixed(Pattern::Neighbor, &[4, 4]).contains(&(15, 0)));
        assert!(fixed(Pattern::Tornado, &[8, 8]).contains(&(0, 3 + 3 * 8)));
        assert!(fixed(Pattern::Tornado, &[5]).contains(&(0, 2)));
    }

    #[test]
    fn who_is_his_own_destination_does_not_send() {
        let senders = fixed(Pattern::Transpose, &[4, 4]);
        assert_eq!(senders.len(), 12);
        assert!(senders.iter().all(|(src, dst)| src != dst));
    }

    #[test]
    fn a_permutation_reaches_everybody_once_and_nobody_himself() {
        let pairs = fixed(Pattern::Permutation, &[33]);
        let mut reached: Vec<u32> = pairs.iter().map(|pair| pair.1).collect();
        reached.sort_unstable();
        assert_eq!(reached, (0..33).collect::<Vec<_>>());
        assert!(pairs.iter().all(|(src, dst)| src != dst));
    }

    #[test]
    fn turns_go_to_all_others() {
        let mut to = Destinations::new(&Pattern::AllToAll, &[5], 1).expect("it fits");
        let mut random = Random::new(1);
        let reached: Vec<u32> = (0..5).map(|_| to.next(3, &mut random)).collect();
        assert_eq!(reached, [4, 0, 1, 2, 4]);
        let mut to = Destinations::new(&Pattern::RecursiveDoubling, &[8], 1).expect("it fits");
        let reached: Vec<u32> = (0..4).map(|_| to.next(5, &mut random)).collect();
        assert_eq!(reached, [4, 7, 1, 4]);
    }

    /// The share of a hotspot, and of each flow, is as asked for.
    #[test]
    fn shares_are_kept() {
        let mut random = Random::new(7);
        let hot = Pattern::Hotspot { npus: vec![3], share: 0.25 };
        let mut to = Destinations::new(&hot, &[101], 1).expect("it fits");
        let hits = (0..40_000).filter(|_| to.next(0, &mut random) == 3).count();
        let expected = 0.25 + 0.75 / 100.0;
        assert!((hits as f64 / 40_000.0 - expected).abs() < 0.01, "{hits}");
        let flow = |src, dst, weight| Flow { src, dst, weight };
        let flows = Pattern::Flows(vec![flow(0, 1, 3.0), flow(0, 2, 1.0), flow(1, 0, 2.0)]);
        let mut to = Destinations::new(&flows, &[3], 1).expect("it fits");
        assert_eq!(to.senders().collect::<Vec<_>>(), [(0, 1.0), (1, 0.5)]);
        let first = (0..40_000).filter(|_| to.next(0, &mut random) == 1).count();
        assert!((first as f64 / 40_000.0 - 0.75).abs() < 0.01, "{first}");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let wrong = |pattern: Pattern, sizes: &[u32]| {
            Destinations::new(&pattern, sizes, 1).expect_err("it does not fit").message
        };
        assert!(wrong(Pattern::Shuffle, &[12]).contains("12 NPUs are not a power of two"));
        assert!(wrong(Pattern::Transpose, &[8]).contains("8 NPUs"));
        assert!(wrong(Pattern::Tornado, &[2, 2]).contains("nothing is sent"));
        assert!(wrong(Pattern::Uniform, &[1]).contains("single NPU"));
        assert!(wrong(Pattern::Hotspot { npus: vec![9], share: 0.5 }, &[4]).contains("NPU 9"));
        let loop_ = Flow { src: 1, dst: 1, weight: 1.0 };
        assert!(wrong(Pattern::Flows(vec![loop_]), &[4]).contains("to itself"));
    }
}
