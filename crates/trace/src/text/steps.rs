//! Meaning of the nodes of a workload in the words of a text, one by one.

use super::fold::layer_and_pass;
use super::layers::{Blocks, Pass, Scope};
use super::loops::has_word;
use graph::{CollectiveKind, Members, Node, Op, Problem, Program, Workload};
use units::Span;

/// Role of a node, in the words of the text.
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

/// Group behind each slot on every rank, and how ranks are dealt to groups if there are any.
pub(super) fn scopes(
    workload: &Workload,
    program: &Program,
) -> Result<(Vec<Scope>, Option<Blocks>), Vec<Problem>> {
    let npus = workload.ranks.len() as u32;
    let members: Vec<Members> =
        workload.groups.iter().map(|group| plain(&group.members, npus)).collect();
    let group = |rank: u32, slot: u32| &members[workload.group_of(rank, slot) as usize];
    let (mut scopes, mut dealt) = (Vec::new(), None);
    for slot in 0..program.slots() {
        let Some((scope, blocks)) = scope(group(0, slot), npus) else {
            return Err(vec![odd_group(workload, 0, slot)]);
        };
        if scope != Scope::Everybody && *dealt.get_or_insert(blocks) != blocks {
            return Err(vec![odd_group(workload, 0, slot)]);
        }
        if let Some(rank) =
            (0..npus).find(|&rank| *group(rank, slot) != expected(scope, blocks, rank, npus))
        {
            return Err(vec![odd_group(workload, rank, slot)]);
        }
        scopes.push(scope);
    }
    Ok((scopes, dealt))
}

/// Kind of the group of rank 0.
fn scope(members: &Members, npus: u32) -> Option<(Scope, Blocks)> {
    let blocks = |below, inner| Blocks { below, inner };
    match *members {
        Members::All => Some((Scope::Everybody, blocks(1, 1))),
        Members::Strided { first: 0, count, step: 1 } => Some((Scope::Inner, blocks(1, count))),
        Members::Strided { first: 0, count, step } if count.checked_mul(step)? == npus => {
            Some((Scope::Outer, blocks(1, step)))
        }
        Members::Strided { first: 0, count, step } => Some((Scope::Inner, blocks(step, count))),
        Members::List(ref list) => {
            let below = list.iter().zip(0..).take_while(|(rank, at)| **rank == *at).count();
            let (next, below) = (*list.get(below)?, below as u32);
            (below > 1).then_some((Scope::Outer, blocks(below, next / below)))
        }
        Members::Strided { .. } => None,
    }
}

fn plain(members: &Members, npus: u32) -> Members {
    match members {
        Members::All => Members::All,
        other => Members::from_list(
            (0..other.len(npus)).map(|position| other.rank(position)).collect(),
            npus,
        ),
    }
}

fn expected(scope: Scope, blocks: Blocks, rank: u32, npus: u32) -> Members {
    let Blocks { below, inner } = blocks;
    let first = rank / (below * inner) * (below * inner) + rank % below;
    let position = |rank: u32| rank / below % inner;
    match scope {
        Scope::Everybody => Members::All,
        Scope::Inner => Members::Strided { first, count: inner, step: below },
        Scope::Outer if below == 1 => {
            Members::Strided { first: rank % inner, count: npus / inner, step: inner }
        }
        // Groups of experts come from SimAI's dialect, and are never recognized again.
        Scope::Outer | Scope::Experts | Scope::ExpertData => {
            let same = |other: &u32| position(*other) == position(rank);
            Members::from_list((0..npus).filter(same).collect(), npus)
        }
    }
}

fn odd_group(workload: &Workload, rank: u32, slot: u32) -> Problem {
    let name = &workload.groups[workload.group_of(rank, slot) as usize].name;
    let help = "all ranks, n consecutive ranks or all ranks n apart, or n ranks m apart and those at the same position, with the same n and m for every rank and group";
    Problem::new("", format!("rank {rank}"), format!("a text workload cannot have group {name}"))
        .help(help)
}

pub(super) fn steps<'p>(
    program: &'p Program,
    scopes: &[Scope],
) -> Result<Vec<Step<'p>>, Vec<Problem>> {
    let mut steps = Vec::with_capacity(program.nodes().len());
    // A foreign program is wrong nearly everywhere: of each kind of fault the first node, and how
    // many more.
    let mut faults: Vec<(Problem, usize)> = Vec::new();
    for (i, node) in program.nodes().iter().enumerate() {
        match step(program.name(i), node, scopes) {
            Ok(step) => steps.push(step),
            Err((message, help)) => match faults
                .iter_mut()
                .find(|(problem, _)| problem.help == help)
            {
                Some((_, more)) => *more += 1,
                None => faults.push((Problem::new("", place(program, i), message).help(help), 0)),
            },
        }
    }
    let counted = |(problem, more): (Problem, usize)| match more {
        0 => problem,
        _ => Problem {
            message: format!("{}, and the same at {more} more nodes", problem.message),
            ..problem
        },
    };
    if faults.is_empty() { Ok(steps) } else { Err(faults.into_iter().map(counted).collect()) }
}

pub(super) fn place(program: &Program, i: usize) -> String {
    format!("node {} ({})", program.nodes()[i].id, program.name(i))
}

pub(super) const NAMES: &str = "<layer>.<pass> for a computation, <layer>.<pass>.<collective> for a collective, <layer>.<pass>.update for time on \
                     the host after it; the passes are forward, input_gradient and weight_gradient";

fn step<'p>(
    name: &'p str,
    node: &Node,
    scopes: &[Scope],
) -> Result<Step<'p>, (String, &'static str)> {
    let (what, stem) = match node.op {
        Op::Compute { cpu: true, .. } => {
            (What::Update(whole_ns(node.duration)), name.strip_suffix(".update"))
        }
        Op::Compute { .. } | Op::Gemm(_) | Op::Grouped(_) | Op::Lookup(_) => {
            (What::Compute(whole_ns(node.duration)), Some(name))
        }
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
        _ => {
            return Err((
                "this is neither computation nor collective".into(),
                "a text workload has only these",
            ));
        }
    };
    let Some((layer, pass)) = stem.and_then(layer_and_pass) else {
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
