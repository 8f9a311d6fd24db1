//! `_core.cones`: the solver of convex programs, whose rows lie in cones.

use clarabel::algebra::CscMatrix;
use clarabel::solver::SupportedConeT::{NonnegativeConeT, SecondOrderConeT, ZeroConeT};
use clarabel::solver::{DefaultSettings, DefaultSolution, DefaultSolver, IPSolver, SupportedConeT};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

/// Gaps and residuals at which a solution is good enough.
const TOLERANCE: f64 = 1e-11;
const ITERATIONS: u32 = 200;

/// Row, column and value.
type Entry = (usize, usize, f64);
/// Rows that are 0, rows that are at least 0, and triples of rows of a second-order cone.
type Counts = (usize, usize, usize);
/// Status, variables and multipliers of the rows.
type Solved = (String, Vec<f64>, Vec<f64>);

/// Minimises `objective . x`, where the rows of `right - matrix x` lie in their cones.
#[pyfunction]
pub fn cones(
    py: Python<'_>,
    objective: Vec<f64>,
    matrix: Vec<Entry>,
    right: Vec<f64>,
    rows: Counts,
) -> PyResult<Solved> {
    let (height, width) = (right.len(), objective.len());
    if matrix.iter().any(|&(row, column, _)| row >= height || column >= width) {
        return Err(PyIndexError::new_err("an entry outside of the matrix"));
    }
    let solved = py.detach(|| solve(&objective, &matrix, &right, rows));
    let found = solved.map_err(PyValueError::new_err)?;
    Ok((format!("{:?}", found.status), found.x, found.z))
}

fn solve(
    objective: &[f64],
    matrix: &[Entry],
    right: &[f64],
    rows: Counts,
) -> Result<DefaultSolution<f64>, String> {
    let width = objective.len();
    let settings = DefaultSettings {
        verbose: false,
        max_iter: ITERATIONS,
        tol_gap_abs: TOLERANCE,
        tol_gap_rel: TOLERANCE,
        tol_feas: TOLERANCE,
        ..DefaultSettings::default()
    };
    let (linear, matrix) = (CscMatrix::zeros((width, width)), sparse(matrix, right.len(), width));
    let made = DefaultSolver::new(&linear, objective, &matrix, right, &kinds(rows), settings);
    let mut solver = made.map_err(|error| error.to_string())?;
    solver.solve();
    Ok(solver.solution)
}

fn sparse(entries: &[Entry], height: usize, width: usize) -> CscMatrix<f64> {
    let rows = entries.iter().map(|&(row, _, _)| row).collect();
    let columns = entries.iter().map(|&(_, column, _)| column).collect();
    let values = entries.iter().map(|&(_, _, value)| value).collect();
    CscMatrix::new_from_triplets(height, width, rows, columns, values)
}

fn kinds((zero, nonnegative, triples): Counts) -> Vec<SupportedConeT<f64>> {
    let linear = [(zero, ZeroConeT(zero)), (nonnegative, NonnegativeConeT(nonnegative))];
    let used = linear.into_iter().filter(|&(count, _)| count > 0).map(|(_, cone)| cone);
    used.chain((0..triples).map(|_| SecondOrderConeT(3))).collect()
}
