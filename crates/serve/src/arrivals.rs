//! When requests arrive: by themselves, when others end, or as turns of conversations.

use std::collections::VecDeque;

/// When requests arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At these times, ps, in ascending order.
    Open(Vec<u64>),
    /// This number is there at any time.
    Closed(u32),
    /// Conversations. Requests with an entry come some time after another one has ended; the others
    /// arrive by themselves. In a closed loop conversations count.
    Sessions(Box<Arrivals>, Vec<Option<After>>),
}

/// A request that is sent after the answer to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// The other one, earlier in the list.
    pub request: u32,
    /// Time between its last token and this request, ps.
    pub think: u64,
}

/// Requests that arrive by themselves with their times; those of a closed loop that arrive when
/// another one is done; and those that are sent after each one.
pub(crate) type InOrder = (Vec<(u64, u32)>, VecDeque<u32>, Vec<Vec<(u32, u64)>>);

/// See [`InOrder`].
pub(crate) fn in_order(count: u32, arrivals: &Arrivals) -> InOrder {
    match arrivals {
        Arrivals::Open(times) => {
            (times.iter().copied().zip(0..).collect(), VecDeque::new(), Vec::new())
        }
        Arrivals::Closed(most) => {
            let most = count.min(*most);
            let there = (0..most).map(|request| (0, request)).collect();
            (there, (most..count).collect(), Vec::new())
        }
        Arrivals::Sessions(first, after) => {
            let mut next = vec![Vec::new(); count as usize];
            for (number, after) in (0..count).zip(after) {
                if let Some(after) = after {
                    next[after.request as usize].push((number, after.think));
                }
            }
            let begins = |request: u32| after[request as usize].is_none();
            let mut begin = (0..count).filter(|&request| begins(request));
            let (there, closed): (Vec<(u64, u32)>, VecDeque<u32>) = match &**first {
                Arrivals::Closed(most) => {
                    let there = begin.by_ref().take(*most as usize).map(|request| (0, request));
                    (there.collect(), begin.collect())
                }
                Arrivals::Open(times) => (
                    begin.map(|request| (times[request as usize], request)).collect(),
                    VecDeque::new(),
                ),
                Arrivals::Sessions(..) => return in_order(count, first),
            };
            (there, closed, next)
        }
    }
}
