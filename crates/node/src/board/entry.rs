//! What the board keeps of one workload: a copy of the node's report, rates between its samples,
//! points of the last hour, and the last changes and notes.
//!
//! Memory per workload is bounded, whatever happens to it. Changes and notes are kept as data and
//! become text when they are asked for.

use std::collections::VecDeque;
use std::mem;

use walras_core::demand::{self, Reading, Sample, Signal};
use walras_core::market::Grant;
use walras_core::need::Bounds;
use walras_core::node::{
    Action, InForce, Loop, Note, RequestReport, Why, WorkloadFacts, WorkloadReport,
};
use walras_core::units::{Millicores, Span, Weight, WorkloadUid};
use walras_wire::state::ChangeResult;

use super::history::{Point, Points};
use super::wishes::Wishes;
use super::{OwnerSet, WorkloadLabel};

/// So many changes and so many notes are kept of each workload.
const KEPT: usize = 20;
/// Rates are taken over at least this long: a second, give or take what sampling is late.
const RATE_WINDOW: Span = Span::from_ms(900);

/// What is known of one workload.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) uid: WorkloadUid,
    pub(super) label: WorkloadLabel,
    pub(super) bounds: Bounds,
    pub(super) weight: Weight,
    pub(super) in_force: InForce,
    pub(super) need: Option<Millicores>,
    pub(super) grant: Option<Grant>,
    pub(super) latency_missed: bool,
    pub(super) hot: bool,
    /// What it has a right to and does not need.
    pub(super) lent: Millicores,
    /// Who waited when it was contained, if it is.
    pub(super) contained_for: Option<WorkloadUid>,
    pub(super) request: Option<RequestReport>,
    /// What it did between the last clearing and the one before.
    pub(super) cleared: Option<Signal>,
    /// What it did in the last second.
    pub(super) lately: Option<Signal>,
    pub(super) points: Points,
    /// Newest first.
    pub(super) changes: VecDeque<Made>,
    /// Newest first.
    pub(super) notes: VecDeque<Noted>,
    /// What would be done to it where nothing is.
    pub(super) wishes: Wishes,
    /// What its owner set on it last, while it was sized.
    pub(super) owner_set: Option<OwnerSet>,
    latest: Option<Sample>,
    rate_from: Option<Sample>,
    point_from: Option<Sample>,
}

/// A change that was made, or tried.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) at_ms: u64,
    pub(super) tick: Loop,
    pub(super) from: Setting,
    pub(super) to: Setting,
    pub(super) why: Why,
    pub(super) result: ChangeResult,
}

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) limit: Millicores,
    pub(super) request: Millicores,
}

/// Something that was noticed, with the number of times it was so in a row.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) at_ms: u64,
    pub(super) note: Note,
    pub(super) times: u32,
}

// === impl Entry ===

impl Entry {
    pub(super) fn new(facts: &WorkloadFacts, label: WorkloadLabel) -> Self {
        Self {
            uid: facts.uid.clone(),
            label,
            bounds: facts.bounds,
            weight: facts.weight,
            in_force: InForce {
                limit: facts.limit,
                request: facts.request.unwrap_or(facts.bounds.min()),
                weight: None,
                burst: Millicores::ZERO,
            },
            need: None,
            grant: None,
            latency_missed: false,
            hot: true,
            lent: Millicores::ZERO,
            contained_for: None,
            request: None,
            cleared: None,
            lately: None,
            points: Points::default(),
            changes: VecDeque::new(),
            notes: VecDeque::new(),
            wishes: Wishes::default(),
            owner_set: None,
            latest: None,
            rate_from: None,
            point_from: None,
        }
    }

    /// Takes the facts of `new`, and keeps what happened before.
    pub(super) fn replace_by(&mut self, new: Self) {
        let old = mem::replace(self, new);
        self.points = old.points;
        self.changes = old.changes;
        self.notes = old.notes;
        self.wishes = old.wishes;
        self.owner_set = old.owner_set;
    }

    /// Takes in what the node knows of the workload after a tick.
    pub(super) fn look_at(&mut self, report: &WorkloadReport<'_>, tick: Loop) {
        let known = |sample: &Sample| self.latest.is_some_and(|latest| latest.at == sample.at);
        // Between clearings most workloads are quiet, and nothing of them can have changed.
        if tick == Loop::Fast
            && report.latest.is_some_and(known)
            && report.in_force == self.in_force
            && report.latency_missed == self.latency_missed
        {
            return;
        }
        self.bounds = report.bounds;
        self.weight = report.weight;
        self.in_force = report.in_force;
        self.need = report.need;
        self.grant = report.grant.copied();
        self.latency_missed = report.latency_missed;
        self.hot = report.hot;
        self.lent = report.lent;
        self.contained_for = report.containment.map(|why| why.waiting.clone());
        self.request = Some(report.request);
        self.cleared = report.signal.copied();
        self.latest = report.latest.copied();
        if let Some(signal) = rate(&mut self.rate_from, self.latest, RATE_WINDOW) {
            self.lately = Some(signal);
        }
    }

