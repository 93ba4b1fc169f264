//! One look at one allocation: gathers what is known, decides, carries it out, and says so.
//!
//! Writes are ordered so that a crash at any point is recoverable: what the pod came with is
//! written before it is changed, and that a resize is attempted before it is asked for. Where
//! nothing is to be done and nothing new to be said, no call is made.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::Client;
use walras_core::resize::{Ask, Barred, Cause, ContainerPatch, Note, is_cut};
use walras_core::units::{Moment, Span};

use super::Shared;
use super::act::{self, Word};
use super::clock::{moment, stamp};
use super::decide::{
    AskedFor, Decision, Memory, PATIENCE, Situation, Standing, Told, decide, mark_due, refused,
};
use super::facts::{AllocationFacts, Key, PodFacts};
use super::status;
use super::store::Gathered;
use super::trouble::Trouble;
use crate::crd::Phase;

/// How much longer than it acts a controller may wait for an answer: others begin after 5 s.
const GRACE: Span = Span::from_s(4);

/// A pod waits for at most so many turns before it is looked at again: others may have left.
const TURNS_MAX: usize = 100;

/// Looks at `key`. When to look again, if nothing happens before.
pub(super) async fn reconcile(shared: &Shared, client: &Client, key: &Key) -> Option<Moment> {
    let now = shared.clock.now();
    let Some(acts_since) = shared.leadership.acts_since(now) else {
        shared.overlooked.store(true, Ordering::Relaxed);
        return None;
    };
    if !shared.store.is_synced() {
        return None;
    }
    let gathered = shared.store.gather(key)?;
    let situation = Situation {
        key,
        allocation: &gathered.allocation,
        pod: gathered.pod.as_deref(),
        autoscaler: gathered.autoscaler.as_ref(),
        siblings: gathered.siblings,
        namespace_mode: gathered.namespace_mode.as_deref(),
        own_namespace: &shared.namespace,
        can_resize: gathered.can_resize,
        settings: &gathered.settings,
        memory: &gathered.memory,
        acts_since,
        now,
    };
    if let Some(mark) = mark_due(&situation).filter(|_| !shared.dry_run) {
        return tell_agent(shared, client, key, gathered, mark).await;
    }
    let decision = decide(&situation);
    match decision {
        // A pod that stands in line for nothing would hold up those behind it.
        Decision::Wait(until) => {
            shared.queue.leaves_the_line(key);
            Some(until)
        }
        Decision::Tell(told) => {
            shared.queue.leaves_the_line(key);
            tell(shared, client, key, gathered, told, None, now).await
        }
        Decision::Resize { containers, notes } => {
            let pod = gathered.pod.clone()?;
            if shared.dry_run {
                let pod = pod_key(key, &gathered);
                tracing::info!(%pod, "would ask for {}", words(&containers));
                return None;
            }
            if let Err(until) = shared.bucket().take(now) {
                // Not all at once for one token: each when it is likely to be its turn.
                let before = shared.queue.stands_in_line(key, TURNS_MAX, now);
                let rate = gathered.settings.held.resizes_per_second.get();
                let turns = u64::try_from(before).unwrap_or(u64::MAX);
                return Some(until + Span::from_us(turns * 1_000_000 / u64::from(rate)));
            }
            shared.queue.leaves_the_line(key);
            let ask = Ask::of(&containers, pod.view.as_ref().ok()?);
            let asked = shared.refusals().may_ask(&key.namespace, &ask, now);
            if let Err(barred) = asked {
                shared.bucket().give_back(now);
                let told = told_of_others(barred);
                return tell(shared, client, key, gathered, told, None, now).await;
            }
            let (containers, notes) = (&containers, &notes);
            let attempt = Attempt { key, pod: &pod, containers, ask, notes, now };
            resize(shared, client, gathered, attempt).await
        }
    }
}

/// Tells the agent of the pod's node of its autoscaler, by an annotation. When to look again: at
/// once, for what is to be done about the pod.
async fn tell_agent(
    shared: &Shared,
    client: &Client,
    key: &Key,
    gathered: Gathered,
    mark: Option<String>,
) -> Option<Moment> {
    let pod = gathered.pod.clone()?;
    let pod_key = pod_key(key, &gathered);
    match act::write_mark(shared, client, &pod_key, &pod, mark.as_deref()).await {
        Ok(_) => {
            let says = mark.as_deref().unwrap_or("none any more");
            tracing::info!(pod = %pod_key, "its autoscaler: {says}");
            Some(shared.clock.now())
        }
        Err(Trouble::Gone) => None,
        Err(trouble) => {
            tracing::warn!(pod = %pod_key, "not told of its autoscaler: {}", trouble.sentence());
            let mut memory = gathered.memory;
            memory.failures = memory.failures.saturating_add(1);
            let wait = trouble.wait(memory.failures, &mut shared.rng());
            shared.store.remember(key, memory);
            Some(shared.clock.now() + wait)
        }
    }
}

