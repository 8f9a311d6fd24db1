//! The equations against arrays stepped cycle by cycle, SCALE-Sim's own output, and traffic summed
//! fold by fold.

use super::*;
use declared::Words;
use proptest::prelude::*;
use units::{Flops, Ratio};

fn array(rows: u32, columns: u32, dataflow: Dataflow) -> Systolic {
    let rest = Roofline::ideal(Flops(1_000_000_000_000), Bandwidth(1_000_000_000));
    let clock = Frequency(1_000_000_000);
    Systolic { rows, columns, dataflow, clock, sram: Sram::default(), memory: None, rest }
}

fn gemm(m: u32, n: u32, k: u32) -> Gemm {
    Gemm { batch: 1, m, n, k, width: 2 }
}

/// A matrix of small numbers, so that a wrong product shows.
fn matrix(rows: usize, columns: usize, seed: i64) -> Vec<Vec<i64>> {
    let cell = |r: usize, c: usize| (7 * r as i64 + 3 * c as i64 + seed) % 11 - 5;
    (0..rows).map(|r| (0..columns).map(|c| cell(r, c)).collect()).collect()
}

fn product(a: &[Vec<i64>], b: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let dot = |row: &[i64], c: usize| row.iter().zip(b).map(|(x, b)| x * b[c]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|c| dot(row, c)).collect()).collect()
}

/// Value that enters lane `lane` at `cycle` when lanes are skewed by one cycle each.
fn skewed(lanes: impl Fn(usize, usize) -> i64, lane: usize, cycle: u64, length: usize) -> i64 {
    match usize::try_from(cycle).ok().and_then(|c| c.checked_sub(lane)) {
        Some(t) if t < length => lanes(lane, t),
        _ => 0,
    }
}

/// Output stationary: a (r x t) enters from the left, b (t x c) from the top, sums leave downwards.
/// The product and the cycles.
fn step_output_stationary(a: &[Vec<i64>], b: &[Vec<i64>]) -> (Vec<Vec<i64>>, u64) {
    let (rows, columns, time) = (a.len(), b[0].len(), b.len());
    let mut sums = vec![vec![0; columns]; rows];
    let (mut right, mut down) = (vec![vec![0; columns]; rows], vec![vec![0; columns]; rows]);
    let mut cycle = 0;
    let expected = product(a, b);
    while sums != expected || cycle < (rows + columns + time - 2) as u64 {
        for r in (0..rows).rev() {
            for c in (0..columns).rev() {
                right[r][c] =
                    if c > 0 { right[r][c - 1] } else { skewed(|r, t| a[r][t], r, cycle, time) };
                down[r][c] =
                    if r > 0 { down[r - 1][c] } else { skewed(|c, t| b[t][c], c, cycle, time) };
                sums[r][c] += right[r][c] * down[r][c];
            }
        }
        cycle += 1;
        assert!(cycle < 1000, "the array never gives the product");
    }
    // One row leaves at the bottom a cycle.
    let mut out = Vec::new();
    while let Some(row) = sums.pop() {
        out.insert(0, row);
        cycle += 1;
    }
    (out, cycle)
}

/// Weight stationary: weights w (r x c) are shifted in from the top, x (t x r) enters from the
/// left, sums leave at the bottom.
fn step_weight_stationary(x: &[Vec<i64>], w: &[Vec<i64>]) -> (Vec<Vec<i64>>, u64) {
    let (time, rows, columns) = (x.len(), w.len(), w[0].len());
    let mut cells = vec![vec![0; columns]; rows];
    let mut cycle = 0;
    for row in w.iter().rev() {
        cells.rotate_right(1);
        cells[0] = row.clone();
        cycle += 1;
    }
    let (mut right, mut sums) = (vec![vec![0; columns]; rows], vec![vec![0; columns]; rows]);
    let mut out = vec![vec![0; columns]; time];
    let mut left = time * columns;
    let mut streamed = 0;
    while left > 0 {
        for r in (0..rows).rev() {
            for c in (0..columns).rev() {
                right[r][c] =
                    if c > 0 { right[r][c - 1] } else { skewed(|r, t| x[t][r], r, streamed, time) };
                sums[r][c] = cells[r][c] * right[r][c] + if r > 0 { sums[r - 1][c] } else { 0 };
            }
        }
        for c in 0..columns {
            // The sum of x[t] reaches the bottom of column c after t + rows - 1 + c cycles.
            if let Some(t) = (streamed as usize).checked_sub(rows - 1 + c).filter(|&t| t < time) {
                out[t][c] = sums[rows - 1][c];
                left -= 1;
            }
        }
        streamed += 1;
    }
    (out, cycle + streamed)
}

