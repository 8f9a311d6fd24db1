//! `topology`: blocks in notation, a generator with its parameters, or a file with a graph.

use super::generated::Generated;
use declared::findings::{At, Findings};
use declared::{Absent, Key, Setting, Shown};
use std::sync::LazyLock;
use topology::{NOTATION, Topology};

/// Most NPUs of a platform: what ranks cost in memory stays below a few gigabytes.
pub(super) const MOST_NPUS: u32 = 1 << 24;

/// The key that names a file with a graph. `graph_file.rs` puts the graph in its place.
pub(super) const FILE: Key = Key::plain(
    "file",
    || "path".to_string(),
    Absent::Text("none"),
    "A file with a `graph`, as `armillary platform import` writes it, seen from the platform's \
     file; alone, without a generator.",
);

/// The keys of a mapping.
static KEYS: LazyLock<Vec<Key>> =
    LazyLock::new(|| std::iter::once(FILE).chain(Generated::keys().iter().copied()).collect());

/// `topology`.
#[derive(Clone)]
pub(super) enum Shape {
    /// Blocks in notation.
    Stack(Topology),
    /// A generator with its parameters.
    Generated(Generated),
}

impl Setting for Shape {
    fn keys() -> &'static [Key] {
        &KEYS
    }

    fn kind() -> String {
        "notation or mapping".into()
    }

    fn example() -> String {
        NOTATION.into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Shape> {
        if at.is_map() {
            Generated::read(at, findings).map(Shape::Generated)
        } else {
            notation(at, findings).map(Shape::Stack)
        }
    }

    fn show(&self) -> Option<Shown> {
        match self {
            Shape::Stack(topology) => Some(Shown::of(topology)),
            Shape::Generated(generated) => generated.show(),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Shape::Stack(topology) => topology.to_string().into(),
            Shape::Generated(generated) => generated.json(),
        }
    }
}

fn notation(at: &At<'_>, findings: &mut Findings) -> Option<Topology> {
    let text = findings.text(at)?;
    match text.parse::<Topology>() {
        Ok(shape) if shape.npus() > MOST_NPUS => {
            let message = format!("\"{text}\" has {} NPUs", shape.npus());
            findings.refuse(at, message, "at most 16,777,216 NPUs");
            None
        }
        Ok(shape) if shape.dims.len() <= 32 => Some(shape),
        Ok(shape) => {
            let message = format!("\"{text}\" has {} dimensions", shape.dims.len());
            findings.refuse(at, message, "1 to 32 dimensions");
            None
        }
        Err(error) => {
            // A fault that concerns the whole value shows it already.
            let all = format!("\"{}\"", text.trim());
            let value =
                if error.message.contains(&all) { String::new() } else { format!("{all}: ") };
            let message = format!("{value}{} at character {}", error.message, error.column);
            findings.refuse(at, message, NOTATION);
            None
        }
    }
}
