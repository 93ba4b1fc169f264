//! The first line of a replay: the node's capacity and the constants its market runs with.
//!
//! Any constant of the profile can be given by its key. What the core refuses is told as a problem
//! of the field it was given in.

use schemars::{JsonSchema, Schema};
use serde_json::{Value as Json, json};
use walras_core::profile::{
    Constant, Kind as ConstantKind, Profile, ProfileName, SettingError, Value,
};
use walras_core::units::Millicores;

use crate::field::{Fields, shown_name};
use crate::kind::{Cpu, ProfileWord, number};
use crate::scalar::Scalar;
use crate::suggest::unknown;

/// Where the keys of a config line come from that are no constants.
const OWN_KEYS: [&str; 4] = ["type", "at_ms", "capacity_milli", "profile"];

/// The node and its market were set up. Must be the first line, and only the first.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(deny_unknown_fields, transform = with_constants)]
pub struct Config {
    /// What there is to divide, in thousandths of a core.
    #[schemars(with = "Cpu")]
    pub capacity_milli: Millicores,
    /// Which set of constants to start from. Default: direct.
    #[schemars(with = "Option<ProfileWord>")]
    pub profile: Profile,
}

impl Config {
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let capacity_milli = fields.required::<Cpu>("capacity_milli");
        let name = fields.optional::<ProfileWord>("profile").unwrap_or(ProfileName::Direct);
        let mut profile = Profile::named(name);
        let mut all_set = true;
        for (key, written) in fields.take_others() {
            if let Err(error) = set(&mut profile, &key, &written) {
                all_set = false;
                fields.problem(&shown_name(&key), Some(&written), || in_words(&error));
            }
        }
        // Constants that are refused one by one would only be refused together once more.
        if all_set {
            for error in profile.check() {
                let value = profile.get(error.key());
                let value = value.as_ref().map(|value| value as &dyn std::fmt::Display);
                fields.problem(error.key(), value, || in_words_together(&profile, &error));
            }
        }
        Some(Self { capacity_milli: capacity_milli?, profile })
    }
}

fn set(profile: &mut Profile, key: &str, written: &Scalar) -> Result<(), SettingError> {
    let value = match written {
        Scalar::Flag(flag) => Value::Flag(*flag),
        Scalar::Text(text) => Value::Word(text.to_string()),
        Scalar::Whole(_) | Scalar::Negative(_) | Scalar::Decimal(_) => {
            Value::Number(number(written).unwrap_or(f64::NAN))
        }
        // No constant takes any of these: say so in the words of the constant.
        Scalar::Null | Scalar::List | Scalar::Object => Value::Number(f64::NAN),
    };
    profile.set(key, &value)
}

/// What is wrong, to follow the value.
fn in_words(error: &SettingError) -> String {
    match error {
        SettingError::Unknown { key } => {
            let keys = Profile::CONSTANTS.iter().map(|constant| constant.key);
            unknown("field", key, &keys.chain(OWN_KEYS).collect::<Vec<_>>())
        }
        SettingError::WrongKind { key, .. } | SettingError::OutOfRange { key, .. } => {
            let constant = Profile::CONSTANTS.iter().find(|constant| constant.key == *key);
            constant.map_or_else(String::new, |constant| format!("is not {}", constant.accepted()))
        }
        SettingError::Contradiction { smaller, .. } => format!("must be at least {smaller}"),
    }
}

fn in_words_together(profile: &Profile, error: &SettingError) -> String {
    match error {
        SettingError::Contradiction { smaller, .. } => {
            let value = profile.get(smaller).map_or_else(String::new, |value| value.to_string());
            format!("is less than {smaller}, which is {value}")
        }
        SettingError::Unknown { .. }
        | SettingError::WrongKind { .. }
        | SettingError::OutOfRange { .. } => in_words(error),
    }
}

/// Adds the constants to the schema of a config line.
fn with_constants(schema: &mut Schema) {
    for constant in Profile::CONSTANTS {
        if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
            properties.insert(constant.key.to_owned(), constant_schema(constant));
        }
    }
}

fn constant_schema(constant: &Constant) -> Json {
    let Constant { low, high, reason, unit, .. } = constant;
    let description = format!("{reason} Unit: {unit}.");
    match constant.kind {
        ConstantKind::Flag => json!({ "type": "boolean", "description": reason }),
        ConstantKind::Choice(words) => json!({ "enum": words, "description": reason }),
        ConstantKind::Decimal => json!({
            "type": "number", "minimum": low, "maximum": high, "description": description
        }),
        ConstantKind::Whole => json!({
            "type": "integer", "minimum": low, "maximum": high, "description": description
        }),
    }
}

#[cfg(test)]
mod tests {
    use crate::replay::{Event, parse_line};

    fn check(fields: &str) -> String {
        let line = format!("{{\"type\": \"config\", \"capacity_milli\": 4000{fields}}}");
        match parse_line(line.as_bytes(), 1).map(|fact| fact.event) {
            Ok(Event::Config(config)) => {
                format!("{} {:?}", config.profile.name.name(), config.profile.cooldown_ms)
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn constants_are_set_on_top_of_the_profile() {
        assert_eq!(check(""), "direct Span(0)");
        assert_eq!(check(r#", "profile": "api""#), "api Span(5000000)");
        assert_eq!(check(r#", "cooldown_ms": 250, "profile": "seed""#), "seed Span(250000)");
    }

    #[test]
    fn everything_wrong_with_a_config_is_told_at_once() {
        assert_eq!(
            check(
                r#", "cooldown_ns": 1, "raise_band": 2, "learning": "yes", "window_s": 1.5,
                   "fairness": "equal", "alpha_up": null, "xyz": []"#
            ),
            "7 problems\n  \
             line 1: cooldown_ns: 1 is given to an unknown field; did you mean cooldown_ms?\n  \
             line 1: raise_band: 2 is not a number from 0 to 1\n  \
             line 1: learning: \"yes\" is not true or false\n  \
             line 1: window_s: 1.5 is not a whole number from 1 to 3600\n  \
             line 1: fairness: \"equal\" is not one of \"proportional\", \"nash\"\n  \
             line 1: alpha_up: null is not a number from 0.001 to 1\n  \
             line 1: xyz: a list is given to an unknown field"
        );
    }

    #[test]
    fn constants_that_contradict_each_other_are_refused() {
        assert_eq!(
            check(r#", "fast_step_min": 0.5"#),
            "line 1: fast_step_max: 0.4 is less than fast_step_min, which is 0.5"
        );
    }

    #[test]
    fn a_constant_that_is_given_twice_is_refused() {
        assert_eq!(
            check(r#", "cooldown_ms": 1, "cooldown_ms": 2"#),
            "line 1: cooldown_ms: 2 is given a second time; give it once"
        );
    }
}
