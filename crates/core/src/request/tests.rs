//! Each of the slow rules as a sentence, and all of them on random workloads.

use super::*;
use crate::rng::Rng;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const NOW: Moment = Moment::from_ms(1_000_000_000);

fn milli(value: u64) -> Millicores {
    Millicores::new(value)
}

/// A workload that came with 400m and has them, was seen for a week, and uses less than half of
/// that on a node with much room.
fn usual() -> RequestFacts {
    RequestFacts {
        original: milli(400),
        in_force: milli(400),
        suggested: Some(milli(100)),
        evidence: Evidence::A_WEEK,
        is_elastic: false,
        room: Room::Left(milli(1000)),
        pooled: Some(PooledPeak { peak: milli(500), most: milli(3600) }),
        lowered_at: Moment::ORIGIN,
    }
}

fn check(facts: &RequestFacts) -> String {
    let (request, why) = step(facts, NOW);
    format!("{} {why:?}", request.get())
}

fn with(change: impl FnOnce(&mut RequestFacts)) -> String {
    let mut facts = usual();
    change(&mut facts);
    check(&facts)
}

#[test]
fn it_goes_down_by_at_most_a_quarter_an_hour() {
    assert_eq!(check(&usual()), "300 Lowered");
    assert_eq!(with(|it| it.in_force = milli(120)), "100 Followed", "the last step is smaller");
    let until = NOW + Span::from_ms(1);
    let just_lowered = |it: &mut RequestFacts| {
        it.lowered_at = Moment::from_us(until.since(Moment::ORIGIN + BETWEEN_STEPS).as_us());
    };
    assert_eq!(with(just_lowered), format!("400 {:?}", RequestWhy::Waits { until }));
    // An odd number keeps more than three quarters, never less.
    assert_eq!(with(|it| it.in_force = milli(399)), "300 Lowered");
}

#[test]
fn it_is_not_lowered_before_a_day_of_evidence() {
    let windows = |windows| with(|it| it.evidence = Evidence::of_windows(windows));
    assert_eq!(windows(1), "400 TooEarly");
    assert_eq!(windows(DAY_WINDOWS - 1), "400 TooEarly");
    assert_eq!(windows(DAY_WINDOWS), "300 Lowered");
    assert_eq!(with(|it| it.suggested = None), "400 Unseen");
}

#[test]
fn it_is_not_below_half_of_what_it_came_with_before_a_week() {
    let at = |in_force, windows| {
        with(|it| {
            it.in_force = milli(in_force);
            it.evidence = Evidence::of_windows(windows);
        })
    };
    assert_eq!(at(220, WEEK_WINDOWS - 1), "200 FirstWeek");
    assert_eq!(at(200, WEEK_WINDOWS - 1), "200 FirstWeek");
    assert_eq!(at(200, WEEK_WINDOWS), "150 Lowered");
    // What was lower before, for instance because less of the week is known now, is not raised.
    assert_eq!(at(150, WEEK_WINDOWS - 1), "150 FirstWeek");
}

#[test]
fn it_goes_up_at_once_as_far_as_what_it_came_with() {
    let at = |in_force, suggested: u64, is_elastic| {
        with(|it| {
            it.in_force = milli(in_force);
            it.suggested = Some(milli(suggested));
            it.is_elastic = is_elastic;
            (it.room, it.pooled, it.lowered_at) = (Room::Missing(milli(9000)), None, NOW);
            it.evidence = Evidence::of_windows(1);
        })
    };
    assert_eq!(at(50, 300, false), "300 Followed");
    assert_eq!(at(50, 300, true), "300 Followed", "whoever it is");
    assert_eq!(at(50, 900, true), "400 Elastic");
    assert_eq!(at(50, 900, false), "400 NodeFull");
}

#[test]
fn it_goes_above_that_for_inelastic_work_while_the_node_has_room() {
    let at = |in_force, room, is_elastic| {
        with(|it| {
            (it.in_force, it.suggested) = (milli(in_force), Some(milli(900)));
            (it.room, it.is_elastic) = (room, is_elastic);
        })
    };
    assert_eq!(at(400, Room::Left(milli(2000)), false), "900 Followed");
    assert_eq!(at(400, Room::Left(milli(200)), false), "600 NodeFull");
    assert_eq!(at(350, Room::Left(milli(200)), false), "550 NodeFull", "its own takes room, too");
    assert_eq!(at(400, Room::Left(milli(2000)), true), "400 Elastic");
    assert_eq!(at(600, Room::Left(milli(2000)), true), "600 Elastic", "what it has is not taken");
    // Where requests are too much by now, it goes back, but not faster than any other.
    assert_eq!(at(900, Room::Missing(milli(9000)), false), "675 Lowered");
    assert_eq!(at(500, Room::Missing(milli(9000)), false), "400 Followed");
    assert_eq!(at(500, Room::Missing(milli(30)), false), "470 Followed", "as far as it has to");
}

#[test]
fn what_was_never_its_own_is_given_up_without_evidence() {
    let at = |windows, suggested: u64| {
        with(|it| {
            (it.in_force, it.suggested) = (milli(500), Some(milli(suggested)));
            (it.evidence, it.pooled) = (Evidence::of_windows(windows), None);
        })
    };
    assert_eq!(at(1, 450), "450 Followed");
    assert_eq!(at(1, 100), "400 Followed", "but no more than that");
}

