//! ASTRA-sim's algorithms as plans: its truncated sizes, its packet cycles and which receptions it
//! charges for reduction.
//!
//! A packet is created at the start (`window` of them) and on every reception; packets are
//! numbered. They come in cycles of `window` plain ones followed by `second` "second-kind" ones;
//! second-kind packets are charged for reduce-scatter always, for all-reduce in every other cycle.
//! The packet born of reception j has number `window + j`.

use collective::{Plan, Script, Step, To};
use graph::CollectiveKind;

/// Which packets are charged.
struct Cycle {
    window: u32,
    second: u32,
    kind: CollectiveKind,
}

impl Cycle {
    fn charged(&self, reception: u32) -> bool {
        let packet = self.window + reception;
        let length = self.window + self.second;
        let second_kind = packet % length >= self.window;
        match self.kind {
            CollectiveKind::ReduceScatter => second_kind,
            CollectiveKind::AllReduce => second_kind && (packet / length).is_multiple_of(2),
            _ => false,
        }
    }
}

/// `size` cut to a message: a fraction of the buffer, except that all-gather sends its whole
/// contribution.
fn message(kind: CollectiveKind, n: u32, size: u64) -> u64 {
    if kind == CollectiveKind::AllGather { size } else { size / u64::from(n) }
}

fn exchange(k: u32, to: To, from: To, bytes: u64, after_usable: u32, after_received: u32) -> Step {
    Step { to: Some(to), bytes, slot: k, from: Some(from), after_usable, after_received }
}

/// Ring: one message in flight, to the next and from the previous.
pub fn ring(kind: CollectiveKind, n: u32, size: u64) -> Plan {
    let bytes = message(kind, n, size);
    let sends = match kind {
        CollectiveKind::AllReduce => 2 * (n - 1),
        CollectiveKind::AllToAll => n * (n - 1) / 2,
        _ => n - 1,
    };
    let cycle = Cycle { window: 1, second: n - 1, kind };
    let steps =
        (0..sends).map(|k| exchange(k, To::Shift(1), To::Shift(n - 1), bytes, k, 0)).collect();
    let charges = (0..sends).map(|j| if cycle.charged(j) { bytes } else { 0 }).collect();
    Plan::uniform(n, Script { steps, charges })
}

/// Direct: `window` messages in flight (all peers when `None`), to each peer in turn. In a
/// communicator group the cycle of packets is longer (`local`).
pub fn direct(kind: CollectiveKind, n: u32, size: u64, window: Option<u32>, local: bool) -> Plan {
    let bytes = message(kind, n, size);
    let window = window.unwrap_or(n - 1).clamp(1, n - 1);
    let sends = if kind == CollectiveKind::AllReduce { 2 * (n - 1) } else { n - 1 };
    let cycle = Cycle { window, second: if local { (n - 1) * window } else { window }, kind };
    let step = |k: u32| {
        let distance = 1 + k % (n - 1);
        let gather = kind == CollectiveKind::AllReduce && k >= n - 1;
        let received = if gather { n - 1 } else { 0 };
        exchange(
            k,
            To::Shift(distance),
            To::Shift(n - distance),
            bytes,
            (k + 1).saturating_sub(window),
            received,
        )
    };
    let charges = (0..sends).map(|j| if cycle.charged(j) { bytes } else { 0 }).collect();
    Plan::uniform(n, Script { steps: (0..sends).map(step).collect(), charges })
}

/// Halving-doubling over a power of two; all divisions truncate, and a reception is charged with
/// the size of the next message.
pub fn halving_doubling(kind: CollectiveKind, n: u32, size: u64) -> Plan {
    let levels = n.trailing_zeros();
    let halving = (0..levels).map(|l| (1u32 << l, size >> (l + 1)));
    let smallest = match kind {
        CollectiveKind::AllGather => size,
        _ => size >> levels,
    };
    let doubling = (0..levels).map(|l| (n >> (l + 1), smallest << l));
    let messages: Vec<(u32, u64)> = match kind {
        CollectiveKind::AllReduce => halving.chain(doubling).collect(),
        CollectiveKind::AllGather => doubling.collect(),
        _ => halving.collect(),
    };
    let step = |(k, &(distance, bytes)): (usize, &(u32, u64))| {
        exchange(k as u32, To::Xor(distance), To::Xor(distance), bytes, k as u32, 0)
    };
    let cycle = Cycle { window: 1, second: levels - 1, kind };
    let next = |j: u32| messages.get(j as usize + 1).map_or(0, |m| m.1);
    let charges =
        (0..messages.len() as u32).map(|j| if cycle.charged(j) { next(j) } else { 0 }).collect();
    Plan::uniform(n, Script { steps: messages.iter().enumerate().map(step).collect(), charges })
}

