//! Accesses to a pool, which delay one another on the links that they share.
//!
//! Those of one NPU take turns. Those of several NPUs share the links of the pool, each direction
//! by itself. Once all ranks have done what they do at a moment, the accesses under way get their
//! times for the loads that the links have now. What is left of an access is scaled by its new time
//! over its former one. Gathers in the switches are one access if they are of one group, have the
//! same size and began at the same moment. Not here: the loads (`device::memory`), what an access
//! holds up (`executor`, and front ends of others, `sim`).

use device::memory::{Access, Crowd, Gather, Loads, Pool};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::{Bytes, Span, Time};

/// Direction, size and kind of an access.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Store rather than load.
    pub store: bool,
    /// How much.
    pub bytes: Bytes,
    /// Gather or scatter shards in the switches.
    pub gathers: bool,
    /// The slot of the group whose shards these are; none for all NPUs.
    pub slot: Option<u32>,
}

/// The group that gathers shards with an NPU.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The number of the group; none for all NPUs.
    pub number: Option<u32>,
    /// NPUs in it.
    pub members: u32,
}

/// An access under way.
struct UnderWay {
    began: Time,
    /// Time of the access under the loads so far, and how much of that is left at `since`.
    span: Span,
    left: Span,
    since: Time,
    /// When it is over under the loads of now, and its time under these.
    ends: Time,
    next: Span,
}

/// An access that is under way or waits for its turn.
struct Queued<T> {
    ticket: T,
    wanted: Wanted,
    /// `None` until its first time is known.
    under_way: Option<UnderWay>,
    /// For when its end was registered.
    registered: Option<Time>,
}

/// When gathers that are one access began, their size, and their group, if not all NPUs.
type Began = (Time, Bytes, Option<u32>);

/// NPUs of a group among the ranks that a simulated one stands for.
#[derive(Default)]
struct Part {
    /// Bytes of all NPUs of the group.
    members: u32,
    places: BTreeSet<u32>,
}

/// The groups of a slot of a simulated rank.
struct Gathering {
    /// That of the simulated rank itself.
    own: Option<u32>,
    /// Those of all ranks that it stands for.
    groups: BTreeMap<Option<u32>, Part>,
}

/// The accesses of all ranks to the pool, each with a ticket of whoever waits for it.
pub struct PoolAccesses<T> {
    /// Queues by rank index, in order.
    queues: Vec<VecDeque<Queued<T>>>,
    /// Places of the ranks that each rank index represents, and how many of them are there.
    places: Vec<Vec<(u32, u64)>>,
    /// Ranks that each rank index represents.
    ranks: Vec<Vec<u32>>,
    /// By rank index and slot, where shards were gathered.
    gatherings: FxHashMap<(u32, Option<u32>), Gathering>,
    /// Ranks with an access under way.
    busy: BTreeSet<u32>,
    changed: bool,
}

impl<T: Copy> PoolAccesses<T> {
    /// No access of `ranks` rank indices. `npus` are the NPUs that they stand for, in order, each
    /// with its rank index.
    pub fn new(
        pool: Option<&Pool>,
        ranks: usize,
        npus: impl Iterator<Item = (u32, u32)>,
    ) -> PoolAccesses<T> {
        let (mut places, mut there) = (vec![Vec::new(); ranks], vec![Vec::new(); ranks]);
        for (npu, rank) in npus.filter(|_| pool.is_some()) {
            let Some(place) = pool.map(|pool| pool.place(npu)) else { continue };
            there[rank as usize].push(npu);
            let known: &mut Vec<(u32, u64)> = &mut places[rank as usize];
            match known.last_mut() {
                Some(last) if last.0 == place => last.1 += 1,
                _ => known.push((place, 1)),
            }
        }
        let queues = (0..ranks).map(|_| VecDeque::new()).collect();
        let (gatherings, busy) = (FxHashMap::default(), BTreeSet::new());
        PoolAccesses { queues, places, ranks: there, gatherings, busy, changed: false }
    }

    /// Sets the partners with which the NPUs of a rank gather the shards of a slot, before the first access that
    /// does so. `npu` is the NPU of the rank itself.
    pub fn gathers(
        &mut self,
        pool: &Pool,
        (rank, npu): (u32, u32),
        slot: Option<u32>,
        group: impl Fn(u32) -> Group,
    ) {
        let there = &self.ranks[rank as usize];
        self.gatherings.entry((rank, slot)).or_insert_with(|| {
            let mut groups: BTreeMap<Option<u32>, Part> = BTreeMap::new();
            for &npu in there {
                let Group { number, members } = group(npu);
                let part = groups.entry(number).or_default();
                part.members = members;
                part.places.insert(pool.place(npu));
            }
            Gathering { own: group(npu).number, groups }
        });
    }

    /// Begins an access when the earlier ones of its rank are over.
    pub fn push(&mut self, rank: u32, ticket: T, wanted: Wanted) {
        let queued = Queued { ticket, wanted, under_way: None, registered: None };
        self.queues[rank as usize].push_back(queued);
        self.changed |= self.busy.insert(rank);
    }

    /// Whether an access has begun or ended since the last sharing.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Gives the accesses under way their times for the loads of `now`. Returns the accesses that
    /// end first, each with its rank, if that is news. Then the loads change again. `npus` are all.
    ///
    /// # Panics
    /// Without a pool.
    pub fn share(&mut self, access: &Access, npus: u32, now: Time) -> (Time, Vec<(u32, T)>) {
        self.changed = false;
        let mut first = Time::MAX;
        for store in [false, true] {
            first = first.min(self.share_direction(access, npus, store, now));
        }
        let mut ending = Vec::new();
        for &rank in &self.busy {
            let Some(front) = self.queues[rank as usize].front_mut() else { continue };
            let ends = front.under_way.as_ref().map(|under_way| under_way.ends);
            if ends == Some(first) && front.registered != ends {
                front.registered = ends;
                ending.push((rank, front.ticket));
            }
        }
        (first, ending)
    }

