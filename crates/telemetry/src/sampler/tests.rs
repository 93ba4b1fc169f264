//! A sampler on recorded files: what it makes of a whole machine, and of two nodes on one machine.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::metadata::Said;
use crate::reading::Reading;

const NO_PROBES: Seen<Probes> = Err(Unavailable::NotAllowed { what: "eBPF programs" });

/// A machine made of plain files.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        machine.write("sys/block/vda/device/x", "");
        machine.write("sys/class/net/eth0/device/x", "");
        machine.write("sys/devices/system/cpu/online", "0-1\n");
        machine.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n");
        for kind in ["cpu", "memory", "io"] {
            machine.write(&format!("proc/pressure/{kind}"), &pressure(0));
        }
        machine
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(&self, busy: [u64; 2], switches: u64) {
        let cpu = |cpu: usize| format!("cpu{cpu} {} 0 0 {} 0 0 0 0\n", busy[cpu], 1000 - busy[cpu]);
        self.write("proc/stat", &format!("{}{}ctxt {switches}\n", cpu(0), cpu(1)));
    }

    fn devices(&self, operations: u64, received: u64) {
        let disk = format!("254 0 vda {operations} 0 0 {} 0 0 0 0\n", operations * 3);
        self.write("proc/diskstats", &format!("7 0 loop0 99 0 0 99 99 0 0 99\n{disk}"));
        let dev = format!(
            "h\nh\n lo: 9 9 9 9 9 9 9 9 9 9 9 9\n\
                           eth0: 0 {received} 0 0 0 0 0 0 0 {received} 0 0\n"
        );
        self.write("proc/net/dev", &dev);
    }

    fn group(&self, name: &str, used_us: u64, throttled: u64) {
        let folder = format!("sys/fs/cgroup/{name}");
        self.write(&format!("{folder}/cgroup.procs"), "");
        let quota = format!("nr_periods 9\nnr_throttled {throttled}\nthrottled_usec 1\n");
        self.write(&format!("{folder}/cpu.stat"), &format!("usage_usec {used_us}\n{quota}"));
        self.write(&format!("{folder}/memory.current"), "500000\n");
        self.write(&format!("{folder}/memory.stat"), "anon 1\nfile 2\ninactive_file 100000\n");
        self.write(&format!("{folder}/memory.max"), "800000\n");
        self.write(&format!("{folder}/io.stat"), "254:0 rios=5 wios=5\n");
        self.write(&format!("{folder}/cpu.pressure"), &pressure(used_us));
    }

    fn sampler(&self, scope: Scope) -> Sampler {
        let place = |name: &str| self.folder.path().join(name);
        let cgroup = place("sys/fs/cgroup");
        let layout = Some(Layout::at(Version::V2, cgroup.clone(), cgroup));
        Sampler::new(scope, Roots { proc: place("proc"), sys: place("sys"), layout }, NO_PROBES)
    }
}

fn pressure(total: u64) -> String {
    format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n")
}

fn group(name: &str) -> CgroupPath {
    CgroupPath::new(name.as_bytes()).unwrap()
}

fn nothing_said() -> Metadata {
    Metadata::of(&Said::default(), &BTreeMap::new())
}

fn told(sampler: &Sampler, metric: Metric) -> String {
    let figure = sampler.snapshot("a", 0, &nothing_said()).figure(metric);
    match figure.reading {
        Reading::Measured(value) => format!("{value} by {}", figure.source),
        Reading::Unavailable(why) => why.to_string(),
    }
}

