//! A node's history as messages: facts as JSON lines in, what was decided as JSON lines out.
//!
//! `walras replay` parses each line with [`parse_line`], gives it to a [`Replay`], and writes a
//! [`TickLine`] for every tick. Nothing is kept of a line once it was taken in.

mod config;
mod fact;
mod run;
mod tick;
mod told;
mod workload;
mod write;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use self::fact::FactType;
use crate::kind::{Kind, Milliseconds};
use crate::schema;

pub use self::config::Config;
pub use self::fact::{
    AllocatableTold, Applied, Capacity, Event, Fact, Found, Latency, MachineTaken, SampleTaken,
    TableRestored, Tick, UseRestored, WorkloadRemoved, parse_line,
};
pub use self::run::{Replay, Ticked};
pub use self::tick::TickLine;
pub use self::workload::WorkloadAdded;
pub use self::write::write_line;

/// The JSON Schema of one line of a replay, and of one line about a tick.
#[must_use]
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let facts: Vec<Value> =
        FactType::ALL.into_iter().map(|fact| tagged(fact, fact.schema(&mut generator))).collect();
    let mut input = json!({
        "$schema": schema::DIALECT,
        "title": "Fact",
        "description": "One line of a replay: one thing that happened on a node.",
        "oneOf": facts,
    });
    schema::join_lines(&mut input);
    json!({ "input": input, "output": schema::of::<TickLine>() })
}

/// The schema of a fact with the two fields that every fact has.
fn tagged(fact: FactType, fields: Schema) -> Value {
    let mut schema = fields.to_value();
    let mut time = Milliseconds::schema();
    time.insert("description".into(), "When it happened. Never before an earlier line.".into());
    schema["properties"]["type"] = json!({ "const": fact.name() });
    schema["properties"]["at_ms"] = time.to_value();
    let mut required = vec![Value::from("type")];
    if fact.needs_time() {
        required.push("at_ms".into());
    }
    if let Some(others) = schema["required"].as_array() {
        required.extend(others.iter().cloned());
    }
    schema["required"] = required.into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use walras_core::profile::{Profile, Value as Constant};

    /// A line with every field that the schema of a fact names, each with a fitting value.
    fn full_line(schema: &Value) -> serde_json::Map<String, Value> {
        let example = |name: &str, schema: &Value| match Profile::DIRECT.get(name) {
            Some(Constant::Flag(flag)) => json!(flag),
            Some(Constant::Number(number)) => json!(number),
            Some(Constant::Word(word)) => json!(word),
            // The one whose constants these are, so that they fit together with any one left out.
            None if name == "profile" => json!(Profile::DIRECT.name.name()),
            None if name == "saved_hex" => json!("7b7D"),
            None if schema.get("const").is_some() => schema["const"].clone(),
            None if schema.get("enum").is_some() => schema["enum"][0].clone(),
            None if schema["type"].to_string().contains("string") => json!("x"),
            None if schema["type"].to_string().contains("boolean") => json!(true),
            None => schema.get("minimum").cloned().unwrap_or(json!(100)),
        };
        let properties = schema["properties"].as_object().unwrap();
        let fields = properties.iter();
        fields.map(|(name, schema)| (name.clone(), example(name, schema))).collect()
    }

    fn parse(line: &serde_json::Map<String, Value>) -> Result<Fact, String> {
        let text = serde_json::to_vec(line).unwrap();
        parse_line(&text, 1).map_err(|error| error.to_string())
    }

    #[test]
    fn the_schema_and_the_parser_know_the_same_fields() {
        let schema = schema();
        let facts = schema["input"]["oneOf"].as_array().unwrap();
        assert_eq!(facts.len(), FactType::ALL.len());
        for fact in facts {
            let required: BTreeSet<&str> = fact["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it.as_str().unwrap())
                .collect();
            let mut full = full_line(fact);
            parse(&full).unwrap_or_else(|error| panic!("{error}\n{full:?}"));
            for name in full.keys() {
                let mut without = full.clone();
                without.remove(name);
                let parsed = parse(&without);
                assert_eq!(parsed.is_err(), required.contains(name.as_str()), "{name}: {parsed:?}");
            }
            full.insert("colour".to_owned(), json!("red"));
            let error = parse(&full).unwrap_err();
            assert!(error.starts_with("line 1: colour: \"red\" is given to an unknown"), "{error}");
        }
    }
}
