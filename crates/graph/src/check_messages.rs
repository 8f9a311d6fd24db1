//! Sends and receives: for each pair of ranks and tag the same number of them with the same sizes.
//!
//! Matching is by (source, destination, tag); messages of equal size are interchangeable, so
//! multisets are compared.

use super::{MOST, more};
use crate::{Op, Problem, Program, Workload};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// One send or receive; ordered so that equal traffic is equal slices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    tag: u32,
    bytes: u64,
    node: u32,
}

/// The traffic of a program with one peer.
#[derive(Default)]
struct Peer {
    offset: i32,
    sends: Vec<Message>,
    recvs: Vec<Message>,
}

/// Fault between a program and the one at its peer, and the number of its occurrences.
struct Finding {
    problem: Problem,
    times: u64,
}

/// Reports messages without a receiver and messages without counterpart.
pub(super) fn check(workload: &Workload, problems: &mut Vec<Problem>) {
    let traffic: Vec<Vec<Peer>> = workload.programs.iter().map(|program| peers(program)).collect();
    if traffic.iter().all(|peers| peers.is_empty()) {
        return;
    }
    let mut findings: Vec<Finding> = Vec::new();
    // (program, peer, program at the peer) to the finding, and for each program and peer the last
    // one found sound.
    let mut judged: FxHashMap<(u32, u32, u32), Option<usize>> = FxHashMap::default();
    let mut last_sound: Vec<Vec<u32>> =
        traffic.iter().map(|peers| vec![u32::MAX; peers.len()]).collect();
    for (rank, binding) in workload.ranks.iter().enumerate() {
        let program = binding.program;
        for (i, peer) in traffic[program as usize].iter().enumerate() {
            let other = i64::try_from(rank).unwrap_or(i64::MAX) + i64::from(peer.offset);
            let at = usize::try_from(other).ok().and_then(|other| workload.ranks.get(other));
            let counterpart = at.map_or(u32::MAX - 1, |binding| binding.program);
            if last_sound[program as usize][i] == counterpart {
                continue;
            }
            let verdict = *judged.entry((program, i as u32, counterpart)).or_insert_with(|| {
                let there = at.map(|binding| &traffic[binding.program as usize]);
                let problem = judge(workload, rank, other, peer, there)?;
                findings.push(Finding { problem, times: 0 });
                Some(findings.len() - 1)
            });
            match verdict {
                Some(finding) => findings[finding].times += 1,
                None => last_sound[program as usize][i] = counterpart,
            }
        }
    }
    report(findings, problems);
}

fn report(findings: Vec<Finding>, problems: &mut Vec<Problem>) {
    let left_out = findings.len().saturating_sub(MOST);
    problems.extend(findings.into_iter().take(MOST).map(|mut finding| {
        finding.problem.message.push_str(&more(finding.times - 1, "rank"));
        finding.problem
    }));
    if left_out > 0 {
        problems.push(Problem::new(
            "",
            "",
            format!("{left_out} more pairs of programs have unmatched messages"),
        ));
    }
}

fn peers(program: &Program) -> Vec<Peer> {
    let mut peers: BTreeMap<i32, Peer> = BTreeMap::new();
    for (node, found) in (0u32..).zip(program.nodes()) {
        let (peer, message, send) = match found.op {
            Op::Send { peer, bytes, tag } => (peer, Message { tag, bytes: bytes.0, node }, true),
            Op::Recv { peer, bytes, tag } => (peer, Message { tag, bytes: bytes.0, node }, false),
            _ => continue,
        };
        let offset = program.offset(peer);
        let peer = peers.entry(offset).or_insert_with(|| Peer { offset, ..Peer::default() });
        if send { peer.sends.push(message) } else { peer.recvs.push(message) }
    }
    let mut peers: Vec<Peer> = peers.into_values().collect();
    for peer in &mut peers {
        peer.sends.sort_unstable();
        peer.recvs.sort_unstable();
    }
    peers
}

