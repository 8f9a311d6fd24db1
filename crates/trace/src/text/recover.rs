//! A workload back to layers, where it has that form.
//!
//! Nodes are named `<layer>.<pass>` (computation), `<layer>.<pass>.<collective>` and `<layer>.<pass>.update`, the passes being `forward`,
//! `input_gradient` and `weight_gradient`. Names and groups suggest layers and a training loop; whether that loop is the
//! workload is then seen by running it and comparing node by node. So what is recovered reads back to the same workload, and what
//! isn't is refused at the first node that differs.
//! Not here: which layers and loops the names suggest (`found.rs`). Not recovered: what no loop uses (the input gradient of the first layer under DATA, say), the reserved column.

use super::found::Found;
use super::layers::{Layers, Pass, Scope};
use super::loops::has_word;
use crate::chakra::problems::Problems;
use graph::{CollectiveKind, Members, Node, Op, Problem, Program, Workload};
use units::Span;

/// The layers of `workload` and the number of passes; `time` gives what each computation takes.
///
/// A recorded time is `node.duration`; for operations counted in FLOPs it is what the platform says. Parts of a nanosecond are rounded up:
/// the text has none.
///
/// # Errors
/// Why the workload is no layers in a training loop of ASTRA-sim 1.0: every node that can't be one of a layer's, or the first that
/// stands elsewhere in the nearest loop.
pub fn recover(workload: &Workload, time: &dyn Fn(&Node) -> Span) -> Result<(Layers, u32), Vec<Problem>> {
    let refuse = |message: String, help: &str| vec![Problem::new("", "", message).help(help)];
    if workload.programs.len() != 1 {
        let message = format!("the ranks run {} different programs", workload.programs.len());
        return Err(refuse(message, "one program for all ranks: the text has no other"));
    }
    if workload.ranks.is_empty() {
        return Err(refuse("no rank runs the program".into(), "one rank or more"));
    }
    let program = &*workload.programs[0];
    let (scopes, inner) = scopes(workload, program)?;
    let steps = steps(program, &scopes, time)?;
    let npus = workload.ranks.len() as u32;
    let mut nearest: Option<(usize, Problem)> = None;
    for found in Found::all(&steps, program) {
        for (layers, inner) in found.candidates(npus, inner) {
            match differs(&layers, found.passes, [inner, npus / inner], program, &steps) {
                None => return Ok((layers, found.passes)),
                // Of equally near ones the first, which is the commonest.
                Some(fault) if nearest.as_ref().is_none_or(|(at, _)| fault.0 > *at) => nearest = Some(fault),
                Some(_) => {}
            }
        }
    }
    Err(nearest.map_or_else(|| refuse("there is no layer".into(), NAMES), |(_, problem)| vec![problem]))
}

/// What a node does, in the words of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Compute(u64),
    Collective(CollectiveKind, u64, Scope),
    Update(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step<'p> {
    pub layer: &'p str,
    pub pass: Pass,
    pub what: What,
}

/// What stands behind each slot on every rank, and the size of the inner groups if there are any.
fn scopes(workload: &Workload, program: &Program) -> Result<(Vec<Scope>, Option<u32>), Vec<Problem>> {
    let npus = workload.ranks.len() as u32;
    let members: Vec<Members> = workload.groups.iter().map(|group| plain(&group.members, npus)).collect();
    let group = |rank: u32, slot: u32| &members[workload.group_of(rank, slot) as usize];
    let (mut scopes, mut inner) = (Vec::new(), None);
    for slot in 0..program.slots() {
        let (scope, size) = match *group(0, slot) {
            Members::All => (Scope::Everybody, None),
            Members::Strided { first: 0, count, step: 1 } => (Scope::Inner, Some(count)),
            Members::Strided { first: 0, step, .. } => (Scope::Outer, Some(step)),
            _ => return Err(vec![odd_group(workload, 0, slot)]),
        };
        let size = size.unwrap_or(1);
        if scope != Scope::Everybody && *inner.get_or_insert(size) != size {
            return Err(vec![odd_group(workload, 0, slot)]);
        }
        if let Some(rank) = (0..npus).find(|&rank| *group(rank, slot) != expected(scope, size, rank, npus)) {
            return Err(vec![odd_group(workload, rank, slot)]);
        }
        scopes.push(scope);
    }
    Ok((scopes, inner))
}

fn plain(members: &Members, npus: u32) -> Members {
    match members {
        Members::All => Members::All,
        other => Members::from_list((0..other.len(npus)).map(|position| other.rank(position)).collect(), npus),
    }
}

fn expected(scope: Scope, inner: u32, rank: u32, npus: u32) -> Members {
    match scope {
        Scope::Everybody => Members::All,
        Scope::Inner => Members::Strided { first: rank / inner * inner, count: inner, step: 1 },
        Scope::Outer => Members::Strided { first: rank % inner, count: npus / inner, step: inner },
    }
}

fn odd_group(workload: &Workload, rank: u32, slot: u32) -> Problem {
    let name = &workload.groups[workload.group_of(rank, slot) as usize].name;
    let help = "everybody, n consecutive ranks, or all ranks n apart, with one n for every rank and group";
    Problem::new("", format!("rank {rank}"), format!("group {name} is none that a text workload can have")).help(help)
}

