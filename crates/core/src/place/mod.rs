//! What a node scores for a pod that is to be placed, and what a scheduler is told of it.
//!
//! A model gives points, the node's market takes some of them away, and a node about which nothing
//! is known now has neutral points, on its own: the others keep theirs. kube-scheduler is told
//! whole numbers from 0 to 10; in shadow mode all of them are the same, so nothing changes.
//! `breaker` guards a model that is asked over a socket, and `estimate` counts pods that telemetry
//! does not show yet. Points never leave 0 to 100, whatever comes in.

pub mod breaker;
pub mod estimate;

use core::fmt;

use crate::units::{Millicores, Ratio, Span};

/// Points from 0 to 100, in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Points(u16);

/// Whether answers steer placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Score and tell, and answer the same for every node.
    #[default]
    Shadow,
    /// Answer with the points.
    Active,
}

/// How points are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The part of a node's points that its market can take away; 0 leaves the market out.
    pub market_weight: Ratio,
    /// Telemetry that is older tells nothing about now.
    pub stale_after: Span,
}

/// What the market of a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketSays {
    /// The published price; 1 and more is as scarce as it gets.
    pub price: Ratio,
    /// What pods have a right to and do not need now. They may want it back at any moment.
    pub lent: Millicores,
    /// What the node has for pods.
    pub capacity: Millicores,
}

/// What is known of a node when a pod is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What the model says.
    pub model: ModelSays,
    /// How old the node's telemetry is; nothing, where there was none yet.
    pub age: Option<Span>,
    /// What its market says, where it has one.
    pub market: Option<MarketSays>,
}

/// What a model says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSays {
    /// So many points.
    Points(Points),
    /// There is no model.
    NoModel,
    /// What the node measured of itself cannot be scored.
    Unfit,
    /// The model was not asked, did not answer in time, or answered with nonsense.
    Silent,
}

/// Why a node has its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// A model scored it.
    Model,
    /// Neutral: there is no model.
    NoModel,
    /// Neutral: its telemetry cannot be scored.
    Unfit,
    /// Neutral: the model did not answer.
    Silent,
    /// Neutral: it has never reported.
    NoTelemetry,
    /// Neutral: its telemetry is too old.
    Stale,
}

/// What a node scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// After the market.
    pub points: Points,
    /// What the market took away.
    pub paid: Points,
    /// Why.
    pub basis: Basis,
}

/// The best of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// Which one; the first, where several are as good.
    pub place: usize,
    /// Whether no other is as good once points are whole numbers from 0 to 10. A scheduler breaks
    /// ties at random, so nothing can be learned from where it put a pod otherwise.
    pub strictly: bool,
}

/// What a node scores.
#[must_use]
pub fn place(terms: &Terms, candidate: &Candidate) -> Placed {
    let neutral = |basis| Placed { points: Points::NEUTRAL, paid: Points::ZERO, basis };
    match candidate.age {
        None => return neutral(Basis::NoTelemetry),
        Some(age) if age > terms.stale_after => return neutral(Basis::Stale),
        Some(_) => {}
    }
    let (points, basis) = match candidate.model {
        ModelSays::Points(points) => (points, Basis::Model),
        // A price that was measured steers also where no model does.
        ModelSays::NoModel => (Points::NEUTRAL, Basis::NoModel),
        ModelSays::Unfit => return neutral(Basis::Unfit),
        ModelSays::Silent => return neutral(Basis::Silent),
    };
    let scarcity = candidate.market.map_or(Ratio::ZERO, MarketSays::scarcity);
    let taken = terms.market_weight.at_most_one().times_floor(scarcity);
    let paid = points.scale_floor(taken);
    Placed { points: Points(points.0 - paid.0), paid, basis }
}

/// What a scheduler is told of a node, from 0 to 10.
#[must_use]
pub fn answer(mode: Mode, points: Points) -> u8 {
    match mode {
        Mode::Shadow => Points::NEUTRAL.tenth_nearest(),
        Mode::Active => points.tenth_nearest(),
    }
}

/// The best of `all`, if there is one.
#[must_use]
pub fn best(all: impl IntoIterator<Item = Points>) -> Option<Best> {
    let mut found: Option<(usize, Points)> = None;
    let mut as_good = 0_u32;
    for (place, points) in all.into_iter().enumerate() {
        let before = found.map(|(_, points)| points);
        let tenth = before.map(Points::tenth_nearest);
        if tenth.is_none_or(|tenth| points.tenth_nearest() > tenth) {
            as_good = 0;
        } else if tenth == Some(points.tenth_nearest()) {
            as_good += 1;
        }
        if before.is_none_or(|before| points > before) {
            found = Some((place, points));
        }
    }
    found.map(|(place, _)| Best { place, strictly: as_good == 0 })
}

