//! Rules for every backend, as checks that report the violations. A backend's tests call [`check`],
//! and [`stuck`] if it can deadlock.
//!
//! Here: the list of checks. `drive.rs` runs transfers, `deliveries.rs` checks what comes back,
//! `closed_forms.rs` the closed form, `contention.rs` contention and alike links, `reports.rs` what a
//! backend reports of itself.

mod closed_forms;
mod contention;
mod deliveries;
mod drive;
mod reports;

pub use drive::run;

use crate::{Backend, Stuck, Transfer};
use drive::Suite;
use units::{Span, Time};

/// Checks the contract on `transfers` (start time, transfer; times ascending, tokens unique):
///
/// - every transfer is delivered exactly once, none before its start plus the physical minimum, and
///   deliveries never go back in time;
/// - a second backend of the same make gives the same deliveries, and so does one that is observed;
/// - one transfer alone takes no longer than `bound` allows;
/// - bytes and transfers are conserved;
/// - a sink hears of every transfer, and no link sends two things at once;
/// - a closed form gives the times of a simulation and accounts for the same traffic;
/// - transfers wait only where the backend says that it has contention;
/// - links that it calls alike are alike;
/// - it never calls itself stuck while it can go on.
///
/// # Errors
/// One sentence that says what was violated, with numbers.
pub fn check<B: Backend>(
    make: impl Fn() -> B,
    transfers: &[(Time, Transfer)],
    bound: impl Fn(&B, &Transfer) -> Span,
) -> Result<(), String> {
    let suite = Suite { make: &make, transfers };
    deliveries::check(&suite, &bound)?;
    reports::check(&suite)?;
    closed_forms::check(&suite)?;
    contention::check(&suite)
}

/// Runs `transfers` that must deadlock, and returns what the backend reports: all undelivered
/// transfers, and places that form a closed circle.
///
/// # Errors
/// One sentence that says what was violated: everything was delivered, nothing was reported, or the
/// report is wrong.
pub fn stuck<B: Backend>(
    make: impl Fn() -> B,
    transfers: &[(Time, Transfer)],
) -> Result<Stuck, String> {
    reports::stuck(&Suite { make: &make, transfers })
}
