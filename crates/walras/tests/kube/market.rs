//! The market at work on a real node, through the API: PodAllocation, resize, cgroup.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use walras_kube::pod::millicores;
use walras_testbed::wait_for;

use crate::installed::{Installed, PATIENCE, Place, SYSTEM, get};

/// How long a burst of load lasts.
const BURST: Duration = Duration::from_secs(30);

/// The CPU request and limit of a pod, its containers together, in thousandths.
fn cpu_of(pod: &Value) -> (u64, u64) {
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let sum = |which: &str| {
        let cpu = containers.iter().filter_map(|one| one["resources"][which]["cpu"].as_str());
        cpu.map(|cpu| millicores(cpu).unwrap().get()).sum()
    };
    (sum("requests"), sum("limits"))
}

#[test]
fn a_throttled_pod_gets_more_in_place_and_gives_it_back_when_quiet() {
    // With the least floor, and a short memory: what is left is what throttling asks for.
    let mut installed = Installed::start(&[
        ("market.limit_floor_milli", "10"),
        ("market.window_s", "20"),
        ("market.peak_memory_s", "20"),
        ("market.shrink_hold_ms", "5000"),
        ("startupGracePeriod", "5s"),
    ]);
    let pod = installed.run("default", "web", "100m", "200m");
    assert_eq!(installed.quota(&pod).unwrap(), 20_000);
    let mut bursts = Vec::new();
    // Only what is idle is given to it, and others may be busy on this machine for a while.
    let most = wait_for("a larger quota", 4 * PATIENCE, || {
        installed.check_alive();
        if bursts.last().is_none_or(|last: &Instant| last.elapsed() > BURST) {
            pod.burst(30_000, 1);
            bursts.push(Instant::now());
        }
        let quota = installed.quota(&pod)?;
        Ok((quota > 20_000 && installed.is_applied(&pod)).then_some(quota))
    })
    .unwrap();
    let object = installed.object("pod", "default", "web").unwrap();
    let note = object["metadata"]["annotations"]["walras.dev/original-resources"].as_str();
    assert_eq!(note, Some(r#"{"app":{"cpuRequestMilli":100,"cpuLimitMilli":200}}"#));
    let (request, limit) = cpu_of(&object);
    assert!(request == 100 && limit > 200, "request {request}m, limit {limit}m");
    let allocation = installed.allocation(&pod).unwrap();
    assert_eq!(allocation["metadata"]["ownerReferences"][0]["uid"], pod.uid.as_str());
    assert!(allocation["spec"]["explanation"].is_string(), "{allocation:#}");

    wait_for("a smaller quota once it is quiet", 3 * PATIENCE, || {
        installed.check_alive();
        Ok((installed.quota(&pod)? < most.max(installed_peak(&installed, &pod)?)).then_some(()))
    })
    .unwrap();
    assert_eq!(installed.restarts(&pod).unwrap(), 0);
}

/// The largest quota that a pod was ever given, by the audit log.
fn installed_peak(installed: &Installed, place: &Place) -> Result<u64> {
    let resizes = installed.resizes()?;
    let of = |event: &Value| event["objectRef"]["name"] == place.name.as_str();
    let limits = resizes.iter().filter(|event| of(event)).map(|event| {
        let (_, limit) = cpu_of(&event["requestObject"]);
        limit * 100
    });
    Ok(limits.max().unwrap_or_default())
}

#[test]
fn under_contention_sums_stay_within_the_node_and_the_mode_is_told() {
    // Little is to be divided, so that it is contended for whatever else runs on this machine.
    let mut installed = Installed::start(&[("systemReservePercent", "70")]);
    let recording = installed.record_agent();
    let node = installed.object("node", SYSTEM, "node-1").unwrap();
    let allocatable = node["status"]["allocatable"]["cpu"].as_str().unwrap();
    let allocatable = millicores(allocatable).unwrap().get();
    let kubectl = installed.testbed.kubectl().unwrap();
    let mut small = installed.pod("default", "small", "100m", "300m");
    // So that there is enough for it once the others have left.
    small["metadata"]["annotations"] = json!({ "walras.dev/max-cpu": "300m" });
    kubectl.apply(&small).unwrap();
    let pods = [
        installed.place("default", "small"),
        installed.run("default", "large", "300m", "400m"),
        installed.run("default", "third", "100m", "400m"),
    ];
    for pod in &pods {
        pod.burst(600_000, 2);
    }
    // Beside other work that fills this machine for minutes, even rights do not fit for as long.
    wait_for("a congested market", 3 * PATIENCE, || {
        installed.check_alive();
        Ok(is_in_mode(&installed, "congested").then_some(()))
    })
    .unwrap();
    wait_for("all to be applied", PATIENCE, || {
        Ok(pods.iter().all(|pod| installed.is_applied(pod)).then_some(()))
    })
    .unwrap();
    check_sums(&installed, allocatable);
    wait_for("the kernel's weights to follow the requests", PATIENCE, || {
        let mut each = Vec::new();
        for pod in &pods {
            let (request, _) = cpu_of(&installed.object("pod", "default", &pod.name)?);
            let group = installed.testbed.container_cgroup(&pod.uid, &pod.container)?;
            each.push((request, weight_in(&group)?));
        }
        Ok(are_followed(each).then_some(()))
    })
    .unwrap();
    let published = congested_prices(&mut installed);

    for name in ["large", "third"] {
        kubectl.run(&["delete", "pod", name, "--wait=false"]).unwrap();
    }
    wait_for("an uncongested market once two have left", 3 * PATIENCE, || {
        Ok(is_in_mode(&installed, "uncongested").then_some(()))
    })
    .unwrap();
    assert_eq!(installed.restarts(&pods[0]).unwrap(), 0);
    installed.kill_agent();
    check_replay(&recording, &published);
}

/// The prices of some clearings of a congested market, as the agent published them.
fn congested_prices(installed: &mut Installed) -> Vec<f64> {
    let mut published: Vec<(u64, f64)> = Vec::new();
    wait_for("three clearings of a congested market", 3 * PATIENCE, || {
        installed.check_alive();
        let state = installed.agent_state()?;
        let tick = state["slow_ticks"].as_u64().context("no slow_ticks")?;
        let price = state["price"].as_f64().context("no price")?;
        if state["mode"] == "congested" && published.last().is_none_or(|last| last.0 != tick) {
            // Requests weigh 100 to 300 here, and still the mean weight counts as one: the price
            // is how many times the needs exceed what there is, less one.
            assert!(price > 0.0 && price < 30.0, "{state:#}");
            published.push((tick, price));
        }
        Ok((published.len() >= 3).then_some(()))
    })
    .unwrap();
    published.into_iter().map(|(_, price)| price).collect()
}

/// A replay of what the agent recorded decides what the agent decided.
fn check_replay(recording: &Path, published: &[f64]) {
    let text = fs::read_to_string(recording).unwrap();
    // The agent was killed, perhaps in the middle of a line.
    let whole = &text[..=text.rfind('\n').unwrap()];
    fs::write(recording, whole).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_walras"))
        .args(["replay", "--json"])
        .arg(recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let ticks = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut prices = ticks.filter_map(|tick| tick["shadow_price"].as_f64());
    for price in published {
        assert!(prices.any(|replayed| replayed == *price), "{published:?} in the replay's order");
    }
    assert!(lines.contains("\"limit_milli\""), "nothing was decided");
}

/// What the kernel weighs a group by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KernelWeight {
    /// Of the first version of control groups.
    Shares(u64),
    /// Of the second.
    Weight(u64),
}

fn weight_in(group: &Path) -> Result<KernelWeight> {
    if let Ok(shares) = fs::read_to_string(group.join("cpu.shares")) {
        return Ok(KernelWeight::Shares(shares.trim().parse()?));
    }
    let weight = fs::read_to_string(group.join("cpu.weight"))?;
    Ok(KernelWeight::Weight(weight.trim().parse()?))
}

/// Whether weights follow requests: to the last share, or in their order where how a request
/// becomes a weight depends on the runtime.
fn are_followed(mut each: Vec<(u64, KernelWeight)>) -> bool {
    each.sort_unstable();
    let in_order = each.is_sorted_by_key(|(_, weight)| *weight);
    in_order
        && each.iter().all(|(request, weight)| match weight {
            KernelWeight::Shares(shares) => *shares == (request * 1024 / 1000).max(2),
            KernelWeight::Weight(weight) => *weight > 1,
        })
}

/// CPU time that a container has used, in microseconds, and the weight of its pod.
fn used_us_and_weight(installed: &Installed, place: &Place) -> Result<(u64, u64)> {
    let group = installed.testbed.container_cgroup(&place.uid, &place.container)?;
    let pod = group.parent().context("the group of the pod")?;
    let number = |text: &str| Ok::<u64, anyhow::Error>(text.trim().parse()?);
    if let Ok(shares) = fs::read_to_string(pod.join("cpu.shares")) {
        // Usage may be counted in a hierarchy of its own.
        let folder = group.to_string_lossy();
        let folders = [folder.to_string(), folder.replacen("/cpu/", "/cpuacct/", 1)];
        let files = folders.iter().map(|folder| format!("{folder}/cpuacct.usage"));
        let ns = files.filter_map(|file| fs::read_to_string(file).ok()).next();
        return Ok((number(&ns.context("cpuacct.usage")?)? / 1000, number(&shares)?));
    }
    let stat = fs::read_to_string(group.join("cpu.stat"))?;
    let used = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
    let weight = fs::read_to_string(pod.join("cpu.weight"))?;
    Ok((number(used.context("usage_usec")?)?, number(&weight)?))
}

#[test]
fn on_a_busy_node_the_kernel_gives_more_to_whoever_has_the_larger_request() {
    let mut installed = Installed::start(&[]);
    let heavy = installed.run("default", "heavy", "600m", "2");
    let light = installed.run("default", "light", "50m", "2");
    for pod in [&heavy, &light] {
        pod.burst(600_000, 2);
    }
    wait_for("both to be applied", PATIENCE, || {
        installed.check_alive();
        Ok((installed.is_applied(&heavy) && installed.is_applied(&light)).then_some(()))
    })
    .unwrap();
    // Over seconds of CPU, whatever else the machine does meanwhile, with weights that stay.
    let mut before = None;
    wait_for("more CPU for the larger weight", PATIENCE, || {
        let now =
            (used_us_and_weight(&installed, &heavy)?, used_us_and_weight(&installed, &light)?);
        let (heavy, light) = now;
        let (was_heavy, was_light) = *before.get_or_insert(now);
        if heavy.1 != was_heavy.1 || light.1 != was_light.1 {
            before = None;
            return Ok(None);
        }
        let (by_heavy, by_light) = (heavy.0 - was_heavy.0, light.0 - was_light.0);
        let enough = by_heavy + by_light > 5_000_000;
        Ok((enough && heavy.1 > light.1 && by_heavy > by_light).then_some(()))
    })
    .unwrap();
}

/// What the agent's metrics say of the market.
fn is_in_mode(installed: &Installed, mode: &str) -> bool {
    let metrics = installed.agent_metrics().unwrap_or_default();
    let start = format!("mbcas_nash_mode{{mode=\"{mode}\"}} 1");
    metrics.lines().any(|line| line.starts_with(&start))
}

/// At every moment in the audit log, requests add up to at most what the node has, and no limit is
/// larger than it.
fn check_sums(installed: &Installed, allocatable: u64) {
    let mut now: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for event in installed.testbed.audit().unwrap() {
        let reference = &event["objectRef"];
        if reference["resource"] != "pods" || reference["namespace"] != "default" {
            continue;
        }
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        let is_change = event["verb"] == "create" && reference["subresource"].is_null()
            || reference["subresource"] == "resize";
        if !(200..300).contains(&code) || !is_change {
            continue;
        }
        let name = reference["name"].as_str().unwrap_or_default().to_owned();
        now.insert(name, cpu_of(&event["requestObject"]));
        let request: u64 = now.values().map(|(request, _)| request).sum();
        assert!(request <= allocatable, "requests of {request}m on {allocatable}m: {now:?}");
        let within = now.values().all(|(_, limit)| *limit <= allocatable);
        assert!(within, "a limit above the node's {allocatable}m: {now:?}");
    }
    assert!(!now.is_empty(), "the audit log knows of no pod");
}

/// In how many periods the kernel has throttled a group so far.
fn throttled_periods(group: &Path) -> u64 {
    let stat = fs::read_to_string(group.join("cpu.stat")).unwrap();
    let counted = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    counted.unwrap().trim().parse().unwrap()
}

/// How long the slowest of fifty answers takes, each of which needs 2 ms of CPU.
fn slowest_answer_ms(place: &Place) -> f64 {
    let address = place.address.expect("the pod has an address");
    let answer = || {
        let asked = Instant::now();
        get(address, "/work?ms=2").unwrap();
        1000.0 * asked.elapsed().as_secs_f64()
    };
    (0..50).map(|_| answer()).fold(0.0, f64::max)
}

#[test]
fn a_busy_pod_on_a_node_full_by_requests_keeps_what_it_came_with() {
    // Cleared often, so that many clearings have passed soon.
    let mut installed = Installed::prepare(&[("slowLoopInterval", "1s")]);
    let idle: Vec<Value> =
        (0..14).map(|n| installed.pod("default", &format!("idle-{n}"), "110m", "200m")).collect();
    let idle = json!({ "apiVersion": "v1", "kind": "List", "items": idle });
    installed.testbed.kubectl().unwrap().apply(&idle).unwrap();
    let busy = installed.run("default", "busy", "100m", "1500m");
    let group = installed.testbed.container_cgroup(&busy.uid, &busy.container).unwrap();
    // From then on it answers.
    busy.burst(1, 1);
    let before_ms = slowest_answer_ms(&busy);
    busy.burst(600_000, 1);
    let throttled_before = throttled_periods(&group);
    installed.start_agent();
    installed.start_controller();
    wait_for("sixty clearings and every pod applied", 3 * PATIENCE, || {
        installed.check_alive();
        // At no moment is it held below what it came with.
        let quota = installed.quota(&busy)?;
        ensure!(quota >= 150_000, "its quota is {quota}");
        let metrics = installed.agent_metrics().unwrap_or_default();
        let counted = |line: &str| line.strip_prefix("walras_slow_ticks_total ")?.parse().ok();
        let clearings: f64 = metrics.lines().find_map(counted).unwrap_or_default();
        let all = installed.testbed.kubectl()?.json(&["get", "podallocations"])?;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let applied = items.iter().filter(|one| one["status"]["phase"] == "Applied").count();
        Ok((clearings >= 60.0 && applied == 15).then_some(()))
    })
    .unwrap();
    // Nobody was cut, neither in its limit nor in its request.
    for event in installed.resizes().unwrap() {
        let (request, limit) = cpu_of(&event["requestObject"]);
        let name = event["objectRef"]["name"].as_str().unwrap_or_default();
        let came_with = if name == "busy" { (100, 1500) } else { (110, 200) };
        assert!(request == came_with.0 && limit >= came_with.1, "{name}: {request}m/{limit}m");
    }
    // It wants one core of the one and a half that it may have.
    assert_eq!(throttled_periods(&group), throttled_before, "it was throttled");
    let during_ms = slowest_answer_ms(&busy);
    if let KernelWeight::Shares(shares) = weight_in(&group).unwrap() {
        assert_eq!(shares, 102, "what its request stands for");
    }
    installed.kill_agent();
    installed.kill_controller();
    let after_ms = slowest_answer_ms(&busy);
    println!(
        "the slowest of fifty answers: {before_ms:.0} ms before, {during_ms:.0} ms during, \
         {after_ms:.0} ms after"
    );
    assert!(installed.quota(&busy).unwrap() >= 150_000, "it keeps what it came with");
    assert_eq!(installed.restarts(&busy).unwrap(), 0);
}

#[test]
fn sixty_pods_on_a_node_are_all_applied() {
    let mut installed = Installed::start(&[("baselineCPUPerPod", "10m")]);
    let names: Vec<String> = (0..60).map(|n| format!("web-{n}")).collect();
    let pods = names.iter().map(|name| installed.pod("default", name, "10m", "50m"));
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": pods.collect::<Vec<_>>() });
    installed.testbed.kubectl().unwrap().apply(&pods).unwrap();
    let places: Vec<Place> = names.iter().map(|name| installed.place("default", name)).collect();
    let running = Instant::now();
    wait_for("all sixty to be applied", 5 * PATIENCE, || {
        installed.check_alive();
        let all = installed.testbed.kubectl()?.json(&["get", "podallocations"])?;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let applied = items.iter().filter(|one| one["status"]["phase"] == "Applied").count();
        Ok((applied == places.len()).then_some(()))
    })
    .unwrap();
    println!("sixty pods applied {:.0} s after the last ran", running.elapsed().as_secs_f64());
    for place in &places {
        assert_eq!(installed.restarts(place).unwrap(), 0, "{}", place.name);
    }
}

#[test]
fn mode_restore_gives_every_pod_back_what_it_came_with() {
    let mut installed = Installed::start(&[]);
    let pod = installed.run("default", "web", "100m", "200m");
    pod.burst(600_000, 1);
    wait_for("a larger quota", PATIENCE, || {
        installed.check_alive();
        Ok((installed.quota(&pod)? > 20_000).then_some(()))
    })
    .unwrap();
    installed.configure(&[("mode", "restore")]).unwrap();
    wait_for("the first quota again", PATIENCE, || {
        installed.check_alive();
        Ok((installed.quota(&pod)? == 20_000).then_some(()))
    })
    .unwrap();
    let (request, limit) = cpu_of(&installed.object("pod", "default", "web").unwrap());
    assert_eq!((request, limit), (100, 200));
    assert_eq!(installed.restarts(&pod).unwrap(), 0);
}
