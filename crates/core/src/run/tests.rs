//! Every transition of a workload, told as a story each.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::units::{Bytes, Millicores, Span};

fn at(s: u64) -> Moment {
    Moment::from_ms(1_000_000 + s * 1000)
}

pub(super) fn container() -> Container {
    Container::new("busybox")
}

fn spec(revision: &str, restart: Restart) -> Spec {
    Spec {
        revision: Revision::new(revision).unwrap(),
        rollback: false,
        secrets: vec![],
        work: Work::Container(Container { restart, ..container() }),
    }
}

fn revertible(revision: &str) -> Spec {
    Spec { rollback: true, ..spec(revision, Restart::Always) }
}

fn instance(revision: &str, state: InstanceState, started: &str) -> Instance {
    let (revision, started) = (revision.to_string(), started.to_string());
    Instance { handle: "c1".to_string(), revision, started, state, health: None }
}

fn workload(spec: Spec, desired: Desired) -> Workload {
    Workload::new(WorkloadId::new("web").unwrap(), spec, desired, at(0))
}

fn look(workload: &mut Workload, instances: Vec<Instance>, now: Moment) -> Step {
    let ticket = workload.ticket();
    assert!(workload.seen(ticket, instances, now), "the look counts");
    workload.next(now)
}

fn due(op: Op, why: Why) -> Step {
    Step::Do { op, why }
}

/// Begins what is due, and ends it well.
fn carry_out(workload: &mut Workload, op: Op, why: Why, now: Moment) {
    assert_eq!(workload.next(now), due(op, why));
    workload.begun(op, now);
    assert_eq!(workload.next(now), Step::Busy { op });
    workload.done(now);
    assert_eq!(workload.next(now), Step::Look);
    // What ran before says nothing about what runs now, until somebody looked.
    let actual = workload.status(now).actual;
    assert!(matches!(actual, Actual::Pending | Actual::Unknown), "{actual:?}");
}

/// A workload that was created, started and seen running long enough to be good.
fn running(spec: Spec) -> Workload {
    let revision = spec.revision.to_string();
    let mut workload = workload(spec, Desired::Running);
    assert_eq!(look(&mut workload, vec![], at(0)), due(Op::Prepare, Why::Applied));
    carry_out(&mut workload, Op::Prepare, Why::Applied, at(0));
    look(&mut workload, vec![], at(0));
    carry_out(&mut workload, Op::Create, Why::Applied, at(0));
    look(&mut workload, vec![instance(&revision, InstanceState::Created, "")], at(0));
    carry_out(&mut workload, Op::Start, Why::Applied, at(0));
    let runs = || vec![instance(&revision, InstanceState::Running, "t1")];
    assert_eq!(look(&mut workload, runs(), at(0)), Step::Rest);
    assert_eq!(look(&mut workload, runs(), at(10)), Step::Rest);
    assert_eq!(workload.status(at(10)).actual, Actual::Running);
    workload
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, "because")
}

fn told(workload: &Workload, now: Moment) -> (Actual, String) {
    let status = workload.status(now);
    (status.actual, status.message)
}

#[test]
fn a_new_workload_is_looked_for_prepared_created_and_started() {
    let fresh = workload(spec("1", Restart::Always), Desired::Running);
    assert_eq!(fresh.next(at(0)), Step::Look);
    assert_eq!(fresh.status(at(0)).actual, Actual::Unknown);
    running(spec("1", Restart::Always));
}

#[test]
fn the_same_revision_again_is_nothing_and_touches_nothing() {
    let mut workload = running(spec("1", Restart::Always));
    let before = workload.clone();
    let revision = Revision::new("1").unwrap();
    assert_eq!(workload.judge(&revision, Desired::Running), Verdict::Same);
    let mut other = spec("1", Restart::No);
    other.rollback = true;
    workload.applied(other, Desired::Running, at(20));
    assert_eq!(workload, before, "a revision is one spec");
}

