//! Everything a run would refuse, found without running, so that all of it can be listed.
//!
//! Here: what takes the platform to tell: algorithms from files, collectives that no algorithm can
//! run, memory that is not there, a network too large for its backend. Not here: the workload by
//! itself (`graph::check`), files (`config`, `trace`), and what only time brings to light:
//! standstills, members whose collectives change places under way, steps of more than 213 days
//! (`executor`).

use crate::error::Error;
use collective::is_rooted;
use executor::Settings;
use graph::{Members, Node, Op, Problem, RankBinding, Workload, and_more, node_place};
use indexmap::IndexMap;
use lowering::{Lowering, Request, Shapes, memory};
use platform::Platform;
use rustc_hash::FxHashSet;

/// Problems of one kind that are listed one by one.
const MOST: usize = 200;

/// Refuses what cannot run; `unfit` is what kept algorithms from being loaded and the backend from
/// being made.
///
/// # Errors
/// Every problem, in a fixed order.
pub(crate) fn all(
    workload: &Workload,
    platform: &Platform,
    unfit: Vec<Problem>,
    settings: &Settings,
    lowering: &dyn Lowering,
) -> Result<(), Error> {
    let npus = platform.fabric.npus();
    let mut problems = graph::check(workload, npus);
    problems.extend(unfit);
    problems.extend(memory::problems(workload, platform));
    // Groups mean nothing on another machine than the workload's.
    if workload.ranks.len() as u64 == u64::from(npus) {
        problems.extend(Calls::new(workload, platform, settings, lowering).problems());
        problems.extend(own_algorithms(workload, settings));
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::from(problems).named(&workload.origin)) }
}

/// Goes over the collectives a workload calls, each kind, size and shape of group once.
struct Calls<'a> {
    workload: &'a Workload,
    platform: &'a Platform,
    settings: &'a Settings,
    lowering: &'a dyn Lowering,
    shapes: Shapes<'a>,
    /// Programs that were looked at, with the shapes behind their slots.
    seen: FxHashSet<(u32, Vec<Option<u32>>)>,
    asked: FxHashSet<Request>,
    /// Problems by message: each where it was met first, and the number of calls that have it.
    found: IndexMap<String, (Problem, u64)>,
}

