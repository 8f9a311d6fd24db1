//! One program: nodes in ascending id with their dependencies.

use indexmap::IndexSet;
use units::{Bytes, Span};

/// What a collective promises (nccl-tests and MPI meanings).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Barrier,
}

impl CollectiveKind {
    /// Every kind, in a fixed order.
    pub const ALL: [CollectiveKind; 9] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::Broadcast,
        CollectiveKind::Reduce,
        CollectiveKind::Gather,
        CollectiveKind::Scatter,
        CollectiveKind::Barrier,
    ];

    /// The name used in files and on the command line: `all_reduce`, ...
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce => "all_reduce",
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::ReduceScatter => "reduce_scatter",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::Broadcast => "broadcast",
            CollectiveKind::Reduce => "reduce",
            CollectiveKind::Gather => "gather",
            CollectiveKind::Scatter => "scatter",
            CollectiveKind::Barrier => "barrier",
        }
    }
}

/// What kind of kernel a compute node is; platforms give efficiencies by kind.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kernel {
    /// Anything, or not known.
    #[default]
    Other,
    Gemm,
    /// A matrix multiplication for each of several groups of rows, as experts have.
    Grouped,
    Convolution,
    Attention,
    /// Attention of a block of queries to keys that all of them see: no part of it is masked.
    UnmaskedAttention,
    Elementwise,
    Normalization,
    Embedding,
    Optimizer,
}

impl Kernel {
    /// Every kind, in a fixed order.
    pub const ALL: [Kernel; 10] = [
        Kernel::Other,
        Kernel::Gemm,
        Kernel::Grouped,
        Kernel::Convolution,
        Kernel::Attention,
        Kernel::UnmaskedAttention,
        Kernel::Elementwise,
        Kernel::Normalization,
        Kernel::Embedding,
        Kernel::Optimizer,
    ];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Other => "other",
            Kernel::Gemm => "gemm",
            Kernel::Grouped => "grouped",
            Kernel::Convolution => "convolution",
            Kernel::Attention => "attention",
            Kernel::UnmaskedAttention => "unmasked_attention",
            Kernel::Elementwise => "elementwise",
            Kernel::Normalization => "normalization",
            Kernel::Embedding => "embedding",
            Kernel::Optimizer => "optimizer",
        }
    }

    /// The kind whose efficiency counts where a file has none for this one.
    pub const fn general(self) -> Option<Kernel> {
        match self {
            Kernel::Grouped => Some(Kernel::Gemm),
            Kernel::UnmaskedAttention => Some(Kernel::Attention),
            _ => None,
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Kernel> {
        Kernel::ALL.into_iter().find(|kernel| kernel.name() == name)
    }
}

/// How far an access to memory goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// The NPU's own memory.
    Local,
    /// Memory outside the NPU.
    #[default]
    Remote,
    /// Memory outside the NPU, the shards of all NPUs being gathered in its switches on a load,
    /// reduced and scattered on a store.
    InSwitch,
}

impl Reach {
    /// Every one, in a fixed order.
    pub const ALL: [Reach; 3] = [Reach::Local, Reach::Remote, Reach::InSwitch];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Reach::Local => "local",
            Reach::Remote => "remote",
            Reach::InSwitch => "in_switch",
        }
    }

    /// The reach of that name.
    pub fn from_name(name: &str) -> Option<Reach> {
        Reach::ALL.into_iter().find(|reach| reach.name() == name)
    }
}

/// The shape of a matrix multiplication: `batch` times (`m` x `k`) * (`k` x `n`), elements of
/// `width` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Gemm {
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Bytes an element.
    pub width: u8,
}

