//! Events of a run with their times, for a timeline: steps of engines, and moves of requests. Bounded: after the
//! last entry that there is room for nothing is kept.

/// A step of an engine, or several in which nothing changed but lengths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Engine, those for prompts first.
    pub engine: u32,
    /// When the first stage began, ps.
    pub begin: u64,
    /// When the first stage was free again, ps.
    pub end: u64,
    /// Steps.
    pub steps: u64,
    /// Requests of all of them: one that is in two steps counts twice.
    pub requests: u64,
    /// Tokens that were computed.
    pub tokens: u64,
    /// Those of prompts.
    pub prompts: u64,
    /// Requests that ran at the end.
    pub running: u32,
    /// Requests that waited.
    pub waiting: u32,
    /// Blocks of the cache in use.
    pub blocks: u32,
    /// Seconds of each term.
    pub terms: Vec<f64>,
}

/// A kind of event of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It runs.
    Admitted,
    /// It lost its blocks, and waits.
    Preempted,
    /// The prompt is computed, and the keys and values are on the way.
    Sent,
    /// They are there: it waits for an engine that generates.
    Arrived,
}

/// An event of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// When, ps.
    pub time: u64,
    /// Which request.
    pub request: u32,
    /// The kind of event.
    pub moved: Moved,
}

/// Entries of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diary {
    /// Steps that are kept at most, and requests whose moves are.
    pub most: (usize, u32),
    /// Steps in the order in which they began on each engine.
    pub steps: Vec<Step>,
    /// Moves in the order of time.
    pub moves: Vec<Move>,
    /// Steps that found no room.
    pub left_out: u64,
}

/// Moves that are kept of each request on average.
const MOVES: usize = 16;

impl Diary {
    /// Whether steps are kept at all.
    pub(crate) fn wanted(&self) -> bool {
        self.most.0 > 0
    }

    /// Keeps a step.
    pub(crate) fn step(&mut self, step: Step) {
        if self.steps.len() < self.most.0 {
            self.steps.push(step);
        } else {
            self.left_out += step.steps;
        }
    }

    /// Keeps a move.
    pub(crate) fn moved(&mut self, time: u64, request: u32, moved: Moved) {
        if request < self.most.1 && self.moves.len() < self.most.1 as usize * MOVES {
            self.moves.push(Move { time, request, moved });
        }
    }
}
