use super::Number;
use crate::Fault;

/// Sums of lengths up to this one don't overflow, and negative ones are beyond it.
const LONGEST: u64 = (1 << 40) - 1;

/// Blocks that lie one behind the other: where each of them begins.
#[derive(Clone, Debug)]
pub struct Blocks {
    lengths: Vec<usize>,
    indices: Vec<usize>,
}

impl Blocks {
    /// Blocks of `sizes` bags each. Fails when the lengths of `lengths` don't add up to `count`
    /// indices, or do not have the number that the sizes say.
    pub fn new<L: Number>(sizes: &[usize], lengths: &[L], count: usize) -> Result<Self, Fault> {
        let bags: usize = sizes.iter().sum();
        if bags != lengths.len() {
            return Err(Fault::new("lengths", format!("{} lengths", lengths.len()))
                .allowed(format!("{bags}, one for each bag")));
        }
        let mut found = Self { lengths: vec![0], indices: vec![0] };
        let (mut bag, mut index) = (0, 0_usize);
        let mut every = 0;
        for &size in sizes {
            let block = &lengths[bag..bag + size];
            let sum = block.iter().fold(0_u64, |sum, length| {
                every |= length.wide();
                sum.wrapping_add(length.wide())
            });
            bag += size;
            index = index.wrapping_add(sum as usize);
            found.lengths.push(bag);
            found.indices.push(index);
        }
        if every <= LONGEST && index == count {
            return Ok(found);
        }
        let said = lengths.iter().position(|length| length.wide() > LONGEST).map_or_else(
            || format!("lengths add up to {index}"),
            |at| format!("length {} of bag {at}", lengths[at].signed()),
        );
        Err(Fault::new("lengths", said).allowed(format!("lengths that add up to {count} indices")))
    }

    /// Bags and indices of the blocks `order`.
    ///
    /// # Panics
    /// When a block of `order` does not exist.
    #[must_use]
    pub fn extent(&self, order: &[usize]) -> (usize, usize) {
        order.iter().fold((0, 0), |(bags, indices), &block| {
            (bags + size(&self.lengths, block), indices + size(&self.indices, block))
        })
    }

    /// Number of blocks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lengths.len() - 1
    }

    /// Bags and indices of all blocks.
    #[must_use]
    pub fn whole(&self) -> (usize, usize) {
        (self.lengths[self.count()], self.indices[self.count()])
    }

    /// Copies the lengths of the blocks `order`, one behind the other. A block may be copied any
    /// number of times.
    ///
    /// # Panics
    /// When a block of `order` does not exist, or `to` has not the blocks' [`extent`](Self::extent).
    pub fn permute_bags<T: Copy>(&self, order: &[usize], from: &[T], to: &mut [T]) {
        copy(&self.lengths, order, from, to);
    }

    /// The same for what there is one of for each index: indices or weights.
    ///
    /// # Panics
    /// As [`permute_bags`](Self::permute_bags).
    pub fn permute_lookups<T: Copy>(&self, order: &[usize], from: &[T], to: &mut [T]) {
        copy(&self.indices, order, from, to);
    }
}

fn size(starts: &[usize], block: usize) -> usize {
    starts[block + 1] - starts[block]
}

fn copy<T: Copy>(starts: &[usize], order: &[usize], from: &[T], mut to: &mut [T]) {
    for &block in order {
        let part = &from[starts[block]..starts[block + 1]];
        let (next, rest) = to.split_at_mut(part.len());
        next.copy_from_slice(part);
        to = rest;
    }
    assert!(to.is_empty(), "the output is larger than the blocks");
}

#[cfg(test)]
mod tests {
    use super::Blocks;

    #[test]
    fn blocks_move_whole_and_may_repeat() {
        let lengths = [1, 0, 2, 1_i32];
        let blocks = Blocks::new(&[2, 1, 1], &lengths, 4).unwrap();
        let order = [2, 0, 2, 1];
        assert_eq!(blocks.extent(&order), (5, 5));
        let (mut bags, mut indices) = ([0; 5], [0; 5]);
        blocks.permute_bags(&order, &lengths, &mut bags);
        blocks.permute_lookups(&order, &[10, 20, 21, 30], &mut indices);
        assert_eq!(bags, [1, 1, 0, 1, 2]);
        assert_eq!(indices, [30, 10, 30, 20, 21]);
    }

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        for (lengths, said) in [([1, 1, 1], "add up to 3"), ([-1, 2, 3], "length -1 of bag 0")] {
            let fault = Blocks::new(&[3], &lengths, 4).unwrap_err();
            assert!(fault.message.contains(said), "{fault}");
        }
        assert!(Blocks::new(&[2], &[1_i64, 2, 3], 6).is_err());
    }
}
