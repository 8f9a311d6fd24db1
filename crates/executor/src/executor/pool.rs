//! Accesses to a pool, which delay one another on the links that they share.
//!
//! Those of one NPU take turns. Those of several NPUs share the links of the pool, each direction
//! by itself. Once all ranks have done what they do in a round, the accesses under way get their
//! times for the loads that the links have now. What is left of an access is scaled by its new time
//! over its former one. Gathers in the switches are one access if they are of one group, have the
//! same size and began at the same moment. Not here: the loads (`device::memory`).

use super::Executor;
use crate::folding::Folding;
use crate::parts::agenda::Callback;
use crate::settings::Settings;
use device::memory::{Access, Crowd, Gather, Loads, Pool};
use graph::{Members, Workload};
use network::Backend;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::{Bytes, Span, Time};

/// Direction, size and kind of an access.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Store rather than load.
    pub store: bool,
    /// How much.
    pub bytes: Bytes,
    /// Gather or scatter shards in the switches.
    pub gathers: bool,
    /// The slot of the group whose shards these are; none for all NPUs.
    pub slot: Option<u32>,
}

/// The next step of a node when its access is over.
#[derive(Clone, Copy)]
pub(super) enum Then {
    /// It ends.
    Complete,
    /// It begins.
    Begin,
    /// It waits for its next access.
    Nothing,
}

/// An access under way.
struct UnderWay {
    began: Time,
    /// Its time under the loads so far, and how much of that is left at `since`.
    span: Span,
    left: Span,
    since: Time,
    /// When it is over under the loads of now, and its time under these.
    ends: Time,
    next: Span,
}

/// An access that is under way or waits for its turn.
struct Queued {
    node: u32,
    wanted: Wanted,
    then: Then,
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
    /// Of all NPUs of the group.
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

/// The accesses of all ranks to the pool.
pub(super) struct Shared {
    /// By rank index, in order.
    queues: Vec<VecDeque<Queued>>,
    /// By rank index: the places of the ranks that it stands for, and how many of them are there.
    places: Vec<Vec<(u32, u64)>>,
    /// By rank index: the ranks that it stands for.
    ranks: Vec<Vec<u32>>,
    /// By rank index and slot, where shards were gathered.
    gatherings: FxHashMap<(u32, Option<u32>), Gathering>,
    /// Ranks with an access under way.
    busy: BTreeSet<u32>,
    changed: bool,
}

impl Shared {
    pub(super) fn new(settings: &Settings, folding: &Folding) -> Shared {
        let ranks = folding.representatives.len();
        let (mut places, mut there) = (vec![Vec::new(); ranks], vec![Vec::new(); ranks]);
        let pool = settings.pool.as_ref().and_then(|access| access.pool.as_ref());
        let ids = pool.map_or(0, |_| settings.ranks);
        for id in 0..ids {
            let (Some(place), rank) = (pool.map(|pool| pool.place(id)), folding.local(id)) else {
                continue;
            };
            there[rank as usize].push(id);
            let known: &mut Vec<(u32, u64)> = &mut places[rank as usize];
            match known.last_mut() {
                Some(last) if last.0 == place => last.1 += 1,
                _ => known.push((place, 1)),
            }
        }
        let queues = (0..ranks).map(|_| VecDeque::new()).collect();
        let (gatherings, busy) = (FxHashMap::default(), BTreeSet::new());
        Shared { queues, places, ranks: there, gatherings, busy, changed: false }
    }

