//! Which programs are alike: equal but for the peers of their sends and receives.
//!
//! Ranks on a ring, or on both sides of a pipeline with two directions, do the same with other
//! peers. Their programs are then alike, and their colours split only where the peers differ.

use executor::Settings;
use graph::{Op, Program, RankBinding, Workload};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

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
        let programs = || workload.programs.iter();
        let ports = |program: &Arc<Program>| program.peers().iter().copied().zip(0..).collect();
        let ports: Vec<FxHashMap<i32, u32>> = programs().map(ports).collect();
        let sizes = workload.by_body(sizes);
        let messages = |(program, sizes): (&Arc<Program>, &Rc<[Size]>)| {
            let message = |&(port, bytes): &Size| Message {
                port,
                peer: program.peers()[port as usize],
                bytes,
            };
            sizes.iter().map(message).collect()
        };
        let messages = programs().zip(&sizes).map(messages).collect();
        let alike = if settings.canonical && programs().any(|program| !program.peers().is_empty()) {
            alike(workload)
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

fn alike(workload: &Workload) -> Vec<u32> {
    let mut known: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    let hashes = workload.by_body(Program::hash_but_for_peers);
    let footprint = |at: usize| workload.footprints.get(at);
    let mut find = |(at, program): (usize, &Arc<Program>)| {
        let others = known.entry(hashes[at]).or_default();
        let same = |&other: &usize| {
            footprint(at) == footprint(other)
                && program.equals_but_for_peers(&workload.programs[other])
        };
        if let Some(first) = others.iter().copied().find(same) {
            return first as u32;
        }
        others.push(at);
        at as u32
    };
    workload.programs.iter().enumerate().map(&mut find).collect()
}

/// Port and bytes of a message.
type Size = (u32, u64);

/// The distinct sizes of the messages of a program, ascending.
fn sizes(program: &Program) -> Rc<[Size]> {
    let size = |op: &Op| match *op {
        Op::Send { peer, bytes, .. } | Op::Recv { peer, bytes, .. } => Some((peer.port(), bytes.0)),
        _ => None,
    };
    let found: BTreeSet<Size> = program.nodes().iter().filter_map(|node| size(&node.op)).collect();
    found.into_iter().collect()
}
