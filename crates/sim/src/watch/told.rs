//! What explanations promise: each says of its action only what is true.
//!
//! A reason is read by somebody who sees the action beside it. So a shrink is called one, a raise
//! is not called a cut, and an amount that is named is not on the wrong side of what was set.

use walras_core::node::{Action, InForce, RestsOn, Why};
use walras_core::request::RequestWhy;

use super::Broken;

/// Whether the reason of an action fits what the action does to what was in force.
pub(super) fn is_true(before: &InForce, action: &Action) -> Result<(), Broken> {
    let (limit, request) = (action.limit, action.request);
    let rose = limit > before.limit;
    let fell = limit < before.limit;
    let request_fell = request < before.request;
    let request_rose = request > before.request;
    match &action.why {
        Why::Throttled { throttled_periods, periods, .. } => {
            promise!(rose, "throttled, and not raised");
            promise!(throttled_periods <= periods, "throttled more often than it ran");
        }
        Why::LatencyMissed => promise!(rose, "late, and not raised"),
        Why::Market { shrinks, .. } => {
            let gets_less = fell || (!rose && request_fell);
            promise!(*shrinks == gets_less, "a shrink is called a raise, or the other way round");
            promise!(gets_less || rose || request_rose, "nothing moved by the market");
        }
        Why::Forced { raised, .. } => {
            promise!(fell || request_fell, "who gives way to others has as much as before");
            promise!(*raised == rose, "a raise is called a cut, or the other way round");
        }
        Why::Cap { shrinks, rests_on } => {
            promise!(rose || fell, "a cap that did not move");
            promise!(
                *shrinks == fell,
                "a cap that shrinks is said to grow, or the other way round"
            );
            promise!(
                *rests_on != RestsOn::NoLimit || (rose && limit.is_unlimited()),
                "a limit is called none"
            );
        }
        Why::RequestRestored { request: named } => {
            promise!(!rose && !fell, "more than the request was restored");
            promise!(request_rose || request_fell, "no request was restored");
            promise!(*named == request, "another request is named than was set");
        }
        Why::Request { from, to, because } => {
            promise!(!rose && !fell, "more than the request follows use");
            promise!(*from == before.request && *to == request, "other requests are named");
            promise!(request_rose || request_fell, "no request follows use");
            promise!(!stays(because), "a request that stays has moved");
        }
        Why::Contained { grant, waiting, .. } => {
            promise!(rose || fell, "who is contained is explained without a change");
            // The largest step may leave some of a raise for later.
            promise!(limit >= *grant || rose, "held to its grant of {grant}, and to less");
            promise!(*waiting != action.uid, "contained because it waits for itself");
        }
        Why::Released => promise!(rose, "let go, and not raised"),
        Why::Trimmed => {
            promise!(
                !rose && !fell && !request_rose && !request_fell,
                "a trim moved limit or request"
            );
            promise!(
                before.weight != Some(action.weight) || before.burst != action.burst,
                "a trim changed nothing"
            );
        }
    }
    Ok(())
}

/// Whether a reason says that a request stays as it is.
const fn stays(because: &RequestWhy) -> bool {
    match because {
        RequestWhy::Kept
        | RequestWhy::Scaled
        | RequestWhy::Unseen
        | RequestWhy::Waits { .. }
        | RequestWhy::TooEarly
        | RequestWhy::NodeBusy => true,
        RequestWhy::Unsupported
        | RequestWhy::Followed
        | RequestWhy::Lowered
        | RequestWhy::FirstWeek
        | RequestWhy::Elastic
        | RequestWhy::NodeFull => false,
    }
}