#[test]
fn a_fold_takes_the_cycles_of_an_array_stepped_cell_by_cell() {
    for (rows, columns, time) in
        [(1, 1, 1), (2, 3, 4), (4, 4, 4), (3, 5, 1), (5, 2, 9), (8, 8, 20), (1, 6, 7)]
    {
        let (r, c, t) = (rows as u32, columns as u32, time as u32);
        let (a, b) = (matrix(rows, time, 1), matrix(time, columns, 2));
        let (out, cycles) = step_output_stationary(&a, &b);
        assert_eq!(out, product(&a, &b));
        assert_eq!(
            array(r, c, Dataflow::OutputStationary).cycles(&gemm(r, c, t)).total(),
            cycles,
            "{r} {c} {t}"
        );
        let (x, w) = (matrix(time, rows, 3), matrix(rows, columns, 4));
        let (out, cycles) = step_weight_stationary(&x, &w);
        assert_eq!(out, product(&x, &w));
        assert_eq!(
            array(r, c, Dataflow::WeightStationary).cycles(&gemm(t, c, r)).total(),
            cycles,
            "{r} {c} {t}"
        );
        // Inputs that stay: the same array computes the transposed product.
        assert_eq!(
            array(r, c, Dataflow::InputStationary).cycles(&gemm(c, t, r)).total(),
            cycles,
            "{r} {c} {t}"
        );
    }
}

/// By hand from the ISPASS 2020 equations, a 4 x 8 array: 2*4 + 8 + T - 2 = 14 + T a fold.
#[test]
fn folds_are_those_of_the_equations() {
    let cases = [
        // ceil(10/4) * ceil(20/8) = 9 folds of 14 + 30
        (Dataflow::OutputStationary, 9, 9 * 44),
        // ceil(30/4) * ceil(20/8) = 24 folds of 14 + 10
        (Dataflow::WeightStationary, 24, 24 * 24),
        // ceil(30/4) * ceil(10/8) = 16 folds of 14 + 20
        (Dataflow::InputStationary, 16, 16 * 34),
    ];
    for (dataflow, folds, compute) in cases {
        let cycles = array(4, 8, dataflow).cycles(&gemm(10, 20, 30));
        assert_eq!(cycles, Cycles { folds, compute, stall: 0 }, "{dataflow:?}");
        let batched = Gemm { batch: 3, ..gemm(10, 20, 30) };
        assert_eq!(array(4, 8, dataflow).cycles(&batched).compute, 3 * compute);
    }
    let utilisation = array(4, 8, Dataflow::OutputStationary).utilisation(&gemm(4, 8, 1_000));
    assert!((utilisation - 1000.0 / 1014.0).abs() < 1e-12, "{utilisation}");
}

/// SCALE-Sim's output for a 128 x 128 weight-stationary array; it counts from cycle 0, so its
/// totals are one less.
#[test]
fn scale_sim_counts_the_same_cycles() {
    let text = include_str!("../../../../tests/golden/gemm/tpu_v6e.csv");
    let array = array(128, 128, Dataflow::WeightStationary);
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 120);
    for row in rows {
        let [m, n, k] = [row[0], row[1], row[2]].map(|v| v.parse().unwrap());
        assert_eq!(
            array.cycles(&gemm(m, n, k)).total() - 1,
            row[4].parse::<u64>().unwrap(),
            "{row:?}"
        );
    }
}

