//! Guards a model that is asked over a socket: after a few failures in a row it is left alone for
//! some seconds, and then one question finds out whether it is back.
//!
//! An answer that comes too late is a failure like any other. While the breaker is open nobody
//! waits: answers are neutral at once. A question that was asked before the breaker changed says
//! nothing about now, so every question carries a [`Ticket`]. The caller brings the clock.

use crate::units::{Moment, Span};

/// When a breaker opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerTerms {
    /// An answer that takes longer is a failure.
    pub deadline: Span,
    /// So many failures in a row open it.
    pub failures: u32,
    /// One question is let through after it was open for so long.
    pub probe_after: Span,
}

/// A breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    terms: BreakerTerms,
    state: State,
    /// How often it changed; tells old tickets from new ones.
    epoch: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { since: Moment },
    Probing { since: Moment },
}

/// Whether to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Ask, wait no longer than this, and say what came of it.
    Ask {
        /// To be handed in with what came of it.
        ticket: Ticket,
        /// How long to wait.
        deadline: Span,
    },
    /// Do not ask before then; the answer is neutral.
    Neutral {
        /// When the next question may be asked; later than now.
        until: Moment,
    },
}

/// Which question an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// What a breaker looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// Everything is asked.
    Closed,
    /// One question is on its way.
    HalfOpen,
    /// Nothing is asked.
    Open,
}

// === impl BreakerTerms ===

impl BreakerTerms {
    /// 45 ms, 3 failures in a row, a probe after 5 s.
    pub const DEFAULT: Self =
        Self { deadline: Span::from_ms(45), failures: 3, probe_after: Span::from_s(5) };
}

// === impl Breaker ===

impl Breaker {
    /// A closed one.
    #[must_use]
    pub const fn new(terms: BreakerTerms) -> Self {
        Self { terms, state: State::Closed { failures: 0 }, epoch: 0 }
    }

    /// Whether to ask at `now`. Of those who ask while it is open, the first after the pause is the
    /// probe. A probe of which nothing is heard is given up after the same pause.
    pub fn ask(&mut self, now: Moment) -> Permission {
        match self.state {
            State::Closed { .. } => self.permitted(),
            State::Open { since } | State::Probing { since } => {
                let until = since + self.terms.probe_after;
                if now < until {
                    return Permission::Neutral { until };
                }
                self.change(State::Probing { since: now });
                self.permitted()
            }
        }
    }

    /// A question was answered after `took`, and the answer was of use.
    pub fn answered(&mut self, ticket: Ticket, took: Span, now: Moment) {
        if took > self.terms.deadline {
            self.failed(ticket, now);
        } else if ticket == Ticket(self.epoch) {
            match self.state {
                State::Closed { .. } => self.state = State::Closed { failures: 0 },
                State::Probing { .. } => self.change(State::Closed { failures: 0 }),
                State::Open { .. } => {}
            }
        }
    }

    /// A question was not answered, too late, or with nonsense.
    pub fn failed(&mut self, ticket: Ticket, now: Moment) {
        if ticket != Ticket(self.epoch) {
            return;
        }
        match self.state {
            State::Closed { failures } if failures + 1 < self.terms.failures => {
                self.state = State::Closed { failures: failures + 1 };
            }
            State::Closed { .. } | State::Probing { .. } => {
                self.change(State::Open { since: now });
            }
            State::Open { .. } => {}
        }
    }

    /// What it looks like.
    #[must_use]
    pub const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::Probing { .. } => BreakerState::HalfOpen,
        }
    }

    const fn permitted(&self) -> Permission {
        Permission::Ask { ticket: Ticket(self.epoch), deadline: self.terms.deadline }
    }

    fn change(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }
}

// === impl BreakerState ===

impl BreakerState {
    /// Its name in metrics and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }

    /// Its number in metrics: 0 closed, 1 open, 2 half-open, as the predecessor has it.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Open => 1,
            Self::HalfOpen => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn breaker() -> Breaker {
        Breaker::new(BreakerTerms::DEFAULT)
    }

    fn ticket(breaker: &mut Breaker, now: Moment) -> Ticket {
        match breaker.ask(now) {
            Permission::Ask { ticket, deadline } => {
                assert_eq!(deadline, Span::from_ms(45));
                ticket
            }
            Permission::Neutral { until } => panic!("not before {until:?}"),
        }
    }

    fn fail(breaker: &mut Breaker, now: Moment) {
        let ticket = ticket(breaker, now);
        breaker.failed(ticket, now);
    }

