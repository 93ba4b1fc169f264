//! The model of CPU limits and weights, held against the kernel of this machine.
//!
//! A real process in a control group and the simulator's machine get the same load; what the kernel
//! counts has to be what the model says. Allowed are, in parts of the model's value: 10 % and 1 for
//! periods and throttled periods (none where the limit is raised), 5 % and 10 ms for CPU used, 5 %
//! and 40 ms for times of completion and of throttling (the latter may be less), 40 ms from a raise
//! to the next work, and 8 points for a share. That is wide enough for a busy machine and narrower
//! than what each rule makes out. A case that differs is repeated, up to five times in all.
//!
//! Needs root and a writable cpu controller, and fails without. `WALRAS_WITHOUT_CGROUPS=1` leaves
//! the cases out and says so. `--nocapture` shows the numbers.

#[cfg(test)]
mod burner;
#[cfg(test)]
mod cgroup;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod model;
#[cfg(test)]
mod outcome;
#[cfg(test)]
mod real;
#[cfg(test)]
mod verdict;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    use walras_cgroup::Layout;
    use walras_core::units::Millicores;

    use crate::burner::{self, INSTRUCTIONS, Job, Load, Said};
    use crate::cgroup::Group;
    use crate::clock::{cpu_time, now};
    use crate::model;
    use crate::outcome::{Outcome, Plan, Weights};
    use crate::real::{self, Disturbed};
    use crate::verdict::{Attempt, Tolerance, judge};

    // Within these the kernel has to agree with the model: a part of the model's value in percent,
    // and so much more.

    /// Periods, and throttled ones.
    const COUNTS: Tolerance = Tolerance::of(10.0, 1.0);
    /// A few periods, each of which the case is about.
    const EACH: Tolerance = Tolerance::of(0.0, 0.5);
    /// CPU time used, in milliseconds.
    const USAGE: Tolerance = Tolerance::of(5.0, 10.0);
    /// Times of completion, in milliseconds.
    const TIMES: Tolerance = Tolerance::of(5.0, 40.0);
    /// Time throttled, in milliseconds. On a busy machine the kernel was seen to count less of it
    /// than there was, down to a seventh, while periods and completions were as expected.
    const THROTTLED: Tolerance = Tolerance { or_less: true, ..TIMES };
    /// From another limit to the first work after it, in milliseconds.
    const AT_ONCE: Tolerance = Tolerance::of(0.0, 40.0);
    /// Shares of a CPU, in percent of that CPU.
    const SHARES: Tolerance = Tolerance::of(0.0, 8.0);

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_group_that_always_wants_more_is_throttled_in_every_period() {
        let Some((layout, _alone)) = prepared() else { return };
        let plan = Plan {
            above: None,
            limit: Millicores::new(300),
            burst: Millicores::ZERO,
            jobs: vec![Job { at: ms(10), cost: ms(915) }],
            raise: None,
            until: ms(3260),
        };
        settle("one busy thread, limit 300m, 3 s", || {
            let run = real::run(&layout, &plan)?;
            let model = model::run(&run.plan);
            let mut attempt = Attempt::new(run.lost_ms);
            compare(&mut attempt, "", [&run.outcome, &model], COUNTS);
            Ok(attempt)
        });
    }

    /// Bursts of 46 ms come 30 ms after the beginning of a period. Without a buffer each takes the
    /// quotas of three periods, of 20 ms each, and is throttled twice; with one it takes two. So
    /// neither a burst nor a quota ends near where a millisecond decides over a whole period.
    #[test]
    fn a_burst_buffer_makes_bursts_faster_and_throttling_rarer() {
        let Some((layout, _alone)) = prepared() else { return };
        let limit = Millicores::new(200);
        let plan = |burst| Plan {
            above: None,
            limit,
            burst,
            jobs: (0..4).map(|burst| Job { at: ms(30 + 500 * burst), cost: ms(46) }).collect(),
            raise: None,
            until: ms(2060),
        };
        settle("bursts of 46 ms every 500 ms, limit 200m", || {
            // Side by side, which two mostly idle groups on any machine have room for.
            let (without, with) = std::thread::scope(|scope| {
                let with = scope.spawn(|| real::run(&layout, &plan(limit)));
                let without = real::run(&layout, &plan(Millicores::ZERO));
                (without, with.join().expect("it tells by its result if something is wrong"))
            });
            let (without, with) = (without?, with?);
            let [model_without, model_with] = [&without, &with].map(|run| model::run(&run.plan));
            let mut attempt = Attempt::new(without.lost_ms.max(with.lost_ms));
            compare(&mut attempt, "no buffer: ", [&without.outcome, &model_without], COUNTS);
            compare(&mut attempt, "buffer 200m: ", [&with.outcome, &model_with], COUNTS);
            for (who, without, with) in [
                ("kernel", &without.outcome, &with.outcome),
                ("model", &model_without, &model_with),
            ] {
                let rarer = with.nr_throttled < without.nr_throttled;
                attempt.claim(&format!("{who}: a buffer makes throttling rarer"), rarer);
                let faster = with.mean_completion_ms() < without.mean_completion_ms();
                attempt.claim(&format!("{who}: a buffer makes bursts faster"), faster);
            }
            Ok(attempt)
        });
    }

    /// The limit is raised 30 ms into the second period, 20 ms after that period's quota was used
    /// up. If throttling went on until the next period, work would resume 70 ms after the raise.
    /// Since it does not, and the new quota lasts until then, the period is not a throttled one.
    #[test]
    fn a_higher_limit_ends_throttling_at_once() {
        let Some((layout, _alone)) = prepared() else { return };
        let plan = Plan {
            above: None,
            limit: Millicores::new(100),
            burst: Millicores::ZERO,
            jobs: vec![Job { at: ms(10), cost: ms(200) }],
            raise: Some((ms(130), Millicores::new(800))),
            until: ms(650),
        };
        settle("200 ms of work, limit 100m, raised to 800m after 130 ms", || {
            let run = real::run(&layout, &plan)?;
            let model = model::run(&run.plan);
            let mut attempt = Attempt::new(run.lost_ms);
            compare(&mut attempt, "", [&run.outcome, &model], EACH);
            let what = "from the raise to the next work, ms";
            attempt.compare(what, run.outcome.resumed_ms, model.resumed_ms, AT_ONCE);
            Ok(attempt)
        });
    }

    /// A busy thread for a second and a half, in a group below another.
    fn below(above: u64, limit: u64, burst: u64, cost: u64) -> Plan {
        Plan {
            above: Some(Millicores::new(above)),
            limit: Millicores::new(limit),
            burst: Millicores::new(burst),
            jobs: vec![Job { at: ms(10), cost: ms(cost) }],
            raise: None,
            until: ms(1760),
        }
    }

    /// Runs a plan of two levels, and compares what each of them counted.
    fn two_levels(case: &str, plan: &Plan) {
        let Some((layout, _alone)) = prepared() else { return };
        settle(case, || {
            let run = real::run(&layout, plan)?;
            let model = model::run(&run.plan);
            let mut attempt = Attempt::new(run.lost_ms);
            let kernel = &run.outcome;
            let what = "periods of the group above";
            attempt.compare(what, kernel.above_nr_periods, model.above_nr_periods, COUNTS);
            let (kernels, models) = (kernel.above_nr_throttled, model.above_nr_throttled);
            attempt.compare("throttled periods of the group above", kernels, models, COUNTS);
            compare(&mut attempt, "", [kernel, &model], COUNTS);
            Ok(attempt)
        });
    }

    #[test]
    fn a_quota_that_runs_out_below_is_not_counted_above() {
        let plan = below(400, 200, 0, 310);
        assert_eq!(model::run(&plan).above_nr_throttled, 0.0);
        two_levels("one busy thread, limit 200m below one of 400m, 1.5 s", &plan);
    }

    /// In the first version of control groups a quota is at most the one above it. With a buffer as
    /// large as the quota it lasts all the same, and the other one runs out first.
    #[test]
    fn a_quota_that_runs_out_above_is_not_counted_below() {
        let plan = below(300, 300, 300, 465);
        assert_eq!(model::run(&plan).nr_throttled, 0.0);
        two_levels("one busy thread, limit 300m and a buffer below one of 300m, 1.5 s", &plan);
    }

    /// If all weights were on one level, shares were 60, 20 and 20 percent.
    #[test]
    fn weights_share_among_siblings_and_what_is_below_shares_what_is_left() {
        let Some((layout, _alone)) = prepared() else { return };
        settle(
            "two groups of weights 3:1 below one, and one beside that of the same weight",
            || {
                let (heavy, light) = (real::HEAVY, real::HEAVY / 3);
                let weights = Weights { children: [heavy, light], parent: light, beside: light };
                let (kernel, of_cpu) = real::shares_percent(&layout, &weights, 2, ms(1000));
                let mut attempt = Attempt::new(if of_cpu < 25.0 { f64::INFINITY } else { 0.0 });
                let model = model::shares_percent(&weights, 2.0);
                let names = ["the heavier below", "the lighter below", "the one beside"];
                for ((name, kernel), model) in names.iter().zip(kernel).zip(model) {
                    attempt.compare(&format!("share of {name}, percent"), kernel, model, SHARES);
                }
                attempt.claim("all together have one CPU and no more", of_cpu <= 105.0);
                Ok(attempt)
            },
        );
    }

    #[test]
    fn weights_of_three_to_one_share_a_cpu_three_to_one() {
        let Some((layout, _alone)) = prepared() else { return };
        settle("two groups of two busy threads on one CPU, weights 3:1", || {
            let weights = [real::HEAVY, real::HEAVY / 3];
            let (kernel, of_cpu) = real::share_percent(&layout, weights, 2, ms(1000));
            // Proportions hold for whatever the neighbours leave, unless that is next to nothing.
            let mut attempt = Attempt::new(if of_cpu < 25.0 { f64::INFINITY } else { 0.0 });
            let model = model::share_percent(weights, 2.0);
            attempt.compare("share of the heavier, percent", kernel, model, SHARES);
            Ok(attempt)
        });
    }

    /// The load process of the other tests is this test, with instructions. Without any it looks
    /// at the process itself.
    #[test]
    fn the_load_process_does_its_jobs_one_after_the_other() {
        if let Some(instructions) = environment(INSTRUCTIONS) {
            let load = Load::from_instructions(&instructions).expect("written by this test");
            burner::run(&load, std::io::stdin().lock(), &mut std::io::stdout());
            return;
        }
        let jobs = [Job { at: ms(0), cost: ms(8) }, Job { at: ms(1), cost: ms(4) }];
        let (start, cpu_before, mut output) = (now(), cpu_time(), Vec::new());
        burner::do_jobs(start, &jobs, &mut output);
        assert!(cpu_time() - cpu_before >= ms(12), "CPU time is what is burnt");
        let output = String::from_utf8(output).unwrap();
        let done: Vec<Duration> = output.lines().filter_map(done_at).collect();
        assert!(done.len() == 2 && done[0] >= start + ms(8) && done[1] >= done[0] + ms(4));
    }

    fn done_at(line: &str) -> Option<Duration> {
        match Said::from_line(line)? {
            Said::Done(at) => Some(at),
            Said::Starts(_) | Said::Lost | Said::Paused { .. } | Said::Busy => None,
        }
    }

    /// Shows the numbers of a case, and fails with them if it does not pass.
    fn settle(case: &str, attempt: impl FnMut() -> Result<Attempt, Disturbed>) {
        match judge(case, attempt) {
            Ok(told) => println!("{told}"),
            Err(told) => panic!("{told}"),
        }
    }

    /// Compares all that every case has, with `counts` for the periods.
    fn compare(
        attempt: &mut Attempt,
        case: &str,
        [kernel, model]: [&Outcome; 2],
        counts: Tolerance,
    ) {
        let mut line = |what: &str, value: fn(&Outcome) -> f64, tolerance| {
            attempt.compare(&format!("{case}{what}"), value(kernel), value(model), tolerance);
        };
        line("CPU used, ms", |outcome| outcome.usage_ms, USAGE);
        line("periods", |outcome| outcome.nr_periods, counts);
        line("throttled periods", |outcome| outcome.nr_throttled, counts);
        line("throttled time, ms", |outcome| outcome.throttled_ms, THROTTLED);
        line("mean completion, ms", Outcome::mean_completion_ms, TIMES);
        line("slowest completion, ms", Outcome::slowest_completion_ms, TIMES);
    }

    /// The layout of control groups, and the machine for this test alone: two cases at a time would
    /// be each other's neighbours. Nothing if the user wants to do without.
    fn prepared() -> Option<(Layout, MutexGuard<'static, ()>)> {
        static ALONE: Mutex<()> = Mutex::new(());
        if environment("WALRAS_WITHOUT_CGROUPS").is_some_and(|value| value == "1") {
            // Past the harness, which hides what passing tests print.
            let words = "NOT RUN: THE MODEL AGAINST THE KERNEL, BECAUSE WALRAS_WITHOUT_CGROUPS=1\n";
            std::io::stderr().write_all(words.as_bytes()).unwrap();
            return None;
        }
        // A case that failed has cleaned up, so the next one may go on.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = Layout::of_this_machine()
            .map_err(|error| error.to_string())
            .and_then(|layout| match Group::create(&layout) {
                Ok(_) => Ok(layout),
                Err(error) => Err(error.to_string()),
            })
            .unwrap_or_else(|why| {
                panic!(
                    "this test needs root and a writable cpu controller of control groups ({why}); \
                     WALRAS_WITHOUT_CGROUPS=1 leaves it out"
                )
            });
        Some((layout, alone))
    }

    #[expect(clippy::disallowed_methods, reason = "the user's word, and the load's instructions")]
    fn environment(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}
