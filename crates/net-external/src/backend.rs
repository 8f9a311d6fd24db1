//! The Backend contract, kept by a simulator in another process.
//!
//! Transfers that start are sent with the next [`Backend::advance`], in one batch, and its answer
//! has all deliveries of one time and the next event. So an exchange costs one round trip for each
//! time at which something is delivered, however many transfers start or arrive.

use crate::bounds::Bounds;
use crate::conversation::{Conversation, time_of};
use crate::process::Command;
use crate::protocol::{NEVER, Record, VERSION, counts, kinds, routes};
use crate::topology::Topology;
use network::{Backend, Delivery, LinkUsage, PacketUsage, Parts, Stuck, Transfer, Usage};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use topology::{LaneId, Lanes, LinkGraph};
use units::{Span, Time};

/// Events between two reports of progress: a simulator may take long for each.
const PROGRESS_EVERY: u64 = 16;

/// A lane from one NPU to another.
type Way = (u32, u32, LaneId);

/// A network simulator in another process. It is started with the first transfer.
pub struct External {
    command: Command,
    patience: Duration,
    settings: String,
    topology: Topology,
    bounds: Bounds,
    talk: RefCell<Talk>,
    under_way: FxHashSet<u64>,
    lanes: Lanes,
    parts: Parts,
    /// Bytes that each lane has sent.
    sent: FxHashMap<Way, u128>,
    /// Lanes whose route the simulator knows, where it wants those in use.
    described: FxHashSet<Way>,
    transfers: u128,
    now: Time,
    next: Option<Time>,
    /// Transfers were started since the simulator last said what is next.
    dirty: bool,
}

/// The other side, and what became of it. A query asks it as well.
#[derive(Default)]
struct Talk {
    partner: Option<Conversation>,
    failure: Option<String>,
}

impl Talk {
    /// Does something with the partner. A failure ends the conversation.
    fn with<T>(&mut self, act: impl FnOnce(&mut Conversation) -> Result<T, String>) -> Option<T> {
        let done = act(self.partner.as_mut()?);
        done.map_err(|failure| {
            self.failure = Some(failure);
            self.partner = None;
        })
        .ok()
    }
}

impl External {
    /// A network that `command` simulates. `settings` are lines `key=value` for it. It counts as
    /// hanging after `patience` without a message.
    pub fn new(
        command: Command,
        topology: Topology,
        settings: String,
        patience: Duration,
    ) -> External {
        External {
            command,
            patience,
            settings,
            topology,
            bounds: Bounds::default(),
            talk: RefCell::default(),
            under_way: FxHashSet::default(),
            lanes: Lanes::default(),
            parts: Parts::default(),
            sent: FxHashMap::default(),
            described: FxHashSet::default(),
            transfers: 0,
            now: Time::ZERO,
            next: None,
            dirty: false,
        }
    }

    /// Name that the simulator gives itself; `None` before the first transfer.
    pub fn simulator(&self) -> Option<String> {
        self.talk.borrow().partner.as_ref().map(|partner| partner.name.clone())
    }

    fn begin(&mut self) {
        match self.introduce() {
            Ok(partner) => self.talk.get_mut().partner = Some(partner),
            Err(failure) => self.talk.get_mut().failure = Some(failure),
        }
    }

    /// Starts the simulator and describes the network.
    fn introduce(&self) -> Result<Conversation, String> {
        let links = &self.topology.links;
        let hello = Record {
            kind: kinds::HELLO,
            a: VERSION,
            b: links.npus(),
            c: links.nodes(),
            x: links.len().into(),
            ..Record::default()
        };
        let mut partner = Conversation::begin(&self.command, self.patience, hello, &self.settings)?;
        for id in 0..links.len() {
            let link = links.link(id);
            let (bandwidth, latency) = self.topology.cost(id, link.dim);
            partner.say(Record {
                kind: kinds::LINK,
                a: link.from,
                b: link.to,
                c: link.dim,
                x: bandwidth.0,
                y: latency.0,
                z: id.into(),
            })?;
        }
        if partner.routes == routes::ALL {
            let mut described = FxHashSet::default();
            for src in 0..links.npus() {
                for dst in (0..links.npus()).filter(|&dst| dst != src) {
                    for lane in Lanes::of(links, (src, dst)).found.iter() {
                        both_ways(links, &mut partner, &mut described, (src, dst, lane.id))?;
                    }
                }
            }
        }
        partner.say(Record { kind: kinds::READY, ..Record::default() })?;
        Ok(partner)
    }

