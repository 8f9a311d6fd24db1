//! The terms of a chain of causes: how a stretch of time divides into terms, without a gap.
//!
//! A chain begins where a rank reaches a collective. It grows by what each next event waited for:
//! the endpoint delay before a send, the latency and bytes of a message, the reduction of what it
//! brought. Where two chains meet, the later one goes on. So at every moment `origin + sum of all
//! terms = now`. Model: the longest path through the events of a collective, found forwards.

use super::Place;
use std::rc::Rc;
use units::{Span, Time};

/// Causes on which time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term {
    /// Latency of links.
    Latency,
    /// Bytes over the bandwidth of the links they cross.
    Transfer,
    /// Waiting for the link out of the NPU behind messages of the same collective.
    Port,
    /// Endpoint delay.
    Endpoint,
    /// Reducing what was received.
    Reduction,
    /// Waiting for the link out of the NPU behind messages of something else.
    Contention,
    /// Waiting inside the network.
    Congestion,
    /// Waiting for chunks in a queue. The chain does not go further there.
    Queue,
    /// An algorithm from a file.
    Algorithm,
}

/// Number of terms.
pub(super) const TERMS: usize = 9;

/// The terms of one dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Terms {
    /// By [`Term`].
    pub spans: [Span; TERMS],
    /// Messages, one after another.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Terms {
    fn plus(&mut self, other: &Terms) {
        self.spans.iter_mut().zip(other.spans).for_each(|(sum, span)| *sum += span);
        self.messages += other.messages;
        self.bytes += other.bytes;
    }

    fn total(&self) -> Span {
        self.spans.iter().copied().sum()
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chain {
    /// When it began.
    pub origin: Time,
    /// Terms of each dimension, except those in `here`.
    past: Rc<Vec<Terms>>,
    dim: u32,
    here: Terms,
    /// The longest wait outside of its own collective: its length and its cause.
    behind: Option<(Span, Place)>,
}

impl Chain {
    /// Begins at `origin`, on a dimension of `dims`.
    pub(super) fn new(origin: Time, dims: usize, dim: u32) -> Chain {
        Chain {
            origin,
            past: Rc::new(vec![Terms::default(); dims]),
            dim,
            here: Terms::default(),
            behind: None,
        }
    }

    /// Continues on dimension `dim`.
    pub(super) fn enter(&mut self, dim: u32) {
        if dim != self.dim {
            Rc::make_mut(&mut self.past)[self.dim as usize].plus(&self.here);
            (self.dim, self.here) = (dim, Terms::default());
        }
    }

    pub(super) fn add(&mut self, term: Term, span: Span) {
        self.here.spans[term as usize] += span;
    }

    pub(super) fn message(&mut self, bytes: u64) {
        self.here.messages += 1;
        self.here.bytes += bytes;
    }

    /// Waits for something of another operation.
    pub(super) fn wait(&mut self, term: Term, span: Span, behind: Option<Place>) {
        self.add(term, span);
        if span > Span::ZERO {
            self.behind = self.behind.max(behind.map(|place| (span, place)));
        }
    }

    /// Cause of the longest wait.
    pub(super) fn behind(&self) -> Option<Place> {
        self.behind.map(|(_, place)| place)
    }

    /// When it ends so far.
    pub(super) fn end(&self) -> Time {
        self.origin + self.here.total() + self.past.iter().map(Terms::total).sum()
    }

    /// All terms by dimension.
    pub(super) fn terms(&self) -> Vec<Terms> {
        let mut all = (*self.past).clone();
        all[self.dim as usize].plus(&self.here);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_where_its_terms_lead() {
        let mut chain = Chain::new(Time(100), 2, 0);
        chain.add(Term::Latency, Span(5));
        chain.message(64);
        let other = chain.clone();
        chain.enter(1);
        chain.wait(Term::Queue, Span(7), Some((3, 4)));
        chain.enter(0);
        chain.add(Term::Transfer, Span(11));
        assert_eq!((chain.end(), other.end()), (Time(123), Time(105)));
        let terms = chain.terms();
        assert_eq!(terms[0].spans[Term::Latency as usize], Span(5));
        assert_eq!(terms[0].spans[Term::Transfer as usize], Span(11));
        assert_eq!((terms[0].messages, terms[0].bytes), (1, 64));
        assert_eq!(terms[1].spans[Term::Queue as usize], Span(7));
        assert_eq!(chain.behind(), Some((3, 4)));
    }
}
