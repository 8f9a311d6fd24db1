//! Workloads: programs (operation graphs), which rank runs which, and communicator groups.
//!
//! Here: the data types every reader produces and the executor consumes, and the checks that need
//! no platform. Not here: file formats (`trace`), time and networks (`sim`). A program is written
//! from its rank's point of view (peers are ports, groups are slots), so ranks that do the same
//! thing share one program and a million-rank workload stays small.

mod bind;
mod check;
mod kind;
mod kind_key;
mod mesh;
mod op;
mod problem;
mod program;
mod ranks;
mod workload;

pub use bind::NamedProgram;
pub use check::{check, order};
pub use declared::Problem;
pub use kind::OpKind;
pub use mesh::{Axis, Family, Mesh};
pub use op::{CollectiveKind, Gemm, Kernel, Lookup, Node, Op, Peer, Reach};
pub use problem::{and_more, node_place};
pub use program::{MemoryChange, Program, ProgramBuilder, ProgramError};
pub use ranks::ranges;
pub use workload::{
    Declaration, Footprint, Group, LoopSettings, Members, Offloaded, RankBinding, Reading, Workload,
};
