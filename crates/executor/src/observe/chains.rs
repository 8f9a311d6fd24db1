//! The chains of all chunks and messages under way, and the sums of those of collectives and sends
//! that are over.
//!
//! The chain of a chunk continues with the event that let it act last: a reception that it could
//! use, or its own start. A chunk that waited in a queue continues the chain of the chunk that made
//! room for it, if both are of one collective. Otherwise it has waited for another operation. A
//! message continues the chain of its sender. Its waits are divided by a queue of our own at the
//! link by which it left: behind messages of its own collective, behind those of others, and the
//! rest, which is inside the network.

use super::chain::{Chain, Term, Terms};
use super::{ChunkPhase, Departure, Place, Reception, Sender};
use indexmap::IndexMap;
use lowering::{Lowered, Request};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::{Span, Time};

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Instance(u32),
    Node(Place),
    Unknown,
}

/// The link out of a rank: which sender occupies it until when.
#[derive(Default)]
struct Port {
    busy: VecDeque<(Time, Owner, Option<Place>)>,
}

/// How long a message waits for the link by which it leaves.
#[derive(Clone, Copy, Default)]
struct Waits {
    own: Span,
    other: Span,
    behind: Option<Place>,
}

impl Port {
    /// A message of `owner` comes at `now` and occupies the link for `occupancy`.
    fn take(&mut self, now: Time, occupancy: Span, owner: Owner, place: Option<Place>) -> Waits {
        while self.busy.front().is_some_and(|&(until, ..)| until <= now) {
            self.busy.pop_front();
        }
        let (mut free, mut waits) = (now, Waits::default());
        for &(until, who, place) in &self.busy {
            let span = until.since(free);
            free = until;
            if who == owner {
                waits.own += span;
            } else {
                waits.other += span;
                waits.behind = waits.behind.or(place);
            }
        }
        match self.busy.back_mut() {
            Some((until, who, _)) if *who == owner => *until = free + occupancy,
            _ => self.busy.push_back((free + occupancy, owner, place)),
        }
        waits
    }
}

struct Flight {
    chain: Chain,
    place: Option<Place>,
    owner: Owner,
    departed: Time,
    latency: Span,
    transfer: Span,
    handling: Span,
    waits: Waits,
}

struct Chunk {
    chain: Chain,
    place: Place,
    instance: u32,
    /// Receptions that are not usable yet.
    pending: Vec<(Time, Chain)>,
    /// The chunk of another member that has drawn it in.
    host: Option<u32>,
}

/// A collective or a send that is over on a rank, with what its sums need.
pub(super) struct Over {
    pub place: Place,
    pub start: Time,
    pub end: Time,
    /// Ranks it stands for.
    pub ranks: u64,
}

/// Sums over ranks of one node of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub count: u128,
    pub total: u128,
    pub longest: Span,
    /// Before the chain began, and after it had begun when the rank came.
    pub late: u128,
    pub ahead: u128,
    /// By dimension and term; messages and bytes last.
    pub terms: Vec<[u128; super::chain::TERMS + 2]>,
    /// Waits, by the program and node that caused the longest one.
    pub behind: BTreeMap<(u32, u32), u128>,
}

/// Kind of a collective. Collectives with equal properties share one.
#[derive(Clone)]
pub(super) struct Asked {
    pub request: Request,
    pub lowered: Arc<Lowered>,
    pub ranks: u32,
}

/// See the module.
pub(super) struct Chains {
    dims: usize,
    /// Program of each simulated rank.
    programs: Vec<u32>,
    chunks: Vec<Option<Chunk>>,
    flights: FxHashMap<u64, Flight>,
    ports: FxHashMap<(u32, u32), Port>,
    /// The chunk that ended a phase last, by rank: instance, node, chain.
    ended: FxHashMap<u32, (u32, Place, Chain)>,
    /// The last chain of collectives and sends under way.
    last: FxHashMap<Place, (Option<u32>, Chain)>,
    asked: IndexMap<Request, Asked>,
    /// Index into `asked` by instance.
    instances: Vec<u32>,
    /// Sums by program, node and request.
    sums: IndexMap<(u32, u32, Option<u32>), Sums>,
}

impl Chains {
    pub(super) fn new(dims: usize, programs: Vec<u32>) -> Chains {
        Chains {
            dims,
            programs,
            chunks: Vec::new(),
            flights: FxHashMap::default(),
            ports: FxHashMap::default(),
            ended: FxHashMap::default(),
            last: FxHashMap::default(),
            asked: IndexMap::new(),
            instances: Vec::new(),
            sums: IndexMap::new(),
        }
    }

