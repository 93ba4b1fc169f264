//! The kinds of value a field can have: what each accepts, in words, in code and as JSON Schema.
//!
//! Every field of every message has one of these kinds, so that the check, the message about a
//! refused value and the published schema cannot disagree.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use walras_core::claim::Nature;
use walras_core::learn::SAVED_BYTES_MAX;
use walras_core::market::{Fairness, Mode};
use walras_core::node::Loop;
use walras_core::parse::CpuWeight;
use walras_core::profile::ProfileName;
use walras_core::request::{RECORD_BYTES_MAX, RequestRule};
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{FamilyKey, Millicores, Moment, Ratio, Span, Weight, WorkloadUid};

use crate::name::{NAME_MAX, is_name, objection, pattern};
use crate::scalar::Scalar;

/// The smallest weight accepted.
const WEIGHT_MIN: f64 = 0.001;
/// The largest weight accepted; it is `Weight::LIMIT_THOUSANDTHS`.
const WEIGHT_MAX: f64 = 1e6;
/// The most bytes of a saved table: one more than any table has, so that what was refused for being
/// too long when it was recorded is refused in a replay.
pub(crate) const TABLE_BYTES_MAX: usize = SAVED_BYTES_MAX + 1;
/// The same holds of what a family used.
const _: () = assert!(SAVED_BYTES_MAX == RECORD_BYTES_MAX);
/// The last moment accepted, in milliseconds: 30,000 years after the origin. In microseconds it
/// still fits an integer with room to spare.
const MS_MAX: u64 = 1_000_000_000_000_000;
/// Whole numbers up to this can be told from their neighbours when they are written as decimals.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A kind of value.
pub(crate) trait Kind {
    /// What a value of this kind means.
    type Meaning;
    /// What is accepted, to follow "is not".
    const WHAT: &'static str;
    /// What `written` means, if it is accepted.
    fn accept(written: &Scalar) -> Option<Self::Meaning>;
    /// What is wrong with `written`, which is not accepted; to follow it.
    fn problem(_written: &Scalar) -> String {
        format!("is not {}", Self::WHAT)
    }
    /// What is accepted, as JSON Schema.
    fn schema() -> Schema;
}

/// Declares a kind and lets schemas be derived for fields of that kind.
macro_rules! kind {
    (
        $(#[$doc:meta])* $name:ident => $meaning:ty,
        $what:expr,
        |$written:ident| $accept:expr,
        $schema:tt
        $(, $problem:ident)?
    ) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl Kind for $name {
            type Meaning = $meaning;
            const WHAT: &'static str = $what;
            fn accept($written: &Scalar) -> Option<$meaning> {
                $accept
            }
            $(fn problem(written: &Scalar) -> String {
                $problem(written, Self::WHAT)
            })?
            fn schema() -> Schema {
                json_schema!($schema)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                <Self as Kind>::schema()
            }
        }
    };
}

kind! {
    /// An amount of CPU.
    Cpu => Millicores,
    "a whole number of millicores from 0 to 1000000000",
    |written| whole(written, Millicores::LIMIT.get()).map(Millicores::new),
    { "type": "integer", "minimum": 0, "maximum": Millicores::LIMIT.get() }
}

kind! {
    /// How urgently a workload wants more.
    Demand => Ratio,
    "a number from 0 to 1",
    |written| number(written).filter(|demand| (0.0..=1.0).contains(demand)).map(|demand| {
        Ratio::from_millionths(nearest(demand * 1e6))
    }),
    { "type": "number", "minimum": 0, "maximum": 1 }
}

kind! {
    /// What a workload's claim counts for.
    BargainingWeight => Weight,
    "a number from 0.001 to 1000000",
    |written| {
        let weight = number(written).filter(|weight| (WEIGHT_MIN..=WEIGHT_MAX).contains(weight))?;
        Weight::from_thousandths(u32::try_from(nearest(weight * 1e3)).ok()?)
    },
    { "type": "number", "minimum": WEIGHT_MIN, "maximum": Weight::LIMIT_THOUSANDTHS / 1000 }
}

kind! {
    /// A small count.
    SmallCount => u32,
    "a whole number from 0 to 4294967295",
    |written| u32::try_from(whole(written, u64::MAX)?).ok(),
    { "type": "integer", "minimum": 0, "maximum": u32::MAX }
}

