//! Tasks that threads share.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::workers;

/// Tasks in shares, one for each thread. A thread takes the tasks of its own share first, and then
/// those that others have left. So it finds the same rows in its caches pass after pass.
pub struct Shares {
    /// The first task of each share that is not taken, and the end of the share.
    shares: Vec<(AtomicUsize, usize)>,
}

impl Shares {
    /// Shares of tasks with the sizes `sizes`: tasks that follow each other, of about the same size
    /// together.
    pub fn new(sizes: impl Iterator<Item = usize> + Clone, threads: usize) -> Self {
        let (all, mut before) = (sizes.clone().sum::<usize>().max(1), 0);
        let mut counts = vec![0; threads];
        for size in sizes {
            // The thread in whose share the middle of the task is.
            counts[((before + size / 2) * threads / all).min(threads - 1)] += 1;
            before += size;
        }
        let mut end = 0;
        let share = |count| {
            end += count;
            (AtomicUsize::new(end - count), end)
        };
        Self { shares: counts.into_iter().map(share).collect() }
    }

    /// The next task of a thread.
    pub fn take(&self, thread: usize) -> Option<usize> {
        let (others, own) = self.shares.split_at(thread);
        own.iter().chain(others).find_map(|(next, end)| {
            let left = next.load(Ordering::Relaxed) < *end;
            let task = left.then(|| next.fetch_add(1, Ordering::Relaxed))?;
            (task < *end).then_some(task)
        })
    }
}

/// Runs `work` for each task below `tasks`, on up to `threads` threads. Each thread has a state of
/// its own, made by `state` and given to `done` in the end.
pub fn run<S>(
    tasks: usize,
    threads: usize,
    state: impl Fn() -> S + Sync,
    done: impl Fn(S) + Sync,
    work: impl Fn(usize, &mut S) + Sync,
) {
    let threads = threads.min(tasks).max(1);
    let shares = Shares::new((0..tasks).map(|_| 1), threads);
    workers::run(threads - 1, &|thread| {
        let mut own = state();
        while let Some(task) = shares.take(thread) {
            work(task, &mut own);
        }
        done(own);
    });
}

/// Result of `find` for the first task for which it finds something, on up to `threads` threads.
pub fn first<T>(
    tasks: usize,
    threads: usize,
    find: impl Fn(usize) -> Option<T> + Sync,
) -> Option<T> {
    let first = AtomicUsize::new(usize::MAX);
    let look = |task, (): &mut ()| {
        if task < first.load(Ordering::Relaxed) && find(task).is_some() {
            first.fetch_min(task, Ordering::Relaxed);
        }
    };
    run(tasks, threads, || (), |()| (), look);
    let first = first.into_inner();
    if first < tasks { find(first) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Shares, first, run};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 5] {
            let counts: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            run(
                100,
                threads,
                || (),
                |()| (),
                |task, ()| {
                    counts[task].fetch_add(1, Ordering::Relaxed);
                },
            );
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
    #[test]
    fn threads_have_shares_of_about_the_same_size() {
        let taken = |sizes: &[usize], threads: usize, by: &[usize]| -> Vec<Option<usize>> {
            let shares = Shares::new(sizes.iter().copied(), threads);
            by.iter().map(|&thread| shares.take(thread)).collect()
        };
        let some = |tasks: &[usize]| tasks.iter().map(|&task| Some(task)).collect::<Vec<_>>();
        assert_eq!(taken(&[1; 6], 2, &[0, 1, 1, 1, 1, 0]), some(&[0, 3, 4, 5, 1, 2]));
        assert_eq!(taken(&[9, 1, 4, 4], 2, &[1, 1, 0, 1]), some(&[1, 2, 0, 3]));
        assert_eq!(taken(&[0, 100, 0], 3, &[2, 2, 2, 2]), [Some(2), Some(0), Some(1), None]);
        assert_eq!(taken(&[], 2, &[0, 1]), [None, None]);
    }

    #[test]
    fn the_first_is_found() {
        for threads in [1, 3] {
            let find = |task: usize| [7, 40, 99].contains(&task).then_some(1000 - task);
            assert_eq!(first(100, threads, find), Some(993));
            assert_eq!(first(7, threads, find), None);
        }
    }
}