/// Double binary tree: tree 0 hangs below the highest position, tree 1 below the lowest; each chunk
/// goes up and down whole.
pub fn double_binary_tree(n: u32, size: u64, tree: u32) -> Plan {
    let (root, first) = if tree == 0 { (n - 1, 0) } else { (0, 1) };
    let mut plan = Plan { n, scripts: Vec::new(), roles: (0..n).collect() };
    let top = first + middle(n - 1);
    for position in 0..n {
        let script = if position == root {
            root_script(top, size)
        } else {
            node_script(position - first, n, first, root, size)
        };
        plan.scripts.push(script);
    }
    resolve_tree_slots(&mut plan);
    plan
}

/// Index of the root of a complete in-order tree over `count` nodes.
fn middle(count: u32) -> u32 {
    count / 2
}

fn step(to: Option<u32>, bytes: u64, slot: u32, from: Option<u32>, after_usable: u32) -> Step {
    Step {
        to: to.map(To::At),
        bytes,
        slot,
        from: from.map(To::At),
        after_usable,
        after_received: 0,
    }
}

fn root_script(child: u32, size: u64) -> Script {
    // The child receives from its children (2, or none when it is a leaf) before it hears from us.
    Script {
        steps: vec![step(None, 0, 0, Some(child), 0), step(Some(child), size, u32::MAX, None, 1)],
        charges: vec![size],
    }
}

/// Script of in-order node `at` of the complete tree on `n - 1` nodes that starts at position
/// `first`.
fn node_script(at: u32, n: u32, first: u32, root: u32, size: u64) -> Script {
    let (parent, side, children) = relatives(at, n - 1);
    let parent = parent.map_or(root, |p| p + first);
    // Slot of our message at the parent: the root has one receive, an inner node takes left then
    // right.
    match children {
        None => Script {
            steps: vec![step(Some(parent), size, side, Some(parent), 0)],
            charges: vec![0],
        },
        Some((left, right)) => Script {
            steps: vec![
                step(None, 0, 0, Some(left + first), 0),
                step(None, 0, 0, Some(right + first), 0),
                step(Some(parent), size, side, Some(parent), 2),
                step(Some(left + first), size, u32::MAX, None, 3),
                step(Some(right + first), size, u32::MAX, None, 3),
            ],
            charges: vec![size; 3],
        },
    }
}

/// Parent, which child of it we are (0 left, 1 right), and children of in-order node `at` of a
/// complete tree over `count` nodes.
fn relatives(at: u32, count: u32) -> (Option<u32>, u32, Option<(u32, u32)>) {
    let (mut low, mut size, mut parent, mut side) = (0, count, None, 0);
    loop {
        let half = size / 2;
        let root = low + half;
        if at == root {
            let quarter = half / 2;
            let children = (half > 0).then(|| (low + quarter, root + 1 + quarter));
            return (parent, side, children);
        }
        parent = Some(root);
        (low, side) = if at < root { (low, 0) } else { (root + 1, 1) };
        size = half;
    }
}

/// Fills in the slots of messages that go down a tree: the receive from the parent comes after
/// those from the children.
fn resolve_tree_slots(plan: &mut Plan) {
    let from_parent: Vec<u32> =
        (0..plan.n).map(|p| receives(plan.script(p)).saturating_sub(1)).collect();
    for step in plan.scripts.iter_mut().flat_map(|s| &mut s.steps) {
        if let (u32::MAX, Some(To::At(child))) = (step.slot, step.to) {
            step.slot = from_parent[child as usize];
        }
    }
}

fn receives(script: &Script) -> u32 {
    script.steps.iter().filter(|s| s.from.is_some()).count() as u32
}