kind! {
    /// A counter that only ever grows.
    Counter => u64,
    "a whole number from 0 to 18446744073709551615",
    |written| whole(written, u64::MAX),
    { "type": "integer", "minimum": 0, "maximum": u64::MAX }
}

kind! {
    /// A counter of microseconds.
    Microseconds => Span,
    "a whole number of microseconds from 0 to 18446744073709551615",
    |written| whole(written, u64::MAX).map(Span::from_us),
    { "type": "integer", "minimum": 0, "maximum": u64::MAX }
}

kind! {
    /// A point in time.
    Milliseconds => Moment,
    "a whole number of milliseconds from 0 to 1000000000000000",
    |written| whole(written, MS_MAX).map(Moment::from_ms),
    { "type": "integer", "minimum": 0, "maximum": MS_MAX }
}

kind! {
    /// A yes or no.
    Flag => bool,
    "true or false",
    |written| match written {
        Scalar::Flag(flag) => Some(*flag),
        Scalar::Null | Scalar::Whole(_) | Scalar::Negative(_) | Scalar::Decimal(_)
        | Scalar::Text(_) | Scalar::List | Scalar::Object => None,
    },
    { "type": "boolean" }
}

kind! {
    /// The name of a workload.
    Uid => WorkloadUid,
    "a name of 1 to 512 characters, all of them visible",
    |written| text(written).filter(|name| is_name(name)).map(WorkloadUid::new),
    { "type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": pattern() },
    no_name
}

kind! {
    /// The name of a family.
    Family => FamilyKey,
    "a name of 1 to 512 characters, all of them visible",
    |written| text(written).filter(|name| is_name(name)).map(FamilyKey::new),
    { "type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": pattern() },
    no_name
}

kind! {
    /// The bytes of a saved table.
    TableHex => Vec<u8>,
    "saved bytes as hexadecimal digits, two for each of up to 65537 bytes",
    |written| bytes_of(text(written)?),
    {
        "type": "string",
        "minLength": 0,
        "maxLength": 2 * TABLE_BYTES_MAX,
        "pattern": "^([0-9a-fA-F]{2})*$"
    }
}

kind! {
    /// How a congested market shares.
    FairnessWord => Fairness,
    "\"proportional\" or \"nash\"",
    |written| word(written, &[Fairness::Proportional, Fairness::Nash], |it| it.name()),
    { "enum": [Fairness::Proportional.name(), Fairness::Nash.name()] }
}

kind! {
    /// How a market stands.
    ModeWord => Mode,
    "\"uncongested\", \"congested\" or \"overloaded\"",
    |written| word(
        written,
        &[Mode::Uncongested, Mode::Congested, Mode::Overloaded],
        |it| it.name(),
    ),
    { "enum": [Mode::Uncongested.name(), Mode::Congested.name(), Mode::Overloaded.name()] }
}

kind! {
    /// A set of constants.
    ProfileWord => ProfileName,
    "\"seed\", \"direct\", \"api\" or \"tight\"",
    |written| word(written, &ProfileName::ALL, |it| it.name()),
    { "enum": ProfileName::ALL.map(ProfileName::name) }
}

kind! {
    /// A weight of the kernel.
    KernelWeightNumber => KernelWeight,
    "a whole number from 1 to 10000",
    |written| {
        let number = whole(written, 10_000)?;
        CpuWeight::new(u32::try_from(number).ok()?).map(KernelWeight::from)
    },
    { "type": "integer", "minimum": 1, "maximum": 10_000 }
}

kind! {
    /// What kind of work a workload does.
    NatureWord => Nature,
    "\"unknown\", \"batch\" or \"service\"",
    |written| word(written, &Nature::ALL, |it| it.name()),
    { "enum": Nature::ALL.map(Nature::name) }
}

kind! {
    /// What becomes of a request.
    RequestWord => RequestRule,
    "\"kept\", \"scaled\" or \"follows\"",
    |written| word(written, &RequestRule::ALL, |it| it.name()),
    { "enum": RequestRule::ALL.map(RequestRule::name) }
}

kind! {
    /// One of the two loops.
    LoopWord => Loop,
    "\"fast\" or \"slow\"",
    |written| word(written, &[Loop::Fast, Loop::Slow], |it| it.name()),
    { "enum": [Loop::Fast.name(), Loop::Slow.name()] }
}