#[test]
fn another_desired_state_only_starts_or_stops() {
    let mut workload = running(spec("1", Restart::No));
    assert_eq!(workload.judge(&Revision::new("1").unwrap(), Desired::Stopped), Verdict::Switch);
    workload.applied(spec("1", Restart::No), Desired::Stopped, at(20));
    carry_out(&mut workload, Op::Stop, Why::Stopped, at(20));
    let ended = || vec![instance("1", InstanceState::Exited { code: 137 }, "t1")];
    assert_eq!(look(&mut workload, ended(), at(21)), Step::Rest);
    assert_eq!(told(&workload, at(21)), (Actual::Stopped, "it is stopped".to_string()));
    workload.applied(spec("1", Restart::No), Desired::Running, at(30));
    assert_eq!(look(&mut workload, ended(), at(30)), due(Op::Start, Why::Applied));
    carry_out(&mut workload, Op::Start, Why::Applied, at(30));
    assert_eq!(
        look(&mut workload, vec![instance("1", InstanceState::Running, "t2")], at(31)),
        Step::Rest
    );
}

#[test]
fn a_workload_that_should_not_run_is_not_made() {
    let mut workload = workload(spec("1", Restart::Always), Desired::Stopped);
    assert_eq!(look(&mut workload, vec![], at(0)), Step::Rest);
    assert_eq!(workload.status(at(0)).actual, Actual::Stopped);
}

#[test]
fn a_new_revision_is_prepared_while_the_old_one_runs_and_then_takes_its_place() {
    let mut workload = running(spec("1", Restart::Always));
    assert_eq!(workload.judge(&Revision::new("2").unwrap(), Desired::Running), Verdict::Replace);
    workload.applied(spec("2", Restart::Always), Desired::Running, at(20));
    carry_out(&mut workload, Op::Prepare, Why::Replaced, at(20));
    look(&mut workload, vec![instance("1", InstanceState::Running, "t1")], at(20));
    carry_out(&mut workload, Op::Stop, Why::Replaced, at(20));
    let ended = InstanceState::Exited { code: 0 };
    look(&mut workload, vec![instance("1", ended, "t1")], at(20));
    carry_out(&mut workload, Op::Remove, Why::Replaced, at(20));
    look(&mut workload, vec![], at(20));
    carry_out(&mut workload, Op::Create, Why::Applied, at(20));
    look(&mut workload, vec![instance("2", InstanceState::Created, "")], at(20));
    carry_out(&mut workload, Op::Start, Why::Applied, at(20));
}

#[test]
fn a_new_revision_that_cannot_be_prepared_leaves_the_old_one_running() {
    let mut workload = running(spec("1", Restart::Always));
    workload.applied(spec("2", Restart::Always), Desired::Running, at(20));
    workload.begun(Op::Prepare, at(20));
    workload.failed(fault(FaultKind::ImageNotFound), at(21));
    let runs = vec![instance("1", InstanceState::Running, "t1")];
    assert_eq!(look(&mut workload, runs, at(22)), Step::Rest);
    let status = workload.status(at(22));
    assert_eq!((status.actual, status.terminal), (Actual::Failed, true));
    assert_eq!(status.message, "IMAGE_NOT_FOUND: because");
}

#[test]
fn a_fault_that_can_go_away_is_tried_again_later_and_not_for_ever() {
    let mut workload = workload(spec("1", Restart::Always), Desired::Running);
    let mut now = at(0);
    for attempt in 1..ATTEMPTS_MAX {
        look(&mut workload, vec![], now);
        workload.begun(Op::Prepare, now);
        workload.failed(fault(FaultKind::ImagePull), now);
        let Step::Wait { until } = look(&mut workload, vec![], now) else {
            panic!("attempt {attempt}: {:?}", workload.next(now))
        };
        assert!(until > now && until <= now + Span::from_s(150), "attempt {attempt}");
        let status = workload.status(now);
        assert_eq!((status.actual, status.attempts), (Actual::Pending, attempt));
        assert_eq!(status.retry_at, Some(until));
        now = until;
        assert_eq!(workload.next(now), due(Op::Prepare, Why::Applied));
    }
    workload.begun(Op::Prepare, now);
    workload.failed(fault(FaultKind::ImagePull), now);
    assert_eq!(look(&mut workload, vec![], now), Step::Rest);
    assert_eq!(workload.status(now).actual, Actual::Failed);
    // Applied again, it is tried again at once.
    let again = spec("1", Restart::Always);
    assert_eq!(workload.judge(&again.revision, Desired::Running), Verdict::Again);
    workload.applied(again, Desired::Running, now);
    assert_eq!(workload.next(now), due(Op::Prepare, Why::Applied));
}

