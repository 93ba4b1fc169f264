//! Between the messages' free-form values and JSON.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::{Map, Number, Value as Json};

/// The same as JSON. What JSON cannot say, such as infinity, is null.
#[must_use]
pub fn to_json(fields: Struct) -> Json {
    let fields = fields.fields.into_iter().map(|(name, value)| (name, json_of(value)));
    Json::Object(fields.collect())
}

fn json_of(value: Value) -> Json {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(flag)) => Json::Bool(flag),
        Some(Kind::StringValue(text)) => Json::String(text),
        Some(Kind::NumberValue(number)) => number_of(number),
        Some(Kind::StructValue(fields)) => to_json(fields),
        Some(Kind::ListValue(list)) => Json::Array(list.values.into_iter().map(json_of).collect()),
    }
}

/// Whole numbers stay whole: the message knows only floating point.
#[expect(clippy::cast_possible_truncation, reason = "it was looked whether it is whole and small")]
fn number_of(number: f64) -> Json {
    let whole = number.trunc() == number && number.abs() < 9e15;
    if whole {
        return Json::from(number as i64);
    }
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}

/// The same as a message.
#[must_use]
pub fn from_json(fields: Map<String, Json>) -> Struct {
    let fields = fields.into_iter().map(|(name, value)| (name, value_of(value)));
    Struct { fields: fields.collect() }
}

fn value_of(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(flag) => Kind::BoolValue(flag),
        Json::String(text) => Kind::StringValue(text),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::Object(fields) => Kind::StructValue(from_json(fields)),
        Json::Array(list) => {
            Kind::ListValue(ListValue { values: list.into_iter().map(value_of).collect() })
        }
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let json = serde_json::json!({
            "a": [1, -2.5, "x", null, true], "b": {"c": {}}, "big": 4_000_000_000_u64,
        });
        let Json::Object(fields) = json.clone() else { panic!("it is an object") };
        assert_eq!(to_json(from_json(fields)), json);
        assert_eq!(number_of(f64::INFINITY), Json::Null);
    }
}
