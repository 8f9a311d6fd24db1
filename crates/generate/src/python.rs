//! The Python types of a report, and the parts of the step as Python data.

use crate::model::{self, Field, Form, Type, schema_of};
use serde_json::Value;
use stats::{Part, PartDeclaration};

const WIDTH: usize = 100;
const TUPLE: &str = "NamedTuple";

const TYPES: &str = r#""""The form of a report, `armillary.report/1`, as types.

Generated from `crates/stats/src` by `make generate`; do not edit. Times end in `_ns`, bytes are
bytes, shares are 0..1. Whole numbers have 64 bits, `Large` ones 128: sums over all ranks."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypedDict

Large: TypeAlias = Annotated[int, "128 bits"]
"""A whole number that can exceed 64 bits."""
"#;

const PARTS: &str = r#""""The parts of the step.

Generated from `crates/stats/src/part.rs` by `make generate`; do not edit."""

from __future__ import annotations

from typing import NamedTuple
"#;

/// `python/armillary/schema.py`, formatted as `ruff format` does.
pub(crate) fn types_module(types: &[Type]) -> String {
    let mut text = TYPES.to_owned();
    let reported = types.iter().filter(|known| !UNTYPED.contains(&known.name.as_str()));
    reported.for_each(|known| text.push_str(&class(known, "TypedDict")));
    text
}

/// `python/armillary/step_parts.py`, formatted as `ruff format` does.
pub(crate) fn parts_module() -> String {
    let declared = model::types(&schema_of::<PartDeclaration>());
    let mut text = PARTS.to_owned();
    declared.iter().for_each(|known| text.push_str(&class(known, TUPLE)));
    text.push_str("\n\nPARTS: tuple[PartDeclaration, ...] = (\n");
    for part in Part::ALL {
        let value = serde_json::to_value(part.about()).unwrap_or_default();
        let form = Form::Named("PartDeclaration".into());
        text.push_str(&format!("    {},\n", literal(&value, &form, &declared, 4)));
    }
    text.push_str(
        ")\n\"\"\"The parts of the step by precedence, idle time last. They sum to it.\"\"\"\n",
    );
    text
}

/// Descriptions of platform and workload are checked where they are read (`report/reading.py`).
const UNTYPED: [&str; 2] = ["Config", "Origin"];

fn class(of: &Type, base: &str) -> String {
    let mut text = format!("\n\nclass {}({base}):\n{}\n", of.name, docstring(&of.description));
    for field in &of.fields {
        let mut annotation = annotation(&field.form);
        if base == TUPLE {
            annotation = annotation.replace("list[str]", "tuple[str, ...]");
        }
        text.push_str(&format!("    {}: {annotation}\n", field.name));
        text.push_str(&docstring(&field.description));
    }
    text
}

fn annotation(form: &Form) -> String {
    match form {
        Form::Text => "str".into(),
        Form::Flag => "bool".into(),
        Form::Number => "float".into(),
        Form::Whole => "int".into(),
        Form::Large => "Large".into(),
        Form::Any => "Any".into(),
        Form::List(inner) => format!("list[{}]", annotation(inner)),
        Form::Optional(inner) => format!("{} | None", annotation(inner)),
        Form::Named(name) if UNTYPED.contains(&name.as_str()) => "dict[str, Any]".into(),
        Form::Named(name) => name.clone(),
    }
}

/// A docstring indented by four, its lines as long as there is room.
fn docstring(text: &str) -> String {
    let quotes = "\"\"\"";
    let lines = wrapped(&format!("{quotes}{text}{quotes}"), WIDTH - 4);
    lines.iter().map(|line| format!("    {line}\n")).collect()
}

/// The words of a text in lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// A value of a declared type as Python text, over several lines that begin with `indent` spaces.
fn literal(value: &Value, form: &Form, types: &[Type], indent: usize) -> String {
    match (value, form) {
        (Value::Null, _) => "None".into(),
        (_, Form::Optional(inner)) => literal(value, inner, types, indent),
        (Value::Bool(true), _) => "True".into(),
        (Value::Bool(false), _) => "False".into(),
        (Value::Array(items), _) => {
            let items: Vec<String> = items.iter().map(|item| format!("{item},")).collect();
            let text = items.join(" ");
            format!("({})", if items.len() > 1 { text.trim_end_matches(',') } else { &text })
        }
        (Value::Object(_), Form::Named(name)) => {
            let fields = types.iter().find(|known| known.name == *name).map(|known| &known.fields);
            let inner = " ".repeat(indent + 4);
            let field = |field: &Field| {
                let value = literal(&value[&field.name], &field.form, types, indent + 4);
                format!("{inner}{},\n", argument(&field.name, &value, indent + 4))
            };
            let fields: String = fields.into_iter().flatten().map(field).collect();
            format!("{name}(\n{fields}{})", " ".repeat(indent))
        }
        (Value::String(text), _) => quoted(text),
        _ => value.to_string(),
    }
}

/// `name=value`, a long text in pieces.
fn argument(name: &str, value: &str, indent: usize) -> String {
    let whole = format!("{name}={value}");
    let is_text = value.starts_with('"');
    if !is_text || indent + whole.chars().count() < WIDTH {
        return whole;
    }
    let pieces = wrapped(value.trim_matches('"'), WIDTH - indent - 7);
    let (last, first) = pieces.split_last().map_or(("", &[][..]), |(last, first)| (last, first));
    let margin = " ".repeat(indent + 4);
    let mut lines: Vec<String> =
        first.iter().map(|piece| format!("{margin}\"{piece} \"\n")).collect();
    lines.push(format!("{margin}\"{last}\"\n"));
    format!("{name}=(\n{}{})", lines.concat(), " ".repeat(indent))
}

/// A text as a Python literal in ASCII.
fn quoted(text: &str) -> String {
    let character = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_ascii() => c.into(),
        c => format!("\\u{:04x}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(character).collect::<String>())
}