/// A resize that is to be asked for.
#[derive(Clone, Copy, Debug)]
struct Attempt<'a> {
    key: &'a Key,
    pod: &'a PodFacts,
    containers: &'a [ContainerPatch],
    ask: Ask,
    notes: &'a [Note],
    now: Moment,
}

async fn resize(
    shared: &Shared,
    client: &Client,
    gathered: Gathered,
    attempt: Attempt<'_>,
) -> Option<Moment> {
    let Attempt { key, containers, now, .. } = attempt;
    let allocation_before = Arc::clone(&gathered.allocation);
    match ask(shared, client, &gathered, attempt).await {
        Ok(pod) => {
            shared.refusals().accepted(&key.namespace, &attempt.ask);
            shared.metrics.resizes.inc();
            tracing::info!(pod = %pod_key(key, &gathered), "asked for {}", words(containers));
            let mut memory = gathered.memory;
            let was_cut = attempt.pod.view.as_ref().is_ok_and(|view| is_cut(containers, view));
            // Counted from the answer: the patch came later than it was decided.
            let answered = shared.clock.now();
            memory.history.resize_applied(was_cut, answered);
            memory.own_stamp = pod.resized_at;
            memory.asked = Some(AskedFor {
                at: answered,
                generation: pod.generation,
                restarts: restarts(&pod, containers),
            });
            (memory.failures, memory.not_before) = (0, None);
            shared.store.remember(key, memory);
            // The answer may show it done already.
            Some(answered + PATIENCE)
        }
        Err(trouble) => {
            shared.metrics.patch_errors.inc();
            count_refusal(shared, &trouble, &attempt);
            let pod = pod_key(key, &gathered);
            tracing::warn!(%pod, "not resized: {}", trouble.sentence());
            let mut memory = gathered.memory;
            memory.failures = memory.failures.saturating_add(1);
            let wait = trouble.wait(memory.failures, &mut shared.rng());
            let mut next = shared.clock.now() + wait;
            memory.not_before = Some((gathered.allocation.desired.as_ref().ok().copied(), next));
            memory.refused_attempt = trouble.changed_nothing().then(|| moment(&stamp(now)));
            if let Trouble::Infeasible(_) = &trouble {
                let asked = walras_core::resize::Allocation {
                    request: containers.iter().map(|one| one.request).sum(),
                    limit: containers.iter().map(|one| one.limit).sum(),
                };
                memory.history.resize_refused_as_infeasible(&asked, now);
                memory.not_before = None;
                next = memory.history.infeasible.map_or(next, |mark| mark.until());
            }
            shared.store.remember(key, memory.clone());
            let Some(told) = told_of(&trouble, next) else {
                return Some(next);
            };
            let gathered = shared.store.gather(key).unwrap_or(Gathered {
                allocation: Arc::clone(&allocation_before),
                memory,
                ..gathered
            });
            let before = allocation_before.status.reason.as_deref();
            tell(shared, client, key, gathered, told, before, shared.clock.now()).await
        }
    }
}

/// Holds back others of the namespace that would be refused like this one. What the attempt took
/// from those that are not refused is given back to them.
fn count_refusal(shared: &Shared, trouble: &Trouble, attempt: &Attempt<'_>) {
    let now = shared.clock.now();
    let namespace = &attempt.key.namespace;
    let mut was_free = false;
    for cause in trouble.causes() {
        was_free |= shared.refusals().refused(namespace, *cause, &attempt.ask, now);
    }
    if was_free {
        shared.bucket().give_back(now);
    }
}

/// Every write that a resize takes, ordered so that a crash at any point is recoverable.
async fn ask(
    shared: &Shared,
    client: &Client,
    gathered: &Gathered,
    attempt: Attempt<'_>,
) -> Result<PodFacts, Trouble> {
    let Attempt { key, containers, notes, now, .. } = attempt;
    let pod_key = pod_key(key, gathered);
    let mut pod = attempt.pod.clone();
    if let (Ok(None), Ok(view)) = (&pod.originals, &pod.view) {
        let views = view.containers.clone();
        pod = act::write_originals(shared, client, &pod_key, &pod, &views).await?;
    }
    let notes: String = notes.iter().map(|note| format!(" {note}")).collect();
    let message = format!("The node is asked for {}.{notes}", words(containers));
    let allocation = &gathered.allocation;
    let status = status::attempting(allocation, &pod, message, now);
    let version = Some(allocation.version.as_str());
    act::write_status(shared, client, key, allocation, &status, version).await?;
    let limit = time_left(shared)?;
    act::resize(shared, client, &pod_key, &pod, containers, limit).await
}