    /// One round trip: what waits and `ADVANCE`, answered by deliveries and `NEXT`. Returns the time
    /// of the deliveries, if there were any, and that of the next event.
    fn exchange(&mut self, until: Time, finished: &mut Vec<Delivery>) -> Option<Answer> {
        let (under_way, parts, now) = (&mut self.under_way, &mut self.parts, self.now);
        self.talk.get_mut().with(|partner| {
            partner.say(Record { kind: kinds::ADVANCE, x: until.0, ..Record::default() })?;
            partner.flush()?;
            let mut at = None;
            loop {
                let record = partner.hear()?;
                let time = record.x;
                match record.kind {
                    kinds::DELIVERY => {
                        if at.is_some_and(|at| at != time) {
                            return Err(partner.broken("deliveries of one answer have two times"));
                        }
                        if time < now.0 || time > until.0 {
                            let rule =
                                format!("a delivery must be from {} to {} ps", now.0, until.0);
                            return Err(partner.broken(&rule));
                        }
                        if !under_way.contains(&record.z) {
                            return Err(partner.broken("no such transfer is under way"));
                        }
                        at = Some(time);
                        if parts.arrive(record.z) {
                            under_way.remove(&record.z);
                            finished.push(Delivery { token: record.z, time: Time(time) });
                        }
                    }
                    kinds::NEXT => {
                        let least = at.unwrap_or(now.0);
                        let missed = at.is_none() && time != NEVER && time <= until.0;
                        if time < least {
                            let rule = format!("the next event must not be before {least} ps");
                            return Err(partner.broken(&rule));
                        }
                        if missed {
                            let rule = "without a delivery, it must go on to the limit of ADVANCE";
                            return Err(partner.broken(rule));
                        }
                        return Ok((at.map(Time), time_of(time)));
                    }
                    _ => return Err(partner.broken("DELIVERY or NEXT was expected")),
                }
            }
        })
    }

    /// Bytes by dimension on links that leave an NPU, by the routes of the topology.
    fn bytes(&self) -> Vec<u128> {
        let links = &self.topology.links;
        let dims = if self.topology.by_link { 1 } else { self.topology.costs.len() };
        let mut bytes = vec![0; dims];
        for (&(src, dst, lane), sent) in &self.sent {
            let mut at = src;
            for hop in links.lane(src, dst, lane) {
                if at < links.npus() {
                    bytes[hop.dim as usize] += sent;
                }
                at = hop.to;
            }
        }
        bytes
    }
}

/// When something was delivered, and when the next event is.
type Answer = (Option<Time>, Option<Time>);

/// Describes the routes of a lane there and back, unless they were described before.
fn both_ways(
    links: &LinkGraph,
    partner: &mut Conversation,
    described: &mut FxHashSet<Way>,
    (src, dst, lane): Way,
) -> Result<(), String> {
    for way in [(src, dst, lane), (dst, src, lane)] {
        if described.insert(way) {
            route(links, partner, way)?;
        }
    }
    Ok(())
}

/// Describes the route of a lane.
fn route(
    links: &LinkGraph,
    partner: &mut Conversation,
    (src, dst, lane): Way,
) -> Result<(), String> {
    links.lane(src, dst, lane).zip(0..).try_for_each(|(hop, place)| {
        let link = Record { kind: kinds::ROUTE, a: src, b: dst, c: hop.link, ..Record::default() };
        partner.say(Record { x: place, y: lane.number().into(), ..link })
    })
}

impl Backend for External {
    fn start(&mut self, now: Time, transfer: Transfer) {
        if self.talk.get_mut().partner.is_none() && self.talk.get_mut().failure.is_none() {
            self.begin();
        }
        let Transfer { src, dst, bytes, token, weight, .. } = transfer;
        let links = &self.topology.links;
        self.lanes.find(links, (src, dst));
        self.parts.start(token, self.lanes.parts(bytes).count() as u32);
        for (lane, bytes) in self.lanes.parts(bytes) {
            let way = (src, dst, lane);
            *self.sent.entry(way).or_default() += u128::from(bytes) * u128::from(weight);
            self.talk.get_mut().with(|partner| {
                if partner.routes == routes::USED {
                    both_ways(links, partner, &mut self.described, way)?;
                }
                partner.say(Record {
                    kind: kinds::START,
                    a: src,
                    b: dst,
                    c: lane.number(),
                    x: now.0,
                    y: bytes,
                    z: token,
                })
            });
        }
        self.transfers += u128::from(weight);
        self.under_way.insert(token);
        self.now = now;
        self.dirty = true;
    }

