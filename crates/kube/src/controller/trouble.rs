//! What an error of the API server means for a resize, and when to try again.
//!
//! The server says in words which of its plugins refused; those words are matched here and nowhere
//! else. What is not understood is tried again, ever more rarely.

use std::time::Duration;

use kube::core::Status;
use walras_core::resize::Cause;
use walras_core::rng::Rng;
use walras_core::units::Span;

use crate::client::words;
use crate::pause::pause;

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The object is not there any more.
    Gone,
    /// Another client changed it meanwhile, or it is another object of the same name.
    Conflict(String),
    /// The node can never do this.
    Infeasible(String),
    /// A ResourceQuota of the namespace does not allow it.
    Quota(String),
    /// A LimitRange of the namespace does not allow it.
    LimitRange(String),
    /// We may not.
    Forbidden(String),
    /// The server does not accept what was sent.
    Refused(String),
    /// The server is busy, and may have said for how long.
    Busy(Option<Span>, String),
    /// The server failed, or cannot be reached.
    Unreachable(String),
}

/// How long a refusal by a rule of the namespace is taken for an answer.
const LONG: Span = Span::from_s(60);
const FIRST: Span = Span::from_ms(400);
const SHORTEST: Span = Span::from_ms(200);
const LONGEST: Span = Span::from_s(60);

impl Trouble {
    /// Whether nothing was changed. Without an answer, something may have been.
    pub(crate) const fn changed_nothing(&self) -> bool {
        match self {
            Self::Gone | Self::Unreachable(_) => false,
            Self::Conflict(_)
            | Self::Infeasible(_)
            | Self::Quota(_)
            | Self::LimitRange(_)
            | Self::Forbidden(_)
            | Self::Refused(_)
            | Self::Busy(..) => true,
        }
    }

    /// What others of the namespace would be refused for as well.
    pub(crate) fn causes(&self) -> &'static [Cause] {
        match self {
            Self::Quota(said) => quotas(said),
            Self::LimitRange(_) => &[Cause::LimitRange],
            Self::Infeasible(_) => &[Cause::Infeasible],
            Self::Gone
            | Self::Conflict(_)
            | Self::Forbidden(_)
            | Self::Refused(_)
            | Self::Busy(..)
            | Self::Unreachable(_) => &[],
        }
    }

    /// What `error` means.
    pub(crate) fn of(error: &kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            Self::of_status(status)
        } else {
            Self::Unreachable(words(error))
        }
    }

    fn of_status(status: &Status) -> Self {
        let message = status.message.clone();
        let details = status.details.as_ref();
        let causes = details.map(|details| &*details.causes).unwrap_or_default();
        let has_cause = |reason| causes.iter().any(|cause| cause.reason == reason);
        match status.code {
            // It is not the object that is missing but the path: before Kubernetes 1.33 there is no
            // `pods/resize`. No watch will ever tell of that.
            404 if message.contains("could not find the requested resource")
                || message.contains("page not found") =>
            {
                Self::Refused(message)
            }
            404 | 410 => Self::Gone,
            409 => Self::Conflict(message),
            // It is another object of the same name.
            422 if causes.iter().any(|cause| cause.field == "metadata.uid") => {
                Self::Conflict(message)
            }
            403 if has_cause("NodeCapacity") || has_cause("UnsupportedPlatform") => {
                Self::Infeasible(message)
            }
            403 if message.contains("exceeded quota") => Self::Quota(message),
            403 if message.contains(" usage per ")
                || message.contains("limit to request ratio") =>
            {
                Self::LimitRange(message)
            }
            401 | 403 => Self::Forbidden(message),
            429 => {
                let after = details.map_or(0, |details| details.retry_after_seconds);
                let after = (after > 0).then(|| Span::from_s(after.into()).min(LONGEST));
                Self::Busy(after, message)
            }
            400..=499 => Self::Refused(message),
            _ => Self::Unreachable(message),
        }
    }

    /// There was no answer in time.
    pub(crate) fn timed_out(after: Duration) -> Self {
        Self::Unreachable(format!("no answer within {} s", after.as_secs()))
    }

    /// The code a program matches on.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Gone => "PodNotFound",
            Self::Conflict(_) => "Conflict",
            Self::Infeasible(_) => "Infeasible",
            Self::Quota(_) => "QuotaExceeded",
            Self::LimitRange(_) => "LimitRangeViolated",
            Self::Forbidden(_) => "Forbidden",
            Self::Refused(_) => "PatchError",
            Self::Busy(..) | Self::Unreachable(_) => "ActuatorError",
        }
    }

    /// The sentence for people.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Gone => "The pod or its PodAllocation is gone.".to_owned(),
            Self::Conflict(said) => {
                format!("Another client changed the pod or its PodAllocation meanwhile: {said}.")
            }
            Self::Infeasible(said) => format!("The node can never give this much: {said}."),
            Self::Quota(said) => {
                format!("A ResourceQuota of the namespace does not allow it: {said}.")
            }
            Self::LimitRange(said) => {
                format!("A LimitRange of the namespace does not allow it: {said}.")
            }
            Self::Forbidden(said) => format!("The controller is not permitted to do it: {said}."),
            Self::Refused(said) => format!("The API server refuses the patch: {said}."),
            Self::Busy(_, said) => format!("The API server is busy: {said}."),
            Self::Unreachable(said) => {
                format!("The API server failed, or cannot be reached: {said}.")
            }
        }
    }

    /// How long to wait after it happened `times` times in a row.
    pub(crate) fn wait(&self, times: u32, rng: &mut Rng) -> Span {
        match self {
            Self::Gone | Self::Infeasible(_) => LONGEST,
            Self::Quota(_) | Self::LimitRange(_) | Self::Forbidden(_) | Self::Refused(_) => LONG,
            Self::Busy(Some(after), _) => jittered(*after.max(&SHORTEST), rng),
            Self::Conflict(_) | Self::Busy(None, _) | Self::Unreachable(_) => {
                pause(times, FIRST, LONGEST, rng)
            }
        }
    }
}

