//! `walras profiles`: every constant of the market, for people and for programs.

use std::io::Write;

use serde_json::{Map, Value, json};
use walras_core::profile::{Constant, Profile, ProfileName};

use crate::cli::ProfilesArgs;
use crate::failure::Failure;
use crate::screen::{self, Look};

/// Prints the constants.
pub(crate) fn run(args: &ProfilesArgs) -> Result<(), Failure> {
    let names = match args.name {
        Some(name) => vec![name.into()],
        None => ProfileName::ALL.to_vec(),
    };
    let mut output = screen::output();
    if args.json {
        let constants: Vec<Value> =
            Profile::CONSTANTS.iter().map(|constant| as_json(constant, &names)).collect();
        writeln!(output, "{:#}", Value::from(constants))?;
    } else {
        let look = Look::of_stdout();
        for constant in Profile::CONSTANTS {
            output.write_all(as_text(constant, &names, look).as_bytes())?;
        }
    }
    Ok(output.flush()?)
}

/// One constant for people: three lines and a blank one.
fn as_text(constant: &Constant, names: &[ProfileName], look: Look) -> String {
    let Constant { key, unit, reason, .. } = constant;
    let accepted = constant.accepted();
    // A choice has its words for a unit, which need not be said twice.
    let accepted =
        if constant.low < constant.high { format!("{unit}; {accepted}") } else { accepted };
    let values: Vec<String> =
        names.iter().map(|&name| format!("{} {}", name.name(), value(constant, name))).collect();
    format!("{}  ({accepted})\n    {}\n    {reason}\n\n", look.heading(key), values.join("   "))
}

fn as_json(constant: &Constant, names: &[ProfileName]) -> Value {
    let values: Map<String, Value> =
        names.iter().map(|&name| (name.name().to_owned(), value(constant, name))).collect();
    json!({
        "key": constant.key,
        "unit": constant.unit,
        "accepted": constant.accepted(),
        "values": values,
        "reason": constant.reason,
    })
}

/// A constant's value as a configuration file would hold it.
fn value(constant: &Constant, name: ProfileName) -> Value {
    let value = Profile::named(name).get(constant.key).map(|value| value.to_string());
    // The core writes values as JSON does: true, 15000, 0.05, "nash".
    value.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, names: &[ProfileName]) -> String {
        let constant = Profile::CONSTANTS.iter().find(|constant| constant.key == key).unwrap();
        as_text(constant, names, Look::PLAIN)
    }

    #[test]
    fn a_constant_is_told_with_unit_range_values_and_reason() {
        assert_eq!(
            check("cooldown_ms", &ProfileName::ALL),
            "cooldown_ms  (ms; a whole number from 0 to 3600000)\n    \
             seed 5000   direct 0   api 5000   tight 0\n    \
             The least time between two changes of one workload by the slow loop.\n\n"
        );
        assert!(
            check("boost_rule", &[ProfileName::Api])
                .starts_with("boost_rule  (one of \"step\", \"double\")\n    api \"double\"\n")
        );
    }

    #[test]
    fn every_constant_has_a_value_in_every_profile() {
        for constant in Profile::CONSTANTS {
            for name in ProfileName::ALL {
                assert_ne!(value(constant, name), Value::Null, "{}", constant.key);
            }
        }
    }
}
