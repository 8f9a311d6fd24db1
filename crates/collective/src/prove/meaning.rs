//! The checker on plans that are made elsewhere, whose messages the caller explains.

use super::promise::{Held, MAX_POSITIONS, Proof, Rules, Set};
use super::{execute, orders};
use crate::Plan;
use crate::content::Content;

/// Contents and purposes of the messages of a plan.
pub struct Meaning<'a> {
    /// Positions.
    pub n: u32,
    /// Blocks to which a position contributes.
    pub brings: &'a dyn Fn(u32) -> Vec<u64>,
    /// Blocks that a step of a position sends, and whether the receiver joins them with its own
    /// or stores them: `(position, step)`.
    pub carries: &'a dyn Fn(u32, u32) -> (Vec<u64>, bool),
    /// Blocks that a position must hold at the end, with all contributions.
    pub gets: &'a dyn Fn(u32) -> Vec<u64>,
}

impl Rules for Meaning<'_> {
    fn content(&self, position: u32, step: u32) -> Content {
        let (blocks, reduce) = (self.carries)(position, step);
        Content::Blocks { blocks, reduce }
    }

    fn bytes(&self, _: u32, _: u64) -> Option<u64> {
        None
    }

    fn charges(&self) -> bool {
        false
    }

    fn listed(&self) -> bool {
        true
    }
}

/// Proves that `plan` brings every position what it must get, and sends nothing in vain; the sizes
/// of messages and the charges of receptions are not looked at.
///
/// # Errors
/// What is wrong and where: the position and step at fault, or the promise that was broken; more
/// than [`MAX_POSITIONS`].
pub fn prove_meaning(plan: &Plan, meaning: &Meaning) -> Result<Proof, String> {
    if meaning.n > MAX_POSITIONS {
        return Err(format!("{} positions; allowed: 1 to {MAX_POSITIONS}", meaning.n));
    }
    let start = |p: u32| -> Held { (meaning.brings)(p).into_iter().map(|b| (b, 1 << p)).collect() };
    let mut all = Held::new();
    for (block, own) in (0..meaning.n).flat_map(start) {
        *all.entry(block).or_insert(0) |= own;
    }
    let orders = orders(plan.n);
    let mut proof = None;
    for &order in &orders {
        let (found, held) = execute(plan, meaning.n, meaning, &start, order)?;
        for (position, held) in (0..).zip(&held) {
            for block in (meaning.gets)(position) {
                let wanted = all.get(&block).copied().unwrap_or(0);
                let got: Set = held.get(&block).copied().unwrap_or(0);
                if got != wanted {
                    return Err(format!(
                        "{order:?}: position {position} ends with {got:#b} of block {block}, promised {wanted:#b}"
                    ));
                }
            }
        }
        proof.get_or_insert(found);
    }
    let proof = proof.ok_or("no order was tried")?;
    Ok(Proof { orders: orders.len() as u32, ..proof })
}
