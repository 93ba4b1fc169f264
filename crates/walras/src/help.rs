//! The help below the options of each command: examples, what goes in, and the exit codes.
//!
//! The help of options stands with them, in `cli`.

/// The exit codes, with what 2 means for a command.
macro_rules! exit_codes {
    ($bad_input:literal) => {
        concat!(
            "\nExit codes:\n  0  fine\n",
            "  1  something else went wrong, such as output that cannot be written\n",
            "  2  bad input or usage; ",
            $bad_input
        )
    };
}
#[cfg(feature = "kubernetes")]
pub(crate) use exit_codes;

pub(crate) const TOP_HELP: &str = concat!(
    "\
Examples:
  walras demo                             what the market does, on this machine, in a minute
  walras clear examples/market.json       who gets what, and why
  walras replay examples/incident.jsonl   what would have been decided, tick by tick
  walras sim run storms                   how the market does beside what people use instead
  walras brain train events.jsonl --out brain.safetensors
                                          learn which nodes were good for pods
  walras vm goal examples/vm.json         how large a virtual machine should be, and why
  walras host                             watch this machine: what would be changed, and why
  walras host --act                       size its workloads for real
  walras apply -f web.yaml                run a container on a host that runs workloads
  walras agent --dry-run --node-name NODE watch a Kubernetes node: what would be changed, and why
  walras top                              watch what the daemon on this machine does
  walras explain web                      why a pod has the CPU it has
  walras help clear                       more about a command, with the format of its input
",
    exit_codes!("standard error says what and where")
);