#[test]
fn nothing_is_lowered_where_the_node_itself_is_busy() {
    let peak = |peak| with(|it| it.pooled = Some(PooledPeak { peak, most: milli(3600) }));
    assert_eq!(peak(milli(3600)), "300 Lowered");
    assert_eq!(peak(milli(3601)), "400 NodeBusy");
    assert_eq!(with(|it| it.pooled = None), "400 NodeBusy", "what is not known may be much");
}

#[test]
fn what_nothing_supports_goes_back_after_an_hour() {
    let at = |suggested, windows, minutes_ago: u64| {
        with(|it| {
            (it.in_force, it.suggested) = (milli(150), suggested);
            it.evidence = Evidence::of_windows(windows);
            let ago = Moment::ORIGIN + Span::from_s(minutes_ago * 60);
            it.lowered_at = Moment::from_us(NOW.since(ago).as_us());
        })
    };
    // What was saved may still be on its way.
    assert_eq!(at(None, 0, 59), "150 Unseen");
    assert_eq!(at(None, 0, 60), "400 Unsupported");
    assert_eq!(at(Some(milli(100)), 12, 60), "400 Unsupported");
    assert_eq!(at(Some(milli(100)), DAY_WINDOWS, 60), "150 FirstWeek", "a day does");
}

#[test]
fn it_is_never_nothing() {
    let idle = |it: &mut RequestFacts| (it.in_force, it.suggested) = (milli(12), Some(milli(0)));
    assert_eq!(with(idle), "10 Followed");
}

#[test]
fn every_reason_is_told_in_words() {
    let until = NOW;
    let all = [
        RequestWhy::Kept,
        RequestWhy::Scaled,
        RequestWhy::Unseen,
        RequestWhy::Unsupported,
        RequestWhy::Followed,
        RequestWhy::Lowered,
        RequestWhy::Waits { until },
        RequestWhy::TooEarly,
        RequestWhy::FirstWeek,
        RequestWhy::NodeBusy,
        RequestWhy::Elastic,
        RequestWhy::NodeFull,
    ];
    let told: alloc::collections::BTreeSet<String> =
        all.iter().map(|why| format!("{why}")).collect();
    assert_eq!(told.len(), all.len());
    assert!(told.iter().all(|text| text.starts_with("it ") && text.len() < 100), "{told:?}");
}

/// A workload whose use drifts and jumps, for up to nine days of ticks of five minutes.
#[test]
fn the_rules_hold_for_any_workload() {
    for seed in 0..400 {
        let mut rng = Rng::from_seed(seed);
        let original = milli(20 + rng.below(2000));
        let most_of_node = milli(1000 + rng.below(4000));
        let others = milli(rng.below(most_of_node.get()));
        let mut record = UseRecord::default();
        let mut used = rng.below(2 * original.get());
        let (mut in_force, mut lowered_at) = (original, Moment::ORIGIN);
        let mut last_hour: Vec<Millicores> = Vec::new();
        for window in 0..rng.below(9 * u64::from(DAY_WINDOWS)) {
            let now = Moment::ORIGIN + Span::from_s(window * 300);
            if rng.below(50) == 0 {
                used = rng.below(3 * original.get());
            }
            record.window_passed(&[milli(used)]);
            let is_elastic = rng.below(4) == 0;
            let sum = others + in_force;
            let facts = RequestFacts {
                original,
                in_force,
                suggested: record.suggested(),
                evidence: record.evidence(),
                is_elastic,
                room: Room::of(sum, most_of_node),
                pooled: (rng.below(3) > 0)
                    .then(|| PooledPeak { peak: milli(rng.below(5000)), most: milli(3600) }),
                lowered_at,
            };
            let (request, why) = step(&facts, now);
            let at = format!("seed {seed} window {window}: {in_force} to {request}, {why}");
            let evidence = record.evidence();
            let wanted = record.suggested().unwrap_or_default();
            assert!(request >= wanted.min(original), "below what it was seen to use: {at}");
            if request < in_force {
                let from = last_hour.iter().copied().max().unwrap_or(in_force).max(in_force);
                let is_slow = request >= from.scale_floor(KEPT_OF_A_STEP);
                assert!(is_slow, "faster down than a quarter an hour: {at}");
                assert!(
                    request >= original || evidence >= Evidence::A_DAY,
                    "lowered before a day: {at}"
                );
                assert!(
                    evidence >= Evidence::A_WEEK || request >= milli(original.get() / 2),
                    "below half in the first week: {at}"
                );
                let is_calm = facts.pooled.is_some_and(|pooled| pooled.peak <= pooled.most);
                assert!(request >= original || is_calm, "lowered on a busy node: {at}");
                lowered_at = now;
            }
            if request > in_force && request > original {
                assert!(!is_elastic, "raised above what it came with: {at}");
                assert!(others + request <= most_of_node, "more than the node has room for: {at}");
            }
            in_force = request;
            // What was in force within the last hour, without its first moment.
            last_hour.push(request);
            if last_hour.len() > 11 {
                last_hour.remove(0);
            }
        }
    }
}
