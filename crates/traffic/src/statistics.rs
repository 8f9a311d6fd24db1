//! Where the warm-up ends, and how well a mean is known.

/// Batches over which a mean is known.
const BATCHES: usize = 20;
/// Quantile of Student's t for 95 % and 19 degrees of freedom.
const STUDENT: f64 = 2.093;

/// The number of leading means that belong to the warm-up, at most half: the one that leaves the
/// smallest standard error (MSER: White, "An effective truncation heuristic for bias reduction in
/// simulation output", Simulation 69, 1997).
pub fn warm_up(means: &[f64]) -> usize {
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut best, mut least) = (0, f64::INFINITY);
    let centre = means.last().copied().unwrap_or_default();
    for (at, mean) in means.iter().enumerate().rev() {
        let value = mean - centre;
        (sum, squares) = (sum + value, squares + value * value);
        let count = (means.len() - at) as f64;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        if at <= means.len() / 2 && error <= least {
            (best, least) = (at, error);
        }
    }
    best
}

/// A mean with what is known of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval, by 20 batch means.
    pub half_width: f64,
    /// Correlation of neighbouring batches. Above 0.4 the interval is too narrow.
    pub correlation: f64,
}

/// The mean of `values` and its confidence interval by batch means (Law, "Simulation Modeling and
/// Analysis", section 9.5.3).
pub fn interval(values: &[u64]) -> Interval {
    let size = (values.len() / BATCHES).max(1);
    let batches: Vec<f64> = values
        .chunks_exact(size)
        .take(BATCHES)
        .map(|batch| batch.iter().map(|&value| value as f64).sum::<f64>() / size as f64)
        .collect();
    let count = batches.len().max(1) as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let squares: f64 = batches.iter().map(|batch| (batch - mean).powi(2)).sum();
    let products: f64 = batches.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    let error = (squares / (count - 1.0).max(1.0) / count).sqrt();
    let correlation = if squares > 0.0 { products / squares } else { 0.0 };
    let all = values.iter().map(|&value| value as f64).sum::<f64>() / values.len().max(1) as f64;
    Interval { mean: all, half_width: STUDENT * error, correlation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Random;

    fn noise(random: &mut Random) -> f64 {
        random.below(2_000) as f64 - 1_000.0
    }

    #[test]
    fn a_transient_is_cut_off() {
        let mut random = Random::new(3);
        let means: Vec<f64> = (0..200u32)
            .map(|at| if at < 40 { 100.0 * f64::from(at) } else { 4_000.0 } + 0.05 * noise(&mut random))
            .collect();
        let cut = warm_up(&means);
        assert!((36..=60).contains(&cut), "{cut}");
        let flat: Vec<f64> = (0..200).map(|_| noise(&mut random)).collect();
        assert!(warm_up(&flat) < 100);
    }

    /// A series that never settles is cut at the limit.
    #[test]
    fn growth_without_end_is_cut_at_half() {
        let means: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(warm_up(&means), 100);
    }

    /// 95 of 100 intervals hold the mean.
    #[test]
    fn intervals_hold_the_mean() {
        let mut random = Random::new(5);
        let holds = (0..1_000)
            .filter(|_| {
                let values: Vec<u64> = (0..2_000).map(|_| random.exponential() >> 12).collect();
                let found = interval(&values);
                (found.mean - f64::from(1u32 << 20)).abs() <= found.half_width
            })
            .count();
        assert!((925..=975).contains(&holds), "{holds} of 1,000");
    }

    #[test]
    fn slow_waves_show_as_correlation() {
        let wave: Vec<u64> =
            (0..20_000).map(|at| if at / 5_000 % 2 == 0 { 1 } else { 9 }).collect();
        assert!(interval(&wave).correlation > 0.4);
    }
}