fn steps<'p>(
    program: &'p Program,
    scopes: &[Scope],
    time: &dyn Fn(&Node) -> Span,
) -> Result<Vec<Step<'p>>, Vec<Problem>> {
    let (mut steps, mut problems) = (Vec::with_capacity(program.nodes().len()), Problems::default());
    for (i, node) in program.nodes().iter().enumerate() {
        match step(program.name(i), node, scopes, time) {
            Ok(step) => steps.push(step),
            Err((message, help)) => problems.push(Problem::new("", place(program, i), message).help(help)),
        }
        if problems.is_full() {
            break;
        }
    }
    if problems.is_empty() { Ok(steps) } else { Err(problems.into_list()) }
}

fn place(program: &Program, i: usize) -> String {
    format!("node {} ({})", program.nodes()[i].id, program.name(i))
}

const NAMES: &str = "<layer>.<pass> for a computation, <layer>.<pass>.<collective> for a collective, <layer>.<pass>.update for time on \
                     the host after it; the passes are forward, input_gradient and weight_gradient";

fn step<'p>(
    name: &'p str,
    node: &Node,
    scopes: &[Scope],
    time: &dyn Fn(&Node) -> Span,
) -> Result<Step<'p>, (String, &'static str)> {
    let (what, stem) = match node.op {
        Op::Compute { cpu: true, .. } => (What::Update(whole_ns(node.duration)), name.strip_suffix(".update")),
        Op::Compute { .. } | Op::Gemm(_) => (What::Compute(whole_ns(time(node))), Some(name)),
        Op::Collective { kind, bytes, slot, .. } if has_word(kind) => {
            let stem = name.strip_suffix(kind.name()).and_then(|stem| stem.strip_suffix('.'));
            (What::Collective(kind, bytes.0, scopes[slot as usize]), stem)
        }
        Op::Collective { kind, .. } => {
            return Err((
                format!("a text workload has no {}", kind.name()),
                "all_reduce, all_gather, reduce_scatter, all_to_all",
            ));
        }
        _ => return Err(("this is neither computation nor collective".into(), "a text workload has only these")),
    };
    let of = |pass: Pass| stem?.strip_suffix(pass.name())?.strip_suffix('.').map(|layer| (layer, pass));
    let Some((layer, pass)) = Pass::ALL.into_iter().find_map(of) else {
        return Err(("the name doesn't say which layer and pass this is".into(), NAMES));
    };
    if layer.is_empty() || layer.chars().any(char::is_whitespace) {
        return Err((format!("the layer is called \"{layer}\""), "a name of one word"));
    }
    Ok(Step { layer, pass, what })
}

fn whole_ns(span: Span) -> u64 {
    span.0.div_ceil(1000)
}

/// Where `layers` make another program than `program`: the first node's index, and how it differs.
fn differs(
    layers: &Layers,
    passes: u32,
    sizes: [u32; 2],
    program: &Program,
    steps: &[Step],
) -> Option<(usize, Problem)> {
    let word = layers.parallelism.word();
    let made = match layers.workload(passes, Some(&sizes), "") {
        Ok(made) => made,
        Err(problems) => {
            let problem = problems.into_iter().next().unwrap_or_default();
            return Some((0, problem));
        }
    };
    let other = &*made.programs[0];
    let recorded = |node: &Node| node.duration;
    let again = scopes(&made, other).and_then(|(scopes, _)| self::steps(other, &scopes, &recorded)).ok()?;
    let differs =
        |i: &usize| again.get(*i) != steps.get(*i) || (*i < steps.len() && waits(other, *i) != waits(program, *i));
    let at = (0..steps.len().max(again.len())).find(differs)?;
    let (place, message) = match (steps.get(at), again.get(at)) {
        (None, _) => (String::new(), format!("the nodes end where the {word} loop goes on with {}", other.name(at))),
        (Some(_), None) => (place(program, at), format!("the {word} loop ends before this node")),
        (Some(mine), Some(its)) if mine == its => {
            let (mine, its) = (names(program, at), names(other, at));
            (place(program, at), format!("this waits for {mine}; in the {word} loop for {its}"))
        }
        (Some(mine), Some(its)) if (mine.layer, mine.pass) == (its.layer, its.pass) => {
            (place(program, at), format!("this is {:?}; in the {word} loop it is {:?}", mine.what, its.what))
        }
        (Some(_), Some(_)) => (place(program, at), format!("in the {word} loop {} stands here", other.name(at))),
    };
    let help = "a training loop of ASTRA-sim 1.0, see docs/text-workloads.md";
    Some((at, Problem::new("", place, message).help(help)))
}

/// The nodes that node `at` waits for, ascending.
fn waits(program: &Program, at: usize) -> Vec<u32> {
    let mut deps = program.deps(at).to_vec();
    deps.sort_unstable();
    deps
}

/// The same by name.
fn names(program: &Program, at: usize) -> String {
    let names: Vec<&str> = waits(program, at).iter().map(|&dep| program.name(dep as usize)).collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}
