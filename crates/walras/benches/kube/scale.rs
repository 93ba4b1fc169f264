//! The controller in a large cluster: memory, calls and bytes, how long a change takes to become a
//! patch, what a change of leaders costs, and how long a start takes.
//!
//! `-- scale NODES PODS`; 5,000 and 100,000 where nothing is said. Nodes and pods exist in the API
//! alone (KWOK), and the agents' writes are made here; the API server, its store and the
//! controllers are real, and share this machine. One real agent watches the pods of one node.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use walras_testbed::{Spec, wait_for};

use crate::cost::{cpu_ms, figure, memory_mb};
use crate::forward::{Counted, forward};
use crate::installed::{Installed, get};

const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 20;
const NAMESPACES: usize = 50;
/// So many write at once.
const WRITERS: usize = 8;
/// Changes a second, by so many agents, for so long.
const CHANGES_PER_S: usize = 50;
const CHANGERS: usize = 10;
const LOAD: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(3600);
/// A namespace whose quota is used up, and so many pods in it.
const TIGHT: &str = "tight";
const REFUSED: usize = 600;

pub(crate) fn run(asked: &[String]) {
    let numbers: Vec<usize> = asked.iter().filter_map(|one| one.parse().ok()).collect();
    let nodes = numbers.first().copied().unwrap_or(NODES);
    let pods = numbers.get(1).copied().unwrap_or(PODS_PER_NODE * nodes);
    let spec = Spec::new(u32::try_from(nodes).expect("nodes"), true);
    let mut installed = Installed::prepare_on(spec, &[("resizesPerSecond", "100")]);
    let api = Api::start(&installed);
    println!("| {nodes} nodes, {pods} pods and PodAllocations | |");
    println!("|---|---|");
    let counted = forward(installed.testbed.state().address(), installed.testbed.state().ports.api);
    installed.through(counted.address);
    let empty_mb = empty(&mut installed);
    let took = fill(&installed, &api, nodes, pods);
    eprintln!("{pods} pods and allocations made in {:.0} s", took.as_secs_f64());
    settle(&mut installed, pods, empty_mb);
    quiet(&installed, &counted);
    under_load(&installed, &api, &counted, pods);
    refused(&installed, &api, nodes, pods);
    leaders(&mut installed, &api, pods);
    start(&mut installed);
}

fn row(what: &str, value: &str) {
    println!("| {what} | {value} |");
}

/// The memory of its own that a controller has without any object.
fn empty(installed: &mut Installed) -> f64 {
    installed.start_controller();
    let (_, Some(pid)) = installed.pids() else { panic!("it runs") };
    wait_for("an empty controller", PATIENCE, || Ok(is_ready(installed, 0).then_some(())))
        .expect("a controller");
    let own = memory_mb(pid, "RssAnon:");
    installed.kill_controller();
    own
}

fn is_ready(installed: &Installed, place: usize) -> bool {
    let address = installed.addresses()[place];
    get(address, "/readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn namespace(pod: usize) -> String {
    format!("scale-{}", pod % NAMESPACES)
}

/// Makes all pods and their allocations. How long that took.
fn fill(installed: &Installed, api: &Api, nodes: usize, pods: usize) -> Duration {
    let began = Instant::now();
    for number in 0..NAMESPACES.min(pods) {
        installed.namespace(&namespace(number));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let agent = ureq::Agent::new_with_defaults();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= pods {
                        return;
                    }
                    make(installed, api, &agent, &namespace(number), number, nodes);
                    if (number + 1).is_multiple_of(1000) {
                        eprintln!("{} of {pods}", number + 1);
                    }
                }
            });
        }
    });
    began.elapsed()
}

