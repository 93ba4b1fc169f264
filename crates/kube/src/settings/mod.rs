//! What a cluster's agents and controller are told to do: the keys of one ConfigMap, with the
//! environment above them.
//!
//! Both read all of it alike, at the start and whenever the ConfigMap changed. Every key of the
//! predecessor is known; the ones that have no effect, at all or under the profile in force, are
//! accepted with a note. Everything that is wrong is told at once, with its key, its value and what
//! is allowed; then nothing of it is in force but a mode that stops everything or gives everything
//! back. The key `samplingInterval` is `MBCAS_SAMPLING_INTERVAL` in the environment, and so on.

mod idle;
mod key;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use walras_core::market::Fairness;
use walras_core::profile::{Profile, ProfileName, Value, WeightSource};
use walras_core::resize::Rules;
use walras_core::tenant::Leave;
use walras_core::units::{Millicores, Ratio, Span};
use walras_wire::settings::Problems;

use self::key::Keys;
pub use self::key::variable;
use crate::agent::Pace;
use crate::names;
use crate::pod::Mode;

/// What agents and the controller are told to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSettings {
    /// What agents are told, and the controller keeps to as well.
    pub agent: AgentConfig,
    /// How many resizes a second the whole cluster may see.
    pub resizes_per_second: NonZeroU32,
    /// The least time between two resizes of one pod.
    pub cooldown: Span,
}

/// What an agent is told to do.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The constants of the market.
    pub profile: Profile,
    /// How changes are made.
    pub actuation: Actuation,
    /// What may be changed where a pod and its namespace say nothing.
    pub mode: Mode,
    /// How much of the node is set aside.
    pub reserve: Ratio,
    /// What every pod may have at least.
    pub baseline: Millicores,
    /// Whether Guaranteed pods are sized, too.
    pub guaranteed: bool,
    /// Whether no pod gets more than the limit it came with.
    pub respect_limits: bool,
    /// Namespaces whose pods are left alone, beside the agent's own.
    pub excluded: BTreeSet<String>,
    /// The least time between two writes of one PodAllocation, except for raises of who is held
    /// back.
    pub write_interval: Span,
    /// What changes less than this is not written.
    pub min_change: Ratio,
    /// What owners of namespaces may get by annotations, where their namespace says nothing.
    pub leave: Leave,
    /// The latency target of pods that name none.
    pub target_latency_ms: Option<f64>,
    /// Where Prometheus answers.
    pub prometheus_url: Option<String>,
    /// What it is asked; `$pod` and `$namespace` are replaced.
    pub prometheus_query: String,
    /// A target counts as missed when latency is above it times this.
    pub latency_factor: f64,
    /// The kubelet's root in the tree of control groups, where it has one.
    pub kubelet_root: String,
    /// What was said without effect, in sentences.
    pub notes: Vec<String>,
}

/// How changes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actuation {
    /// By the API server; control groups are only read.
    Api,
    /// What is urgent is written to the pod's control groups; what lasts goes to the API server.
    Direct,
}

/// What Prometheus is asked where nothing is said: the latency that 99 of 100 requests stay below.
/// A rate takes two samples, and Prometheus takes one a minute unless told otherwise.
pub const DEFAULT_QUERY: &str = "histogram_quantile(0.99, sum by (le) (rate(\
    http_request_duration_seconds_bucket{namespace=\"$namespace\",pod=\"$pod\"}[2m])))";

/// The profile that gives pods the least that will do, which the predecessor calls cost efficiency.
const THRIFTY: &str = "tight";
const ACTUATIONS: [(&str, Actuation); 2] = [("api", Actuation::Api), ("direct", Actuation::Direct)];
const MODES: [(&str, Mode); 4] = [
    ("off", Mode::Off),
    ("limits-only", Mode::LimitsOnly),
    ("requests-and-limits", Mode::RequestsAndLimits),
    ("restore", Mode::Restore),
];
/// Both solvers of the predecessor look for the same division, which the market computes.
const MECHANISMS: [(&str, Fairness); 3] = [
    ("nash", Fairness::Nash),
    ("primal-dual", Fairness::Nash),
    ("proportional", Fairness::Proportional),
];
const RESIZES_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");
const RESIZES_PER_SECOND_MAX: u32 = 1000;
const COOLDOWN_MAX: Span = Span::from_s(3600);
/// Keys of the predecessor without a meaning, and why.
const FORGOTTEN: [(&str, &str); 12] = [
    ("agentMemorySize", "what is remembered is set by the profile"),
    ("maxHistorySize", "what is remembered is bounded anyway"),
    ("maxCoalitionSize", "there are no coalitions"),
    ("minUsageMicroseconds", "less than 1 ms of usage is never demand"),
    ("needHeadroomFactor", "headroom follows throttling; see market.headroom_gain"),
    ("wantHeadroomFactor", "headroom follows throttling; see market.headroom_gain"),
    ("maxDemandMultiplier", "need follows usage; see market.estimator"),
    ("idleDecayRate", "what is not needed is given back after market.shrink_hold_ms"),
    ("enableKalmanPrediction", "need follows a window of usage; see market.window_s"),
    ("enableBatchReconciliation", "writes are always paced"),
    ("enablePriceResponse", "bidders always respond to the price"),
    ("totalClusterCPUCapacityMilli", "the node says what it has"),
];

