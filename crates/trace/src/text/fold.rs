//! A program with one computation for each layer and pass, where it has several.
//!
//! Model: `<layer>.<pass>`, followed at once by `<layer>.<pass>.<more>` that waits for it alone and
//! alone waits for it, is one computation that takes both times. A text has no smaller parts of a
//! pass. Not here: which loop the computations make (`recover.rs`).

use super::layers::Pass;
use graph::{Node, Op, Problem, Program, ProgramBuilder};
use units::Span;

/// `program` with what its computations on the NPU take, by `time`, as their durations.
///
/// # Errors
/// None for the part of a program that is one itself.
pub(super) fn fold(program: &Program, time: &dyn Fn(&Node) -> Span) -> Result<Program, Problem> {
    let mut nodes = program.nodes().to_vec();
    for node in nodes.iter_mut().filter(|node| computes(node)) {
        node.duration = time(node);
    }
    // Where each node's computation begins.
    let mut heads: Vec<usize> = (0..nodes.len()).collect();
    for i in 1..nodes.len() {
        let head = heads[i - 1];
        if continues(program, head, i) {
            heads[i] = head;
            nodes[head].duration = Span(nodes[head].duration.0.saturating_add(nodes[i].duration.0));
        }
    }
    let mut folded = ProgramBuilder::default();
    for i in (0..nodes.len()).filter(|&i| heads[i] == i) {
        let deps = program.deps(i).iter().map(|&dep| nodes[heads[dep as usize]].id);
        folded.push(program.by_offset(nodes[i]), program.name(i), deps);
        folded.label(program.layer(i));
    }
    folded.build().map_err(|error| Problem::new("", "", error.to_string()))
}

fn computes(node: &Node) -> bool {
    matches!(node.op, Op::Compute { cpu: false, .. } | Op::Gemm(_) | Op::Grouped(_) | Op::Lookup(_))
}

/// True when node `i` goes on with the computation that begins at `head` and ends at `i - 1`.
fn continues(program: &Program, head: usize, i: usize) -> bool {
    let alone = *program.deps(i) == [i as u32 - 1] && *program.children(i - 1) == [i as u32];
    let more =
        |name: &str| program.name(i).strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    alone
        && computes(&program.nodes()[head])
        && computes(&program.nodes()[i])
        && more(program.name(head))
        && layer_and_pass(program.name(head)).is_some()
        && layer_and_pass(program.name(i)).is_none()
}

/// `<layer>.<pass>` apart.
pub(super) fn layer_and_pass(name: &str) -> Option<(&str, Pass)> {
    let of =
        |pass: Pass| name.strip_suffix(pass.name())?.strip_suffix('.').map(|layer| (layer, pass));
    Pass::ALL.into_iter().find_map(of)
}