#[test]
fn a_fault_that_stays_is_kept_and_told_and_not_tried_again() {
    let mut workload = workload(spec("1", Restart::Always), Desired::Running);
    look(&mut workload, vec![], at(0));
    workload.begun(Op::Prepare, at(0));
    workload.done(at(0));
    look(&mut workload, vec![], at(0));
    workload.begun(Op::Create, at(0));
    workload.failed(fault(FaultKind::InvalidSpec), at(0));
    assert_eq!(look(&mut workload, vec![], at(100_000)), Step::Rest);
    assert_eq!(told(&workload, at(100_000)).1, "INVALID_SPEC: because");
    workload.applied(spec("1", Restart::Always), Desired::Stopped, at(100_001));
    let (actual, words) = told(&workload, at(100_001));
    assert_eq!(
        (actual, &*words),
        (Actual::Stopped, "it is stopped; it failed: INVALID_SPEC: because")
    );
}

#[test]
fn an_image_that_went_away_before_it_was_used_is_fetched_again() {
    let mut workload = workload(spec("1", Restart::Always), Desired::Running);
    look(&mut workload, vec![], at(0));
    carry_out(&mut workload, Op::Prepare, Why::Applied, at(0));
    look(&mut workload, vec![], at(0));
    workload.begun(Op::Create, at(0));
    workload.failed(fault(FaultKind::ImageNotFound), at(0));
    assert_eq!(look(&mut workload, vec![], at(10)), due(Op::Prepare, Why::Applied));
}

#[test]
fn getting_rid_of_something_is_never_given_up() {
    let mut workload = running(spec("1", Restart::Always));
    workload.deleted(at(20));
    let mut now = at(20);
    for _ in 0..ATTEMPTS_MAX * 2 {
        let runs = vec![instance("1", InstanceState::Running, "t1")];
        assert_eq!(look(&mut workload, runs, now), due(Op::Stop, Why::Deleted));
        workload.begun(Op::Stop, now);
        workload.failed(fault(FaultKind::InvalidSpec), now);
        now = now + Span::from_s(150);
    }
    assert!(told(&workload, now).1.starts_with("it is being deleted; INVALID_SPEC"));
}

#[test]
fn a_silent_runtime_makes_it_unknown_and_never_gone() {
    let mut workload = running(spec("1", Restart::Always));
    workload.runtime_silent(at(20));
    workload.runtime_silent(at(50));
    assert_eq!(workload.next(at(50)), Step::Silent);
    let (actual, words) = told(&workload, at(50));
    assert_eq!(actual, Actual::Unknown);
    assert_eq!(words, "the runtime is silent since 30 s; it last answered 40 s ago");
    workload.stirred();
    assert_eq!(workload.next(at(60)), Step::Look);
    let ended = vec![instance("1", InstanceState::Exited { code: 255 }, "t1")];
    assert_eq!(look(&mut workload, ended, at(60)), due(Op::Start, Why::Drifted));
}

#[test]
fn an_operation_without_an_answer_leads_to_silence_and_then_to_a_look() {
    let mut workload = workload(spec("1", Restart::Always), Desired::Running);
    look(&mut workload, vec![], at(0));
    carry_out(&mut workload, Op::Prepare, Why::Applied, at(0));
    look(&mut workload, vec![], at(0));
    workload.begun(Op::Create, at(0));
    workload.failed(fault(FaultKind::Silent), at(1));
    assert_eq!(workload.next(at(1)), Step::Silent);
    assert_eq!(workload.status(at(1)).attempts, 0, "that was not its fault");
    // It was made nevertheless.
    let made = vec![instance("1", InstanceState::Created, "")];
    assert_eq!(look(&mut workload, made, at(2)), due(Op::Start, Why::Applied));
}

