//! What a node knows of one workload: its facts, its samples, what is in force and what was
//! decided.
//!
//! Each loop keeps its own previous sample, so neither shortens the other's window; a third one
//! cuts time into the seconds that the window estimator counts in.

use super::elastic::Appetite;
use super::{Note, WorkloadFacts};
use crate::boost::Boost;
use crate::claim::{CameWith, Nature};
use crate::demand::{self, Reading, Sample, Signal};
use crate::learn;
use crate::market::Grant;
use crate::need::{Bounds, Peak, Window, WindowRule};
use crate::profile::{CapRule, Profile};
use crate::request::{Evidence, RequestRule, RequestWhy, UseRecord};
use crate::smooth::Track;
use crate::smooth::weight::KernelWeight;
use crate::units::{FamilyKey, Millicores, Moment, Ratio, Span, Weight, WorkloadUid};

/// A second may be this much shorter, since no sample is exactly on time.
const SECOND_AT_LEAST: Span = Span::from_ms(900);
/// A workload is hot while it uses this much of its limit.
const HOT_USAGE: Ratio = Ratio::from_percent(80);

/// What is set on a workload right now, as far as decisions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The cap.
    pub limit: Millicores,
    /// The guarantee.
    pub request: Millicores,
    /// The kernel's weight; unknown until it was first set.
    pub weight: Option<KernelWeight>,
    /// The burst buffer.
    pub burst: Millicores,
}

/// What can be told of one workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadReport<'a> {
    /// Its name.
    pub uid: &'a WorkloadUid,
    /// The least and the most it may be granted.
    pub bounds: Bounds,
    /// What its claim counts for.
    pub weight: Weight,
    /// Its counters as they were last read.
    pub latest: Option<&'a Sample>,
    /// What it did since the last clearing, if it was sampled.
    pub signal: Option<&'a Signal>,
    /// What it needed at the last clearing.
    pub need: Option<Millicores>,
    /// What it was granted at the last clearing.
    pub grant: Option<&'a Grant>,
    /// What is set on it.
    pub in_force: InForce,
    /// Whether it misses its latency target.
    pub latency_missed: bool,
    /// Whether it is looked at by every fast tick.
    pub hot: bool,
    /// Its cap, if it takes all it can get while others need theirs.
    pub contained_at: Option<Millicores>,
    /// For whom it is contained, and when that began.
    pub containment: Option<&'a Containment>,
    /// What it came with.
    pub came_with: CameWith,
    /// What it has a right to and does not need: what is lent to others.
    pub lent: Millicores,
    /// Why its request is what it is.
    pub request: RequestReport,
}

/// Why a workload's request is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestReport {
    /// What becomes of it.
    pub rule: RequestRule,
    /// Why it is what it is; nothing before the first clearing, and where caps are not loose.
    pub why: Option<RequestWhy>,
    /// What the family was seen to use, and a margin.
    pub suggested: Option<Millicores>,
    /// For how long it was seen.
    pub evidence: Evidence,
}

/// Why a workload is contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containment {
    /// A workload that waited below its grant when this began.
    pub waiting: WorkloadUid,
    /// What was idle then.
    pub idle: Millicores,
    /// When it began.
    pub since: Moment,
}

#[derive(Clone, Debug)]
pub(super) struct Workload {
    uid: WorkloadUid,
    pub(super) family: FamilyKey,
    pub(super) bounds: Bounds,
    pub(super) weight: Weight,
    pub(super) added_at: Moment,
    pub(super) latest: Option<Sample>,
    pub(super) fast_from: Option<Sample>,
    pub(super) slow_from: Option<Sample>,
    second_from: Option<Sample>,
    pub(super) window: Window,
    pub(super) peak: Peak,
    /// Scales the throttle target of the window estimator: what a learned action sets.
    pub(super) target_factor: Ratio,
    pub(super) signal: Option<Signal>,
    pub(super) need: Option<Millicores>,
    pub(super) headroom_misses: u32,
    pub(super) grant: Option<Grant>,
    pub(super) in_force: InForce,
    /// Whether its limit was found to be lower than what was decided, so that throttling is not the
    /// decision's fault.
    pub(super) held_below: bool,
    pub(super) limit_track: Track,
    pub(super) request_track: Track,
    pub(super) boost: Boost,
    pub(super) last_change: Option<Moment>,
    pub(super) latency_missed: bool,
    pub(super) hot: bool,
    /// How many throttled periods in a row the fast loop saw up to now.
    pub(super) throttled_in_a_row: u64,
    /// Whether there was a new sample at the last clearing.
    pub(super) is_known: bool,
    /// Since when the market could not give it what it needs.
    pub(super) cut_since: Option<Moment>,
    /// The cap of a workload that takes all it can get, while others need theirs.
    pub(super) contained_at: Option<Millicores>,
    /// The same where caps are loose: for whom, and since when.
    pub(super) containment: Option<Containment>,
    /// Whether it was contained and has not been raised since.
    pub(super) was_released: bool,
    pub(super) came_with: CameWith,
    pub(super) nature: Nature,
    /// What it did in its last whole second.
    pub(super) second: Option<Signal>,
    /// How it takes what it can get.
    pub(super) appetite: Appetite,
    pub(super) request_rule: RequestRule,
    /// What it should request.
    pub(super) request_wish: Millicores,
    pub(super) request_why: Option<RequestWhy>,
    /// When its request was last lowered, or when it arrived.
    pub(super) lowered_at: Moment,
    /// Its counters when the window began in which its use is counted.
    pub(super) use_from: Option<Sample>,
    /// Whether it took what it could get within that window.
    pub(super) was_elastic: bool,
    /// What it did since the fast loop last looked.
    pub(super) recent: Option<Signal>,
    /// The state and action of the last clearing, and the allocation before it, to learn from.
    pub(super) lesson: Option<Lesson>,
}

