//! Sizes of messages: all alike, or drawn from a distribution.

use engine::Random;

/// Sizes of messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All have this number of bytes.
    Fixed(u64),
    /// Each is drawn.
    Drawn(Distribution),
}

/// A distribution of sizes by points of its cumulative share. Between two points the share rises
/// in proportion to the bytes; two points of one size are a share of exactly that size.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Bytes and the share of messages that are not larger. Neither falls; the last share is 1.
    points: Vec<(f64, f64)>,
}

impl Sizes {
    /// Mean size, bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Fixed(bytes) => *bytes as f64,
            Sizes::Drawn(distribution) => distribution.mean(),
        }
    }

    /// The size of the next message.
    #[inline]
    pub fn next(&self, random: &mut Random) -> u64 {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Drawn(distribution) => distribution.draw(random),
        }
    }
}

impl Distribution {
    /// By points of bytes and the share of messages that are not larger, in this order.
    ///
    /// # Errors
    /// Points that are not a distribution: what is wrong with them.
    pub fn new(points: &[(u64, f64)]) -> Result<Distribution, String> {
        let Some(&(most, last)) = points.last() else { return Err("there are no points".into()) };
        let wrong = points.iter().find(|(_, share)| !(0.0..=1.0).contains(share));
        if let Some((bytes, share)) = wrong {
            return Err(format!("the share at {bytes} bytes is {share}, not between 0 and 1"));
        }
        if let Some(two) = points.windows(2).find(|two| two[1].0 < two[0].0 || two[1].1 < two[0].1)
        {
            return Err(format!("sizes and shares fall behind {} bytes", two[0].0));
        }
        if last != 1.0 {
            return Err(format!("the last share is {last}, not 1"));
        }
        if most == 0 || most > LARGEST {
            return Err(format!("the largest message has {most} bytes, not 1 to {LARGEST}"));
        }
        Ok(Distribution {
            points: points.iter().map(|&(bytes, share)| (bytes as f64, share)).collect(),
        })
    }

    /// Mean size, bytes, before sizes are rounded up to whole bytes.
    pub fn mean(&self) -> f64 {
        let (first, share) = self.points[0];
        let between = |two: &[(f64, f64)]| (two[1].1 - two[0].1) * (two[0].0 + two[1].0) / 2.0;
        first * share + self.points.windows(2).map(between).sum::<f64>()
    }

    /// A size: at least one byte, rounded up.
    fn draw(&self, random: &mut Random) -> u64 {
        let share = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
        let at = self.points.partition_point(|point| point.1 <= share).min(self.points.len() - 1);
        let (bytes, above) = self.points[at];
        let bytes = match at.checked_sub(1).map(|before| self.points[before]) {
            Some((least, below)) if above > below => {
                least + (bytes - least) * (share - below) / (above - below)
            }
            _ => bytes,
        };
        (bytes.ceil() as u64).max(1)
    }
}

/// Most bytes of a message.
const LARGEST: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[(u64, f64)]) -> Distribution {
        Distribution::new(points).expect("a distribution")
    }

    /// Shares and the mean of what is drawn are those of the points.
    #[test]
    fn drawn_sizes_have_the_distribution() {
        let points = [(0, 0.0), (100, 0.2), (100, 0.5), (10_000, 0.9), (1_000_000, 1.0)];
        let (distribution, mut random) = (of(&points), Random::new(7));
        let count = 200_000;
        let drawn: Vec<u64> = (0..count).map(|_| distribution.draw(&mut random)).collect();
        for (bytes, share) in [(50, 0.1), (99, 0.198), (100, 0.5), (10_000, 0.9), (505_000, 0.95)] {
            let found =
                drawn.iter().filter(|&&each| each <= bytes).count() as f64 / f64::from(count);
            assert!((found - share).abs() < 0.004, "{bytes}: {found}");
        }
        let mean = drawn.iter().sum::<u64>() as f64 / f64::from(count);
        assert!((mean / distribution.mean() - 1.0).abs() < 0.01, "{mean}");
        assert_eq!(drawn.iter().min(), Some(&1));
    }

    #[test]
    fn a_single_point_is_one_size() {
        let (one, mut random) = (of(&[(64, 1.0)]), Random::new(1));
        assert!((0..1_000).all(|_| one.draw(&mut random) == 64));
        assert_eq!(one.mean(), 64.0);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        let wrong: [&[(u64, f64)]; 8] = [
            &[],
            &[(1, 0.5)],
            &[(1, 0.5), (2, 1.5)],
            &[(1, -0.1), (2, 1.0)],
            &[(2, 0.5), (1, 1.0)],
            &[(1, 0.5), (2, 0.4), (3, 1.0)],
            &[(0, 1.0)],
            &[(1, f64::NAN), (2, 1.0)],
        ];
        for points in wrong {
            assert!(Distribution::new(points).is_err(), "{points:?}");
        }
    }
}