    /// After a start this is the time of the start, a lower bound: only the simulator knows more.
    fn next_event(&self) -> Option<Time> {
        let talk = self.talk.borrow();
        talk.partner.as_ref()?;
        if self.dirty {
            Some(self.next.map_or(self.now, |next| next.min(self.now)))
        } else {
            self.next
        }
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        let due = self.dirty || self.next.is_some_and(|next| next <= until);
        if !due {
            return;
        }
        // Parts of a message may arrive before the message has.
        let before = finished.len();
        loop {
            let Some((delivered, next)) = self.exchange(until, finished) else {
                finished.truncate(before);
                return;
            };
            (self.next, self.dirty) = (next, false);
            self.now = delivered.unwrap_or(until);
            let goes_on = delivered.is_some() && next.is_some_and(|next| next <= until);
            if finished.len() > before || !goes_on {
                return;
            }
        }
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        self.bounds.least(&self.topology, src, dst, bytes)
    }

    fn usage(&self, until: Time) -> Usage {
        let mut usage =
            Usage { bytes: self.bytes(), transfers: self.transfers, ..Usage::default() };
        let carried = self.talk.borrow_mut().with(|partner| {
            partner.say(Record { kind: kinds::USAGE, x: until.0, ..Record::default() })?;
            partner.flush()?;
            carried(partner, &self.topology)
        });
        if let Some((links, packets)) = carried {
            usage.links = links;
            usage.packets = packets;
        }
        usage
    }

    fn stalled(&self) -> Option<Stuck> {
        let talk = self.talk.borrow();
        let stuck = talk.partner.is_some() && !self.dirty && self.next.is_none();
        let transfers = self.under_way.len() as u64;
        (stuck && transfers > 0).then(|| Stuck { transfers, cycle: Vec::new() })
    }

    fn failed(&self) -> Option<String> {
        self.talk.borrow().failure.clone()
    }

    fn progress_every(&self) -> u64 {
        PROGRESS_EVERY
    }
}

type Carried = (Vec<LinkUsage>, Option<Box<PacketUsage>>);

/// The answer to `USAGE`.
fn carried(partner: &mut Conversation, topology: &Topology) -> Result<Carried, String> {
    let (mut links, mut packets) = (BTreeMap::new(), None::<Box<PacketUsage>>);
    loop {
        let record = partner.hear()?;
        match record.kind {
            kinds::CARRIED if record.a < topology.links.len() => {
                let ends = topology.links.link(record.a);
                let usage = LinkUsage {
                    from: ends.from,
                    to: ends.to,
                    dim: ends.dim,
                    count: None,
                    bytes: record.x,
                    messages: record.y,
                    busy: Span(record.z),
                    waited: Span::ZERO,
                    longest_queue: record.b,
                };
                if links.insert(record.a, usage).is_some() {
                    return Err(partner.broken("the link was reported before"));
                }
            }
            kinds::CARRIED => return Err(partner.broken("there is no such link")),
            kinds::COUNT => {
                let packets = packets.get_or_insert_default();
                if !count(packets, record.a, record.x) {
                    return Err(partner.broken("there is no such count"));
                }
            }
            kinds::DONE => break,
            _ => return Err(partner.broken("CARRIED, COUNT or DONE was expected")),
        }
    }
    if let Some(packets) = &mut packets {
        packets.busy = links.values().map(|link| u128::from(link.busy.0)).sum();
        packets.links = topology.links.len().into();
    }
    Ok((links.into_values().collect(), packets))
}

/// Takes one count; false if there is none of this number.
fn count(packets: &mut PacketUsage, which: u32, value: u64) -> bool {
    let place = match which {
        counts::DATA => &mut packets.sent.data,
        counts::ACKNOWLEDGEMENTS => &mut packets.sent.acknowledgements,
        counts::HOPS => &mut packets.sent.hops,
        counts::DROPS => &mut packets.events.drops,
        counts::MARKS => &mut packets.events.marks,
        counts::RETRANSMITS => &mut packets.events.losses.retransmits,
        counts::FAST_RECOVERIES => &mut packets.events.losses.fast_recoveries,
        counts::TIMEOUTS => &mut packets.events.losses.timeouts,
        counts::LONGEST_QUEUE => &mut packets.events.longest_queue,
        counts::ROUND_TRIPS => &mut packets.events.round_trips.count,
        counts::ROUND_TRIP_MEAN => &mut packets.events.round_trips.mean.0,
        _ => return false,
    };
    *place = value;
    true
}