#[test]
fn a_whole_machine_is_measured() {
    let machine = Machine::new();
    machine.group("a", 0, 10);
    machine.stat([100, 100], 1000);
    machine.devices(100, 1000);
    let mut sampler = machine.sampler(Scope::default());
    sampler.look(Moment::from_ms(1000));
    assert_eq!(told(&sampler, Metric::CpuUtilization), "a rate needs a second look");
    assert_eq!(told(&sampler, Metric::MemoryUtilization), "0.6 by /proc/meminfo");
    machine.write("proc/stat", "cpu0 150 0 0 1050 0 0 0 0\ncpu1 100 0 0 1100 0 0 0 0\nctxt 1500\n");
    machine.devices(120, 1600);
    machine.group("a", 0, 30);
    machine.write("proc/pressure/io", &pressure(500_000));
    sampler.look(Moment::from_ms(3000));
    for (metric, words) in [
        (Metric::CpuUtilization, "0.125 by /proc/stat"),
        (Metric::CpuThrottleRate, "10 by cgroup"),
        (Metric::DiskOperations, "10 by /proc/diskstats"),
        (Metric::DiskWait, "3 by /proc/diskstats"),
        (Metric::PacketsReceived, "300 by /proc/net/dev"),
        (Metric::PacketDropRate, "0 by /proc/net/dev"),
        (Metric::ContextSwitches, "250 by /proc/stat"),
        (Metric::IoPressure, "0.25 by /proc/pressure"),
        (Metric::RunQueueMean, "this process may not use eBPF programs"),
        (Metric::CacheOccupancy, "this hardware shows no resctrl with monitoring"),
        (Metric::Spot, "spot is not set"),
    ] {
        assert_eq!(told(&sampler, metric), words, "{metric}");
    }
    let snapshot = sampler.snapshot("a", 7, &nothing_said());
    assert_eq!(snapshot.over.unwrap().as_us(), 2_000_000);
    assert_eq!(snapshot.taken_unix_ms, 7);
}

#[test]
fn two_nodes_on_one_machine_do_not_see_each_other() {
    let machine = Machine::new();
    machine.group("one", 0, 0);
    machine.group("two", 0, 0);
    machine.stat([0, 0], 0);
    machine.devices(0, 0);
    let node = |cpu: &str, name: &str| Scope {
        cpus: Some(CpuSet::parse(cpu).unwrap()),
        group: group(name),
        ..Scope::default()
    };
    let mut one = machine.sampler(node("0", "one"));
    let mut two = machine.sampler(node("1", "two"));
    for node in [&mut one, &mut two] {
        node.look(Moment::from_ms(1000));
    }
    // Only the second one does anything.
    machine.write("proc/stat", "cpu0 0 0 0 1100 0 0 0 0\ncpu1 100 0 0 1000 0 0 0 0\nctxt 9\n");
    machine.group("two", 1_000_000, 50);
    machine.group("two/pod", 9, 0);
    machine.write("sys/fs/cgroup/two/io.stat", "254:0 rios=50 wios=60\n");
    for node in [&mut one, &mut two] {
        node.look(Moment::from_ms(2000));
    }
    for (metric, quiet, busy) in [
        (Metric::CpuUtilization, "0 by cgroup", "1 by cgroup"),
        (Metric::CpuThrottleRate, "0 by cgroup", "50 by cgroup"),
        (Metric::DiskOperations, "0 by cgroup", "100 by cgroup"),
        (Metric::CpuPressure, "0 by cgroup", "1 by cgroup"),
        (Metric::MemoryUtilization, "0.5 by cgroup", "0.5 by cgroup"),
    ] {
        assert_eq!(told(&one, metric), quiet, "{metric}");
        assert_eq!(told(&two, metric), busy, "{metric}");
    }
    let words = "/proc/stat's number of switches counts more than this node";
    assert_eq!(told(&one, Metric::ContextSwitches), words);
}

#[test]
fn a_group_on_shared_cpus_is_measured_by_its_own_time() {
    let machine = Machine::new();
    machine.group("node", 0, 0);
    machine.stat([0, 0], 0);
    machine.devices(0, 0);
    let mut sampler = machine.sampler(Scope { group: group("node"), ..Scope::default() });
    sampler.look(Moment::from_ms(1000));
    machine.group("node", 500_000, 0);
    sampler.look(Moment::from_ms(2000));
    assert_eq!(told(&sampler, Metric::CpuUtilization), "0.25 by cgroup");
    let words = "the CPUs' cache counters counts more than this node";
    assert_eq!(told(&sampler, Metric::CacheMissRate), words);
}