#[test]
fn a_look_from_before_an_operation_does_not_count() {
    let mut workload = workload(spec("1", Restart::Always), Desired::Running);
    let early = workload.ticket();
    look(&mut workload, vec![], at(0));
    workload.begun(Op::Prepare, at(0));
    assert!(!workload.seen(early, vec![], at(0)), "while it is under way");
    let during = workload.ticket();
    workload.done(at(0));
    assert!(!workload.seen(during, vec![], at(0)), "begun while it was under way");
    assert_eq!(workload.next(at(0)), Step::Look);
}

#[test]
fn what_is_found_otherwise_than_it_was_left_is_repaired_ever_more_slowly() {
    let mut workload = running(spec("1", Restart::Always));
    let mut now = at(20);
    for repair in 1..=4_u64 {
        let ended = vec![instance("1", InstanceState::Exited { code: 137 }, "t1")];
        let mut step = look(&mut workload, ended, now);
        if let Step::Wait { until } = step {
            assert!(repair > 1 && until > now);
            now = until;
            step = workload.next(now);
        }
        assert_eq!(step, due(Op::Start, Why::Drifted), "repair {repair}");
        carry_out(&mut workload, Op::Start, Why::Drifted, now);
    }
    assert!(now >= at(20 + 5 + 10 + 20), "{now:?}");
    assert_eq!(workload.status(now).repairs, 4);
    // A steady one is repaired at once again.
    let runs = vec![instance("1", InstanceState::Running, "t9")];
    look(&mut workload, runs, now);
    let later = now + STEADY_AFTER + Span::from_s(1);
    let gone = vec![];
    assert_eq!(look(&mut workload, gone, later), due(Op::Prepare, Why::Drifted));
    let ended = vec![instance("1", InstanceState::Exited { code: 1 }, "t9")];
    assert_eq!(look(&mut workload, ended, later), due(Op::Start, Why::Drifted));
}

#[test]
fn what_was_removed_by_somebody_is_made_again_and_what_was_paused_is_started() {
    let mut workload = running(spec("1", Restart::Always));
    assert_eq!(look(&mut workload, vec![], at(20)), due(Op::Prepare, Why::Drifted));
    let paused = vec![instance("1", InstanceState::Paused, "t1")];
    assert_eq!(look(&mut workload, paused, at(20)), due(Op::Start, Why::Drifted));
    let broken = vec![instance("1", InstanceState::Broken, "t1")];
    assert_eq!(look(&mut workload, broken, at(20)), due(Op::Remove, Why::Superfluous));
    let restarting = vec![instance("1", InstanceState::Restarting, "t1")];
    assert_eq!(look(&mut workload, restarting, at(20)), Step::Rest);
    assert_eq!(workload.status(at(20)).actual, Actual::Pending);
}

#[test]
fn two_instances_are_both_removed_and_one_is_made() {
    let mut workload = running(spec("1", Restart::Always));
    let twin = Instance {
        handle: "c2".to_string(),
        ..instance("1", InstanceState::Exited { code: 0 }, "t2")
    };
    let both = vec![twin.clone(), instance("1", InstanceState::Running, "t1")];
    assert_eq!(look(&mut workload, both, at(20)), due(Op::Stop, Why::Superfluous));
    let handles: Vec<_> = workload.instances().iter().map(|seen| &*seen.handle).collect();
    assert_eq!(handles, ["c1", "c2"]);
    let ended = vec![twin, instance("1", InstanceState::Exited { code: 0 }, "t1")];
    assert_eq!(look(&mut workload, ended, at(21)), due(Op::Remove, Why::Superfluous));
}

#[test]
fn who_runs_once_is_done_when_it_ends_well_and_failed_when_not() {
    for restart in [Restart::No, Restart::OnFailure { retries: 3 }] {
        let mut done = running(spec("1", restart));
        let ended = |code| vec![instance("1", InstanceState::Exited { code }, "t1")];
        assert_eq!(look(&mut done, ended(0), at(20)), Step::Rest);
        assert_eq!(told(&done, at(20)), (Actual::Stopped, "completed".to_string()));
        assert_eq!(look(&mut done, vec![], at(30)), Step::Rest, "not even when it was removed");
        assert_eq!(told(&done, at(30)), (Actual::Stopped, "completed".to_string()));
        let mut failed = running(spec("1", restart));
        assert_eq!(look(&mut failed, ended(3), at(20)), Step::Rest);
        let message = "EXITED: it ended with code 3".to_string();
        assert_eq!(told(&failed, at(20)), (Actual::Failed, message));
        failed.applied(spec("1", restart), Desired::Running, at(30));
        assert_eq!(look(&mut failed, ended(3), at(30)), due(Op::Start, Why::Applied));
    }
}