fn make(
    installed: &Installed,
    api: &Api,
    agent: &ureq::Agent,
    namespace: &str,
    number: usize,
    nodes: usize,
) {
    let name = format!("web-{number}");
    let node = format!("kwok-{}", number % nodes + 1);
    let mut pod = installed.pod(namespace, &name, "50m", "100m");
    pod["spec"]["nodeName"] = node.clone().into();
    pod["spec"]["nodeSelector"] = Value::Null;
    let made = api.post(agent, &format!("/api/v1/namespaces/{namespace}/pods"), &pod);
    let allocation = json!({
        "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
        "metadata": { "name": format!("{namespace}-{name}"), "labels": { "walras.dev/node": node },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": name,
                "uid": made["metadata"]["uid"] }] },
        "spec": { "namespace": namespace, "podName": name, "shadowPriceCPU": 0.0,
            "desiredCPURequest": "50m", "desiredCPULimit": "100m",
            "explanation": "it needs 43m, and there is enough for everybody" },
    });
    let path = format!("/apis/allocation.mbcas.io/v1alpha1/namespaces/{namespace}/podallocations");
    api.post(agent, &path, &allocation);
}

/// Starts a controller, lets it look at everything, and says what it takes.
fn settle(installed: &mut Installed, pods: usize, empty_mb: f64) {
    let began = Instant::now();
    installed.start_controller();
    let (_, Some(pid)) = installed.pids() else { panic!("it runs") };
    let count = "mbcas_controller_reconcile_duration_seconds_count";
    let all = f64::from(u32::try_from(pods).expect("pods"));
    wait_for("everything to be looked at", PATIENCE, || {
        let metrics = installed.controller_metrics().unwrap_or_default();
        let idle = figure(&metrics, "walras_controller_queue_depth") <= 0.0;
        Ok((idle && figure(&metrics, count) >= all).then_some(()))
    })
    .expect("everything is looked at");
    row("first start until every status is written, s", &seconds(began.elapsed()));
    // A second one has nothing to write: what it holds is what it keeps.
    installed.kill_controller();
    let began = Instant::now();
    installed.start_controller();
    wait_for("the next controller", PATIENCE, || Ok(is_ready(installed, 0).then_some(())))
        .expect("a controller");
    row("restart until ready, s", &seconds(began.elapsed()));
    let (_, Some(second)) = installed.pids() else { panic!("it runs") };
    assert_ne!(pid, second);
    wait_for("everything to be looked at", PATIENCE, || {
        let metrics = installed.controller_metrics().unwrap_or_default();
        let idle = figure(&metrics, "walras_controller_queue_depth") <= 0.0;
        Ok((idle && figure(&metrics, count) >= all).then_some(()))
    })
    .expect("everything is looked at");
    let own = memory_mb(second, "RssAnon:");
    row("controller resident, MB", &format!("{:.1}", memory_mb(second, "VmRSS:")));
    row("of which its own, MB (without objects)", &format!("{own:.1} ({empty_mb:.1})"));
    row("own memory per pod, KB", &format!("{:.2}", (own - empty_mb) * 1024.0 / all));
    row("CPU from its start until all were looked at, s", &seconds_of_ms(cpu_ms(second)));
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}

fn seconds_of_ms(ms: u64) -> String {
    seconds(Duration::from_millis(ms))
}

/// What the controller and one agent ask for while nothing happens.
fn quiet(installed: &Installed, counted: &Counted) {
    let (mut audit, before) = (Audit::from_now(installed), counted.bytes());
    std::thread::sleep(QUIET);
    let bytes = counted.bytes() - before;
    row("controller, quiet: calls a minute", &audit.calls("walras-controller").to_string());
    row("controller, quiet: KB a minute", &(bytes / 1024).to_string());
}