    /// Sums by program, node and, for a collective, what it was.
    pub(super) fn sums(&self) -> impl Iterator<Item = (u32, u32, Option<&Asked>, &Sums)> {
        self.sums.iter().map(|(&(program, node, asked), sums)| {
            (program, node, asked.map(|at| &self.asked[at as usize]), sums)
        })
    }

    pub(super) fn opens(
        &mut self,
        instance: u32,
        request: &Request,
        lowered: &Arc<Lowered>,
        ranks: u32,
    ) {
        let fresh = || Asked { request: *request, lowered: lowered.clone(), ranks };
        self.asked.entry(*request).or_insert_with(fresh);
        let at = self.asked.get_index_of(request).map_or(0, |at| at as u32);
        self.instances.resize(self.instances.len().max(instance as usize + 1), 0);
        self.instances[instance as usize] = at;
    }

    fn chunk(&mut self, run: u32) -> Option<&mut Chunk> {
        self.chunks.get_mut(run as usize).and_then(Option::as_mut)
    }

    pub(super) fn waits(&mut self, phase: &ChunkPhase, now: Time) {
        let (place, instance, dims) = ((phase.rank, phase.node), phase.instance, self.dims);
        if self.chunks.len() <= phase.run as usize {
            self.chunks.resize_with(phase.run as usize + 1, || None);
        }
        let slot = &mut self.chunks[phase.run as usize];
        match slot {
            Some(chunk) if chunk.instance == instance => chunk.chain.enter(phase.dim),
            _ => {
                let chain = Chain::new(now, dims, phase.dim);
                *slot = Some(Chunk { chain, place, instance, pending: Vec::new(), host: None });
            }
        }
    }

    pub(super) fn invited(&mut self, run: u32, host: u32) {
        if let Some(chunk) = self.chunk(run) {
            chunk.host = Some(host);
        }
    }

    pub(super) fn starts(&mut self, phase: &ChunkPhase, now: Time) {
        let Some(chunk) = self.chunk(phase.run) else { return };
        let (host, instance) = (chunk.host.take(), chunk.instance);
        let waited = now.since(phase.entered);
        if waited == Span::ZERO {
            return;
        }
        let host = host.and_then(|host| self.chunks[host as usize].as_ref());
        let host = host
            .filter(|host| host.instance == instance && host.chain.end() == now)
            .map(|host| host.chain.clone());
        let before = self.ended.get(&phase.rank).filter(|(.., chain)| chain.end() == now);
        let followed = host
            .or_else(|| before.filter(|(i, ..)| *i == instance).map(|(.., chain)| chain.clone()));
        let behind = before.map(|&(_, place, _)| place);
        let Some(chunk) = self.chunk(phase.run) else { return };
        match followed {
            Some(mut chain) => {
                chain.enter(phase.dim);
                chunk.chain = chain;
            }
            None => chunk.chain.wait(Term::Queue, waited, behind),
        }
    }

    pub(super) fn begins(&mut self, run: u32, delay: Span) {
        if let Some(chunk) = self.chunk(run) {
            chunk.chain.add(Term::Endpoint, delay);
        }
    }

    pub(super) fn ends(&mut self, phase: &ChunkPhase, now: Time) {
        let Some(chunk) = self.chunk(phase.run) else { return };
        if phase.custom {
            chunk.chain.add(Term::Algorithm, now.since(phase.started));
        }
        let (place, instance, chain) = (chunk.place, chunk.instance, chunk.chain.clone());
        self.ended.insert(phase.rank, (instance, place, chain.clone()));
        self.last.insert(place, (Some(instance), chain));
    }

    pub(super) fn departs(&mut self, departure: &Departure, now: Time) {
        let Departure { rank, dim, bytes, .. } = *departure;
        let (mut chain, owner, place) = match departure.sender {
            Sender::Chunk(run) => {
                let Some(chunk) = self.chunk(run) else { return };
                (chunk.chain.clone(), Owner::Instance(chunk.instance), Some(chunk.place))
            }
            Sender::Cleared(token) => {
                let Some(flight) = self.flights.remove(&token) else { return };
                (flight.chain, flight.owner, flight.place)
            }
            Sender::Node(node) => {
                (Chain::new(now, self.dims, dim), Owner::Node((rank, node)), Some((rank, node)))
            }
            Sender::Beside(Some(node)) => {
                (Chain::new(now, self.dims, dim), Owner::Node((rank, node)), None)
            }
            Sender::Beside(None) => (Chain::new(now, self.dims, dim), Owner::Unknown, None),
        };
        chain.message(bytes);
        let waits = self.ports.entry((rank, departure.port)).or_default().take(
            now,
            departure.occupancy,
            owner,
            place,
        );
        let Departure { latency, transfer, handling, .. } = *departure;
        let flight =
            Flight { chain, place, owner, departed: now, latency, transfer, handling, waits };
        self.flights.insert(departure.token, flight);
    }

