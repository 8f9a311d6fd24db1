//! Report of a run that can make no progress: the operations that wait, for which ranks, and the
//! cycle if there is one.

use super::Executor;
use graph::Op;
use network::Backend;
use rustc_hash::FxHashMap;
use units::Time;

/// A stalled run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// Where the workload was read from; empty when a program made it.
    pub origin: String,
    /// When nothing more could happen.
    pub time: Time,
    /// Operations that have started or cannot start, at most [`Stall::SHOWN`].
    pub waiting: Vec<Waiting>,
    /// Operations unfinished on all ranks.
    pub unfinished: u64,
    /// Ranks that wait for one another in a circle, if there is a circle.
    pub cycle: Vec<u32>,
    /// Why the network cannot go on, if it is stuck itself.
    pub network: Option<NetworkStall>,
}

/// A network in which transfers are under way and nothing can move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkStall {
    /// Transfers that were started and not delivered.
    pub transfers: u64,
    /// Ports or channels that each wait for the next one, by name:
    /// `npu3 -> switch1: paused`.
    pub cycle: Vec<String>,
}

/// One waiting operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Rank of the operation.
    pub rank: u32,
    /// Id of the operation in the trace.
    pub node: u64,
    /// Name of the operation in the trace.
    pub name: String,
    /// `recv`, `all_reduce`, ...
    pub what: String,
    /// True when it has started; else it waits for its dependencies.
    pub started: bool,
    /// Ranks it waits for. Empty when it waits for messages within a collective.
    pub on: Vec<u32>,
}

impl Stall {
    /// How many waiting operations are named.
    pub const SHOWN: usize = 16;
}

impl<B: Backend> Executor<'_, B> {
    /// Describes why nothing moves.
    pub(super) fn stall(&self) -> Stall {
        let simulated = 0..self.ranks.len() as u32;
        let stuck: Vec<Vec<u32>> = simulated.clone().map(|rank| self.stuck(rank)).collect();
        let mut all: Vec<Waiting> = Vec::new();
        for id in 0..self.workload.ranks.len() as u32 {
            let rank = self.folding.local(id);
            let nodes = stuck[rank as usize].iter();
            all.extend(nodes.filter_map(|&node| self.waiting(id, rank, node)));
        }
        let cycle = circle(&all);
        let stands_for = |rank: u32| self.folding.multiplicity[rank as usize];
        let unfinished = simulated.map(|rank| self.ranks.unfinished(rank) * stands_for(rank)).sum();
        all.truncate(Stall::SHOWN);
        Stall {
            origin: self.workload.origin.clone(),
            time: self.now,
            waiting: all,
            unfinished,
            cycle,
            network: None,
        }
    }

    /// Nodes of a simulated rank that are under way; without any the first that is blocked.
    fn stuck(&self, rank: u32) -> Vec<u32> {
        let nodes = self.workload.programs[self.ranks[rank].program as usize].nodes().len() as u32;
        let running: Vec<u32> =
            (0..nodes).filter(|&node| self.ranks.is_under_way(rank, node)).collect();
        if !running.is_empty() {
            return running;
        }
        (0..nodes).filter(|&node| self.ranks.is_blocked(rank, node)).take(1).collect()
    }

    /// The ranks that `node` of rank `id` waits for; `rank` is the one that is simulated for it. For
    /// ranks that are not simulated only messages are named.
    fn waiting(&self, id: u32, rank: u32, node: u32) -> Option<Waiting> {
        let program = self.workload.program(id);
        let op = program.nodes()[node as usize].op;
        let on = match op {
            Op::Send { peer, .. } | Op::Recv { peer, .. } => {
                vec![id.wrapping_add_signed(program.offset(peer))]
            }
            _ if self.ranks[rank].id != id => return None,
            Op::Collective { .. } => self.absent_members(rank, node),
            _ => Vec::new(),
        };
        Some(Waiting {
            rank: id,
            node: program.nodes()[node as usize].id,
            name: program.name(node as usize).to_string(),
            what: op.kind_name().to_string(),
            started: self.ranks.is_under_way(rank, node),
            on,
        })
    }
}

/// Follows "waits for" from rank to rank until one comes again.
fn circle(waiting: &[Waiting]) -> Vec<u32> {
    let mut first: FxHashMap<u32, u32> = FxHashMap::default();
    for (rank, on) in waiting.iter().filter_map(|w| Some((w.rank, *w.on.iter().min()?))) {
        first.entry(rank).and_modify(|least| *least = on.min(*least)).or_insert(on);
    }
    let next = |rank: u32| first.get(&rank).copied();
    for start in waiting.iter().map(|w| w.rank) {
        let mut path = vec![start];
        while let Some(to) = path.last().and_then(|&rank| next(rank)) {
            if let Some(at) = path.iter().position(|&r| r == to) {
                return path.split_off(at);
            }
            path.push(to);
        }
    }
    Vec::new()
}

impl std::fmt::Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "no progress is possible after {} ns: {} operations are unfinished",
            self.time.as_ns(),
            self.unfinished
        )?;
        for w in &self.waiting {
            write!(f, "  rank {} node {} {:?} ({})", w.rank, w.node, w.name, w.what)?;
            if w.on.is_empty() {
                let why = if w.started {
                    "is under way and waits for messages of other members"
                } else {
                    "waits for its dependencies"
                };
                writeln!(f, " {why}")?;
            } else {
                let ranks: Vec<String> = w.on.iter().take(8).map(u32::to_string).collect();
                let more = if w.on.len() > 8 { ", ..." } else { "" };
                writeln!(f, " waits for rank {}{more}", ranks.join(", "))?;
            }
        }
        if !self.cycle.is_empty() {
            let ranks: Vec<String> =
                self.cycle.iter().chain(self.cycle.first()).map(u32::to_string).collect();
            writeln!(f, "  circle: rank {}", ranks.join(" -> "))?;
        }
        match &self.network {
            Some(network) => write!(f, "{network}"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for NetworkStall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "  the network is stuck with {} transfers in flight", self.transfers)?;
        self.cycle.iter().try_for_each(|place| writeln!(f, "    {place}"))
    }
}