/// How long a call may take before another leader may make the same.
fn time_left(shared: &Shared) -> Result<Duration, Trouble> {
    let until = shared.leadership.acts_until(shared.clock.now());
    let until = until.ok_or_else(|| Trouble::Conflict("another controller acts".to_owned()))?;
    Ok(shared.clock.until(until + GRACE))
}

/// What is said of a pod whose turn to ask has not come, because others were refused.
fn told_of_others(barred: Barred) -> Told {
    let (reason, what) = match barred.cause {
        Cause::RequestQuota => ("QuotaExceeded", "A ResourceQuota of CPU requests"),
        Cause::LimitQuota => ("QuotaExceeded", "A ResourceQuota of CPU limits"),
        Cause::LimitRange => ("LimitRangeViolated", "A LimitRange of the namespace"),
        // Not the code of who was refused itself: that one is never tried again.
        Cause::Infeasible => ("RateLimited", "A node"),
    };
    let message = format!(
        "{what} has refused this to another pod of the namespace, so it is not asked for each of \
         them; it is tried again soon."
    );
    let (phase, standing) = (Phase::Pending, Standing::Held);
    Told { phase, standing, reason, message, next: Some(barred.until) }
}

fn told_of(trouble: &Trouble, next: Moment) -> Option<Told> {
    let (phase, standing, next) = match trouble {
        // The watch will say so, too.
        Trouble::Gone => return None,
        Trouble::Infeasible(_) => (Phase::Failed, Standing::Infeasible, Some(next)),
        Trouble::Refused(_) => (Phase::Failed, Standing::Troubled, Some(next)),
        Trouble::Conflict(_)
        | Trouble::Quota(_)
        | Trouble::LimitRange(_)
        | Trouble::Forbidden(_)
        | Trouble::Busy(..)
        | Trouble::Unreachable(_) => (Phase::Pending, Standing::Troubled, Some(next)),
    };
    let (reason, message) = (trouble.code(), trouble.sentence());
    Some(Told { phase, standing, reason, message, next })
}

/// Says how it stands, if that is news, and remembers what it means. Where an attempt failed,
/// `before` is how it stood before that.
async fn tell(
    shared: &Shared,
    client: &Client,
    key: &Key,
    gathered: Gathered,
    told: Told,
    before: Option<&str>,
    now: Moment,
) -> Option<Moment> {
    let Gathered { allocation, pod, memory, .. } = gathered;
    let old = memory.clone();
    let mut memory = memory;
    let verified_after = learn(&mut memory, &told, &allocation, pod.as_deref(), now);
    let changed = memory != old;
    let status = status::status(&allocation, pod.as_deref(), &told, now);
    if status == allocation.status || shared.dry_run {
        if changed {
            shared.store.remember(key, memory);
        }
        return told.next;
    }
    match act::write_status(shared, client, key, &allocation, &status, None).await {
        Ok(_) => {
            let is_news = allocation.status.reason != status.reason;
            if changed {
                shared.store.remember(key, memory);
            }
            if let Some(after) = verified_after {
                shared.metrics.verified(after);
            }
            if is_news && is_refusal(told.standing) {
                shared.metrics.refused(told.reason);
            }
            // What fails again in the same way was told, and is tried every minute. A second resize
            // of the same kind is news.
            let is_known = before == Some(told.reason);
            let is_news = is_news && !is_known || verified_after.is_some();
            if let Some(word) = word(&told).filter(|_| is_news) {
                act::tell(shared, client, key, &allocation, word).await;
            }
            told.next
        }
        Err(Trouble::Gone) => None,
        Err(trouble) => {
            tracing::debug!(allocation = %key, "no status: {}", trouble.sentence());
            // What was learned is learned again with the next look, and told then.
            let mut memory = old;
            memory.failures = memory.failures.saturating_add(1);
            let wait = trouble.wait(memory.failures, &mut shared.rng());
            shared.store.remember(key, memory);
            Some(shared.clock.now() + wait)
        }
    }
}

/// Remembers what `told` means. How long a resize took, if it is confirmed with this.
fn learn(
    memory: &mut Memory,
    told: &Told,
    allocation: &AllocationFacts,
    pod: Option<&PodFacts>,
    now: Moment,
) -> Option<Span> {
    match told.standing {
        Standing::Verified => {
            memory.failures = 0;
            return memory.asked.take().map(|asked| now.since(asked.at));
        }
        Standing::Asked if memory.asked.is_none() => {
            let generation = pod.map_or(0, |pod| pod.generation);
            memory.asked = Some(AskedFor { at: now, generation, restarts: Vec::new() });
        }
        Standing::Infeasible => {
            if let (None, Some(refused)) =
                (memory.history.at(now).infeasible, pod.and_then(|pod| refused(allocation, pod)))
            {
                memory.history.resize_refused_as_infeasible(&refused, now);
            }
            memory.asked = None;
        }
        Standing::Settled
        | Standing::Held
        | Standing::Asked
        | Standing::Unverified
        | Standing::Deferred
        | Standing::Troubled => {}
        // It is not waited for any more: if it is obeyed again, that is another resize.
        Standing::Refused | Standing::LeftAlone => memory.asked = None,
    }
    None
}

