//! The program in a guest, driven with a clock of its own: one test for each numbered step of the
//! protocol's document, then what it agrees to and when it asks for more.

use walras_core::informant::{
    Action, AgentId, Informant, Look, MemoryUse, Needs, Refusal, Saying, Settings, Versions,
};
use walras_core::units::{Bytes, Millicores, Moment, Resources, Span};

const MIB: u64 = 1 << 20;
const A: AgentId = AgentId([0xa; 16]);
const B: AgentId = AgentId([0xb; 16]);
const SPOKEN: Versions = Versions { min: 1, max: 4 };

/// A program, and what time it is.
struct Town {
    informant: Informant,
    now: Moment,
}

impl Town {
    fn new() -> Self {
        Self { informant: Informant::new(Settings::DEFAULT), now: Moment::from_ms(1000) }
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now + Span::from_ms(ms);
    }

    fn register(&mut self, agent: AgentId) {
        let address = address(agent);
        self.informant.register(agent, &address, SPOKEN).expect("it is new");
        self.informant.identified(agent, Some(agent), self.now).expect("it says who it is");
    }

    /// What it wants to be said.
    fn step(&mut self) -> Vec<Action> {
        self.informant.step(self.now).actions
    }

    /// Steps, expects one call, and answers it.
    fn call(&mut self, agent: AgentId, what: Saying, fine: bool) {
        let actions = self.step();
        let said: Vec<(AgentId, Saying)> =
            actions.iter().map(|action| (action.agent, action.what)).collect();
        assert_eq!(said, [(agent, what)]);
        self.informant.answered(actions[0].call, fine, self.now);
    }

    /// An agent is registered and listened to.
    fn listen_to(&mut self, agent: AgentId) {
        self.register(agent);
        self.call(agent, Saying::Resume, true);
    }

    fn look(&mut self, look: Look) {
        self.pass(100);
        self.informant.looked(look, self.now);
    }

    fn downscale(&mut self, agent: AgentId, sequence: u64, to: Resources) -> Result<bool, Refusal> {
        let asked = self.informant.downscale_asked(agent, sequence, to, self.now);
        asked.map(|verdict| verdict.agrees)
    }
}

fn address(agent: AgentId) -> String {
    format!("10.0.0.{}:8080", agent.0[0])
}

fn amount(cpu: u64, mib: u64) -> Resources {
    Resources::new(Millicores::new(cpu), Bytes::new(mib * MIB))
}

fn memory(total_mib: u64, used_mib: u64) -> Option<MemoryUse> {
    let available = Bytes::new((total_mib - used_mib) * MIB);
    Some(MemoryUse { total: Bytes::new(total_mib * MIB), available })
}

fn idle() -> Look {
    Look { cpus: 1, memory: memory(950, 200), ..Look::default() }
}

#[test]
fn step_3_1_an_agent_of_the_same_id_is_refused_even_where_its_version_is_wrong_too() {
    let mut town = Town::new();
    town.informant.register(A, &address(A), SPOKEN).expect("it is new");
    // Already while it is being asked who it is.
    assert_eq!(town.informant.register(A, "x", SPOKEN), Err(Refusal::AlreadyRegistered));
    town.informant.identified(A, Some(A), town.now).expect("it is A");
    let old = Versions { min: 1, max: 3 };
    assert_eq!(town.informant.register(A, "x", old), Err(Refusal::AlreadyRegistered));
}

#[test]
fn step_3_2_other_versions_are_refused_without_a_call() {
    let mut town = Town::new();
    for (min, max) in [(1, 3), (5, 9)] {
        let theirs = Versions { min, max };
        let refused = town.informant.register(A, "x", theirs);
        assert_eq!(refused, Err(Refusal::Version { ours: 4, theirs }));
    }
    assert_eq!(town.informant.identified(A, Some(A), town.now), Err(Refusal::Unknown));
}

