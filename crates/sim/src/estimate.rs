//! Cost of a run, known before it is given any memory: bytes by what holds them, and events.
//!
//! Model. A run holds, all the time: a state of each link (link queues), of each simulated rank and
//! of each of its operations; and of its largest collective, for each simulated rank: a state of
//! each chunk, and the messages that a step of its algorithm sends at once in all chunks that may be
//! active. With a log, what is kept of each operation and chunk. Counted is what must be there
//! at the same time, so the estimate is low where many collectives overlap. Sizes of single states
//! are those of the structures, rounded up for what grows by doubling; docs/reference/limits.md
//! holds measured runs against them. Not here: what the limit is (the caller knows), the workload
//! and its lowering, which are there already.

use crate::parts::Parts;
use executor::Settings;
use executor::observe::LINK_BYTES;
use graph::{Node, Problem, RankBinding};
use lowering::{Geometry, Lowered, Lowering, PhaseSpec, Request, Shapes};
use network::{Backend, Contention};
use rustc_hash::FxHashMap;

/// Bytes of what a run keeps one of for each simulated rank, queue, operation, chunk, message. What
/// the network keeps, its backend says.
const RANK: u64 = 500;
const QUEUE: u64 = 48;
const OPERATION: u64 = 20;
const CHUNK: u64 = 170;
const INVITED: u64 = 4;
const MESSAGE: u64 = 70;
/// The same in a log.
const LOGGED_OPERATION: u64 = 200;
const LOGGED_PHASE: u64 = 60;
/// Bytes of a step of an algorithm's script, which is kept forwards, backwards and laid out.
const STEP: u64 = 150;

/// Cost of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Ranks simulated, the others behave like one of them.
    pub ranks: u64,
    /// Why there are several; empty where one does for all, or where folding is off.
    pub reason: String,
    /// Events at least.
    pub events: u128,
    /// Bytes by what holds them.
    pub held: Vec<(String, u128)>,
    /// Whether some of them are the network's, so that a simpler one takes less.
    pub network: bool,
}

impl Estimate {
    /// Bytes in all.
    pub fn bytes(&self) -> u128 {
        self.held.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Why the run does not fit into `available` bytes, `None` where it does.
    pub fn refusal(&self, available: u64) -> Option<Problem> {
        let bytes = self.bytes();
        if bytes <= u128::from(available) {
            return None;
        }
        let (what, most) = self.held.iter().max_by_key(|(_, bytes)| *bytes)?;
        let text = format!(
            "the simulation needs about {} of memory, but only {} are free; {} of it is for {what}",
            amount(bytes),
            amount(u128::from(available)),
            amount(*most)
        );
        let other = if self.network { "--backend analytical, " } else { "" };
        let help = format!(
            "fewer NPUs, {other}a topology of more dimensions, or fewer chunks; ARMILLARY_MEMORY sets the limit"
        );
        Some(Problem::new("", "memory", text).help(help))
    }
}

/// `17.2 GB`.
fn amount(bytes: u128) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    let (unit, name) = units.into_iter().find(|&(unit, _)| bytes >= unit).unwrap_or((1, "B"));
    format!("{:.1} {name}", bytes as f64 / unit as f64)
}

/// Cost of one rank's part in a collective.
#[derive(Clone, Copy, Default)]
struct Footprint {
    chunks: u64,
    phases: u64,
    sends: u128,
    /// Messages on their way at once.
    flying: u64,
    /// Members of the largest line, which whoever begins a phase on it draws into it.
    line: u64,
    /// Steps of all scripts.
    steps: u64,
}

/// Cost of the run of `parts`; `logged` with a log.
pub(crate) fn estimate(parts: &Parts<'_>, network: &dyn Backend, logged: bool) -> Estimate {
    let mut sums = Sums::new(parts, network.footprint());
    let folding = parts.folding;
    let mut last: Option<(RankBinding, u64)> = None;
    for &rank in &folding.representatives {
        let binding = parts.workload.ranks[rank as usize];
        match &mut last {
            Some((known, count)) if *known == binding => *count += 1,
            _ => {
                if let Some((_, count)) = last.replace((binding, 1)) {
                    sums.close(count);
                }
                sums.open(rank);
            }
        }
    }
    if let Some((_, count)) = last {
        sums.close(count);
    }
    sums.finish(folding.representatives.len() as u64, logged)
}