    /// The point of the last hour that ends now.
    pub(super) fn point(&mut self) -> (Point, Option<Signal>) {
        let signal = rate(&mut self.point_from, self.latest, demand::WINDOW_FLOOR);
        let point = Point {
            usage: signal.map(|signal| signal.usage),
            need: self.need,
            request: Some(self.in_force.request),
            limit: Some(self.in_force.limit).filter(|limit| !limit.is_unlimited()),
            throttled: signal.map(|signal| signal.period_ratio),
        };
        (point, signal)
    }

    /// An action was carried out, or was not.
    pub(super) fn changed(
        &mut self,
        action: &Action,
        tick: Loop,
        result: ChangeResult,
        at_ms: u64,
    ) {
        let InForce { limit, request, .. } = self.in_force;
        let to = Setting { limit: action.limit, request: action.request };
        if result == ChangeResult::OnlyWatching && !self.wishes.wished(to, at_ms) {
            return;
        }
        let made = Made {
            at_ms,
            tick,
            from: Setting { limit, request },
            to,
            why: action.why.clone(),
            result,
        };
        if self.changes.front().is_some_and(|last| made.repeats(last)) {
            self.changes.pop_front();
        }
        keep(&mut self.changes, made);
    }

    /// The last change was asked for, and took effect.
    pub(super) fn took_effect(&mut self) {
        if let Some(last) = self.changes.front_mut().filter(|it| it.result == ChangeResult::Asked) {
            last.result = ChangeResult::Done;
        }
    }

    /// Something was noticed. What is noticed again and again is kept once, and counted.
    pub(super) fn noticed(&mut self, note: &Note, at_ms: u64) {
        match self.notes.front_mut() {
            Some(last) if mem::discriminant(&last.note) == mem::discriminant(note) => {
                *last = Noted { at_ms, note: note.clone(), times: last.times.saturating_add(1) };
            }
            Some(_) | None => {
                keep(&mut self.notes, Noted { at_ms, note: note.clone(), times: 1 });
            }
        }
    }
}

// === impl Made ===

impl Made {
    /// Whether it says no more than the one before. Weights that are trimmed again and again would
    /// push out the rest.
    fn repeats(&self, last: &Self) -> bool {
        if self.result != last.result {
            return false;
        }
        match self.result {
            ChangeResult::Done => self.why == Why::Trimmed && last.why == Why::Trimmed,
            ChangeResult::Asked | ChangeResult::OnlyWatching | ChangeResult::Failed(_) => {
                self.to == last.to
            }
        }
    }
}

fn keep<T>(kept: &mut VecDeque<T>, new: T) {
    kept.truncate(KEPT - 1);
    kept.push_front(new);
}

