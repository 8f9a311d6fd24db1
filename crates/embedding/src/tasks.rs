//! Tasks that threads take one after another.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` for each task below `tasks`, on up to `threads` threads. Each thread has a state of
/// its own, made by `state` and given to `done` in the end.
pub fn run<S>(
    tasks: usize,
    threads: usize,
    state: impl Fn() -> S + Sync,
    done: impl Fn(S) + Sync,
    work: impl Fn(usize, &mut S) + Sync,
) {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut own = state();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            work(task, &mut own);
        }
        done(own);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(tasks) {
            scope.spawn(take);
        }
        take();
    });
}

/// The least number that `find` returns for a task, on up to `threads` threads. The numbers of later
/// tasks are higher.
pub fn least(
    tasks: usize,
    threads: usize,
    find: impl Fn(usize) -> Option<usize> + Sync,
) -> Option<usize> {
    let least = AtomicUsize::new(usize::MAX);
    let first = AtomicUsize::new(usize::MAX);
    let look = |task, (): &mut ()| {
        if task < first.load(Ordering::Relaxed)
            && let Some(found) = find(task)
        {
            first.fetch_min(task, Ordering::Relaxed);
            least.fetch_min(found, Ordering::Relaxed);
        }
    };
    run(tasks, threads, || (), |()| (), look);
    Some(least.into_inner()).filter(|&found| found < usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{least, run};
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
    fn the_least_is_found() {
        for threads in [1, 3] {
            let find = |task: usize| [7, 40, 99].contains(&task).then_some(10 * task + 3);
            assert_eq!(least(100, threads, find), Some(73));
            assert_eq!(least(7, threads, find), None);
        }
    }
}