struct Sums<'a> {
    parts: &'a Parts<'a>,
    network: network::Footprint,
    shapes: Shapes<'a>,
    known: FxHashMap<Request, Footprint>,
    /// Cost of the rank that was opened last: operations, chunk phases, events, its largest
    /// collective.
    rank: (u64, u128, u128, Footprint),
    operations: u128,
    chunks: u128,
    flying: u128,
    invited: u128,
    phases: u128,
    events: u128,
}

impl<'a> Sums<'a> {
    fn new(parts: &'a Parts<'a>, network: network::Footprint) -> Sums<'a> {
        Sums {
            parts,
            network,
            shapes: Shapes::new(&parts.settings.sizes, parts.settings.aligned_groups),
            known: FxHashMap::default(),
            rank: Default::default(),
            operations: 0,
            chunks: 0,
            flying: 0,
            invited: 0,
            phases: 0,
            events: 0,
        }
    }

    /// Looks at the program of `rank`.
    fn open(&mut self, rank: u32) {
        let nodes = self.parts.workload.program(rank).nodes();
        let (mut phases, mut events, mut most) = (0, nodes.len() as u128, Footprint::default());
        for node in nodes {
            if let graph::Op::Send { bytes, .. } = node.op {
                events += u128::from(self.pieces(bytes.0) - 1);
            }
            let Some(found) = self.footprint(rank, node) else { continue };
            phases += u128::from(found.chunks) * u128::from(found.phases);
            events += found.sends;
            most = Footprint {
                chunks: most.chunks.max(found.chunks),
                flying: most.flying.max(found.flying),
                line: most.line.max(found.line),
                ..most
            };
        }
        // In closed form a phase is over in one event, whatever it sends.
        // Where transfers share links, most phases meet others.
        let settings = self.parts.settings;
        let alone = settings.runs_alone() && settings.contention == Contention::Departures;
        let events = if alone { nodes.len() as u128 + phases } else { events };
        self.rank = (nodes.len() as u64, phases, events, most);
    }

    /// Adds what `count` ranks like the one that was opened take.
    fn close(&mut self, count: u64) {
        let count = u128::from(count);
        let (operations, phases, events, most) = self.rank;
        self.operations += count * u128::from(operations);
        self.phases += count * phases;
        self.events += count * events;
        self.chunks += count * u128::from(most.chunks);
        self.flying += count * u128::from(most.flying);
        self.invited += count * u128::from(most.line);
    }

    fn footprint(&mut self, rank: u32, node: &Node) -> Option<Footprint> {
        let graph::Op::Collective { slot, .. } = node.op else { return None };
        let Parts { workload, settings, lowering, .. } = *self.parts;
        let shape = self.shapes.index(workload, workload.group_of(rank, slot));
        let request = settings.request(node, shape)?;
        if let Some(found) = self.known.get(&request) {
            return Some(*found);
        }
        let found = of(lowering, &request, &self.shapes, settings, self.network.packet);
        self.known.insert(request, found);
        Some(found)
    }

    /// Packets of a message of this number of bytes.
    fn pieces(&self, bytes: u64) -> u64 {
        pieces(bytes, self.network.packet)
    }

    fn finish(self, ranks: u64, logged: bool) -> Estimate {
        let settings = self.parts.settings;
        let queues: u64 = settings.queues.iter().map(|queues| u64::from(queues.count)).sum();
        let message = MESSAGE + self.network.transfer;
        let of_rank = u128::from(ranks) * u128::from(RANK + queues * QUEUE);
        let steps: u64 = self.known.values().map(|found| found.steps).sum();
        let mut held = vec![
            (format!("{ranks} simulated ranks"), of_rank),
            (
                format!("their {} operations", self.operations),
                self.operations * u128::from(OPERATION),
            ),
            (format!("{} chunks of collectives", self.chunks), self.chunks * u128::from(CHUNK)),
            (
                format!("{} messages that are in flight at once", self.flying),
                self.flying * u128::from(message),
            ),
            (
                format!("{} pairs of ranks that begin a phase together", self.invited),
                self.invited * u128::from(INVITED),
            ),
            (format!("{steps} steps of algorithms"), u128::from(steps) * u128::from(STEP)),
        ];
        let network::Footprint { links, link, used_link, .. } = self.network;
        if links > 0 {
            let links = u128::from(links);
            let used = links.min(self.flying * 2 + u128::from(ranks));
            let series = if logged { LINK_BYTES } else { 0 };
            let bytes = links * u128::from(link) + used * u128::from(used_link + series);
            held.push((format!("{links} links"), bytes));
        }
        if logged {
            let log = self.operations * u128::from(LOGGED_OPERATION)
                + self.phases * u128::from(LOGGED_PHASE);
            held.push(("the log behind the report's details".to_string(), log));
        }
        let (reason, network) = (String::new(), self.network.links > 0);
        Estimate { ranks, reason, events: self.events, held, network }
    }
}

