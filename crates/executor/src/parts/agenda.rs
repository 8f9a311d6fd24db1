//! Future events of each rank.
//!
//! Here: the queue of instants, the callbacks of each rank for an instant, and rounds. Not here:
//! what a callback does (`executor/mod.rs`), and the network's own events (the backend).
//!
//! What a rank has to do at one instant is done together. In ASTRA-sim's profile it is done in the
//! order it was registered, at the place of the first registration. Natively it is done in the
//! order of [`Order`].

use engine::EventQueue;
use network::{Sequence, Stamp};
use units::{Span, Time};

const NONE: u32 = u32::MAX;

/// Something that a rank has registered for an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callback {
    /// A timed node is over.
    Node(u32),
    /// An access to a pool for a node is over, unless others have delayed it since.
    Accessed(u32),
    /// The memory that a node waits for has been moved out or back. The node may begin.
    Moved(u32),
    /// The host has launched a node. It could have begun when the second node ended; `None` for
    /// the beginning of the run.
    Launched(u32, Option<u32>),
    /// A phase may send its first messages.
    Start(u32),
    /// A reception of a chunk run has become usable.
    Usable(u32),
    /// A phase in closed form is over.
    Over(u32),
    /// A phase in closed form has its last reception. It is over after this span.
    LastReceived(u32, Span),
    /// A timed operation of an algorithm from a file is over: graph and operation.
    Operation(u32, u32),
    /// The receiver of a held step has announced itself: chunk run, phase and step.
    Cleared(u32, u32, u32),
    /// The receiver of a posted message has announced itself: channel and ordinal.
    Announced(u32, u32),
    /// The library is done with a message: channel and ordinal.
    Handled(u32, u32),
}

/// The native order of a rank's callbacks at one instant: nodes by index, then operations of
/// algorithms from files, then chunks by node and chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Node {
        node: u32,
        turn: Turn,
    },
    Operation {
        graph: u32,
        node: u32,
        turn: Turn,
    },
    /// `cleared` is the phase and step that a receiver has announced itself for, if that is what
    /// the callback is about.
    Chunk {
        node: u32,
        chunk: u32,
        cleared: Option<(u32, u32)>,
    },
}

/// The order of callbacks about one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    Over,
    Announced,
    Moved,
    Launched,
    Handled,
}

#[derive(Clone, Copy)]
struct Registered {
    callback: Callback,
    next: u32,
}

/// The callbacks of one rank for one instant: a list in order of registration.
#[derive(Clone, Copy)]
struct Instant {
    time: Time,
    head: u32,
    tail: u32,
}

/// Callbacks to run now, in native order.
pub(crate) type Batch = Vec<(Order, Callback)>;

/// Events of a rank that are due now, in native order.
pub(crate) enum Due {
    One(Callback),
    /// To be handed back with [`Agenda::keep`].
    Several(Batch),
}

/// See the module.
pub(crate) struct Agenda {
    sequence: Sequence,
    queue: EventQueue<u32>,
    /// Pending instants of each rank. There are few at any time.
    instants: Vec<Vec<Instant>>,
    callbacks: Vec<Registered>,
    /// The first free place of `callbacks`.
    free: u32,
    /// A batch that is not in use.
    spare: Batch,
    /// Instants at this time that were registered before this stamp run before the network hears of
    /// anything new. So no rank of an instant sees what another does in it.
    round: Stamp,
}

impl Agenda {
    pub(crate) fn new(ranks: usize) -> Agenda {
        Agenda {
            sequence: Sequence::default(),
            queue: EventQueue::default(),
            instants: vec![Vec::new(); ranks],
            callbacks: Vec::new(),
            free: NONE,
            spare: Vec::new(),
            round: Stamp { time: Time::ZERO, order: 0 },
        }
    }