/// How often a quiet pod is looked at where acting takes no time: a raise is to be there half a
/// second after a pod was held back, and looking is nearly all of that.
const DIRECT_SAMPLING: Span = Span::from_ms(300);

impl ClusterSettings {
    /// Reads the keys of a ConfigMap; `environment` goes before them.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn read(
        data: &BTreeMap<String, String>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Problems> {
        let mut keys = Keys::new(data, &environment);
        let settings = Self::take(&mut keys);
        let problems = keys.problems();
        if problems.is_empty() { Ok(settings) } else { Err(Problems::new(problems)) }
    }

    /// The mode alone, where it stops everything or gives everything back. Who is in a hurry to say
    /// that is heard, whatever is wrong with the other keys.
    pub fn emergency(
        data: &BTreeMap<String, String>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Option<Mode> {
        let mode = Keys::new(data, &environment).word("mode", &MODES)?;
        matches!(mode, Mode::Off | Mode::Restore).then_some(mode)
    }

    fn take(keys: &mut Keys<'_>) -> Self {
        let rate = keys.count("resizesPerSecond", RESIZES_PER_SECOND_MAX);
        let cooldown = keys.span_to("cooldown", COOLDOWN_MAX);
        Self {
            agent: AgentConfig::take(keys),
            resizes_per_second: rate.unwrap_or(RESIZES_PER_SECOND),
            cooldown: cooldown.unwrap_or(Rules::DEFAULT.cooldown),
        }
    }
}

impl Default for ClusterSettings {
    fn default() -> Self {
        let (data, nothing) = (BTreeMap::new(), |_: &str| None);
        let mut keys = Keys::new(&data, &nothing);
        Self::take(&mut keys)
    }
}

impl AgentConfig {
    fn take(keys: &mut Keys<'_>) -> Self {
        let actuation = keys.word("actuation", &ACTUATIONS).unwrap_or(Actuation::Api);
        let usual = match actuation {
            Actuation::Api => ProfileName::Api,
            Actuation::Direct => ProfileName::Direct,
        };
        let name = take_name(keys).unwrap_or(usual);
        let mut usual = Profile::named(name);
        // Weights are the kubelet's, which makes them from requests.
        usual.weight_source = WeightSource::Request;
        if actuation == Actuation::Direct {
            usual.sampling_interval_ms = usual.sampling_interval_ms.min(DIRECT_SAMPLING);
        }
        let profile = take_profile(keys, usual);
        let pace = usual_pace(name);
        let write_interval = keys.span("writeInterval").unwrap_or(pace.interval);
        if keys.has("writeInterval") && write_interval < profile.sampling_interval_ms {
            let sampling = profile.sampling_interval_ms.as_ms_floor();
            keys.problem("writeInterval", format!("is less than samplingInterval, {sampling}ms"));
        }
        let min_change = keys.percent("minChangePercent").unwrap_or(pace.band);
        let latency = keys.number("sloTargetLatencyMs", 0.0, 3_600_000.0);
        let url = keys.text("prometheusURL").filter(|url| !url.is_empty());
        if url.as_ref().is_some_and(|url| !url.starts_with("http://")) {
            keys.problem("prometheusURL", "is not an address that starts with http://".to_owned());
        }
        let query = keys.text("prometheusQuery").filter(|query| !query.trim().is_empty());
        let excluded = keys.text("excludedNamespaces").unwrap_or_default();
        let mode = keys.word("mode", &MODES).unwrap_or_default();
        let reserve = keys.percent("systemReservePercent").unwrap_or(Ratio::from_percent(10));
        let baseline = keys.cpu("baselineCPUPerPod").unwrap_or(Millicores::new(100));
        for (key, why) in FORGOTTEN {
            keys.forgotten(key, why);
        }
        Self {
            profile,
            actuation,
            mode,
            reserve,
            baseline,
            guaranteed: keys.flag("manageGuaranteed").unwrap_or(false),
            respect_limits: keys.flag("respectLimits").unwrap_or(false),
            excluded: names::excluded_namespaces(&excluded),
            write_interval,
            min_change,
            leave: take_leave(keys),
            target_latency_ms: latency.filter(|latency| *latency > 0.0),
            prometheus_url: url,
            prometheus_query: query.unwrap_or_else(|| DEFAULT_QUERY.into()),
            latency_factor: keys.number("p99ThresholdMultiplier", 1.0, 100.0).unwrap_or(1.2),
            kubelet_root: keys.text("kubeletCgroupRoot").unwrap_or_default(),
            notes: keys.notes(),
        }
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        ClusterSettings::default().agent
    }
}

/// What owners of namespaces may get by what they write.
fn take_leave(keys: &mut Keys<'_>) -> Leave {
    let usual = Leave::default();
    Leave {
        rights: keys.cpu_or_none("tenantMaxRights").unwrap_or(usual.rights),
        max: keys.cpu("tenantMaxCPU").unwrap_or(usual.max),
        priority: keys.weight("tenantMaxPriority").unwrap_or(usual.priority),
    }
}

/// The profile that is named, or that `costEfficiencyMode` stands for.
fn take_name(keys: &mut Keys<'_>) -> Option<ProfileName> {
    let all = ProfileName::ALL.map(|name| (name.name(), name));
    let named = keys.word("profile", &all);
    let key = "costEfficiencyMode";
    if keys.flag(key) != Some(true) {
        return named;
    }
    let thrifty = ProfileName::ALL.into_iter().find(|name| name.name() == THRIFTY);
    match (named, thrifty) {
        (None, None) => keys.in_vain(key, &format!("there is no profile {THRIFTY}")),
        (Some(named), thrifty) if Some(named) != thrifty => {
            keys.in_vain(key, &format!("profile says {}", named.name()));
        }
        (Some(_), _) | (None, Some(_)) => {}
    }
    named.or(thrifty)
}

/// How often PodAllocations are written where nothing is said, and for what: as the predecessor
/// documents it with its profile.
fn usual_pace(profile: ProfileName) -> Pace {
    if profile == ProfileName::Seed {
        Pace { interval: Span::from_s(10), band: Ratio::from_percent(5) }
    } else {
        Pace { interval: Span::from_s(5), band: Ratio::from_percent(2) }
    }
}

/// The predecessor's names for constants of the market, and any constant by its own name behind
/// `market.`.
fn take_profile(keys: &mut Keys<'_>, mut profile: Profile) -> Profile {
    let spans = [
        ("samplingInterval", "sampling_interval_ms"),
        ("fastLoopInterval", "fast_loop_interval_ms"),
        ("slowLoopInterval", "slow_loop_interval_ms"),
        ("startupGracePeriod", "startup_grace_ms"),
    ];
    for (key, constant) in spans {
        if let Some(span) = keys.span(key) {
            let ms = Value::Number(to_f64(span.as_ms_floor()));
            keys.set(&mut profile, key, constant, &ms);
        }
    }
    let numbers = [
        ("throttlingThreshold", "throttling_threshold"),
        ("fastStepSizeMin", "fast_step_min"),
        ("fastStepSizeMax", "fast_step_max"),
        ("agentLearningRate", "learning_rate"),
        ("agentDiscountFactor", "learning_discount"),
        ("agentExplorationRate", "exploration_start"),
        ("targetThrottling", "throttle_target"),
        ("absoluteMinAllocation", "limit_floor_milli"),
        ("alphaUp", "alpha_up"),
        ("alphaDown", "alpha_down"),
    ];
    for (key, constant) in numbers {
        if let Some(number) = keys.number(key, f64::MIN, f64::MAX) {
            keys.set(&mut profile, key, constant, &Value::Number(number));
        }
    }
    if let Some(percent) = keys.percent("minChangePercent") {
        (profile.raise_band, profile.shrink_band) = (percent, percent);
    }
    if let Some(fairness) = keys.word("allocationMechanism", &MECHANISMS) {
        profile.fairness = fairness;
    }
    if let Some(learning) = keys.flag("enableAgentBasedModeling") {
        profile.learning = learning;
    }
    keys.constants(&mut profile);
    for (key, constant) in spans.into_iter().chain(numbers) {
        keys.note_if_idle(&profile, key, constant);
    }
    for error in profile.check() {
        keys.problem("profile", format!("does not go with the other settings: {error}"));
    }
    profile
}

/// The namespaces that are left alone: those that always are, the agent's own, and what is said.
#[must_use]
pub fn excluded(own: &str, config: &AgentConfig) -> Vec<String> {
    let mut all = config.excluded.clone();
    all.insert(own.to_owned());
    all.into_iter().collect()
}

#[expect(clippy::cast_precision_loss, reason = "no interval is that long")]
const fn to_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
