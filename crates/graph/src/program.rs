//! One program: nodes in ascending id with their dependencies.

use units::{Bytes, Span};

/// What a collective promises (nccl-tests and MPI meanings).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
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

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Bookkeeping; takes no time.
    Metadata,
    /// A node whose type the trace leaves invalid; takes no time.
    Invalid,
    /// Computation: `operations` floating-point operations over `bytes` of tensors (for the roofline), on the host when `cpu`.
    Compute {
        /// Floating-point operations; `None` when the trace does not say.
        operations: Option<u64>,
        /// Bytes read and written; `None` when the trace does not say.
        bytes: Option<Bytes>,
        /// Runs on the host and occupies no NPU compute.
        cpu: bool,
    },
    /// A load from (or store to) memory outside the NPU.
    Memory {
        /// True for a store.
        store: bool,
        /// Tensor size.
        bytes: Bytes,
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
    /// `bytes` per NPU: the input buffer of all-reduce, reduce-scatter, all-to-all, reduce, broadcast and scatter (at the root);
    /// the contribution of one NPU for all-gather and gather; 0 for barrier.
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
    slots: u32,
}

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

    /// Nodes so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True before the first node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Sorts by id, resolves dependencies and inverts them.
    ///
    /// # Errors
    /// Every [`ProgramError`]; cycles are not looked for here (see `check`).
    pub fn build(self) -> Result<Program, ProgramError> {
        let n = self.nodes.len();
        if n >= u32::MAX as usize || self.deps.len() >= u32::MAX as usize || self.names.len() >= u32::MAX as usize {
            return Err(ProgramError::TooLarge);
        }
        let mut order: Vec<u32> = (0..n as u32).collect();
        if !self.nodes.is_sorted_by(|a, b| a.id < b.id) {
            order.sort_by_key(|&i| self.nodes[i as usize].id);
        }
        let nodes: Vec<Node> = order.iter().map(|&i| self.nodes[i as usize]).collect();
        if let Some(w) = nodes.windows(2).find(|w| w[0].id == w[1].id) {
            return Err(ProgramError::DuplicateId(w[0].id));
        }
        let dense = nodes.last().is_none_or(|last| last.id - nodes[0].id == n as u64 - 1);
        let first = nodes.first().map_or(0, |f| f.id);
        let find = |id: u64| -> Option<u32> {
            if dense {
                id.checked_sub(first).filter(|&d| d < n as u64).map(|d| d as u32)
            } else {
                nodes.binary_search_by_key(&id, |node| node.id).ok().map(|i| i as u32)
            }
        };
        let range = |ends: &[u32], i: usize| (if i == 0 { 0 } else { ends[i - 1] as usize })..ends[i] as usize;
        let mut program = Program { slots: slots(&nodes), ..Program::default() };
        program.dep_start.push(0);
        program.name_start.push(0);
        let mut fan_out = vec![0u32; n + 1];
        for (new, &old) in order.iter().enumerate() {
            let begin = program.deps.len();
            for &id in &self.deps[range(&self.dep_end, old as usize)] {
                let dep = find(id).ok_or(ProgramError::DanglingDependency { node: nodes[new].id, dep: id })?;
                if !program.deps[begin..].contains(&dep) {
                    program.deps.push(dep);
                    fan_out[dep as usize + 1] += 1;
                }
            }
            program.dep_start.push(program.deps.len() as u32);
            program.names.push_str(&self.names[range(&self.name_end, old as usize)]);
            program.name_start.push(program.names.len() as u32);
        }
        for i in 0..n {
            fan_out[i + 1] += fan_out[i];
        }
        program.children = vec![0; program.deps.len()];
        let mut next = fan_out.clone();
        for i in 0..n {
            for d in program.dep_start[i]..program.dep_start[i + 1] {
                let at = &mut next[program.deps[d as usize] as usize];
                program.children[*at as usize] = i as u32;
                *at += 1;
            }
        }
        program.child_start = fan_out;
        program.nodes = nodes;
        Ok(program)
    }
}

fn slots(nodes: &[Node]) -> u32 {
    let used = nodes.iter().filter_map(|n| if let Op::Collective { slot, .. } = n.op { Some(slot + 1) } else { None });
    used.max().unwrap_or(0)
}
