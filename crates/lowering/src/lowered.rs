//! From one collective to what the executor runs: chunks, each a list of phases, each with its
//! plan, queue and delays.
//!
//! Here: the data. How it is made: `native.rs` for our semantics, `astra_sim/` for ASTRA-sim's.

use crate::shape::Shape;
use collective::custom::Custom;
use collective::{Plan, Script, Step, To, is_rooted};
use graph::{CollectiveKind, Node, Op, Problem};
use platform::CustomAlgorithm;
use std::sync::Arc;
use topology::{Fabric, Symmetry};
use units::{Bytes, Span};

/// Which of a dimension's queues a phase is dealt to, round robin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// All of them.
    All,
    /// The first half (the only one when there is one).
    First,
    /// The second half (the only one when there is one), mirrored.
    Second,
}

impl Lane {
    /// Queue of the `queues` of a dimension that the `nth` chunk dealt to this lane waits in, and
    /// whether chunks in it run backwards.
    #[inline]
    pub fn queue(self, queues: u32, nth: u32) -> (u32, bool) {
        if queues == 1 {
            return (0, self == Lane::Second);
        }
        let half = queues / 2;
        let (low, count) = match self {
            Lane::All => (0, queues),
            Lane::First => (0, half),
            Lane::Second => (half, queues - half),
        };
        let queue = low + nth % count;
        (queue, queue >= half)
    }

    /// The lane of each phase: an all-reduce that comes back does so on the second, and goes there
    /// on the first. All-reduces in between have nothing that comes back, so they use all.
    pub fn of(kind: CollectiveKind, phases: &[collective::Phase]) -> Vec<Lane> {
        let all_reduce = kind == CollectiveKind::AllReduce;
        let up = phases.iter().position(|p| all_reduce && p.kind == CollectiveKind::AllGather);
        let lane = |at: usize| match up {
            Some(_) if phases[at].kind == CollectiveKind::AllReduce => Lane::All,
            Some(up) if at >= up => Lane::Second,
            Some(_) => Lane::First,
            None => Lane::All,
        };
        (0..phases.len()).map(lane).collect()
    }
}

/// How positions of a phase map to ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// The line through a rank: `base + position * stride`.
    Line {
        /// Rank distance between neighbours.
        stride: u32,
        /// Positions.
        size: u32,
    },
    /// Positions of the communicator group.
    Group,
}

/// A collective as the lowering sees it: the key under which its result is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Kind.
    pub kind: CollectiveKind,
    /// Bytes, meaning as in `graph::Op::Collective`.
    pub bytes: u64,
    /// Shape of the group, an index the executor gives out.
    pub shape: u32,
    /// The node's id, when an algorithm is set for that very node.
    pub node: Option<u64>,
    /// Dimensions that take part.
    pub dims: u32,
    /// Position of the root.
    pub root: u32,
}

impl Request {
    /// The request of `node` on a group of this shape, where nodes `own` have an algorithm of their
    /// own; `None` for a node that is not a collective. Equal collectives give equal requests: a
    /// barrier has no size, and only some kinds have a root.
    pub fn of(node: &Node, shape: u32, own: &[u64]) -> Option<Request> {
        let Op::Collective { kind, bytes, dims, root, .. } = node.op else { return None };
        let bytes = if kind == CollectiveKind::Barrier { 0 } else { bytes.0 };
        let root = if is_rooted(kind) { root } else { 0 };
        let node = own.contains(&node.id).then_some(node.id);
        Some(Request { kind, bytes, shape, node, dims, root })
    }
}

/// A plan with its charges in time and, for rendezvous, the way back from a receive to its send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyPlan {
    /// The plan.
    pub plan: Plan,
    /// For each script, the time charged on the j-th reception.
    pub charges: Vec<Vec<Span>>,
    /// For each script, the number of receives.
    pub receives: Vec<u32>,
    /// For each script and step, for how many bytes its message keeps the link by which it leaves,
    /// where messages wait nowhere else: at least its own (`pattern.rs`).
    pub paced: Vec<Vec<u64>>,
}

