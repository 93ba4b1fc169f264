//! `[market]`: any constant of the market by its name, on top of the profile.

use toml::de::DeValue;
use walras_core::profile::{Profile, SettingError, Value};

use walras_wire::settings::{Fields, number, text};
use walras_wire::suggest::unknown;

/// The profile with what `[market]` says.
pub(super) fn take(root: &mut Fields<'_>, mut profile: Profile) -> Profile {
    let Some(mut fields) = root.table("market") else {
        return profile;
    };
    let keys: Vec<&'static str> = Profile::CONSTANTS.iter().map(|constant| constant.key).collect();
    let mut refused = Vec::new();
    for (key, written) in fields.entries() {
        if let Err(error) = profile.set(key, &value(written)) {
            refused.push((key, error));
        }
    }
    for &key in &keys {
        fields.know(key);
    }
    // Constants that are refused one by one would only be refused together once more.
    if refused.is_empty() {
        for error in profile.check() {
            fields.problem(error.key(), together(&profile, &error));
        }
    }
    for (key, error) in refused {
        match error {
            // The collector of problems says so of every key that is not known.
            SettingError::Unknown { .. } => {}
            SettingError::WrongKind { .. }
            | SettingError::OutOfRange { .. }
            | SettingError::Contradiction { .. } => {
                let constant = Profile::CONSTANTS.iter().find(|constant| constant.key == key);
                let accepted =
                    constant.map_or_else(|| unknown("key", key, &keys), |it| it.accepted());
                fields.problem(key, format!("is not {accepted}"));
            }
        }
    }
    root.finish(fields);
    profile
}

fn value(written: &DeValue<'_>) -> Value {
    match (written, number(written), text(written)) {
        (DeValue::Boolean(flag), _, _) => Value::Flag(*flag),
        (_, Some(number), _) => Value::Number(number),
        (_, _, Some(text)) => Value::Word(text.to_owned()),
        // No constant takes anything else: say so in the words of the constant.
        (_, None, None) => Value::Number(f64::NAN),
    }
}

fn together(profile: &Profile, error: &SettingError) -> String {
    match error {
        SettingError::Contradiction { smaller, .. } => {
            let value = profile.get(smaller).map_or_else(String::new, |value| value.to_string());
            format!("is less than {smaller}, which is {value}")
        }
        SettingError::Unknown { .. }
        | SettingError::WrongKind { .. }
        | SettingError::OutOfRange { .. } => error.to_string(),
    }
}