#[test]
fn a_start_whose_end_was_never_told_is_not_repeated() {
    let mut workload = running(spec("1", Restart::No));
    workload.applied(spec("1", Restart::No), Desired::Stopped, at(20));
    carry_out(&mut workload, Op::Stop, Why::Stopped, at(20));
    let ended = |code, started| vec![instance("1", InstanceState::Exited { code }, started)];
    look(&mut workload, ended(137, "t1"), at(20));
    workload.applied(spec("1", Restart::No), Desired::Running, at(21));
    look(&mut workload, ended(137, "t1"), at(21));
    workload.begun(Op::Start, at(21));
    let record = workload.save();
    // Here the daemon dies. The start had its effect in one world and not in the other.
    let mut not_started = Workload::load(&record).unwrap();
    let step = look(&mut not_started, ended(137, "t1"), at(30));
    assert_eq!(step, due(Op::Start, Why::Applied));
    let mut started = Workload::load(&record).unwrap();
    assert_eq!(look(&mut started, ended(0, "t2"), at(30)), Step::Rest);
    assert_eq!(told(&started, at(30)).1, "completed");
}

#[test]
fn a_new_revision_that_does_not_do_well_gives_way_where_its_spec_says_so() {
    let mut workload = running(revertible("1"));
    workload.applied(revertible("2"), Desired::Running, at(20));
    carry_out(&mut workload, Op::Prepare, Why::Replaced, at(20));
    look(&mut workload, vec![], at(20));
    carry_out(&mut workload, Op::Create, Why::Applied, at(20));
    look(&mut workload, vec![instance("2", InstanceState::Created, "")], at(20));
    carry_out(&mut workload, Op::Start, Why::Applied, at(20));
    let restarting = || vec![instance("2", InstanceState::Restarting, "t2")];
    assert_eq!(look(&mut workload, restarting(), at(79)), Step::Rest);
    assert_eq!(look(&mut workload, restarting(), at(80)), due(Op::Prepare, Why::RolledBack));
    assert_eq!(workload.target().revision.as_str(), "1");
    carry_out(&mut workload, Op::Prepare, Why::RolledBack, at(80));
    look(&mut workload, restarting(), at(80));
    carry_out(&mut workload, Op::Stop, Why::RolledBack, at(80));
    let ended = vec![instance("2", InstanceState::Exited { code: 1 }, "t2")];
    assert_eq!(look(&mut workload, ended, at(80)), due(Op::Remove, Why::RolledBack));
    look(&mut workload, vec![instance("1", InstanceState::Running, "t3")], at(81));
    let status = workload.status(at(81));
    assert_eq!((status.actual, status.revision.as_str()), (Actual::Running, "1"));
    assert_eq!(status.failed_revision.map(|failed| failed.to_string()), Some("2".to_string()));
    let message = "it runs; revision 2 gave way: UNHEALTHY: it did not do well within 60 s";
    assert_eq!(status.message, message);
    // A third one that fails gives way to the first, which was the last good one.
    workload.applied(revertible("3"), Desired::Running, at(90));
    workload.begun(Op::Prepare, at(90));
    workload.failed(fault(FaultKind::ImageNotFound), at(90));
    assert_eq!(workload.target().revision.as_str(), "1");
    // And the failed one, applied again, is tried again.
    assert_eq!(workload.judge(&Revision::new("3").unwrap(), Desired::Running), Verdict::Again);
}

#[test]
fn nothing_gives_way_that_was_good_or_has_nothing_before_it() {
    let mut first = workload(revertible("1"), Desired::Running);
    look(&mut first, vec![], at(0));
    first.begun(Op::Prepare, at(0));
    first.failed(fault(FaultKind::ImageNotFound), at(0));
    look(&mut first, vec![], at(0));
    assert_eq!(first.status(at(0)).actual, Actual::Failed);
    let mut good = running(revertible("1"));
    good.applied(revertible("2"), Desired::Running, at(20));
    let runs = |at| vec![instance("2", InstanceState::Running, at)];
    look(&mut good, runs("t2"), at(20));
    look(&mut good, runs("t2"), at(30));
    look(&mut good, vec![instance("2", InstanceState::Restarting, "t3")], at(500));
    assert_eq!(good.target().revision.as_str(), "2");
}