const fn is_refusal(standing: Standing) -> bool {
    match standing {
        Standing::Refused | Standing::Infeasible | Standing::Troubled => true,
        Standing::Verified
        | Standing::Settled
        | Standing::LeftAlone
        | Standing::Held
        | Standing::Asked
        | Standing::Unverified
        | Standing::Deferred => false,
    }
}

/// What people are told of it, if anything.
fn word(told: &Told) -> Option<Word> {
    let (is_warning, reason) = match told.standing {
        Standing::Verified | Standing::Settled if told.reason == "Restored" => (false, "Restored"),
        Standing::Verified => (false, "CPUApplied"),
        Standing::Settled | Standing::Asked => return None,
        Standing::Held if told.reason == "RateLimited" => return None,
        Standing::Held | Standing::LeftAlone => (false, "CPUSkipped"),
        Standing::Unverified => (true, "ResizeNotVerified"),
        Standing::Refused if told.phase == Phase::Pending => (false, "CPUSkipped"),
        Standing::Deferred | Standing::Infeasible | Standing::Refused | Standing::Troubled => {
            (true, told.reason)
        }
    };
    let note = if reason == told.reason {
        told.message.clone()
    } else {
        format!("{}: {}", told.reason, told.message)
    };
    Some(Word { is_warning, reason: reason.to_owned(), note })
}

fn restarts(pod: &PodFacts, containers: &[ContainerPatch]) -> Vec<u32> {
    let of = |container: &ContainerPatch| {
        let mut seen = pod.seen.containers.iter();
        seen.find(|seen| seen.name == container.name).map_or(0, |seen| seen.restarts)
    };
    containers.iter().map(of).collect()
}

fn pod_key(key: &Key, gathered: &Gathered) -> Key {
    Key::new(&key.namespace, &gathered.allocation.pod)
}

fn words(containers: &[ContainerPatch]) -> String {
    let part = |one: &ContainerPatch| {
        format!("{} request {} and limit {}", one.name, one.request, one.limit)
    };
    containers.iter().map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(standing: Standing, reason: &'static str) -> String {
        let message = "It is so.".to_owned();
        let told = Told { phase: Phase::Applied, standing, reason, message, next: None };
        word(&told).map_or_else(String::new, |word| format!("{}: {}", word.reason, word.note))
    }

    #[test]
    fn a_resize_that_is_not_waited_for_any_more_is_not_confirmed_later() {
        let object = serde_json::json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": {}, "spec": { "namespace": "shop", "podName": "web",
                "desiredCPURequest": "150m", "desiredCPULimit": "300m" },
        });
        let allocation = AllocationFacts::of(serde_json::from_value(object).unwrap());
        let asked = AskedFor { at: Moment::ORIGIN, generation: 2, restarts: vec![0] };
        let mut memory = Memory { asked: Some(asked), ..Memory::default() };
        let mut stands = |standing| {
            let (phase, message) = (Phase::Pending, String::new());
            let told = Told { phase, standing, reason: "", message, next: None };
            learn(&mut memory, &told, &allocation, None, Moment::from_ms(3_600_000))
        };
        assert_eq!(stands(Standing::Held), None);
        assert_eq!(stands(Standing::Refused), None);
        assert_eq!(stands(Standing::Verified), None, "the mode was off for an hour");
    }

    #[test]
    fn who_waits_because_others_were_refused_does_not_count_as_refused_itself() {
        let quotas = [Cause::RequestQuota, Cause::LimitQuota];
        for cause in quotas.into_iter().chain([Cause::LimitRange, Cause::Infeasible]) {
            let until = Moment::from_ms(1000);
            let told = told_of_others(Barred { cause, until });
            assert_ne!(told.reason, "Infeasible", "it would never be tried again: {cause:?}");
            assert_eq!((told.standing, told.next), (Standing::Held, Some(until)));
        }
    }

    #[test]
    fn what_was_given_back_is_called_so_whether_or_not_that_took_a_resize() {
        assert_eq!(event(Standing::Verified, "Restored"), "Restored: It is so.");
        assert_eq!(event(Standing::Settled, "Restored"), "Restored: It is so.");
        assert_eq!(event(Standing::Verified, "Applied"), "CPUApplied: Applied: It is so.");
        assert_eq!(event(Standing::Settled, "AlreadyApplied"), "");
    }
}