/// A whole number up to `most`. `4000.0` is one, too: JSON does not tell it from `4000`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and in range"
)]
fn whole(written: &Scalar, most: u64) -> Option<u64> {
    let number = match written {
        Scalar::Whole(number) => *number,
        Scalar::Decimal(number) if number.fract() == 0.0 && (0.0..EXACT_MAX).contains(number) => {
            *number as u64
        }
        Scalar::Decimal(_) | Scalar::Null | Scalar::Flag(_) | Scalar::Negative(_) => return None,
        Scalar::Text(_) | Scalar::List | Scalar::Object => return None,
    };
    (number <= most).then_some(number)
}

/// Any number.
#[expect(clippy::cast_precision_loss, reason = "a decimal is the nearest")]
pub(crate) fn number(written: &Scalar) -> Option<f64> {
    match written {
        Scalar::Whole(number) => Some(*number as f64),
        Scalar::Negative(number) => Some(*number as f64),
        Scalar::Decimal(number) => Some(*number),
        Scalar::Null | Scalar::Flag(_) | Scalar::Text(_) | Scalar::List | Scalar::Object => None,
    }
}

/// The nearest whole number, halves up; zero for what is negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
fn nearest(number: f64) -> u64 {
    number.round() as u64
}

fn text(written: &Scalar) -> Option<&str> {
    match written {
        Scalar::Text(text) => Some(text),
        Scalar::Null | Scalar::Flag(_) | Scalar::Whole(_) | Scalar::Negative(_) => None,
        Scalar::Decimal(_) | Scalar::List | Scalar::Object => None,
    }
}

/// The bytes that are written as two digits each.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > TABLE_BYTES_MAX {
        return None;
    }
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Why something is no name: the character that may not be in it is not to be seen, so it is named.
fn no_name(written: &Scalar, what: &str) -> String {
    match text(written).and_then(objection) {
        Some(objection) => format!("{objection}; it must be {what}"),
        None => format!("is not {what}"),
    }
}