    /// The order of scheduling, to share with a backend.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence.clone()
    }

    /// The first instant.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Stamp> {
        self.queue.peek().map(|(time, order)| Stamp { time, order })
    }

    /// Whether an instant belongs to the round under way.
    #[inline]
    pub(crate) fn is_in_round(&self, instant: Stamp) -> bool {
        instant < self.round && instant.time == self.round.time
    }

    /// Begins a round of all instants that are registered for `time` so far.
    #[inline]
    pub(crate) fn begin_round(&mut self, time: Time) {
        self.round = Stamp { time, order: self.sequence.draw() };
    }

    /// Takes the first instant: its time and its rank.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, u32)> {
        self.queue.pop()
    }

    /// Registers `callback` of rank index `rank` for `time`.
    #[inline]
    pub(crate) fn register(&mut self, rank: u32, time: Time, callback: Callback) {
        // Written where it stays: what is passed on by address is copied with a stall.
        let at = self.place(callback);
        self.enlist(rank, time, at);
    }

    fn enlist(&mut self, rank: u32, time: Time, at: u32) {
        let instants = &mut self.instants[rank as usize];
        if let Some(instant) = instants.iter_mut().rev().find(|i| i.time == time) {
            self.callbacks[instant.tail as usize].next = at;
            instant.tail = at;
            return;
        }
        instants.push(Instant { time, head: at, tail: at });
        self.queue.push(time, self.sequence.draw(), rank);
    }

    #[inline]
    fn place(&mut self, callback: Callback) -> u32 {
        let registered = Registered { callback, next: NONE };
        if self.free == NONE {
            self.callbacks.push(registered);
            return self.callbacks.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.callbacks[at as usize].next;
        self.callbacks[at as usize] = registered;
        at
    }

    /// Where the list of a rank's callbacks for `now` begins.
    #[inline]
    pub(crate) fn first(&self, rank: u32, now: Time) -> u32 {
        self.instants[rank as usize][self.find(rank, now)].head
    }

    #[inline]
    pub(crate) fn callback(&self, at: u32) -> Callback {
        self.callbacks[at as usize].callback
    }

    /// Frees a place of a list. Returns the next one.
    #[inline]
    pub(crate) fn next(&mut self, at: u32) -> Option<u32> {
        let next = std::mem::replace(&mut self.callbacks[at as usize].next, self.free);
        self.free = at;
        Some(next).filter(|&next| next != NONE)
    }

    /// Ends an instant of a rank. All its callbacks have run, and what they registered for it.
    #[inline]
    pub(crate) fn close(&mut self, rank: u32, now: Time) {
        let at = self.find(rank, now);
        self.instants[rank as usize].swap_remove(at);
    }

    /// Ends an instant of a rank. What is registered for it from now on belongs to the next round.
    #[inline]
    pub(crate) fn take(&mut self, rank: u32, now: Time, order: impl Fn(Callback) -> Order) -> Due {
        let at = self.find(rank, now);
        let Instant { head, tail, .. } = self.instants[rank as usize].swap_remove(at);
        if head == tail {
            let callback = self.callback(head);
            self.next(head);
            return Due::One(callback);
        }
        let mut batch = std::mem::take(&mut self.spare);
        let mut next = Some(head);
        while let Some(at) = next {
            let callback = self.callback(at);
            batch.push((order(callback), callback));
            next = self.next(at);
        }
        batch.sort_by_key(|&(key, _)| key);
        Due::Several(batch)
    }

    /// Keeps the memory of a batch that has run.
    #[inline]
    pub(crate) fn keep(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare = batch;
    }

    #[inline]
    fn find(&self, rank: u32, now: Time) -> usize {
        let instants = &self.instants[rank as usize];
        instants.iter().position(|i| i.time == now).expect("an instant has callbacks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(5);

    fn order(callback: Callback) -> Order {
        match callback {
            Callback::Node(node) => Order::Node { node, turn: Turn::Over },
            Callback::Moved(node) => Order::Node { node, turn: Turn::Moved },
            _ => Order::Chunk { node: 0, chunk: 0, cleared: None },
        }
    }

    #[test]
    fn one_instant_holds_all_that_a_rank_does_then() {
        let mut agenda = Agenda::new(2);
        agenda.register(1, NOW, Callback::Node(3));
        agenda.register(0, NOW, Callback::Node(9));
        agenda.register(1, NOW, Callback::Node(2));
        assert_eq!(agenda.pop(), Some((NOW, 1)), "rank 1 was the first to register");
        let first = agenda.first(1, NOW);
        assert!(matches!(agenda.callback(first), Callback::Node(3)));
        // Events that are registered meanwhile run in the same instant.
        agenda.register(1, NOW, Callback::Node(1));
        let second = agenda.next(first).unwrap();
        assert!(matches!(agenda.callback(second), Callback::Node(2)));
        let third = agenda.next(second).unwrap();
        assert!(matches!(agenda.callback(third), Callback::Node(1)));
        assert_eq!(agenda.next(third), None);
        agenda.close(1, NOW);
        assert_eq!(agenda.pop(), Some((NOW, 0)));
        assert_eq!(agenda.pop(), None);
    }

    #[test]
    fn the_native_order_is_that_of_nodes_then_chunks() {
        let mut agenda = Agenda::new(1);
        for callback in
            [Callback::Usable(0), Callback::Moved(4), Callback::Node(7), Callback::Node(4)]
        {
            agenda.register(0, NOW, callback);
        }
        let Due::Several(batch) = agenda.take(0, NOW, order) else { panic!("there are four") };
        let orders: Vec<Order> = batch.iter().map(|&(order, _)| order).collect();
        let node = |node, turn| Order::Node { node, turn };
        let chunk = Order::Chunk { node: 0, chunk: 0, cleared: None };
        assert_eq!(orders, [node(4, Turn::Over), node(4, Turn::Moved), node(7, Turn::Over), chunk]);
    }

    #[test]
    fn what_is_registered_in_a_round_belongs_to_the_next_one() {
        let mut agenda = Agenda::new(2);
        agenda.register(0, NOW, Callback::Node(0));
        agenda.begin_round(NOW);
        agenda.register(1, NOW, Callback::Node(1));
        assert!(agenda.is_in_round(agenda.peek().unwrap()));
        agenda.pop();
        assert!(!agenda.is_in_round(agenda.peek().unwrap()));
    }
}
