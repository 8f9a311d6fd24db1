//! Lines of random recipes, compared with a plain reader of fields.

use super::{parse, pieces};
use crate::{Category, Columns, Dense, Field, Kind, Missing, Numbers, Recipe};
use proptest::prelude::*;

/// Criteo's columns, fewer of them.
fn criteo(rows: &[i64]) -> Recipe {
    let dense = |name: &str| Dense::new(name, Numbers::Whole, 0.0).clip(-1.0, 1e9).log(3.0);
    let category =
        |rows: &i64| Category { rows: Some(*rows), ..Category::new("c", Kind::Hexadecimal) };
    let mut fields = vec![Field::Label, Field::Dense(0), Field::Dense(1)];
    fields.extend((0..rows.len()).map(Field::Category));
    Recipe {
        separator: b'\t',
        fields,
        dense: vec![dense("one"), dense("two")],
        categories: rows.iter().map(category).collect(),
    }
}

fn plainly(text: &str, rows: &[i64]) -> Columns<i64> {
    let mut made = Columns::default();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    for line in &lines {
        made.labels.push(line[0].parse().expect("a label"));
        for field in &line[1..3] {
            let count: i64 = if field.is_empty() { 0 } else { field.parse().expect("a count") };
            made.dense.push(((count.max(-1) + 3) as f64).ln() as f32);
        }
    }
    for (at, rows) in rows.iter().enumerate() {
        for line in &lines {
            let value = i64::from_str_radix(line[3 + at], 16).unwrap_or(0);
            made.indices.push(value % rows);
        }
    }
    made
}

fn line() -> impl Strategy<Value = String> {
    let count = "(|-?[0-9]{1,9})";
    (0..2, count, count, "[0-9a-fA-F]{0,8}", "[0-9a-f]{8}")
        .prop_map(|(label, one, two, a, b)| format!("{label}\t{one}\t{two}\t{a}\t{b}"))
}

proptest! {
    #[test]
    fn lines_are_read_as_a_plain_reader_does(
        lines in prop::collection::vec(line(), 0..30),
        ended in any::<bool>(),
        count in 1_usize..6,
        rows in (1_i64..100, 1_i64..1 << 33),
    ) {
        let mut text = lines.join("\n");
        if ended && !text.is_empty() {
            text.push('\n');
        }
        let rows = [rows.0, rows.1];
        let recipe = criteo(&rows);
        let whole: Columns<i64> = parse(text.as_bytes(), &recipe).expect("sound lines");
        prop_assert_eq!(&whole, &plainly(&text, &rows));
        let cut = pieces(text.as_bytes(), count);
        prop_assert!(cut.len() <= count);
        prop_assert_eq!(cut.concat(), text.as_bytes());
        let found: Vec<Columns<i64>> =
            cut.iter().map(|piece| parse(piece, &recipe).expect("sound lines")).collect();
        let labels: Vec<u8> = found.iter().flat_map(|each| each.labels.clone()).collect();
        prop_assert_eq!(labels, whole.labels);
    }

    /// Whatever the bytes: columns of all lines, or faults of lines that exist.
    #[test]
    fn any_bytes_are_read_or_refused(
        text in prop::collection::vec(
            prop_oneof![4 => Just(b'\t'), 2 => Just(b'\n'), 6 => b'0'..=b'9', 1 => any::<u8>()],
            0..200,
        ),
    ) {
        let lines = text.split(|byte| *byte == b'\n').count();
        match parse::<i32>(&text, &criteo(&[3, 5])) {
            Ok(found) => prop_assert_eq!(found.indices.len(), 2 * found.len()),
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                prop_assert!(faults.iter().all(|fault| fault.line < lines));
            }
        }
    }

    /// Windows ends lines with CRLF, and so do CSV files by RFC 4180.
    #[test]
    fn lines_may_end_with_crlf(
        lines in prop::collection::vec((line(), any::<bool>()), 1..30),
        ended in any::<bool>(),
        rows in (1_i64..100, 1_i64..1 << 33),
    ) {
        let (mut plain, mut mixed) = (String::new(), String::new());
        for (line, returns) in &lines {
            plain += &format!("{line}\n");
            mixed += &format!("{line}{}", if *returns { "\r\n" } else { "\n" });
        }
        if !ended {
            mixed.pop();
        }
        let recipe = criteo(&[rows.0, rows.1]);
        let read = |text: &str| parse::<i64>(text.as_bytes(), &recipe).expect("sound lines");
        prop_assert_eq!(read(&mixed), read(&plain));
    }
}

