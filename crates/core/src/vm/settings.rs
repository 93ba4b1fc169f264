//! How long an agent waits for whom. Every constant with its reason.

use crate::units::Span;

use super::goal::GoalRule;

/// The constants of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// How goals are computed.
    pub goal: GoalRule,
    /// Metrics older than this are none: three looks of five seconds were missed.
    pub metrics_valid: Span,
    /// A request of the guest counts for so long. It asks again while it needs more.
    pub requested_valid: Span,
    /// A guest that refused to shrink is not asked again before that.
    pub denied_valid: Span,
    /// The scheduler is asked at least so often, since that is what clears the pressure of denied
    /// increases, and how it knows that somebody listens.
    pub ask_every: Span,
    /// An increase that was not granted whole is asked for again after this.
    pub ask_more_after: Span,
    /// A question that failed is asked again after this.
    pub ask_again_after: Span,
    /// A question that is not answered within this has failed.
    pub ask_timeout: Span,
    /// The same for the informant: when it is spoken to again.
    pub tell_again_after: Span,
    /// And how long it may take.
    pub tell_timeout: Span,
    /// The same for changes of the machine.
    pub patch_again_after: Span,
    /// And how long one may take: hot-plug waits for the guest.
    pub patch_timeout: Span,
}

impl Settings {
    /// The constants of the newest predecessor; `metrics_valid` is our own.
    pub const DEFAULT: Self = Self {
        goal: GoalRule::DEFAULT,
        metrics_valid: Span::from_s(15),
        requested_valid: Span::from_s(10),
        denied_valid: Span::from_s(5),
        ask_every: Span::from_s(15),
        ask_more_after: Span::from_s(2),
        ask_again_after: Span::from_s(3),
        ask_timeout: Span::from_s(2),
        tell_again_after: Span::from_s(3),
        tell_timeout: Span::from_s(5),
        patch_again_after: Span::from_s(5),
        patch_timeout: Span::from_s(10),
    };
}
