//! The cases in `testdata/decide`: worked examples of the predecessor's documents, with their
//! errors corrected, and the edges of each rule.

mod constants;
mod fixture;

use std::collections::BTreeMap;
use std::fmt::Write;

use fixture::Case;
use walras_core::boost::{self, Boost, BurstRoom, FastFacts, Step};
use walras_core::demand::{self, Reading, Sample, Signal};
use walras_core::market::{self, Bid, Fairness, Mode, Terms};
use walras_core::need::{self, Bounds, SpecFacts, Window};
use walras_core::profile::{Profile, ProfileName};
use walras_core::smooth::fit::{Cap, Guarantee, fit_limits, fit_requests};
use walras_core::smooth::weight::kernel_weight;
use walras_core::smooth::{self, Guards, Track, Verdict, Wish};
use walras_core::units::{Millicores, Moment, Ratio, Span, Weight};

#[test]
fn demand_is_read_from_two_samples() {
    check(include_str!("../testdata/decide/demand.txt"));
}

#[test]
fn need_follows_demand_and_usage() {
    check(include_str!("../testdata/decide/need.txt"));
}

#[test]
fn the_market_clears_as_documented() {
    check(include_str!("../testdata/decide/market.txt"));
}

#[test]
fn the_fast_loop_raises_as_documented() {
    check(include_str!("../testdata/decide/boost.txt"));
}

#[test]
fn wishes_are_damped_and_made_to_fit() {
    check(include_str!("../testdata/decide/smooth.txt"));
}

fn check(text: &str) {
    for case in fixture::read(text) {
        let actual = match case.kind.as_str() {
            "demand" => show_demand(&case),
            "spec" => show_spec(&case),
            "window" => show_window(&case),
            "market" => show_market(&case),
            "step" => show_step(&case),
            "decay" => show_decay(&case),
            "burst" => show_burst(&case),
            "damp" => show_damp(&case),
            "requests" => show_requests(&case),
            "limits" => show_limits(&case),
            "weight" => show_weight(&case),
            unknown => panic!("no checker for {unknown}"),
        };
        fixture::compare(&case, &actual);
    }
}

// === One checker per decision: text in, text out ===

/// Two lines: the counters of the older sample and of the newer one.
fn show_demand(case: &Case) -> String {
    let samples: Vec<Sample> = case.input.lines().map(|line| sample(&Words::of(line))).collect();
    match demand::read(&samples[0], &samples[1]) {
        Reading::Window(signal) => format!(
            "usage {} throttle {} periods {} stall {} demand {}",
            signal.usage,
            signal.throttle_ratio,
            signal.period_ratio,
            signal.stall_ratio,
            signal.demand
        ),
        other @ (Reading::Reset | Reading::TooShort | Reading::OutOfOrder) => format!("{other:?}"),
    }
}

/// Each line a workload; each result its need.
fn show_spec(case: &Case) -> String {
    per_line(case, |words| {
        let facts = SpecFacts {
            demand: words.ratio("demand").unwrap_or_default(),
            usage: words.milli("usage"),
            headroom_misses: words.count("misses"),
        };
        need::spec(words.bounds(), &facts).to_string()
    })
}

/// First the bounds and the number of slots, then `usage periods` seconds; the need after each.
fn show_window(case: &Case) -> String {
    let mut lines = case.input.lines();
    let words = Words::of(lines.next().expect("a first line"));
    let rule = words.profile().window_rule();
    let mut window = Window::new(words.count("slots") as usize, &rule);
    let mut shown = format!("{:?}\n", window.need(words.bounds(), &rule));
    for line in lines {
        let second = Words::of(line);
        let ratio = second.ratio("throttled").unwrap_or_default();
        window.second_passed(second.milli("usage").expect("a usage"), ratio, &rule);
        let need = window.need(words.bounds(), &rule).expect("one second is known");
        writeln!(shown, "{need} headroom {}", window.headroom()).expect("a string takes all");
    }
    shown
}

