//! Reads tables of measured matrix multiplications: CSV with a header.
//!
//! ```csv
//! # cuBLASLt on an A100, and where that was published
//! batch,m,n,k,width,time
//! 1,1024,1024,1024,2,17.99 us
//! ```
//!
//! Columns in any order; `batch` may be missing and is 1; `width` is bytes an element; `time` has
//! its unit in the cell. Lines that start with `#` and empty lines are skipped. `armillary platform
//! import-gemm` makes such files.

use graph::{Gemm, Problem};
use std::collections::BTreeMap;
use units::Span;

const COLUMNS: [&str; 6] = ["batch", "m", "n", "k", "width", "time"];
const HEADER: &str = "batch,m,n,k,width,time; batch may be missing";

/// Fault in a line: the message and the allowed values.
type Fault = (String, String);

/// The shapes and times of the table, in file order.
///
/// # Errors
/// Every fault, with its line.
pub(super) fn read(path: &str, text: &str) -> Result<Vec<(Gemm, Span)>, Vec<Problem>> {
    let lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .zip(1..)
        .map(|(line, number)| (line.trim(), number));
    let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let at = |number: usize, (message, help): Fault| {
        Problem::new(path, format!("line {number}"), message).help(help)
    };
    let Some((header, first)) = lines.next() else {
        return Err(vec![
            Problem::new(path, "", "the table is empty")
                .help(format!("a header {HEADER}, and one line for each shape")),
        ]);
    };
    let columns = columns(header).map_err(|fault| vec![at(first, fault)])?;
    let mut problems = Vec::new();
    let mut seen: BTreeMap<[u32; 5], usize> = BTreeMap::new();
    let mut shapes = Vec::new();
    for (line, number) in lines {
        let found = row(line, &columns).and_then(|row| once(row, number, &mut seen));
        match found {
            Ok(row) => shapes.push(row),
            Err(fault) => problems.push(at(number, fault)),
        }
    }
    if shapes.is_empty() && problems.is_empty() {
        problems.push(
            Problem::new(path, "", "the table has a header but no shapes")
                .help("one line for each shape"),
        );
    }
    if problems.is_empty() { Ok(shapes) } else { Err(problems) }
}

/// The place of each column in a line.
fn columns(header: &str) -> Result<Vec<(usize, &'static str)>, Fault> {
    let mut found = Vec::new();
    for (i, name) in header.split(',').map(str::trim).enumerate() {
        let known = COLUMNS.into_iter().find(|c| *c == name);
        let known =
            known.ok_or_else(|| (format!("unknown column \"{name}\""), HEADER.to_string()))?;
        if found.iter().any(|&(_, other)| other == known) {
            return Err((format!("the column \"{name}\" appears twice"), HEADER.into()));
        }
        found.push((i, known));
    }
    match COLUMNS[1..].iter().find(|c| !found.iter().any(|(_, name)| name == *c)) {
        Some(missing) => Err((format!("the column \"{missing}\" is missing"), HEADER.into())),
        None => Ok(found),
    }
}

fn row(line: &str, columns: &[(usize, &'static str)]) -> Result<(Gemm, Span), Fault> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != columns.len() {
        let message = format!("{} cells under {} columns", cells.len(), columns.len());
        return Err((message, "one cell for each column, separated by commas".into()));
    }
    let cell = |name: &str| columns.iter().find(|c| c.1 == name).map(|c| cells[c.0]);
    let whole = |name: &str, most: u32| match cell(name).unwrap_or("1").parse::<u32>() {
        Ok(value) if (1..=most).contains(&value) => Ok(value),
        _ => Err((
            format!("invalid {name}: \"{}\"", cell(name).unwrap_or("")),
            format!("a whole number from 1 to {most}"),
        )),
    };
    let (batch, m) = (whole("batch", u32::MAX)?, whole("m", u32::MAX)?);
    let (n, k) = (whole("n", u32::MAX)?, whole("k", u32::MAX)?);
    let width = u8::try_from(whole("width", 255)?).unwrap_or(u8::MAX);
    let time: Span = cell("time")
        .unwrap_or("")
        .parse()
        .map_err(|e: units::QuantityError| (e.message(), e.allowed.into()))?;
    if time == Span::ZERO {
        return Err(("the time is zero".into(), "a time above zero, such as \"18 us\"".into()));
    }
    Ok((Gemm { batch, m, n, k, width }, time))
}

/// Refuses a shape that an earlier line has.
fn once(
    row: (Gemm, Span),
    number: usize,
    seen: &mut BTreeMap<[u32; 5], usize>,
) -> Result<(Gemm, Span), Fault> {
    let Gemm { batch, m, n, k, width } = row.0;
    match seen.insert([batch, m, n, k, width.into()], number) {
        Some(earlier) => Err((
            format!(
                "the shape batch {batch}, m {m}, n {n}, k {k}, width {width} is already in line {earlier}"
            ),
            "each shape once, for example with its median time".into(),
        )),
        None => Ok(row),
    }
}
