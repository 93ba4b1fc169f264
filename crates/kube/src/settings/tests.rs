//! ConfigMaps as `key: value` lines in, what is in force or what is wrong out.

use super::*;

fn read(lines: &str, environment: &[(&str, &str)]) -> Result<AgentConfig, String> {
    let data = lines.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let (key, value) = line.trim().split_once(": ").unwrap();
        (key.to_owned(), value.trim_matches('"').to_owned())
    });
    let find = |name: &str| {
        let found = environment.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let settings = ClusterSettings::read(&data.collect(), find);
    settings.map(|settings| settings.agent).map_err(|problems| problems.to_string())
}

/// What the predecessor shipped.
const SHIPPED: &str = "
    samplingInterval: 1s
    writeInterval: 10s
    fastLoopInterval: 2s
    slowLoopInterval: 15s
    minChangePercent: 5
    systemReservePercent: 10
    baselineCPUPerPod: 100m
    startupGracePeriod: 45s
    sloTargetLatencyMs: 0
    prometheusURL: http://prometheus:9090
    p99ThresholdMultiplier: 1.2
    throttlingThreshold: 0.1
    fastStepSizeMin: 0.20
    fastStepSizeMax: 0.40
    allocationMechanism: nash
    maxCoalitionSize: 8
    agentLearningRate: 0.1
    agentDiscountFactor: 0.9
    agentExplorationRate: 0.2
    agentMemorySize: 20
    maxHistorySize: 1000
    minUsageMicroseconds: 1000
    absoluteMinAllocation: 10
    needHeadroomFactor: 0.15
    wantHeadroomFactor: 0.10
    maxDemandMultiplier: 4
    costEfficiencyMode: false
    targetThrottling: 0.05
    idleDecayRate: 0.005
    alphaDown: 0.8
    alphaUp: 0.1
    totalClusterCPUCapacityMilli: 4000
    enableKalmanPrediction: true
    enableBatchReconciliation: true
    enablePriceResponse: true
    enableAgentBasedModeling: true";

#[test]
fn what_the_predecessor_shipped_is_understood() {
    let config = read(SHIPPED, &[]).unwrap();
    // Each one that differs from what holds without it is seen to be taken.
    let expected = Profile {
        slow_loop_interval_ms: Span::from_s(15),
        fast_loop_interval_ms: Span::from_s(2),
        raise_band: Ratio::from_percent(5),
        shrink_band: Ratio::from_percent(5),
        throttling_threshold: Ratio::from_percent(10),
        fast_step_min: Ratio::from_percent(20),
        fast_step_max: Ratio::from_percent(40),
        learning: true,
        learning_rate: Ratio::from_percent(10),
        learning_discount: Ratio::from_percent(90),
        exploration_start: Ratio::from_percent(20),
        limit_floor_milli: Millicores::new(10),
        throttle_target: Ratio::from_percent(5),
        alpha_up: Ratio::from_percent(10),
        alpha_down: Ratio::from_percent(80),
        ..AgentConfig::default().profile
    };
    assert_eq!(config.profile, expected);
    assert_eq!(config.write_interval, Span::from_s(10));
    assert_eq!(config.min_change, Ratio::from_percent(5));
    assert_eq!((config.reserve, config.baseline), (Ratio::from_percent(10), Millicores::new(100)));
    assert_eq!(config.target_latency_ms, None, "0 is none");
    assert_eq!(config.prometheus_url.as_deref(), Some("http://prometheus:9090"));
    assert!((config.latency_factor - 1.2).abs() < 1e-9);
    assert_eq!(config.notes.len(), 15, "{:?}", config.notes);
}

/// What the predecessor's documentation prints.
const PRINTED: &str = r#"
    samplingInterval: "1s"
    fastLoopInterval: "2s"
    slowLoopInterval: "15s"
    writeInterval: "10s"
    systemReservePercent: "10.0"
    baselineCPUPerPod: "100m"
    totalClusterCPUCapacityMilli: "4000"
    minChangePercent: "5.0"
    startupGracePeriod: "45s"
    agentLearningRate: "0.1"
    agentExplorationRate: "0.2"
    agentDiscountFactor: "0.9"
    throttlingThreshold: "0.1"
    fastStepSizeMin: "0.20"
    fastStepSizeMax: "0.40"
    prometheusURL: ""
    costEfficiencyMode: "false""#;

#[test]
fn what_the_predecessors_documentation_prints_is_understood() {
    let config = read(PRINTED, &[]).unwrap();
    assert_eq!(config.reserve, Ratio::from_percent(10));
    assert_eq!(config.min_change, Ratio::from_percent(5));
    let bands = (config.profile.raise_band, config.profile.shrink_band);
    assert_eq!(bands, (Ratio::from_percent(5), Ratio::from_percent(5)));
    assert_eq!(config.profile.sampling_interval_ms, Span::from_s(1));
    assert_eq!(config.profile.fast_loop_interval_ms, Span::from_s(2));
    assert_eq!(config.profile.slow_loop_interval_ms, Span::from_s(15));
    assert_eq!(config.profile.startup_grace_ms, Span::from_s(45));
    assert_eq!(config.write_interval, Span::from_s(10));
    assert_eq!(config.baseline, Millicores::new(100));
    assert_eq!(config.prometheus_url, None);
}

