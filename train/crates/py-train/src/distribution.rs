//! `_train.Router`, `_train.Blocks` and `_train.Columns`: what ranks exchange, on arrays of numpy.

use embedding::distribution::{Blocks, Columns, Cut, Number, Router, Routes, Run, Sent};
use embedding::{Batch, Integers};
use pyo3::prelude::*;

use crate::arrays::{Array, Arrays, Given, IntegerArray, IntegersMut, bad, fault};

/// `$work` with slices of one type of numbers in place of the `Integers` `$from` and `$to`.
macro_rules! alike {
    ($from:ident, $to:ident => $work:expr) => {
        match ($from.numbers(), $to.numbers_mut()?) {
            (Integers::I32($from), IntegersMut::I32($to)) => $work,
            (Integers::I64($from), IntegersMut::I64($to)) => $work,
            _ => return Err(bad("arrays of different types".into())),
        }
    };
}

/// `$work` with slices of numbers in place of the `Integers` `$lengths` and `$indices`.
macro_rules! numbers {
    ($lengths:ident, $indices:ident => $work:expr) => {
        match ($lengths, $indices) {
            (Integers::I32($lengths), Integers::I32($indices)) => $work,
            (Integers::I32($lengths), Integers::I64($indices)) => $work,
            (Integers::I64($lengths), Integers::I32($indices)) => $work,
            (Integers::I64($lengths), Integers::I64($indices)) => $work,
        }
    };
}

/// Sends the lookups of a batch to segments: copies of whole features, shards of those that are cut.
#[pyclass(module = "armillary_train._train", name = "Router")]
pub struct PyRouter {
    router: Router,
    routes: Routes,
}

#[pymethods]
impl PyRouter {
    #[new]
    fn new(
        py: Python<'_>,
        cuts: Vec<(String, String, u64, Vec<u64>)>,
        segments: Vec<(usize, usize)>,
    ) -> PyResult<Self> {
        let cut = |(feature, table, rows, ends)| Cut { feature, table, rows, ends };
        let router = Router::new(cuts.into_iter().map(cut).collect(), segments);
        let router = router.map_err(|found| fault(py, &found))?;
        Ok(Self { router, routes: Routes::default() })
    }

    /// Checks a batch and returns the number of indices of each segment.
    fn count(&mut self, py: Python<'_>, samples: usize, batch: Given<'_>) -> PyResult<Vec<usize>> {
        let arrays = Arrays::of(samples, &batch)?;
        let Batch { lengths, indices, weights, .. } = arrays.batch();
        let (router, routes) = (&self.router, &mut self.routes);
        let done = py.detach(|| {
            numbers!(lengths, indices => router.count(samples, lengths, indices, weights, routes))
        });
        done.map_err(|found| fault(py, &found))?;
        Ok(self.routes.segments().windows(2).map(|pair| pair[1] - pair[0]).collect())
    }

    /// Writes the segments of the batch that was counted last.
    fn fill(&mut self, py: Python<'_>, batch: Given<'_>, sent: Given<'_>) -> PyResult<()> {
        let arrays = Arrays::of(self.routes.samples(), &batch)?;
        let mut lengths = Array::<i32>::of(&sent.0, "lengths")?;
        let mut indices = IntegerArray::of(&sent.1, "indices")?;
        let mut weights = sent.2.as_ref().map(|each| Array::of(each, "weights")).transpose()?;
        let room = (lengths.numbers().len(), indices.numbers().len());
        let (lengths, indices) = (lengths.numbers_mut()?, indices.numbers_mut()?);
        let weights = weights.as_mut().map(Array::numbers_mut).transpose()?;
        let (router, routes) = (&self.router, &mut self.routes);
        let (bags, lookups) = routes.extent();
        if room != (bags, lookups)
            || weights.as_ref().is_some_and(|weights| weights.len() != lookups)
        {
            return Err(bad(format!("room for other than {bags} bags of {lookups} lookups")));
        }
        py.detach(|| match indices {
            IntegersMut::I32(indices) => {
                fill(router, routes, &arrays, &mut Sent { lengths, indices, weights });
            }
            IntegersMut::I64(indices) => {
                fill(router, routes, &arrays, &mut Sent { lengths, indices, weights });
            }
        });
        Ok(())
    }
}

fn fill<O: Number>(router: &Router, routes: &mut Routes, arrays: &Arrays, sent: &mut Sent<'_, O>) {
    let Batch { lengths, indices, weights, .. } = arrays.batch();
    numbers!(lengths, indices => router.fill(routes, lengths, indices, weights, sent));
}

/// Lengths and indices in blocks, which can be put into another order.
#[pyclass(module = "armillary_train._train", name = "Blocks", frozen)]
pub struct PyBlocks(Blocks);