/// Changes allocations as agents do, and says how long it takes until a pod is asked for it.
fn under_load(installed: &Installed, api: &Api, counted: &Counted, pods: usize) {
    let lease = lease(installed);
    let watch = api.watch_pods("150m");
    let (mut audit, before) = (Audit::from_now(installed), counted.bytes());
    let (_, Some(pid)) = installed.pids() else { panic!("it runs") };
    let cpu_before_ms = cpu_ms(pid);
    let asked = change(api, 0..pods / 2, "150m");
    let took = took(&asked, &watch);
    let minutes = LOAD.as_secs_f64() / 60.0;
    let bytes = counted.bytes() - before;
    let calls = audit.calls("walras-controller");
    let per_minute = |count: f64| format!("{:.0}", count / minutes);
    row("changes made, and seen as patches", &format!("{}, {}", asked.len(), took.len()));
    row("from a change to its patch, ms: median / 99 % / longest", &ranks(took));
    let count = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    row("controller, loaded: calls a minute", &per_minute(count(calls)));
    row("controller, loaded: KB a minute", &per_minute(count(bytes / 1024)));
    let share = count(cpu_ms(pid) - cpu_before_ms) / 10.0 / LOAD.as_secs_f64();
    row("controller, loaded: % of a core", &format!("{share:.1}"));
    assert_eq!(lease, self::lease(installed), "the lease was lost");
    row("leases lost", "0");
}

/// The middle, all but one in a hundred, and the longest, in milliseconds.
fn ranks(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let at = |percent: usize| match took.len() {
        0 => "-".to_owned(),
        many => took[(many * percent).div_ceil(100).max(1) - 1].as_millis().to_string(),
    };
    format!("{} / {} / {}", at(50), at(99), at(100))
}

/// A namespace whose quota is used up wants more for all of its pods, and the others want as much
/// as before.
fn refused(installed: &Installed, api: &Api, nodes: usize, pods: usize) {
    installed.namespace(TIGHT);
    let agent = ureq::Agent::new_with_defaults();
    for number in 0..REFUSED {
        make(installed, api, &agent, TIGHT, pods + number, nodes);
    }
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "tight" },
        "spec": { "hard": { "limits.cpu": format!("{}m", 100 * REFUSED) } },
    });
    api.post(&agent, &format!("/api/v1/namespaces/{TIGHT}/resourcequotas"), &quota);
    wait_for("the quota to be used up", PATIENCE, || {
        let quota = installed.object("resourcequota", TIGHT, "tight")?;
        Ok(quota["status"]["used"]["limits.cpu"].is_string().then_some(()))
    })
    .expect("a quota that counts");
    for number in 0..REFUSED {
        let path = path_of(TIGHT, pods + number);
        api.patch(&agent, &path, &json!({ "spec": { "desiredCPULimit": "150m" } }));
    }
    let (watch, mut audit) = (api.watch_pods("160m"), Audit::from_now(installed));
    let asked = change(api, 0..pods / 2, "160m");
    let took = took(&asked, &watch);
    let attempts = audit.refused(TIGHT);
    let what = format!("{REFUSED} pods under a used-up quota want more: refused in a minute");
    row(&what, &attempts.to_string());
    row(
        "the others meanwhile: changes made, and seen",
        &format!("{}, {}", asked.len(), took.len()),
    );
    row("the others meanwhile, ms: median / 99 % / longest", &ranks(took));
}

/// Who holds the lease, and how often that changed.
fn lease(installed: &Installed) -> (Value, Value) {
    let name = "mbcas-controller-leader-election";
    let lease = installed.object("lease", "mbcas-system", name).expect("a lease");
    (lease["spec"]["holderIdentity"].clone(), lease["spec"]["leaseTransitions"].clone())
}

