//! What a value of a scenario file can be: its kind, its range, and how both are told to a person.

use toml::de::DeValue;
use walras_core::parse::quantity;
use walras_core::units::{Millicores, Weight};

/// A kind of value.
pub(super) trait Kind {
    /// What a value of this kind is turned into.
    type Meaning;

    /// The meaning of a value; none where it is of another kind or out of range.
    fn accept(&self, written: &DeValue<'_>) -> Option<Self::Meaning>;

    /// What is accepted, to be read after "is not".
    fn what(&self) -> String;
}

/// A number within a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    /// What it counts; may be empty.
    pub(super) of: &'static str,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// A whole number within a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub(super) of: &'static str,
    pub(super) least: u32,
    pub(super) most: u32,
}

/// Where random numbers start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed;

/// CPU as Kubernetes writes it, or a number of millicores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpu;

/// CPU as Kubernetes writes it, or that there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuOrNone;

/// The CPU of a node: a number of cores, or a quantity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores;

/// What a claim counts for.
#[derive(Clone, Copy, Debug)]
pub(super) struct BargainingWeight;

/// Yes or no.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag;

/// A text for people.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) most_bytes: usize,
}

/// One of a few words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<T: 'static> {
    pub(super) all: &'static [(&'static str, T)],
}

/// A number as TOML has it.
fn number(written: &DeValue<'_>) -> Option<f64> {
    match written {
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(nearest_f64)
        }
        DeValue::Float(float) => float.as_str().parse().ok(),
        DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => None,
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn whole(written: &DeValue<'_>) -> Option<u64> {
    match written {
        DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
        DeValue::Float(_) | DeValue::String(_) | DeValue::Boolean(_) => None,
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn text<'a>(written: &'a DeValue<'_>) -> Option<&'a str> {
    match written {
        DeValue::String(text) => Some(text),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => None,
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// A quantity of CPU that is something, and no more than any machine has.
fn cpu(text: &str) -> Option<Millicores> {
    let cpu = quantity(text.as_bytes()).ok()?.millicores_ceil().ok()?;
    (cpu > Millicores::ZERO).then_some(cpu)
}

#[expect(clippy::cast_precision_loss, reason = "whoever asks for decimals gets the nearest")]
const fn nearest_f64(integer: i64) -> f64 {
    integer as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
pub(super) fn nearest_u64(number: f64) -> u64 {
    number.round() as u64
}

// === impl Kind ===

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

impl Kind for Whole {
    type Meaning = u32;

    fn accept(&self, written: &DeValue<'_>) -> Option<u32> {
        let number = u32::try_from(whole(written)?).ok()?;
        (self.least..=self.most).contains(&number).then_some(number)
    }

    fn what(&self) -> String {
        let Self { of, least, most } = self;
        format!("a whole number of {of} from {least} to {most}")
    }
}

impl Kind for Seed {
    type Meaning = u64;

    fn accept(&self, written: &DeValue<'_>) -> Option<u64> {
        whole(written).filter(|&seed| i64::try_from(seed).is_ok())
    }

    fn what(&self) -> String {
        format!("a whole number from 0 to {}", i64::MAX)
    }
}

impl Kind for Cpu {
    type Meaning = Millicores;

    fn accept(&self, written: &DeValue<'_>) -> Option<Millicores> {
        let amounts = Millicores::new(1)..=Millicores::LIMIT;
        match text(written) {
            Some(text) => cpu(text),
            None => whole(written).map(Millicores::new).filter(|cpu| amounts.contains(cpu)),
        }
    }

    fn what(&self) -> String {
        "a quantity of CPU such as \"500m\" or \"1.5\", nor a whole number of millicores from 1 to \
         1000000000"
            .to_owned()
    }
}

impl Kind for CpuOrNone {
    type Meaning = Option<Millicores>;

    fn accept(&self, written: &DeValue<'_>) -> Option<Option<Millicores>> {
        match text(written) {
            Some("none") => Some(None),
            Some(_) | None => Cpu.accept(written).map(Some),
        }
    }

    fn what(&self) -> String {
        format!("\"none\", {}", Cpu.what())
    }
}

impl Kind for Cores {
    type Meaning = Millicores;

    fn accept(&self, written: &DeValue<'_>) -> Option<Millicores> {
        let range = Number { of: "cores", least: 0.001, most: 1e6 };
        match text(written) {
            Some(text) => cpu(text),
            None => range.accept(written).map(|cores| Millicores::new(nearest_u64(cores * 1e3))),
        }
    }

    fn what(&self) -> String {
        "a number of cores from 0.001 to 1000000, nor a quantity of CPU such as \"3500m\""
            .to_owned()
    }
}

impl Kind for BargainingWeight {
    type Meaning = Weight;

    fn accept(&self, written: &DeValue<'_>) -> Option<Weight> {
        // A negative number becomes zero, which no weight is, and a huge one too large for one.
        let thousandths = nearest_u64(number(written)? * 1e3);
        Weight::from_thousandths(u32::try_from(thousandths).ok()?)
    }

    fn what(&self) -> String {
        "a number from 0.001 to 1000000".to_owned()
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

impl Kind for Text {
    type Meaning = String;

    fn accept(&self, written: &DeValue<'_>) -> Option<String> {
        text(written)
            .filter(|text| (1..=self.most_bytes).contains(&text.len()))
            .filter(|text| !text.chars().any(char::is_control))
            .map(str::to_owned)
    }

    fn what(&self) -> String {
        format!("a text of 1 to {} bytes without control characters", self.most_bytes)
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
