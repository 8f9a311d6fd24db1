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

#[cfg(test)]
mod tests {
    use super::run;
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
}