// === impl Points ===

impl Points {
    /// The worst.
    pub const ZERO: Self = Self(0);
    /// Of a node about which nothing can be said.
    pub const NEUTRAL: Self = Self(5_000);
    /// The best.
    pub const MAX: Self = Self(10_000);

    /// So many hundredths of a point, at most 100 points.
    #[must_use]
    pub const fn from_hundredths(hundredths: u16) -> Self {
        if hundredths > Self::MAX.0 { Self::MAX } else { Self(hundredths) }
    }

    /// So many whole points, at most 100.
    #[must_use]
    pub const fn from_whole(points: u8) -> Self {
        Self::from_hundredths(points as u16 * 100)
    }

    /// What a model computed, brought within 0 and 100; nothing if it is no number.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was brought within 0 and 10,000"
    )]
    pub fn from_model_nearest(points: f32) -> Option<Self> {
        points.is_finite().then(|| Self((points.clamp(0.0, 100.0) * 100.0 + 0.5) as u16))
    }

    /// In hundredths of a point.
    #[must_use]
    pub const fn hundredths(self) -> u16 {
        self.0
    }

    /// In whole points.
    #[must_use]
    pub const fn whole_floor(self) -> u16 {
        self.0 / 100
    }

    /// From 0 to 10, as schedulers want it; a half goes up.
    #[must_use]
    pub const fn tenth_nearest(self) -> u8 {
        ((self.0 + 500) / 1000) as u8
    }

    /// A part of it.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a part is no more than the whole")]
    pub fn scale_floor(self, part: Ratio) -> Self {
        let part = part.at_most_one().millionths();
        Self((u64::from(self.0) * part / Ratio::ONE.millionths()) as u16)
    }

    /// What is left; nothing if `other` is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.whole_floor())
    }
}

// === impl Terms ===

impl Terms {
    /// The market takes at most a fifth; telemetry is good for 10 s.
    pub const DEFAULT: Self =
        Self { market_weight: Ratio::from_percent(20), stale_after: Span::from_s(10) };
}

// === impl MarketSays ===

impl MarketSays {
    /// How scarce CPU is, from 0 to 1: by the price, and by half as much as is lent. What is lent
    /// is idle now, but others have a right to it, and a newcomer would have to give it back.
    #[must_use]
    pub fn scarcity(self) -> Ratio {
        let lent = self.lent.ratio_of(self.capacity).at_most_one();
        let left = self.price.at_most_one().complement();
        left.times_floor(lent.times_floor(Ratio::from_percent(50)).complement()).complement()
    }
}

// === impl Mode ===

impl Mode {
    /// Its name in settings and annotations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shadow => "shadow",
            Self::Active => "active",
        }
    }
}

// === impl Basis ===

