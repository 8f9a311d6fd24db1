//! Communicator groups that a trace declares itself: metadata nodes whose `inputs.values` hold
//! `["[{\"pg_name\": \"1\", \"ranks\": [0, 1], ...}]"]`, as PyTorch's `## process_group:init ##`
//! writes them.

use serde::Deserialize;
use std::collections::BTreeMap;

/// One declared group; no ranks means everybody.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Declared {
    pub name: String,
    pub ranks: Vec<u32>,
}

#[derive(Deserialize)]
struct Entry {
    pg_name: Name,
    #[serde(default)]
    ranks: Option<Ranks>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Number(u64),
}

/// A list, or in older PyTorch an object whose keys are the ranks.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ranks {
    List(Vec<u32>),
    Keys(BTreeMap<String, serde_json::Value>),
}

/// The groups declared in `values`, or why they can't be read.
///
/// Text without a `pg_name` declares none.
pub(crate) fn declared(values: &[u8]) -> Result<Vec<Declared>, String> {
    let text = String::from_utf8_lossy(values);
    if !text.contains("pg_name") {
        return Ok(Vec::new());
    }
    let (Some(start), Some(end)) = (text.find("[{"), text.rfind("}]")) else {
        return Err("not a list of groups".into());
    };
    let list = text.get(start..end + 2).unwrap_or_default().replace("\\\"", "\"");
    let entries: Vec<Entry> = serde_json::from_str(&list).map_err(|e| e.to_string())?;
    entries.into_iter().map(declare).collect()
}

fn declare(entry: Entry) -> Result<Declared, String> {
    let name = match entry.pg_name {
        Name::Text(text) => text,
        Name::Number(number) => number.to_string(),
    };
    let ranks = match entry.ranks {
        None => Vec::new(),
        Some(Ranks::List(list)) => list,
        Some(Ranks::Keys(keys)) => {
            let mut ranks = Vec::new();
            for key in keys.keys() {
                ranks.push(key.parse().map_err(|_| format!("rank \"{key}\" is not a number"))?);
            }
            ranks.sort_unstable();
            ranks
        }
    };
    Ok(Declared { name, ranks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_and_plain_declarations_read() {
        let expected = vec![Declared { name: "1".into(), ranks: vec![0, 1, 2, 3] }];
        let escaped = br#"["[{\"pg_name\": \"1\", \"ranks\": [0,1,2,3]}]"]"#;
        assert_eq!(declared(escaped).as_ref(), Ok(&expected));
        assert_eq!(
            declared(br#"[{"pg_name": 1, "ranks": {"3": 3, "0": 0, "1": 1, "2": 2}}]"#),
            Ok(expected)
        );
    }

    #[test]
    fn no_ranks_is_everybody() {
        let all = br#"["[{\"pg_name\": \"0\", \"backend_id\": 82149104, \"ranks\": [], \"group_size\": 2}]"]"#;
        assert_eq!(declared(all), Ok(vec![Declared { name: "0".into(), ranks: vec![] }]));
    }

    #[test]
    fn other_values_declare_nothing_and_broken_ones_say_so() {
        assert_eq!(declared(b"[[1, 2], 'cpu']"), Ok(vec![]));
        assert!(declared(b"[{\"pg_name\": ").is_err());
        assert!(declared(br#"[{"pg_name": "1", "ranks": [-1]}]"#).is_err());
    }
}
