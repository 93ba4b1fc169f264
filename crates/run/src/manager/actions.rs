//! What was asked for and done lately, for whoever wants to know. Bounded; lost with the process.

use std::collections::VecDeque;

use walras_core::run::WorkloadId;
use walras_core::units::Moment;

/// So many are kept.
const KEPT: usize = 1000;

/// Something that was asked for or done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its number, from 1 on.
    pub task: u64,
    /// The workload; nothing if it was about the host.
    pub workload: Option<WorkloadId>,
    /// What it is called.
    pub kind: &'static str,
    /// How it stands.
    pub state: ActionState,
    /// Why, or by whom.
    pub reason: String,
    /// When it began.
    pub began: Moment,
    /// When it ended.
    pub ended: Option<Moment>,
}

/// How an action stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionState {
    /// It is under way.
    Running,
    /// It was done.
    Completed,
    /// It failed, for this reason.
    Failed(String),
}

/// Which actions are wanted. What is not said is any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of this workload.
    pub workload: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// In this state.
    pub state: Option<String>,
}

/// The last actions, oldest first.
#[derive(Debug, Default)]
pub(super) struct Actions {
    all: VecDeque<Action>,
    last: u64,
}

impl ActionState {
    /// Its name for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
        }
    }
}

impl Actions {
    /// Something begins. Gives its number.
    pub(super) fn begin(
        &mut self,
        workload: Option<&WorkloadId>,
        kind: &'static str,
        reason: String,
        now: Moment,
    ) -> u64 {
        self.last += 1;
        if self.all.len() >= KEPT {
            self.all.pop_front();
        }
        self.all.push_back(Action {
            task: self.last,
            workload: workload.cloned(),
            kind,
            state: ActionState::Running,
            reason,
            began: now,
            ended: None,
        });
        self.last
    }

    /// It ended. One that is no longer kept is not missed.
    pub(super) fn end(&mut self, task: u64, state: ActionState, now: Moment) {
        if let Some(action) = self.all.iter_mut().rev().find(|action| action.task == task) {
            action.state = state;
            action.ended = Some(now);
        }
    }

    /// Those that are wanted, oldest first.
    pub(super) fn find(&self, filter: &Filter) -> Vec<Action> {
        let fits = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
        };
        let wanted = self.all.iter().filter(|action| {
            fits(&filter.workload, action.workload.as_ref().map(WorkloadId::as_str))
                && fits(&filter.kind, Some(action.kind))
                && fits(&filter.state, Some(action.state.name()))
        });
        wanted.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_bounded_and_found() {
        let mut actions = Actions::default();
        let id = WorkloadId::new("web").unwrap();
        for number in 0..KEPT as u64 + 10 {
            let kind = if number % 2 == 0 { "start" } else { "stop" };
            let task = actions.begin(Some(&id), kind, String::new(), Moment::from_us(number));
            assert_eq!(task, number + 1);
        }
        actions.end(1, ActionState::Completed, Moment::ORIGIN);
        actions.end(1010, ActionState::Failed("x".to_owned()), Moment::ORIGIN);
        assert_eq!(actions.find(&Filter::default()).len(), KEPT);
        let stopped = Filter { kind: Some("stop".to_owned()), ..Filter::default() };
        assert_eq!(actions.find(&stopped).len(), KEPT / 2);
        let failed = Filter { state: Some("failed".to_owned()), ..Filter::default() };
        assert_eq!(actions.find(&failed)[0].task, 1010);
        let other = Filter { workload: Some("db".to_owned()), ..Filter::default() };
        assert!(actions.find(&other).is_empty());
    }
}