    /// Looks up the groups of a slot of a rank, whose id is `id`, before it gathers shards.
    fn look_up(
        &mut self,
        workload: &Workload,
        pool: &Pool,
        (rank, id): (u32, u32),
        slot: Option<u32>,
    ) {
        let world = workload.ranks.len() as u32;
        let group = |id: u32| {
            let group = workload.group_of(id, slot?);
            (workload.groups[group as usize].members != Members::All).then_some(group)
        };
        let members = |group: Option<u32>| {
            group.map_or(world, |group| workload.groups[group as usize].members.len(world))
        };
        let there = &self.ranks[rank as usize];
        self.gatherings.entry((rank, slot)).or_insert_with(|| {
            let mut groups: BTreeMap<Option<u32>, Part> = BTreeMap::new();
            for &id in there {
                let part = groups.entry(group(id)).or_default();
                part.members = members(group(id));
                part.places.insert(pool.place(id));
            }
            Gathering { own: group(id), groups }
        });
    }

    /// Whether an access has begun or ended since the last sharing.
    #[inline]
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }

    /// The access of a rank that is under way.
    fn front(&mut self, rank: u32) -> Option<&mut Queued> {
        self.queues[rank as usize].front_mut()
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
}

impl Queued {
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

impl<B: Backend> Executor<'_, B> {
    /// Accesses the pool for `node` when the earlier accesses of its rank are over.
    pub(super) fn access_pool(&mut self, rank: u32, node: u32, wanted: Wanted, then: Then) {
        let pool = self.settings.pool.as_ref().and_then(|access| access.pool.as_ref());
        if let Some(pool) = pool.filter(|_| wanted.gathers) {
            let ids = (rank, self.ranks[rank].id);
            self.pool.look_up(self.workload, pool, ids, wanted.slot);
        }
        let queued = Queued { node, wanted, then, under_way: None, registered: None };
        self.pool.queues[rank as usize].push_back(queued);
        self.pool.changed |= self.pool.busy.insert(rank);
    }

    /// Gives the accesses under way their times for the loads of now, and registers the first end.
    /// Then the loads change again.
    pub(super) fn share_pool(&mut self) {
        self.pool.changed = false;
        let settings = self.settings;
        let access = settings.pool.as_ref().expect("there is a pool");
        let pool = access.pool.as_ref().expect("there is a pool");
        let mut first = Time::MAX;
        for store in [false, true] {
            first = first.min(self.share_direction(access, pool, store));
        }
        let ranks: Vec<u32> = self.pool.busy.iter().copied().collect();
        for rank in ranks {
            let Some(front) = self.pool.front(rank) else { continue };
            let ends = front.under_way.as_ref().map(|under_way| under_way.ends);
            if ends == Some(first) && front.registered != ends {
                front.registered = ends;
                let node = front.node;
                self.register(rank, first, Callback::Accessed(node));
            }
        }
    }

    /// The first end of the loads, or stores, under way.
    fn share_direction(&mut self, access: &Access, pool: &Pool, store: bool) -> Time {
        let wants = |&rank: &u32| self.pool.queues[rank as usize][0].wanted.store == store;
        if !self.pool.busy.iter().any(wants) {
            return Time::MAX;
        }
        let (crowd, numbers) = self.pool.crowd(store, pool.places(), self.now);
        let (loads, npus, known) = (pool.loads(&crowd), self.settings.ranks, FxHashMap::default());
        let mut times = Times { access, loads, npus, known };
        let (mut first, now) = (Time::MAX, self.now);
        let Shared { queues, places, busy, gatherings, .. } = &mut self.pool;
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

    /// Ends an access for `node`, if it is over: it may have been delayed since this was
    /// registered.
    pub(super) fn accessed(&mut self, rank: u32, node: u32) {
        let now = self.now;
        let is_over = |front: &&mut Queued| {
            front.node == node && front.under_way.as_ref().is_some_and(|under| under.ends == now)
        };
        let Some(then) = self.pool.front(rank).filter(is_over).map(|front| front.then) else {
            return;
        };
        self.pool.queues[rank as usize].pop_front();
        self.pool.changed = true;
        if self.pool.queues[rank as usize].is_empty() {
            self.pool.busy.remove(&rank);
        }
        match then {
            Then::Complete => self.complete(rank, node),
            Then::Begin => self.begin_moved(rank, node),
            Then::Nothing => {}
        }
    }
}
