//! Blocks of the cache of keys and values: which are free, how many requests refer to
//! them, which prefix they hold.
//!
//! The rules are those of vLLM 0.19 (`lab/peers/record_vllm_scheduler.py` describes them). A free
//! block keeps its prefix until it is taken. Free blocks are taken from the front,
//! and come back at the end: the last block of a request first, so that prefixes live longest.

use rustc_hash::FxHashMap;

/// No block.
const NONE: u32 = u32::MAX;

/// The blocks of one cache.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Neighbors in the queue of free blocks; the last entry is its two ends.
    before: Vec<u32>,
    after: Vec<u32>,
    free: u32,
    references: Vec<u32>,
    /// Hash of the prefix that a block holds, where it holds one.
    hashes: Vec<Option<u64>>,
    /// The first block with a hash, and for each block the next one with the same.
    first: FxHashMap<u64, u32>,
    same: Vec<u32>,
}

impl Pool {
    /// `blocks` free blocks without a prefix.
    pub fn new(blocks: u32) -> Pool {
        let count = blocks as usize;
        Pool {
            before: (0..=blocks).map(|at| if at == 0 { blocks } else { at - 1 }).collect(),
            after: (0..=blocks).map(|at| if at == blocks { 0 } else { at + 1 }).collect(),
            free: blocks,
            references: vec![0; count],
            hashes: vec![None; count],
            first: FxHashMap::default(),
            same: vec![NONE; count],
        }
    }

    /// All blocks.
    pub fn blocks(&self) -> u32 {
        self.references.len() as u32
    }

    /// Free blocks: no request refers to them.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// The block with this prefix that got it first.
    pub fn holding(&self, hash: u64) -> Option<u32> {
        self.first.get(&hash).copied()
    }

    /// Whether no request refers to a block.
    pub fn is_free(&self, block: u32) -> bool {
        self.references[block as usize] == 0
    }

    /// Takes the block that was free for longest, and forgets its prefix.
    pub fn take(&mut self) -> u32 {
        let ends = self.blocks();
        let block = self.after[ends as usize];
        assert_ne!(block, ends, "a block is taken from none");
        self.unlink(block);
        self.forget(block);
        self.references[block as usize] = 1;
        block
    }

    /// One more refers to a block.
    pub fn touch(&mut self, block: u32) {
        if self.is_free(block) {
            self.unlink(block);
        }
        self.references[block as usize] += 1;
    }

    /// One less refers to each of these blocks, in this order.
    pub fn release(&mut self, blocks: impl IntoIterator<Item = u32>) {
        let ends = self.blocks() as usize;
        for block in blocks {
            let references = &mut self.references[block as usize];
            *references -= 1;
            if *references == 0 {
                let last = self.before[ends];
                self.after[last as usize] = block;
                self.before[block as usize] = last;
                self.after[block as usize] = ends as u32;
                self.before[ends] = block;
                self.free += 1;
            }
        }
    }

    /// A block holds the prefix with this hash from now on.
    pub fn hold(&mut self, block: u32, hash: u64) {
        debug_assert!(self.hashes[block as usize].is_none());
        self.hashes[block as usize] = Some(hash);
        let mut at = match self.first.entry(hash) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(block);
                return;
            }
            std::collections::hash_map::Entry::Occupied(entry) => *entry.get(),
        };
        while self.same[at as usize] != NONE {
            at = self.same[at as usize];
        }
        self.same[at as usize] = block;
    }

    /// Free blocks from the front of the queue, and whether each holds a prefix.
    #[cfg(test)]
    pub fn left(&self) -> Vec<(u32, bool)> {
        let mut at = self.after[self.blocks() as usize];
        let mut left = Vec::new();
        while at != self.blocks() {
            left.push((at, self.hashes[at as usize].is_some()));
            at = self.after[at as usize];
        }
        left
    }

    fn unlink(&mut self, block: u32) {
        let (before, after) = (self.before[block as usize], self.after[block as usize]);
        self.after[before as usize] = after;
        self.before[after as usize] = before;
        self.free -= 1;
    }

    fn forget(&mut self, block: u32) {
        let Some(hash) = self.hashes[block as usize].take() else { return };
        let next = std::mem::replace(&mut self.same[block as usize], NONE);
        let first = self.first[&hash];
        if first == block {
            if next == NONE {
                self.first.remove(&hash);
            } else {
                self.first.insert(hash, next);
            }
            return;
        }
        let mut at = first;
        while self.same[at as usize] != block {
            at = self.same[at as usize];
        }
        self.same[at as usize] = next;
    }
}