#[test]
fn health_gates_a_new_revision() {
    let with =
        |health| Instance { health: Some(health), ..instance("2", InstanceState::Running, "t2") };
    let mut workload = running(revertible("1"));
    workload.applied(revertible("2"), Desired::Running, at(20));
    look(&mut workload, vec![with(Health::Starting)], at(20));
    assert_eq!(workload.status(at(20)).actual, Actual::Pending);
    let mut well = workload.clone();
    look(&mut well, vec![with(Health::Healthy)], at(21));
    assert_eq!(well.status(at(21)).actual, Actual::Running);
    look(&mut well, vec![with(Health::Unhealthy)], at(22));
    assert_eq!(well.target().revision.as_str(), "2", "it was good before");
    assert!(told(&well, at(22)).1.contains("its health check fails"));
    look(&mut workload, vec![with(Health::Unhealthy)], at(21));
    assert_eq!(workload.target().revision.as_str(), "1");
}

#[test]
fn a_deleted_workload_is_stopped_removed_and_forgotten() {
    let mut workload = running(spec("1", Restart::Always));
    workload.deleted(at(20));
    let again = spec("2", Restart::Always);
    assert_eq!(workload.judge(&again.revision, Desired::Running), Verdict::Deleting);
    workload.applied(again, Desired::Running, at(20));
    assert_eq!(workload.needs(), Needs::default());
    carry_out(&mut workload, Op::Stop, Why::Deleted, at(20));
    look(&mut workload, vec![instance("1", InstanceState::Exited { code: 0 }, "t1")], at(20));
    carry_out(&mut workload, Op::Remove, Why::Deleted, at(20));
    assert_eq!(look(&mut workload, vec![], at(21)), Step::Forget);
}

#[test]
fn a_drained_host_stops_everything_and_starts_it_again_afterwards() {
    let mut job = running(spec("1", Restart::No));
    job.drained(true);
    carry_out(&mut job, Op::Stop, Why::Drained, at(20));
    let ended = |code| vec![instance("1", InstanceState::Exited { code }, "t1")];
    assert_eq!(look(&mut job, ended(137), at(20)), Step::Rest);
    assert_eq!(told(&job, at(20)).1, "it is stopped; the host is drained");
    // The daemon dies meanwhile, and its host is no longer drained when it comes back.
    let mut job = Workload::load(&job.save()).unwrap();
    job.drained(false);
    assert_eq!(look(&mut job, ended(137), at(30)), due(Op::Start, Why::Applied));
    let mut done = running(spec("1", Restart::No));
    look(&mut done, ended(0), at(20));
    done.drained(true);
    done.drained(false);
    assert_eq!(look(&mut done, ended(0), at(30)), Step::Rest, "what is done stays done");
}

#[test]
fn who_needs_secrets_waits_for_them_and_lets_the_old_one_run_meanwhile() {
    let secret = Spec { secrets: vec!["TOKEN".to_string()], ..spec("2", Restart::Always) };
    let mut fresh = workload(secret.clone(), Desired::Running);
    look(&mut fresh, vec![], at(0));
    carry_out(&mut fresh, Op::Prepare, Why::Applied, at(0));
    assert_eq!(look(&mut fresh, vec![], at(0)), Step::NeedsSecrets);
    assert!(told(&fresh, at(0)).1.contains("apply it again with them"));
    fresh.secrets_known(true);
    assert_eq!(fresh.next(at(0)), due(Op::Create, Why::Applied));
    let mut old = running(spec("1", Restart::Always));
    old.applied(secret, Desired::Running, at(20));
    carry_out(&mut old, Op::Prepare, Why::Replaced, at(20));
    let runs = vec![instance("1", InstanceState::Running, "t1")];
    assert_eq!(look(&mut old, runs, at(20)), Step::NeedsSecrets);
}

