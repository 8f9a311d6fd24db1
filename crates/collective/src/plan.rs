//! One phase on one group of `n` positions: for each position an ordered script of steps.
//!
//! A step *fires* when enough receptions are done (`after_usable`, `after_received`) and every
//! earlier step has fired; it then issues its send and posts its receive. A reception is *received*
//! when the message is there and its receive is posted, and *usable* after the endpoint delay and
//! the reduction it is charged. A position ends when all its steps have fired and all its posted
//! receives are usable. Counting receptions is enough because a receive is posted only by its step.
//! [`Follower`](crate::Follower) applies these rules.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// The position that a step talks to, seen from position `i` of `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// Position `(i + k) mod n`.
    Shift(u32),
    /// Position `i XOR k`.
    Xor(u32),
    /// That very position.
    At(u32),
}

impl To {
    /// The position meant, from `i` of `n`.
    #[inline]
    pub fn position(self, i: u32, n: u32) -> u32 {
        match self {
            To::Shift(k) => {
                let p = i + k;
                if p >= n { p - n } else { p }
            }
            To::Xor(k) => i ^ k,
            To::At(p) => p,
        }
    }

    /// The same relation seen from the other end (`At` has none and stays).
    pub fn inverse(self, n: u32) -> To {
        match self {
            To::Shift(k) => To::Shift((n - k) % n),
            other => other,
        }
    }
}

/// One step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Send to this position, if any; must not be the own position.
    pub to: Option<To>,
    /// Bytes of the send.
    pub bytes: u64,
    /// Which receive of the destination takes the message: the index among the destination script's
    /// receives, in step order.
    pub slot: u32,
    /// Post one receive when firing (the next one in order), from this position.
    pub from: Option<To>,
    /// Receptions of this phase that must be usable first.
    pub after_usable: u32,
    /// Receptions of this phase that must have been received first.
    pub after_received: u32,
}

impl Step {
    /// A send of `bytes` to receive `slot` of `to` once `after` receptions are usable.
    pub fn send(to: To, bytes: u64, slot: u32, after: u32) -> Step {
        Step { to: Some(to), bytes, slot, from: None, after_usable: after, after_received: 0 }
    }

    /// A receive from `from` posted once `after` receptions are usable.
    pub fn receive(from: To, after: u32) -> Step {
        Step {
            to: None,
            bytes: 0,
            slot: 0,
            from: Some(from),
            after_usable: after,
            after_received: 0,
        }
    }

    /// The same step that posts a receive from `from`, too.
    pub fn and_receive(self, from: To) -> Step {
        Step { from: Some(from), ..self }
    }
}

/// Steps of one position in a phase.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Script {
    /// In firing order.
    pub steps: Vec<Step>,
    /// For the j-th reception in order of arrival: bytes reduced into the local buffer (0 for
    /// none). As long as the receives.
    pub charges: Vec<u64>,
}

/// A phase: scripts and which position runs which.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Positions.
    pub n: u32,
    /// Distinct scripts.
    pub scripts: Vec<Script>,
    /// Script of each position; empty when all run script 0 (then the plan looks the same from
    /// every position).
    pub roles: Vec<u32>,
}

impl Script {
    /// A script in which no reception is reduced.
    pub fn plain(steps: Vec<Step>) -> Script {
        let receives = steps.iter().filter(|s| s.from.is_some()).count();
        Script { steps, charges: vec![0; receives] }
    }

    /// The positions this script receives from, in slot order.
    pub fn receives(&self) -> impl Iterator<Item = To> + '_ {
        self.steps.iter().filter_map(|s| s.from)
    }
}

impl Plan {
    /// A plan in which positions of equal `key` run the same script, numbered in order of first
    /// appearance.
    pub fn by_role<K: Copy + Eq + Hash>(
        n: u32,
        key: impl Fn(u32) -> K,
        build: impl Fn(K) -> Script,
    ) -> Plan {
        let mut known = FxHashMap::default();
        let mut plan = Plan { n, scripts: Vec::new(), roles: Vec::with_capacity(n as usize) };
        for position in 0..n {
            let key = key(position);
            let role = *known.entry(key).or_insert_with(|| {
                plan.scripts.push(build(key));
                plan.scripts.len() as u32 - 1
            });
            plan.roles.push(role);
        }
        plan
    }

    /// A plan in which every position runs `script`.
    pub fn uniform(n: u32, script: Script) -> Plan {
        Plan { n, scripts: vec![script], roles: Vec::new() }
    }

    /// The script of `position`.
    #[inline]
    pub fn script(&self, position: u32) -> &Script {
        &self.scripts[self.role(position) as usize]
    }

    /// The script index of `position`.
    #[inline]
    pub fn role(&self, position: u32) -> u32 {
        if self.roles.is_empty() { 0 } else { self.roles[position as usize] }
    }

    /// The same plan with left and right exchanged: what position p did, `2 * root - p` does. The
    /// root keeps its place.
    pub fn mirrored(&self, root: u32) -> Plan {
        let n = self.n;
        let reflect = |p: u32| {
            ((2 * u64::from(root) + u64::from(n) - u64::from(p)) % u64::from(n.max(1))) as u32
        };
        let turn = |to: To| if let To::At(p) = to { To::At(reflect(p)) } else { to.inverse(n) };
        let mut plan = self.clone();
        for step in plan.scripts.iter_mut().flat_map(|s| &mut s.steps) {
            (step.to, step.from) = (step.to.map(turn), step.from.map(turn));
        }
        plan.roles =
            (0..self.roles.len() as u32).map(|p| self.roles[reflect(p) as usize]).collect();
        plan
    }

    /// True when every position behaves alike, so that a phase may fold.
    pub fn is_uniform(&self) -> bool {
        self.roles.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, PlanRequest};
    use graph::CollectiveKind;

    /// Senders and receivers in a mirrored plan are the reflections of the original ones, with
    /// unchanged scripts otherwise.
    #[test]
    fn mirroring_reflects_every_send_and_receive() {
        let algorithms =
            [Algorithm::Ring, Algorithm::Direct { window: None }, Algorithm::DoubleBinaryTree];
        for (kind, algorithm) in
            CollectiveKind::ALL.into_iter().flat_map(|k| algorithms.map(|a| (k, a)))
        {
            let request = PlanRequest { kind, algorithm, n: 7, bytes: 70, root: 2, chunk: 1 };
            let Ok(plan) = request.plan() else { continue };
            let mirror = plan.mirrored(2);
            let reflect = |p: u32| (4 + 7 - p) % 7;
            for p in 0..7 {
                let (here, there) = (mirror.script(p), plan.script(reflect(p)));
                assert_eq!((here.steps.len(), &here.charges), (there.steps.len(), &there.charges));
                for (a, b) in here.steps.iter().zip(&there.steps) {
                    let other = |to: Option<To>, at: u32| to.map(|to| to.position(at, 7));
                    assert_eq!(other(a.to, p), other(b.to, reflect(p)).map(reflect));
                    assert_eq!(other(a.from, p), other(b.from, reflect(p)).map(reflect));
                    assert_eq!(
                        (a.slot, a.bytes, a.after_usable),
                        (b.slot, b.bytes, b.after_usable)
                    );
                }
            }
            assert_eq!(mirror.mirrored(2), plan);
        }
    }
}
