//! CPU time of this process, the least of several runs: other work on the machine can only add to
//! it.

use cpu_time::ProcessTime;
use std::time::Duration;

/// How often something is run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// At most this number of runs.
    pub runs: u32,
    /// No further run once so much CPU time is spent.
    pub budget: Duration,
}

impl Effort {
    /// Effort for figures that people read.
    pub const FULL: Effort = Effort { runs: 7, budget: Duration::from_secs(4) };
    /// Once: does it run at all?
    pub const QUICK: Effort = Effort { runs: 1, budget: Duration::ZERO };

    /// The least CPU seconds `work` took, and its last result. Dropping the result is not counted.
    pub fn least<T>(self, mut work: impl FnMut() -> T) -> (f64, T) {
        let (mut least, mut spent) = (Duration::MAX, Duration::ZERO);
        let mut run = 0;
        loop {
            let start = ProcessTime::now();
            let result = work();
            let took = start.elapsed();
            (least, spent, run) = (least.min(took), spent + took, run + 1);
            if run >= self.runs || spent >= self.budget {
                return (least.as_secs_f64(), result);
            }
        }
    }
}

/// Most memory this process ever held, in MB of 1e6 bytes; `None` where the system does not say.
pub fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_runs_that_the_budget_allows() {
        let mut runs = 0;
        let effort = Effort { runs: 3, budget: Duration::from_secs(60) };
        let (seconds, last) = effort.least(|| {
            runs += 1;
            runs
        });
        assert!(seconds >= 0.0 && last == 3);
        assert_eq!(Effort::QUICK.least(|| 7).1, 7);
    }

    #[test]
    fn memory_that_was_touched_counts() {
        let Some(before) = peak_memory_mb() else {
            return;
        };
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(
            peak_memory_mb().is_some_and(|after| after >= before.max(64.0)),
            "{} bytes",
            block.len()
        );
    }
}
