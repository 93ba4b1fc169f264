//! Wishes in, writes out, on a clock that the test moves.

use super::*;

const PACE: Pace = Pace { interval: Span::from_s(5), band: Ratio::from_percent(2) };

fn key(name: &str) -> Key {
    Key { namespace: "shop".to_owned(), name: name.to_owned() }
}

fn desired(limit: u64) -> Desired {
    Desired {
        request: Millicores::new(100),
        limit: Millicores::new(limit),
        price: Ratio::ZERO,
        why: String::new(),
    }
}

fn outbox(managed: &[&str]) -> Outbox {
    let outbox = Outbox::new(PACE, 1);
    list(&outbox, &[]);
    outbox.keep_only(managed.iter().map(|name| key(name)).collect());
    outbox
}

/// An object for the pod `name` with that uid, with that limit.
fn there(name: &str, uid: &str, limit: u64, version: u64) -> There {
    let whose = Whose { pod: name.to_owned(), uid: uid.to_owned() };
    There { whose, desired: Some(desired(limit)), version: Some(version) }
}

/// These are there, each for the pod with that uid and with that limit.
fn list(outbox: &Outbox, all: &[(&str, &str, u64)]) {
    let all = all.iter().map(|(name, uid, limit)| (key(name), there(name, uid, *limit, 1)));
    outbox.listed(all.collect());
}

fn put(outbox: &Outbox, name: &str, limit: u64, urgency: Urgency) {
    outbox.put(&key(name), (name, "u1"), desired(limit), urgency);
}

/// What is written at this moment, all of it successfully.
fn written(outbox: &Outbox, at_ms: u64) -> Vec<String> {
    let now = Moment::from_ms(at_ms);
    let mut all = Vec::new();
    while let Next::Do(job) = outbox.next(now) {
        all.push(match &job.desired {
            Some(desired) => format!("{}={}", job.key.name, desired.limit),
            None => format!("{} deleted", job.key.name),
        });
        outbox.done(&job, &Outcome::Done(None), now);
    }
    all
}

#[test]
fn only_the_newest_wish_of_a_pod_is_written_and_only_if_it_changed_enough() {
    let outbox = outbox(&["web"]);
    put(&outbox, "web", 400, Urgency::InTime);
    put(&outbox, "web", 500, Urgency::InTime);
    assert_eq!(written(&outbox, 0), ["web=500m"]);
    put(&outbox, "web", 505, Urgency::AtOnce);
    assert_eq!(written(&outbox, 60_000), Vec::<String>::new(), "within the band");
    put(&outbox, "web", 510, Urgency::InTime);
    assert_eq!(written(&outbox, 60_000), ["web=510m"]);
}

#[test]
fn what_can_wait_waits_for_its_interval_and_a_raise_does_not() {
    let outbox = outbox(&["web"]);
    put(&outbox, "web", 400, Urgency::InTime);
    assert_eq!(written(&outbox, 1000), ["web=400m"]);
    put(&outbox, "web", 300, Urgency::InTime);
    assert_eq!(outbox.next(Moment::from_ms(2000)), Next::Wait(Moment::from_ms(6000)));
    put(&outbox, "web", 800, Urgency::AtOnce);
    assert_eq!(written(&outbox, 2000), ["web=800m"]);
}

#[test]
fn a_price_is_written_when_it_moved_by_more_than_its_band_and_within_the_pace() {
    let outbox = outbox(&["web"]);
    let price = |percent| outbox.set_price(Ratio::from_percent(percent));
    put(&outbox, "web", 400, Urgency::InTime);
    assert_eq!(written(&outbox, 0), ["web=400m"]);
    price(4);
    assert_eq!(written(&outbox, 20_000), [""; 0], "within the band");
    price(5);
    assert_eq!(written(&outbox, 21_000), ["web=400m"]);
    price(90);
    assert_eq!(outbox.next(Moment::from_ms(22_000)), Next::Wait(Moment::from_ms(26_000)));
    assert_eq!(written(&outbox, 26_000), ["web=400m"]);
    price(82);
    assert_eq!(written(&outbox, 40_000), [""; 0], "less than a tenth of it");
    price(0);
    assert_eq!(written(&outbox, 41_000), ["web=400m"]);
    assert!(outbox.is_idle());
}

#[test]
fn an_old_price_does_not_make_a_write_urgent() {
    let outbox = outbox(&["web"]);
    put(&outbox, "web", 400, Urgency::InTime);
    assert_eq!(written(&outbox, 1000), ["web=400m"]);
    put(&outbox, "web", 401, Urgency::AtOnce);
    outbox.set_price(Ratio::ONE);
    assert_eq!(outbox.next(Moment::from_ms(2000)), Next::Wait(Moment::from_ms(6000)));
}