    #[test]
    fn three_failures_in_a_row_open_it_and_one_success_starts_the_count_again() {
        let mut breaker = breaker();
        let now = Moment::from_ms(1000);
        fail(&mut breaker, now);
        fail(&mut breaker, now);
        let good = ticket(&mut breaker, now);
        breaker.answered(good, Span::from_ms(45), now);
        fail(&mut breaker, now);
        fail(&mut breaker, now);
        assert_eq!(breaker.state(), BreakerState::Closed);
        fail(&mut breaker, now);
        assert_eq!(breaker.state(), BreakerState::Open);
        let until = Moment::from_ms(6000);
        assert_eq!(breaker.ask(now), Permission::Neutral { until });
        assert_eq!(breaker.ask(Moment::from_ms(5999)), Permission::Neutral { until });
    }

    #[test]
    fn a_late_answer_is_a_failure() {
        let mut breaker = breaker();
        for _ in 0..3 {
            let ticket = ticket(&mut breaker, Moment::ORIGIN);
            breaker.answered(ticket, Span::from_us(45_001), Moment::ORIGIN);
        }
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn after_five_seconds_one_question_is_let_through() {
        let mut breaker = breaker();
        (0..3).for_each(|_| fail(&mut breaker, Moment::ORIGIN));
        let probed_at = Moment::from_ms(5000);
        let probe = ticket(&mut breaker, probed_at);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        let next = Permission::Neutral { until: Moment::from_ms(10_000) };
        assert_eq!(breaker.ask(probed_at), next, "only one");
        breaker.failed(probe, Moment::from_ms(5045));
        assert_eq!(breaker.state(), BreakerState::Open);
        let again = Moment::from_ms(10_045);
        assert_eq!(breaker.ask(probed_at), Permission::Neutral { until: again });
        let probe = ticket(&mut breaker, again);
        breaker.answered(probe, Span::from_ms(3), again);
        assert_eq!(breaker.state(), BreakerState::Closed);
        ticket(&mut breaker, again);
    }

    #[test]
    fn a_probe_of_which_nothing_is_heard_is_given_up() {
        let mut breaker = breaker();
        (0..3).for_each(|_| fail(&mut breaker, Moment::ORIGIN));
        let lost = ticket(&mut breaker, Moment::from_ms(5000));
        let second = ticket(&mut breaker, Moment::from_ms(10_000));
        assert_ne!(lost, second);
        breaker.answered(lost, Span::from_ms(1), Moment::from_ms(10_001));
        assert_eq!(breaker.state(), BreakerState::HalfOpen, "an old answer says nothing");
    }

    #[test]
    fn an_answer_from_before_it_opened_does_not_close_it() {
        let mut breaker = breaker();
        let early = ticket(&mut breaker, Moment::ORIGIN);
        (0..3).for_each(|_| fail(&mut breaker, Moment::ORIGIN));
        breaker.answered(early, Span::from_ms(1), Moment::from_ms(1));
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker.failed(early, Moment::from_ms(4000));
        let Permission::Ask { .. } = breaker.ask(Moment::from_ms(5000)) else {
            panic!("an old failure must not put the probe off");
        };
    }

    #[test]
    fn whatever_happens_it_asks_at_most_once_in_five_seconds_while_it_is_not_closed() {
        let mut rng = Rng::from_seed(45);
        for round in 0..200 {
            let mut breaker = breaker();
            let mut now = Moment::ORIGIN;
            let mut open_asks: alloc::vec::Vec<Moment> = alloc::vec::Vec::new();
            let mut tickets = alloc::vec::Vec::new();
            for _ in 0..400 {
                now = now + Span::from_ms(rng.next_u64() % 700);
                match rng.next_u64() % 4 {
                    0 => {
                        let was_closed = breaker.state() == BreakerState::Closed;
                        match breaker.ask(now) {
                            Permission::Ask { ticket, .. } => {
                                tickets.push(ticket);
                                if !was_closed {
                                    open_asks.push(now);
                                }
                            }
                            Permission::Neutral { until } => assert!(until > now),
                        }
                    }
                    1 if !tickets.is_empty() => {
                        let at = usize::try_from(rng.next_u64()).unwrap() % tickets.len();
                        let took = Span::from_ms(rng.next_u64() % 90);
                        breaker.answered(tickets.swap_remove(at), took, now);
                    }
                    _ if !tickets.is_empty() => breaker.failed(tickets.remove(0), now),
                    _ => {}
                }
            }
            let close = open_asks.windows(2).all(|two| two[1].since(two[0]) >= Span::from_s(5));
            assert!(close, "round {round}: {open_asks:?}");
        }
    }
}
