//! What is counted, logged and told of what the loop does.

use std::sync::Mutex;

use tracing_subscriber::fmt::MakeWriter;

use super::*;

#[test]
fn what_was_asked_for_is_in_force_once_it_was_seen() {
    let mut script = Script::new(Mood::Asks);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 1500);
    let asked = board.tally().asked;
    assert!(asked > 0);
    assert_eq!(board.tally().changes, 0, "nobody has seen any of it");
    assert_eq!(board.explain("web").unwrap().changes[0].result, ChangeResult::Asked);

    drive.outside().mood = Mood::Works;
    drive.outside().changes.push(Change::Took(WorkloadUid::new("web")));
    run(&mut drive, 1000);
    let at_once = u64::try_from(drive.outside().carried.len()).unwrap() - asked;
    let tally = board.tally();
    assert_eq!((tally.asked, tally.changes), (asked, at_once + 1));
}

#[test]
fn what_an_owner_changes_is_told_and_what_was_decided_before_is_not_counted() {
    let mut script = Script::new(Mood::IsOvertaken);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 5000);
    assert!(!drive.outside().carried.is_empty(), "nothing was decided");
    assert_eq!(limit(&drive, "web"), 200);
    assert_eq!((board.tally().changes, board.state().failures), (0, 0));
    drive.outside().mood = Mood::Works;
    drive.outside().is_owned("web", 200, 300);
    run(&mut drive, 1000);
    let told = board.explain("web").unwrap();
    let words = "its owner changed its limit from 200m to 300m; that is what it came with";
    assert!(told.sentences.iter().any(|it| it.contains(words)), "{:?}", told.sentences);
    assert_eq!(told.workload.original_limit_milli, Some(300));
}

#[test]
fn a_cut_is_told_as_it_was_cleared() {
    let learning = Profile { learning: true, ..Profile::SEED };
    let mut script = Script::new(Mood::Works);
    script.comes("web", 1200, 200);
    script.comes("batch", 2500, 400);
    script.comes("db", 900, 400);
    let (mut drive, board) = drive_with(script, &learning);
    let mut cut = 0;
    for _ in 0..40 {
        run(&mut drive, 5000);
        let state = board.state();
        for (told, workload) in state.workloads.iter().zip(drive.node().workloads()) {
            let reduction = workload.grant.map(|grant| grant.reduction.to_f64());
            assert_eq!(told.reduction_ratio, reduction, "{}", told.name);
            // What a bidder asks for is not what it was estimated to need.
            let bid = workload.grant.map(|grant| grant.need);
            cut += usize::from(reduction > Some(0.0) && bid != workload.need);
        }
    }
    assert!(cut > 0, "nobody was cut who had asked for something else than its need");
}

#[test]
fn how_the_market_stands_is_news() {
    let log = Log::default();
    let layer = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO);
    let subscriber = layer.with_ansi(false).with_writer(log.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut script = Script::new(Mood::Works);
        script.comes("web", 1900, 1000);
        script.comes("batch", 1900, 1000);
        let (mut drive, _) = drive(script);
        run(&mut drive, 60_000);
    });
    let text = log.text();
    assert!(text.contains("INFO"), "{text}");
    assert!(text.contains("the market was uncongested and is congested"), "{text}");
    assert!(!text.contains("held back at its max"), "the rest is for who looks for it: {text}");
}

#[test]
fn counters_that_cannot_be_read_are_counted_and_are_no_idleness() {
    let mut script = Script::new(Mood::Works);
    script.comes("web", 1200, 200);
    let (mut drive, board) = drive(script);
    run(&mut drive, 60_000);
    assert_eq!(board.tally().read_errors, 0);
    drive.outside().readable = false;
    // A clearing has taken in what was read before.
    run(&mut drive, 20_000);
    let (before, limit_before) = (board.state(), limit(&drive, "web"));
    assert!(before.workloads[0].need_milli >= Some(1200), "{:?}", before.workloads[0]);
    run(&mut drive, 120_000);
    let (after, errors) = (board.state(), board.tally().read_errors);
    assert!(errors > 50, "{errors}");
    assert_eq!(after.workloads[0].need_milli, before.workloads[0].need_milli);
    assert_eq!(after.workloads[0].usage_milli, before.workloads[0].usage_milli);
    assert!(limit(&drive, "web") >= limit_before, "{}", limit(&drive, "web"));
    let notes = board.explain("web").unwrap().notes;
    let missing = "no sample since the last clearing, so its need stays";
    assert!(notes.iter().any(|note| note.text.starts_with(missing)), "{notes:?}");

    drive.outside().readable = true;
    run(&mut drive, 60_000);
    assert_eq!(board.tally().read_errors, errors);
    assert!(board.state().workloads[0].need_milli >= Some(1200));
    assert!(limit(&drive, "web") >= 1200);
}

/// Where messages go in a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