#[test]
fn writes_are_paced() {
    let outbox = outbox(&[]);
    for pod in 0..50 {
        put(&outbox, &format!("p{pod}"), 400, Urgency::InTime);
    }
    assert_eq!(written(&outbox, 0).len(), 20);
    assert_eq!(written(&outbox, 0).len(), 0);
    assert_eq!(written(&outbox, 1000).len(), 20);
    assert_eq!(written(&outbox, 10_000).len(), 10);
    assert!(outbox.is_idle());
}

#[test]
fn while_the_api_server_is_away_pauses_grow_and_then_the_newest_wish_is_written_once() {
    let outbox = outbox(&["web", "db"]);
    put(&outbox, "web", 400, Urgency::AtOnce);
    put(&outbox, "db", 100, Urgency::AtOnce);
    let mut now = Moment::ORIGIN;
    let mut pauses = Vec::new();
    for failure in 0..8 {
        let Next::Do(job) = outbox.next(now) else { panic!("nothing to do at {now:?}") };
        outbox.done(&job, &Outcome::Away("refused".to_owned()), now);
        put(&outbox, "web", 500 + 100 * failure, Urgency::AtOnce);
        let Next::Wait(until) = outbox.next(now) else { panic!("no pause") };
        pauses.push(until.since(now).as_ms_floor());
        now = until;
    }
    assert!(pauses[0] <= 500 && pauses.iter().all(|pause| *pause <= 15_000), "{pauses:?}");
    assert!(pauses[7] >= 7500, "{pauses:?}");
    assert!(outbox.problem().is_some());
    let mut all = written(&outbox, now.as_ms_floor() + 1);
    all.sort_unstable();
    assert_eq!(all, ["db=100m", "web=1200m"]);
    assert_eq!(outbox.problem(), None);
}

#[test]
fn one_that_is_refused_does_not_hold_up_the_others() {
    let outbox = outbox(&["a", "b"]);
    put(&outbox, "a", 400, Urgency::AtOnce);
    put(&outbox, "b", 400, Urgency::AtOnce);
    let Next::Do(job) = outbox.next(Moment::ORIGIN) else { panic!("nothing to do") };
    outbox.done(&job, &Outcome::Refused("invalid".to_owned()), Moment::ORIGIN);
    assert_eq!(written(&outbox, 0), ["b=400m"]);
    assert_eq!(written(&outbox, 1000), ["a=400m"]);
}

#[test]
fn what_is_there_already_is_not_written_again_and_what_is_left_behind_is_deleted() {
    let outbox = Outbox::new(PACE, 1);
    put(&outbox, "web", 400, Urgency::InTime);
    put(&outbox, "again", 400, Urgency::InTime);
    assert_eq!(written(&outbox, 0), [""; 0], "not before it is known what is there");
    list(&outbox, &[("old", "u0", 100), ("web", "u1", 400), ("again", "u0", 400)]);
    assert_eq!(written(&outbox, 0), [""; 0], "nor before it is known who is sized");
    outbox.keep_only([key("web"), key("again")].into());
    let mut all = written(&outbox, 0);
    all.sort_unstable();
    assert_eq!(all, ["again=400m", "old deleted"], "another pod of the same name is written");
}

#[test]
fn who_is_not_sized_any_more_loses_its_allocation() {
    let outbox = outbox(&["web"]);
    put(&outbox, "web", 400, Urgency::InTime);
    assert_eq!(written(&outbox, 0), ["web=400m"]);
    outbox.keep_only(BTreeSet::new());
    assert_eq!(written(&outbox, 0), ["web deleted"]);
    assert!(outbox.is_idle());
}

#[test]
fn who_was_never_written_is_not_deleted() {
    let outbox = Outbox::new(PACE, 1);
    list(&outbox, &[]);
    put(&outbox, "web", 400, Urgency::InTime);
    outbox.keep_only(BTreeSet::new());
    assert_eq!(written(&outbox, 0), Vec::<String>::new());
}

#[test]
fn what_is_there_of_a_sized_pod_is_not_deleted_for_want_of_a_wish() {
    let outbox = Outbox::new(PACE, 1);
    list(&outbox, &[("web", "u1", 400), ("old", "u0", 400)]);
    assert!(outbox.is_idle(), "nobody said yet who is sized");
    outbox.keep_only([key("web")].into());
    assert_eq!(written(&outbox, 0), ["old deleted"]);
    assert!(outbox.is_idle());
}

