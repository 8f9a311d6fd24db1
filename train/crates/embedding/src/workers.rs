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
    /// Those that are not at work, in descending order of their numbers.
    idle: Mutex<Vec<Worker>>,
    /// How many were started.
    started: AtomicUsize,
}

/// A thread, its number, and where it finds its work.
struct Worker {
    number: usize,
    thread: Thread,
    slot: Arc<AtomicPtr<Place>>,
}

/// A thread's place in a job.
struct Place {
    job: *const Job,
    number: usize,
}

/// Work for some threads. It is in the memory of the caller, who waits until none is `left`.
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    left: AtomicUsize,
    panicked: AtomicBool,
    caller: Thread,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Runs `work` on this thread and on `others` more at the same time, or on fewer if the system starts
/// no more threads. Each has a number: this thread 0, and the others 1 and more. If no other caller
/// is at work, threads have the same numbers each time.
///
/// # Panics
///
/// When `work` does, on any thread, after the end on all of them.
pub fn run(others: usize, work: &(dyn Fn(usize) + Sync)) {
    if others == 0 {
        return work(0);
    }
    let work: *const (dyn Fn(usize) + Sync + '_) = work;
    // SAFETY: only the lifetime changes. `Wait` keeps this call from ending before all threads have
    // ended the work, also when this one panics.
    let work: *const (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
    let (left, panicked) = (AtomicUsize::new(others), AtomicBool::new(false));
    let job = Job { work, left, panicked, caller: thread::current() };
    let places: Vec<Place> =
        (1..=others).map(|number| Place { job: &raw const job, number }).collect();
    let wait = Wait(&job);
    let pool = pool();
    for place in &places {
        let idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(worker) = idle.or_else(|| start(pool)) {
            worker.slot.store(ptr::from_ref(place).cast_mut(), Ordering::Release);
            worker.thread.unpark();
        } else {
            job.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
    // SAFETY: the caller's reference is still there.
    unsafe { (*work)(0) };
    drop(wait);
    assert!(!job.panicked.into_inner(), "a thread panicked");
}

/// Makes up to `others` threads look for work, which comes within 50 us or so. Threads that sleep
/// take as long to wake.
pub fn wake(others: usize) {
    if others > 0 {
        let idle = pool().idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().rev().take(others).for_each(|worker| worker.thread.unpark());
    }
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
    let made = Box::into_raw(Box::new(Pool {
        process,
        idle: Mutex::default(),
        started: AtomicUsize::new(0),
    }));
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
    let number = pool.started.fetch_add(1, Ordering::Relaxed);
    let started = thread::Builder::new().spawn(move || serve(pool, number, &own)).ok()?;
    Some(Worker { number, thread: started.thread().clone(), slot })
}

/// Does the work that it finds in `slot`.
fn serve(pool: &Pool, number: usize, slot: &Arc<AtomicPtr<Place>>) {
    loop {
        let place = look(|| {
            let place = slot.swap(ptr::null_mut(), Ordering::Acquire);
            (!place.is_null()).then_some(place)
        });
        // SAFETY: the caller waits until `left` is 0, so that the job, its places and its work are
        // there.
        let (job, caller) = unsafe {
            let job = (*place).job;
            let work = || (*(*job).work)((*place).number);
            let done = catch_unwind(AssertUnwindSafe(work));
            (*job).panicked.fetch_or(done.is_err(), Ordering::Relaxed);
            (job, (*job).caller.clone())
        };
        let worker = Worker { number, thread: thread::current(), slot: Arc::clone(slot) };
        let mut idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.partition_point(|other| other.number > number);
        idle.insert(at, worker);
        drop(idle);
        // SAFETY: as above; from here on the job may be gone.
        unsafe { (*job).left.fetch_sub(1, Ordering::AcqRel) };
        caller.unpark();
    }
}

/// Final result of `find`. This thread sleeps when it takes long, and looks again whenever it is
/// woken.
fn look<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let mut begin = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        if begin.elapsed() < LOOKING {
            std::hint::spin_loop();
        } else {
            thread::park();
            begin = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, OnceLock};
    use std::thread::ThreadId;
    use std::time::Duration;

    #[test]
    fn all_threads_are_at_work_at_the_same_time() {
        for pause in [0, 0, 200, 0] {
            std::thread::sleep(Duration::from_micros(pause));
            let (together, count) = (Barrier::new(4), AtomicUsize::new(0));
            run(3, &|_| {
                together.wait();
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.into_inner(), 4);
        }
    }

    #[test]
    fn threads_have_their_numbers_again() {
        let all = || {
            let found: [OnceLock<ThreadId>; 4] = Default::default();
            let together = Barrier::new(4);
            run(3, &|number| {
                together.wait();
                assert!(found[number].set(std::thread::current().id()).is_ok());
            });
            found.map(|id| id.into_inner())
        };
        let first = all();
        assert!(first.iter().all(Option::is_some));
        // Other tests may take threads away for a while.
        assert!((0..1000).any(|_| all() == first));
    }

    #[test]
    fn several_callers_have_threads_of_their_own() {
        let (together, count) = (Barrier::new(8), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    run(1, &|_| {
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
                run(1, &|_| {
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