/// What happened from `from` to `latest`, once that is long enough; then `from` moves on.
fn rate(from: &mut Option<Sample>, latest: Option<Sample>, at_least: Span) -> Option<Signal> {
    let latest = latest?;
    let Some(since) = *from else {
        *from = Some(latest);
        return None;
    };
    if latest.at == since.at {
        return None;
    }
    match demand::read(&since, &latest) {
        Reading::Window(signal) if signal.window >= at_least => {
            *from = Some(latest);
            Some(signal)
        }
        Reading::Window(_) | Reading::TooShort => None,
        Reading::Reset | Reading::OutOfOrder => {
            *from = Some(latest);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::WorkloadKind;
    use walras_core::claim::{CameWith, Nature};
    use walras_core::node::{Node, Outcome};
    use walras_core::profile::Profile;
    use walras_core::request::RequestRule;
    use walras_core::smooth::weight::KernelWeight;
    use walras_core::units::Moment;

    fn entry() -> Entry {
        let facts = WorkloadFacts {
            uid: WorkloadUid::new("u"),
            family: None,
            bounds: Bounds::new(Millicores::new(100), Millicores::new(2000)),
            weight: Weight::ONE,
            limit: Millicores::new(500),
            request: None,
            came_with: CameWith::default(),
            nature: Nature::Unknown,
            request_rule: RequestRule::Kept,
        };
        let name = "web".to_owned();
        let label = WorkloadLabel {
            name,
            kind: WorkloadKind::Path,
            original_limit: None,
            target_latency_ms: None,
        };
        Entry::new(&facts, label)
    }

    /// The limits of the changes that are kept, newest first, after those in `limits`.
    fn check(limits: &[u64], why: &Why, result: &ChangeResult) -> Vec<u64> {
        let mut entry = entry();
        for (at_ms, limit) in (0..).zip(limits) {
            let limit = Millicores::new(*limit);
            let action = Action {
                uid: entry.uid.clone(),
                limit,
                request: limit,
                weight: KernelWeight::from_request(limit),
                burst: Millicores::ZERO,
                why: why.clone(),
            };
            entry.changed(&action, Loop::Slow, result.clone(), at_ms);
        }
        entry.changes.iter().map(|made| made.to.limit.get()).collect()
    }

    #[test]
    fn twenty_changes_are_kept_the_newest_first() {
        let limits: Vec<u64> = (1..=50).collect();
        let kept = check(&limits, &Why::LatencyMissed, &ChangeResult::Done);
        assert_eq!(kept, (31..=50).rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_says_no_more_than_the_last_one_takes_its_place() {
        assert_eq!(check(&[5, 6, 7], &Why::Trimmed, &ChangeResult::Done), [7]);
        assert_eq!(check(&[5, 5, 5], &Why::LatencyMissed, &ChangeResult::Done).len(), 3);
        let watching = ChangeResult::OnlyWatching;
        let wishes = [500, 500, 600, 590, 500];
        assert_eq!(check(&wishes, &Why::LatencyMissed, &watching), [500, 600, 500]);
        let failed = ChangeResult::Failed("read-only".to_owned());
        assert_eq!(check(&[5, 5], &Why::LatencyMissed, &failed), [5]);
    }

    #[test]
    fn what_was_asked_for_last_is_done_once_it_took_effect() {
        let mut entry = entry();
        let made = |at_ms, result| {
            let setting = Setting { limit: Millicores::new(5), request: Millicores::new(5) };
            let why = Why::LatencyMissed;
            Made { at_ms, tick: Loop::Slow, from: setting, to: setting, why, result }
        };
        entry.took_effect();
        for (at_ms, result) in [(0, ChangeResult::Asked), (1, ChangeResult::Asked)] {
            keep(&mut entry.changes, made(at_ms, result));
        }
        entry.took_effect();
        let results = |entry: &Entry| -> Vec<ChangeResult> {
            entry.changes.iter().map(|made| made.result.clone()).collect()
        };
        assert_eq!(results(&entry), [ChangeResult::Done, ChangeResult::Asked]);
        keep(&mut entry.changes, made(2, ChangeResult::OnlyWatching));
        entry.took_effect();
        assert_eq!(results(&entry)[0], ChangeResult::OnlyWatching);
    }

    #[test]
    fn what_is_noticed_in_a_row_is_kept_once_and_counted() {
        let mut entry = entry();
        let at_max = Note::AtMax { uid: entry.uid.clone(), max: Millicores::new(2000) };
        let reset = Note::CounterReset { uid: entry.uid.clone() };
        for (at_ms, note) in [&at_max, &at_max, &reset, &at_max].into_iter().enumerate() {
            entry.noticed(note, u64::try_from(at_ms).unwrap());
        }
        let kept: Vec<(u64, u32)> =
            entry.notes.iter().map(|noted| (noted.at_ms, noted.times)).collect();
        assert_eq!(kept, [(3, 1), (2, 1), (1, 2)]);
    }

    #[test]
    fn usage_is_taken_from_two_samples_about_a_second_apart() {
        let mut node = Node::new(Millicores::new(4000), Profile::DIRECT);
        let mut entry = entry();
        let facts = WorkloadFacts {
            uid: entry.uid.clone(),
            family: None,
            bounds: entry.bounds,
            weight: Weight::ONE,
            limit: Millicores::new(500),
            request: None,
            came_with: CameWith::default(),
            nature: Nature::Unknown,
            request_rule: RequestRule::Kept,
        };
        node.workload_added(facts, Moment::ORIGIN);
        let mut usages = Vec::new();
        for ms in [0, 200, 1000, 1200, 2000] {
            // A quarter of a core all the time.
            let usage = Span::from_us(ms * 250);
            let sample = Sample { at: Moment::from_ms(ms), usage, ..Sample::default() };
            node.sampled(&entry.uid, sample);
            let Outcome { .. } = node.fast_tick(Moment::from_ms(ms));
            node.workloads().for_each(|report| entry.look_at(&report, Loop::Fast));
            usages.push(entry.lately.map(|signal| (signal.usage.get(), signal.window)));
        }
        let second = Some((250, Span::from_s(1)));
        assert_eq!(usages, [None, None, second, second, second]);
    }
}
