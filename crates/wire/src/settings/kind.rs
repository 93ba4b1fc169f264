//! What a setting can be: its kind, its range, and how both are told to a person.
//!
//! A kind that only one file has stands beside the reader of that file.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

use toml::de::DeValue;
use walras_core::parse::quantity;
use walras_core::units::{Millicores, Weight};

/// No address and no query that people write is longer, in bytes.
const TEXT_MAX: usize = 4096;

/// A kind of value.
pub trait Kind {
    /// What a value of this kind is turned into.
    type Meaning;

    /// The meaning of a value; none where it is of another kind or out of range.
    fn accept(&self, written: &DeValue<'_>) -> Option<Self::Meaning>;

    /// What is accepted, to be read after "is not".
    fn what(&self) -> String;
}

/// A whole number within a range.
#[derive(Clone, Copy, Debug)]
pub struct Whole<T> {
    /// What it counts.
    pub of: &'static str,
    /// The least that is accepted.
    pub least: T,
    /// The most that is accepted.
    pub most: T,
}

/// CPU as Kubernetes writes it, or a number of cores.
#[derive(Clone, Copy, Debug)]
pub struct Cpu;

/// What a claim counts for.
#[derive(Clone, Copy, Debug)]
pub struct BargainingWeight;

/// A time in milliseconds that need not be whole.
#[derive(Clone, Copy, Debug)]
pub struct Latency;

/// Yes or no.
#[derive(Clone, Copy, Debug)]
pub struct Flag;

/// An address to listen on.
#[derive(Clone, Copy, Debug)]
pub struct Address;

/// The name of a machine.
#[derive(Clone, Copy, Debug)]
pub struct HostName;

/// Where a server answers by HTTP.
#[derive(Clone, Copy, Debug)]
pub struct HttpAddress;

/// A question in the language of Prometheus.
#[derive(Clone, Copy, Debug)]
pub struct Query;

/// A number within a range.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// What it counts; may be empty.
    pub of: &'static str,
    /// The least that is accepted.
    pub least: f64,
    /// The most that is accepted.
    pub most: f64,
}

/// A path that starts at the root.
#[derive(Clone, Copy, Debug)]
pub struct AbsolutePath;

/// One of a few words.
#[derive(Clone, Copy, Debug)]
pub struct Word<T: 'static> {
    /// The words, with their meanings.
    pub all: &'static [(&'static str, T)],
}

