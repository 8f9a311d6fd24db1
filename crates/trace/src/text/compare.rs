//! Whether a workload is a training loop: the loop is run and compared with it, node by node.
//!
//! Not here: which loops come into question (`guesses.rs`), what a node says by itself
//! (`recover.rs`).

use super::guesses::Found;
use super::layers::{Blocks, Layers, Pass};
use super::steps::{Step, What, place, scopes, steps};
use graph::{Node, Op, Problem, Program};

/// The workload to be recovered.
pub(super) struct Target<'a> {
    pub program: &'a Program,
    pub steps: &'a [Step<'a>],
    /// How its ranks are dealt to groups, if there are any.
    pub blocks: Option<Blocks>,
    pub npus: u32,
    /// Sizes of the machine it is for, if they are known.
    pub sizes: Option<&'a [u32]>,
}

impl Target<'_> {
    /// The layers and passes that make it, else where the nearest differ. All gradients are there
    /// as a rule, so that is tried first.
    pub fn layers(&self) -> Result<(Layers, u32), Option<Problem>> {
        let mut nearest: Option<(usize, Problem)> = None;
        let all = Found::all(self.steps, self.program);
        for gaps in [false, true] {
            for found in &all {
                for (layers, inner) in found.candidates(self.npus, self.blocks) {
                    match self.differs(&layers, found.passes, inner, gaps) {
                        None => return Ok((layers, found.passes)),
                        // The first one of equally near ones, which is the commonest.
                        Some(fault) if nearest.as_ref().is_none_or(|(at, _)| fault.0 > *at) => {
                            nearest = Some(fault)
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        Err(nearest.map(|(_, problem)| problem))
    }

    /// Where `layers` make another program: the first node's index, and how it differs. With `gaps`
    /// a gradient of 0 ns may be missing.
    fn differs(
        &self,
        layers: &Layers,
        passes: u32,
        inner: u32,
        gaps: bool,
    ) -> Option<(usize, Problem)> {
        let sizes = self.sizes.map_or(vec![inner, self.npus / inner], <[u32]>::to_vec);
        let made = match layers.workload(passes, Some(&sizes), "") {
            Ok(made) => made,
            Err(problems) => return Some((0, problems.into_iter().next().unwrap_or_default())),
        };
        let other = &*made.programs[0];
        let (scopes, blocks) = scopes(&made, other).ok()?;
        let again = steps(other, &scopes).ok()?;
        let fault = self.first_difference(other, &again, layers.parallelism.word(), gaps);
        fault.or_else(|| self.other_groups(blocks))
    }

    /// Compares with the nodes `other`, which do `again`, of the loop `word`.
    fn first_difference(
        &self,
        other: &Program,
        again: &[Step],
        word: &str,
        gaps: bool,
    ) -> Option<(usize, Problem)> {
        // For each of the loop's nodes what stands for it here: one node, or what a missing one
        // would wait for.
        let mut stands: Vec<Vec<u32>> = Vec::with_capacity(again.len());
        let mut at = 0;
        for (i, its) in again.iter().enumerate() {
            let mut theirs: Vec<u32> =
                other.deps(i).iter().flat_map(|&dep| stands[dep as usize].clone()).collect();
            theirs.sort_unstable();
            theirs.dedup();
            match self.steps.get(at) {
                Some(mine) if mine == its => {
                    if let Some(message) = self.unlike(at, &theirs, &other.nodes()[i], word) {
                        return Some(self.fault(at, message));
                    }
                    stands.push(vec![at as u32]);
                    at += 1;
                }
                _ if gaps && its.what == What::Compute(0) && its.pass != Pass::Forward => {
                    stands.push(theirs)
                }
                mine => return Some(self.fault(at, elsewhere(mine, its, other.name(i), word))),
            }
        }
        (at < self.steps.len())
            .then(|| self.fault(at, format!("the {word} loop ends before this node")))
    }

    /// Difference although node `at` does the same as `its` in the loop: the nodes it waits for, or
    /// how a collective runs.
    fn unlike(&self, at: usize, theirs: &[u32], its: &Node, word: &str) -> Option<String> {
        let mine = waits(self.program, at);
        if mine != theirs {
            let [mine, theirs] = [&mine, theirs].map(|nodes| self.names(nodes));
            return Some(format!(
                "this waits for {mine}; in the {word} loop it waits for {theirs}"
            ));
        }
        match (self.program.nodes()[at].op, its.op) {
            (Op::Collective { dims, .. }, Op::Collective { dims: all, .. }) if dims != all => Some(
                "this runs over some dimensions only, which a text workload cannot express".into(),
            ),
            (Op::Collective { priority, .. }, Op::Collective { priority: its, .. })
                if priority != its =>
            {
                Some(format!("this has priority {priority}; in the {word} loop it has {its}"))
            }
            _ => None,
        }
    }

    /// Inner groups that have another size on the machine it is for.
    fn other_groups(&self, blocks: Option<Blocks>) -> Option<(usize, Problem)> {
        let (mine, its) = (self.blocks?, blocks?);
        let message = format!(
            "the groups have blocks of {} ranks, but a text workload uses the size of the first dimension, {}",
            mine.inner, its.inner
        );
        let help = format!("a platform whose first dimension has {} NPUs", mine.inner);
        (mine != its).then(|| (self.steps.len(), Problem::new("", "", message).help(help)))
    }

    fn fault(&self, at: usize, message: String) -> (usize, Problem) {
        let place = if at < self.steps.len() { place(self.program, at) } else { String::new() };
        let help = "a training loop of ASTRA-sim 1.0, see docs/reference/text-workloads.md";
        (at, Problem::new("", place, message).help(help))
    }

    fn names(&self, nodes: &[u32]) -> String {
        let names: Vec<&str> = nodes.iter().map(|&node| self.program.name(node as usize)).collect();
        if names.is_empty() { "nothing".into() } else { names.join(", ") }
    }
}

/// Why `mine` is not `its`, the step called `name` in the loop `word`.
fn elsewhere(mine: Option<&Step>, its: &Step, name: &str, word: &str) -> String {
    match mine {
        None => format!("there are no more nodes, but the {word} loop continues with {name}"),
        Some(mine) if (mine.layer, mine.pass) == (its.layer, its.pass) => {
            format!("this is {:?}; in the {word} loop it is {:?}", mine.what, its.what)
        }
        Some(_) => format!("the {word} loop has {name} here"),
    }
}

/// The nodes that node `at` waits for, ascending.
fn waits(program: &Program, at: usize) -> Vec<u32> {
    let mut deps = program.deps(at).to_vec();
    deps.sort_unstable();
    deps
}