fn of(
    lowering: &dyn Lowering,
    request: &Request,
    shapes: &Shapes<'_>,
    settings: &Settings,
    packet: u64,
) -> Footprint {
    // Collectives that can't be lowered were refused before.
    let Ok(lowered) = lowering.lower(request, shapes.get(request.shape)) else {
        return Footprint::default();
    };
    let Lowered { chunks, .. } = lowered;
    let mut found = Footprint { chunks: u64::from(chunks), ..Footprint::default() };
    let active = u64::from(chunks).min(settings.most_active());
    if lowered.shapes.is_empty() {
        return Footprint::default();
    }
    let mut alike = vec![0u64; lowered.shapes.len()];
    (0..chunks).for_each(|chunk| alike[lowered.shape(chunk)] += 1);
    for (phases, alike) in lowered.shapes.iter().zip(alike) {
        found.phases = found.phases.max(phases.len() as u64);
        for phase in phases {
            let (sends, at_once, steps) = script(phase, packet);
            found.sends += u128::from(alike) * u128::from(sends);
            found.flying = found.flying.max(active.max(1) * at_once);
            found.steps += steps;
            let members = match phase.geometry {
                Geometry::Line { size, .. } => u64::from(size),
                Geometry::Group => shapes.get(request.shape).members(&settings.sizes),
            };
            found.line = found.line.max(members);
        }
    }
    found
}

/// Packets of a message, of at most `packet` bytes; one where messages are not cut.
fn pieces(bytes: u64, packet: u64) -> u64 {
    bytes.checked_div(packet).map_or(1, |whole| whole.max(1))
}

/// Sends of the longest script of a phase in packets of at most `packet` bytes, how many messages
/// go out at once, and steps of all scripts.
fn script(phase: &PhaseSpec, packet: u64) -> (u64, u64, u64) {
    let scripts = phase.plans.iter().flat_map(|directed| &directed.forward.plan.scripts);
    scripts.fold((0, 0, 0), |(sends, at_once, steps), script| {
        let (mut waits, mut count): (FxHashMap<(u32, u32), u64>, u64) = Default::default();
        for step in script.steps.iter().filter(|step| step.to.is_some()) {
            *waits.entry((step.after_usable, step.after_received)).or_default() += 1;
            count += pieces(step.bytes, packet);
        }
        let most = waits.values().copied().max().unwrap_or(0);
        (sends.max(count), at_once.max(most), steps + script.steps.len() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: u128, network: bool) -> Estimate {
        Estimate {
            reason: String::new(),
            ranks: 8,
            events: 5,
            network,
            held: vec![("8 simulated ranks".into(), 10), ("70 links".into(), bytes)],
        }
    }

    #[test]
    fn a_message_is_an_event_for_each_of_its_packets() {
        assert_eq!([0, 1460, 14_600].map(|bytes| pieces(bytes, 1460)), [1, 1, 10]);
        assert_eq!(pieces(1 << 40, 0), 1, "whole messages");
    }

    #[test]
    fn what_fits_is_not_refused() {
        assert_eq!(of(90, true).refusal(100), None);
    }

    #[test]
    fn a_refusal_names_what_takes_most_and_what_to_change() {
        let problem = of(17_200_000_000, true).refusal(8_000_000_000).expect("it is too much");
        assert!(problem.message.contains("about 17.2 GB"), "{problem}");
        assert!(
            problem.message.contains("8.0 GB are free; 17.2 GB of it is for 70 links"),
            "{problem}"
        );
        assert!(problem.help.contains("--backend analytical"), "{problem}");
        let problem = of(u128::MAX / 2, false).refusal(1).expect("it is too much");
        assert!(!problem.help.contains("--backend"), "{problem}");
    }
}