/// First the terms, then a workload a line, in uid order.
fn show_market(case: &Case) -> String {
    let mut lines = case.input.lines();
    let words = Words::of(lines.next().expect("a first line"));
    let terms = Terms {
        capacity: words.milli("capacity").expect("a capacity"),
        fairness: match words.text("fairness") {
            Some("nash") => Fairness::Nash,
            Some("proportional") | None => Fairness::Proportional,
            Some(other) => panic!("fairness {other}"),
        },
        demand_capped: words.text("capped") != Some("no"),
        previous_mode: words.text("previous").map(mode),
        scarce: words.text("scarce").map(|word| word == "yes"),
        weight_unit: words.weight(),
    };
    let workloads: Vec<Words> = lines.map(Words::of).collect();
    let bids: Vec<Bid> = workloads
        .iter()
        .map(|workload| {
            Bid::new(workload.bounds(), workload.milli("need").expect("a need"), workload.weight())
        })
        .collect();
    let clearing = market::clear(&terms, &bids);
    let mut shown = format!(
        "{} price {} multiplier {} total {}\n",
        clearing.mode, clearing.price, clearing.multiplier, clearing.total_grant
    );
    for (workload, grant) in workloads.iter().zip(&clearing.grants) {
        let (name, reason) = (&workload.name, grant.reason.code());
        writeln!(shown, "{name} {} cut {} {reason}", grant.amount, grant.reduction)
            .expect("a string takes all");
    }
    shown
}

fn show_step(case: &Case) -> String {
    per_line(case, |words| {
        let periods = words.count("periods");
        let throttled = words.count("throttled");
        let facts = FastFacts {
            limit: words.milli("limit").expect("a limit"),
            max: words.milli("max").expect("a max"),
            peak: words.milli("peak").unwrap_or_default(),
            signal: Signal {
                usage: words.milli("usage").unwrap_or_default(),
                throttle_ratio: words.ratio("throttle").unwrap_or_default(),
                periods: u64::from(periods),
                throttled_periods: u64::from(throttled),
                period_ratio: Ratio::of(u64::from(throttled), u64::from(periods)),
                ..Signal::default()
            },
            throttled_in_a_row: u64::from(words.count("row")),
            latency_missed: words.text("latency") == Some("missed"),
        };
        match boost::step(&words.profile(), &facts) {
            Step::Calm => "calm".to_owned(),
            Step::AtMax => "at max".to_owned(),
            Step::LateElsewhere => "CPU is not what it lacks".to_owned(),
            Step::Throttled(limit) => format!("raise to {limit}"),
            Step::Late(limit) => format!("late: raise to {limit}"),
        }
    })
}

fn show_decay(case: &Case) -> String {
    per_line(case, |words| {
        let profile = words.profile();
        let mut boost = Boost::default();
        boost.raised(words.milli("target").expect("a target"), &profile, Moment::ORIGIN);
        let base = words.milli("base").expect("a base");
        boost.limit(base, &profile, words.moment("after_ms")).to_string()
    })
}

fn show_burst(case: &Case) -> String {
    per_line(case, |words| {
        let room = BurstRoom {
            limits: words.milli("limits").unwrap_or_default(),
            spare: words.milli("spare").unwrap_or_default(),
        };
        let limit = words.milli("limit").expect("a limit");
        boost::burst(&words.profile(), mode(&words.name), limit, room).to_string()
    })
}

/// First what is in force, then a wish a line with its time; what becomes of each.
fn show_damp(case: &Case) -> String {
    let mut lines = case.input.lines();
    let words = Words::of(lines.next().expect("a first line"));
    let (profile, mut track) = (words.profile(), Track::default());
    let mut in_force = words.milli("in_force").expect("what is in force");
    let mut shown = String::new();
    for line in lines {
        let wish = Words::of(line);
        let guards = Guards {
            grace_until: words.moment("grace_ms"),
            cooldown_until: words.moment("cooldown_ms"),
        };
        let amount = wish.milli("wish").expect("a wish");
        let now = wish.moment("at_ms");
        let wish = match words.text("kind") {
            Some("request") => {
                Wish::Request { amount, least: words.milli("least").unwrap_or_default() }
            }
            Some(_) | None => {
                Wish::Limit { amount, most: words.milli("most").unwrap_or(Millicores::LIMIT) }
            }
        };
        match smooth::damp(&profile, &mut track, in_force, wish, &guards, now) {
            Verdict::Keep => writeln!(shown, "keep"),
            Verdict::Hold(until) => writeln!(shown, "hold until {}", until.as_ms_floor()),
            Verdict::Change(to) => {
                in_force = to;
                writeln!(shown, "change to {to}")
            }
        }
        .expect("a string takes all");
    }
    shown
}