#[test]
fn steps_3_3_to_3_5_an_agent_has_to_say_who_it_is() {
    let mut town = Town::new();
    for (said, refusal) in [(None, Refusal::Unreachable), (Some(B), Refusal::AnotherId { said: B })]
    {
        town.informant.register(A, "x", SPOKEN).expect("it is not registered");
        assert_eq!(town.informant.identified(A, said, town.now), Err(refusal));
        assert!(!town.informant.knows(A));
    }
    assert_eq!(town.step(), []);
}

#[test]
fn step_3_6_an_agent_that_says_so_is_registered_in_the_version_that_both_speak() {
    let mut town = Town::new();
    assert_eq!(town.informant.register(A, &address(A), SPOKEN), Ok(4));
    assert_eq!(town.informant.identified(A, Some(A), town.now), Ok(()));
    assert!(town.informant.knows(A));
}

#[test]
fn step_4_an_agent_begins_suspended_and_one_call_is_made_at_a_time() {
    let mut town = Town::new();
    town.register(A);
    assert_eq!(town.downscale(A, 1, amount(1000, 1024)), Err(Refusal::Suspended));
    assert_eq!(town.informant.upscaled(A, 2, amount(1000, 1024)), Err(Refusal::Suspended));
    assert_eq!(town.step().len(), 1);
    assert_eq!(town.step(), []);
}

#[test]
fn step_4_1_health_checks_tell_who_is_known_and_are_numbered() {
    let mut town = Town::new();
    assert_eq!(town.informant.health_checked(A, 1), Err(Refusal::Unknown));
    town.register(A);
    assert_eq!(town.informant.health_checked(A, 3), Ok(()));
    for sequence in [3, 2] {
        let refused = town.informant.health_checked(A, sequence);
        assert_eq!(refused, Err(Refusal::Old { sequence, newest: 3 }));
    }
    assert_eq!(town.informant.health_checked(A, 4), Ok(()));
}

#[test]
fn step_4_2_a_guest_shrinks_only_to_what_leaves_room_for_what_is_in_use() {
    let mut town = Town::new();
    town.listen_to(A);
    town.informant.upscaled(A, 1, amount(1000, 1024)).expect("it is active");
    // Nothing was seen yet.
    assert_eq!(town.downscale(A, 2, amount(1000, 896)), Ok(false));
    town.look(idle());
    assert_eq!(town.downscale(A, 3, amount(1000, 896)), Ok(false));
    town.look(Look { memory: memory(950, 500), ..idle() });
    town.look(idle());
    // The kernel keeps 74 MiB, so of 768 MiB there are 694, of which 85 % are 589: 500 fit.
    assert_eq!(town.downscale(A, 4, amount(1000, 768)), Ok(true));
    // Of 640 MiB there are, less what the guest's kernel keeps of 768 now, fewer than 500.
    assert_eq!(town.downscale(A, 5, amount(1000, 512)), Ok(false));
}

#[test]
fn step_4_2_memory_in_use_is_the_most_of_the_last_looks() {
    let mut town = Town::new();
    town.listen_to(A);
    town.informant.upscaled(A, 1, amount(1000, 1024)).expect("it is active");
    town.look(Look { memory: memory(950, 700), ..idle() });
    for _ in 0..4 {
        town.look(idle());
    }
    assert_eq!(town.downscale(A, 2, amount(1000, 768)), Ok(false));
    town.look(idle());
    assert_eq!(town.downscale(A, 3, amount(1000, 768)), Ok(true));
}

#[test]
fn step_4_2_looks_of_long_ago_agree_to_nothing() {
    let mut town = Town::new();
    town.listen_to(A);
    town.look(idle());
    town.look(idle());
    town.pass(6000);
    assert_eq!(town.downscale(A, 1, amount(1000, 768)), Ok(false));
}

#[test]
fn step_4_3_more_is_taken_note_of_from_the_active_agent() {
    let mut town = Town::new();
    town.listen_to(A);
    assert_eq!(town.informant.upscaled(A, 1, amount(2000, 2048)), Ok(()));
    assert_eq!(town.informant.granted(), Some(amount(2000, 2048)));
}