/// A number as TOML has it.
#[must_use]
pub fn number(written: &DeValue<'_>) -> Option<f64> {
    match written {
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(nearest_f64)
        }
        DeValue::Float(float) => float.as_str().parse().ok(),
        DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => None,
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// A whole number as TOML has it.
#[must_use]
pub fn whole(written: &DeValue<'_>) -> Option<u64> {
    match written {
        DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
        DeValue::Float(_) | DeValue::String(_) | DeValue::Boolean(_) => None,
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// A text as TOML has it.
#[must_use]
pub fn text<'a>(written: &'a DeValue<'_>) -> Option<&'a str> {
    match written {
        DeValue::String(text) => Some(text),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => None,
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// CPU in words: a quantity that is something, and no more than any machine has.
#[must_use]
pub fn cpu_from(text: &str) -> Option<Millicores> {
    let cpu = quantity(text.trim().as_bytes()).ok()?.millicores_ceil().ok()?;
    (cpu > Millicores::ZERO).then_some(cpu)
}

/// A bargaining weight from a number.
#[must_use]
pub fn weight_from(number: f64) -> Option<Weight> {
    // A negative number becomes zero, which no weight is, and a huge one too large for one.
    Weight::from_thousandths(u32::try_from(nearest_u64(number * 1e3)).ok()?)
}

/// A latency target, if it is one: up to an hour.
#[must_use]
pub fn latency_from(number: f64) -> Option<f64> {
    (number > 0.0 && number <= 3_600_000.0).then_some(number)
}

#[expect(clippy::cast_precision_loss, reason = "a decimal is the nearest")]
const fn nearest_f64(integer: i64) -> f64 {
    integer as f64
}

/// The nearest whole number; the closest there is where it is out of range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
#[must_use]
pub fn nearest_u64(number: f64) -> u64 {
    number.round() as u64
}

// === impl Kind ===

impl<T: TryFrom<u64> + PartialOrd + Display + Copy> Kind for Whole<T> {
    type Meaning = T;

    fn accept(&self, written: &DeValue<'_>) -> Option<T> {
        let number = T::try_from(whole(written)?).ok()?;
        (self.least..=self.most).contains(&number).then_some(number)
    }

    fn what(&self) -> String {
        let Self { of, least, most } = self;
        format!("a whole number of {of} from {least} to {most}")
    }
}

impl Kind for Cpu {
    type Meaning = Millicores;

    fn accept(&self, written: &DeValue<'_>) -> Option<Millicores> {
        match text(written) {
            Some(text) => cpu_from(text),
            None => {
                let milli = nearest_u64(number(written)? * 1e3);
                let amounts = 1..=Millicores::LIMIT.get();
                amounts.contains(&milli).then_some(Millicores::new(milli))
            }
        }
    }

    fn what(&self) -> String {
        "CPU such as \"500m\", or a number of cores such as 1.5".to_owned()
    }
}

impl Kind for BargainingWeight {
    type Meaning = Weight;

    fn accept(&self, written: &DeValue<'_>) -> Option<Weight> {
        weight_from(number(written)?)
    }

    fn what(&self) -> String {
        "a number from 0.001 to 1000000".to_owned()
    }
}

impl Kind for Latency {
    type Meaning = f64;

    fn accept(&self, written: &DeValue<'_>) -> Option<f64> {
        latency_from(number(written)?)
    }

    fn what(&self) -> String {
        "a number of milliseconds above 0 and at most 3600000".to_owned()
    }
}

impl Kind for Flag {
    type Meaning = bool;

    fn accept(&self, written: &DeValue<'_>) -> Option<bool> {
        match written {
            DeValue::Boolean(flag) => Some(*flag),
            DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => None,
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
        }
    }

    fn what(&self) -> String {
        "true or false".to_owned()
    }
}

impl Kind for Address {
    type Meaning = SocketAddr;

    fn accept(&self, written: &DeValue<'_>) -> Option<SocketAddr> {
        text(written)?.parse().ok()
    }

    fn what(&self) -> String {
        "an address with a port, such as \"127.0.0.1:8082\" or \"[::1]:8082\"".to_owned()
    }
}

impl Kind for HostName {
    type Meaning = String;

    fn accept(&self, written: &DeValue<'_>) -> Option<String> {
        let name = text(written)?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        let is_name = (1..=253).contains(&name.len()) && name.bytes().all(fits);
        is_name.then(|| name.to_ascii_lowercase())
    }

    fn what(&self) -> String {
        "the name of a machine, such as \"web1.example\"".to_owned()
    }
}

impl Kind for HttpAddress {
    type Meaning = String;

    fn accept(&self, written: &DeValue<'_>) -> Option<String> {
        let url = text(written)?;
        let rest = url.strip_prefix("http://")?;
        let fits = !rest.is_empty()
            && url.len() <= TEXT_MAX
            && url.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| url.to_owned())
    }

    fn what(&self) -> String {
        "an address that starts with http://, such as \"http://127.0.0.1:9090\"".to_owned()
    }
}

impl Kind for Query {
    type Meaning = String;

    fn accept(&self, written: &DeValue<'_>) -> Option<String> {
        let query = text(written)?;
        let fits = !query.trim().is_empty() && query.len() <= TEXT_MAX;
        fits.then(|| query.to_owned())
    }

    fn what(&self) -> String {
        format!(
            "a query of Prometheus of at most {TEXT_MAX} bytes, in which $name, $uid and $kind \
                 stand for a workload"
        )
    }
}

impl Kind for Number {
    type Meaning = f64;

    fn accept(&self, written: &DeValue<'_>) -> Option<f64> {
        number(written).filter(|number| (self.least..=self.most).contains(number))
    }

    fn what(&self) -> String {
        let Self { of, least, most } = self;
        let of = if of.is_empty() { String::new() } else { format!(" of {of}") };
        format!("a number{of} from {least} to {most}")
    }
}

impl Kind for AbsolutePath {
    type Meaning = PathBuf;

    fn accept(&self, written: &DeValue<'_>) -> Option<PathBuf> {
        let path = PathBuf::from(text(written)?);
        path.is_absolute().then_some(path)
    }

    fn what(&self) -> String {
        "a path that starts with /".to_owned()
    }
}

impl<T: Copy> Kind for Word<T> {
    type Meaning = T;

    fn accept(&self, written: &DeValue<'_>) -> Option<T> {
        let word = text(written)?;
        self.all.iter().find(|(name, _)| *name == word).map(|(_, meaning)| *meaning)
    }

    fn what(&self) -> String {
        let names: Vec<String> = self.all.iter().map(|(name, _)| format!("{name:?}")).collect();
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}