fn show_requests(case: &Case) -> String {
    let mut lines = case.input.lines();
    let words = Words::of(lines.next().expect("a first line"));
    let mut workloads: Vec<Guarantee> = lines
        .map(Words::of)
        .map(|workload| Guarantee {
            grant: workload.milli("grant").expect("a grant"),
            request: workload.milli("request").expect("a request"),
            min: workload.milli("min").unwrap_or_default(),
        })
        .collect();
    let capacity = words.milli("capacity").expect("a capacity");
    let forced = fit_requests(&words.profile(), capacity, &mut workloads);
    let requests: Vec<String> =
        workloads.iter().map(|workload| workload.request.to_string()).collect();
    format!("{} {}", if forced { "forced" } else { "as is" }, requests.join(" "))
}

fn show_limits(case: &Case) -> String {
    let mut lines = case.input.lines();
    let words = Words::of(lines.next().expect("a first line"));
    let mut workloads: Vec<Cap> = lines
        .map(Words::of)
        .map(|workload| Cap {
            floor: workload.milli("floor").expect("a floor"),
            request: workload.milli("floor").expect("a floor"),
            limit: workload.milli("limit").expect("a limit"),
            weight: workload.weight(),
        })
        .collect();
    let budget = words.milli("budget").expect("a budget");
    let forced = fit_limits(&words.profile(), budget, &mut workloads);
    let limits: Vec<String> = workloads.iter().map(|workload| workload.limit.to_string()).collect();
    format!("{} {}", if forced { "forced" } else { "as is" }, limits.join(" "))
}

fn show_weight(case: &Case) -> String {
    per_line(case, |words| {
        let request = words.milli("request").unwrap_or_default();
        kernel_weight(&words.profile(), request, words.weight()).get().to_string()
    })
}

// === Reading `name key=value key=value` ===

struct Words {
    name: String,
    values: BTreeMap<String, String>,
}

impl Words {
    fn of(line: &str) -> Self {
        let mut words = Self { name: String::new(), values: BTreeMap::new() };
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) => {
                    words.values.insert(key.to_owned(), value.to_owned());
                }
                None => word.clone_into(&mut words.name),
            }
        }
        words
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.text(key).map(|text| text.parse().unwrap_or_else(|_| panic!("{key}={text}")))
    }

    fn milli(&self, key: &str) -> Option<Millicores> {
        self.number(key).map(Millicores::new)
    }

    fn count(&self, key: &str) -> u32 {
        u32::try_from(self.number(key).unwrap_or(0)).expect("a small number")
    }

    fn moment(&self, key: &str) -> Moment {
        Moment::from_ms(self.number(key).unwrap_or(0))
    }

    /// A ratio in decimals, read without floats.
    fn ratio(&self, key: &str) -> Option<Ratio> {
        let (whole, rest) = match self.text(key)?.split_once('.') {
            Some((whole, rest)) => (whole, rest),
            None => (self.text(key)?, ""),
        };
        let millionths: u64 = format!("{rest:0<6}").parse().expect("decimals");
        Some(Ratio::from_millionths(whole.parse::<u64>().expect("digits") * 1_000_000 + millionths))
    }

    fn bounds(&self) -> Bounds {
        let max = self.milli("max").unwrap_or(Millicores::LIMIT);
        Bounds::new(self.milli("min").unwrap_or_default(), max)
    }

    fn weight(&self) -> Weight {
        let millionths = self.ratio("weight").unwrap_or(Ratio::ONE).millionths();
        let thousandths = u32::try_from(millionths / 1000).expect("a small weight");
        Weight::from_thousandths(thousandths).expect("a weight above zero")
    }

    fn profile(&self) -> Profile {
        match self.text("profile") {
            Some("seed") => constants::pinned(ProfileName::Seed),
            Some("api") => constants::pinned(ProfileName::Api),
            Some("tight") | None => constants::pinned(ProfileName::Tight),
            Some(other) => panic!("profile {other}"),
        }
    }
}

fn sample(words: &Words) -> Sample {
    let span = |key| Span::from_ms(words.number(key).unwrap_or(0));
    Sample {
        at: words.moment("at_ms"),
        usage: span("used_ms"),
        throttled: span("throttled_ms"),
        nr_periods: words.number("periods").unwrap_or(0),
        nr_throttled: words.number("throttled").unwrap_or(0),
        stalled: words.text("stalled_ms").map(|_| span("stalled_ms")),
    }
}

fn mode(name: &str) -> Mode {
    [Mode::Uncongested, Mode::Congested, Mode::Overloaded]
        .into_iter()
        .find(|mode| mode.name() == name)
        .unwrap_or_else(|| panic!("mode {name}"))
}

fn per_line(case: &Case, show: impl Fn(&Words) -> String) -> String {
    case.input.lines().map(|line| show(&Words::of(line)) + "\n").collect()
}
