//! Threads that wait for work. A pass over 50,000 rows takes about 1 ms, and starting a thread for it
//! takes up to 100 us.
//!
//! A thread that has done its work looks for more for a short while, because the passes of a step
//! follow each other, and then sleeps. A process keeps the most threads that were at work at one
//! time. A forked process has none of its parent's threads, and starts its own.
#![allow(unsafe_code)] // Work is borrowed from the caller, who waits for its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a thread looks for work, or for the end of others' work, before it sleeps.
const LOOKING: Duration = Duration::from_micros(50);

/// The threads of a process.
struct Pool {
    process: u32,
    idle: Mutex<Vec<Worker>>,
}

/// A thread, and where it finds its work.
struct Worker {
    thread: Thread,
    slot: Arc<AtomicPtr<Job>>,
}

/// Work for some threads. It is in the memory of the caller, who waits until none is `left`.
struct Job {
    work: *const (dyn Fn() + Sync),
    left: AtomicUsize,
    panicked: AtomicBool,
    caller: Thread,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Runs `work` on this thread and on `others` more at the same time, or on fewer if the system starts
/// no more threads.
///
/// # Panics
///
/// When `work` does, on any thread, after the end on all of them.
pub fn run(others: usize, work: &(dyn Fn() + Sync)) {
    if others == 0 {
        return work();
    }
    let work: *const (dyn Fn() + Sync + '_) = work;
    // SAFETY: only the lifetime changes. `Wait` keeps this call from ending before all threads have
    // ended the work, also when this one panics.
    let work: *const (dyn Fn() + Sync) = unsafe { std::mem::transmute(work) };
    let (left, panicked) = (AtomicUsize::new(others), AtomicBool::new(false));
    let job = Job { work, left, panicked, caller: thread::current() };
    let wait = Wait(&job);
    let pool = pool();
    for _ in 0..others {
        let idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(worker) = idle.or_else(|| start(pool)) {
            worker.slot.store(ptr::from_ref(&job).cast_mut(), Ordering::Release);
            worker.thread.unpark();
        } else {
            job.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
    // SAFETY: the caller's reference is still there.
    unsafe { (*work)() };
    drop(wait);
    assert!(!job.panicked.into_inner(), "a thread panicked");
}

/// Waits for the end of a job when it is dropped.
struct Wait<'a>(&'a Job);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        look(|| (self.0.left.load(Ordering::Acquire) == 0).then_some(()));
    }
}

/// This process's threads.
fn pool() -> &'static Pool {
    let process = std::process::id();
    let found = POOL.load(Ordering::Acquire);
    // SAFETY: pools are never freed.
    if let Some(pool) = unsafe { found.as_ref() }.filter(|pool| pool.process == process) {
        return pool;
    }
    let made = Box::into_raw(Box::new(Pool { process, idle: Mutex::default() }));
    match POOL.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            // SAFETY: no other thread has seen `made`, and `other` is never freed.
            unsafe {
                drop(Box::from_raw(made));
                &*other
            }
        }
    }
}

/// Starts a thread, if the system does.
fn start(pool: &'static Pool) -> Option<Worker> {
    let slot = Arc::new(AtomicPtr::new(ptr::null_mut()));
    let own = Arc::clone(&slot);
    let started = thread::Builder::new().spawn(move || serve(pool, &own)).ok()?;
    Some(Worker { thread: started.thread().clone(), slot })
}

/// Does the work that it finds in `slot`.
fn serve(pool: &Pool, slot: &Arc<AtomicPtr<Job>>) {
    loop {
        let job = look(|| {
            let job = slot.swap(ptr::null_mut(), Ordering::Acquire);
            (!job.is_null()).then_some(job)
        });
        // SAFETY: the caller waits until `left` is 0, so that the job and its work are there.
        let caller = unsafe {
            let done = catch_unwind(AssertUnwindSafe(|| (*(*job).work)()));
            (*job).panicked.fetch_or(done.is_err(), Ordering::Relaxed);
            (*job).caller.clone()
        };
        let worker = Worker { thread: thread::current(), slot: Arc::clone(slot) };
        pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        // SAFETY: as above; from here on the job may be gone.
        unsafe { (*job).left.fetch_sub(1, Ordering::AcqRel) };
        caller.unpark();
    }
}

/// What `find` finds in the end. This thread sleeps when it takes long, and looks again whenever it
/// is woken.
fn look<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        if begin.elapsed() < LOOKING {
            std::hint::spin_loop();
        } else {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn all_threads_are_at_work_at_the_same_time() {
        for pause in [0, 0, 200, 0] {
            std::thread::sleep(Duration::from_micros(pause));
            let (together, count) = (Barrier::new(4), AtomicUsize::new(0));
            run(3, &|| {
                together.wait();
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.into_inner(), 4);
        }
    }

    #[test]
    fn several_callers_have_threads_of_their_own() {
        let (together, count) = (Barrier::new(8), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    run(1, &|| {
                        together.wait();
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                });
            }
        });
        assert_eq!(count.into_inner(), 8);
    }

    #[test]
    fn a_panic_is_the_callers_after_the_end() {
        for culprit in [0, 1] {
            let (order, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let found = catch_unwind(AssertUnwindSafe(|| {
                run(1, &|| {
                    let own = order.fetch_add(1, Ordering::Relaxed);
                    ended.fetch_add(1, Ordering::Relaxed);
                    assert!(own != culprit);
                });
            }));
            assert!(found.is_err());
            assert_eq!(ended.into_inner(), 2);
        }
    }
}
