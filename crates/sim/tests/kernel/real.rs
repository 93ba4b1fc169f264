//! The kernel's side of a case: a load process in a control group, and what was counted meanwhile.
//!
//! Moments at which this process acts are measured and not assumed, since it may be late on a busy
//! machine; the plan is returned as it was carried out, and the model is given that one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::thread::sched_getaffinity;
use walras_cgroup::{CgroupError, Layout, Target};
use walras_core::demand::Sample;
use walras_core::parse::CpuWeight;
use walras_core::smooth::weight::KernelWeight;

use crate::burner::{INSTRUCTIONS, Job, Load, REST, Said};
use crate::cgroup::Group;
use crate::clock::{milliseconds, now, wait_until};
use crate::outcome::{Outcome, PERIOD, Plan, Weights};

/// The test that is the load process if it gets instructions.
const LOAD_PROCESS: &str = "tests::the_load_process_does_its_jobs_one_after_the_other";
/// The most weight the kernel gives, so that neighbours hardly matter.
pub(crate) const HEAVY: u32 = 10_000;

/// Another limit that is set this much too late does not show what it should.
const LATE: Duration = Duration::from_millis(20);

/// So much earlier than expected a period may begin.
const EARLY: Duration = Duration::from_millis(10);
/// The kernel averages a new group's load before its weight is fully in force.
const SETTLING: Duration = Duration::from_millis(400);

/// One run of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// What came of it.
    pub(crate) outcome: Outcome,
    /// The plan as it was carried out.
    pub(crate) plan: Plan,
    /// Time in which the load was not throttled and did not run either.
    pub(crate) lost_ms: f64,
}

/// The machine was too busy to carry out a plan; says why.
#[derive(Clone, Debug)]
pub(crate) struct Disturbed(pub(crate) String);

/// Carries out a plan in a group of its own.
pub(crate) fn run(layout: &Layout, plan: &Plan) -> Result<Run, Disturbed> {
    // Made first, and so gone last.
    let above = plan.above.map(|above| {
        let mut group = Group::create(layout).expect("a group could be made before");
        let weight = Some(kernel_weight(HEAVY));
        group.set(&Target { limit: Some(above), burst: None, weight });
        group
    });
    let group = above.as_ref().map_or_else(|| Group::create(layout), |it| it.create_below(layout));
    let mut group = group.expect("a group could be made before");
    let (limit, burst) = (Some(plan.limit), Some(plan.burst));
    group.set(&Target { limit, burst, weight: Some(kernel_weight(HEAVY)) });
    let mut process = Process::start(&Load::Jobs(plan.jobs.clone()), &group);
    let start = process.starts()?;
    // By then the group's timer has stopped, so that nothing is counted before the start.
    wait_until(start - REST + PERIOD.mul_f64(2.2));
    let stolen_before = stolen();
    let before = group.counters();
    let above_before = above.as_ref().map(Group::counters);
    if now() >= start {
        return Err(Disturbed("the first reading came after the start".to_owned()));
    }
    let mut carried_out = plan.clone();
    if let Some((at, limit)) = &mut carried_out.raise {
        let due = start + *at;
        wait_until(due);
        *at = now() - start;
        group.set(&Target { limit: Some(*limit), weight: None, burst: None });
        if now() > due + LATE {
            return Err(Disturbed("the other limit was set too late".to_owned()));
        }
    }
    let (done, pauses) = process.jobs(plan.jobs.len());
    wait_until(start + plan.until);
    let after = group.counters();
    let above_after = above.as_ref().map(Group::counters);
    carried_out.until = now() - start;
    let mut outcome = counted(&before, &after);
    if let (Some(before), Some(after)) = (above_before, above_after) {
        let above = counted(&before, &after);
        outcome.above_nr_periods = above.nr_periods;
        outcome.above_nr_throttled = above.nr_throttled;
    }
    let completion = |(at, job): (&Duration, &Job)| milliseconds(*at - start - job.at);
    outcome.completion_ms = done.iter().zip(&plan.jobs).map(completion).collect();
    let raised = carried_out.raise.map(|(at, _)| start + at);
    if let Some(raised) = raised {
        let ended = pauses.iter().find(|(_, to)| *to >= raised);
        outcome.resumed_ms = ended.map_or(0.0, |(_, to)| milliseconds(*to - raised));
    }
    let lost = pauses.iter().map(|pause| lost(*pause, start, raised)).sum::<Duration>();
    let lost_ms = milliseconds(lost + stolen().saturating_sub(stolen_before));
    Ok(Run { outcome, plan: carried_out, lost_ms })
}

/// What the first of two groups gets of one CPU, in percent, while both want all of it, and how
/// much of that CPU both got together.
pub(crate) fn share_percent(
    layout: &Layout,
    weights: [u32; 2],
    threads: usize,
    window: Duration,
) -> (f64, f64) {
    let groups = weights.map(|weight| weighed(Group::create(layout), weight));
    let ([first, _], of_cpu) = shares(groups.each_ref(), threads, window);
    (first, of_cpu)
}

/// What each of two groups below another and of one beside that gets of one CPU, in percent of what
/// all got together, while all want all of it; and how much of that CPU they got.
pub(crate) fn shares_percent(
    layout: &Layout,
    weights: &Weights,
    threads: usize,
    window: Duration,
) -> ([f64; 3], f64) {
    let parent = weighed(Group::create(layout), weights.parent);
    let beside = weighed(Group::create(layout), weights.beside);
    let [one, other] = weights.children.map(|weight| weighed(parent.create_below(layout), weight));
    shares([&one, &other, &beside], threads, window)
}

