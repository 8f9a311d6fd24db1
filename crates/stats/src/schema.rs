//! JSON Schemas of types whose fields are the parts of the step. Those of all others are derived.

use crate::classes::StepParts;
use crate::detail::{ActivityParts, LayerParts};
use crate::part::{Part, PartActivity};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use std::borrow::Cow;

impl JsonSchema for StepParts {
    fn schema_name() -> Cow<'static, str> {
        "StepParts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = Part::ALL.map(|part| (part.about().field, part.about().meaning.into()));
        object::<f64>(generator, fields)
    }
}

impl JsonSchema for LayerParts {
    fn schema_name() -> Cow<'static, str> {
        "LayerParts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = Part::charged().flat_map(|(part, doing)| {
            let sum = format!(
                "Sum of the times that its operations of this kind were in flight ({}).",
                doing.label
            );
            let charged = format!("Charged to the layer. {}", part.about().meaning);
            let in_flight = doing.in_flight.map(|field| (field, sum));
            in_flight.into_iter().chain([(part.about().field, charged)])
        });
        object::<f64>(generator, fields)
    }
}

impl JsonSchema for ActivityParts {
    fn schema_name() -> Cow<'static, str> {
        "ActivityParts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let share = |doing: &PartActivity| format!("Share of NPUs, 0..1: {}.", doing.label);
        let fields = Part::charged().map(|(_, doing)| (doing.field, share(doing)));
        object::<Vec<f64>>(generator, fields)
    }
}

/// The schema of an object whose fields all hold a `T`, with a description for each.
fn object<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    fields: impl IntoIterator<Item = (&'static str, String)>,
) -> Schema {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (field, description) in fields {
        let mut schema = T::json_schema(generator);
        schema.insert("description".into(), description.into());
        properties.insert(field.into(), schema.into());
        required.push(field);
    }
    json_schema!({
        "type": "object",
        "properties": Value::Object(properties),
        "required": required,
    })
}
