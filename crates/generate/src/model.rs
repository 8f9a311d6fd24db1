//! Types as JSON Schema describes them, in the order in which they refer to one another.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The JSON Schema of a type as it is written.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// An object type.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub name: String,
    pub description: String,
    pub fields: Vec<Field>,
}

/// A field of it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub description: String,
    pub form: Form,
}

/// Content of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Flag,
    Number,
    /// A whole number of at most 64 bits.
    Whole,
    /// A whole number of up to 128 bits.
    Large,
    Any,
    List(Box<Form>),
    Optional(Box<Form>),
    Named(String),
}

/// The types of a root schema: each after those that it refers to, the root last.
pub(crate) fn types(schema: &Value) -> Vec<Type> {
    let mut found = Vec::new();
    visit(schema, text(&schema["title"]), &schema["$defs"], &mut found);
    found
}

fn visit(object: &Value, name: String, defs: &Value, found: &mut Vec<Type>) {
    let fields = fields(object);
    for named in fields.iter().filter_map(|field| field.form.named()) {
        if found.iter().all(|known| known.name != named) {
            visit(&defs[named], named.into(), defs, found);
        }
    }
    found.push(Type { name, description: text(&object["description"]), fields });
}

/// In the order of declaration, which `required` keeps; everything in a report is required.
fn fields(object: &Value) -> Vec<Field> {
    let required = object["required"].as_array().into_iter().flatten();
    let field = |name: &Value| {
        let schema = &object["properties"][text(name)];
        Field { name: text(name), description: text(&schema["description"]), form: form(schema) }
    };
    required.map(field).collect()
}

fn form(schema: &Value) -> Form {
    if let Some(reference) = schema["$ref"].as_str() {
        return Form::Named(reference.rsplit('/').next().unwrap_or_default().into());
    }
    if let Some([one, _null]) = schema["anyOf"].as_array().map(Vec::as_slice) {
        return Form::Optional(Box::new(form(one)));
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => {
            let mut one = schema.clone();
            one["type"] = kinds[0].clone();
            return Form::Optional(Box::new(form(&one)));
        }
        kind => kind.as_str().unwrap_or_default(),
    };
    match (kind, schema["format"].as_str()) {
        ("string", _) => Form::Text,
        ("boolean", _) => Form::Flag,
        ("number", _) => Form::Number,
        ("integer", Some("uint128")) => Form::Large,
        ("integer", _) => Form::Whole,
        ("array", _) => Form::List(Box::new(form(&schema["items"]))),
        _ => Form::Any,
    }
}

impl Form {
    /// The object type that it holds, if it does.
    pub(crate) fn named(&self) -> Option<&str> {
        match self {
            Form::Named(name) => Some(name),
            Form::List(inner) | Form::Optional(inner) => inner.named(),
            _ => None,
        }
    }
}

/// A text with single spaces between its words.
fn text(value: &Value) -> String {
    let words = value.as_str().unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}