fn weighed(group: Result<Group, CgroupError>, weight: u32) -> Group {
    let mut group = group.expect("a group could be made before");
    group.set(&Target { limit: None, weight: Some(kernel_weight(weight)), burst: None });
    group
}

/// The shares of groups that want all of one CPU, in percent of what they got together, and how
/// much of that CPU it was.
fn shares<const COUNT: usize>(
    groups: [&Group; COUNT],
    threads: usize,
    window: Duration,
) -> ([f64; COUNT], f64) {
    let cpus = sched_getaffinity(None).expect("a process may ask where it may run");
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| cpus.is_set(cpu));
    let load = Load::Busy { threads, cpu: cpu.expect("this process runs somewhere") };
    let mut processes = groups.map(|group| Process::start(&load, group));
    for process in &mut processes {
        for _ in 0..threads {
            assert_eq!(process.hear(), Said::Busy);
        }
    }
    wait_until(now() + SETTLING);
    let usage_ms = || groups.map(|group| usage_ms(&group.counters()));
    let (from, before) = (now(), usage_ms());
    wait_until(from + window);
    let (to, mut used) = (now(), usage_ms());
    for (used, before) in used.iter_mut().zip(before) {
        *used -= before;
    }
    let all: f64 = used.iter().sum();
    (used.map(|used| used / all * 100.0), all / milliseconds(to - from) * 100.0)
}

/// A load process in its group, which ends with this value.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

// === impl Process ===

impl Process {
    fn start(load: &Load, group: &Group) -> Self {
        let executable = std::env::current_exe().expect("the kernel knows this executable");
        let mut child = Command::new(executable)
            .args(["--exact", LOAD_PROCESS, "--nocapture", "--test-threads=1"])
            .env(INSTRUCTIONS, load.instructions())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this executable can be run again");
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut input = child.stdin.take().expect("it was asked for");
        let process = Self { child, output };
        group.put(process.child.id());
        input.write_all(b"you are in your group\n").expect("the process listens");
        process
    }

    /// When its schedule starts.
    fn starts(&mut self) -> Result<Duration, Disturbed> {
        match self.hear() {
            Said::Starts(start) => Ok(start),
            Said::Lost => Err(Disturbed("no beginning of a period was found".to_owned())),
            said @ (Said::Paused { .. } | Said::Done(_) | Said::Busy) => panic!("{said} first"),
        }
    }

    /// When each of so many jobs was done, and when the process did not run meanwhile.
    fn jobs(&mut self, count: usize) -> (Vec<Duration>, Vec<(Duration, Duration)>) {
        let (mut done, mut pauses) = (Vec::new(), Vec::new());
        while done.len() < count {
            match self.hear() {
                Said::Done(at) => done.push(at),
                Said::Paused { from, to } => pauses.push((from, to)),
                said @ (Said::Starts(_) | Said::Lost | Said::Busy) => panic!("{said} too late"),
            }
        }
        (done, pauses)
    }

    /// The next thing it says.
    fn hear(&mut self) -> Said {
        let mut heard = String::new();
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("the process writes text");
            assert!(length > 0, "the load process ended early; its output was: {heard}");
            if let Some(said) = Said::from_line(&line) {
                return said;
            }
            heard += &line;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; in any case it is waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How much of a pause neighbours are to blame for: throttling ends with the period, or when
/// another limit is set, and what comes after is theirs. So is a pause in which neither happened.
fn lost((from, to): (Duration, Duration), start: Duration, raised: Option<Duration>) -> Duration {
    // The beginning of a period was found by waking up, maybe late, so others may seem early.
    let age_ns = (to + EARLY - start).as_nanos() % PERIOD.as_nanos();
    let began = to + EARLY - Duration::from_nanos(u64::try_from(age_ns).expect("of one period"));
    let refilled = raised.filter(|raised| *raised <= to).map_or(began, |raised| raised.max(began));
    to.saturating_sub(from.max(refilled))
}

fn counted(before: &Sample, after: &Sample) -> Outcome {
    let count = |from: u64, to: u64| f64::from(u32::try_from(to - from).expect("a few seconds"));
    let throttled_us = after.throttled.as_us() - before.throttled.as_us();
    Outcome {
        usage_ms: usage_ms(after) - usage_ms(before),
        throttled_ms: milliseconds(Duration::from_micros(throttled_us)),
        nr_periods: count(before.nr_periods, after.nr_periods),
        nr_throttled: count(before.nr_throttled, after.nr_throttled),
        ..Outcome::default()
    }
}

fn usage_ms(counters: &Sample) -> f64 {
    milliseconds(Duration::from_micros(counters.usage.as_us()))
}

fn kernel_weight(weight: u32) -> KernelWeight {
    CpuWeight::new(weight).expect("a weight of the kernel's scale").into()
}

/// The time that the machine under this one, if it is a virtual one, gave to others.
fn stolen() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").expect("every Linux has it");
    let ticks = text.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok());
    // The kernel counts hundredths of a second here, whatever its own clock does.
    Duration::from_millis(ticks.unwrap_or(0_u64) * 10)
}
