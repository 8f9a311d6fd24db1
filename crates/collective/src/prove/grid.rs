//! Collectives over several dimensions, proved end to end: every phase by its own plan, its outcome
//! put together on all lines.
//!
//! An *element* is the smallest piece of the whole collective; each line of a phase maps elements
//! to the blocks of its plan. Elements: piece e of the buffer, owned by NPU e, for all-reduce,
//! reduce-scatter, broadcast, reduce and scatter; the contribution of NPU e for all-gather and
//! gather; `source * N + destination` for all-to-all; "e has arrived" for a barrier.

use super::promise::{self, Held, inputs, promise_kept};
use super::run::Order;
use super::{execute, prove};
use crate::algorithm::PlanRequest;
use crate::phases::{Phase, takes_part};
use crate::{Algorithm, MAX_STEPS};
use graph::CollectiveKind;
use std::collections::BTreeMap;

/// One collective on a grid of NPUs, dimension 1 fastest; at most 128 of them.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    /// Collective that the grid computes.
    pub kind: CollectiveKind,
    /// Sizes of the dimensions, innermost first; the phases name their dimension by its index here.
    pub sizes: &'a [u32],
    /// Bytes of one element; an NPU's input is one element for all-gather and gather, else one for
    /// each NPU.
    pub unit: u64,
    /// The algorithm of each dimension.
    pub algorithms: &'a [Algorithm],
    /// Rank of the root; other kinds ignore it.
    pub root: u32,
    /// Ordinal of the chunk.
    pub chunk: u32,
}

impl Grid<'_> {
    /// Bytes per NPU of the whole collective, as `graph::Op::Collective` means them.
    pub fn bytes(&self) -> u64 {
        match self.kind {
            CollectiveKind::AllGather | CollectiveKind::Gather => self.unit,
            _ => self.unit.saturating_mul(u64::from(self.total())),
        }
    }

    fn total(&self) -> u32 {
        self.sizes.iter().fold(1, |n: u32, &s| n.saturating_mul(s))
    }

    fn stride(&self, dim: usize) -> u32 {
        self.sizes[..dim].iter().product()
    }

    fn coordinate(&self, npu: u64, dim: usize) -> u32 {
        (npu / u64::from(self.stride(dim)) % u64::from(self.sizes[dim])) as u32
    }

    fn at_root(&self, npu: u32, dim: usize) -> bool {
        self.coordinate(u64::from(npu), dim) == self.coordinate(u64::from(self.root), dim)
    }

    /// The NPUs of the line of `npu` along `dim`, in order.
    fn line(&self, npu: u32, dim: usize) -> Vec<u32> {
        let base = npu - self.coordinate(u64::from(npu), dim) * self.stride(dim);
        (0..self.sizes[dim]).map(|p| base + p * self.stride(dim)).collect()
    }

    fn check(&self, phases: &[Phase]) -> Result<(), String> {
        let total = self.sizes.iter().try_fold(1u32, |n, &s| n.checked_mul(s));
        let total = total.filter(|n| (1..=promise::MAX_POSITIONS).contains(n));
        let n = total.ok_or_else(|| {
            format!("a grid of {:?}; allowed: 1 to {} NPUs", self.sizes, promise::MAX_POSITIONS)
        })?;
        let dims = self.sizes.len().min(self.algorithms.len());
        let known = |p: &Phase| p.dim.is_some_and(|d| (d as usize) < dims);
        if !phases.iter().all(known) || self.root >= n || self.unit > u64::MAX / MAX_STEPS {
            return Err(format!(
                "root {}, unit {} or a phase's dimension does not fit {dims}",
                self.root, self.unit
            ));
        }
        Ok(())
    }
}

/// Proves that `phases`, each by its algorithm's plan, do what `grid` promises.
///
/// # Errors
/// What is wrong: a plan that cannot be made or breaks its promise, a phase whose bytes are not
/// what its NPUs hold, or a broken promise of the whole.
pub fn prove_phases(grid: &Grid, phases: &[Phase]) -> Result<(), String> {
    grid.check(phases)?;
    // On the ring every kind is cut into one block per NPU: the elements.
    let &Grid { kind, root, chunk, .. } = grid;
    let whole = PlanRequest {
        kind,
        algorithm: Algorithm::Ring,
        n: grid.total(),
        bytes: grid.bytes(),
        root,
        chunk,
    };
    let mut held: Vec<Held> = (0..whole.n).map(|p| inputs(&whole, p)).collect();
    for (index, phase) in phases.iter().enumerate() {
        let active = |npu: u32| takes_part(phases, index, |d| grid.at_root(npu, d as usize));
        step(grid, phase, &mut held, active).map_err(|e| format!("phase {index}: {e}"))?;
    }
    promise_kept(&whole, &held)
}

