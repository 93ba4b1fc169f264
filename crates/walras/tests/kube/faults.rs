//! Everything breaks at random under load, among tenants who mean harm, and nothing is lost.
//!
//! Two minutes of it are in the tier `kube`; `cargo xtask soak` is an hour, or as long as it is
//! told. Every kind of fault strikes at least once. The seed is printed; WALRAS_FAULT_SEED
//! repeats it, as far as a machine repeats anything. Meanwhile no tenant has more rights than the
//! administrator allows. Afterwards every pod is as it was started, every allocation is applied
//! again soon, what the kernel enforces is what the pod says, the audit log has no resize that
//! breaks a rule, and every pod can be given back what it came with.

mod clock;
mod disk;
mod fault;
mod tenants;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use walras_core::rng::Rng;
use walras_kube::pod::millicores;
use walras_testbed::wait_for;

use self::clock::Clock;
use self::disk::Disk;
use self::fault::{Fault, Ground};
use self::tenants::Tenants;
use crate::installed::{Installed, PATIENCE, Place};

/// What pods come with.
const CAME_WITH: (u64, u64) = (50, 150);
/// Patches of one pod are this far apart, less what clocks and logs differ by.
const APART_MS: i64 = 4_900;

fn number(variable: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test has no configuration loader")]
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "load goes on for a while between two faults")]
fn nothing_is_lost_whatever_breaks() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("WALRAS_FAULT_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    let lasting = Duration::from_secs(60 * number("WALRAS_FAULT_MINUTES").unwrap_or(2));
    println!("WALRAS_FAULT_SEED={seed}, for {} s", lasting.as_secs());
    let mut rng = Rng::from_seed(seed);
    let mut faults = Fault::sequence(Rng::from_seed(rng.next_u64()));
    let ground = Ground { disk: Disk::small(), clock: Clock::right() };
    let mut installed = Installed::prepare(&[]);
    installed.with_environment(ground.clock.environment());
    installed.start_controller();
    installed.start_agent_with(&ground.disk.recording());
    let pods: Vec<Place> = (0..5).map(|n| run(&installed, &format!("web-{n}"))).collect();
    let mut tenants = Tenants::move_in(&installed);
    let began = Instant::now();
    let (mut count, mut full) = (0, false);
    while began.elapsed() < lasting || count < Fault::ALL.len() {
        for pod in &pods {
            if rng.below(2) == 0 {
                pod.burst(2_000 + rng.below(8_000), 1);
            }
        }
        tenants.harm(&installed, &mut rng);
        std::thread::sleep(Duration::from_millis(1_000 + rng.below(4_000)));
        full |= ground.disk.is_full();
        tenants.check_rights(&installed);
        let fault = faults.next().expect("there is always another");
        let outage = Duration::from_millis(rng.below(5_000));
        println!("{:>6.1} s: {fault:?} for {outage:?}", began.elapsed().as_secs_f64());
        fault.strike(&mut installed, &ground, outage);
        installed.check_alive();
        count += 1;
    }
    assert!(full, "the disk was to be full");
    end(&mut installed, &mut tenants, &pods, count);
}

fn run(installed: &Installed, name: &str) -> Place {
    let (request, limit) = CAME_WITH;
    installed.run("default", name, &format!("{request}m"), &format!("{limit}m"))
}

/// Everything is as it should be after `count` faults.
fn end(installed: &mut Installed, tenants: &mut Tenants, pods: &[Place], count: usize) {
    let over = Instant::now();
    for pod in pods {
        wait_for(&format!("{} to be applied", pod.name), PATIENCE, || {
            Ok(installed.is_applied(pod).then_some(()))
        })
        .unwrap();
    }
    eprintln!("every allocation applied {:.1} s after the last", over.elapsed().as_secs_f64());
    for pod in pods {
        assert_eq!(installed.restarts(pod).unwrap(), 0, "{} was restarted", pod.name);
        wait_for("the kernel to enforce what the pod says", PATIENCE, || {
            let object = installed.object("pod", &pod.namespace, &pod.name)?;
            let limit = object.pointer("/spec/containers/0/resources/limits/cpu");
            let limit = limit.and_then(Value::as_str).unwrap_or_default();
            let limit = millicores(limit).map_err(anyhow::Error::msg)?.get();
            Ok((installed.quota(pod)?.abs_diff(limit * 100) <= 1_000).then_some(()))
        })
        .unwrap();
    }
    // And it goes on as before: who needs more gets it.
    pods[0].burst(600_000, 1);
    wait_for("a raise after all that", PATIENCE, || {
        installed.check_alive();
        Ok((installed.quota(&pods[0])? > 100 * CAME_WITH.1).then_some(()))
    })
    .unwrap();
    let resizes = check_resizes(installed);
    eprintln!("{count} faults, {resizes} resizes");
    tenants.check(installed);
    // What each came with was not lost either.
    installed.configure(&[("mode", "restore")]).unwrap();
    for pod in pods {
        wait_for("everything to be given back", PATIENCE, || {
            Ok((installed.quota(pod)? == 100 * CAME_WITH.1).then_some(()))
        })
        .unwrap();
    }
}

/// Holds every resize in the audit log to the rules, and counts them.
fn check_resizes(installed: &Installed) -> usize {
    let resizes = installed.resizes().unwrap();
    let mut last: BTreeMap<&str, (i64, (u64, u64), bool)> = BTreeMap::new();
    let ours = |event: &&Value| event["objectRef"]["namespace"] == "default";
    for event in resizes.iter().filter(ours) {
        let name = event["objectRef"]["name"].as_str().unwrap_or_default();
        let at = event["requestReceivedTimestamp"].as_str().unwrap_or_default();
        let at_ms = at.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let resources = &event["requestObject"]["spec"]["containers"][0]["resources"];
        let cpu = |which: &str| {
            millicores(resources[which]["cpu"].as_str().unwrap_or_default()).unwrap().get()
        };
        let asked = (cpu("requests"), cpu("limits"));
        let (before_ms, before, was_cut) = last.get(name).copied().unwrap_or((0, CAME_WITH, false));
        let (from, to) = (before.1, asked.1);
        last.insert(name, (at_ms, asked, to <= from));
        // Whatever others claim, wish for or break: what it requested is its own.
        assert!(asked.0 >= CAME_WITH.0, "{name} was cut to a request of {}m", asked.0);
        assert!((asked.0..=20_000).contains(&to), "{name}: {to}m");
        assert!(to <= 10 * from.max(100), "{name}: from {from}m to {to}m");
        let raises_after_a_cut = was_cut && to > from;
        let apart_ms = at_ms - before_ms;
        assert!(apart_ms >= APART_MS || raises_after_a_cut, "{name}: {apart_ms} ms apart");
        assert_ne!(asked, before, "{name}: the same was asked twice");
    }
    resizes.len()
}
