//! A list of problems that stays readable however broken the input is.

use graph::Problem;

/// Problems kept; beyond them only their number is.
const MOST: usize = 1000;

/// Problems in the order they were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    more: u64,
}

impl Problems {
    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        if self.list.len() < MOST {
            self.list.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Adds many.
    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|p| self.push(p));
    }

    /// True when nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True when reading on would add nothing a user could use.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MOST
    }

    /// The problems, the last one counting those left out.
    pub fn into_list(mut self) -> Vec<Problem> {
        if self.more > 0 {
            self.list.push(Problem::new(
                "",
                "",
                format!("{} further problems are not listed", self.more),
            ));
        }
        self.list
    }
}