impl ReadyPlan {
    /// Prices `plan` with `charge` (bytes reduced to time).
    pub fn new(plan: Plan, charge: impl Fn(u64) -> Span) -> ReadyPlan {
        let priced = plan
            .scripts
            .iter()
            .map(|s| s.charges.iter().map(|&b| if b == 0 { Span::ZERO } else { charge(b) }));
        let charges = priced.map(Iterator::collect).collect();
        let count = |steps: &[Step]| steps.iter().filter(|s| s.from.is_some()).count() as u32;
        let receives = plan.scripts.iter().map(|s| count(&s.steps)).collect();
        let bytes = |s: &Script| s.steps.iter().map(|step| step.bytes).collect();
        let paced = plan.scripts.iter().map(bytes).collect();
        ReadyPlan { plan, charges, receives, paced }
    }

    /// The step of the script at position `from` whose message goes to receive `slot` of position
    /// `to`.
    ///
    /// # Panics
    /// When there is none: every receive has its send (`collective::prove`).
    pub fn sender_step(&self, from: u32, to: u32, slot: u32) -> u32 {
        let steps = &self.plan.script(from).steps;
        let sends =
            |s: &Step| s.slot == slot && s.to.is_some_and(|t| t.position(from, self.plan.n) == to);
        if steps.get(slot as usize).is_some_and(sends) {
            return slot;
        }
        steps.iter().position(sends).expect("every receive has its send") as u32
    }

    /// The same plan the other way round: every shift negated.
    pub fn mirrored(&self) -> ReadyPlan {
        let mut mirror = self.clone();
        for step in mirror.plan.scripts.iter_mut().flat_map(|s| &mut s.steps) {
            step.to = step.to.map(|to| to.inverse(self.plan.n));
            step.from = step.from.map(|from| from.inverse(self.plan.n));
        }
        mirror
    }
}

/// Both directions of a plan; equal where direction means nothing.
#[derive(Clone, Debug)]
pub struct Directed {
    /// Towards higher positions.
    pub forward: Arc<ReadyPlan>,
    /// Towards lower positions.
    pub backward: Arc<ReadyPlan>,
}

impl Directed {
    /// Both directions of `plan`.
    pub fn new(plan: ReadyPlan) -> Directed {
        // A plan with roles is bound to its positions: reversed, it would be another collective.
        let turns = |step: &Step| matches!(step.to, Some(To::Shift(_)));
        let directed =
            plan.plan.is_uniform() && plan.plan.scripts.iter().any(|s| s.steps.iter().any(turns));
        let backward = directed.then(|| Arc::new(plan.mirrored()));
        let forward = Arc::new(plan);
        Directed { backward: backward.unwrap_or_else(|| forward.clone()), forward }
    }
}

impl Directed {
    /// Both directions, changed.
    #[must_use]
    pub fn map(mut self, change: impl Fn(&mut ReadyPlan)) -> Directed {
        let same = Arc::ptr_eq(&self.forward, &self.backward);
        change(Arc::make_mut(&mut self.forward));
        if same {
            return Directed { backward: self.forward.clone(), forward: self.forward };
        }
        change(Arc::make_mut(&mut self.backward));
        self
    }
}

/// A condition on a rank's position along a line: `rank / stride % size == at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Rank distance between neighbours.
    pub stride: u32,
    /// Positions.
    pub size: u32,
    /// The position asked for.
    pub at: u32,
}

/// One phase of a chunk.
#[derive(Clone, Debug)]
pub struct PhaseSpec {
    /// Dimension whose queues it waits in.
    pub dim: u32,
    /// Which of them.
    pub lane: Lane,
    /// Positions.
    pub geometry: Geometry,
    /// Plans that chunks take in turn: one, or two for alternating trees; none with `custom`.
    pub plans: Vec<Directed>,
    /// An operation graph from a file, instead of a plan.
    pub custom: Option<Arc<Custom>>,
    /// Only ranks that meet all of these enter the phase (rooted kinds over several dimensions).
    pub only: Vec<Filter>,
    /// Before the first send and after every reception.
    pub endpoint_delay: Span,
    /// Kind of collective.
    pub kind: CollectiveKind,
    /// The larger of an NPU's two buffers in it.
    pub bytes: u64,
    /// Name of the algorithm, for people.
    pub algorithm: Arc<str>,
    /// Every position sees the same paths at the same steps, on any line of this geometry; see
    /// [`regular`].
    pub regular: bool,
}

/// The larger of an NPU's two buffers where `kind` takes `bytes` on `n` positions.
pub fn buffer(kind: CollectiveKind, bytes: u64, n: u32) -> u64 {
    match kind {
        CollectiveKind::AllGather | CollectiveKind::Gather => bytes.saturating_mul(u64::from(n)),
        _ => bytes,
    }
}

