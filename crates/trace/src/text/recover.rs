//! A workload back to layers, where it has that form.
//!
//! Nodes are named `<layer>.<pass>` (computation), `<layer>.<pass>.<collective>` and
//! `<layer>.<pass>.update`, the passes being `forward`, `input_gradient` and `weight_gradient`.
//! Names and groups suggest layers and a training loop; whether that loop is the workload is then
//! seen by running it and comparing node by node. So what is recovered reads back to the same
//! workload, and what isn't is refused at the first node that differs. Two things may differ,
//! because they change no time: a pass of a layer in several computations is one (`fold.rs`), and a
//! gradient that is not computed is one of 0 ns. Not here: what the nodes say, one by one
//! (`steps.rs`), which layers and loops they suggest (`guesses.rs`), whether they are one
//! (`compare.rs`). Not recovered: what no loop uses (the input gradient of the first layer under
//! DATA, say), the reserved column.

use super::compare::Target;
use super::fold::fold;
use super::layers::Layers;
use super::steps::{NAMES, scopes, steps};
use graph::{Node, Problem, Workload};
use units::Span;

/// The layers of `workload` and the number of passes; `time` gives what each computation takes.
///
/// A recorded time is `node.duration`; for operations counted in FLOPs it is what the platform
/// says. Parts of a nanosecond are rounded up: the text has none. `sizes` are those of the machine
/// it is to run on again, as for [`Layers::workload`]; without them any that has the workload's
/// groups.
///
/// # Errors
/// Why the workload is not a training loop over layers as in ASTRA-sim 1.0: the first node that
/// can't be one of a layer's, or that stands elsewhere in the nearest loop.
pub fn recover(
    workload: &Workload,
    sizes: Option<&[u32]>,
    time: &dyn Fn(&Node) -> Span,
) -> Result<(Layers, u32), Vec<Problem>> {
    let refuse = |message: String, help: &str| vec![Problem::new("", "", message).help(help)];
    if workload.programs.len() != 1 {
        let message = format!("the ranks run {} different programs", workload.programs.len());
        return Err(refuse(message, "one program for all ranks: the text has no other"));
    }
    if workload.ranks.is_empty() {
        return Err(refuse("no rank runs the program".into(), "one rank or more"));
    }
    let (scopes, blocks) = scopes(workload, &workload.programs[0])?;
    let program = fold(&workload.programs[0], time).map_err(|problem| vec![problem])?;
    let steps = steps(&program, &scopes)?;
    let target = Target {
        program: &program,
        steps: &steps,
        blocks,
        npus: workload.ranks.len() as u32,
        sizes,
    };
    target.layers().map_err(|nearest| match nearest {
        Some(problem) => vec![problem],
        None => refuse("no layers found".into(), NAMES),
    })
}