/// Changes the allocations of some pods, at the pace of many agents: which, and when that was
/// answered.
fn change(api: &Api, pods: std::ops::Range<usize>, limit: &str) -> Vec<(usize, Instant)> {
    let began = Instant::now();
    let total = usize::try_from(LOAD.as_secs()).expect("seconds") * CHANGES_PER_S;
    let step = (pods.len() / total).max(1);
    let chosen: Vec<usize> = pods.step_by(step).take(total).collect();
    let answers = std::thread::scope(|scope| {
        let changers: Vec<_> = (0..CHANGERS)
            .map(|changer| {
                let chosen = &chosen;
                scope.spawn(move || {
                    let agent = ureq::Agent::new_with_defaults();
                    let mine = chosen.iter().enumerate().skip(changer).step_by(CHANGERS);
                    mine.map(|(place, pod)| {
                        let place = u32::try_from(place).expect("a minute of changes");
                        let due = Duration::from_secs(1) * place
                            / u32::try_from(CHANGES_PER_S).expect("50");
                        std::thread::sleep((began + due).saturating_duration_since(Instant::now()));
                        let path = path_of(&namespace(*pod), *pod);
                        let spec = json!({ "spec": { "desiredCPULimit": limit } });
                        api.patch(&agent, &path, &spec);
                        (*pod, Instant::now())
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        changers.into_iter().flat_map(|changer| changer.join().expect("it writes")).collect()
    });
    std::thread::sleep(LOAD.saturating_sub(began.elapsed()));
    answers
}

/// Where the allocation of a pod is.
fn path_of(namespace: &str, pod: usize) -> String {
    format!(
        "/apis/allocation.mbcas.io/v1alpha1/namespaces/{namespace}/podallocations/\
         {namespace}-web-{pod}"
    )
}

/// How long each change took until its pod was seen to be asked for it. Waits for the last ones.
fn took(asked: &[(usize, Instant)], watch: &Receiver<(usize, Instant)>) -> Vec<Duration> {
    let mut left: std::collections::BTreeMap<usize, Instant> = asked.iter().copied().collect();
    let mut took = Vec::new();
    while !left.is_empty() {
        let Ok((pod, seen)) = watch.recv_timeout(Duration::from_secs(30)) else { break };
        if let Some(written) = left.remove(&pod) {
            took.push(seen.saturating_duration_since(written));
        }
    }
    took
}

/// Kills the controller that acts, under load, while another waits.
fn leaders(installed: &mut Installed, api: &Api, pods: usize) {
    installed.start_controller();
    wait_for("the other controller", PATIENCE, || Ok(is_ready(installed, 1).then_some(())))
        .expect("another controller");
    let watch = api.watch_pods("150m");
    let (killed, asked) = std::thread::scope(|scope| {
        let changing = scope.spawn(|| change(api, pods / 2..pods, "150m"));
        std::thread::sleep(LOAD / 2);
        installed.kill_controller();
        (Instant::now(), changing.join().expect("it changes"))
    });
    let seen: Vec<(usize, Instant)> =
        std::iter::from_fn(|| watch.recv_timeout(Duration::from_secs(30)).ok()).collect();
    let first =
        seen.iter().map(|(_, at)| *at).filter(|at| *at > killed + Duration::from_millis(200));
    let gap = first.min().map_or_else(|| "never".to_owned(), |at| seconds(at - killed));
    row("the leader is killed: first patch of the next after, s", &gap);
    let done: std::collections::BTreeSet<usize> = seen.iter().map(|(pod, _)| *pod).collect();
    let lost = asked.iter().filter(|(pod, _)| !done.contains(pod)).count();
    row("changes that were never asked for", &lost.to_string());
}

/// One agent among all these: what it asks for.
fn start(installed: &mut Installed) {
    installed.kill_controller();
    let counted = forward(installed.testbed.state().address(), installed.testbed.state().ports.api);
    installed.through(counted.address);
    let began = Instant::now();
    installed.start_agent_of("kwok-1");
    wait_for("an agent", PATIENCE, || Ok(is_ready(installed, 0).then_some(()))).expect("an agent");
    row("an agent's start until ready, s", &seconds(began.elapsed()));
    row("an agent's start, KB", &(counted.bytes() / 1024).to_string());
    let (mut audit, before) = (Audit::from_now(installed), counted.bytes());
    std::thread::sleep(QUIET);
    row("an agent, quiet: calls a minute", &audit.calls("walras-agent").to_string());
    row("an agent, quiet: KB a minute", &((counted.bytes() - before) / 1024).to_string());
}

/// The API server, by way of `kubectl proxy`.
struct Api {
    proxy: Child,
    address: SocketAddr,
}

impl Api {
    fn start(installed: &Installed) -> Self {
        let kubectl = installed.testbed.kubectl().expect("kubectl");
        let mut proxy = kubectl.command(&["proxy", "--port=0"]);
        let mut proxy = proxy.stdout(Stdio::piped()).spawn().expect("kubectl proxy");
        let mut line = String::new();
        let said = proxy.stdout.take().expect("its output");
        BufReader::new(said).read_line(&mut line).expect("an address");
        let address = line.trim().rsplit(' ').next().and_then(|text| text.parse().ok());
        Self { proxy, address: address.unwrap_or_else(|| panic!("no address in {line}")) }
    }

    fn post(&self, agent: &ureq::Agent, path: &str, body: &Value) -> Value {
        let url = format!("http://{}{path}", self.address);
        let call = agent.post(&url).header("Content-Type", "application/json");
        let mut answer =
            call.send(body.to_string()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let text = answer.body_mut().read_to_string().expect("an answer");
        serde_json::from_str(&text).expect("JSON")
    }

    fn patch(&self, agent: &ureq::Agent, path: &str, body: &Value) {
        let url = format!("http://{}{path}", self.address);
        let call = agent.patch(&url).header("Content-Type", "application/merge-patch+json");
        let mut answer =
            call.send(body.to_string()).unwrap_or_else(|error| panic!("{path}: {error}"));
        answer.body_mut().read_to_vec().expect("an answer");
    }

    /// The pods whose limit is `wanted` from now on, each as it is seen.
    fn watch_pods(&self, wanted: &'static str) -> Receiver<(usize, Instant)> {
        let agent = ureq::Agent::new_with_defaults();
        let url = format!("http://{}/api/v1/pods", self.address);
        let mut first = agent.get(format!("{url}?limit=1")).call().expect("pods");
        let text = first.body_mut().read_to_string().expect("a list");
        let list: Value = serde_json::from_str(&text).expect("JSON");
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
        let url = format!("{url}?watch=1&resourceVersion={version}&timeoutSeconds=600");
        let stream = agent.get(url).call().expect("a watch").into_body().into_reader();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let seen = Instant::now();
                let Ok(event) = serde_json::from_str::<Value>(&line) else { return };
                let object = &event["object"];
                let limit = &object["spec"]["containers"][0]["resources"]["limits"]["cpu"];
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let number = name.strip_prefix("web-").and_then(|number| number.parse().ok());
                if let Some(number) = number.filter(|_| limit == wanted)
                    && tell.send((number, seen)).is_err()
                {
                    return;
                }
            }
        });
        told
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.proxy.kill().ok();
        self.proxy.wait().ok();
    }
}

/// The audit log from some moment on, which is too large to be read from its beginning.
struct Audit(fs::File);

impl Audit {
    fn from_now(installed: &Installed) -> Self {
        let mut file = fs::File::open(installed.testbed.dir().join("audit.log")).expect("a log");
        file.seek(SeekFrom::End(0)).expect("its end");
        Self(file)
    }

    /// How many calls an account has made since, but for the lease.
    fn calls(&mut self, account: &str) -> u64 {
        self.count(|event| {
            event["user"]["username"].as_str().is_some_and(|user| user.ends_with(account))
                && event["objectRef"]["resource"] != "leases"
                && event["stage"] == "ResponseComplete"
        })
    }

    /// How many resizes in a namespace were refused since.
    fn refused(&mut self, namespace: &str) -> u64 {
        self.count(|event| {
            let object = &event["objectRef"];
            object["namespace"] == namespace
                && object["subresource"] == "resize"
                && event["responseStatus"]["code"] == 403
        })
    }

    fn count(&mut self, which: impl Fn(&Value) -> bool) -> u64 {
        let mut text = String::new();
        self.0.read_to_string(&mut text).expect("the log");
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        u64::try_from(events.filter(which).count()).unwrap_or(u64::MAX)
    }
}
