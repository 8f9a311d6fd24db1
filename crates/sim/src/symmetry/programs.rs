//! Which programs are alike: equal but for the peers of their sends and receives.
//!
//! Ranks on a ring, or on both sides of a pipeline with two directions, do the same with other
//! peers. Their programs are then alike, and their colours split only where the peers differ.

use executor::Settings;
use graph::{Op, Program, RankBinding, Workload};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Messages of one size between a rank and a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    /// Port of the peer in the program.
    pub(super) port: u32,
    /// Peer minus own rank.
    pub(super) peer: i32,
    pub(super) bytes: u64,
}

/// The programs of a workload.
pub(super) struct Programs {
    /// For each program the first that is alike.
    pub(super) alike: Vec<u32>,
    /// Distinct messages of each program, by port.
    pub(super) messages: Vec<Vec<Message>>,
    ports: Vec<FxHashMap<i32, u32>>,
}

impl Programs {
    /// The programs of `workload`. Each is like itself alone in ASTRA-sim's profile, whose order of
    /// events depends on the numbers of ranks.
    pub(super) fn of(workload: &Workload, settings: &Settings) -> Programs {
        let peers: Vec<Vec<i32>> =
            workload.programs.iter().map(|program| program.peers()).collect();
        let ports: Vec<FxHashMap<i32, u32>> =
            peers.iter().map(|peers| peers.iter().copied().zip(0..).collect()).collect();
        let programs = || workload.programs.iter();
        let messages = programs().zip(&ports).map(|(program, ports)| messages(program, ports));
        let messages = messages.collect();
        let alike = if settings.canonical && peers.iter().any(|peers| !peers.is_empty()) {
            alike(workload, &peers)
        } else {
            (0..workload.programs.len() as u32).collect()
        };
        Programs { alike, messages, ports }
    }

    /// The port at which a rank's program has the rank at `offset`.
    pub(super) fn port(&self, rank: Option<&RankBinding>, offset: i32) -> u64 {
        let port = rank.and_then(|rank| self.ports[rank.program as usize].get(&offset));
        port.map_or(u64::MAX, |&port| u64::from(port))
    }
}

fn alike(workload: &Workload, peers: &[Vec<i32>]) -> Vec<u32> {
    let mut known: FxHashMap<(u64, usize), Vec<usize>> = FxHashMap::default();
    let footprint = |at: usize| workload.footprints.get(at);
    let mut find = |(at, program): (usize, &std::sync::Arc<Program>)| {
        let key = (program.hash_but_for_peers(&peers[at]), peers[at].len());
        let others = known.entry(key).or_default();
        let same = |&other: &usize| {
            footprint(at) == footprint(other)
                && program.equals_but_for_peers(
                    &workload.programs[other],
                    &peers[at],
                    &peers[other],
                )
        };
        if let Some(first) = others.iter().copied().find(same) {
            return first as u32;
        }
        others.push(at);
        at as u32
    };
    workload.programs.iter().enumerate().map(&mut find).collect()
}

fn messages(program: &Program, ports: &FxHashMap<i32, u32>) -> Vec<Message> {
    let message = |op: &Op| match *op {
        Op::Send { peer, bytes, .. } | Op::Recv { peer, bytes, .. } => {
            Some(Message { port: ports[&peer], peer, bytes: bytes.0 })
        }
        _ => None,
    };
    let found: BTreeSet<Message> = program.nodes().iter().filter_map(|n| message(&n.op)).collect();
    found.into_iter().collect()
}
