//! Tables: what they say at, between and beyond their shapes, how far that is from measurements,
//! and broken files.

use super::*;
use proptest::prelude::*;
use units::{Bandwidth, Flops};

fn square(size: u32) -> Gemm {
    Gemm { batch: 1, m: size, n: size, k: size, width: 2 }
}

fn table(shapes: &[(Gemm, Span)]) -> Table {
    Table::of("t.csv", shapes.iter().copied())
}

const TWO: &str =
    "# a comment\n\nm,n,k,width,time\n1024,1024,1024,2,18 us\n2048,2048,2048,2,77 us\n";

#[test]
fn measured_shapes_take_what_was_measured() {
    let table = Table::read("t.csv", TWO).unwrap();
    for (size, us) in [(1024, 18), (2048, 77)] {
        let expected = Estimate { time: Span(us * 1_000_000), validity: Validity::Covered };
        assert_eq!(table.estimate(&square(size)), Some(expected));
    }
    assert_eq!(table.estimate(&Gemm { width: 1, ..square(1024) }), None);
    assert_eq!(table.widths().collect::<Vec<_>>(), [(2, 2)]);
}

/// Computed by hand: L = max(18, 77 * (1448/2048)^3) = 27.215, U = min(18 * (1448/1024)^3, 77) =
/// 50.897; their geometric mean is 37.217.
#[test]
fn between_shapes_the_middle_of_the_bounds_counts() {
    let between = Table::read("t.csv", TWO).unwrap().estimate(&square(1448)).unwrap();
    assert_eq!(between.validity, Validity::Covered);
    assert_eq!(between.time.0 / 1_000, 37_217, "{between:?}");
    let far = table(&[(square(1024), Span(18_000_000)), (square(16384), Span(300_000_000))]);
    assert_eq!(far.estimate(&square(4096)).unwrap().validity, Validity::Sparse);
}

#[test]
fn beyond_the_table_the_efficiency_stays() {
    let table = Table::read("t.csv", TWO).unwrap();
    let beyond = |gemm: &Gemm| table.estimate(gemm).unwrap();
    assert_eq!(
        beyond(&square(4096)),
        Estimate { time: Span(8 * 77_000_000), validity: Validity::Outside }
    );
    let batched = Gemm { batch: 5, ..square(2048) };
    assert_eq!(
        beyond(&batched),
        Estimate { time: Span(5 * 77_000_000), validity: Validity::Outside }
    );
    // Below: between all of 18 us and an eighth of it.
    let below = beyond(&square(512));
    assert_eq!((below.time.0, below.validity), (6_363_962, Validity::Outside));
    let rest = Roofline::ideal(Flops(1_000_000_000_000_000), Bandwidth(1_000_000_000));
    let measured = Measured { table, rest };
    let work = |gemm: Gemm| Work::of(&graph::Op::Gemm(gemm)).unwrap();
    // 3 * 512^2 * 2 bytes at 1 GB/s: no faster than the roofline.
    assert_eq!(measured.estimate(&work(square(512))).time, Span::from_ns(3 * 512 * 512 * 2));
    assert_eq!(measured.estimate(&work(square(1024))).time, Span(18_000_000));
    let other = measured.estimate(&work(Gemm { width: 4, ..square(1024) }));
    assert_eq!(
        other,
        Estimate { time: Span::from_ns(3 * 1024 * 1024 * 4), validity: Validity::OtherWidth }
    );
}

fn shape() -> impl Strategy<Value = Gemm> {
    let side = || prop_oneof![1u32..20, 1u32..5000, any::<u32>()];
    (1u32..5, side(), side(), side(), 1u8..3).prop_map(|(batch, m, n, k, width)| Gemm {
        batch,
        m,
        n,
        k,
        width,
    })
}