/// True when every position of a line runs the same script over paths whose length depends on the
/// step alone: in a physical dimension any step over a switch or full connection does; on a whole
/// ring a shift, or an exchange at a power of two.
pub fn regular(fabric: &Fabric, geometry: Geometry, plans: &[Directed]) -> bool {
    let Geometry::Line { stride, size } = geometry else { return false };
    let Some((_, symmetry, full)) = fabric.line(stride, size) else { return false };
    let same = |to: &To| match to {
        To::Shift(_) => full,
        To::Xor(k) => full && k.is_power_of_two(),
        To::At(_) => false,
    };
    let mut steps = plans.iter().flat_map(|d| &d.forward.plan.scripts).flat_map(|s| &s.steps);
    let uniform = !plans.is_empty() && plans.iter().all(|d| d.forward.plan.is_uniform());
    uniform
        && match symmetry {
            Symmetry::Full => true,
            Symmetry::Rotation => steps.all(|s| s.to.as_ref().is_none_or(same)),
            Symmetry::None => false,
        }
}

/// One collective, lowered.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    /// Phase lists: one for full chunks and, where the last chunk is smaller, one for it; with
    /// chunks of different orders one for each.
    pub shapes: Vec<Vec<PhaseSpec>>,
    /// Number of chunks. Zero: the collective is over at once.
    pub chunks: u32,
    /// Index of every chunk's phase list; empty: the last takes the last, the others the first.
    pub shape_of: Vec<u32>,
}

impl Lowered {
    /// The phases of `chunk`.
    #[inline]
    pub fn phases(&self, chunk: u32) -> &[PhaseSpec] {
        &self.shapes[self.shape(chunk)]
    }

    /// Index of the phases of `chunk`.
    #[inline]
    pub fn shape(&self, chunk: u32) -> usize {
        match self.shape_of.get(chunk as usize) {
            Some(&shape) => shape as usize,
            None if chunk + 1 == self.chunks => self.shapes.len() - 1,
            None => 0,
        }
    }
}

/// Makes a [`Lowered`] of a request: with our semantics or ASTRA-sim's.
pub trait Lowering {
    /// Lowers `request` on a group of `shape`.
    ///
    /// # Errors
    /// A [`Problem`] without file or place when an algorithm cannot run on a dimension.
    fn lower(&self, request: &Request, shape: &Shape) -> Result<Lowered, Problem>;

    /// Time of a message of the workload alone, where a library sends it; the outermost dimension
    /// it crosses is `dim`.
    fn message(&self, _dim: u32, _bytes: u64) -> Option<Span> {
        None
    }
}

/// One phase that runs an algorithm from a file as one chunk, on a group of `members`.
///
/// # Errors
/// If the file is for another number of members or another kind, or cannot run.
pub fn custom(
    algorithm: &CustomAlgorithm,
    request: &Request,
    shape: &Shape,
    members: u64,
) -> Result<Lowered, Problem> {
    let all = if request.kind == CollectiveKind::AllGather { members } else { 1 };
    let sized = algorithm.sized(Bytes(request.bytes.saturating_mul(all)));
    if let CustomAlgorithm::Msccl(msccl) = algorithm {
        if msccl.kind.is_some_and(|k| k != request.kind) {
            let text = format!("{} is not an algorithm for {}", sized.name, request.kind.name());
            return Err(Problem::new("", "", text));
        }
        if let Some(problem) = sized.check().into_iter().next() {
            return Err(problem);
        }
    }
    if sized.positions.len() as u64 != members {
        let have = sized.positions.len();
        let text =
            format!("algorithm {} is for {have} members, but the group has {members}", sized.name);
        return Err(Problem::new("", "", text).help(format!("an algorithm for {members} members")));
    }
    let size = members as u32;
    let algorithm = sized.name.as_str().into();
    let phase = PhaseSpec {
        dim: 0,
        lane: Lane::All,
        geometry: if *shape == Shape::World {
            Geometry::Line { stride: 1, size }
        } else {
            Geometry::Group
        },
        plans: Vec::new(),
        custom: Some(sized),
        only: Vec::new(),
        endpoint_delay: Span::ZERO,
        kind: request.kind,
        bytes: request.bytes,
        algorithm,
        regular: false,
    };
    Ok(Lowered { shapes: vec![vec![phase]], chunks: 1, shape_of: Vec::new() })
}