impl Gemm {
    /// Floating-point operations, a multiplication and an addition for each term; saturating.
    pub fn operations(&self) -> u128 {
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k].map(u128::from);
        (batch * m * n * k).saturating_mul(2)
    }

    /// Bytes of both inputs and the output, each counted once; saturating.
    pub fn bytes(&self) -> Bytes {
        let [m, n, k] = [self.m, self.n, self.k].map(u128::from);
        let elements = u128::from(self.batch) * (m * k + k * n + m * n);
        Bytes(u64::try_from(elements.saturating_mul(u128::from(self.width))).unwrap_or(u64::MAX))
    }
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Bookkeeping; takes no time.
    Metadata,
    /// A node whose type the trace leaves invalid; takes no time.
    Invalid,
    /// Computation: `operations` floating-point operations over `bytes` of tensors (for the
    /// roofline), on the host when `cpu`.
    Compute {
        /// Floating-point operations; `None` when the trace does not say.
        operations: Option<u64>,
        /// Bytes read and written; `None` when the trace does not say.
        bytes: Option<Bytes>,
        /// Runs on the host and occupies no NPU compute.
        cpu: bool,
        /// What kind of kernel it is.
        kernel: Kernel,
    },
    /// Matrix multiplication on the NPU: `batch` times (`m` x `k`) * (`k` x `n`).
    Gemm(Gemm),
    /// The same as one matrix for each of `batch` groups of rows, as experts have.
    Grouped(Gemm),
    /// A load from (or store to) memory.
    Memory {
        /// True for a store.
        store: bool,
        /// Tensor size; in-switch that of the shard of one NPU.
        bytes: Bytes,
        /// Where the tensor is.
        reach: Reach,
    },
    /// Point-to-point send to `rank + peer`.
    Send {
        /// Destination minus own rank.
        peer: i32,
        /// Message size.
        bytes: Bytes,
        /// Matching tag.
        tag: u32,
    },
    /// Point-to-point receive from `rank + peer`.
    Recv {
        /// Source minus own rank.
        peer: i32,
        /// Message size.
        bytes: Bytes,
        /// Matching tag.
        tag: u32,
    },
    /// A collective over the group in slot `slot` of the rank's group table.
    ///
    /// `bytes` per NPU: the input buffer of all-reduce, reduce-scatter, all-to-all, reduce,
    /// broadcast and scatter (at the root); the contribution of one NPU for all-gather and gather;
    /// 0 for barrier.
    Collective {
        /// Kind.
        kind: CollectiveKind,
        /// Size, see above.
        bytes: Bytes,
        /// Index into the rank's group table.
        slot: u32,
        /// Larger is more urgent (policy EXPLICIT).
        priority: i32,
        /// Bit d set: dimension d takes part. All bits set where the trace does not say.
        dims: u32,
        /// Position of the root in the group, for rooted kinds.
        root: u32,
    },
}

impl Op {
    /// Floating-point operations and bytes of a computation on the NPU, where both are known.
    pub fn work(&self) -> Option<(u128, Bytes)> {
        match self {
            Op::Compute {
                operations: Some(operations), bytes: Some(bytes), cpu: false, ..
            } => Some((u128::from(*operations), *bytes)),
            Op::Gemm(gemm) | Op::Grouped(gemm) => Some((gemm.operations(), gemm.bytes())),
            _ => None,
        }
    }
}

/// One operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The id in the file, unique in the program.
    pub id: u64,
    /// Recorded duration, zero when none was recorded.
    pub duration: Span,
    /// What it does.
    pub op: Op,
}

/// An operation graph: nodes ascending by id, dependencies as indices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    nodes: Vec<Node>,
    dep_start: Vec<u32>,
    deps: Vec<u32>,
    child_start: Vec<u32>,
    children: Vec<u32>,
    names: String,
    name_start: Vec<u32>,
    /// For each node an index into `layer_names`, or [`UNLABELLED`]; empty where no node has a
    /// label.
    layers: Vec<u32>,
    /// In the order of their first nodes, so that equal programs are equal.
    layer_names: Vec<String>,
    /// Nodes that change what the NPU's memory holds, ascending; and a bit for each node, set for
    /// those, or nothing where there are none.
    held: Vec<(u32, Held)>,
    holds: Vec<u64>,
    slots: u32,
}

/// What a node changes in the memory of its NPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held {
    /// Held from the start of the node on.
    pub allocates: Bytes,
    /// No longer held after its end.
    pub frees: Bytes,
}

/// Of a node whose layer is what its name begins with.
const UNLABELLED: u32 = u32::MAX;

impl Program {
    /// The nodes, ascending by id. An index into this slice is how everything else names a node.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Indices of the nodes that must finish before node `i` may start.
    pub fn deps(&self, i: usize) -> &[u32] {
        &self.deps[self.dep_start[i] as usize..self.dep_start[i + 1] as usize]
    }

    /// Indices of the nodes that wait for node `i`.
    pub fn children(&self, i: usize) -> &[u32] {
        &self.children[self.child_start[i] as usize..self.child_start[i + 1] as usize]
    }

