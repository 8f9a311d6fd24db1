//! Whose semantics a run follows. Everything in which ASTRA-sim differs from us is here or in
//! `astra_sim/`.

/// The semantics of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Our own: sound wherever ASTRA-sim is not.
    Native,
    /// ASTRA-sim's, as its analytical front ends behave.
    AstraSim,
}