/// Which quotas are used up, as the server says it: `exceeded quota: NAME, requested:
/// limits.cpu=1,requests.cpu=2, used: ...`. There is no structured cause. A quota of requests may
/// be called `cpu` alone. Where neither is named, it may be either.
fn quotas(said: &str) -> &'static [Cause] {
    let asked = said.split("requested: ").skip(1).filter_map(|rest| rest.split(", used").next());
    let names = asked.flat_map(|asked| asked.split(',')).filter_map(|one| one.split('=').next());
    let (mut of_requests, mut of_limits) = (false, false);
    for name in names {
        of_limits |= name.trim() == "limits.cpu";
        of_requests |= matches!(name.trim(), "requests.cpu" | "cpu");
    }
    match (of_requests, of_limits) {
        (true, false) => &[Cause::RequestQuota],
        (false, true) => &[Cause::LimitQuota],
        (true, true) | (false, false) => &[Cause::RequestQuota, Cause::LimitQuota],
    }
}

/// Up to half as long again.
fn jittered(span: Span, rng: &mut Rng) -> Span {
    Span::from_us(span.as_us().saturating_add(rng.below(span.as_us() / 2 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> &'static str {
        let status: Status = serde_json::from_str(text).unwrap();
        Trouble::of(&kube::Error::Api(Box::new(status))).code()
    }

    #[test]
    fn refusals_are_told_apart_by_what_the_server_says() {
        let cases = [
            (r#"{"code": 404, "message": "pods \"a\" not found"}"#, "PodNotFound"),
            (
                r#"{"code": 404, "message": "the server could not find the requested resource"}"#,
                "PatchError",
            ),
            (r#"{"code": 409, "message": "the object has been modified"}"#, "Conflict"),
            (
                r#"{"code": 403, "message": "node has less", "details": {"causes":
                    [{"reason": "NodeCapacity", "message": "m", "field": "f"}]}}"#,
                "Infeasible",
            ),
            (
                r#"{"code": 403, "message": "pods \"a\" is forbidden: exceeded quota: q,
                    requested: limits.cpu=1, used: limits.cpu=1, limited: limits.cpu=1"}"#,
                "QuotaExceeded",
            ),
            (
                r#"{"code": 403, "message": "pods \"a\" is forbidden: maximum cpu usage per
                    Container is 500m, but limit is 800m"}"#,
                "LimitRangeViolated",
            ),
            (r#"{"code": 403, "message": "cannot patch resource"}"#, "Forbidden"),
            (
                r#"{"code": 422, "message": "field is immutable", "details": {"causes":
                    [{"reason": "FieldValueInvalid", "message": "m", "field": "metadata.uid"}]}}"#,
                "Conflict",
            ),
            (r#"{"code": 422, "message": "Pod QOS Class may not change"}"#, "PatchError"),
            (r#"{"code": 429, "message": "slow down"}"#, "ActuatorError"),
            (r#"{"code": 503, "message": "not now"}"#, "ActuatorError"),
        ];
        for (text, code) in cases {
            let text = text.replace("\n                    ", " ");
            assert_eq!(check(&text), code, "{text}");
        }
    }

    #[test]
    fn a_quota_of_requests_is_told_from_one_of_limits() {
        let both = [Cause::RequestQuota, Cause::LimitQuota];
        for (asked, causes) in [
            ("requested: limits.cpu=1, used: limits.cpu=1, limited: limits.cpu=1", &both[1..]),
            (
                "requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1",
                &both[..1],
            ),
            ("requested: cpu=1, used: cpu=1, limited: cpu=1", &both[..1]),
            ("requested: cpu=1,limits.cpu=1, used: cpu=1,limits.cpu=1, limited: cpu=1", &both),
            ("in other words", &both),
        ] {
            let said = format!("pods \"a\" is forbidden: exceeded quota: q, {asked}");
            assert_eq!(Trouble::Quota(said).causes(), causes, "{asked}");
        }
        assert_eq!(Trouble::Gone.causes(), []);
    }

    #[test]
    fn waits_are_what_the_server_says_and_never_too_long() {
        let mut rng = Rng::from_seed(1);
        let trouble = Trouble::Unreachable(String::new());
        assert!((SHORTEST..=FIRST).contains(&trouble.wait(1, &mut rng)));
        assert!((Span::from_s(30)..=LONGEST).contains(&trouble.wait(100, &mut rng)));
        let told = Trouble::Busy(Some(Span::from_s(7)), String::new()).wait(1, &mut rng);
        assert!((Span::from_s(7)..=Span::from_ms(10_500)).contains(&told), "{told}");
        let text = r#"{"code": 429, "message": "m", "details": {"retryAfterSeconds": 4000000000}}"#;
        let status = serde_json::from_str(text).unwrap();
        let told = Trouble::of_status(&status).wait(1, &mut rng);
        assert!((LONGEST..=Span::from_s(90)).contains(&told), "{told}");
    }
}
