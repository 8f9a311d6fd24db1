//! Double binary tree: even chunks run on one binary tree, odd chunks on another in which (nearly)
//! all leaves are inner.
//!
//! Each tree is numbered in order: over labels `0..n`, label 0 is the root with one child, an odd
//! label is a leaf, and label v with lowest bit b has the children `v - b/2` and `v + b/2` (or,
//! where that is outside, the nearest lower one that exists). The second tree relabels: mirrored
//! when the number of tree nodes is even, shifted by one when it is odd. All-reduce, barrier: all
//! positions take part in the relabelling, so the roots differ. Broadcast, reduce: the root is
//! label 0 of both and only the others are relabelled. Any `n`.
//!
//! The whole chunk goes up and down: `2 (n-1) m` bytes for an all-reduce, `(n-1) m` for a broadcast
//! or reduce; depth `floor(log2(n-1)) + 1` each way. Over two chunks of an all-reduce no position sends
//! or receives more than four chunks: with many chunks the bytes per NPU of a ring, in logarithmic
//! rounds. Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan", 2009; NCCL 2.4.

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{Algorithm, Plan, PlanError, Script, Step, To};
use graph::CollectiveKind;

/// The double-binary-tree plan of chunk number `chunk`; `root` matters to rooted kinds only.
///
/// # Errors
/// A kind other than all-reduce, broadcast, reduce and barrier; an empty group; a root outside.
pub fn plan(
    kind: CollectiveKind,
    n: u32,
    bytes: u64,
    root: u32,
    chunk: u32,
) -> Result<Plan, PlanError> {
    PlanRequest { kind, algorithm: Algorithm::DoubleBinaryTree, n, bytes, root, chunk }.plan()
}

/// Whether there is a plan for `kind`.
pub(crate) fn fits(kind: CollectiveKind) -> bool {
    use CollectiveKind::{AllReduce, Barrier, Broadcast, Reduce};
    matches!(kind, AllReduce | Barrier | Broadcast | Reduce)
}

/// One of the two trees of a request.
#[derive(Clone, Copy)]
struct Tree {
    n: u32,
    /// Position of label 0 before relabelling.
    root: u32,
    /// Labels below this one are not relabelled.
    fixed: u32,
    second: bool,
}

impl Tree {
    fn of(request: &PlanRequest) -> Tree {
        let rooted = crate::is_rooted(request.kind);
        let root = if rooted { request.root } else { 0 };
        Tree { n: request.n, root, fixed: u32::from(rooted), second: request.chunk % 2 == 1 }
    }

    fn label(self, position: u32) -> u32 {
        let v = (position + self.n - self.root) % self.n;
        let nodes = self.n - self.fixed;
        match v.checked_sub(self.fixed) {
            Some(w) if self.second && nodes.is_multiple_of(2) => self.fixed + (nodes - 1 - w),
            Some(w) if self.second => self.fixed + (w + nodes - 1) % nodes,
            _ => v,
        }
    }

    fn position(self, label: u32) -> u32 {
        let nodes = self.n - self.fixed;
        let v = match label.checked_sub(self.fixed) {
            Some(w) if self.second && nodes.is_multiple_of(2) => self.fixed + (nodes - 1 - w),
            Some(w) if self.second => self.fixed + (w + 1) % nodes,
            _ => label,
        };
        (v + self.root) % self.n
    }
}

/// Children of label `v` among `0..n`, left before right.
fn children(v: u32, n: u32) -> impl Iterator<Item = u32> + Clone {
    let half = if v == 0 { 0 } else { (1u32 << v.trailing_zeros()) >> 1 };
    let left = (half > 0).then(|| v - half);
    let mut step = if v == 0 { 1 << (n - 1).max(1).ilog2() } else { half };
    while step > 0 && v + step >= n {
        step >>= 1;
    }
    let right = (step > 0).then(|| v + step);
    left.into_iter().chain(right)
}

