use super::wide::wide;
use crate::Fault;

/// `width` columns of one block of rows, and where they belong in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Block of the shards' side.
    pub block: usize,
    /// First column in the block.
    pub from: usize,
    /// First column in the batch.
    pub to: usize,
    /// Columns.
    pub width: usize,
    /// Whether the columns are added to those of earlier runs.
    pub add: bool,
}

/// For each run, where its first row begins and how far apart its rows are.
type Starts = Vec<(usize, usize)>;

/// Rows of a batch, `[rows, width]`, against blocks `[rows, widths[i]]`.
#[derive(Clone, Debug)]
pub struct Columns {
    width: usize,
    widths: Vec<usize>,
    runs: Vec<Run>,
}

impl Columns {
    /// Fails when a run leaves its block or the batch.
    pub fn new(width: usize, widths: Vec<usize>, runs: Vec<Run>) -> Result<Self, Fault> {
        for run in &runs {
            let inside = widths.get(run.block).is_some_and(|&each| run.from + run.width <= each);
            if !inside || run.to + run.width > width {
                return Err(Fault::new("columns", format!("{run:?} leaves its block")));
            }
        }
        Ok(Self { width, widths, runs })
    }

    /// Numbers of `rows` rows in each block.
    pub fn extents(&self, rows: usize) -> impl Iterator<Item = usize> + '_ {
        self.widths.iter().map(move |width| rows * width)
    }

    /// Numbers of `rows` rows in the batch.
    #[must_use]
    pub fn extent(&self, rows: usize) -> usize {
        rows * self.width
    }

    /// Rows of the batch from those of the blocks. Sums are made in the order of the runs. Columns
    /// without a run stay as they are.
    ///
    /// # Panics
    /// When a block or `batch` is shorter than its rows.
    pub fn collect(&self, rows: usize, blocks: &[&[f32]], batch: &mut [f32]) {
        wide(
            #[inline(always)]
            || self.collect_rows(rows, blocks, batch),
        );
    }

    #[inline(always)]
    fn collect_rows(&self, rows: usize, blocks: &[&[f32]], batch: &mut [f32]) {
        for row in 0..rows {
            let out = &mut batch[row * self.width..(row + 1) * self.width];
            for run in &self.runs {
                let first = row * self.widths[run.block] + run.from;
                let part = &blocks[run.block][first..][..run.width];
                let out = &mut out[run.to..run.to + run.width];
                if run.add {
                    out.iter_mut().zip(part).for_each(|(sum, &each)| *sum += each);
                } else {
                    copy(part, out);
                }
            }
        }
    }

    /// Rows of the blocks, which lie one behind the other, from those of the batch: what
    /// [`collect`](Self::collect) does for gradients. Returns whether every number is finite.
    ///
    /// # Panics
    /// When `blocks` or `batch` is shorter than its rows.
    pub fn spread(&self, rows: usize, batch: &[f32], blocks: &mut [f32]) -> bool {
        let starts = self.starts(rows);
        wide(
            #[inline(always)]
            || self.spread_rows(rows, &starts, batch, blocks),
        )
    }

    #[inline(always)]
    fn spread_rows(&self, rows: usize, starts: &Starts, batch: &[f32], blocks: &mut [f32]) -> bool {
        let mut largest = 0;
        for row in 0..rows {
            let from = &batch[row * self.width..(row + 1) * self.width];
            for (run, (start, stride)) in self.runs.iter().zip(starts) {
                let from = &from[run.to..run.to + run.width];
                let part = &mut blocks[start + row * stride..][..run.width];
                copy(from, part);
                let bits = from.iter().map(|each| each.to_bits() & i32::MAX as u32);
                largest = bits.fold(largest, u32::max);
            }
        }
        largest < f32::INFINITY.to_bits()
    }

    fn starts(&self, rows: usize) -> Starts {
        let before = |block: usize| self.widths[..block].iter().sum::<usize>() * rows;
        self.runs.iter().map(|run| (before(run.block) + run.from, self.widths[run.block])).collect()
    }
}

/// Copies numbers, most often 16 or a multiple of them: too few for a call of `memcpy`.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    let ((from, last), (to, last_to)) = (from.as_chunks::<16>(), to.as_chunks_mut::<16>());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    last_to.iter_mut().zip(last).for_each(|(to, &from)| *to = from);
}

#[cfg(test)]
mod tests {
    use super::{Columns, Run};

    fn columns() -> Columns {
        let runs = vec![
            Run { block: 1, from: 0, to: 0, width: 1, add: false },
            Run { block: 0, from: 0, to: 1, width: 2, add: false },
            Run { block: 1, from: 1, to: 1, width: 2, add: true },
        ];
        Columns::new(3, vec![2, 3], runs).unwrap()
    }

    #[test]
    fn rows_are_collected_and_summed() {
        let (first, second) = ([1., 2., 3., 4.], [10., 20., 30., 40., 50., 60.]);
        let mut batch = [0.; 6];
        columns().collect(2, &[&first, &second], &mut batch);
        assert_eq!(batch, [10., 21., 32., 40., 53., 64.]);
    }

    #[test]
    fn gradients_are_spread_and_checked() {
        let mut blocks = [0.; 5];
        assert!(columns().spread(1, &[1., -2., 3.], &mut blocks));
        assert_eq!(blocks, [-2., 3., 1., -2., 3.]);
        assert!(!columns().spread(1, &[1., f32::NAN, 3.], &mut blocks));
        assert!(!columns().spread(1, &[f32::NEG_INFINITY, 2., 3.], &mut blocks));
    }

    #[test]
    fn a_run_stays_in_its_block() {
        let run = Run { block: 0, from: 1, to: 0, width: 2, add: false };
        assert!(Columns::new(4, vec![2], vec![run]).is_err());
        assert!(Columns::new(1, vec![3], vec![run]).is_err());
        assert!(Columns::new(4, vec![], vec![run]).is_err());
    }
}
