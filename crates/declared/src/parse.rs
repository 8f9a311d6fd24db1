//! From text to a tree: YAML and JSON. A syntax error is a problem with line and column.

use crate::findings::Findings;
use crate::tree::{Key, Origin, Tree, Value, located};
use serde_saphyr::Spanned;

/// Reads YAML; a syntax error becomes a problem with line and column.
pub fn yaml(text: &str, findings: &mut Findings) -> Option<Tree> {
    let options = serde_saphyr::options! { non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::AsString };
    match serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options) {
        Ok(spanned) => Some(located(spanned)),
        Err(error) => {
            let place =
                error.location().map(|l| format!("line {}, column {}", l.line(), l.column()));
            findings.add(place.unwrap_or_default(), yaml_message(&error), "valid YAML");
            None
        }
    }
}

fn yaml_message(error: &serde_saphyr::Error) -> String {
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key \"{key}\" is given twice")
        }
        serde_saphyr::Error::MultipleDocuments { .. } => {
            "a second YAML document starts here".into()
        }
        other => {
            let text = other.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            format!("YAML syntax error: {text}")
        }
    }
}

/// Reads JSON; a syntax error becomes a problem with line and column.
pub fn json(text: &str, findings: &mut Findings) -> Option<Tree> {
    match serde_json::from_str(text) {
        Ok(value) => Some(from_json(value)),
        Err(error) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().to_string();
            let place = format!("line {}, column {}", error.line(), error.column());
            findings.add(place, format!("JSON syntax error: {message}"), "valid JSON");
            None
        }
    }
}

fn from_json(value: serde_json::Value) -> Tree {
    use serde_json::Value as Json;
    Tree::made(match value {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(b),
        Json::Number(n) => match (n.as_i128(), n.as_f64()) {
            (Some(i), _) => Value::Int(i),
            (None, x) => Value::Float(x.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::List(items.into_iter().map(from_json).collect()),
        Json::Object(entries) => {
            let entry = |(name, value)| (Key { origin: Origin::Made, name }, from_json(value));
            Value::Map(entries.into_iter().map(entry).collect())
        }
    })
}
