//! The words of a timeline as the trace interns them: names of arguments, categories, names of
//! nodes.

use graph::{CollectiveKind, Program, Workload};
use rustc_hash::FxHashMap;
use std::io::Write;
use trace::perfetto::{Table, Writer};

/// Names of arguments, and categories.
pub(super) struct Words {
    pub node: u32,
    pub layer: u32,
    pub kind: u32,
    pub bytes: u32,
    pub group: u32,
    pub peer: u32,
    pub cause: u32,
    pub start: u32,
    pub duration: u32,
    pub chunk: u32,
    pub phase: u32,
    pub queued: u32,
    pub last_member: u32,
    pub waited: u32,
    /// Category of nodes.
    pub operation: u32,
    /// Category of chunks in a phase.
    pub chunks: u32,
    /// Category of what a rank's time counts as.
    pub state: u32,
    names: Vec<Vec<u32>>,
    phases: FxHashMap<(u32, u32, CollectiveKind), u32>,
}

impl Words {
    pub(super) fn new<W: Write>(workload: &Workload, out: &mut Writer<W>) -> Words {
        let mut key = |text: &str| out.intern(Table::Key, text);
        let [node, layer, kind, bytes, group, peer] =
            ["node", "layer", "kind", "bytes", "group", "peer"].map(&mut key);
        let [cause, start, duration] = ["cause", "start_ps", "duration_ps"].map(&mut key);
        let [chunk, phase, queued] = ["chunk", "phase", "queued_ps"].map(&mut key);
        let [last_member, waited] = ["last_member", "waited_for_members_ps"].map(&mut key);
        let [operation, chunks, state] =
            ["operation", "chunk", "state"].map(|text| out.intern(Table::Category, text));
        Words {
            node,
            layer,
            kind,
            bytes,
            group,
            peer,
            cause,
            start,
            duration,
            chunk,
            phase,
            queued,
            last_member,
            waited,
            operation,
            chunks,
            state,
            names: vec![Vec::new(); workload.programs.len()],
            phases: FxHashMap::default(),
        }
    }

    /// The name of a node, or its kind if it has none.
    pub(super) fn name<W: Write>(
        &mut self,
        program: u32,
        node: u32,
        of: &Program,
        out: &mut Writer<W>,
    ) -> u32 {
        let names = &mut self.names[program as usize];
        if names.is_empty() {
            names.resize(of.nodes().len(), 0);
        }
        let name = &mut names[node as usize];
        if *name == 0 {
            *name = out.intern(Table::Name, text(of, node));
        }
        *name
    }

    /// The name of a phase of a collective.
    pub(super) fn phase_name<W: Write>(
        &mut self,
        (program, node, kind): (u32, u32, CollectiveKind),
        of: &Program,
        out: &mut Writer<W>,
    ) -> u32 {
        let intern = || out.intern(Table::Name, &format!("{}: {}", kind.name(), text(of, node)));
        *self.phases.entry((program, node, kind)).or_insert_with(intern)
    }
}

fn text(program: &Program, node: u32) -> &str {
    let name = program.name(node as usize);
    if name.is_empty() { program.nodes()[node as usize].op.kind_name() } else { name }
}