#[test]
fn step_4_4_the_newest_agent_wins_and_the_one_before_is_suspended_once() {
    let mut town = Town::new();
    town.listen_to(A);
    town.register(B);
    let suspend = town.step();
    assert_eq!((suspend[0].agent, suspend[0].what), (A, Saying::Suspend));
    // It is not heard any more from here on, and not told twice.
    assert_eq!(town.downscale(A, 1, amount(1000, 1024)), Err(Refusal::Suspended));
    assert_eq!(town.step(), []);
    town.informant.answered(suspend[0].call, true, town.now);
    town.call(B, Saying::Resume, true);
    assert_eq!(town.informant.listened_to(), Some(B));
    assert_eq!(town.step(), []);
}

#[test]
fn step_4_4_an_agent_that_does_not_answer_is_forgotten_rather_than_told_twice() {
    let mut town = Town::new();
    town.listen_to(A);
    town.register(B);
    town.step();
    town.pass(5000);
    // The same step that gives up on A resumes B.
    town.call(B, Saying::Resume, true);
    assert!(!town.informant.knows(A));
    assert_eq!(town.informant.health_checked(A, 9), Err(Refusal::Unknown));
}

#[test]
fn step_4_5_an_agent_is_resumed_once_and_again_after_a_newer_one_went() {
    let mut town = Town::new();
    town.listen_to(A);
    town.register(B);
    town.call(A, Saying::Suspend, true);
    town.call(B, Saying::Resume, true);
    assert_eq!(town.informant.unregister(B, &address(B)), Ok(true));
    town.call(A, Saying::Resume, true);
    assert_eq!(town.downscale(A, 1, amount(0, 1)), Ok(false));
}

#[test]
fn step_4_6_an_agent_is_asked_whether_it_is_there_and_forgotten_after_three_times() {
    let mut town = Town::new();
    town.listen_to(A);
    for round in 1..=3 {
        assert!(town.informant.knows(A), "{round}");
        town.pass(9_999);
        assert_eq!(town.step(), []);
        town.pass(1);
        town.call(A, Saying::Check, false);
    }
    assert!(!town.informant.knows(A));
    assert_eq!(town.informant.step(town.now).wake_at, None);
}

#[test]
fn step_4_7_cpu_is_asked_for_after_two_looks_and_at_most_once_a_second() {
    let mut town = Town::new();
    town.listen_to(A);
    let busy = Look { runnable: 2, ..idle() };
    town.look(busy);
    assert_eq!(town.step(), []);
    town.look(busy);
    let more = Saying::AskMore(Needs { cpu: true, memory: false });
    town.call(A, more, true);
    for _ in 0..9 {
        town.look(busy);
        assert_eq!(town.step(), []);
    }
    town.look(busy);
    town.call(A, more, true);
    // In vain twice: two seconds next time, unless it grew.
    for _ in 0..19 {
        town.look(busy);
        assert_eq!(town.step(), []);
    }
    town.look(busy);
    town.call(A, more, true);
    town.informant.upscaled(A, 1, amount(2000, 1024)).expect("it is active");
    town.look(idle());
    town.look(idle());
    assert_eq!(town.informant.needs(), Needs::default());
}

#[test]
fn step_4_7_memory_is_asked_for_at_once() {
    for short in [
        Look { memory: memory(950, 900), ..idle() },
        Look { memory_stalled_us: Some(1_010_000), ..idle() },
        Look { held_back: Some(6), ..idle() },
    ] {
        let mut town = Town::new();
        town.listen_to(A);
        town.look(Look { memory_stalled_us: Some(1_000_000), held_back: Some(5), ..idle() });
        assert_eq!(town.step(), []);
        town.look(short);
        town.call(A, Saying::AskMore(Needs { cpu: false, memory: true }), true);
    }
}