    /// The name of node `i` as the trace gives it, possibly empty.
    pub fn name(&self, i: usize) -> &str {
        &self.names[self.name_start[i] as usize..self.name_start[i + 1] as usize]
    }

    /// The layer of the model that node `i` belongs to: what it was labelled with, else what its
    /// name begins with.
    pub fn layer(&self, i: usize) -> &str {
        self.label(i).unwrap_or_else(|| named_layer(self.name(i)))
    }

    /// The label of node `i`, where it has one that its name doesn't say.
    pub fn label(&self, i: usize) -> Option<&str> {
        self.layer_names.get(*self.layers.get(i)? as usize).map(String::as_str)
    }

    /// What node `i` changes in the memory of its NPU, where it does.
    #[inline]
    pub fn held(&self, i: usize) -> Option<Held> {
        let word = self.holds.get(i / 64)?;
        if word >> (i % 64) & 1 == 0 {
            return None;
        }
        self.held
            .binary_search_by_key(&(i as u32), |&(node, _)| node)
            .ok()
            .map(|at| self.held[at].1)
    }

    /// Whether nodes say what they change in the memory of their NPU.
    pub fn tracks_memory(&self) -> bool {
        !self.held.is_empty()
    }

    /// How many group slots the program's collectives use.
    pub fn slots(&self) -> u32 {
        self.slots
    }
}

/// Builds a [`Program`]: nodes in any order, dependencies by id.
#[derive(Clone, Debug, Default)]
pub struct ProgramBuilder {
    nodes: Vec<Node>,
    deps: Vec<u64>,
    dep_end: Vec<u32>,
    names: String,
    name_end: Vec<u32>,
    /// As in [`Program`], but shorter by the last nodes that have no label.
    layers: Vec<u32>,
    layer_names: IndexSet<String>,
    /// By index of the node, in any order; several of one node add up.
    held: Vec<(u32, Held)>,
}

/// Why a list of nodes is no program.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProgramError {
    /// Two nodes carry the same id.
    #[error("node id {0} is defined twice; ids must be unique within a trace")]
    DuplicateId(u64),
    /// A dependency on a node that is not there.
    #[error("node {node} depends on node {dep}, which is not in the trace")]
    DanglingDependency {
        /// The node that depends.
        node: u64,
        /// The missing id.
        dep: u64,
    },
    /// More than 2^32 nodes, dependencies or bytes of names.
    #[error("a trace of more than 4,294,967,295 nodes, dependencies or bytes of names")]
    TooLarge,
}

impl ProgramBuilder {
    /// Adds one node with the ids it depends on (control and data alike; repeats are allowed).
    pub fn push(&mut self, node: Node, name: &str, deps: impl IntoIterator<Item = u64>) {
        self.nodes.push(node);
        self.deps.extend(deps);
        self.dep_end.push(self.deps.len() as u32);
        self.names.push_str(name);
        self.name_end.push(self.names.len() as u32);
    }

    /// Says which layer of the model the last node belongs to, once a node. A label that the node's
    /// name begins with is not kept.
    pub fn label(&mut self, layer: &str) {
        let Some(last) = self.nodes.len().checked_sub(1) else { return };
        if layer.is_empty() || layer == named_layer(&self.names[range(&self.name_end, last)]) {
            return;
        }
        // Neighbours share layers, as a rule: they are found without a hash.
        let known = self
            .layers
            .last()
            .filter(|&&i| self.layer_names.get_index(i as usize).is_some_and(|n| n == layer));
        let label = match known {
            Some(&label) => label,
            None => match self.layer_names.get_index_of(layer) {
                Some(label) => label as u32,
                None => self.layer_names.insert_full(layer.to_string()).0 as u32,
            },
        };
        self.layers.resize(last, UNLABELLED);
        self.layers.push(label);
    }

    /// Says that node `index`, in order of definition, allocates bytes of its NPU's memory at its
    /// start and frees some at its end.
    pub fn hold(&mut self, index: usize, held: Held) {
        if held != Held::default() {
            self.held.push((index as u32, held));
        }
    }

