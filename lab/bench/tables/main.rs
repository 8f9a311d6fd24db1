//! The tables of `lab/results/`: `cargo bench -p benches --bench tables -- [--quick] [SECTION]
//! [CASE]`.
//!
//! Sections: all-reduce, million, gpt, chains, transfers, packets, fabrics, flits, reading; `CASE` keeps the rows whose name
//! contains it. Times are CPU seconds or milliseconds of this process, the least of up to seven
//! runs (`benches::clock`). `--quick` runs small cases once, to see that everything still runs.
//! Markdown on stdout.

mod all_reduce;
mod chains;
mod fabrics;
mod flits;
mod gpt;
mod million;
mod packets;
mod reading;
mod transfers;

use benches::clock::Effort;
use std::io;

/// Arguments of the command line.
struct Arguments {
    quick: bool,
    words: Vec<String>,
}

impl Arguments {
    fn effort(&self) -> Effort {
        if self.quick { Effort::QUICK } else { Effort::FULL }
    }

    /// Whether a row of this name is wanted.
    fn row(&self, name: &str) -> bool {
        self.words.get(1).is_none_or(|word| name.contains(word.as_str()))
    }
}

type Section = (&'static str, fn(&Arguments) -> io::Result<()>);

const SECTIONS: [Section; 9] = [
    ("all-reduce", all_reduce::table),
    ("million", million::table),
    ("gpt", gpt::table),
    ("chains", chains::table),
    ("transfers", transfers::table),
    ("packets", packets::table),
    ("fabrics", fabrics::table),
    ("flits", flits::table),
    ("reading", reading::table),
];

fn main() -> io::Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if let [child, rest @ ..] = &words[..]
        && child == CHILD
    {
        return in_child(rest);
    }
    let quick = words.iter().any(|word| word == "--quick");
    // Cargo adds --bench.
    words.retain(|word| !word.starts_with("--"));
    let arguments = Arguments { quick, words };
    for (name, table) in SECTIONS {
        if arguments.words.first().is_none_or(|word| word == name) {
            table(&arguments)?;
        }
    }
    Ok(())
}

const CHILD: &str = "--in-a-process-of-its-own";

/// Measurements of memory need a process of their own.
fn in_child(words: &[String]) -> io::Result<()> {
    match words {
        [section, rest @ ..] if section == "million" => million::child(rest),
        [section, rest @ ..] if section == "fabrics" => fabrics::child(rest),
        [section, rest @ ..] if section == "packets" => packets::child(rest),
        [section, rest @ ..] if section == "reading" => reading::child(rest),
        _ => Err(io::Error::other("no such measurement")),
    }
}

/// Runs `words` as [`in_child`] and gives what it printed.
fn child(words: &[&str]) -> io::Result<Vec<String>> {
    let output =
        std::process::Command::new(std::env::current_exe()?).arg(CHILD).args(words).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_string).collect())
}

/// Prints a heading and the head of a table.
fn head(title: &str, columns: &[&str]) {
    println!("\n### {title}\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

/// Prints a row.
fn cells<S: AsRef<str>>(cells: &[S]) {
    println!("| {} |", cells.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" | "));
}

/// Milliseconds of seconds, with three digits.
fn ms(seconds: f64) -> String {
    digits(seconds * 1e3)
}

/// Three digits that say something.
fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}
