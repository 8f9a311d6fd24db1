//! Contents of prompts, as far as caches of prefixes see them.
//!
//! Texts have no meaning here. A prompt is a row of pieces, and two pieces with the same content
//! hold the same tokens. Blocks of tokens get a hash that covers everything before them, so equal
//! hashes mean equal prefixes.

/// Bit of contents that are the output of a request.
const OUTPUT: u64 = 1 << 63;

/// The output of request `request`, as later prompts of a session may contain it.
pub fn output_of(request: u32) -> u64 {
    OUTPUT | u64::from(request)
}

/// Some tokens of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Pieces with the same content begin with the same tokens.
    pub content: u64,
    /// Tokens.
    pub length: u32,
}

/// The hashes of the full blocks of a text that grows.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Tokens of a block.
    block: u32,
    /// Hashes of the full blocks.
    hashes: Vec<u64>,
    /// The block that is not full yet.
    open: u64,
    /// Tokens in it.
    filled: u32,
    /// The content and the offset that would continue the last piece.
    next: (u64, u32),
}

impl Chain {
    /// No tokens, in blocks of `block` tokens.
    pub fn new(block: u32) -> Chain {
        Chain { block, hashes: Vec::new(), open: 0, filled: 0, next: (u64::MAX, 0) }
    }

    /// With the tokens of a prompt.
    pub fn of(block: u32, pieces: &[Piece]) -> Chain {
        let mut chain = Chain::new(block);
        for piece in pieces {
            chain.push(piece.content, 0, piece.length);
        }
        chain
    }

    /// Adds tokens `from..from + length` of a content.
    pub fn push(&mut self, content: u64, from: u32, length: u32) {
        let (mut at, end) = (from, from + length);
        while at < end {
            // A piece that is cut into calls has the hash of the whole piece: only its start in
            // the block counts, and the block's length is fixed.
            if self.filled == 0 || self.next != (content, at) {
                self.open =
                    mix(self.open
                        ^ mix(content ^ mix(u64::from(at) << 32 | u64::from(self.filled))));
            }
            let taken = (self.block - self.filled).min(end - at);
            self.filled += taken;
            at += taken;
            self.next = (content, at);
            if self.filled == self.block {
                self.hashes.push(self.open);
                self.filled = 0;
            }
        }
    }

    /// Hashes of the full blocks.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }
}

/// A permutation of 64 bits that spreads each of them (SplitMix64; Steele et al. 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pairs: &[(u64, u32)]) -> Vec<Piece> {
        pairs.iter().map(|&(content, length)| Piece { content, length }).collect()
    }

    #[test]
    fn equal_prefixes_have_equal_hashes_and_others_differ() {
        let one = Chain::of(4, &pieces(&[(7, 10), (8, 6)]));
        let two = Chain::of(4, &pieces(&[(7, 10), (9, 6)]));
        assert_eq!(one.hashes()[..2], two.hashes()[..2]);
        assert_ne!(one.hashes()[2], two.hashes()[2]);
        assert_ne!(one.hashes()[3], two.hashes()[3]);
    }

    #[test]
    fn growing_token_by_token_gives_the_hashes_of_the_whole() {
        let whole = Chain::of(4, &pieces(&[(1, 5), (output_of(3), 9)]));
        let mut grown = Chain::of(4, &pieces(&[(1, 5)]));
        for at in 0..9 {
            grown.push(output_of(3), at, 1);
        }
        assert_eq!(grown.hashes(), whole.hashes());
        assert_eq!(grown.hashes().len(), 3);
    }

    #[test]
    fn a_piece_that_begins_again_is_not_one_that_goes_on() {
        let again = Chain::of(8, &pieces(&[(1, 4), (1, 4)]));
        let on = Chain::of(8, &pieces(&[(1, 8)]));
        assert_ne!(again.hashes(), on.hashes());
    }
}