#[test]
fn what_is_saved_is_what_is_loaded_and_what_is_damaged_is_refused() {
    let workload = running(revertible("1"));
    let record = workload.save();
    let loaded = Workload::load(&record).unwrap();
    assert_eq!(loaded.save(), record);
    assert_eq!(loaded.next(at(20)), Step::Look);
    let newer = record.replace("\"version\":2", "\"version\":3");
    assert_eq!(Workload::load(&newer), Err(SavedError::Newer { found: 3 }));
    for bad in ["", "{}", "[]", "{\"version\":0}", &record[..record.len() - 2]] {
        assert!(matches!(Workload::load(bad), Err(SavedError::Damaged(_))), "{bad}");
    }
    let escaped = record.replace("\"id\":\"web\"", "\"id\":\"../web\"");
    assert!(matches!(Workload::load(&escaped), Err(SavedError::Damaged(_))));
}

#[test]
fn a_record_of_the_first_version_is_read_for_ever() {
    let record = include_str!("../../testdata/run/version_1.json");
    let workload = Workload::load(record).unwrap();
    assert_eq!(workload.id().as_str(), "web");
    assert_eq!(workload.target().revision.as_str(), "1");
    assert_eq!(workload.spec().revision.as_str(), "2");
    let second = include_str!("../../testdata/run/version_2.json");
    assert_eq!(workload.save(), second.trim_end(), "it is saved as the newest version");
    assert_eq!(Workload::load(second).unwrap(), workload);
}

#[test]
fn every_fault_of_a_container_is_told_with_its_field() {
    let mut bad = container();
    bad.image = "-rm".to_string();
    bad.args = vec!["a\0b".to_string()];
    bad.env.insert("A=B".to_string(), String::new());
    let mount = |source, path: &str| {
        let path = path.to_string();
        Mount { source, path, read_only: false, goes_with_workload: false }
    };
    bad.mounts = vec![
        mount(Source::Path("/a/../etc".to_string()), "/data"),
        mount(Source::Volume("../x".to_string()), "data"),
        mount(Source::Volume("ok".to_string()), "/data"),
    ];
    let port = |host, container| Port { host, container, protocol: Protocol::Tcp };
    bad.ports = vec![port(80, 0), port(80, 81)];
    bad.resources = Resources {
        cpu_shares: Some(1),
        memory: Some(Bytes::new(1)),
        memory_swap: Some(Bytes::new(0)),
        cpu_min: Some(Millicores::new(2)),
        cpu_max: Some(Millicores::new(1)),
        weight_thousandths: Some(0),
        target_latency_ms: Some(0),
    };
    bad.networks = ["host", "a b", "ok", "ok"].map(String::from).to_vec();
    bad.oci_runtime = Some("../runc".to_string());
    bad.logs = LogBounds { max: Bytes::new(1), files: 0 };
    bad.labels.insert("persys.managed".to_string(), String::new());
    let (command, span) = (vec![], Span::ZERO);
    let (interval, timeout, start_period) = (span, span, span);
    bad.health = Some(HealthCheck { command, interval, timeout, retries: 0, start_period });
    let faults = bad.check();
    let fields: Vec<&str> = faults.iter().map(|fault| &*fault.field).collect();
    let expected = [
        "image",
        "args[0]",
        "env",
        "volumes[0].host_path",
        "managed_volumes[1].name",
        "volumes[1].container_path",
        "volumes[2].container_path",
        "ports[0].container_port",
        "ports[1].host_port",
        "resources.cpu_shares",
        "resources.memory_bytes",
        "resources.memory_swap_bytes",
        "resources.cpu_min_milli",
        "resources.weight",
        "resources.target_latency_ms",
        "labels.persys.managed",
        "health_check.command",
        "health_check.interval_s",
        "health_check.timeout_s",
        "health_check.retries",
        "networks[0]",
        "networks[1]",
        "networks[3]",
        "oci_runtime",
        "logs.max_bytes",
        "logs.max_files",
    ];
    assert_eq!(fields, expected);
    assert_eq!(container().check(), vec![]);
    let path = faults[3].to_string();
    let rule = "must be an absolute path without `.`, `..`, `:` and `,`";
    assert_eq!(path, ["volumes[0].host_path: `/a/../etc` ", rule].concat());
}