#[test]
fn a_category_may_have_several_values() {
    let tags = Category {
        between: Some(b','),
        missing: Missing::Skip,
        rows: Some(10),
        ..Category::new("tags", Kind::Whole)
    };
    let city = Category { rows: Some(7), ..Category::new("city", Kind::Text) };
    let recipe = Recipe {
        separator: b'|',
        fields: vec![Field::Category(0), Field::Skip, Field::Label, Field::Category(1)],
        dense: vec![],
        categories: vec![tags, city],
    };
    let found: Columns<i32> = parse(b"12,-3|x|1|Bonn\n||0|\n4||1|Bonn", &recipe).expect("sound");
    assert_eq!(found.labels, [1, 0, 1]);
    assert_eq!(found.lengths, [2, 0, 1, 1, 1, 1]);
    assert_eq!(found.indices[..3], [2, 7, 4]);
    assert_eq!(found.indices[3], found.indices[5]);
    assert!(found.indices[3..].iter().all(|row| (0..7).contains(row)));
}

fn text(kind: Kind) -> Recipe {
    Recipe {
        separator: b',',
        fields: vec![Field::Label, Field::Category(0), Field::Category(1)],
        dense: vec![],
        categories: vec![Category::new("a", kind), Category::new("b", kind)],
    }
}

#[test]
fn a_return_before_the_end_of_a_line_is_no_part_of_the_last_value() {
    let read = |text_: &[u8]| parse::<i64>(text_, &text(Kind::Text)).expect("sound lines");
    assert_eq!(read(b"1,x,\r\n0,y,x\r\n"), read(b"1,x,\n0,y,x\n"));
}

#[test]
fn other_returns_and_quotes_are_refused() {
    let returns = ": has a carriage return within the line";
    let quoted =
        |column: &str, value: &str| format!("{column}: '{value}' is in quotes, which are not read");
    for (line, said) in [
        ("1,x\ry,z\n", returns.into()),
        ("1,x,z\r\r\n", returns.into()),
        ("1,x,\ry\r\n", returns.into()),
        ("1,x,y\r0,x,y\r", returns.into()),
        ("1,x,\"y\"\r\n", quoted("b", "\"y\"")),
        ("1,\"x\",y\n", quoted("a", "\"x\"")),
        ("\"1\",x,y\n", quoted("label", "\"1\"")),
        ("1,\"\",y\n", quoted("a", "\"\"")),
        ("1,\"x,z\",y\n", ": has 4 fields".into()),
        ("1,\"x\nz\",y\n", ": has 2 fields".into()),
    ] {
        let faults = parse::<i64>(line.as_bytes(), &text(Kind::Text)).expect_err("a fault");
        assert_eq!(format!("{}: {}", faults[0].column, faults[0].message), said, "{line:?}");
    }
}

#[test]
fn verbatim_text_may_have_quotes_and_returns() {
    let found: Columns<i64> =
        parse(b"1,\"x\",y\r\n0,x,y\n", &text(Kind::Verbatim)).expect("sound lines");
    let [a, b] = [&found.indices[..2], &found.indices[2..]];
    assert!(a[0] != a[1] && b[0] != b[1]);
}

#[test]
fn dense_values_are_clipped_then_logarithms_then_normalized() {
    let column = Dense::new("x", Numbers::Decimal, 2.0).clip(0.0, 100.0).log(1.0);
    let recipe = Recipe {
        separator: b'\t',
        fields: vec![Field::Label, Field::Dense(0)],
        dense: vec![column.normalize(0.5, 2.0)],
        categories: vec![],
    };
    let found: Columns<i32> = parse(b"1\t1e3\n0\t-7.5\n0\t\n", &recipe).expect("sound");
    let of = |x: f64| (((x + 1.0).ln() - 0.5) / 2.0) as f32;
    assert_eq!(found.dense, [of(100.0), of(0.0), of(2.0)]);
}

#[test]
fn faults_name_line_column_and_value() {
    let recipe = criteo(&[3, 5]);
    let text = b"1\t\t\t\t\n2\t1\t1.5\txyz\t\n0\t1\n0\t\t\t\t123456789";
    let faults = parse::<i32>(text, &recipe).expect_err("faults");
    let said: Vec<String> =
        faults.iter().map(|f| format!("{}: {}: {}", f.line, f.column, f.message)).collect();
    assert_eq!(
        said,
        [
            "1: label: '2' is not a label",
            "1: two: '1.5' is not a count",
            "1: c: 'xyz' is not a category",
            "2: : has 2 fields",
            "3: c: '123456789' is not a category",
        ]
    );
}

#[test]
fn a_logarithm_without_a_result_is_a_fault() {
    let recipe = Recipe {
        separator: b'\t',
        fields: vec![Field::Label, Field::Dense(0)],
        dense: vec![Dense::new("x", Numbers::Whole, 0.0).log(1.0)],
        categories: vec![],
    };
    let faults = parse::<i32>(b"1\t-1\n", &recipe).expect_err("a fault");
    assert_eq!(faults[0].message, "'-1' has no finite result");
}

/// Threads share the work only where the text is cut.
#[test]
fn pieces_are_of_about_the_same_size() {
    let text = "1\t2\t3\ta\tb\n".repeat(40);
    let lengths: Vec<usize> = pieces(text.as_bytes(), 4).iter().map(|piece| piece.len()).collect();
    assert_eq!(lengths, [100; 4]);
    assert_eq!(pieces(&text.as_bytes()[..20], 4).len(), 2, "a line is in one piece");
}