impl Basis {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Model, Self::NoModel, Self::Unfit, Self::Silent, Self::NoTelemetry, Self::Stale];

    /// Its name in metrics and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::NoModel => "no_model",
            Self::Unfit => "unfit",
            Self::Silent => "silent",
            Self::NoTelemetry => "no_telemetry",
            Self::Stale => "stale",
        }
    }

    /// Why, in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Model => "scored by the model",
            Self::NoModel => "neutral: there is no model",
            Self::Unfit => "neutral: its telemetry cannot be scored",
            Self::Silent => "neutral: the model did not answer",
            Self::NoTelemetry => "neutral: it has never reported telemetry",
            Self::Stale => "neutral: its telemetry is too old",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const FRESH: Option<Span> = Some(Span::from_s(1));

    fn scored(points: u8) -> Candidate {
        let model = ModelSays::Points(Points::from_whole(points));
        Candidate { model, age: FRESH, market: None }
    }

    fn market(price_percent: u32, lent: u64) -> Option<MarketSays> {
        let price = Ratio::from_percent(price_percent);
        let (lent, capacity) = (Millicores::new(lent), Millicores::new(4000));
        Some(MarketSays { price, lent, capacity })
    }

    #[test]
    fn a_node_that_is_not_known_is_neutral_on_its_own() {
        let terms = Terms::DEFAULT;
        let of = |candidate: Candidate| place(&terms, &candidate);
        assert_eq!(of(scored(80)).points, Points::from_whole(80));
        let never = of(Candidate { age: None, ..scored(80) });
        assert_eq!((never.points, never.basis), (Points::NEUTRAL, Basis::NoTelemetry));
        let limit = Candidate { age: Some(Span::from_s(10)), ..scored(80) };
        assert_eq!(of(limit).points, Points::from_whole(80));
        let old = of(Candidate { age: Some(Span::from_ms(10_001)), ..scored(80) });
        assert_eq!((old.points, old.basis), (Points::NEUTRAL, Basis::Stale));
        for (model, basis) in [
            (ModelSays::NoModel, Basis::NoModel),
            (ModelSays::Unfit, Basis::Unfit),
            (ModelSays::Silent, Basis::Silent),
        ] {
            let placed = of(Candidate { model, ..scored(0) });
            assert_eq!((placed.points, placed.basis), (Points::NEUTRAL, basis));
        }
    }

    #[test]
    fn a_market_takes_away_by_price_and_by_what_is_lent() {
        let with = |weight, market| {
            let terms = Terms { market_weight: Ratio::from_percent(weight), ..Terms::DEFAULT };
            place(&terms, &Candidate { market, ..scored(80) }).points
        };
        assert_eq!(with(20, market(0, 0)), Points::from_whole(80));
        // A price of 1 or more: a fifth of 80.
        assert_eq!(with(20, market(100, 0)), Points::from_whole(64));
        assert_eq!(with(20, market(700, 0)), Points::from_whole(64));
        // Half of the node is lent: a quarter as scarce, so a twentieth of 80.
        assert_eq!(with(20, market(0, 2000)), Points::from_whole(76));
        assert_eq!(with(0, market(100, 4000)), Points::from_whole(80));
        assert_eq!(with(100, market(100, 0)), Points::ZERO);
        assert_eq!(with(20, None), Points::from_whole(80));
        // Nothing for pods at all: as scarce as it gets by what is lent.
        let none =
            MarketSays { price: Ratio::ZERO, lent: Millicores::new(1), capacity: Millicores::ZERO };
        assert!(with(20, Some(none)) <= Points::from_whole(80));
    }

    #[test]
    fn a_price_steers_where_there_is_no_model_and_not_where_it_is_silent() {
        let of = |model| {
            let market = market(100, 0);
            place(&Terms::DEFAULT, &Candidate { model, market, age: FRESH }).points
        };
        assert_eq!(of(ModelSays::NoModel), Points::from_whole(40));
        assert_eq!(of(ModelSays::Silent), Points::NEUTRAL);
    }

    #[test]
    fn a_scheduler_is_told_whole_numbers_and_in_shadow_mode_always_the_same() {
        for (points, told) in [(0, 0), (4, 0), (5, 1), (14, 1), (50, 5), (95, 10), (100, 10)] {
            assert_eq!(answer(Mode::Active, Points::from_whole(points)), told, "{points}");
            assert_eq!(answer(Mode::Shadow, Points::from_whole(points)), 5);
        }
        assert_eq!(Points::from_model_nearest(f32::NAN), None);
        assert_eq!(Points::from_model_nearest(1e9), Some(Points::MAX));
        assert_eq!(Points::from_model_nearest(-3.0), Some(Points::ZERO));
        assert_eq!(Points::from_model_nearest(33.333), Some(Points::from_hundredths(3333)));
    }

    #[test]
    fn the_best_is_strictly_so_only_if_a_scheduler_could_tell() {
        let of = |points: &[u8]| best(points.iter().map(|points| Points::from_whole(*points)));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[10]), Some(Best { place: 0, strictly: true }));
        assert_eq!(of(&[10, 80, 30]), Some(Best { place: 1, strictly: true }));
        // 81 and 80 are both told as 8.
        assert_eq!(of(&[10, 80, 81]), Some(Best { place: 2, strictly: false }));
        assert_eq!(of(&[81, 80, 90]), Some(Best { place: 2, strictly: true }));
        assert_eq!(of(&[50, 50]), Some(Best { place: 0, strictly: false }));
    }

    #[test]
    fn points_stay_within_bounds_and_a_dearer_market_never_gains() {
        let mut rng = Rng::from_seed(18);
        for round in 0..20_000 {
            let draw = |rng: &mut Rng, below: u64| rng.next_u64() % below;
            let weight = Ratio::from_millionths(draw(&mut rng, 2_000_000));
            let terms = Terms { market_weight: weight, ..Terms::DEFAULT };
            let points = Points::from_hundredths(u16::try_from(draw(&mut rng, 10_001)).unwrap());
            let says = MarketSays {
                price: Ratio::from_millionths(draw(&mut rng, 3_000_000)),
                lent: Millicores::new(draw(&mut rng, 10_000)),
                capacity: Millicores::new(draw(&mut rng, 8_000)),
            };
            let dearer = MarketSays { price: says.price + Ratio::from_percent(10), ..says };
            let of = |market| {
                let model = ModelSays::Points(points);
                place(&terms, &Candidate { model, age: FRESH, market: Some(market) })
            };
            let placed = of(says);
            let sum = placed.points.hundredths() + placed.paid.hundredths();
            assert_eq!(sum, points.hundredths(), "round {round}");
            assert!(answer(Mode::Active, placed.points) <= 10);
            assert!(of(dearer).points <= placed.points, "round {round}: {says:?}");
        }
    }
}
