//! How long a step in load waits for a limit that holds it.

/// The load must rise by this factor against the last seconds to count as a step.
const STEP_FACTOR: f64 = 1.5;
/// And by this many cores.
const STEP_CORES: f64 = 0.1;
/// How fast the usual load follows the offered one, per second.
const FOLLOWS: f64 = 0.2;
/// No more steps than this are kept, so that memory is constant.
const STEPS_MAX: usize = 1024;

/// The steps of one pod's load.
#[derive(Clone, Debug, Default)]
pub(super) struct Reaction {
    usual_cores: Option<f64>,
    /// How long the current step has waited; a step ends when the usual load has caught up with it.
    step: Option<Step>,
    times_s: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    waited_s: f64,
    held: bool,
}

impl Reaction {
    /// A second passed in which this much was offered under this limit.
    pub(super) fn second_passed(&mut self, offered_cores: f64, limit_cores: f64) {
        let usual = *self.usual_cores.get_or_insert(offered_cores);
        let high = offered_cores > (usual * STEP_FACTOR).max(usual + STEP_CORES);
        self.usual_cores = Some(usual + (offered_cores - usual) * FOLLOWS);
        if self.step.is_none() && high {
            self.step = Some(Step { waited_s: 0.0, held: false });
        }
        let Some(step) = &mut self.step else {
            return;
        };
        if !step.held && limit_cores >= offered_cores {
            step.held = true;
            let waited_s = step.waited_s;
            self.keep(waited_s);
        } else if !step.held {
            step.waited_s += 1.0;
        }
        if !high && self.step.is_some_and(|step| step.held) {
            self.step = None;
        }
    }

    /// A step that was still waiting at the end has waited this long at least.
    pub(super) fn ended(&mut self) {
        if let Some(Step { waited_s, held: false }) = self.step.take() {
            self.keep(waited_s);
        }
    }

    pub(super) fn times_s(&self) -> &[f64] {
        &self.times_s
    }

    fn keep(&mut self, waited_s: f64) {
        if self.times_s.len() < STEPS_MAX {
            self.times_s.push(waited_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seconds: &[(f64, f64)]) -> Vec<f64> {
        let mut reaction = Reaction::default();
        for &(offered, limit) in seconds {
            reaction.second_passed(offered, limit);
        }
        reaction.ended();
        reaction.times_s().to_vec()
    }

    #[test]
    fn a_step_is_timed_until_the_limit_holds_it() {
        let before = [(1.0, 1.5); 10];
        let after = [(3.0, 1.5), (3.0, 1.5), (3.0, 4.0), (3.0, 4.0), (3.0, 4.0)];
        assert_eq!(times(&[&before[..], &after].concat()), [2.0]);
    }

    #[test]
    fn a_limit_that_was_large_enough_has_no_delay() {
        let mut seconds = vec![(1.0, 4.0); 10];
        seconds.extend([(3.0, 4.0); 20]);
        assert_eq!(times(&seconds), [0.0]);
    }

    #[test]
    fn a_steady_load_has_no_steps() {
        assert!(times(&[(1.0, 0.5); 30]).is_empty());
    }
}
