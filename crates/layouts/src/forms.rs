//! Passes with collectives of data parallelism in closed form.
//!
//! What a pass does is sums and maxima of times. So its end, and the ends of the chains of
//! collectives after it, are maxima over five times before it (`Before`), each plus a constant:
//! `end = max(time + constant)`. The constants follow unit by unit, once for all passes that do the
//! same. Not here: which units and collectives there are (`step.rs`).

/// Times that a pass depends on: when its stage is free, when it begins, when each chain is free.
pub(crate) type Before = [u64; 5];

/// A constant that never decides.
const NEVER: i64 = i64::MIN / 2;

/// A time as a maximum over times before a pass, each plus a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form([i64; 5]);

impl Form {
    /// No time at all.
    pub const NONE: Form = Form([NEVER; 5]);

    /// The time at a place of `Before`.
    pub fn at(place: usize) -> Form {
        let mut found = Form::NONE;
        found.0[place] = 0;
        found
    }

    /// The later of two times.
    pub fn max(self, other: Form) -> Form {
        Form(std::array::from_fn(|i| self.0[i].max(other.0[i])))
    }

    /// The time after a while.
    pub fn plus(self, time: u64) -> Form {
        Form(self.0.map(|constant| constant + time as i64))
    }

    /// Places of `Before` that may decide, with their constants.
    pub fn terms(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.0.iter().copied().enumerate().filter(|&(_, constant)| constant >= 0)
    }

    /// The time itself.
    pub fn of(&self, before: &Before) -> u64 {
        let each = before.iter().zip(self.0).map(|(&time, constant)| time as i64 + constant);
        each.max().unwrap_or(0) as u64
    }
}

/// A pass: its end, and the ends of the chains after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassForm {
    pub end: Form,
    pub chains: [Form; 3],
}

impl PassForm {
    /// A pass that has not done anything so far.
    pub fn new() -> PassForm {
        let chains = [Form::at(2), Form::at(3), Form::at(4)];
        PassForm { end: Form::at(1), chains }
    }

    /// Adds a collective to a chain that may begin after `ready`; its end.
    pub fn issue(&mut self, chain: usize, ready: Form, time: u64) -> Form {
        self.chains[chain] = self.chains[chain].max(ready).plus(time);
        self.chains[chain]
    }

    /// When the stage is free, before the pass.
    pub fn free() -> Form {
        Form::at(0)
    }
}
