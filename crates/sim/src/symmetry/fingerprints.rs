//! Views of scripts by a rank, in words that can be compared.

use collective::{Script, To};
use graph::{Op, Reach, Workload};
use lowering::ReadyPlan;
use rustc_hash::FxHashMap;
use units::Span;

/// View of a script without the peers that it names, and the distinct peers with the bytes sent to
/// them.
pub(super) type ScriptView = (u64, Vec<(To, u64)>);

/// Whether any rank accesses memory outside its NPU.
pub(super) fn uses_memory(workload: &Workload) -> bool {
    workload.bodies().any(|p| {
        p.nodes().iter().any(|n| matches!(n.op, Op::Memory { reach, .. } if reach != Reach::Local))
    })
}

pub(super) fn find_root(parent: &mut [u32], mut at: u32) -> u32 {
    while parent[at as usize] != at {
        parent[at as usize] = parent[parent[at as usize] as usize];
        at = parent[at as usize];
    }
    at
}

pub(super) fn join(parent: &mut [u32], a: u32, b: u32) {
    let (a, b) = (find_root(parent, a), find_root(parent, b));
    parent[a.max(b) as usize] = a.min(b);
}

/// View of each script: its content without the peers that it names, and the distinct peers with
/// the bytes sent to them.
pub(super) fn scripts(plan: &ReadyPlan) -> Vec<ScriptView> {
    let describe = |(script, charges): (&Script, &Vec<Span>)| {
        let mut hash = Hash::default();
        let mut peers: Vec<(To, u64)> = Vec::new();
        let mut seen: FxHashMap<(To, u64), ()> = FxHashMap::default();
        for step in &script.steps {
            [
                step.bytes,
                u64::from(step.slot),
                u64::from(step.after_usable),
                u64::from(step.after_received),
            ]
            .into_iter()
            .for_each(|w| hash.add(w));
            hash.add(u64::from(step.to.is_some()) << 1 | u64::from(step.from.is_some()));
            let own = step
                .to
                .map(|to| (to, step.bytes))
                .into_iter()
                .chain(step.from.map(|from| (from, step.bytes)));
            own.for_each(|p| {
                if seen.insert(p, ()).is_none() {
                    peers.push(p)
                }
            });
        }
        charges.iter().for_each(|c| hash.add(c.0));
        (hash.value().0, peers)
    };
    plan.plan.scripts.iter().zip(&plan.charges).map(describe).collect()
}

/// Two independent 64-bit hashes of the same words.
pub(super) struct Hash(engine::Digest, u64);

impl Default for Hash {
    fn default() -> Self {
        Hash(engine::Digest::default(), 0x9e37_79b9_7f4a_7c15)
    }
}

impl Hash {
    pub(super) fn add(&mut self, word: u64) {
        self.0.add(word);
        self.1 = (self.1.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub(super) fn value(&self) -> (u64, u64) {
        (self.0.value(), self.1)
    }
}
