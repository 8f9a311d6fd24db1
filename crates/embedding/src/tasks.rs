//! Tasks that threads take one after another.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::workers;

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
    workers::run(threads.min(tasks).saturating_sub(1), &take);
}

/// What `find` returns for the first task for which it finds something, on up to `threads` threads.
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
    use super::{first, run};
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
    fn the_first_is_found() {
        for threads in [1, 3] {
            let find = |task: usize| [7, 40, 99].contains(&task).then_some(1000 - task);
            assert_eq!(first(100, threads, find), Some(993));
            assert_eq!(first(7, threads, find), None);
        }
    }
}
