//! What a workload of a host promises, against a scripted runtime and a daemon that dies anywhere.
//!
//! The runtime below is a small model of a container engine: it starts, stops and removes, restarts
//! what ends, fails and falls silent when the script says so. The daemon is the shortest driver
//! there can be: it saves, acts and tells. A crash throws away everything but what was saved,
//! before or after the effect of an operation; the clock is put on and back. In the end all is
//! calm, and what is there must be what is wanted: nothing twice, nothing lost, and nobody who runs
//! once was started twice.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use walras_core::rng::Rng;
    use walras_core::run::{
        Actual, Container, Desired, Fault, FaultKind, Instance, InstanceState, Op, Restart,
        Revision, Spec, Step,
        Verdict::{Deleting, Same},
        Work, Workload, WorkloadId,
    };
    use walras_core::units::{Moment, Span};
    use walras_sim::random::draw::place;

    use crate::cases::{Cases, Verdict};
    use crate::ensure;

    /// What happens to a daemon and its runtime.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// Somebody applies this revision, with this desired state.
        Apply { revision: usize, desired: Desired },
        /// Somebody deletes it.
        Delete,
        /// The daemon does what is due.
        Act,
        /// The daemon dies before the effect of what is due, or after it.
        Crash { after_effect: bool },
        /// The runtime answers, or not.
        Speak(bool),
        /// The next operation fails, without or with its effect.
        Fault { kind: FaultKind, with_effect: bool },
        /// What runs ends by itself.
        End { code: i64 },
        /// Somebody else removes it.
        Removed,
        /// Something happened in the runtime, or it is time to look.
        Look,
        /// The host is drained, or no longer.
        Drain(bool),
        /// Time passes.
        Pass { seconds: u64 },
        /// Somebody puts the clock on, or back.
        Jump { seconds: u64, back: bool },
    }

    const RESTARTS: [Restart; 3] =
        [Restart::No, Restart::OnFailure { retries: 0 }, Restart::Always];

    fn event(rng: &mut Rng) -> Event {
        let flip = |rng: &mut Rng| rng.below(2) == 0;
        match rng.below(20) {
            0..=2 => Event::Apply {
                revision: place(rng, 4),
                desired: if rng.below(3) == 0 { Desired::Stopped } else { Desired::Running },
            },
            3 if rng.below(3) == 0 => Event::Delete,
            4 | 5 => Event::Crash { after_effect: flip(rng) },
            6 => Event::Speak(flip(rng)),
            7 => {
                let kinds = [
                    FaultKind::ImagePull,
                    FaultKind::Runtime,
                    FaultKind::Silent,
                    FaultKind::InvalidSpec,
                ];
                Event::Fault { kind: kinds[place(rng, kinds.len())], with_effect: flip(rng) }
            }
            8 => Event::End { code: i64::from(flip(rng)) },
            9 if rng.below(3) == 0 => Event::Removed,
            10 => Event::Look,
            11 if rng.below(3) == 0 => Event::Drain(flip(rng)),
            12 | 13 => Event::Pass { seconds: 1 + rng.below(90) },
            14 if rng.below(3) == 0 => {
                let bits = 1 + rng.below(26);
                Event::Jump { seconds: rng.below(1 << bits), back: flip(rng) }
            }
            _ => Event::Act,
        }
    }

    impl Event {
        /// The same for revision 0, which runs once. Who removes it wants it made again, so nobody
        /// does.
        fn of_a_job(self) -> Self {
            if let Self::Apply { desired, .. } = self {
                return Self::Apply { revision: 0, desired };
            }
            if matches!(self, Self::Removed) { Self::Look } else { self }
        }
    }

    fn spec(revision: usize) -> Spec {
        Spec {
            revision: Revision::new(&format!("r{revision}")).expect("it is short"),
            rollback: revision == 3,
            secrets: vec![],
            work: Work::Container(Container {
                restart: RESTARTS[revision % 3],
                ..Container::new("i")
            }),
        }
    }

    /// A container engine with one name to give.
    #[derive(Debug, Default)]
    struct Engine {
        instances: Vec<Instance>,
        silent: bool,
        fault: Option<(FaultKind, bool)>,
        made: u64,
        starts: u64,
        /// How often the daemon started something.
        asked: u64,
        /// Whether something ended badly by itself that nobody starts again.
        ended_badly: bool,
        most: usize,
    }

    impl Engine {
        fn act(&mut self, op: Op, target: &Spec) -> Result<(), Fault> {
            if self.silent {
                return Err(Fault::new(FaultKind::Silent, "nobody answers"));
            }
            match self.fault.take() {
                None => self.effect(op, target),
                Some((kind, with_effect)) => {
                    if with_effect {
                        self.effect(op, target)?;
                    }
                    Err(Fault::new(kind, "as the script says"))
                }
            }
        }

        fn effect(&mut self, op: Op, target: &Spec) -> Result<(), Fault> {
            match op {
                Op::Prepare => {}
                Op::Create => {
                    if !self.instances.is_empty() {
                        return Err(Fault::new(FaultKind::NameInUse, "there is one"));
                    }
                    self.made += 1;
                    self.instances.push(Instance {
                        handle: format!("c{}", self.made),
                        revision: target.revision.to_string(),
                        started: String::new(),
                        state: InstanceState::Created,
                        health: None,
                    });
                }
                Op::Start => {
                    for instance in &mut self.instances {
                        self.starts += 1;
                        self.asked += 1;
                        instance.started = format!("t{}", self.starts);
                        instance.state = InstanceState::Running;
                    }
                }
                Op::Stop => {
                    for instance in &mut self.instances {
                        instance.state = InstanceState::Exited { code: 137 };
                    }
                }
                Op::Remove => self.instances.clear(),
            }
            self.most = self.most.max(self.instances.len());
            Ok(())
        }

        /// What runs ends, and the engine does what its policy says.
        fn end(&mut self, code: i64) {
            for instance in &mut self.instances {
                let restart = instance.revision.strip_prefix('r').and_then(|n| n.parse().ok());
                let restart = RESTARTS[restart.unwrap_or(0_usize) % 3];
                if instance.state == InstanceState::Running {
                    instance.state = InstanceState::Exited { code };
                    self.ended_badly |= restart == Restart::No && code != 0;
                    if restart == (Restart::OnFailure { retries: 0 }) && code != 0 {
                        self.starts += 1;
                        instance.started = format!("t{}", self.starts);
                        instance.state = InstanceState::Running;
                    }
                }
            }
        }
    }

    /// A daemon with one workload, and what it saved.
    #[derive(Debug, Default)]
    struct Daemon {
        workload: Option<Workload>,
        disk: Option<String>,
        drained: bool,
        engine: Engine,
        now: u64,
        /// How often somebody wanted something started that runs once.
        wishes: u64,
    }

    impl Daemon {
        fn now(&self) -> Moment {
            Moment::from_ms(self.now * 1000)
        }

        fn save(&mut self) {
            self.disk = self.workload.as_ref().map(Workload::save);
        }

        fn restart(&mut self) {
            let loaded = self.disk.as_deref().map(Workload::load);
            self.workload = loaded.transpose().expect("what was saved can be read");
            if let Some(workload) = &mut self.workload {
                workload.drained(self.drained);
            }
            self.save();
        }

        fn happen(&mut self, event: Event) {
            let now = self.now();
            match event {
                Event::Apply { revision, desired } => {
                    let spec = spec(revision);
                    let verdict =
                        self.workload.as_ref().map(|it| it.judge(&spec.revision, desired));
                    let nothing = matches!(verdict, Some(Same | Deleting));
                    self.wishes += u64::from(!nothing && desired == Desired::Running);
                    match &mut self.workload {
                        Some(workload) => workload.applied(spec, desired, now),
                        None => {
                            let id = WorkloadId::new("w").expect("it is an id");
                            let mut workload = Workload::new(id, spec, desired, now);
                            workload.drained(self.drained);
                            self.workload = Some(workload);
                        }
                    }
                    self.save();
                }
                Event::Delete => {
                    if let Some(workload) = &mut self.workload {
                        workload.deleted(now);
                    }
                    self.save();
                }
                Event::Act => self.act(None),
                Event::Crash { after_effect } => {
                    self.act(Some(after_effect));
                    self.restart();
                }
                Event::Speak(speaks) => {
                    self.engine.silent = !speaks;
                    if speaks && let Some(workload) = &mut self.workload {
                        workload.stirred();
                    }
                }
                Event::Fault { kind, with_effect } => {
                    self.engine.fault = Some((kind, with_effect));
                }
                Event::End { code } => self.engine.end(code),
                Event::Removed => self.engine.instances.clear(),
                Event::Look => {
                    if let Some(workload) = &mut self.workload {
                        workload.stirred();
                    }
                }
                Event::Drain(drained) => {
                    self.wishes += u64::from(self.drained && !drained);
                    self.drained = drained;
                    if let Some(workload) = &mut self.workload {
                        workload.drained(drained);
                    }
                    self.save();
                }
                Event::Pass { seconds } | Event::Jump { seconds, back: false } => {
                    self.now += seconds;
                }
                Event::Jump { seconds, back: true } => self.now = self.now.saturating_sub(seconds),
            }
        }

        /// Does what is due; with a crash, dies before or after the effect.
        fn act(&mut self, crash_after_effect: Option<bool>) {
            let now = self.now();
            let Some(workload) = &mut self.workload else { return };
            match workload.next(now) {
                Step::Look => {
                    let ticket = workload.ticket();
                    if self.engine.silent {
                        workload.runtime_silent(now);
                    } else {
                        workload.seen(ticket, self.engine.instances.clone(), now);
                        self.save();
                    }
                }
                Step::Do { op, .. } => {
                    workload.begun(op, now);
                    self.disk = Some(workload.save());
                    if crash_after_effect == Some(false) {
                        return;
                    }
                    let done = self.engine.act(op, &workload.target().clone());
                    if crash_after_effect == Some(true) {
                        return;
                    }
                    match done {
                        Ok(()) => workload.done(now),
                        Err(fault) => workload.failed(fault, now),
                    }
                    self.save();
                }
                Step::Forget => {
                    self.disk = None;
                    if crash_after_effect.is_none() {
                        self.workload = None;
                    }
                }
                Step::Wait { .. }
                | Step::Busy { .. }
                | Step::NeedsSecrets
                | Step::Silent
                | Step::Rest => {}
            }
        }

        /// Lets everything calm down: the runtime answers, and nothing fails any more.
        fn settle(&mut self) -> Verdict {
            self.engine.silent = false;
            self.engine.fault = None;
            let mut calm = 0;
            for _ in 0..200 {
                self.happen(Event::Look);
                for _ in 0..12 {
                    self.happen(Event::Act);
                }
                self.now += 30;
                let step = self.workload.as_ref().map(|workload| workload.next(self.now()));
                calm = if matches!(step, None | Some(Step::Rest)) { calm + 1 } else { 0 };
                if calm > 5 {
                    return Ok(());
                }
            }
            Err(format!("it does not come to rest: {self:?}"))
        }

        fn check(&self) -> Verdict {
            let there = &self.engine.instances;
            ensure!(self.engine.most <= 1, "{} at once", self.engine.most);
            let Some(workload) = &self.workload else {
                ensure!(there.is_empty(), "it was deleted and is still there: {there:?}");
                return Ok(());
            };
            let status = workload.status(self.now());
            let wanted = workload.desired() == Desired::Running && !self.drained;
            let runs = there.iter().any(|one| one.state == InstanceState::Running);
            match status.actual {
                Actual::Running => {
                    ensure!(runs && wanted, "RUNNING but {there:?}");
                    ensure!(
                        there[0].revision == status.revision.as_str(),
                        "{} is told and {there:?} is there",
                        status.revision
                    );
                }
                Actual::Stopped => {
                    ensure!(!runs, "STOPPED but {there:?}");
                    let completed = status.message.starts_with("completed");
                    ensure!(!wanted || completed, "it should run: {status:?}");
                }
                Actual::Failed => {
                    ensure!(status.terminal, "it is still tried: {status:?}");
                    let fault = status.fault.as_ref().map(|fault| fault.kind);
                    ensure!(fault.is_some(), "no reason: {status:?}");
                    let ended = fault == Some(FaultKind::Exited);
                    ensure!(!ended || self.engine.ended_badly, "nothing ended: {status:?}");
                    // What we stopped ourselves did not fail, whatever else did before.
                    let words = status.fault.as_ref().map(|fault| &*fault.words);
                    let by_itself = words == Some("it ended with code 1");
                    ensure!(!ended || by_itself, "we ended it ourselves: {status:?}");
                }
                Actual::Pending | Actual::Unknown => {
                    return Err(format!("not settled: {status:?}"));
                }
            }
            Ok(())
        }

        /// Who runs once was not started more often than somebody wanted it.
        fn check_starts(&self) -> Verdict {
            let (starts, wishes) = (self.engine.asked, self.wishes);
            ensure!(starts <= wishes, "{starts} starts, and {wishes} were wanted");
            Ok(())
        }
    }

    #[test]
    fn whatever_happens_what_is_there_is_what_is_wanted_in_the_end() {
        let name = "whatever_happens_what_is_there_is_what_is_wanted_in_the_end";
        let mut cases = Cases::of(name, 40_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let events: Vec<Event> = (0..5 + rng.below(60)).map(|_| event(&mut rng)).collect();
            cases.check(seed, &events, |events| {
                let mut daemon = Daemon::default();
                for event in events {
                    daemon.happen(*event);
                }
                daemon.settle()?;
                daemon.check()
            });
            let crashes = events.iter().filter(|one| matches!(one, Event::Crash { .. })).count();
            cases.count(if crashes == 0 { "without crash" } else { "with crashes" });
            if events.iter().any(|one| matches!(one, Event::Jump { back: true, .. })) {
                cases.count("with a clock that was put back");
            }
        }
        cases.report();
    }

    #[test]
    fn nobody_who_runs_once_is_started_more_often_than_somebody_wanted() {
        let name = "nobody_who_runs_once_is_started_more_often_than_somebody_wanted";
        let mut cases = Cases::of(name, 40_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let events: Vec<Event> =
                (0..5 + rng.below(60)).map(|_| event(&mut rng).of_a_job()).collect();
            cases.check(seed, &events, |events| {
                let mut daemon = Daemon::default();
                for event in events {
                    daemon.happen(*event);
                }
                daemon.settle()?;
                daemon.check_starts()
            });
            cases.count("jobs");
        }
        cases.report();
    }

    /// What can happen around a drain that ends nobody.
    fn harmless(rng: &mut Rng) -> Event {
        match rng.below(8) {
            0 => Event::Crash { after_effect: rng.below(2) == 0 },
            1 => Event::Look,
            2 => Event::Pass { seconds: 1 + rng.below(90) },
            3 => Event::Speak(rng.below(2) == 0),
            _ => Event::Act,
        }
    }

    #[test]
    fn what_ran_before_a_drain_runs_again_after_it() {
        let name = "what_ran_before_a_drain_runs_again_after_it";
        let mut cases = Cases::of(name, 10_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let revision = place(&mut rng, 4);
            let mut events = vec![Event::Apply { revision, desired: Desired::Running }];
            events.extend([Event::Act; 12]);
            for drained in [true, false, true, false] {
                events.push(Event::Drain(drained));
                events.extend((0..rng.below(12)).map(|_| harmless(&mut rng)));
            }
            cases.check(seed, &events, |events| {
                let mut daemon = Daemon::default();
                for event in events {
                    daemon.happen(*event);
                }
                daemon.settle()?;
                daemon.check()?;
                // Where the list was made shorter, there may be no apply, or no end of the drain.
                let told = daemon.workload.as_ref().map(|it| it.status(daemon.now()).actual);
                let runs = told == Some(Actual::Running);
                ensure!(told.is_none() || daemon.drained || runs, "it is {told:?}");
                Ok(())
            });
            cases.count("drains");
        }
        cases.report();
    }

    #[test]
    fn a_crash_at_every_step_of_a_replacement_leads_to_the_same_end() {
        for crash_at in 0..40 {
            for after_effect in [false, true] {
                let mut daemon = Daemon::default();
                let apply = |revision| Event::Apply { revision, desired: Desired::Running };
                daemon.happen(apply(2));
                for step in 0..40 {
                    if step == 20 {
                        daemon.happen(apply(3));
                    }
                    let crash = Event::Crash { after_effect };
                    daemon.happen(if step == crash_at { crash } else { Event::Act });
                }
                daemon.settle().expect("it comes to rest");
                daemon.check().expect("it is what is wanted");
                let there = &daemon.engine.instances;
                assert_eq!(there.len(), 1, "crash at {crash_at}: {there:?}");
                assert_eq!(there[0].revision, "r3", "crash at {crash_at}");
                let status = daemon.workload.as_ref().map(|it| it.status(daemon.now()).actual);
                // Revision 3 runs once in this model, and nothing ended it.
                assert_eq!(status, Some(Actual::Running), "crash at {crash_at}");
                assert!(daemon.now() < Moment::from_ms(0) + Span::from_s(3600));
            }
        }
    }
}
