//! Hits of a cache of prefixes that never forgets.

use crate::content::{Chain, Piece};
use rustc_hash::FxHashSet;

/// Full blocks of prompts, and those that an earlier prompt has had with the same start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Full blocks.
    pub blocks: u64,
    /// Hits among them.
    pub hits: u64,
}

/// Hits of prompts in their order, in blocks of `block` tokens.
pub fn unbounded<'a>(prompts: impl Iterator<Item = &'a [Piece]>, block: u32) -> Hits {
    let mut known = FxHashSet::default();
    let mut found = Hits::default();
    for prompt in prompts {
        let chain = Chain::of(block, prompt);
        found.blocks += chain.hashes().len() as u64;
        found.hits += chain.hashes().iter().take_while(|hash| known.contains(*hash)).count() as u64;
        known.extend(chain.hashes().iter().copied());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_hits_up_to_the_first_difference() {
        let piece = |content, length| Piece { content, length };
        let prompts = [
            vec![piece(1, 10), piece(2, 5)],
            vec![piece(1, 10), piece(3, 5)],
            vec![piece(4, 1), piece(1, 10)],
            vec![piece(1, 7)],
        ];
        let all = || prompts.iter().map(Vec::as_slice);
        assert_eq!(unbounded(all(), 1), Hits { blocks: 48, hits: 17 });
        assert_eq!(unbounded(all(), 4), Hits { blocks: 3 + 3 + 2 + 1, hits: 2 + 1 });
        assert_eq!(unbounded(all(), 16), Hits::default());
    }
}
