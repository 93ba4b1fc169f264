//! How a constant is read from a configuration value and shown again, and what can be wrong with
//! one.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use thiserror::Error;

use super::choice::{BoostRule, CapRule, Estimator, WeightSource};
use crate::market::Fairness;
use crate::units::{Millicores, Ratio, Span};

/// A value as a configuration file holds it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// Any number.
    Number(f64),
    /// A word.
    Word(String),
}

/// What kind of value a constant takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A number with decimals.
    Decimal,
    /// A whole number.
    Whole,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// What is known about one constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// The configuration name.
    pub key: &'static str,
    /// What kind of value it takes.
    pub kind: Kind,
    /// The unit, or the words to choose from.
    pub unit: &'static str,
    /// The smallest number accepted.
    pub low: f64,
    /// The largest number accepted.
    pub high: f64,
    /// Why it exists and why it has the value it has.
    pub reason: &'static str,
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SettingError {
    /// There is no such constant.
    #[error("{key}: no constant of the market has this name")]
    Unknown {
        /// The name as written.
        key: String,
    },
    /// The value is of another kind.
    #[error("{key}: {value} is not {expected}")]
    WrongKind {
        /// The constant.
        key: &'static str,
        /// The value as written.
        value: String,
        /// What would have been accepted.
        expected: String,
    },
    /// The value is out of range.
    #[error("{key}: {value} is outside {low} to {high}")]
    OutOfRange {
        /// The constant.
        key: &'static str,
        /// The value as written.
        value: f64,
        /// The smallest number accepted.
        low: f64,
        /// The largest number accepted.
        high: f64,
    },
    /// Two constants do not go together.
    #[error("{larger}: must be at least {smaller}")]
    Contradiction {
        /// The one that should be larger.
        larger: &'static str,
        /// The one that should be smaller.
        smaller: &'static str,
    },
}

/// A type a constant can have.
pub(super) trait Setting: Sized {
    /// What kind of value it takes.
    const KIND: Kind;
    /// The setting, if `value` is of the right kind and within the type's range.
    fn accept(value: &Value) -> Option<Self>;
    /// The value a configuration file would hold.
    fn show(&self) -> Value;
}

/// Reads a constant, checking kind and range.
pub(super) fn read<S: Setting>(
    key: &'static str,
    value: &Value,
    low: f64,
    high: f64,
) -> Result<S, SettingError> {
    if let (Value::Number(number), Kind::Decimal | Kind::Whole) = (value, S::KIND)
        && !(low..=high).contains(number)
    {
        return Err(SettingError::OutOfRange { key, value: *number, low, high });
    }
    S::accept(value).ok_or_else(|| SettingError::WrongKind {
        key,
        value: value.to_string(),
        expected: S::KIND.to_string(),
    })
}

/// The nearest ratio to a non-negative number; what is negative or not a number becomes zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
pub(super) const fn ratio_nearest(value: f64) -> Ratio {
    Ratio::from_millionths((value * 1e6 + 0.5) as u64)
}

/// A whole number, if `value` is one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked to be whole and in range by converting back"
)]
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let integer = *number as u64;
            (integer as f64 == *number).then_some(integer)
        }
        Value::Flag(_) | Value::Word(_) => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "constants are far below 2^53")]
fn number(value: u64) -> Value {
    Value::Number(value as f64)
}

// === impl Setting ===

impl Setting for bool {
    const KIND: Kind = Kind::Flag;
    fn accept(value: &Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(*flag),
            Value::Number(_) | Value::Word(_) => None,
        }
    }
    fn show(&self) -> Value {
        Value::Flag(*self)
    }
}

impl Setting for u32 {
    const KIND: Kind = Kind::Whole;
    fn accept(value: &Value) -> Option<Self> {
        Self::try_from(whole(value)?).ok()
    }
    fn show(&self) -> Value {
        number(u64::from(*self))
    }
}

impl Setting for Millicores {
    const KIND: Kind = Kind::Whole;
    fn accept(value: &Value) -> Option<Self> {
        whole(value).map(Self::new)
    }
    fn show(&self) -> Value {
        number(self.get())
    }
}

impl Setting for Span {
    const KIND: Kind = Kind::Whole;
    fn accept(value: &Value) -> Option<Self> {
        whole(value).map(Self::from_ms)
    }
    fn show(&self) -> Value {
        number(self.as_ms_floor())
    }
}

impl Setting for Ratio {
    const KIND: Kind = Kind::Decimal;
    fn accept(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(ratio_nearest(*number)),
            Value::Flag(_) | Value::Word(_) => None,
        }
    }
    fn show(&self) -> Value {
        Value::Number(self.to_f64())
    }
}

/// A choice is read and shown by its words.
macro_rules! choice {
    ($type:ty, $($word:literal => $variant:path),+ $(,)?) => {
        impl Setting for $type {
            const KIND: Kind = Kind::Choice(&[$($word),+]);
            fn accept(value: &Value) -> Option<Self> {
                match value {
                    Value::Word(word) => match word.as_str() {
                        $($word => Some($variant),)+
                        _ => None,
                    },
                    Value::Flag(_) | Value::Number(_) => None,
                }
            }
            fn show(&self) -> Value {
                let word = match self {
                    $($variant => $word,)+
                };
                Value::Word(word.to_owned())
            }
        }
    };
}

choice!(Estimator, "spec" => Estimator::Spec, "window" => Estimator::Window);
choice!(Fairness, "proportional" => Fairness::Proportional, "nash" => Fairness::Nash);
choice!(BoostRule, "step" => BoostRule::Step, "double" => BoostRule::Double);
choice!(
    CapRule,
    "grant" => CapRule::Grant,
    "tight" => CapRule::Tight,
    "loose" => CapRule::Loose,
);
choice!(
    WeightSource,
    "request" => WeightSource::Request,
    "weight" => WeightSource::Bargaining,
    "standing" => WeightSource::Standing,
);

// === impl Value, Kind, SettingError ===

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => write!(f, "\"{word}\""),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("true or false"),
            Self::Decimal => f.write_str("a number"),
            Self::Whole => f.write_str("a whole number"),
            Self::Choice(words) => write!(f, "one of \"{}\"", words.join("\", \"")),
        }
    }
}

impl SettingError {
    pub(super) fn unknown(key: &str) -> Self {
        Self::Unknown { key: key.to_owned() }
    }

    pub(super) const fn contradiction(larger: &'static str, smaller: &'static str) -> Self {
        Self::Contradiction { larger, smaller }
    }

    /// The configuration name the error is about.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Unknown { key } => key,
            Self::WrongKind { key, .. } | Self::OutOfRange { key, .. } => key,
            Self::Contradiction { larger, .. } => larger,
        }
    }
}

impl Constant {
    /// What is accepted, in words.
    #[must_use]
    pub fn accepted(&self) -> String {
        match self.kind {
            Kind::Flag | Kind::Choice(_) => self.kind.to_string(),
            Kind::Decimal | Kind::Whole => {
                format!("{} from {} to {}", self.kind, self.low, self.high)
            }
        }
    }
}
