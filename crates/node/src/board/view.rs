//! From what the board keeps to the messages of the API.

use walras_core::market::Bid;
use walras_core::node::RequestReport;
use walras_core::request::RequestRule;
use walras_core::units::{Millicores, Ratio};
use walras_wire::state::{Change, Explanation, NodeState, Noticed, Suggested, WorkloadState};

use super::entry::{Entry, Made};
use super::story::{self, Scene};
use super::{Inner, Market};

/// The whole node.
pub(super) fn node(inner: &Inner, uptime_s: u64) -> NodeState {
    let Inner { identity, market, tally, .. } = inner;
    let sum = |amount: fn(&Entry) -> Option<Millicores>| -> u64 {
        inner.entries.iter().filter_map(amount).sum::<Millicores>().get()
    };
    NodeState {
        version: identity.version.clone(),
        host: identity.host.clone(),
        profile: identity.profile.clone(),
        acting: identity.acting,
        at_ms: inner.at_ms,
        uptime_s,
        capacity_milli: market.capacity.get(),
        limit_budget_milli: market.limit_budget.get(),
        usage_milli: sum(|entry| Some(entry.lately?.usage)),
        need_milli: sum(|entry| entry.need),
        request_milli: sum(|entry| Some(entry.in_force.request)),
        limit_milli: sum(|entry| Some(entry.in_force.limit).filter(|it| !it.is_unlimited())),
        idle_milli: market.machine.map(|machine| machine.idle.get()),
        unmanaged_milli: market.unmanaged.map(Millicores::get),
        guard_milli: market.guard.get(),
        lent_milli: sum(|entry| Some(entry.lent)),
        mode: market.mode.name().to_owned(),
        price: market.price.to_f64(),
        multiplier: market.multiplier.to_f64(),
        fast_ticks: tally.fast_ticks,
        slow_ticks: tally.slow_ticks,
        changes: tally.changes,
        failures: tally.failures,
        problems: inner.problems.clone(),
        notes: inner.notes.clone(),
        telemetry: inner.telemetry.is_some(),
        workloads: inner.entries.iter().map(|entry| workload(entry, market, inner.at_ms)).collect(),
    }
}

/// Why a workload has what it has.
pub(super) fn explanation(inner: &Inner, entry: &Entry) -> Explanation {
    let workload = workload(entry, &inner.market, inner.at_ms);
    let scene = Scene {
        workload: &workload,
        market: &inner.market,
        need: inner.entries.iter().filter_map(|entry| entry.need).sum(),
        owner_set: entry.owner_set,
        cleared: inner.tally.slow_ticks > 0,
        acting: inner.identity.acting,
        now_ms: inner.at_ms,
    };
    let notes = entry
        .notes
        .iter()
        .map(|noted| Noticed { at_ms: noted.at_ms, text: story::noted(&noted.note, noted.times) });
    Explanation {
        at_ms: inner.at_ms,
        sentences: story::sentences(&scene),
        changes: entry.changes.iter().map(change).collect(),
        notes: notes.collect(),
        workload,
    }
}

fn suggested(entry: &Entry, at_ms: u64) -> Option<Suggested> {
    let (setting, changes_last_hour) = entry.wishes.summary(at_ms)?;
    Some(Suggested {
        request_milli: setting.request.get(),
        limit_milli: setting.limit.get(),
        changes_last_hour,
    })
}

fn workload(entry: &Entry, market: &Market, at_ms: u64) -> WorkloadState {
    let signal = entry.lately.or(entry.cleared);
    let reason = entry.grant.map(|grant| {
        let need = entry.need.unwrap_or(grant.need);
        let bid = Bid::new(entry.bounds, need, entry.weight);
        grant.reason.sentence(&bid, &grant, market.fairness)
    });
    WorkloadState {
        uid: entry.uid.to_string(),
        name: entry.label.name.clone(),
        kind: entry.label.kind.name().to_owned(),
        min_milli: entry.bounds.min().get(),
        max_milli: entry.bounds.max().get(),
        weight: f64::from(entry.weight.thousandths()) / 1000.0,
        usage_milli: signal.map(|signal| signal.usage.get()),
        need_milli: entry.need.map(Millicores::get),
        grant_milli: entry.grant.map(|grant| grant.amount.get()),
        grant_reason: reason,
        reduction_ratio: entry.grant.map(|grant| grant.reduction.to_f64()),
        request_milli: entry.in_force.request.get(),
        request_reason: entry.request.and_then(|report| request_reason(&report)),
        limit_milli: entry.in_force.limit.get(),
        lent_milli: entry.lent.get(),
        suggested: suggested(entry, at_ms),
        contained_for: entry.contained_for.as_ref().map(ToString::to_string),
        burst_milli: entry.in_force.burst.get(),
        kernel_weight: entry.in_force.weight.map(|weight| weight.get()),
        original_limit_milli: entry.label.original_limit.map(Millicores::get),
        throttled_period_ratio: signal.map(|signal| signal.period_ratio.to_f64()),
        throttle_ratio: signal.map(|signal| Ratio::to_f64(signal.throttle_ratio)),
        target_latency_ms: entry.label.target_latency_ms,
        latency_missed: entry.latency_missed,
        hot: entry.hot,
        last_change: entry.changes.front().map(change),
    }
}

/// Why a request is what it is, where that is more than that it is not moved.
fn request_reason(report: &RequestReport) -> Option<String> {
    let why = report.why?;
    match (report.rule, report.suggested) {
        (RequestRule::Kept, _) => None,
        (RequestRule::Scaled, _) | (RequestRule::Follows, None) => Some(why.to_string()),
        (RequestRule::Follows, Some(suggested)) => {
            let hours = report.evidence.hours_floor();
            Some(format!("{why} ({suggested} by {hours} h of evidence)"))
        }
    }
}

fn change(made: &Made) -> Change {
    Change {
        at_ms: made.at_ms,
        r#loop: made.tick.name().to_owned(),
        limit_from_milli: made.from.limit.get(),
        limit_to_milli: made.to.limit.get(),
        request_from_milli: made.from.request.get(),
        request_to_milli: made.to.request.get(),
        why: made.why.to_string(),
        result: made.result.clone(),
    }
}
