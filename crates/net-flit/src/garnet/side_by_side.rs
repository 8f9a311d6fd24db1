//! Parts of a network on threads of their own, cycle by cycle.
//!
//! In each cycle all parts take what others sent in the cycle before, do their cycle, and leave
//! what others have to get. No part waits for another within a cycle, so the result is the same
//! whatever the number of parts.

use super::border::{Border, Parcel};
use super::{Garnet, Settings};
use crate::fabric::{Packet, Routing};
use crate::report::Arrival;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};

/// Looks at the turn before a thread lets others run, and before it sleeps.
const SPINS: u32 = 1 << 12;
const YIELDS: u32 = 64;
/// No event.
const NEVER: u64 = u64::MAX;

/// A part, and what it found in the last cycle.
struct Part<R> {
    network: Garnet<R>,
    arrived: Vec<Arrival>,
    /// The next cycle in which it, or what it sent, can do something.
    next: u64,
}

struct Shared<R> {
    parts: Vec<Mutex<Part<R>>>,
    /// Parcels by the parity of the turn in which they are taken, sender and receiver.
    mail: [Vec<Mutex<Vec<Parcel>>>; 2],
    /// Counts cycles that were simulated; a new value starts one.
    turn: AtomicU64,
    cycle: AtomicU64,
    done: AtomicUsize,
    parked: Vec<AtomicBool>,
    stops: AtomicBool,
    broke: AtomicBool,
}

/// A network in parts.
pub(super) struct Parts<R> {
    shared: Arc<Shared<R>>,
    threads: Vec<JoinHandle<()>>,
    handles: Vec<Thread>,
    pub settings: Settings,
    /// A routing of its own, to ask.
    pub routing: R,
    pub now: u64,
    pub under_way: u64,
    next: u64,
    /// Part of each node.
    part_of: Vec<u16>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Routing> Shared<R> {
    /// Work of a part in a turn.
    fn work(&self, own: usize, turn: u64) {
        let count = self.parts.len();
        let (now, later) = ((turn % 2) as usize, ((turn + 1) % 2) as usize);
        let part = &mut *lock(&self.parts[own]);
        for from in 0..count {
            for parcel in lock(&self.mail[now][from * count + own]).drain(..) {
                part.network.comes(parcel);
            }
        }
        part.network.run(self.cycle.load(Ordering::Relaxed), &mut part.arrived);
        let mut next = NEVER;
        for (to, parcel) in part.network.left() {
            next = next.min(parcel.cycle);
            lock(&self.mail[later][own * count + usize::from(to)]).push(parcel);
        }
        part.next = part.network.next().unwrap_or(NEVER).min(next);
    }

    /// The next turn after `seen`; waits for it.
    fn wait(&self, own: usize, seen: u64) -> u64 {
        let mut looks = 0;
        loop {
            let turn = self.turn.load(Ordering::SeqCst);
            if turn != seen {
                return turn;
            }
            looks += 1;
            if looks < SPINS {
                std::hint::spin_loop();
            } else if looks < SPINS + YIELDS {
                thread::yield_now();
            } else {
                self.parked[own].store(true, Ordering::SeqCst);
                if self.turn.load(Ordering::SeqCst) == seen {
                    thread::park();
                }
                self.parked[own].store(false, Ordering::SeqCst);
            }
        }
    }
}

/// Says that a part is done, also where it panics.
struct Done<'a>(&'a AtomicUsize, &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.1.store(true, Ordering::SeqCst);
        }
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<R: Routing + Clone + Send + 'static> Parts<R> {
    /// Parts within `borders`, each of a whole network that `make` makes.
    pub(super) fn new(
        make: impl Fn() -> Garnet<R>,
        borders: Vec<Border>,
        part_of: Vec<u16>,
    ) -> Parts<R> {
        let count = borders.len();
        let mail = || (0..count * count).map(|_| Mutex::new(Vec::new())).collect();
        let whole = make();
        let part = |border| {
            let (network, arrived) = (make().within(border), Vec::new());
            Mutex::new(Part { network, arrived, next: NEVER })
        };
        let shared = Arc::new(Shared {
            parts: borders.into_iter().map(part).collect(),
            mail: [mail(), mail()],
            turn: AtomicU64::new(0),
            cycle: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            parked: (0..count).map(|_| AtomicBool::new(false)).collect(),
            stops: AtomicBool::new(false),
            broke: AtomicBool::new(false),
        });
        let thread = |own: usize| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut turn = 0;
                loop {
                    turn = shared.wait(own, turn);
                    if shared.stops.load(Ordering::SeqCst) {
                        return;
                    }
                    let _done = Done(&shared.done, &shared.broke);
                    shared.work(own, turn);
                }
            })
        };
        let threads: Vec<JoinHandle<()>> = (1..count).map(thread).collect();
        let handles = threads.iter().map(|thread| thread.thread().clone()).collect();
        let (settings, routing) = (*whole.settings(), whole.routing().clone());
        Parts {
            shared,
            threads,
            handles,
            settings,
            routing,
            now: 0,
            under_way: 0,
            next: NEVER,
            part_of,
        }
    }
}

impl<R: Routing> Parts<R> {
    /// Starts a turn on all threads.
    fn start(&self) {
        self.shared.turn.fetch_add(1, Ordering::SeqCst);
        for (parked, handle) in self.shared.parked[1..].iter().zip(&self.handles) {
            if parked.load(Ordering::SeqCst) {
                handle.unpark();
            }
        }
    }

    /// Simulates a cycle.
    ///
    /// # Panics
    /// If a part did.
    fn turn(&mut self, cycle: u64, arrived: &mut Vec<Arrival>) {
        self.shared.cycle.store(cycle, Ordering::Relaxed);
        self.shared.done.store(0, Ordering::SeqCst);
        self.start();
        self.shared.work(0, self.shared.turn.load(Ordering::SeqCst));
        let mut looks = 0;
        while self.shared.done.load(Ordering::SeqCst) < self.threads.len() {
            looks += 1;
            if looks < SPINS { std::hint::spin_loop() } else { thread::yield_now() }
        }
        assert!(!self.shared.broke.load(Ordering::SeqCst), "a part of the network broke off");
        self.now = cycle;
        self.next = NEVER;
        for part in &self.shared.parts {
            let mut part = lock(part);
            self.under_way -= part.arrived.len() as u64;
            arrived.append(&mut part.arrived);
            self.next = self.next.min(part.next);
        }
    }

    pub(super) fn next(&self) -> Option<u64> {
        (self.next != NEVER).then_some(self.next)
    }

    pub(super) fn run(&mut self, until: u64, arrived: &mut Vec<Arrival>) {
        while let Some(next) = self.next().filter(|&next| next <= until) {
            self.turn(next, arrived);
        }
        self.now = self.now.max(until);
    }

    pub(super) fn send_many(&mut self, cycle: u64, packet: Packet, count: (u64, u32), token: u64) {
        self.under_way += count.0;
        self.next = self.next.min(cycle + 1);
        let part = usize::from(self.part_of[packet.src as usize]);
        lock(&self.shared.parts[part]).network.send_many(cycle, packet, count, token);
    }

    /// Does something with each part.
    pub(super) fn each<T>(&self, act: impl FnMut(&mut Garnet<R>) -> T) -> Vec<T> {
        let mut act = act;
        self.shared.parts.iter().map(|part| act(&mut lock(part).network)).collect()
    }
}

impl<R> Drop for Parts<R> {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
        self.shared.turn.fetch_add(1, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A part that panicked has said so.
            let _ = thread.join();
        }
    }
}
