//! `walras host` and `walras demo` on the cgroups of this machine: real processes, real quotas, the
//! real program.
//!
//! Every test has cgroups of its own and a daemon that knows no others. Needs root and a writable
//! cpu controller, and fails without; `WALRAS_WITHOUT_CGROUPS=1` leaves the tests out and says so.

#[cfg(test)]
mod demo;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod stage;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use crate::stage::{Daemon, Stage, wait_for};

    #[test]
    fn a_throttled_process_gets_more_within_two_fast_ticks() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let _burner = stage.burn(&web, 1);
        let config = "act = true\nrecord = \"RECORD\"";
        let record = stage.folder.path().join("node.jsonl");
        stage.configure(&config.replace("RECORD", &record.display().to_string()));
        let daemon = stage.start(&["--restore=false"]);
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        daemon.stop();
        // How many ticks it took is in the recording, whatever else the machine had to do: from
        // the first sample that shows two throttled periods, to the tick that raised.
        let text = fs::read_to_string(&record).unwrap();
        let facts =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let (mut first, mut ticks) = (None, 0);
        for fact in facts {
            match fact["type"].as_str().unwrap() {
                "sample" => {
                    let throttled = fact["nr_throttled"].as_u64().unwrap();
                    first = first.or(Some(throttled));
                }
                "tick" if first.is_some() => ticks += 1,
                "applied" => break,
                _ => {}
            }
        }
        assert!((1..=3).contains(&ticks), "{ticks} ticks until the first change\n{text}");
        let replayed = Command::new(env!("CARGO_BIN_EXE_walras"))
            .args(["replay", "--json"])
            .arg(&record)
            .output()
            .unwrap();
        assert!(replayed.status.success());
        let limit = stage.quota(&web).unwrap() / 100;
        let told = String::from_utf8(replayed.stdout).unwrap();
        let last = format!("\"limit_milli\":{limit},");
        assert!(told.contains(&last), "the replay does not end at {limit}m: {told}");
    }

    #[test]
    fn contention_is_shared_by_weight_and_nobody_falls_below_the_floor() {
        let Some(mut stage) = Stage::prepared() else { return };
        let (small, large) = (stage.make("small", None), stage.make("large", None));
        let _burners = (stage.burn(&small, 2), stage.burn(&large, 2));
        stage.configure(
            // So little that the two want more, whoever else runs on this machine.
            "act = true\ncapacity = 0.3\n[[rule]]\nmatch = \"small\"\nmin = \"10m\"\n\
             [[rule]]\nmatch = \"large\"\nmin = \"10m\"\nweight = 3",
        );
        let daemon = stage.start(&[]);
        let grant = |path| daemon.pod(path)?["grant_milli"].as_u64();
        wait_for("a congested market that grants three times as much", || {
            let state = daemon.state();
            let (small, large) = (grant(&small)?, grant(&large)?);
            let shared = state["mode"] == "congested" && large > 2 * small && small >= 10;
            shared.then_some(())
        });
        // Its right and three times the share of what the rights leave; together as before.
        wait_for("weights that stand for rights and shares", || {
            let (small, large) = (stage.weight(&small), stage.weight(&large));
            (large > 2 * small && large < 3 * small).then_some(())
        });
        figures_of_the_machine_are_told_with_the_market(&daemon);
        daemon.stop();
        // Two nodes on one machine: what cannot be told apart says so.
        let flags = ["--telemetry=without-ebpf", "--telemetry-cpus=0", "--telemetry-group=/a"];
        let flags = [&flags[..], &["--telemetry-label=topology.kubernetes.io/zone=z1"]].concat();
        let daemon = stage.start(&flags);
        let told = wait_for("figures of a part of the machine", || daemon.figures());
        assert_eq!(told["zone"], "z1");
        let why = |name: &str| daemon.figure(name)?["unavailable"].as_str().map(str::to_owned);
        assert_eq!(why("run_queue_latency_us").as_deref(), Some("eBPF is not set"));
        daemon.stop();
        let state = stage.start(&["--telemetry=off"]).state();
        assert_eq!(state["telemetry"], false, "{state}");
    }

    fn figures_of_the_machine_are_told_with_the_market(daemon: &Daemon) {
        let told = wait_for("rates of the machine, and a market that is congested", || {
            let told = daemon.figures()?;
            let rates = daemon.figure("cpu_utilization")?["value"].as_f64()? > 0.0;
            let market = told["market"]["price"].as_f64()? > 0.0;
            (rates && market).then_some(told)
        });
        assert_eq!(told["market"]["mode"], "congested");
        // A kernel that takes no program, or not this one: one line of the log says why.
        let refused = || daemon.log().matches("not measured").count();
        let waits = wait_for("waits for a CPU, or why there are none", || {
            let waits = daemon.figure("run_queue_latency_us")?;
            (!waits["value"].is_null() || refused() > 0).then_some(waits)
        });
        if waits["value"].is_null() {
            assert!(waits["unavailable"].is_string(), "{waits}");
            assert_eq!(refused(), 1, "{}", daemon.log());
        } else {
            assert_eq!(waits["source"], "ebpf");
        }
        let metrics = daemon.get("/metrics");
        assert!(metrics.contains("\nwalras_node_cpu_utilization{node="), "{metrics}");
    }

    #[test]
    fn a_busy_workload_beside_idle_ones_whose_rights_fill_the_machine_is_not_cut() {
        let Some(mut stage) = Stage::prepared() else { return };
        let busy = stage.make("busy", Some(150));
        for number in 0..9 {
            stage.make(&format!("idle-{number}"), Some(40));
        }
        let _burner = stage.burn(&busy, 1);
        stage.configure(
            "act = true\ncapacity = 2\n[[rule]]\nmatch = \"busy\"\nmin = \"200m\"\n\
             [[rule]]\nmatch = \"idle-*\"\nmin = \"200m\"",
        );
        let daemon = stage.start(&[]);
        wait_for("twenty clearings", || {
            let quota = stage.quota(&busy).unwrap();
            assert!(quota >= 150_000, "it came with more than {quota}");
            (daemon.state()["slow_ticks"].as_u64()? >= 20).then_some(())
        });
        // As soon as others leave some of the machine.
        wait_for("a grant above its right", || {
            (daemon.pod(&busy)?["grant_milli"].as_u64()? > 200).then_some(())
        });
    }

    #[test]
    fn a_right_that_wakes_beside_endless_neighbours_has_it_in_its_first_second() {
        let Some(mut stage) = Stage::on_a_quiet_machine() else { return };
        let owner = stage.make("owner", None);
        let lodgers: Vec<_> = (0..3).map(|n| stage.make(&format!("lodger-{n}"), None)).collect();
        let _burners: Vec<_> = lodgers.iter().map(|path| stage.burn(path, 2)).collect();
        stage.configure(
            "act = true\ncapacity = 2\n[[rule]]\nmatch = \"owner\"\nmin = \"1\"\n\
             [[rule]]\nmatch = \"lodger-*\"\nmin = \"100m\"",
        );
        let daemon = stage.start(&[]);
        wait_for("weights that stand", || {
            (stage.weight(&owner) > 2 * stage.weight(&lodgers[0])).then_some(())
        });
        wait_for("ten clearings while it idles", || {
            (daemon.state()["slow_ticks"].as_u64()? >= 10).then_some(())
        });
        let used = |stage: &Stage| -> (u64, u64) {
            let of_lodgers = lodgers.iter().map(|path| stage.used_us(path)).sum();
            (stage.used_us(&owner), of_lodgers)
        };
        // Measured against its neighbours, so that whoever else runs here makes no difference. What
        // is wrong is wrong every time.
        let mut shares = Vec::new();
        for _ in 0..5 {
            let before = used(&stage);
            let burners = stage.burn(&owner, 2);
            wait_for("a core-second of all of them", || {
                let now = used(&stage);
                (now.0 + now.1 >= before.0 + before.1 + 1_000_000).then_some(())
            });
            let now = used(&stage);
            drop(burners);
            let (owner, others) = (now.0 - before.0, now.1 - before.1);
            // 1000m of 2000m are its right, and 95 % of that is promised.
            if owner * 1000 >= (owner + others) * 475 {
                return;
            }
            shares.push(owner * 100 / (owner + others));
        }
        panic!("it had {shares:?} % of what all used, and has a right to 50 %");
    }

    #[test]
    fn a_pod_that_stops_working_gives_back() {
        let Some(mut stage) = Stage::on_a_quiet_machine() else { return };
        let web = stage.make("web", Some(50));
        let burners = stage.burn(&web, 2);
        stage.configure(
            "act = true\ncapacity = 2\n[market]\nslow_loop_interval_ms = 1000\n\
             startup_grace_ms = 0\nshrink_hold_ms = 0\nboost_hold_ms = 0\n\
             boost_half_life_ms = 100\nwindow_s = 3\nlimit_floor_milli = 100\npeak_factor = 0",
        );
        let daemon = stage.start(&[]);
        let high = wait_for("a larger quota", || stage.quota(&web).filter(|&it| it > 60_000));
        drop(burners);
        assert!(high > 60_000);
        wait_for("what it came with", || stage.quota(&web).filter(|&quota| quota == 50_000));
        drop(daemon);
    }

    #[test]
    fn groups_without_processes_take_nothing_from_whoever_works() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let empty: Vec<_> = (0..100).map(|n| stage.make_empty(&format!("empty-{n}"))).collect();
        let _burner = stage.burn(&web, 1);
        stage.configure(
            "act = true\nprofile = \"tight\"\n[market]\nslow_loop_interval_ms = 1000\n\
             [[rule]]\nmatch = \"empty-*\"\nmin = 1",
        );
        let daemon = stage.start(&[]);
        wait_for("a clearing", || (daemon.state()["slow_ticks"].as_u64()? > 0).then_some(()));
        let state = daemon.state();
        assert_ne!(state["mode"], "overloaded", "{state}");
        assert_eq!(state["pods"].as_array().unwrap().len(), 1, "{state}");
        // One that a process comes to is a workload.
        stage.fill(&empty[7]);
        wait_for("another workload", || daemon.pod(&empty[7]));
    }

    #[test]
    fn what_a_local_user_makes_in_a_group_of_its_own_is_left_alone() {
        let Some(mut stage) = Stage::prepared() else { return };
        let (ours, web) = (stage.make_empty("ours"), stage.make("ours/web", Some(10)));
        let (delegated, fake) = (stage.make_empty("bob"), stage.make("bob/fake", Some(10)));
        std::os::unix::fs::chown(delegated.under(stage.layout.cpu_root()), Some(1000), None)
            .unwrap();
        let _burners = (stage.burn(&web, 1), stage.burn(&fake, 1));
        stage.configure_paths("act = true", &["ours/*", "bob/*"]);
        let daemon = stage.start(&[]);
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        assert_eq!(stage.quota(&fake), Some(10_000));
        assert_eq!((daemon.pod(&ours), daemon.pod(&fake)), (None, None));
        let problem = daemon.state()["problems"][0].as_str().unwrap().to_owned();
        assert!(problem.contains("others than root may make groups there"), "{problem}");
    }

    #[test]
    fn without_being_told_to_act_nothing_is_written() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let _burner = stage.burn(&web, 1);
        stage.configure("");
        let daemon = stage.start(&[]);
        let change = wait_for("what it would do", || {
            let pod = daemon.pod(&web)?;
            (!pod["last_change"].is_null()).then(|| pod["last_change"].clone())
        });
        assert_eq!(change["result"], "only_watching");
        assert_eq!(stage.quota(&web), Some(10_000));
        assert!(daemon.log().contains("only watching; would set"), "{}", daemon.log());
        assert!(daemon.log().contains("1 workloads found; "), "{}", daemon.log());
        assert!(daemon.log().contains("nothing is changed without --act"), "{}", daemon.log());
        assert!(daemon.stop().success());
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn everybody_gets_everything_back_at_the_end() {
        let Some(mut stage) = Stage::prepared() else { return };
        let (web, free) = (stage.make("web", Some(10)), stage.make("free", None));
        let weight = stage.weight(&web);
        let _burners = (stage.burn(&web, 1), stage.burn(&free, 1));
        stage.configure(
            "[market]\nslow_loop_interval_ms = 1000\n[[rule]]\nmatch = \"web\"\nweight = 2",
        );
        let daemon = stage.start(&["--act"]);
        wait_for("a larger quota", || {
            let changed = stage.quota(&web)? > 10_000;
            (changed && stage.weight(&web) != weight).then_some(())
        });
        assert_eq!(stage.quota(&free), None, "who came without a limit gets none");
        assert!(daemon.stop().success());
        assert_eq!(stage.quota(&web), Some(10_000));
        assert_eq!(stage.quota(&free), None);
        assert_eq!(stage.weight(&web), weight);
    }

    #[test]
    fn what_a_killed_daemon_left_is_given_back_by_the_next() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let burner = stage.burn(&web, 1);
        stage.configure("");
        let daemon = stage.start(&["--act"]);
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        daemon.kill();
        assert!(stage.quota(&web).unwrap() > 10_000);
        drop(burner);
        let daemon = stage.start(&["--act"]);
        wait_for("the old quota", || stage.quota(&web).filter(|&quota| quota == 10_000));
        drop(daemon);
    }

    #[test]
    fn who_only_watches_writes_nothing_after_a_crash_and_says_how_to_undo_it() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let burner = stage.burn(&web, 1);
        stage.configure("");
        let daemon = stage.start(&["--act"]);
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        daemon.kill();
        drop(burner);
        let left = stage.quota(&web);
        let daemon = stage.start(&[]);
        let told = wait_for("word of it", || {
            let problems = daemon.state()["problems"].to_string();
            problems.contains("1 workloads still have what an earlier run set").then_some(problems)
        });
        assert!(told.contains("walras host --restore-only"), "{told}");
        wait_for("a clearing", || (daemon.state()["slow_ticks"].as_u64()? >= 1).then_some(()));
        assert_eq!(stage.quota(&web), left);
        daemon.stop();
        assert_eq!(stage.quota(&web), left);
        let output = stage.command(&["--restore-only"]).output().unwrap();
        assert_eq!(output.stdout, b"1 workloads have back what they came with.\n");
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn a_check_says_who_would_be_sized_and_why_others_would_not() {
        let Some(mut stage) = Stage::prepared() else { return };
        let (web, empty) = (stage.make("web", Some(10)), stage.make_empty("empty"));
        let left = stage.make("left", None);
        stage.configure("[[rule]]\nmatch = \"left\"\nmanaged = false");
        // Also while a daemon runs.
        let daemon = stage.start(&[]);
        let output = stage.command(&["--check", "--json"]).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let group = |path: &walras_cgroup::CgroupPath| {
            let groups = told["groups"].as_array().unwrap();
            groups.iter().find(|it| it["path"] == path.to_string()).unwrap().clone()
        };
        let found = group(&web);
        assert_eq!((&found["sized"], &found["limit_milli"]), (&true.into(), &100.into()), "{told}");
        assert_eq!(group(&empty)["because"], "there are no processes in it");
        assert_eq!(group(&left)["because"], "it asks to be left alone, or a rule says so");
        assert!(daemon.stop().success());
    }

    #[test]
    fn a_daemon_that_is_killed_again_and_again_never_loses_what_was_there_first() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let burner = stage.burn(&web, 1);
        stage.configure("");
        for _ in 0..5 {
            let daemon = stage.start(&["--act"]);
            wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
            daemon.kill();
        }
        drop(burner);
        let output = stage.command(&["--restore-only"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(told, "1 workloads have back what they came with.\n");
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn after_a_stop_without_restore_the_first_settings_are_still_known() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let burner = stage.burn(&web, 1);
        stage.configure("");
        let daemon = stage.start(&["--act", "--restore=false"]);
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        let log = daemon.log_after_stop();
        assert!(
            log.contains("1 workloads keep what was set; `walras host --restore-only`"),
            "{log}"
        );
        assert!(log.contains("\"message\":\"changed: "), "the first change is told: {log}");
        assert!(stage.quota(&web).unwrap() > 10_000);
        drop(burner);
        let daemon = stage.start(&["--act"]);
        let original = wait_for("the workload", || {
            daemon.pod(&web).map(|pod| pod["original_limit_milli"].clone())
        });
        assert_eq!(original, 100);
        daemon.stop();
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn whether_to_give_back_at_the_end_may_change_while_it_runs() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let _burner = stage.burn(&web, 1);
        stage.configure("act = true\nrestore = false");
        let daemon = stage.start(&[]);
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        stage.configure("act = true\nrestore = true");
        daemon.signal("HUP");
        wait_for("word of it", || {
            daemon
                .log()
                .contains("workloads get back what they came with when it stops")
                .then_some(())
        });
        daemon.stop();
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn what_an_owner_sets_meanwhile_is_taken_over_told_and_given_back() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let _burner = stage.burn(&web, 1);
        // So that it is soon looked at.
        stage.configure("act = true\nlook_interval_ms = 100");
        let daemon = stage.start(&[]);
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        // As `docker update --cpus 1.2` does.
        stage.set_quota(&web, 120);
        let original = || daemon.pod(&web)?["original_limit_milli"].as_u64();
        wait_for("word of the owner", || original().filter(|&original| original == 1200));
        let path = format!("/api/v1/pods/{}", Stage::uid(&web).replace('/', "%2F"));
        let story = daemon.get(&path);
        let words = "its owner changed its limit from 100m to 1200m";
        assert!(story.contains(words), "{story}");
        assert!(daemon.log().contains("that is what it gets back"), "{}", daemon.log());
        daemon.stop();
        assert_eq!(stage.quota(&web), Some(120_000));
    }

    #[test]
    fn two_hundred_cgroups_come_and_go() {
        let Some(mut stage) = Stage::prepared() else { return };
        stage.configure(
            "act = true\nlook_interval_ms = 200\n[market]\nslow_loop_interval_ms = 1000",
        );
        let daemon = stage.start(&[]);
        let count =
            |daemon: &crate::stage::Daemon| daemon.state()["pods"].as_array().unwrap().len();
        let made: Vec<_> =
            (0..200).map(|number| stage.make(&format!("pod-{number}"), None)).collect();
        wait_for("200 workloads with a grant", || {
            let state = daemon.state();
            let pods = state["pods"].as_array().unwrap();
            let granted = pods.iter().filter(|pod| pod["grant_milli"].is_u64()).count();
            (granted == 200).then_some(())
        });
        let limited = made.iter().filter_map(|path| stage.quota(path)).count();
        assert_eq!(limited, 0, "who came without a limit gets none");
        for path in &made[50..] {
            stage.unmake(path);
        }
        wait_for("50 workloads", || (count(&daemon) == 50).then_some(()));
        // One that is made anew under the same name is another workload.
        let again = stage.make("pod-199", Some(30));
        wait_for("one more", || {
            daemon.pod(&again).filter(|pod| pod["original_limit_milli"] == 300)
        });
        assert!(daemon.stop().success());
    }

    #[test]
    fn a_workload_that_vanishes_while_it_is_sized_is_let_go_of() {
        let Some(mut stage) = Stage::prepared() else { return };
        stage.configure("act = true\nlook_interval_ms = 100");
        let daemon = stage.start(&[]);
        for _ in 0..10 {
            let web = stage.make("web", Some(10));
            let burner = stage.burn(&web, 1);
            wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
            drop(burner);
            stage.unmake(&web);
        }
        wait_for("an empty market", || {
            daemon.state()["pods"].as_array().unwrap().is_empty().then_some(())
        });
        assert!(!daemon.log().contains("\"ERROR\""), "{}", daemon.log());
        assert!(daemon.stop().success());
    }

    #[test]
    fn a_changed_configuration_holds_at_once_and_a_bad_one_not_at_all() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let _burner = stage.burn(&web, 1);
        stage.configure("");
        let daemon = stage.start(&[]);
        wait_for("a watched workload", || daemon.pod(&web));
        stage.configure("act = 7\nactt = true");
        let problem = wait_for("a refusal", || {
            daemon.state()["problems"].as_array()?.first()?.as_str().map(str::to_owned)
        });
        assert!(problem.contains("act: 7 is not true or false"), "{problem}");
        assert!(problem.contains("did you mean act?"), "{problem}");
        assert_eq!(stage.quota(&web), Some(10_000));
        stage.configure("act = true");
        daemon.signal("HUP");
        wait_for("a larger quota", || stage.quota(&web).filter(|&quota| quota > 10_000));
        wait_for("word that it acts", || (daemon.state()["acting"] == true).then_some(()));
        // Told to leave the workload alone, it gives back what that came with.
        stage.configure("act = true\n[[rule]]\nmatch = \"web\"\nmanaged = false");
        daemon.signal("HUP");
        wait_for("the old quota", || stage.quota(&web).filter(|&quota| quota == 10_000));
        wait_for("an empty market", || {
            daemon.state()["pods"].as_array().unwrap().is_empty().then_some(())
        });
    }

    #[test]
    fn a_second_daemon_is_refused() {
        let Some(stage) = Stage::prepared() else { return };
        stage.configure("");
        let daemon = stage.start(&[]);
        let other = stage.folder.path().join("other").display().to_string();
        let (code, told) = stage.refused(&["--state-dir", &other]);
        assert_eq!(code, 1);
        let expected = format!("is running on this machine already (process {})", daemon.pid());
        assert!(told.contains(&expected), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }

    #[test]
    fn a_port_in_use_is_told_and_nothing_is_touched() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        stage.configure("act = true");
        let (code, told) = stage.refused(&["--listen", &address]);
        assert_eq!(code, 1);
        assert!(told.contains(&format!("cannot listen on {address}")), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn ten_mistakes_in_the_configuration_are_told_and_nothing_starts() {
        let Some(stage) = Stage::prepared() else { return };
        stage.configure(
            "act = 1\nrestore = 2\nlisten = 3\ncapacity = \"x\"\nstate_dir = \"y\"\n\
             look_interval_ms = 1\nlog_level = 4\nprofile = \"z\"\nrecord_max_mib = 0\nfoo = 1",
        );
        let (code, told) = stage.refused(&[]);
        assert_eq!(code, 2);
        assert!(told.contains("10 problems"), "{told}");
        assert_eq!(told.lines().count(), 11, "{told}");
    }

    #[test]
    fn a_damaged_store_is_left_alone_and_so_are_the_workloads() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        stage.configure("act = true");
        let state = stage.folder.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::write(state.join("host.redb"), "rubbish").unwrap();
        let (code, told) = stage.refused(&[]);
        assert_eq!(code, 1);
        assert!(told.contains("the store is damaged or no store at all"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert_eq!(fs::read(state.join("host.redb")).unwrap(), b"rubbish");
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn on_a_full_disk_nothing_is_touched_that_could_not_be_given_back() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let _burner = stage.burn(&web, 1);
        let disk = Disk::small(&stage.folder.path().join("state"));
        fs::write(disk.0.join("filler"), vec![0; 8 * 1024 * 1024]).ok();
        stage.configure("act = true");
        let (code, told) = stage.refused(&[]);
        assert_eq!(code, 1);
        assert!(told.contains("No space left on device"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    #[test]
    fn cgroups_that_are_read_only_are_told_of_and_watched() {
        let Some(mut stage) = Stage::prepared() else { return };
        let web = stage.make("web", Some(10));
        let _burner = stage.burn(&web, 1);
        stage.configure("act = true");
        // A mount namespace of its own, in which the hierarchy cannot be written.
        let command = stage.command(&["--log-format", "json"]);
        let root = stage.layout.cpu_root().display().to_string();
        let script = format!("mount -o remount,bind,ro {root} && exec \"$0\" \"$@\"");
        let log = stage.folder.path().join("log");
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .arg(command.get_program())
            .args(command.get_args())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let told = wait_for("word of it", || {
            let log = fs::read_to_string(&log).unwrap();
            log.contains("read-only").then_some(log)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(told.contains("it could not be set"), "{told}");
        assert_eq!(stage.quota(&web), Some(10_000));
    }

    /// A disk that is soon full.
    struct Disk(std::path::PathBuf);

    impl Disk {
        fn small(folder: &std::path::Path) -> Self {
            fs::create_dir_all(folder).unwrap();
            let mut mount = Command::new("mount");
            let mount = mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder);
            assert!(mount.status().unwrap().success());
            Self(folder.to_owned())
        }
    }

    impl Drop for Disk {
        fn drop(&mut self) {
            drop(Command::new("umount").arg(&self.0).status());
        }
    }
}