    /// What the nodes change in memory, each node once, ascending.
    fn all_held(&self) -> Vec<(u32, Held)> {
        let mut all = self.held.clone();
        all.sort_by_key(|&(node, _)| node);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.allocates.0 = kept.1.allocates.0.saturating_add(next.1.allocates.0);
                kept.1.frees.0 = kept.1.frees.0.saturating_add(next.1.frees.0);
            }
            same
        });
        all
    }

    /// Nodes so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True before the first node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Removes every dependency on a node that is not there, and says how many.
    pub fn drop_dangling(&mut self) -> u64 {
        let mut ids: Vec<u64> = self.nodes.iter().map(|node| node.id).collect();
        ids.sort_unstable();
        let find = finder(&ids);
        let dangling = self.deps.iter().filter(|&&dep| find(dep).is_none()).count() as u64;
        if dangling > 0 {
            let all = std::mem::take(self);
            for (i, &node) in all.nodes.iter().enumerate() {
                let deps = all.deps[range(&all.dep_end, i)]
                    .iter()
                    .copied()
                    .filter(|&id| find(id).is_some());
                self.push(node, &all.names[range(&all.name_end, i)], deps);
                self.label(all.label_of(i));
            }
            self.held = all.held;
        }
        dangling
    }

    /// Indices of the nodes by ascending id, those of equal ids in the order of their definition.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        if !self.nodes.is_sorted_by(|a, b| a.id < b.id) {
            order.sort_by_key(|&i| self.nodes[i as usize].id);
        }
        order
    }

    /// Sorts by id, resolves dependencies and inverts them.
    ///
    /// # Errors
    /// The first [`ProgramError`]; cycles are not looked for here (see `check`).
    pub fn build(self) -> Result<Program, ProgramError> {
        self.build_or_explain().map_err(|mut faults| faults.swap_remove(0))
    }

    /// [`ProgramBuilder::build`] that says everything that is wrong, up to 100,000 faults.
    ///
    /// # Errors
    /// One or more [`ProgramError`]s.
    pub fn build_or_explain(mut self) -> Result<Program, Vec<ProgramError>> {
        let n = self.nodes.len();
        if n >= u32::MAX as usize
            || self.deps.len() >= u32::MAX as usize
            || self.names.len() >= u32::MAX as usize
        {
            return Err(vec![ProgramError::TooLarge]);
        }
        if !self.nodes.is_sorted_by(|a, b| a.id < b.id) {
            self = self.sorted();
        }
        let twice = self.nodes.windows(2).filter(|w| w[0].id == w[1].id).map(|w| w[0].id);
        let mut faults: Vec<ProgramError> =
            twice.take(MOST_FAULTS).map(ProgramError::DuplicateId).collect();
        let mut program = Program::default();
        if faults.is_empty() {
            self.resolve(&mut program, &mut faults);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        program.slots = slots(&self.nodes);
        if !self.layer_names.is_empty() {
            self.layers.resize(n, UNLABELLED);
        }
        program.held = self.all_held();
        program.holds = bits(&program.held, n);
        program.layers = self.layers;
        program.layer_names = self.layer_names.into_iter().collect();
        program.nodes = self.nodes;
        program.names = self.names;
        program.name_start = starts(self.name_end);
        program.invert();
        Ok(program)
    }

    /// The same nodes by ascending id.
    fn sorted(self) -> ProgramBuilder {
        let mut sorted = ProgramBuilder::default();
        let order = self.order();
        let mut place = vec![0; order.len()];
        order.iter().zip(0u32..).for_each(|(&old, new)| place[old as usize] = new);
        sorted.held = self.held.iter().map(|&(node, held)| (place[node as usize], held)).collect();
        for i in order.into_iter().map(|i| i as usize) {
            let name = &self.names[range(&self.name_end, i)];
            sorted.push(self.nodes[i], name, self.deps[range(&self.dep_end, i)].iter().copied());
            sorted.label(self.label_of(i));
        }
        sorted
    }

    /// The label of node `i`, empty where it has none.
    fn label_of(&self, i: usize) -> &str {
        let label =
            self.layers.get(i).and_then(|&label| self.layer_names.get_index(label as usize));
        label.map_or("", String::as_str)
    }

    /// Turns ids into indices, each dependency of a node once. Nodes ascend by id and no id comes
    /// twice.
    fn resolve(&self, program: &mut Program, faults: &mut Vec<ProgramError>) {
        let nodes = &self.nodes;
        let ids: Vec<u64> = nodes.iter().map(|node| node.id).collect();
        let find = finder(&ids);
        // For each node the last one that was seen to depend on it, so that repeats cost no search.
        let mut seen = vec![u32::MAX; nodes.len()];
        program.deps.reserve_exact(self.deps.len());
        program.dep_start.reserve_exact(nodes.len() + 1);
        program.dep_start.push(0);
        for (i, node) in nodes.iter().enumerate() {
            for &id in &self.deps[range(&self.dep_end, i)] {
                match find(id) {
                    Some(dep) if seen[dep as usize] != i as u32 => {
                        seen[dep as usize] = i as u32;
                        program.deps.push(dep);
                    }
                    Some(_) => {}
                    None if faults.len() < MOST_FAULTS => {
                        faults.push(ProgramError::DanglingDependency { node: node.id, dep: id });
                    }
                    None => return,
                }
            }
            program.dep_start.push(program.deps.len() as u32);
        }
    }
}

