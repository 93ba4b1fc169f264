//! The model's side of a case: the simulator's machine under the same load.

use std::collections::VecDeque;

use walras_core::units::Millicores;
use walras_sim::machine::{Machine, SLICE_MS, Want};

use crate::clock::milliseconds;
use crate::outcome::{Outcome, Plan};

/// What the model says that comes of a plan.
pub(crate) fn run(plan: &Plan) -> Outcome {
    let slice_ms = f64::from(SLICE_MS);
    let mut outcome = Outcome::default();
    // As many cores as one thread can use; more would make no difference.
    let mut machine = Machine::new(1.0, 1);
    machine.group_mut(0).set_limit(Some(plan.limit), plan.burst);
    let mut raise = plan.raise.map(|(at, limit)| (milliseconds(at), limit));
    let mut raised_at_ms = None;
    let mut queue: VecDeque<(f64, f64)> =
        plan.jobs.iter().map(|job| (milliseconds(job.at), milliseconds(job.cost))).collect();
    let mut at_ms = 0.0;
    while at_ms < milliseconds(plan.until) {
        // At the slice that begins nearest to it.
        let is_due = |(due_ms, _): &mut (f64, Millicores)| *due_ms < at_ms + slice_ms / 2.0;
        if let Some((_, limit)) = raise.take_if(is_due) {
            machine.group_mut(0).set_limit(Some(limit), plan.burst);
            raised_at_ms = Some(at_ms);
        }
        let arrived = |&&(arrives_ms, _): &&(f64, f64)| arrives_ms <= at_ms;
        let waiting_ms = queue.iter().take_while(arrived).map(|(_, cost_ms)| cost_ms).sum();
        let mut got = [0.0];
        machine.run_slice(&[Want { threads: 1.0, work_core_ms: waiting_ms }], &mut got);
        if got[0] > 0.0
            && let Some(raised_ms) = raised_at_ms.take()
        {
            outcome.resumed_ms = at_ms - raised_ms;
        }
        serve(&mut queue, at_ms, got[0], &mut outcome.completion_ms);
        at_ms += slice_ms;
    }
    let counters = machine.group(0).counters();
    outcome.usage_ms = counters.usage_core_ms;
    outcome.throttled_ms = counters.throttled_core_ms;
    outcome.nr_periods = count(counters.nr_periods);
    outcome.nr_throttled = count(counters.nr_throttled);
    outcome
}

/// What the first of two groups gets of one core, in percent, if both want all of it.
pub(crate) fn share_percent(weights: [u32; 2], threads: f64) -> f64 {
    let mut machine = Machine::new(1.0, 2);
    for (place, weight) in weights.into_iter().enumerate() {
        machine.group_mut(place).set_weight(weight);
    }
    let mut got = [0.0; 2];
    machine.run_slice(&[Want { threads, work_core_ms: f64::INFINITY }; 2], &mut got);
    got[0] / (got[0] + got[1]) * 100.0
}

/// One thread works on the jobs in their order from `at_ms` on.
fn serve(queue: &mut VecDeque<(f64, f64)>, at_ms: f64, got_ms: f64, completed_ms: &mut Vec<f64>) {
    let mut left_ms = got_ms;
    while let Some((arrived_ms, cost_ms)) = queue.front_mut() {
        let done_ms = left_ms.min(*cost_ms);
        left_ms -= done_ms;
        *cost_ms -= done_ms;
        if *cost_ms > 1e-9 {
            return;
        }
        completed_ms.push(at_ms + got_ms - left_ms - *arrived_ms);
        queue.pop_front();
    }
}

#[expect(clippy::cast_precision_loss, reason = "a case has a handful of periods")]
fn count(periods: u64) -> f64 {
    periods as f64
}
