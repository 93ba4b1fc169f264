//! What only a value of a scenario file can be: its kind, its range, and how a person is told.

use toml::de::DeValue;
use walras_core::parse::quantity;
use walras_core::units::Millicores;
use walras_wire::settings::{Kind, Number, nearest_u64, text, whole};

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

/// A text for people.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) most_bytes: usize,
}

/// A quantity of CPU that is something, and no more than any machine has.
fn cpu(text: &str) -> Option<Millicores> {
    let cpu = quantity(text.as_bytes()).ok()?.millicores_ceil().ok()?;
    (cpu > Millicores::ZERO).then_some(cpu)
}

// === impl Kind ===

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