/// Faults looked for; beyond them a list helps nobody.
const MOST_FAULTS: usize = 100_000;

impl Program {
    /// Fills `children` from `deps`.
    fn invert(&mut self) {
        let n = self.nodes.len();
        let mut fan_out = vec![0u32; n + 1];
        self.deps.iter().for_each(|&dep| fan_out[dep as usize + 1] += 1);
        for i in 0..n {
            fan_out[i + 1] += fan_out[i];
        }
        self.children = vec![0; self.deps.len()];
        let mut next = fan_out.clone();
        for i in 0..n {
            for d in self.dep_start[i]..self.dep_start[i + 1] {
                let at = &mut next[self.deps[d as usize] as usize];
                self.children[*at as usize] = i as u32;
                *at += 1;
            }
        }
        self.child_start = fan_out;
    }
}

/// Looks an id up in ascending `ids`: by subtraction where they have no gaps, by bisection
/// otherwise.
fn finder(ids: &[u64]) -> impl Fn(u64) -> Option<u32> + '_ {
    let first = ids.first().copied().unwrap_or(0);
    let dense = ids.last().is_none_or(|last| last - first == ids.len() as u64 - 1);
    move |id| match dense {
        true => id.checked_sub(first).filter(|&d| d < ids.len() as u64).map(|d| d as u32),
        false => ids.binary_search(&id).ok().map(|i| i as u32),
    }
}

/// The layer that a name begins with: its first word, with the number that follows it
/// (`transformer.3`), a micro-batch before it (`mb0.`, `shadow_mb0.`) left out. Words end at dots.
fn named_layer(name: &str) -> &str {
    let word = |text: &str| text.find('.').unwrap_or(text.len());
    let name = match name.get(..word(name)).filter(|first| is_micro_batch(first)) {
        Some(first) if first.len() < name.len() => &name[first.len() + 1..],
        _ => name,
    };
    let first = word(name);
    let numbered = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.get(first + 1..).unwrap_or("");
    let second = word(rest);
    if second < rest.len() && numbered(&rest[..second]) && !numbered(&name[..first]) {
        &name[..first + 1 + second]
    } else {
        &name[..first]
    }
}

/// Whether a word of a name counts micro-batches, as the traces of STG do.
fn is_micro_batch(word: &str) -> bool {
    let word = word.strip_prefix("shadow_").unwrap_or(word);
    word.strip_prefix("mb")
        .is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A bit for each of `n` nodes, set for those that are held; nothing where none is.
fn bits(held: &[(u32, Held)], n: usize) -> Vec<u64> {
    let mut bits = vec![0; if held.is_empty() { 0 } else { n.div_ceil(64) }];
    held.iter().for_each(|&(node, _)| bits[node as usize / 64] |= 1 << (node % 64));
    bits
}

/// Where the entries of item `i` lie, given where those of each item end.
fn range(ends: &[u32], i: usize) -> std::ops::Range<usize> {
    (if i == 0 { 0 } else { ends[i - 1] as usize })..ends[i] as usize
}

/// Ends of items into starts with one more at the end.
fn starts(mut ends: Vec<u32>) -> Vec<u32> {
    ends.insert(0, 0);
    ends
}

fn slots(nodes: &[Node]) -> u32 {
    let used = nodes
        .iter()
        .filter_map(|n| if let Op::Collective { slot, .. } = n.op { Some(slot + 1) } else { None });
    used.max().unwrap_or(0)
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