/// The one of `all` that is written, by its name.
pub(crate) fn word<T: Copy>(written: &Scalar, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
    let written = text(written)?;
    all.iter().copied().find(|&it| name(it) == written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn check<K: Kind<Meaning: std::fmt::Debug>>(json: &str) -> String {
        let written: Scalar = serde_json::from_str(json).unwrap();
        K::accept(&written).map_or("refused".to_owned(), |meaning| format!("{meaning:?}"))
    }

    #[test]
    fn cpu_is_a_whole_number_up_to_the_limit() {
        assert_eq!(check::<Cpu>("1000000000"), "Millicores(1000000000)");
        assert_eq!(check::<Cpu>("250.0"), "Millicores(250)");
        assert_eq!(check::<Cpu>("-0"), "Millicores(0)");
        for refused in ["1000000001", "-1", "0.5", "1e300", "-1e300", "\"250m\"", "null", "[]"] {
            assert_eq!(check::<Cpu>(refused), "refused", "{refused}");
        }
    }

    #[test]
    fn demand_is_from_zero_to_one_and_rounded_to_millionths() {
        assert_eq!(check::<Demand>("0"), "Ratio(0)");
        assert_eq!(check::<Demand>("1"), "Ratio(1000000)");
        assert_eq!(check::<Demand>("0.1234567"), "Ratio(123457)");
        for refused in ["1.0000001", "-0.1", "2", "true", "\"0.5\""] {
            assert_eq!(check::<Demand>(refused), "refused", "{refused}");
        }
    }

    #[test]
    fn a_weight_is_in_range_before_it_is_rounded() {
        assert_eq!(check::<BargainingWeight>("1"), "Weight(1000)");
        assert_eq!(check::<BargainingWeight>("2.5004"), "Weight(2500)");
        assert_eq!(check::<BargainingWeight>("0.001"), "Weight(1)");
        assert_eq!(check::<BargainingWeight>("1000000"), "Weight(1000000000)");
        for refused in ["0", "0.0009999", "-1", "1000000.0004", "1e300", "\"1\""] {
            assert_eq!(check::<BargainingWeight>(refused), "refused", "{refused}");
        }
    }

    #[test]
    fn a_character_that_may_not_be_in_a_name_is_named() {
        let problem = |json: &str| Uid::problem(&serde_json::from_str(json).unwrap());
        let what = Uid::WHAT;
        assert_eq!(
            problem("\"pay\\u202Elor\""),
            format!("contains U+202E, a change of direction; it must be {what}")
        );
        assert_eq!(problem("\"\""), format!("is not {what}"));
        assert_eq!(problem("7"), format!("is not {what}"));
    }

    /// Whether a schema made of a type, a range and lengths allows `json`.
    fn is_allowed(schema: &Value, json: &str) -> bool {
        let keyword = |name: &str| schema.get(name).and_then(Value::as_f64);
        let value: Value = serde_json::from_str(json).unwrap();
        let (kind, size, low, high) = match &value {
            Value::Number(number) if number.is_f64() => {
                ("number", number.as_f64(), "minimum", "maximum")
            }
            Value::Number(number) => ("integer", number.as_f64(), "minimum", "maximum"),
            Value::String(text) => {
                let length = u32::try_from(text.chars().count()).unwrap();
                ("string", Some(f64::from(length)), "minLength", "maxLength")
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                panic!("{json} has no size")
            }
        };
        let type_fits = schema["type"] == kind || schema["type"] == "number" && kind == "integer";
        let size = size.unwrap();
        type_fits && keyword(low).unwrap() <= size && size <= keyword(high).unwrap()
    }

    /// Checks that schema and reader both accept the first and last value of a kind, and both
    /// refuse what comes before and after them.
    fn check_range<K: Kind>(inside: [&str; 2], outside: [&str; 2]) {
        let schema = K::schema().to_value();
        for (values, accepted) in [(inside, true), (outside, false)] {
            for json in values {
                let written: Scalar = serde_json::from_str(json).unwrap();
                assert_eq!(K::accept(&written).is_some(), accepted, "the reader: {json}");
                assert_eq!(is_allowed(&schema, json), accepted, "{schema}: {json}");
            }
        }
    }

    #[test]
    fn the_schema_and_the_reader_agree_about_the_ends_of_each_range() {
        check_range::<Cpu>(["0", "1000000000"], ["-1", "1000000001"]);
        check_range::<Demand>(["0", "1"], ["-0.0000001", "1.0000001"]);
        check_range::<BargainingWeight>(["0.001", "1000000"], ["0.0009999", "1000000.0001"]);
        check_range::<SmallCount>(["0", "4294967295"], ["-1", "4294967296"]);
        // The next whole number is beyond what the library takes for one.
        check_range::<Counter>(["0", "18446744073709551615"], ["-1", "18446744073709551616"]);
        check_range::<Microseconds>(["0", "18446744073709551615"], ["-1", "18446744073709551616"]);
        check_range::<Milliseconds>(["0", "1000000000000000"], ["-1", "1000000000000001"]);
        let of_length = |length: usize| format!("\"{}\"", "ä".repeat(length));
        let (longest, too_long) = (of_length(NAME_MAX), of_length(NAME_MAX + 1));
        check_range::<Uid>(["\"a\"", &longest], ["\"\"", &too_long]);
        check_range::<Family>(["\"a\"", &longest], ["\"\"", &too_long]);
        let table = |bytes: usize| format!("\"{}\"", "7B".repeat(bytes));
        let (largest, too_large) = (table(TABLE_BYTES_MAX), table(TABLE_BYTES_MAX + 1));
        assert!(TableHex::WHAT.contains(&TABLE_BYTES_MAX.to_string()));
        check_range::<TableHex>(["\"\"", &largest], [&too_large, &too_large]);
    }

    #[test]
    fn every_word_that_is_promised_is_accepted() {
        let all = [
            FairnessWord::WHAT,
            ModeWord::WHAT,
            ProfileWord::WHAT,
            LoopWord::WHAT,
            NatureWord::WHAT,
            RequestWord::WHAT,
        ];
        for what in all {
            for word in what.split('"').skip(1).step_by(2) {
                let written = Scalar::Text(word.into());
                let accepted = FairnessWord::accept(&written).is_some()
                    || ModeWord::accept(&written).is_some()
                    || ProfileWord::accept(&written).is_some()
                    || LoopWord::accept(&written).is_some()
                    || NatureWord::accept(&written).is_some()
                    || RequestWord::accept(&written).is_some();
                assert!(accepted, "{word}");
            }
        }
    }
}