impl<'a> Calls<'a> {
    fn new(
        workload: &'a Workload,
        platform: &'a Platform,
        settings: &'a Settings,
        lowering: &'a dyn Lowering,
    ) -> Calls<'a> {
        let shapes = Shapes::new(&settings.sizes, settings.aligned_groups);
        let (seen, asked, found) = (FxHashSet::default(), FxHashSet::default(), IndexMap::new());
        Calls { workload, platform, settings, lowering, shapes, seen, asked, found }
    }

    fn problems(mut self) -> Vec<Problem> {
        let mut last: Option<RankBinding> = None;
        for (rank, &binding) in (0..).zip(&self.workload.ranks) {
            if last != Some(binding) {
                self.look_at(rank, binding);
            }
            last = Some(binding);
        }
        let left_out = self.found.len().saturating_sub(MOST);
        let listed = self.found.into_values().take(MOST);
        let mut problems: Vec<Problem> = listed
            .map(|(problem, calls)| Problem {
                message: problem.message + &and_more(calls - 1, "call"),
                ..problem
            })
            .collect();
        if left_out > 0 {
            problems.push(Problem::new("", "", format!("{left_out} more collectives cannot run")));
        }
        problems
    }

    fn look_at(&mut self, rank: u32, binding: RankBinding) {
        let workload = self.workload;
        let program = workload.program(rank);
        let shapes: Vec<Option<u32>> =
            (0..program.slots()).map(|slot| self.shape(workload.group_of(rank, slot))).collect();
        if shapes.is_empty() || !self.seen.insert((binding.program, shapes.clone())) {
            return;
        }
        for node in program.nodes() {
            let Op::Collective { slot, .. } = node.op else { continue };
            let request =
                shapes[slot as usize].and_then(|shape| self.settings.request(node, shape));
            if let Some(request) = request
                && self.asked.insert(request)
            {
                self.ask(&request, rank, node);
            }
        }
    }

    /// The shape of a group; `None` for one with wrong members, which `graph::check` has reported.
    fn shape(&mut self, group: u32) -> Option<u32> {
        let members = &self.workload.groups[group as usize].members;
        let sound = *members == Members::All || members.fault(self.settings.ranks).is_none();
        sound.then(|| self.shapes.index(self.workload, group))
    }

    fn ask(&mut self, request: &Request, rank: u32, node: &Node) {
        let shape = self.shapes.get(request.shape);
        // `graph::check` has reported a root outside its group, and the reader a file that cannot
        // be read.
        let rootless = is_rooted(request.kind)
            && u64::from(request.root) >= shape.members(&self.settings.sizes);
        if rootless || self.unread(request, node) {
            return;
        }
        if let Err(problem) = self.lowering.lower(request, shape) {
            let entry = self.found.entry(problem.to_string());
            entry.or_insert_with(|| (located(problem, node_place(rank, node)), 0)).1 += 1;
        }
    }

    /// Whether an algorithm was to be read from a file for this call, and was not.
    fn unread(&self, request: &Request, node: &Node) -> bool {
        let (paths, loaded) = (&self.platform.custom_paths, &self.platform.collectives);
        let kind = request.kind as usize;
        match paths.nodes.contains_key(&node.id) {
            true => !loaded.custom_nodes.contains_key(&node.id),
            false => paths.kinds[kind].is_some() && loaded.custom[kind].is_none(),
        }
    }
}

/// A fault in a file keeps its place there; who ran into it is said in the message.
fn located(problem: Problem, place: String) -> Problem {
    match problem.file.is_empty() {
        true => Problem { place, ..problem },
        false => Problem { message: format!("{} ({place})", problem.message), ..problem },
    }
}

/// Members of a group whose nodes have different algorithms of their own for one collective.
fn own_algorithms(workload: &Workload, settings: &Settings) -> Vec<Problem> {
    if settings.custom_nodes.is_empty() {
        return Vec::new();
    }
    let mut seen = FxHashSet::default();
    let mut first: IndexMap<u32, (u32, Vec<&Node>)> = IndexMap::new();
    let mut problems: IndexMap<u32, Problem> = IndexMap::new();
    for (rank, binding) in (0..).zip(&workload.ranks) {
        if !seen.insert((binding.program, binding.slots)) {
            continue;
        }
        for (group, calls) in calls_by_group(workload, rank) {
            let (other, theirs) = first.entry(group).or_insert_with(|| (rank, calls.clone()));
            let own = |node: &Node| settings.custom_nodes.contains(&node.id).then_some(node.id);
            if let Some((mine, node)) =
                calls.iter().zip(theirs.iter()).find(|(a, b)| own(a) != own(b))
            {
                let text = format!(
                    "is the same collective as {}, which uses another algorithm",
                    node_place(*other, node)
                );
                let problem = Problem::new("", node_place(rank, mine), text)
                    .help("the same node id on every member, or no algorithm for this node");
                problems.entry(group).or_insert(problem);
            }
        }
    }
    problems.into_values().take(MOST).collect()
}

/// The collectives of a rank in the order in which they can run, by group.
fn calls_by_group(workload: &Workload, rank: u32) -> IndexMap<u32, Vec<&Node>> {
    let program = workload.program(rank);
    let mut calls: IndexMap<u32, Vec<&Node>> = IndexMap::new();
    for at in graph::order(program) {
        let node = &program.nodes()[at as usize];
        if let Op::Collective { slot, .. } = node.op {
            calls.entry(workload.group_of(rank, slot)).or_default().push(node);
        }
    }
    calls
}