    /// Ends the access under way of `rank` if `is_it` and it is over `now`: it may have been
    /// delayed since its end was known.
    pub fn end(&mut self, rank: u32, now: Time, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let queue = &mut self.queues[rank as usize];
        let is_over = |front: &&Queued<T>| {
            is_it(&front.ticket) && front.under_way.as_ref().is_some_and(|under| under.ends == now)
        };
        let ticket = queue.front().filter(is_over)?.ticket;
        queue.pop_front();
        self.changed = true;
        if queue.is_empty() {
            self.busy.remove(&rank);
        }
        Some(ticket)
    }

    /// The accesses under way in one direction, and the numbers of the gathers among them.
    fn crowd(&self, store: bool, places: u32, now: Time) -> (Crowd, BTreeMap<Began, usize>) {
        let mut own = vec![0; places as usize];
        let mut gathers: BTreeMap<Began, Part> = BTreeMap::new();
        for &rank in &self.busy {
            let front = &self.queues[rank as usize][0];
            let there = &self.places[rank as usize];
            if front.wanted.store != store {
                continue;
            }
            if front.wanted.gathers {
                for (&group, part) in &self.gatherings[&(rank, front.wanted.slot)].groups {
                    let gather = gathers.entry(front.gather(group, now)).or_default();
                    gather.members = part.members;
                    gather.places.extend(&part.places);
                }
            } else {
                there.iter().for_each(|&(place, count)| own[place as usize] += count);
            }
        }
        let numbers = gathers.keys().zip(0..).map(|(&gather, index)| (gather, index)).collect();
        let gather = |part: Part| Gather {
            places: part.places.into_iter().collect(),
            members: part.members,
        };
        (Crowd { own, gathers: gathers.into_values().map(gather).collect() }, numbers)
    }

    /// The first end of the loads, or stores, under way.
    fn share_direction(&mut self, access: &Access, npus: u32, store: bool, now: Time) -> Time {
        let wants = |&rank: &u32| self.queues[rank as usize][0].wanted.store == store;
        if !self.busy.iter().any(wants) {
            return Time::MAX;
        }
        let pool = access.pool.as_ref().expect("there is a pool");
        let (crowd, numbers) = self.crowd(store, pool.places(), now);
        let (loads, known) = (pool.loads(&crowd), FxHashMap::default());
        let mut times = Times { access, loads, npus, known };
        let mut first = Time::MAX;
        let PoolAccesses { queues, places, busy, gatherings, .. } = self;
        for &rank in busy.iter() {
            let front = &mut queues[rank as usize][0];
            let Wanted { bytes, gathers, slot, .. } = front.wanted;
            if front.wanted.store == store {
                let gather = gathers.then(|| {
                    let own = gatherings[&(rank, slot)].own;
                    let index = numbers[&front.gather(own, now)];
                    (index, crowd.gathers[index].members)
                });
                let place = places[rank as usize].first().map_or(0, |place| place.0);
                let of_place =
                    if gather.is_none() && pool.tells_places_apart() { place } else { 0 };
                first = first.min(front.goes_on(times.span(gather, of_place, bytes), now));
            }
        }
        first
    }
}

impl<T> Queued<T> {
    /// The gather of `group` that the access is a part of.
    fn gather(&self, group: Option<u32>, now: Time) -> Began {
        let began = self.under_way.as_ref().map_or(now, |under_way| under_way.began);
        (began, self.wanted.bytes, group)
    }

    /// Goes on so that all of the access would take `span`. Returns when it is over.
    fn goes_on(&mut self, span: Span, now: Time) -> Time {
        let fresh = UnderWay { began: now, span, left: span, since: now, ends: now, next: span };
        let under_way = self.under_way.get_or_insert(fresh);
        under_way.goes_on(span, now);
        under_way.ends
    }
}

impl UnderWay {
    fn goes_on(&mut self, span: Span, now: Time) {
        if now > self.since {
            (self.span, self.left, self.since) = (self.next, self.ends.since(now), now);
        }
        let left = u128::from(self.left.0) * u128::from(span.0);
        let left = left.div_ceil(u128::from(self.span.0.max(1)));
        self.ends = now + Span(u64::try_from(left).unwrap_or(u64::MAX));
        self.next = span;
    }
}

/// The times of accesses under the loads of one moment.
struct Times<'a> {
    access: &'a Access,
    loads: Loads,
    /// NPUs of all groups.
    npus: u32,
    known: FxHashMap<(Option<usize>, u32, Bytes), Span>,
}

impl Times<'_> {
    /// Time of an access of `bytes` from a place, or of a gather, given by number and members.
    fn span(&mut self, gather: Option<(usize, u32)>, place: u32, bytes: Bytes) -> Span {
        let (access, loads, npus) = (self.access, &self.loads, self.npus);
        let under = || match (gather, access.in_switch.as_ref()) {
            (Some((index, members)), Some(all)) => {
                all.of_group(members, npus).under(&loads.gather(index)).span(bytes)
            }
            _ => access.own.under(&loads.own(place)).span(bytes),
        };
        *self.known.entry((gather.map(|gather| gather.0), place, bytes)).or_insert_with(under)
    }
}
