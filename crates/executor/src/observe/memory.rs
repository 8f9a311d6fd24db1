//! Contents of the memory of NPUs over time.
//!
//! Model: the value of a bin is the most that was held within it, so the largest value of a rank is
//! the peak in the report. Not here: what is held when (`executor/memory.rs`), and the time of
//! accesses to memory (`layers.rs`).

use super::bins;
use super::log::Log;
use super::source::Source;
use stats::HeldMemory;
use units::Time;

/// The memory of the first rank of each class in `first` whose program states what it holds.
pub(super) fn held(source: &Source, log: &Log, first: usize) -> Vec<HeldMemory> {
    let listed = source.classes.iter().take(first).enumerate();
    let tracked = listed.filter(|(_, rank)| source.workload.program(**rank).tracks_memory());
    let row = |(class, &rank): (usize, &u32)| HeldMemory {
        rank_class: class as u64,
        bytes: most_held(log.held(source.folding.local(rank)), source.step),
    };
    tracked.map(row).collect()
}

/// The most that is held within each bin of a run of `step`. `held` has times, and the bytes held
/// from then on.
pub fn most_held(changes: &[(Time, u64)], step: Time) -> Vec<u64> {
    let (width, mut changes) = (bins::width(step), changes.iter().peekable());
    let mut now = 0;
    let bin = |i: u64| {
        let mut most = now;
        // A change at the very end of a bin belongs to that bin.
        while let Some(&(_, held)) = changes.next_if(|(at, _)| at.0 <= (i + 1) * width) {
            now = held;
            most = most.max(held);
        }
        most
    };
    (0..step.0.div_ceil(width)).map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_each_bin_counts() {
        let width = bins::width(Time(1000));
        let at = |bin: u64, held| (Time(bin * width + 1), held);
        let changes = [
            (Time(0), 100),
            at(0, 110),
            at(0, 100),
            at(1, 130),
            (Time(2 * width), 135),
            at(3, 100),
        ];
        let found = most_held(&changes, Time(1000));
        assert_eq!(found.len() as u64, 1000u64.div_ceil(width));
        assert_eq!(&found[..5], [110, 135, 135, 135, 100]);
    }
}