#[test]
fn what_others_change_or_delete_is_written_again() {
    let outbox = outbox(&["changed", "deleted", "same", "other"]);
    for name in ["changed", "deleted", "same", "other"] {
        put(&outbox, name, 400, Urgency::InTime);
    }
    assert_eq!(written(&outbox, 0).len(), 4);
    let others = [("changed", "u1", 4000), ("same", "u1", 400), ("other", "u9", 400)];
    list(&outbox, &[&others[..], &[("stray", "u1", 100)]].concat());
    let mut all = written(&outbox, 60_000);
    all.sort_unstable();
    assert_eq!(all, ["changed=400m", "deleted=400m", "other=400m", "stray deleted"]);
}

#[test]
fn what_is_seen_to_be_changed_or_deleted_is_written_again_a_moment_later() {
    let outbox = outbox(&["changed", "deleted", "same"]);
    for name in ["changed", "deleted", "same"] {
        put(&outbox, name, 400, Urgency::InTime);
    }
    assert_eq!(written(&outbox, 0).len(), 3);
    let at = Moment::from_ms(10_000);
    outbox.seen(key("changed"), there("changed", "u1", 4000, 7), at);
    outbox.seen(key("same"), there("same", "u1", 400, 8), at);
    outbox.seen(key("stray"), there("stray", "u1", 400, 9), at);
    outbox.gone(&key("deleted"), Some(10), at);
    assert_eq!(written(&outbox, 11_999), [""; 0]);
    let mut all = written(&outbox, 12_000);
    all.sort_unstable();
    assert_eq!(all, ["changed=400m", "deleted=400m", "stray deleted"]);
    outbox.gone(&key("stray"), Some(11), at);
    assert!(outbox.is_idle());
}

#[test]
fn what_is_seen_from_before_a_write_of_ours_says_nothing() {
    let outbox = outbox(&["web"]);
    let now = Moment::ORIGIN;
    for (limit, version) in [(400, 5), (800, 6)] {
        put(&outbox, "web", limit, Urgency::AtOnce);
        let Next::Do(job) = outbox.next(now) else { panic!("nothing to do") };
        outbox.done(&job, &Outcome::Done(Some(version)), now);
    }
    outbox.seen(key("web"), there("web", "u1", 400, 5), now);
    outbox.gone(&key("web"), Some(4), now);
    assert!(outbox.is_idle(), "the watch is behind");
    outbox.seen(key("web"), there("web", "u1", 800, 6), now);
    assert!(outbox.is_idle());
    outbox.seen(key("web"), there("web", "u1", 400, 7), now);
    assert!(!outbox.is_idle());
    // The cluster was restored from a backup, and its versions count from there.
    list(&outbox, &[("web", "u1", 800)]);
    assert!(outbox.is_idle());
    outbox.seen(key("web"), there("web", "u1", 400, 2), now);
    assert!(!outbox.is_idle());
}

#[test]
fn what_is_urgent_does_not_wait_because_an_earlier_write_is_seen() {
    let outbox = outbox(&["web"]);
    put(&outbox, "web", 400, Urgency::AtOnce);
    let Next::Do(job) = outbox.next(Moment::ORIGIN) else { panic!("nothing to do") };
    // The watch may be faster than the answer.
    outbox.seen(key("web"), there("web", "u1", 400, 5), Moment::ORIGIN);
    put(&outbox, "web", 800, Urgency::AtOnce);
    outbox.done(&job, &Outcome::Done(Some(5)), Moment::ORIGIN);
    outbox.seen(key("web"), there("web", "u1", 400, 5), Moment::ORIGIN);
    assert_eq!(written(&outbox, 1), ["web=800m"]);
}

#[test]
fn what_names_another_pod_is_written_again() {
    let outbox = outbox(&["web"]);
    put(&outbox, "web", 400, Urgency::InTime);
    assert_eq!(written(&outbox, 0), ["web=400m"]);
    let whose = Whose { pod: "another".to_owned(), uid: "u1".to_owned() };
    let there = There { whose, desired: Some(desired(400)), version: None };
    outbox.listed([(key("web"), there)].into());
    assert_eq!(written(&outbox, 60_000), ["web=400m"]);
    assert!(outbox.is_idle());
}

#[test]
fn a_list_that_fails_is_told_of_and_forgets_nothing() {
    let outbox = Outbox::new(PACE, 1);
    outbox.not_listed("away");
    assert!(outbox.problem().is_some_and(|told| told.ends_with("cannot be listed: away")));
    list(&outbox, &[]);
    assert_eq!(outbox.problem(), None);
    outbox.keep_only([key("web")].into());
    put(&outbox, "web", 400, Urgency::InTime);
    assert_eq!(written(&outbox, 500), ["web=400m"]);
    outbox.not_listed("away");
    assert!(outbox.is_idle(), "what was written is still believed to be there");
    assert_eq!(outbox.problem(), None);
}