/// The keys that have no effect, in the order in which they are told.
fn in_vain(lines: &str) -> Vec<String> {
    let notes = read(lines, &[]).unwrap().notes;
    let key = |note: &String| note.split_once(" has no effect: ").unwrap().0.to_owned();
    notes.iter().map(key).collect()
}

#[test]
fn keys_without_effect_under_the_profile_in_force_are_told() {
    let learning = ["agentLearningRate", "agentDiscountFactor", "agentExplorationRate"];
    let step = ["throttlingThreshold", "fastStepSizeMin", "fastStepSizeMax"];
    let capacity = "totalClusterCPUCapacityMilli";
    assert_eq!(in_vain(PRINTED), [&step[..], &learning[..], &[capacity]].concat());
    assert_eq!(in_vain(&format!("{PRINTED}\nprofile: seed")), [capacity]);
    assert_eq!(in_vain(&format!("{PRINTED}\nmarket.boost_rule: step")), {
        [&learning[..], &[capacity]].concat()
    });
    assert_eq!(in_vain("targetThrottling: 0.1\nprofile: seed"), ["targetThrottling"]);
    assert_eq!(in_vain("market.boost_factor: 3\nprofile: seed"), ["market.boost_factor"]);
    assert_eq!(
        read("throttlingThreshold: 0.1", &[]).unwrap().notes,
        ["throttlingThreshold has no effect: it is of the rule that raises by steps, and limits \
          are doubled here (market.boost_rule)"]
    );
    let told = ClusterSettings::read(&BTreeMap::new(), |name| {
        (name == "MBCAS_FAST_STEP_SIZE_MIN").then(|| "0.3".to_owned())
    });
    assert_eq!(told.unwrap().agent.notes.len(), 1, "also where the environment says it");
}

#[test]
fn cost_efficiency_is_the_profile_that_gives_the_least() {
    assert_eq!(read("costEfficiencyMode: false", &[]), read("", &[]), "nothing is asked for");
    let config = read("costEfficiencyMode: true", &[]).unwrap();
    match ProfileName::ALL.into_iter().find(|name| name.name() == THRIFTY) {
        Some(thrifty) => {
            assert_eq!((config.profile.name, config.notes), (thrifty, Vec::<String>::new()));
        }
        None => {
            let told = "costEfficiencyMode has no effect: there is no profile tight";
            assert_eq!((config.profile, config.notes), (Profile::API, vec![told.to_owned()]));
        }
    }
    let config = read("costEfficiencyMode: true\nprofile: seed", &[]).unwrap();
    assert_eq!(config.profile.name, ProfileName::Seed);
    assert_eq!(config.notes, ["costEfficiencyMode has no effect: profile says seed"]);
}

#[test]
fn the_predecessors_profile_has_the_predecessors_pace() {
    let seed = read("profile: seed", &[]).unwrap();
    assert_eq!(seed.write_interval, Span::from_s(10));
    assert_eq!(seed.min_change, Ratio::from_percent(5));
    let said = read("profile: seed\nwriteInterval: 7s\nminChangePercent: 3", &[]).unwrap();
    assert_eq!((said.write_interval, said.min_change), (Span::from_s(7), Ratio::from_percent(3)));
    let ours = AgentConfig::default();
    assert_eq!((ours.write_interval, ours.min_change), (Span::from_s(5), Ratio::from_percent(2)));
}

#[test]
fn a_share_of_a_hundred_may_have_decimals() {
    let check = |text: &str| read(&format!("systemReservePercent: \"{text}\""), &[]);
    assert_eq!(check("12.5").unwrap().reserve, Ratio::from_millionths(125_000));
    assert_eq!(check("12.5%").unwrap().reserve, Ratio::from_millionths(125_000));
    assert_eq!(check("100.0").unwrap().reserve, Ratio::ONE);
    for bad in ["-0.1", "100.1", "nan", "inf", "1,5", "", "%"] {
        let told = check(bad).unwrap_err();
        assert!(told.contains("is not a percentage from 0 to 100"), "{bad}: {told}");
    }
}

