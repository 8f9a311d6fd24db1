//! Report of a run that can make no progress: the operations that wait, for which ranks, and the
//! cycle if there is one.

use super::Executor;
use graph::Op;
use network::Backend;
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
    /// Operations unfinished in all (of the simulated ranks).
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
        let mut all: Vec<Waiting> = Vec::new();
        for rank in 0..self.ranks.len() as u32 {
            all.extend(self.waiting_on(rank));
        }
        let cycle = circle(&all);
        let unfinished = self.ranks.total() - self.ranks.done();
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

    fn waiting_on(&self, rank: u32) -> Vec<Waiting> {
        let program = &self.workload.programs[self.ranks[rank].program as usize];
        let is_under_way = |&n: &usize| self.ranks.is_under_way(rank, n as u32);
        let running: Vec<usize> = (0..program.nodes().len()).filter(is_under_way).collect();
        let blocked = |&n: &usize| self.ranks.is_blocked(rank, n as u32);
        let nodes = if running.is_empty() {
            (0..program.nodes().len()).filter(blocked).take(1).collect()
        } else {
            running
        };
        nodes.into_iter().map(|n| self.waiting(rank, n as u32)).collect()
    }

    fn waiting(&self, rank: u32, node: u32) -> Waiting {
        let state = &self.ranks[rank];
        let program = &self.workload.programs[state.program as usize];
        let op = program.nodes()[node as usize].op;
        let on = match op {
            Op::Send { peer, .. } | Op::Recv { peer, .. } => {
                vec![state.id.wrapping_add_signed(peer)]
            }
            Op::Collective { .. } => self.absent_members(rank, node),
            _ => Vec::new(),
        };
        Waiting {
            rank: state.id,
            node: program.nodes()[node as usize].id,
            name: program.name(node as usize).to_string(),
            what: op.kind_name().to_string(),
            started: self.ranks.is_under_way(rank, node),
            on,
        }
    }
}

/// Follows "waits for" from rank to rank until one comes again.
fn circle(waiting: &[Waiting]) -> Vec<u32> {
    let next =
        |rank: u32| waiting.iter().filter(|w| w.rank == rank).flat_map(|w| &w.on).min().copied();
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