/// Fault between `rank` and its peer, `there` being the other's traffic when there is such a rank.
fn judge(
    workload: &Workload,
    rank: usize,
    other: i64,
    peer: &Peer,
    there: Option<&Vec<Peer>>,
) -> Option<Problem> {
    let place = |node: u32| {
        format!("rank {rank} node {}", workload.program(rank as u32).nodes()[node as usize].id)
    };
    let Some(there) = there else {
        let (verb, message) = match peer.sends.first() {
            Some(message) => ("sends to", message),
            None => ("receives from", peer.recvs.first()?),
        };
        let text = format!("it {verb} rank {other}, which does not exist");
        let help = format!("ranks 0 to {}", workload.ranks.len() - 1);
        return Some(Problem::new("", place(message.node), text).help(help));
    };
    if peer.offset == 0 {
        let message = peer.sends.first().or(peer.recvs.first())?;
        return Some(
            Problem::new("", place(message.node), "it sends to or receives from itself")
                .help("another rank"),
        );
    }
    let nothing = Peer::default();
    let back = peer.offset.checked_neg();
    let counterpart = there.iter().find(|p| Some(p.offset) == back).unwrap_or(&nothing);
    let (me, other) = (rank as i64, other);
    if let Some(found) =
        mismatch(&peer.sends, &counterpart.recvs).filter(|_| !peer.sends.is_empty())
    {
        return Some(explain(workload, me, other, &found));
    }
    // Whoever sends answers for that direction; without any send the receiver must.
    let found = mismatch(&[], &peer.recvs).filter(|_| counterpart.sends.is_empty())?;
    Some(explain(workload, other, me, &found))
}

/// The sends and receives of the first tag at which they differ.
struct Mismatch {
    tag: u32,
    sends: Vec<Message>,
    recvs: Vec<Message>,
}

fn mismatch(sends: &[Message], recvs: &[Message]) -> Option<Mismatch> {
    let key = |m: &Message| (m.tag, m.bytes);
    let at = sends
        .iter()
        .zip(recvs)
        .position(|(s, r)| key(s) != key(r))
        .unwrap_or(sends.len().min(recvs.len()));
    let tag = match (sends.get(at), recvs.get(at)) {
        (None, None) => return None,
        (Some(s), Some(r)) => s.tag.min(r.tag),
        (Some(m), None) | (None, Some(m)) => m.tag,
    };
    let of_tag = |all: &[Message]| all.iter().copied().filter(|m| m.tag == tag).collect();
    Some(Mismatch { tag, sends: of_tag(sends), recvs: of_tag(recvs) })
}

fn explain(workload: &Workload, from: i64, to: i64, found: &Mismatch) -> Problem {
    let id = |rank: i64, node: u32| workload.program(rank as u32).nodes()[node as usize].id;
    let (rank, node) = match (found.sends.first(), found.recvs.first()) {
        (Some(send), _) => (from, id(from, send.node)),
        (None, Some(recv)) => (to, id(to, recv.node)),
        (None, None) => (from, 0),
    };
    let tag = found.tag;
    let differing = found.sends.iter().zip(&found.recvs).find(|(s, r)| s.bytes != r.bytes);
    let message = match differing {
        Some((s, r)) if found.sends.len() == found.recvs.len() => format!(
            "rank {from} sends {} bytes with tag {tag} (node {}), but rank {to} receives {} (node {})",
            s.bytes,
            id(from, s.node),
            r.bytes,
            id(to, r.node)
        ),
        _ => format!(
            "rank {from} sends {} messages with tag {tag} to rank {to}, which receives {}",
            found.sends.len(),
            found.recvs.len()
        ),
    };
    Problem::new("", format!("rank {rank} node {node}"), message).help(
        "the same number of sends and receives for each pair of ranks and each tag, with the same sizes",
    )
}