#[pymethods]
impl PyBlocks {
    #[new]
    fn new(
        py: Python<'_>,
        sizes: Vec<usize>,
        lengths: &Bound<'_, PyAny>,
        lookups: usize,
    ) -> PyResult<Self> {
        let lengths = IntegerArray::of(lengths, "lengths")?;
        let blocks = match lengths.numbers() {
            Integers::I32(lengths) => Blocks::new(&sizes, lengths, lookups),
            Integers::I64(lengths) => Blocks::new(&sizes, lengths, lookups),
        };
        blocks.map(Self).map_err(|found| fault(py, &found))
    }

    /// Bags and lookups of the blocks `order`.
    fn extent(&self, order: Vec<usize>) -> PyResult<(usize, usize)> {
        self.known(&order)?;
        Ok(self.0.extent(&order))
    }

    /// Copies the bags of the blocks `order`, one behind the other.
    fn permute_bags(
        &self,
        py: Python<'_>,
        order: Vec<usize>,
        from: &Bound<'_, PyAny>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let sizes = (self.0.whole().0, self.extent(order.clone())?.0);
        let (from, mut to) = pair(from, to, sizes)?;
        alike!(from, to => py.detach(|| self.0.permute_bags(&order, from, to)));
        Ok(())
    }

    /// Copies the lookups of the blocks `order`, one behind the other.
    fn permute_lookups(
        &self,
        py: Python<'_>,
        order: Vec<usize>,
        from: &Bound<'_, PyAny>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let sizes = (self.0.whole().1, self.extent(order.clone())?.1);
        let (from, mut to) = pair(from, to, sizes)?;
        alike!(from, to => py.detach(|| self.0.permute_lookups(&order, from, to)));
        Ok(())
    }
}

impl PyBlocks {
    fn known(&self, order: &[usize]) -> PyResult<()> {
        match order.iter().find(|&&block| block >= self.0.count()) {
            Some(block) => Err(bad(format!("block {block} of {}", self.0.count()))),
            None => Ok(()),
        }
    }
}

/// Two arrays of integers of these sizes.
fn pair(
    from: &Bound<'_, PyAny>,
    to: &Bound<'_, PyAny>,
    sizes: (usize, usize),
) -> PyResult<(IntegerArray, IntegerArray)> {
    let pair = (IntegerArray::of(from, "from")?, IntegerArray::of(to, "to")?);
    let found = (pair.0.numbers().len(), pair.1.numbers().len());
    if found == sizes { Ok(pair) } else { Err(bad(format!("arrays of {found:?}, not {sizes:?}"))) }
}

/// Columns of pooled rows, between a batch's rows and blocks of them.
#[pyclass(module = "armillary_train._train", name = "Columns", frozen)]
pub struct PyColumns(Columns);

#[pymethods]
impl PyColumns {
    #[new]
    fn new(
        py: Python<'_>,
        width: usize,
        widths: Vec<usize>,
        runs: Vec<(usize, usize, usize, usize, bool)>,
    ) -> PyResult<Self> {
        let run = |(block, from, to, width, add)| Run { block, from, to, width, add };
        let columns = Columns::new(width, widths, runs.into_iter().map(run).collect());
        columns.map(Self).map_err(|found| fault(py, &found))
    }

    /// Rows of the batch from those of the blocks.
    fn collect(
        &self,
        py: Python<'_>,
        rows: usize,
        blocks: Vec<Bound<'_, PyAny>>,
        batch: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let blocks = blocks.iter().map(|each| Array::of(each, "blocks"));
        let blocks = blocks.collect::<PyResult<Vec<Array<f32>>>>()?;
        let blocks: Vec<&[f32]> = blocks.iter().map(Array::numbers).collect();
        let mut batch = Array::of(batch, "batch")?;
        let batch = batch.numbers_mut()?;
        fits(blocks.iter().map(|each| each.len()), self.0.extents(rows))?;
        fits([batch.len()], [self.0.extent(rows)])?;
        py.detach(|| self.0.collect(rows, &blocks, batch));
        Ok(())
    }

    /// Rows of the blocks from those of the batch. Returns whether all numbers are finite.
    fn spread(
        &self,
        py: Python<'_>,
        rows: usize,
        batch: &Bound<'_, PyAny>,
        blocks: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (batch, mut blocks) = (Array::of(batch, "batch")?, Array::of(blocks, "blocks")?);
        let (batch, blocks) = (batch.numbers(), blocks.numbers_mut()?);
        fits([blocks.len(), batch.len()], [self.0.extents(rows).sum(), self.0.extent(rows)])?;
        Ok(py.detach(|| self.0.spread(rows, batch, blocks)))
    }
}

/// Fails if arrays have not the `sizes` that they are to have.
fn fits(
    found: impl IntoIterator<Item = usize>,
    sizes: impl IntoIterator<Item = usize>,
) -> PyResult<()> {
    let (found, sizes) = (Vec::from_iter(found), Vec::from_iter(sizes));
    if found == sizes { Ok(()) } else { Err(bad(format!("arrays of {found:?}, not {sizes:?}"))) }
}
