//! The symbolic checker: runs a plan on sets instead of numbers and says whether it keeps the
//! collective's promise.
//!
//! A *block* is the unit of an algorithm; what a position holds of it is the set of positions whose
//! contribution is in it. Blocks: the `n` (or the single) pieces of the buffer for all-reduce,
//! reduce-scatter, broadcast, reduce and scatter; the contribution of NPU b for all-gather and
//! gather; `source * n + destination` for all-to-all; "b has arrived" for a barrier. Equation:
//! reducing joins two sets, which must not share a member; storing replaces a set by one that
//! contains it.
//!
//! Together with its plan each algorithm says what every send carries (`Content`). The checker
//! fires steps, lets messages arrive and receptions become usable one at a time, in several orders:
//! oldest first, newest first, each of some positions starved, and random ones. In each it verifies
//! that a sender holds what it sends, that every send meets exactly one posted receive, its right
//! one, that charges and sizes fit, that nothing is reduced twice or sent without need, that the
//! plan ends, and that all positions then hold what was promised. The bytes of all sends must be
//! the algorithm's known volume. On three positions the tests go through every order there is. Over
//! several dimensions: [`prove_phases`]. Not here: algorithms from files (`custom`), which need
//! only run to their end.

use crate::Plan;
use crate::algorithm::PlanRequest;
use promise::{Held, Rules, inputs, promise_kept, volume};
use run::{Order, Run};

mod grid;
mod meaning;
mod promise;
mod run;
#[cfg(test)]
mod tests;

pub use grid::{Grid, prove_phases};
pub use meaning::{Meaning, prove_meaning};
pub use promise::{MAX_POSITIONS, Proof};

/// Proves that `plan` does what `request` promises.
///
/// # Errors
/// What is wrong and where: the position and step at fault, or the promise that was broken; more
/// than [`MAX_POSITIONS`].
pub fn prove(plan: &Plan, request: &PlanRequest) -> Result<Proof, String> {
    let orders = orders(plan.n);
    let mut proof = None;
    for &order in &orders {
        let (found, held) = execute(plan, request.n, request, &|p| inputs(request, p), order)?;
        promise_kept(request, &held).map_err(|what| format!("{order:?}: {what}"))?;
        proof.get_or_insert(found);
    }
    let proof = proof.ok_or("no order was tried")?;
    let volume = volume(request);
    if proof.bytes != volume {
        return Err(format!("the plan sends {} bytes, the algorithm {volume}", proof.bytes));
    }
    Ok(Proof { orders: orders.len() as u32, ..proof })
}

/// Orders of events in which a plan of `n` positions is tried.
fn orders(n: u32) -> Vec<Order> {
    let mut orders =
        vec![Order::Oldest, Order::Newest, Order::Random(1), Order::Random(2), Order::Random(3)];
    orders.extend([0, n / 2, n.saturating_sub(1)].map(Order::Starve));
    orders
}

/// Runs `plan` on `n` positions in one order and returns what every position holds at its end.
fn execute(
    plan: &Plan,
    n: u32,
    rules: &dyn Rules,
    start: &dyn Fn(u32) -> Held,
    order: Order,
) -> Result<(Proof, Vec<Held>), String> {
    let shape = plan.n == n && (plan.is_uniform() || plan.roles.len() == n as usize);
    let roles = plan.scripts.len() > plan.roles.iter().copied().max().unwrap_or(0) as usize;
    if n == 0 || n > MAX_POSITIONS || !shape || !roles {
        return Err(format!(
            "a plan of {} positions for a request of {n}; allowed: 1 to {MAX_POSITIONS}, alike",
            plan.n
        ));
    }
    Run::new(plan, rules, (0..n).map(start).collect()).finish(order)
}