/// Parent of label `v` among `0..n`; none for label 0.
fn parent(v: u32, n: u32) -> Option<u32> {
    let bit = 1u32.checked_shl(v.trailing_zeros())?;
    let up = (v - bit) | (bit << 1);
    Some(if up < n { up } else { v - bit })
}

/// An edge seen from one end: how far on the other end is, and which of its receives takes a
/// message of this end.
type Edge = (u32, u32);

/// A position's place in the tree: the edge to its parent and those to its children.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    up: Option<Edge>,
    down: [Option<Edge>; 2],
}

impl Place {
    /// `answers`: the parent's message comes behind those of the children, as in an all-reduce.
    fn of(tree: Tree, position: u32, answers: bool) -> Place {
        let n = tree.n;
        let v = tree.label(position);
        let shift = |label: u32| (tree.position(label) + n - position) % n;
        let up = parent(v, n)
            .map(|u| (shift(u), children(u, n).position(|c| c == v).unwrap_or(0) as u32));
        let slot = |label: u32| if answers { children(label, n).count() as u32 } else { 0 };
        let mut down = children(v, n).map(|c| (shift(c), slot(c)));
        Place { up, down: [down.next(), down.next()] }
    }

    fn children(self) -> u32 {
        self.down.iter().flatten().count() as u32
    }
}

pub(crate) fn make(request: &PlanRequest) -> Plan {
    let n = request.n;
    let tree = Tree::of(request);
    let bytes = if request.kind == CollectiveKind::Barrier { 0 } else { request.bytes };
    let answers = !crate::is_rooted(request.kind);
    let place = |position| Place::of(tree, position, answers);
    let (up, down) =
        (request.kind != CollectiveKind::Broadcast, request.kind != CollectiveKind::Reduce);
    Plan::by_role(n, place, |place| script(place, bytes, up, down))
}

/// Receive from the children and send to the parent (`up`), receive from the parent and send to the
/// children (`down`).
fn script(place: Place, bytes: u64, up: bool, down: bool) -> Script {
    let children = if up { place.children() } else { 0 };
    let edges = || place.down.iter().flatten();
    let mut steps: Vec<Step> = Vec::with_capacity(6);
    if up {
        steps.extend(edges().map(|&(shift, _)| Step::receive(To::Shift(shift), 0)));
    }
    if let Some((shift, slot)) = place.up {
        let from = down.then_some(To::Shift(shift));
        let send = Step::send(To::Shift(shift), bytes, slot, children);
        steps.push(if up { Step { from, ..send } } else { Step::receive(To::Shift(shift), 0) });
    }
    let answered = children + u32::from(place.up.is_some());
    if down {
        steps.extend(
            edges().map(|&(shift, slot)| Step::send(To::Shift(shift), bytes, slot, answered)),
        );
    }
    let mut script = Script::plain(steps);
    script.charges[..children as usize].fill(bytes);
    script
}

/// Content of step `step` of `position` (blocks as in [`mod@crate::prove`]).
pub(crate) fn content(request: &PlanRequest, position: u32, step: u32) -> Content {
    let place = Place::of(Tree::of(request), position, true);
    let climbs =
        request.kind != CollectiveKind::Broadcast && place.up.is_some() && step == place.children();
    match request.kind {
        CollectiveKind::Barrier => Content::Everything,
        _ if climbs => Content::reduced(0),
        _ => Content::stored(0),
    }
}

/// Blocks a message buffer is cut into.
pub(crate) fn cut(_: &PlanRequest) -> u32 {
    1
}

/// Bytes that all positions send together.
pub(crate) fn volume(request: &PlanRequest) -> u128 {
    let once = u128::from(request.n - 1) * u128::from(request.bytes);
    match request.kind {
        CollectiveKind::AllReduce => 2 * once,
        CollectiveKind::Barrier => 0,
        _ => once,
    }
}