proptest! {
    /// Whatever was measured, contradictions included.
    #[test]
    fn larger_is_never_faster(
        rows in prop::collection::vec((shape(), 1u64..1 << 50), 1..12), gemm in shape(), grow in [0u32..3000, 0u32..3000, 0u32..3000],
    ) {
        let table = Table::of("t.csv", rows.into_iter().map(|(gemm, ps)| (gemm, Span(ps))));
        let [m, n, k] = [gemm.m, gemm.n, gemm.k];
        let larger = Gemm {
            m: m.saturating_add(grow[0]), n: n.saturating_add(grow[1]), k: k.saturating_add(grow[2]), ..gemm
        };
        if let (Some(small), Some(large)) = (table.estimate(&gemm), table.estimate(&larger)) {
            prop_assert!(small.time <= large.time, "{small:?} {large:?}");
            prop_assert!(small.time > Span::ZERO);
        }
    }

    /// Times `c + operations / peak` meet the assumptions: a table of them says exactly what it
    /// holds, and bounds the rest.
    #[test]
    fn sound_measurements_are_repeated(shapes in prop::collection::vec([1u32..9000, 1u32..9000, 1u32..9000], 2..12), overhead in 1u64..9_000_000) {
        let truth = |gemm: &Gemm| Span(overhead + gemm.operations() as u64 / 300);
        let gemms: Vec<Gemm> = shapes.into_iter().map(|[m, n, k]| Gemm { batch: 1, m, n, k, width: 2 }).collect();
        let (asked, known) = gemms.split_first().unwrap();
        let table = Table::of("t.csv", known.iter().map(|g| (*g, truth(g))));
        for gemm in known {
            let time = table.estimate(gemm).unwrap().time;
            prop_assert!(time.0.abs_diff(truth(gemm).0) <= 1, "{time:?}");
        }
        let estimate = table.estimate(asked).unwrap();
        if estimate.validity == Validity::Covered {
            let (low, high) = (truth(asked).0.min(estimate.time.0), truth(asked).0.max(estimate.time.0));
            prop_assert!(high <= 2 * low + 2, "{estimate:?}");
        }
    }

    #[test]
    fn no_text_panics(text in "[batchmnkwidthe,0-9. us\n#-]{0,80}") {
        let _ = Table::read("t.csv", &text);
    }
}

#[test]
fn every_fault_of_a_file_is_named_with_its_line() {
    let messages = |text: &str| -> Vec<String> {
        Table::read("t.csv", text).unwrap_err().iter().map(ToString::to_string).collect()
    };
    let header = "(allowed: batch,m,n,k,width,time; batch may be missing)";
    assert_eq!(
        messages("m,n,k,time\n"),
        [format!("t.csv: line 1: the column \"width\" is missing {header}")]
    );
    assert_eq!(messages("m,n,q\n"), [format!("t.csv: line 1: unknown column \"q\" {header}")]);
    assert_eq!(
        messages("m,m\n"),
        [format!("t.csv: line 1: the column \"m\" appears twice {header}")]
    );
    assert_eq!(
        messages("# nothing\n"),
        [format!(
            "t.csv: the table is empty (allowed: a header {}, and one line for each shape)",
            &header[10..header.len() - 1]
        )]
    );
    assert_eq!(
        messages("m,n,k,width,time\n"),
        ["t.csv: the table has a header but no shapes (allowed: one line for each shape)"]
    );
    let broken = "m,n,k,width,time\n0,1,1,2,1 us\n1,1,1,2,5\n1,1,1,2\n1,2,3,2,1 us\n1,2,3,2,2 us\n1,1,1,300,1 us\n1,1,1,2,0 us\n";
    let expected = [
        "t.csv: line 2: invalid m: \"0\" (allowed: a whole number from 1 to 4294967295)",
        "t.csv: line 3: time \"5\" has no unit (allowed: a number with ps, ns, us, ms or s, such as \"1.5 us\")",
        "t.csv: line 4: 4 cells under 5 columns (allowed: one cell for each column, separated by commas)",
        "t.csv: line 6: the shape batch 1, m 1, n 2, k 3, width 2 is already in line 5 (allowed: each shape once, for example with its median time)",
        "t.csv: line 7: invalid width: \"300\" (allowed: a whole number from 1 to 255)",
        "t.csv: line 8: the time is zero (allowed: a time above zero, such as \"18 us\")",
    ];
    assert_eq!(messages(broken), expected);
}

/// Each of 120 shapes measured on a TPU v6e, 0.4 to 26 us, predicted from the other 119. Such short
/// kernels scatter: neighbours differ by 30 %.
#[test]
fn a_shape_left_out_of_a_tpu_table_is_found_again() {
    let text = include_str!("../../../../tests/golden/gemm/tpu_v6e.csv");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [m, n, k] = [cells[0], cells[1], cells[2]].map(|v| v.parse().unwrap());
        (Gemm { batch: 1, m, n, k, width: 2 }, format!("{} us", cells[3]).parse().unwrap())
    };
    let shapes: Vec<(Gemm, Span)> = text.lines().skip(1).map(row).collect();
    let mut errors: Vec<f64> = (0..shapes.len()).map(|i| left_out(&shapes, i)).collect();
    errors.sort_by(f64::total_cmp);
    let [median, nine_in_ten, worst] = [60, 108, 119].map(|i| errors[i]);
    println!("left out of 120: median {median:.3}, nine in ten {nine_in_ten:.3}, worst {worst:.3}");
    assert!(median < 0.21 && nine_in_ten < 0.48 && worst < 1.1, "{median} {nine_in_ten} {worst}");
}

/// Relative error of the time of shape `i`, predicted from the others.
fn left_out(shapes: &[(Gemm, Span)], i: usize) -> f64 {
    let others = shapes.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, row)| *row);
    let predicted = Table::of("t.csv", others).estimate(&shapes[i].0).unwrap();
    (predicted.time.as_ns() / shapes[i].1.as_ns() - 1.0).abs()
}