/// One fold, nothing to overlap: 4 x 30 inputs and 30 x 8 weights are loaded, 4 x 8 results stored,
/// at 1 byte a cycle.
#[test]
fn a_single_fold_waits_for_all_it_moves() {
    let mut array = array(4, 8, Dataflow::OutputStationary);
    array.memory = Some(Bandwidth(1_000_000_000));
    let cycles = array.cycles(&gemm(4, 8, 30));
    assert_eq!(cycles, Cycles { folds: 1, compute: 44, stall: 2 * (4 * 30 + 30 * 8 + 4 * 8) });
    array.rest.efficiency.memory[Kernel::Gemm as usize] = Ratio(500_000);
    assert_eq!(array.cycles(&gemm(4, 8, 30)).stall, 4 * (4 * 30 + 30 * 8 + 4 * 8));
    let work = Work {
        operations: 0,
        bytes: Bytes(0),
        kernel: Kernel::Gemm,
        rows: 0,
        gemm: Some(gemm(4, 8, 30)),
    };
    assert_eq!(array.span(&work), Span::from_ns(44 + 4 * 392));
    let rest =
        Work { operations: 5_000, bytes: Bytes(1), kernel: Kernel::Other, rows: 0, gemm: None };
    assert_eq!(array.span(&rest), Span::from_ns(5));
}

/// Every fold on its own: cycles as [`Systolic::cycles`] must give, and the elements moved.
fn fold_by_fold(array: &Systolic, gemm: &Gemm) -> (u128, u128) {
    let folds = Folds::new(array, gemm);
    let traffic = Traffic { folds, sram: array.halves(gemm.width), dataflow: array.dataflow };
    let mut order = vec![[0, 0]];
    while let Some(next) = folds.next(order[order.len() - 1]) {
        assert_eq!(folds.previous(next), order.last().copied());
        order.push(next);
    }
    assert_eq!(order.len() as u128, folds.count());
    let moved = |elements| array.memory_cycles(elements, gemm.width);
    let mut total = moved(traffic.load(order[0])) + moved(traffic.store(order[order.len() - 1]));
    for (i, _) in order.iter().enumerate() {
        let next = order.get(i + 1).map_or(0, |&at| traffic.load(at));
        let stored = i.checked_sub(1).map_or(0, |i| traffic.store(order[i]));
        total += moved(next + stored).max(u128::from(folds.cycles));
    }
    (total, order.iter().map(|&at| traffic.load(at) + traffic.store(at)).sum())
}

fn dataflows() -> impl Strategy<Value = Dataflow> {
    prop::sample::select(Dataflow::WORDS.iter().map(|w| w.1).collect::<Vec<_>>())
}

fn buffer() -> impl Strategy<Value = Option<Bytes>> {
    prop::option::of((0u64..20_000).prop_map(Bytes))
}

proptest! {
    #[test]
    fn representative_folds_stand_for_all(
        dataflow in dataflows(), m in 1u32..90, n in 1u32..90, k in 1u32..90, rows in 1u32..9, columns in 1u32..9,
        sram in [buffer(), buffer(), buffer()], bandwidth in 1u64..10_000_000_000,
    ) {
        let [ifmap, filter, ofmap] = sram;
        let sram = Sram { ifmap, filter, ofmap };
        let array = Systolic { sram, memory: Some(Bandwidth(bandwidth)), ..array(rows, columns, dataflow) };
        let (total, moved) = fold_by_fold(&array, &gemm(m, n, k));
        prop_assert_eq!(u128::from(array.cycles(&gemm(m, n, k)).total()), total);
        // Each operand at least once; and exactly once where everything fits.
        let once = u128::from(m * k + k * n + m * n);
        prop_assert!(moved >= once);
        let roomy = Systolic { sram: Sram::default(), ..array };
        prop_assert_eq!(fold_by_fold(&roomy, &gemm(m, n, k)).1, once);
        // Less memory traffic never takes longer, nor does more bandwidth.
        prop_assert!(roomy.cycles(&gemm(m, n, k)).total() <= array.cycles(&gemm(m, n, k)).total());
        let faster = Systolic { memory: Some(Bandwidth(2 * bandwidth)), ..array };
        prop_assert!(faster.cycles(&gemm(m, n, k)).stall <= array.cycles(&gemm(m, n, k)).stall);
    }

    #[test]
    fn no_shape_is_too_large(m: u32, n: u32, k: u32, batch: u32, width: u8, rows: u32, columns: u32, dataflow in dataflows()) {
        let array = Systolic { memory: Some(Bandwidth(1)), clock: Frequency(u64::MAX), ..array(rows, columns, dataflow) };
        let _ = array.cycles(&Gemm { batch, m, n, k, width }).total();
    }
}