#[test]
fn step_4_7_waiting_tasks_and_a_part_of_a_cpu_that_is_used_up_are_noticed() {
    let mut town = Town::new();
    town.listen_to(A);
    for (stalled, asks) in [(29_000, false), (31_000, true)] {
        let mut informant = town.informant.clone();
        for look in 0..3 {
            let cpu_stalled_us = Some(look * stalled);
            let at = town.now + Span::from_ms(100 * look);
            informant.looked(Look { cpu_stalled_us, ..idle() }, at);
        }
        assert_eq!(informant.needs().cpu, asks, "{stalled}");
    }
    town.informant.upscaled(A, 1, amount(250, 1024)).expect("it is active");
    for look in 0..3 {
        town.look(Look { runnable: 1, idle_us: Some(5_000 * look), ..idle() });
    }
    assert!(town.informant.needs().cpu);
    // A whole CPU that one task uses is enough for it.
    town.informant.upscaled(A, 2, amount(1000, 1024)).expect("it is active");
    town.look(Look { runnable: 1, idle_us: Some(15_000), ..idle() });
    assert!(!town.informant.needs().cpu);
}

#[test]
fn step_4_7_nobody_is_asked_before_an_agent_is_listened_to() {
    let mut town = Town::new();
    let full = Look { memory: memory(950, 900), ..idle() };
    town.look(full);
    assert_eq!(town.step(), []);
    town.register(A);
    town.look(full);
    town.call(A, Saying::Resume, true);
    town.call(A, Saying::AskMore(Needs { cpu: false, memory: true }), true);
}

#[test]
fn step_5_who_unregisters_hears_whether_it_was_active_and_only_from_its_address() {
    let mut town = Town::new();
    town.listen_to(A);
    let known = address(A);
    let elsewhere = town.informant.unregister(A, "10.9.9.9:1");
    assert_eq!(elsewhere, Err(Refusal::AnotherAddress { known }));
    town.register(B);
    assert_eq!(town.informant.unregister(B, &address(B)), Ok(false));
    assert_eq!(town.informant.unregister(A, &address(A)), Ok(true));
    assert_eq!(town.informant.unregister(A, &address(A)), Err(Refusal::Unknown));
}

#[test]
fn a_guest_that_waits_for_cpus_does_not_give_one_up() {
    let mut town = Town::new();
    town.listen_to(A);
    town.informant.upscaled(A, 1, amount(2000, 1024)).expect("it is active");
    let busy = Look { cpus: 2, runnable: 3, ..idle() };
    town.look(busy);
    town.look(busy);
    assert_eq!(town.downscale(A, 2, amount(1000, 1024)), Ok(false));
    assert_eq!(town.downscale(A, 3, amount(2000, 896)), Ok(true));
}

#[test]
fn a_guest_whose_tasks_fill_its_cpus_does_not_give_one_up() {
    let mut town = Town::new();
    town.listen_to(A);
    town.informant.upscaled(A, 1, amount(2000, 1024)).expect("it is active");
    // Nobody waits, and with one CPU less somebody would.
    let full = Look { cpus: 2, runnable: 2, ..idle() };
    for _ in 0..5 {
        town.look(full);
    }
    assert_eq!(town.informant.needs(), Needs::default());
    assert_eq!(town.downscale(A, 2, amount(1000, 1024)), Ok(false));
    // A part of the second CPU is still a CPU.
    assert_eq!(town.downscale(A, 3, amount(1500, 1024)), Ok(true));
    // One look at which a task did something else, and it was not all of the time.
    town.look(Look { runnable: 1, ..full });
    assert_eq!(town.downscale(A, 4, amount(1000, 1024)), Ok(true));
}

#[test]
fn many_agents_take_bounded_room_and_never_that_of_the_active_one() {
    let mut town = Town::new();
    town.listen_to(A);
    for number in 100..200 {
        town.register(AgentId([number; 16]));
    }
    assert!(town.informant.knows(A));
    assert!(!town.informant.knows(AgentId([195; 16])));
    assert!(town.informant.knows(AgentId([199; 16])));
    for number in 0..4 {
        town.informant.register(AgentId([number; 16]), "x", SPOKEN).expect("there is room");
    }
    assert_eq!(town.informant.register(AgentId([9; 16]), "x", SPOKEN), Err(Refusal::TooMany));
}
