//! JSON Schema as it is published: made from the types that are read and written.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// The dialect of all our schemas.
pub(crate) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of `T`, as a document of its own.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    join_lines(&mut schema);
    schema
}

/// Comments in the source are broken into lines where the column ends; descriptions are not.
pub(crate) fn join_lines(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                join_lines(member);
                if let ("description", Value::String(text)) = (name.as_str(), member) {
                    *text = text.replace('\n', " ");
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(join_lines),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