/// One phase on all its lines.
fn step(
    grid: &Grid,
    phase: &Phase,
    held: &mut [Held],
    active: impl Fn(u32) -> bool,
) -> Result<(), String> {
    let dim = phase.dim.ok_or("a flat phase")? as usize;
    let root = grid.coordinate(u64::from(grid.root), dim);
    let (algorithm, n) = (grid.algorithms[dim], grid.sizes[dim]);
    let request =
        PlanRequest { kind: phase.kind, algorithm, n, bytes: phase.bytes, root, chunk: grid.chunk };
    let plan = request.plan().map_err(|e| e.to_string())?;
    prove(&plan, &request)?;
    let (_, outcome) =
        execute(&plan, request.n, &request, &|p| inputs(&request, p), Order::Random(4))?;
    let heads =
        (0..grid.total()).filter(|&npu| grid.coordinate(u64::from(npu), dim) == 0 && active(npu));
    for head in heads {
        let line = grid.line(head, dim);
        let before: Vec<Held> =
            line.iter().map(|&npu| std::mem::take(&mut held[npu as usize])).collect();
        full(phase, root, grid.unit, &before)?;
        let blocks = blocks(grid, &request, dim, &before);
        for (position, (&npu, outcome)) in line.iter().zip(&outcome).enumerate() {
            held[npu as usize] = after(&request, position as u32, outcome, &blocks, &before)?;
        }
    }
    Ok(())
}

/// The bytes of a phase must be what its NPUs hold.
fn full(phase: &Phase, root: u32, unit: u64, before: &[Held]) -> Result<(), String> {
    let spreads = matches!(phase.kind, CollectiveKind::Broadcast | CollectiveKind::Scatter);
    for (position, held) in before.iter().enumerate() {
        let counts =
            phase.kind != CollectiveKind::Barrier && (!spreads || position == root as usize);
        if counts && held.len() as u64 * unit != phase.bytes {
            return Err(format!("{} bytes for {} elements of {unit}", phase.bytes, held.len()));
        }
    }
    Ok(())
}

/// Elements of each block of the plan.
fn blocks(
    grid: &Grid,
    request: &PlanRequest,
    dim: usize,
    before: &[Held],
) -> BTreeMap<u64, Vec<u64>> {
    let (n, total) = (u64::from(request.n), u64::from(grid.total()));
    // The pieces of a block have all been through the same, as its plan is proved: the first one
    // stands for them.
    let (cut, parts) = (promise::cut(request), promise::parts(request));
    let mut blocks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (position, held) in before.iter().enumerate() {
        let p = position as u64;
        for (index, &element) in held.keys().enumerate() {
            let owner = u64::from(grid.coordinate(element % total, dim));
            let block = match request.kind {
                CollectiveKind::ReduceScatter | CollectiveKind::Scatter => owner * parts,
                CollectiveKind::AllGather | CollectiveKind::Gather | CollectiveKind::Barrier => {
                    p * parts
                }
                CollectiveKind::AllToAll => (p * n + owner) * parts,
                CollectiveKind::AllReduce | CollectiveKind::Broadcast | CollectiveKind::Reduce => {
                    index as u64 % cut
                }
            };
            let list = blocks.entry(block).or_default();
            if !list.contains(&element) {
                list.push(element);
            }
        }
    }
    blocks
}

/// Content of the NPU at `position` of a line after a phase that left it `outcome` there.
fn after(
    request: &PlanRequest,
    position: u32,
    outcome: &Held,
    blocks: &BTreeMap<u64, Vec<u64>>,
    before: &[Held],
) -> Result<Held, String> {
    let mut held = Held::new();
    for block in promise::promise(request, position).into_keys() {
        let from = outcome.get(&block).copied().unwrap_or(0);
        for &element in blocks.get(&block).map_or(&[][..], Vec::as_slice) {
            let entry = held.entry(element).or_insert(0);
            for source in (0..before.len()).filter(|&s| from >> s & 1 == 1) {
                let set = before[source].get(&element).copied().unwrap_or(0);
                if set == 0 || *entry & set != 0 && request.kind != CollectiveKind::Barrier {
                    return Err(format!(
                        "element {element} at position {position}: {entry:#b} and {set:#b} of {source}"
                    ));
                }
                *entry |= set;
            }
        }
    }
    Ok(held)
}