#[test]
fn groups_of_the_first_version_have_files_of_their_own() {
    let machine = Machine::new();
    machine.stat([0, 0], 0);
    machine.devices(0, 0);
    for (name, text) in [
        ("cpu/node/cgroup.procs", ""),
        ("cpu/node/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 9\n"),
        ("cpuacct/node/cpuacct.usage", "70999\n"),
        ("memory/node/memory.usage_in_bytes", "300000\n"),
        ("memory/node/memory.stat", "inactive_file 5\ntotal_inactive_file 44000\n"),
        ("memory/node/memory.limit_in_bytes", "9223372036854771712\n"),
        ("blkio/node/blkio.throttle.io_serviced_recursive", "254:0 Read 1\nTotal 1\n"),
    ] {
        machine.write(&format!("sys/fs/cgroup/{name}"), text);
    }
    let place = |name: &str| machine.folder.path().join("sys/fs/cgroup").join(name);
    let layout = Some(Layout::at(Version::V1, place("cpu"), place("cpuacct")));
    let roots = Roots {
        proc: machine.folder.path().join("proc"),
        sys: machine.folder.path().join("sys"),
        layout,
    };
    let mut sampler =
        Sampler::new(Scope { group: group("node"), ..Scope::default() }, roots, NO_PROBES);
    sampler.look(Moment::from_ms(1000));
    machine.write(
        "sys/fs/cgroup/blkio/node/blkio.throttle.io_serviced_recursive",
        "254:0 Read 1\n254:0 Write 20\nTotal 21\n",
    );
    machine.write("sys/fs/cgroup/cpuacct/node/cpuacct.usage", "400070999\n");
    let stat = "nr_periods 19\nnr_throttled 10\nthrottled_time 9\n";
    machine.write("sys/fs/cgroup/cpu/node/cpu.stat", stat);
    sampler.look(Moment::from_ms(2000));
    for (metric, words) in [
        // No limit: a part of the machine's 1000 kB.
        (Metric::MemoryUtilization, "0.25 by cgroup"),
        (Metric::DiskOperations, "20 by cgroup"),
        (Metric::CpuUtilization, "0.2 by cgroup"),
        (Metric::CpuThrottleRate, "7 by cgroup"),
        (Metric::CpuPressure, "/proc/pressure counts more than this node"),
    ] {
        assert_eq!(told(&sampler, metric), words, "{metric}");
    }
}

#[test]
fn without_any_files_everything_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { proc: folder.path().into(), sys: folder.path().into(), layout: None };
    let mut sampler = Sampler::new(Scope::default(), roots, NO_PROBES);
    for ms in [1000, 2000] {
        sampler.look(Moment::from_ms(ms));
        let snapshot = sampler.snapshot("a", 0, &nothing_said());
        assert!(snapshot.figures.iter().all(|figure| figure.reading.value().is_none()));
    }
    assert_eq!(told(&sampler, Metric::CpuUtilization), "this kernel has no /proc/stat");
    let words = "this kernel has no control groups with a cpu controller";
    assert_eq!(told(&sampler, Metric::CpuThrottleRate), words);
}

#[test]
fn a_container_does_not_take_its_own_network_for_the_nodes() {
    let machine = Machine::new();
    machine.stat([0, 0], 0);
    let node = Scope { own_network: true, ..Scope::default() };
    let named = Some(BTreeSet::from(["eth0".to_owned()]));
    let mut samplers =
        [node.clone(), Scope { interfaces: named, ..node }].map(|scope| machine.sampler(scope));
    for (place, ms) in [(0, 1000), (1, 2000)] {
        machine.devices(0, place * 30);
        for sampler in &mut samplers {
            sampler.look(Moment::from_ms(ms));
        }
    }
    let words = samplers.map(|sampler| told(&sampler, Metric::PacketsReceived));
    assert_eq!(words[0], "the network of this container is not the node's");
    assert_eq!(words[1], "30 by /proc/net/dev");
}