/// What a bidder did last, until its outcome is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lesson {
    pub(super) state: learn::State,
    pub(super) action: learn::Action,
    pub(super) allocation_before: Millicores,
}

impl Workload {
    pub(super) fn new(facts: WorkloadFacts, profile: &Profile, now: Moment) -> Self {
        let family = facts.family.unwrap_or_else(|| FamilyKey::new(facts.uid.as_str()));
        let slots = usize::try_from(profile.window_s).unwrap_or(usize::MAX);
        let request = facts.request.unwrap_or(facts.bounds.min()).min(facts.limit);
        Self {
            family,
            bounds: facts.bounds,
            weight: facts.weight,
            added_at: now,
            latest: None,
            fast_from: None,
            slow_from: None,
            second_from: None,
            window: Window::new(slots, &profile.window_rule()),
            // Its owner thought that it might need that much. A loose cap is never below it anyway.
            peak: match profile.cap_rule {
                CapRule::Grant | CapRule::Tight => {
                    Peak::starting(facts.limit.min(facts.bounds.max()), now)
                }
                CapRule::Loose => Peak::starting(Millicores::ZERO, now),
            },
            target_factor: Ratio::ONE,
            signal: None,
            need: None,
            headroom_misses: 0,
            grant: None,
            in_force: InForce {
                limit: facts.limit.min(Millicores::LIMIT),
                request,
                weight: None,
                burst: Millicores::ZERO,
            },
            held_below: false,
            limit_track: Track::default(),
            request_track: Track::default(),
            boost: Boost::default(),
            last_change: None,
            latency_missed: false,
            hot: true,
            throttled_in_a_row: 0,
            is_known: false,
            cut_since: None,
            contained_at: None,
            containment: None,
            was_released: false,
            came_with: facts.came_with,
            nature: facts.nature,
            second: None,
            appetite: Appetite::default(),
            request_rule: facts.request_rule,
            request_wish: match facts.request_rule {
                RequestRule::Kept | RequestRule::Scaled => {
                    facts.came_with.request.unwrap_or(request)
                }
                RequestRule::Follows => request,
            },
            request_why: None,
            lowered_at: now,
            use_from: None,
            was_elastic: false,
            recent: None,
            lesson: None,
            uid: facts.uid,
        }
    }

    pub(super) const fn uid(&self) -> &WorkloadUid {
        &self.uid
    }