pub(crate) const DEMO_HELP: &str = concat!(
    "\
Examples:
  walras demo
  walras demo --seconds 60 --report before-after.html
  walras demo --simulate
  walras demo --json | jq '.phases[] | {policy, web_throttled_period_ratio}'

Starts five workloads as processes in cgroups of their own: steady, web (a service with bursts),
batch, sleeper (idle, until it wants what it has a right to), and greedy, which takes all it can
get. First under static limits of the kind people set (40, 25, 25, 30 and 20 % of the machine), then
with the same load under the market, which is the loop of `walras host --act`. It uses at most 8
cores, ends with a table and writes a page with pictures. Everything is removed at the end, also
after Ctrl-C; what is left after a kill -9 is removed by the next run.

Cgroups take root. Without, or where none can be written, the same workloads run in the simulator,
and the output says so.

The JSON is {\"simulated\", \"because\", \"cores\", \"seconds_per_phase\", \"summary\",
\"report\", \"phases\": [{\"policy\", \"web_throttled_period_ratio\",
\"web_latency_p50_ms\", \"web_latency_p95_ms\", \"web_latency_p99_ms\",
\"web_requests\", \"web_unanswered\", \"batch_core_s\",
\"greedy_share_ratio\", \"sleeper_first_second_ratio\", \"allocated_core_s\",
\"used_core_s\", \"changes\",
\"workloads\": [{\"name\", \"allocated_core_s\", \"used_core_s\", \"periods\",
\"throttled_periods\"}]}]}.
",
    exit_codes!("nothing was started"),
    "\n  130  it was interrupted"
);

pub(crate) const CLEAR_HELP: &str = concat!(
    "\
Examples:
  walras clear examples/market.json
  walras clear examples/market.json --profile seed
  walras clear --json < examples/market.json | jq '.pods[] | {uid, allocation_milli}'
  walras clear --schema

A market is one JSON object:
  {\"capacity_milli\": 4000,
   \"pods\": [{\"uid\": \"web\", \"demand\": 0.5, \"min_milli\": 500, \"max_milli\": 2000}]}

CPU is counted in thousandths of a core: 1500 is one and a half cores. A pod's need is what it uses
plus headroom, where usage_milli is given; otherwise a point between its min and max, picked by its
demand, plus headroom; or need_milli, where that is given. min_milli is what it has a right to.
Optional for the market: fairness, demand_capped, previous_mode. Optional for a pod: weight,
usage_milli, need_milli, headroom_misses. --schema says what each of them means.

The market is divided as a daemon would after its first second. By default (and with --profile api)
a right that is not needed is lent to others, and what is scarce is shared by weight (nash). With
--profile seed the market is that of the predecessor's documents: every pod keeps its min, needed or
not, and the rest is shared in proportion to what pods want. `made of` is how a need came about,
`cut` is the share of the need that is not granted.

A document may have 512 MiB and 10 million pods, and a name 512 characters, all of them visible.
",
    exit_codes!("nothing is printed, and standard error names every bad field")
);

pub(crate) const REPLAY_USAGE: &str =
    "walras replay [OPTIONS] <FILE|->\n       walras replay --schema";

pub(crate) const REPLAY_HELP: &str = concat!(
    "\
Examples:
  walras replay examples/incident.jsonl
  walras replay examples/incident.jsonl --changes --pod checkout --from 10 --to 40
  walras replay --json examples/incident.jsonl | jq 'select(.actions != [])'
  walras replay --schema

Each line is one fact, in the order in which things happened (the longer ones are broken here):
  {\"type\":\"config\",\"capacity_milli\":4000,\"profile\":\"direct\"}
  {\"type\":\"pod_added\",\"at_ms\":0,\"uid\":\"web\",\"min_milli\":100,\"max_milli\":2000,
   \"limit_milli\":500}
  {\"type\":\"sample\",\"at_ms\":0,\"uid\":\"web\",\"usage_usec\":0,\"throttled_usec\":0,
   \"nr_periods\":0,\"nr_throttled\":0}
  {\"type\":\"tick\",\"at_ms\":200,\"loop\":\"fast\"}
  {\"type\":\"pod_removed\",\"at_ms\":900,\"uid\":\"web\"}

There are also capacity (the node changed), applied (a limit was seen in force), found (a pod has
another limit than was decided), latency (a pod misses its target, or no longer does),
table_restored (what was learned of a workload was brought back), use_restored (the same for what it
used) and allocatable (what requests may add up to). A pod_added for a pod that is here
says that it has other facts now, and it starts afresh. The config may set any constant that
`walras profiles` lists. Optional for pod_added: weight, workload, request_milli, request_rule.
Optional for sample: stalled_usec.
--schema says what each of them means. The same file always gives the same output, byte for byte.

A line may have 1 MiB, and a name 512 characters, all of them visible. There is no limit to the
number of lines.
",
    exit_codes!("what was decided before is printed, and standard error names the line")
);

pub(crate) const VM_HELP: &str = concat!(
    "\
Examples:
  walras vm goal examples/vm.json
",
    exit_codes!("standard error says what and where")
);

pub(crate) const VM_GOAL_HELP: &str = concat!(
    "\
Examples:
  walras vm goal examples/vm.json
  walras vm goal --json < examples/vm.json | jq .goal

A machine is one JSON object:
  {\"unit\": {\"cpu\": \"250m\", \"memory\": \"1Gi\"},
   \"min\": {\"cpu\": \"250m\", \"memory\": \"1Gi\"},
   \"max\": {\"cpu\": 2, \"memory\": \"8Gi\"},
   \"using\": {\"cpu\": 1, \"memory\": \"4Gi\"},
   \"metrics\": {\"load1\": 1.7, \"load5\": 1.2,
     \"memory\": {\"total\": \"4Gi\", \"available\": \"1Gi\", \"cached\": \"512Mi\"}}}

The goal is the most demanding of: the load average of one minute, over 0.9, over the CPUs of a
unit; memory in use and 100 MiB of the kernel's, over 0.75; and, where metrics.touched says how much
of a cache was touched within the last minute, the last two and so on, the working set over 0.75,
and memory in use with the cached part of it over 0.9. Optional: metrics, and in it load5, memory
and touched; requested ({\"cpu\": true, \"memory\": true}), what the guest asked for; denied, an
amount that the guest refused to make do with. Without metrics a machine is not shrunk.

The JSON is {\"goal\": {\"cpu\", \"memory\"}, \"units\", \"decided_by\", \"bounded\",
\"refused\", \"load\", \"parts\": {\"cpu\", \"memory\", \"memory_total\",
\"working_set\", \"requested\"}}; parts are in units, and null where nothing is known.
",
    exit_codes!("nothing is printed, and standard error names the field")
);

pub(crate) const HOST_HELP: &str = concat!(
    "\
Examples:
  walras host                              watch, and show what would be done; changes nothing
  walras host --act                        size workloads by writing to their cgroups
  walras host --act --restore=false        the same, and leave it so at the end
  walras host --restore-only               give back what an earlier run changed, and end
  walras host --record node.jsonl          keep what was seen, for `walras replay`

Workloads are the containers of Docker and Podman, cgroups in a group called walras, services and
scopes of systemd that ask for it, and whatever the configuration names. All of this is in one file:
  act = false
  listen = \"127.0.0.1:8082\"                 # dashboard, metrics, JSON
  state_dir = \"/var/lib/walras\"
  profile = \"direct\"

  [adopt]
  docker = \"all\"                            # all, marked or none; also podman, systemd, walras
  paths = [\"batch.slice/*\"]                 # * within a name, ** across names
  min = \"100m\"                              # what a workload has a right to; also max, weight

  [[rule]]                                   # single workloads, by name or path
  match = \"web\"
  min = 1.5
  weight = 2
  target_latency_ms = 50                     # judged by Prometheus, if prometheus_url is set

  [market]                                   # any constant that `walras profiles` lists
  slow_loop_interval_ms = 10000

Also at the top: restore, names, run_dir, capacity, look_interval_ms, log_level, log_format, record,
record_max_mib, and probe_listen, an address that answers /healthz and /readyz alone. In a rule:
managed, max, nature (batch or service). In [adopt]: docker_socket, docker_root, podman_socket,
podman_root. Containers say the same by labels (walras.dev/managed, min-cpu, max-cpu, weight,
nature, target-latency-ms), units by a section [X-Walras] with Managed, MinCPU, MaxCPU, Weight,
Nature, TargetLatencyMs. The file goes before those.

Labels are asked of the engine, over its socket, or read from Docker's files where that does not
answer. A container of which neither tells is left alone, and so is whatever others than root make.

Latency is not measured here. With prometheus_url = \"http://127.0.0.1:9090\", Prometheus is asked
every 15 seconds about each workload that has a target: for the 99th percentile of
http_request_duration_seconds_bucket with the workload's name as its job, or for prometheus_query,
which gives seconds and in which $name, $uid and $kind stand for the workload. A target counts as
missed above latency_factor (1.2) times itself. What is wrong with the answers is a problem on the
dashboard, and no verdict.

A flag goes before the environment, that before the file. The file is read again when it changes
and on SIGHUP; a bad one is refused and the old one goes on. Acting takes root.

When it stops, every workload gets back what it came with, except with restore = false: for a new
version of the program that goes on where the old one stopped. After a crash, the next start gives
back, whatever it is told.
",
    exit_codes!("nothing was changed, and standard error names every bad key")
);

pub(crate) const SIM_HELP: &str = concat!(
    "\
Examples:
  walras sim list
  walras sim run storms --policy static,vpa,walras,oracle
  walras sim place shop --report placement.html
  walras sim tune --evaluations 100
",
    exit_codes!("standard error says what and where")
);

pub(crate) const SIM_RUN_HELP: &str = concat!(
    "\
Examples:
  walras sim run                                      the scenarios that policies are judged by
  walras sim run tenants --report tenants.html        with pictures
  walras sim run mine.toml --policy all --nodes 20    your own scenario, everybody, many nodes
  walras sim run --trace requests.csv --hours 2       your own recording
  walras sim run bursty --json | jq '.scenarios[].policies[] | {policy, core_hours}'
  walras sim run --pack --report nodes.html           how many nodes are needed, by requests
  walras sim run --pack --nodes 200 --policy vpa,walras-shared --json | jq .comparisons

A scenario is the name of a built-in one, or a file; what has a / in it or ends in .toml is a
file. One that has all it needs:
  name = \"mine\"
  about = \"A service beside a job that takes all it can get.\"
  cores = 4

  [[pod]]
  name = \"web\"
  request = \"500m\"
  limit = \"2\"
  service = { cost_ms = 10, rate = { steps = { low = 50, high = 150, every_s = 30 } } }

  [[pod]]
  name = \"job\"
  request = \"500m\"
  batch = { threads = 4 }

A trace becomes a pod: a service whose requests take 10 ms of CPU, or recorded usage. Its request is
its mean and its limit twice that; the node has twice the peaks of all, in whole cores. Formats:
  requests   a number of requests a line, a line a second
  percent    a number a line, a line every 300 s, 100 is one core (has to be said: --trace-format)
  bitbrains  a heading with Timestamp [ms];CPU cores;CPU usage [%]
  alibaba    machine_id,time_stamp,cpu_util_percent, with a heading or without
  google     a heading with start_time,end_time,machine_id,average_usage_cpus
A path may end in # and the name of a machine, where a file has several.

The same scenario, seed and policies always give the same figures, on any machine and with any
number of threads.

The JSON is {\"scenarios\": [{\"name\", \"seed\", \"policies\": [{\"policy\", \"core_hours\",
\"request_core_hours\", \"used_core_hours\", \"slack_ratio\", \"throttled_period_ratio\",
\"latency_p50_ms\", \"latency_p95_ms\", \"latency_p99_ms\", \"slo_violation_minutes\",
\"batch_completion_s\", \"resizes_per_pod_hour\", \"reaction_s\", \"jain_index\",
\"vs_oracle\"}]}]}.
What there is none of is null. Where pods say what memory they take, there are memory_peak_mib and
memory_mean_mib as well.

With --pack a scenario is a town: town, or town-train for choosing constants; --nodes is how many
nodes its declared requests need, about. With --trace its services follow recordings. Policies are
declared, vpa, percentile, cruisekube, walras, walras-shared and oracle, and each is tried with
several settings. The JSON is {\"town\", \"seed\", \"days\", \"node_cores\", \"workloads\",
\"pods\", \"policies\": [{\"policy\",
\"default_percent\", \"settings\": [{\"percent\", \"nodes\", \"nodes_most\", \"broken_ratio\",
\"broken_worst_ratio\", \"missed_ratio\", \"missed_worst_ratio\", \"risers_broken_ratio\",
\"slack_ratio\", \"changes_per_pod_hour\", \"moves_per_pod_hour\", \"batch_core_hours\",
\"bound_nodes\"}]}], \"comparisons\": [{\"policy\", \"rival\", \"fewer_than_default_ratio\",
\"fewer_than_best_ratio\", \"at_broken_ratio\"}]}.
",
    exit_codes!("nothing is run, and standard error names everything that is wrong")
);

pub(crate) const SIM_TUNE_HELP: &str = concat!(
    "\
Examples:
  walras sim tune                                     the constants of the profile direct
  walras sim tune --profile api --evaluations 100
  walras sim tune --train mine.toml --test others.toml --json | jq .config

Values are tried one constant at a time, in a random order, until nothing is better any more or
the evaluations are used up; what costs less is kept. A cost is in core-hours: those of the limits,
less 2 for each core-hour of work done, 0.2 for each minute in which a service missed its target,
and 0.02 for each change per pod-hour above 10 (api) or 1500 (direct). Scenarios for judging are
never searched on: one of the suite test is refused as --train, and so is one given for both.

The JSON is {\"profile\", \"seed\", \"evaluations\", \"constants\": [{\"key\", \"unit\", \"from\",
\"to\", \"saved_core_hours\"}], \"train\", \"test\", \"config\"}. Train and test are
{\"cost_before\", \"cost_after\", \"scenarios\": [{\"name\", \"seed\", \"policies\": [{\"policy\",
\"setting\", \"core_hours\", \"slo_violation_minutes\", \"resizes_per_pod_hour\"}]}]}, with the
policies before and after, and for test those of rivals. The config has the keys to use the result
by, as a config line of `walras replay` takes them.
",
    exit_codes!("nothing is searched, and standard error names everything that is wrong")
);

pub(crate) const SIM_LIST_HELP: &str = "\
Examples:
  walras sim list
  walras sim list --json | jq -r '.scenarios[] | select(.suite == \"test\") | .name'";

pub(crate) const TOP_COMMAND_HELP: &str = concat!(
    "\
Examples:
  walras top
  walras top --address node-7:8082
  walras top --node
  walras top --once | head
  walras top --json | jq '.pods[] | select(.throttled_period_ratio > 0.1) | .name'

The keys are told by ?. Asks a daemon that `walras host` started; its dashboard at the same address
shows the same with plots of the last hour.
",
    exit_codes!("the address makes no sense")
);

pub(crate) const EXPLAIN_HELP: &str = concat!(
    "\
Examples:
  walras explain web
  walras explain web --address node-7:8082
  walras explain web --json | jq -r '.sentences[]'

A pod goes by its name, or by its uid where several have one name. Asks a daemon that `walras host`
started.
",
    exit_codes!("there is no such pod, or the address makes no sense")
);

pub(crate) const PROFILES_HELP: &str = "\
Examples:
  walras profiles
  walras profiles direct
  walras profiles --json | jq '.[] | select(.unit == \"ms\") | .key'";

pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  walras completions bash > ~/.local/share/bash-completion/completions/walras
  walras completions zsh > ~/.zfunc/_walras
  walras completions fish > ~/.config/fish/completions/walras.fish";
