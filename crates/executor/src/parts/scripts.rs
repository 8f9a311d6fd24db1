//! Lowered collectives, and the scripts of their phases side by side.
//!
//! Every request is lowered once. Here: the lowerings, and their scripts laid out flat, so that a
//! step is found by an index. Not here: how a collective is lowered (crate `lowering`), and which
//! script a chunk runs (`executor/phases.rs`).

use crate::settings::Settings;
use collective::Step;
use graph::{Problem, Workload};
use lowering::loopback::{Loopback, Ties};
use lowering::{Geometry, Lowered, Lowering, PhaseSpec, Request, Shapes};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use units::Span;

/// A lowering, and the first flat script of each of its (shape, phase).
pub(crate) type LaidOut = (Arc<Lowered>, Arc<[Vec<u32>]>);

/// A script laid out flat, with what its steps need to know of the phase.
#[derive(Clone, Copy)]
pub(crate) struct FlatScript {
    /// Range of its steps.
    first: u32,
    last: u32,
    /// First charge of the script.
    charges: u32,
    pub(crate) receives: u32,
    /// Positions of the phase.
    pub(crate) n: u32,
    /// Rank distance between positions; 0 in a group.
    pub(crate) stride: u32,
    /// Endpoint delay.
    pub(crate) delay: Span,
    /// Every position sees the same on any line.
    pub(crate) regular: bool,
    /// The phase may take its closed form, see `executor/lockstep.rs`.
    pub(crate) lockstep: bool,
}

/// See the module.
pub(crate) struct Scripts<'a> {
    lowering: &'a dyn Lowering,
    shapes: Shapes<'a>,
    lowered: FxHashMap<Request, LaidOut>,
    /// Times of messages by dimension and bytes: workloads repeat their sizes.
    messages: FxHashMap<(u32, u64), Option<Span>>,
    scripts: Vec<FlatScript>,
    steps: Vec<Step>,
    /// Bytes for which the message of each step keeps the link by which it leaves.
    paced: Vec<u64>,
    charges: Vec<Span>,
}

impl<'a> Scripts<'a> {
    pub(crate) fn new(settings: &'a Settings, lowering: &'a dyn Lowering) -> Scripts<'a> {
        Scripts {
            lowering,
            shapes: Shapes::new(&settings.sizes, settings.aligned_groups),
            lowered: FxHashMap::default(),
            messages: FxHashMap::default(),
            scripts: Vec::new(),
            steps: Vec::new(),
            paced: Vec::new(),
            charges: Vec::new(),
        }
    }

    /// Index of the shape of a group.
    pub(crate) fn shape_of(&mut self, workload: &Workload, group: u32) -> u32 {
        self.shapes.index(workload, group)
    }

    /// Time that a library needs for a message of the workload; see [`Lowering::message`].
    pub(crate) fn message(&mut self, dim: u32, bytes: u64) -> Option<Span> {
        let lowering = self.lowering;
        *self.messages.entry((dim, bytes)).or_insert_with(|| lowering.message(dim, bytes))
    }

    /// The lowering of a request, and where its scripts are.
    pub(crate) fn lower(
        &mut self,
        request: Request,
        settings: &Settings,
    ) -> Result<LaidOut, Problem> {
        if let Some(found) = self.lowered.get(&request) {
            return Ok(found.clone());
        }
        let lowered = Arc::new(self.lowering.lower(&request, self.shapes.get(request.shape))?);
        let single = lowered.shapes.iter().all(|s| s.len() == 1);
        let lay_out =
            |p: &PhaseSpec, all: &mut Self| all.lay_out(p, settings.may_lockstep(p, single));
        let scripts: Arc<[Vec<u32>]> = lowered
            .shapes
            .iter()
            .map(|phases| phases.iter().map(|p| lay_out(p, self)).collect())
            .collect();
        self.lowered.insert(request, (lowered.clone(), scripts.clone()));
        Ok((lowered, scripts))
    }

    /// Lays out all scripts of a phase: by plan, then direction, then role. Returns the first.
    fn lay_out(&mut self, phase: &PhaseSpec, lockstep: bool) -> u32 {
        let first = self.scripts.len() as u32;
        let stride = if let Geometry::Line { stride, .. } = phase.geometry { stride } else { 0 };
        let plans = phase.plans.iter().flat_map(|d| [d.forward.clone(), d.backward.clone()]);
        for plan in plans {
            let prices = plan.charges.iter().zip(&plan.receives).zip(&plan.paced);
            for (script, ((charges, &receives), paced)) in plan.plan.scripts.iter().zip(prices) {
                let steps = self.steps.len() as u32;
                self.scripts.push(FlatScript {
                    first: steps,
                    last: steps + script.steps.len() as u32,
                    charges: self.charges.len() as u32,
                    receives,
                    n: plan.plan.n,
                    stride,
                    delay: phase.endpoint_delay,
                    regular: phase.regular,
                    lockstep,
                });
                self.steps.extend_from_slice(&script.steps);
                self.paced.extend_from_slice(paced);
                self.charges.extend_from_slice(charges);
            }
        }
        first
    }

    #[inline]
    pub(crate) fn get(&self, script: u32) -> FlatScript {
        self.scripts[script as usize]
    }

    #[inline]
    pub(crate) fn steps(&self, script: &FlatScript) -> &[Step] {
        &self.steps[script.first as usize..script.last as usize]
    }

    /// For how many bytes the message of a step keeps the link by which it leaves.
    #[inline]
    pub(crate) fn paced(&self, script: &FlatScript, step: u32) -> u64 {
        self.paced[(script.first + step) as usize]
    }

    /// Time charged on the j-th reception of a script, in order of arrival.
    #[inline]
    pub(crate) fn charge(&self, script: &FlatScript, j: u32) -> Span {
        self.charges[(script.charges + j) as usize]
    }

    /// Whether a script begins with a message.
    #[inline]
    pub(crate) fn begins_with_send(&self, script: &FlatScript) -> bool {
        self.steps(script).first().is_some_and(|step| step.to.is_some())
    }

    /// A script as a position that sends to itself follows it.
    pub(crate) fn loopback(
        &self,
        script: &FlatScript,
        start: Span,
        ties: Ties,
    ) -> Loopback<'_, impl Fn(u32) -> Span> {
        let (delay, first) = (script.delay, script.charges as usize);
        let charges = &self.charges[first..first + script.receives as usize];
        let wait = move |j: u32| delay + charges[j as usize];
        Loopback { steps: self.steps(script), start, wait, ties }
    }

    /// All lowerings, in no order.
    pub(crate) fn into_lowered(self) -> Vec<Arc<Lowered>> {
        self.lowered.into_values().map(|(lowered, _)| lowered).collect()
    }
}