    pub(super) fn report(&self, record: Option<&UseRecord>) -> WorkloadReport<'_> {
        WorkloadReport {
            uid: &self.uid,
            bounds: self.bounds,
            weight: self.weight,
            latest: self.latest.as_ref(),
            signal: self.signal.as_ref(),
            need: self.need,
            grant: self.grant.as_ref(),
            in_force: self.in_force,
            latency_missed: self.latency_missed,
            hot: self.hot,
            contained_at: self.contained_at,
            containment: self.containment.as_ref(),
            came_with: self.came_with,
            lent: self.lent(),
            request: RequestReport {
                rule: self.request_rule,
                why: self.request_why,
                suggested: record.and_then(UseRecord::suggested),
                evidence: record.map(UseRecord::evidence).unwrap_or_default(),
            },
        }
    }

    /// Takes in a sample. What is old is refused; what went backwards starts everything afresh.
    pub(super) fn sampled(&mut self, sample: Sample, profile: &Profile) -> Option<Note> {
        let Some(latest) = self.latest else {
            self.start_from(sample);
            return None;
        };
        match demand::read(&latest, &sample) {
            Reading::OutOfOrder => return Some(Note::SampleOutOfOrder { uid: self.uid.clone() }),
            Reading::Reset => {
                self.start_from(sample);
                return Some(Note::CounterReset { uid: self.uid.clone() });
            }
            Reading::Window(_) | Reading::TooShort => self.latest = Some(sample),
        }
        self.count_seconds(&sample, profile);
        None
    }

    pub(super) fn limit_took_effect(&mut self, at: Moment) {
        self.held_below = false;
        self.boost.took_effect(at);
    }

    /// Takes in that another limit is in force than was decided.
    pub(super) fn limit_found(&mut self, limit: Millicores) {
        let limit = limit.min(Millicores::LIMIT);
        let request = self.in_force.request.min(limit);
        self.held_below = limit < self.in_force.limit;
        // A shrink that is held back goes on being due where nothing moved.
        if limit != self.in_force.limit {
            self.limit_track.was_set(limit);
        }
        if request != self.in_force.request {
            self.request_track.was_set(request);
        }
        self.in_force = InForce { limit, request, weight: None, burst: Millicores::ZERO };
    }

    /// Whether a sample is due: at once for a hot workload, after the interval for a quiet one.
    pub(super) fn is_sample_due(&self, quiet_interval: Span, now: Moment) -> bool {
        match self.latest {
            // Two ticks at once need one sample.
            Some(latest) if now <= latest.at => false,
            Some(latest) => self.hot || now.since(latest.at) >= quiet_interval,
            None => true,
        }
    }

    /// A workload is worth looking at often while it is throttled or close to its limit, and for a
    /// while after a raise, since one burst is often followed by another, and after it arrived,
    /// since it is not known yet.
    pub(super) fn judge_heat(&mut self, signal: &Signal, profile: &Profile, now: Moment) {
        let near_limit = signal.usage >= self.in_force.limit.scale_floor(HOT_USAGE);
        let memory = Span::from_s(u64::from(profile.hot_memory_s));
        self.hot = near_limit
            || self.containment.is_some()
            || signal.throttled_periods > 0
            || self.latency_missed
            || self.boost.was_raised_within(memory, now)
            || now.since(self.added_at) < memory;
    }

    /// Counts throttled periods over the ends of windows. A window with a free period in it ends a
    /// row, since it is not known where in it that period was.
    pub(super) fn count_throttled(&mut self, signal: &Signal) {
        if signal.periods == 0 && signal.usage > Millicores::ZERO {
            // A look once a period may come just too early for the next one.
            return;
        }
        let all = signal.periods > 0 && signal.throttled_periods == signal.periods;
        self.throttled_in_a_row =
            if all { self.throttled_in_a_row.saturating_add(signal.periods) } else { 0 };
    }

    /// What it has a right to and does not need.
    fn lent(&self) -> Millicores {
        let need = self.need.unwrap_or(self.bounds.min());
        self.bounds.min().saturating_sub(need)
    }

    fn start_from(&mut self, sample: Sample) {
        self.latest = Some(sample);
        self.fast_from = Some(sample);
        self.slow_from = Some(sample);
        self.second_from = Some(sample);
        self.use_from = Some(sample);
    }

    fn count_seconds(&mut self, sample: &Sample, profile: &Profile) {
        let Some(from) = self.second_from else {
            return;
        };
        let signal = match demand::read(&from, sample) {
            Reading::Window(signal) => signal,
            Reading::Reset => {
                self.second_from = Some(*sample);
                return;
            }
            Reading::TooShort | Reading::OutOfOrder => return,
        };
        if signal.window < SECOND_AT_LEAST {
            return;
        }
        self.second_from = Some(*sample);
        self.second = Some(signal);
        // A contained workload is hungry by our doing: that says nothing.
        if self.containment.is_none() {
            self.appetite.second_passed(&signal, from.at, profile.contain_after_ms);
        }
        // What a workload would have used had none stood in its way, as far as waiting tells.
        let felt = signal.usage.scale_floor(Ratio::ONE + signal.stall_ratio);
        self.peak.used(felt, sample.at, Span::from_s(u64::from(profile.peak_memory_s)));
        let rule = profile.window_rule();
        let throttle_target = rule.throttle_target.times_floor(self.target_factor);
        let rule = WindowRule { throttle_target, ..rule };
        // More headroom is the answer to throttling under what was decided, not under less.
        let throttled = if self.held_below {
            signal.period_ratio.min(throttle_target)
        } else {
            signal.period_ratio
        };
        let seconds = (signal.window.as_us() + 500_000) / 1_000_000;
        for _ in 0..seconds.min(self.window.slots()) {
            self.window.second_passed(felt, throttled, &rule);
        }
    }
}