#[test]
fn nothing_said_is_the_default_and_each_way_to_act_has_its_profile() {
    assert_eq!(read("", &[]).unwrap(), AgentConfig::default());
    assert_eq!(AgentConfig::default().profile, Profile::API);
    let direct = read("actuation: direct", &[]).unwrap();
    assert_eq!(direct.actuation, Actuation::Direct);
    let expected = Profile {
        // Weights are the kubelet's, and a raise is to be there within half a second.
        weight_source: walras_core::profile::WeightSource::Request,
        sampling_interval_ms: Span::from_ms(300),
        ..Profile::DIRECT
    };
    assert_eq!(direct.profile, expected);
    let said = read("actuation: direct\nsamplingInterval: 2s", &[]).unwrap();
    assert_eq!(said.profile.sampling_interval_ms, Span::from_s(2));
    let seed = read("profile: seed\nmarket.overcommit: 1.5\nmode: off", &[]).unwrap();
    assert_eq!(seed.profile.name, ProfileName::Seed);
    assert_eq!(seed.profile.overcommit, Ratio::from_millionths(1_500_000));
    assert_eq!(seed.mode, Mode::Off);
}

#[test]
fn an_empty_address_or_query_is_none() {
    let empty = ["prometheusURL", "prometheusQuery"].map(|key| (key.to_owned(), String::new()));
    let config = ClusterSettings::read(&empty.into(), |_| None).unwrap().agent;
    assert_eq!((config.prometheus_url, config.prometheus_query.as_str()), (None, DEFAULT_QUERY));
}

#[test]
fn the_environment_goes_before_the_config_map() {
    let config = read("mode: off", &[("MBCAS_MODE", "limits-only")]).unwrap();
    assert_eq!(config.mode, Mode::LimitsOnly);
    let told = read("", &[("MBCAS_MODE", "on")]).unwrap_err();
    assert_eq!(
        told,
        "MBCAS_MODE: \"on\" is not one of off, limits-only, requests-and-limits, restore"
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let told = read(
        "samplingIntervall: 1s
         writeInterval: soon
         systemReservePercent: 101
         fastLoopInterval: 1us
         mode: on
         market.overcomit: 2
         market.overcommit: lots
         prometheusURL: ftp://x
         enableAgentBasedModeling: yes",
        &[],
    );
    let told = told.unwrap_err();
    for line in [
        "9 problems",
        "samplingIntervall: \"1s\" is given to an unknown key; did you mean samplingInterval?",
        "writeInterval: \"soon\" is not a time such as 500ms, 15s or 1m30s",
        "systemReservePercent: \"101\" is not a percentage from 0 to 100",
        "fastLoopInterval: \"1us\" is not allowed: fast_loop_interval_ms (ms) is",
        "mode: \"on\" is not one of off",
        "market.overcomit: \"2\" is given to an unknown key; did you mean overcommit?",
        "market.overcommit: \"lots\" is not allowed: overcommit (factor) is",
        "prometheusURL: \"ftp://x\" is not an address that starts with http://",
        "enableAgentBasedModeling: \"yes\" is not true or false",
    ] {
        assert!(told.contains(line), "{line}\nis not in\n{told}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let told = read("slowLoopInterval: 1s\nfastLoopInterval: 2s", &[]).unwrap_err();
    assert!(told.contains("slow_loop_interval_ms"), "{told}");
}

#[test]
fn the_pace_of_resizes_changes_nothing_for_agents() {
    let lines = "resizesPerSecond: 3\ncooldown: 1500ms\nmode: off";
    assert_eq!(read(lines, &[]), read("mode: off", &[]));
    let told = read("cooldowns: 5s", &[]).unwrap_err();
    assert!(told.contains("did you mean cooldown?"), "{told}");
}

#[test]
fn the_pace_of_resizes_is_read_with_the_rest() {
    let read = |lines: &[(&str, &str)]| {
        let data = lines.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ClusterSettings::read(&data.collect(), |_| None).map_err(|problems| problems.to_string())
    };
    let pace = |rate, cooldown| {
        let settings = read(&[("resizesPerSecond", rate), ("cooldown", cooldown)])?;
        Ok::<_, String>((settings.resizes_per_second.get(), settings.cooldown))
    };
    let usual = ClusterSettings::default();
    assert_eq!((usual.resizes_per_second.get(), usual.cooldown), (10, Span::from_s(5)));
    assert_eq!(pace("3", "1500ms"), Ok((3, Span::from_ms(1500))));
    assert_eq!(pace("1000.00", "1.5s"), Ok((1000, Span::from_ms(1500))));
    assert_eq!(pace("10.0", "0s"), Ok((10, Span::ZERO)));
    assert_eq!(pace("1", "1h"), Ok((1, Span::from_s(3600))));
    for bad in ["", "0", "0.0", "0.5", "10.5", "1001", "-1", "ten", "1e3"] {
        let told = pace(bad, "5s").unwrap_err();
        assert_eq!(told, format!("resizesPerSecond: {bad:?} is not a whole number from 1 to 1000"));
    }
    for bad in ["", "5", "-1s", "2 s", "3601s", "61m", "99999999999999999999ms"] {
        let told = pace("1", bad).unwrap_err();
        assert!(told.starts_with(&format!("cooldown: {bad:?} is not a time such as")), "{told}");
    }
}
