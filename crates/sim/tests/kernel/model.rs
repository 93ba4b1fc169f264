//! The model's side of a case: the simulator's machine under the same load.

use std::collections::VecDeque;

use walras_core::units::Millicores;
use walras_sim::machine::{CpuSet, Machine, SLICE_MS, Want};

use crate::clock::milliseconds;
use crate::outcome::{Outcome, Plan, Weights};

/// What the model says that comes of a plan.
pub(crate) fn run(plan: &Plan) -> Outcome {
    let slice_ms = f64::from(SLICE_MS);
    let mut outcome = Outcome::default();
    // As many cores as one thread can use; more would make no difference.
    let mut machine = Machine::new(1.0, 1);
    let place = plan.above.map_or(0, |above| {
        machine.group_mut(0).set_limit(Some(above), Millicores::ZERO);
        machine.add_child(0)
    });
    machine.group_mut(place).set_limit(Some(plan.limit), plan.burst);
    let mut wants = vec![Want::default(); machine.len()];
    let mut got = vec![0.0; machine.len()];
    let mut raise = plan.raise.map(|(at, limit)| (milliseconds(at), limit));
    let mut raised_at_ms = None;
    let mut queue: VecDeque<(f64, f64)> =
        plan.jobs.iter().map(|job| (milliseconds(job.at), milliseconds(job.cost))).collect();
    let mut at_ms = 0.0;
    while at_ms < milliseconds(plan.until) {
        // At the slice that begins nearest to it.
        let is_due = |(due_ms, _): &mut (f64, Millicores)| *due_ms < at_ms + slice_ms / 2.0;
        if let Some((_, limit)) = raise.take_if(is_due) {
            machine.group_mut(place).set_limit(Some(limit), plan.burst);
            raised_at_ms = Some(at_ms);
        }
        let arrived = |&&(arrives_ms, _): &&(f64, f64)| arrives_ms <= at_ms;
        let waiting_ms = queue.iter().take_while(arrived).map(|(_, cost_ms)| cost_ms).sum();
        wants[place] = Want { threads: 1.0, work_core_ms: waiting_ms };
        machine.run_slice(&wants, &mut got);
        if got[place] > 0.0
            && let Some(raised_ms) = raised_at_ms.take()
        {
            outcome.resumed_ms = at_ms - raised_ms;
        }
        serve(&mut queue, at_ms, got[place], &mut outcome.completion_ms);
        at_ms += slice_ms;
    }
    let counters = machine.group(place).counters();
    outcome.usage_ms = counters.usage_core_ms;
    outcome.throttled_ms = counters.throttled_core_ms;
    outcome.nr_periods = count(counters.nr_periods);
    outcome.nr_throttled = count(counters.nr_throttled);
    if plan.above.is_some() {
        let counters = machine.group(0).counters();
        outcome.above_nr_periods = count(counters.nr_periods);
        outcome.above_nr_throttled = count(counters.nr_throttled);
    }
    outcome
}

/// What each of three groups gets of one CPU, in percent of it, if all want all of it, as
/// [`crate::real::shares_percent`] has them: two below another, and one beside that.
pub(crate) fn shares_percent(weights: &Weights, threads: f64) -> [f64; 3] {
    // There is another CPU, on which none of them may run.
    let mut machine = Machine::new(2.0, 2);
    for (place, weight) in [weights.parent, weights.beside].into_iter().enumerate() {
        machine.group_mut(place).set_weight(weight);
        machine.bind(place, CpuSet::of([1]).expect("a CPU"));
    }
    for weight in weights.children {
        let child = machine.add_child(0);
        machine.group_mut(child).set_weight(weight);
    }
    let endless = Want { threads, work_core_ms: f64::INFINITY };
    let mut got = [0.0; 4];
    machine.run_slice(&[Want::default(), endless, endless, endless], &mut got);
    let cpu_ms = f64::from(SLICE_MS);
    [got[2], got[3], got[1]].map(|got_ms| got_ms / cpu_ms * 100.0)
}

/// What the first of two groups gets of one CPU, in percent, if both want all of it.
pub(crate) fn share_percent(weights: [u32; 2], threads: f64) -> f64 {
    let mut machine = Machine::new(2.0, 2);
    for (place, weight) in weights.into_iter().enumerate() {
        machine.group_mut(place).set_weight(weight);
        machine.bind(place, CpuSet::of([1]).expect("a CPU"));
    }
    let mut got = [0.0; 2];
    machine.run_slice(&[Want { threads, work_core_ms: f64::INFINITY }; 2], &mut got);
    got[0] / f64::from(SLICE_MS) * 100.0
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
