//! The forward and the backward pass of a batch: what is checked first, then the work itself.

use crate::backward;
use crate::batch::{Batch, Expected, check, first_not_finite};
use crate::engine::{Engine, Feature, Pooling};
use crate::fault::Fault;
use crate::forward;
use crate::optimizer::{Round, RowSums};
use crate::precision::Precision;
use crate::workers;
use std::sync::Arc;

impl Engine {
    fn offsets(&self, batch: &Batch<'_>) -> Result<Vec<usize>, Fault> {
        let expected = |feature: &'_ Feature| {
            let table = &self.tables()[feature.table];
            (table.name.clone(), table.rows)
        };
        let tables: Vec<_> = self.features().iter().map(expected).collect();
        let features: Vec<Expected<'_>> = self
            .features()
            .iter()
            .zip(&tables)
            .map(|(feature, (table, rows))| Expected {
                feature: &feature.name,
                table,
                rows: *rows,
                weighted: feature.pooling == Pooling::Sum,
            })
            .collect();
        check(batch, &features, self.threads)
    }

    /// Looks up all bags of `batch`. `out` has the rows and columns of `shape`: features side by
    /// side, a row for each sample; without pooling, a row for each lookup.
    ///
    /// # Errors
    ///
    /// A fault of the batch. `out` is unchanged then.
    pub fn forward(&self, batch: &Batch<'_>, out: &mut [f32]) -> Result<(), Fault> {
        self.fits("result", batch, out.len())?;
        workers::wake(self.threads.saturating_sub(1));
        let offsets = self.offsets(batch)?;
        match self.caches() {
            None => forward::run(self, batch, &offsets, out),
            Some(caches) => {
                let held = self.residency().hold(&caches, batch, &offsets)?;
                forward::run(self, &held.batch(batch), &offsets, out);
            }
        }
        Ok(())
    }

    /// Begins to bring the rows of the next batch into the caches of tables that have one, while
    /// passes of the current batch go on. It changes no result.
    ///
    /// # Errors
    ///
    /// A fault of the batch; a disk that failed before.
    pub fn prefetch(&self, batch: &Batch<'_>) -> Result<(), Fault> {
        let offsets = self.offsets(batch)?;
        match self.caches() {
            None => Ok(()),
            Some(caches) => self.residency().prefetch(&caches, batch, &offsets),
        }
    }

    /// Applies the gradient of the result (`grad`, with the rows and columns of `shape`) to the
    /// rows of `batch`, each once, with the sum of its gradients. First writes the gradient of each
    /// lookup's weight into `weights`, if there are any.
    ///
    /// # Errors
    ///
    /// A fault of the batch; a table that is only read; a gradient that is not finite, unless that
    /// is allowed. Nothing is changed then.
    pub fn backward(
        &mut self,
        batch: &Batch<'_>,
        grad: &[f32],
        weights: Option<&mut [f32]>,
    ) -> Result<(), Fault> {
        let offsets = self.checked(batch, grad, weights.as_deref())?;
        if let Some(table) = self.tables().iter().find(|table| table.precision == Precision::I8) {
            let message = "rows of 8 bits are read only";
            return Err(Fault::new(format!("table {:?}", table.name), message)
                .allowed("float32, float16 or bfloat16 for training"));
        }
        let residency = Arc::clone(self.residency());
        let held = match self.caches() {
            None => None,
            Some(caches) => Some(residency.hold(&caches, batch, &offsets)?),
        };
        self.step += 1;
        match &held {
            None => backward::run(self, batch, &offsets, grad, weights),
            Some(held) => {
                held.mark();
                backward::run(self, &held.batch(batch), &offsets, grad, weights);
            }
        }
        self.tables_mut().iter_mut().for_each(|table| table.sums.clear());
        Ok(())
    }

    /// Writes the gradient of each lookup's weight into `weights`, and changes no row.
    ///
    /// # Errors
    ///
    /// A fault of the batch; a gradient that is not finite, unless that is allowed.
    pub fn weight_gradients(
        &self,
        batch: &Batch<'_>,
        grad: &[f32],
        weights: &mut [f32],
    ) -> Result<(), Fault> {
        let offsets = self.checked(batch, grad, Some(weights))?;
        match self.caches() {
            None => backward::weight_gradients(self, batch, &offsets, grad, weights),
            Some(caches) => {
                let held = self.residency().hold(&caches, batch, &offsets)?;
                backward::weight_gradients(self, &held.batch(batch), &offsets, grad, weights);
            }
        }
        Ok(())
    }

    /// The offsets of a batch that goes back by the gradient `grad`.
    fn checked(
        &self,
        batch: &Batch<'_>,
        grad: &[f32],
        weights: Option<&[f32]>,
    ) -> Result<Vec<usize>, Fault> {
        self.fits("gradient", batch, grad.len())?;
        workers::wake(self.threads.saturating_sub(1));
        let offsets = self.offsets(batch)?;
        if let Some(weights) = weights
            && (batch.weights.is_none() || weights.len() != batch.indices.len())
        {
            return Err(Fault::new("batch", "gradients of weights that it does not have"));
        }
        if self.refuse_not_finite
            && let Some(at) = first_not_finite(grad, self.threads)
        {
            return Err(self.not_finite(batch, at, grad[at]));
        }
        Ok(offsets)
    }

    /// The rows of a table that the next backward pass changes, ascending, with the sums of a round
    /// over the table's columns. For tables that have some columns of rows, whose optimizer needs
    /// sums over all of them: see `set_row_sums`.
    ///
    /// # Errors
    ///
    /// A fault of the batch; a gradient of another shape; a table that does not exist.
    pub fn row_sums(
        &self,
        batch: &Batch<'_>,
        grad: &[f32],
        table: usize,
        round: Round,
    ) -> Result<Vec<RowSums>, Fault> {
        self.fits("gradient", batch, grad.len())?;
        let offsets = self.offsets(batch)?;
        if table >= self.tables().len() {
            return Err(Fault::new("table", format!("no table {table}")));
        }
        let target = (table, round);
        let Some(caches) = self.caches() else {
            return Ok(backward::row_sums(self, batch, &offsets, grad, target));
        };
        let held = self.residency().hold(&caches, batch, &offsets)?;
        Ok(backward::row_sums(self, &held.batch(batch), &offsets, grad, target))
    }

    /// Makes further rounds of `row_sums` and the next backward pass use these sums over `columns`
    /// columns of these rows, which ascend, instead of those over the table's own columns.
    ///
    /// # Errors
    ///
    /// A table that does not exist.
    pub fn set_row_sums(
        &mut self,
        table: usize,
        columns: usize,
        sums: Vec<RowSums>,
    ) -> Result<(), Fault> {
        let found = self.tables_mut().get_mut(table);
        let table = found.ok_or_else(|| Fault::new("table", format!("no table {table}")))?;
        (table.sums, table.whole_dim) = (sums, columns);
        Ok(())
    }

    fn fits(&self, what: &str, batch: &Batch<'_>, found: usize) -> Result<(), Fault> {
        let (rows, columns) = self.shape(batch.samples, batch.indices.len());
        if rows.checked_mul(columns) == Some(found) {
            return Ok(());
        }
        Err(Fault::new(what, format!("{found} numbers")).allowed(format!("{rows} x {columns}")))
    }

    fn not_finite(&self, batch: &Batch<'_>, at: usize, value: f32) -> Fault {
        let (_, columns) = self.shape(batch.samples, batch.indices.len());
        let (row, column) = (at / columns, at % columns);
        let place = if self.is_unpooled() {
            format!("gradient: lookup {row}")
        } else {
            let feature = self.columns().partition_point(|&first| first <= column) - 1;
            format!("gradient: feature {:?}: sample {row}", self.features()[feature].name)
        };
        Fault::new(place, format!("{value} in the gradient")).allowed("finite numbers")
    }
}
