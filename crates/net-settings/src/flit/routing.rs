//! `network.flit.routing`: a word, or a table in a file.

use declared::findings::{At, Findings};
use declared::{Absent, Key, Setting, Shown};
use std::fmt;
use std::path::Path;

/// How packets are routed on flits. `T` is a table of routes: in settings the path of its file, in
/// the backend the routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlitRouting<T = String> {
    /// By the routes of the topology.
    #[default]
    Topology,
    /// One dimension after the other: on a stack the routes of the topology, on a graph minimal
    /// routes that take links of the lowest kind first.
    DimensionOrder,
    /// Towards a root as far as need be, then away from it (up*/down*: Schroeder and others,
    /// "Autonet", IEEE Journal on Selected Areas in Communications 9, 1991).
    UpDown,
    /// To a node at random, then to the destination (Valiant and Brebner, "Universal schemes for
    /// parallel communication", STOC 1981).
    Valiant {
        /// Changes which nodes.
        seed: u64,
    },
    /// Every minimal way, the one with the fewest flits before it first, and deterministic routes as
    /// the last resort (Duato, IEEE Transactions on Parallel and Distributed Systems 4, 1993).
    Adaptive,
    /// The next link comes from a table.
    Table(T),
}

impl FlitRouting {
    /// The same with the routes that `read` finds in the file of a table.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn with_table<T, E>(
        &self,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<FlitRouting<T>, E> {
        Ok(match self {
            FlitRouting::Topology => FlitRouting::Topology,
            FlitRouting::DimensionOrder => FlitRouting::DimensionOrder,
            FlitRouting::UpDown => FlitRouting::UpDown,
            FlitRouting::Valiant { seed } => FlitRouting::Valiant { seed: *seed },
            FlitRouting::Adaptive => FlitRouting::Adaptive,
            FlitRouting::Table(file) => FlitRouting::Table(read(file)?),
        })
    }
}

/// The words, and what they allow.
const WORDS: &str = "topology, dimension_order, up_down, valiant, valiant(seed) such as valiant(7), adaptive, or \
     {table: file}";

/// The key of a table's file.
const TABLE: Key = Key::plain(
    "table",
    || "path".to_string(),
    Absent::Text("none"),
    "A file with the next node on the way from every node to every NPU, seen from the platform's \
     file.",
);

impl Setting for FlitRouting {
    fn keys() -> &'static [Key] {
        &[TABLE]
    }

    fn kind() -> String {
        "`topology`, `dimension_order`, `up_down`, `valiant`, `valiant(seed)`, `adaptive`, or mapping"
            .into()
    }

    fn example() -> String {
        WORDS.into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<FlitRouting> {
        if at.is_map() {
            findings.mapping(at, &[TABLE.name])?;
            let named = findings.need(at, TABLE.name, "the path of a table of routes")?;
            let path = findings.text(&named)?;
            let folder = Path::new(findings.file_of(named.tree.origin)).parent();
            let file = folder.unwrap_or(Path::new("")).join(path).to_string_lossy().into_owned();
            return Some(FlitRouting::Table(file));
        }
        let text = findings.text(at)?;
        let found = of(text);
        if found.is_none() {
            findings.refuse(at, format!("unknown routing of flits \"{text}\""), WORDS);
        }
        found
    }

    fn show(&self) -> Option<Shown> {
        Some(match self {
            FlitRouting::Table(file) => Shown::Map(vec![(TABLE.name, Shown::quoted(file))]),
            word => Shown::of(word),
        })
    }

    fn json(&self) -> serde_json::Value {
        match self {
            FlitRouting::Table(file) => serde_json::json!({ TABLE.name: file }),
            word => word.to_string().into(),
        }
    }
}

fn of(text: &str) -> Option<FlitRouting> {
    let seed = text.strip_prefix("valiant(").and_then(|rest| rest.strip_suffix(')'));
    match text {
        "topology" => Some(FlitRouting::Topology),
        "dimension_order" => Some(FlitRouting::DimensionOrder),
        "up_down" => Some(FlitRouting::UpDown),
        "valiant" => Some(FlitRouting::Valiant { seed: 0 }),
        "adaptive" => Some(FlitRouting::Adaptive),
        _ => Some(FlitRouting::Valiant { seed: seed?.parse().ok()? }),
    }
}

impl fmt::Display for FlitRouting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlitRouting::Topology => f.write_str("topology"),
            FlitRouting::DimensionOrder => f.write_str("dimension_order"),
            FlitRouting::UpDown => f.write_str("up_down"),
            FlitRouting::Valiant { seed: 0 } => f.write_str("valiant"),
            FlitRouting::Valiant { seed } => write!(f, "valiant({seed})"),
            FlitRouting::Adaptive => f.write_str("adaptive"),
            FlitRouting::Table(file) => write!(f, "table {file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_print_and_read_back() {
        for text in ["topology", "dimension_order", "up_down", "valiant", "valiant(7)", "adaptive"]
        {
            assert_eq!(of(text).expect("a word").to_string(), text);
        }
        for text in ["", "minimal", "valiant(", "valiant(-1)", "valiant()", "Adaptive"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