    pub(super) fn arrives(&mut self, token: u64, now: Time) {
        let Some(flight) = self.flights.get_mut(&token) else { return };
        let Flight { chain, waits, handling, .. } = flight;
        chain.add(Term::Endpoint, *handling);
        // The time beyond the minimum. First comes what was ahead of the message on its first link.
        let waited = now.since(flight.departed).saturating_sub(flight.latency + flight.transfer);
        let own = waits.own.min(waited);
        let other = waits.other.min(waited.saturating_sub(own));
        chain.add(Term::Latency, flight.latency);
        chain.add(Term::Transfer, flight.transfer);
        chain.add(Term::Port, own);
        chain.wait(Term::Contention, other, waits.behind);
        chain.add(Term::Congestion, waited.saturating_sub(own + other));
        match (flight.owner, flight.place) {
            (Owner::Instance(_), _) => {}
            (Owner::Node(_), Some(place)) => {
                self.last.insert(place, (None, chain.clone()));
                self.flights.remove(&token);
            }
            _ => {
                self.flights.remove(&token);
            }
        }
    }

    pub(super) fn early(&mut self, token: u64) {
        self.flights.remove(&token);
    }

    pub(super) fn received(&mut self, reception: &Reception, now: Time) {
        let &Reception { run, token, delay, charge } = reception;
        let came = token.and_then(|token| self.flights.remove(&token)).map(|flight| flight.chain);
        let Some(chunk) = self.chunk(run) else { return };
        let mut chain = came.unwrap_or_else(|| chunk.chain.clone());
        chain.add(Term::Endpoint, delay);
        chain.add(Term::Reduction, charge);
        chunk.pending.push((now + delay + charge, chain));
    }

    /// If several receptions become usable at one instant, one is chosen by its terms, so that
    /// their order does not matter.
    pub(super) fn usable(&mut self, run: u32, now: Time) {
        let Some(chunk) = self.chunk(run) else { return };
        let (mut at, mut best) = (0, None);
        while at < chunk.pending.len() {
            if chunk.pending[at].0 <= now {
                best = best.max(Some(chunk.pending.swap_remove(at).1));
            } else {
                at += 1;
            }
        }
        if let Some(chain) = best {
            chunk.chain = chain;
        }
    }

    /// Sums a collective or a send that is over. Does nothing for other nodes.
    pub(super) fn over(&mut self, over: &Over) {
        let Some((instance, chain)) = self.last.remove(&over.place) else { return };
        assert_eq!(chain.end(), over.end, "the terms of node {:?} lead elsewhere", over.place);
        let asked = instance.map(|instance| self.instances[instance as usize]);
        let program = |(rank, node): Place| (self.programs[rank as usize], node);
        let (key, behind) = (program(over.place), chain.behind().map(program));
        self.sums.entry((key.0, key.1, asked)).or_default().add(over, &chain, behind);
    }
}

impl Sums {
    fn add(&mut self, over: &Over, chain: &Chain, behind: Option<(u32, u32)>) {
        let weigh = |span: Span| u128::from(span.0) * u128::from(over.ranks);
        let span = over.end.since(over.start);
        self.count += u128::from(over.ranks);
        self.total += weigh(span);
        self.longest = self.longest.max(span);
        self.late += weigh(chain.origin.since(over.start.min(chain.origin)));
        self.ahead += weigh(over.start.since(chain.origin.min(over.start)));
        let terms = chain.terms();
        self.terms.resize(terms.len(), Default::default());
        for (sums, Terms { spans, messages, bytes }) in self.terms.iter_mut().zip(&terms) {
            let values = spans.iter().map(|span| span.0).chain([*messages, *bytes]);
            sums.iter_mut()
                .zip(values)
                .for_each(|(sum, value)| *sum += u128::from(value) * u128::from(over.ranks));
        }
        if let Some(behind) = behind {
            let waits = [Term::Queue, Term::Contention];
            let waited: Span =
                terms.iter().flat_map(|t| waits.map(|term| t.spans[term as usize])).sum();
            *self.behind.entry(behind).or_default() += weigh(waited);
        }
    }

    /// Adds the sums of another one.
    pub(super) fn merge(&mut self, other: &Sums) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
        self.late += other.late;
        self.ahead += other.ahead;
        self.terms.resize(self.terms.len().max(other.terms.len()), Default::default());
        for (sums, more) in self.terms.iter_mut().zip(&other.terms) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        other
            .behind
            .iter()
            .for_each(|(node, waited)| *self.behind.entry(*node).or_default() += waited);
    }
}
