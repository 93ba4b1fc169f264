//! What becomes of cgroups, look by look, on folders that only look like cgroups.

mod ground;

use ground::Ground;

#[test]
fn what_a_local_user_makes_is_no_workload_whatever_it_is_called() {
    let mut ground = Ground::new("paths = [\"batch.slice/**\"]");
    let users = "user.slice/user-1000.slice/user@1000.service/app.slice";
    for name in ["walras/x", "docker/ID", "docker-ID.scope", "libpod-ID.scope", "web.service"] {
        ground.make(&format!("{users}/{name}"));
    }
    // Anybody may make groups in this one.
    ground.make("batch.slice/shared/x");
    ground.allow_everybody("batch.slice/shared");
    ground.make("batch.slice/ours/x");
    ground.make("walras/y");
    ground.look();
    assert_eq!(ground.held(), ["batch.slice/ours", "batch.slice/shared", "walras/y"]);
}

#[test]
fn what_others_may_make_groups_in_holds_no_workloads() {
    let mut ground = Ground::new("paths = [\"batch.slice/*/*\"]");
    ground.make("batch.slice/shared/x");
    ground.allow_everybody("batch.slice/shared");
    ground.make("batch.slice/ours/x");
    ground.make("walras/shared/x");
    ground.allow_everybody("walras");
    ground.look();
    assert_eq!(ground.held(), ["batch.slice/ours/x"]);
    let told = "nothing in /batch.slice/shared is sized, although the configuration names paths in \
                it: others than root may make groups there";
    assert_eq!(ground.problems(), [told]);
    ground.remove("batch.slice/shared");
    ground.look();
    assert_eq!(ground.problems(), [""; 0], "it is gone, and so is what was wrong with it");
}

#[test]
fn a_user_has_no_more_than_so_many_workloads() {
    let mut ground = Ground::new("systemd = \"all\"");
    for number in 0..40 {
        ground.make(&format!("user.slice/user-1000.slice/session-{number}.scope"));
        ground.make(&format!("system.slice/service-{number}.service"));
    }
    ground.make("user.slice/user-7.slice/session-99.scope");
    ground.look();
    assert_eq!(ground.held().len(), 40 + 32 + 1, "root is not bounded");
    let told = &ground.problems()[0];
    let words =
        "of user 1000 is left alone: 32 workloads of this user are sized, and that is the most";
    assert!(told.ends_with(words), "{told}");
    ground.remove("user.slice/user-1000.slice/session-0.scope");
    for _ in 0..3 {
        ground.look();
    }
    assert_eq!(ground.held().len(), 40 + 32 + 1, "one goes, and another one comes");
}

#[test]
fn an_empty_group_is_no_workload_until_there_is_a_process_in_it() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.make("walras/b");
    ground.set_populated("walras/b", false);
    ground.look();
    assert_eq!(ground.held(), ["walras/a"]);
    ground.set_populated("walras/b", true);
    ground.look();
    assert_eq!(ground.held(), ["walras/a", "walras/b"]);
    ground.set_quota("walras/a", 10);
    ground.set_populated("walras/a", false);
    ground.look_at_all();
    assert_eq!(ground.held(), ["walras/b"]);
    assert_eq!(ground.originals(), ["walras/b"], "nothing is owed to the other one");
}

#[test]
fn what_could_not_be_adopted_is_tried_again_and_a_problem_ends_with_its_cause() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.write("walras/a", "cpu.weight", "rubbish");
    ground.look();
    assert_eq!(ground.held(), [""; 0]);
    assert_eq!(ground.problems().len(), 1, "{:?}", ground.problems());
    ground.write("walras/a", "cpu.weight", "100\n");
    ground.look();
    assert_eq!(ground.held(), ["walras/a"]);
    assert_eq!(ground.problems(), [""; 0]);
}

#[test]
fn a_container_of_which_nobody_tells_is_a_problem_without_a_break() {
    let mut ground = Ground::new("docker_socket = \"/nowhere\"\ndocker_root = \"/nowhere\"");
    ground.make("docker/ID");
    ground.look_until_a_problem();
    let told = ground.problems();
    assert!(told[0].starts_with("docker 0123456789ab is left alone, because it is not known"));
    for _ in 0..50 {
        ground.look();
        assert_eq!(ground.problems(), told);
    }
    assert_eq!(ground.held(), [""; 0]);
    ground.configure("docker = \"none\"");
    ground.look();
    assert_eq!(ground.problems(), [""; 0]);
}

#[test]
fn it_is_tried_ever_more_rarely() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.write("walras/a", "cpu.weight", "rubbish");
    for _ in 0..7 {
        ground.look();
    }
    // Tried at the 1st, 2nd and 4th look, and due at the 8th.
    ground.write("walras/a", "cpu.weight", "100\n");
    assert_eq!(ground.held(), [""; 0]);
    ground.look();
    assert_eq!(ground.held(), ["walras/a"]);
}

#[test]
fn the_problem_of_a_group_that_went_goes_with_it() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.write("walras/a", "cpu.weight", "rubbish");
    ground.look();
    assert_eq!(ground.problems().len(), 1);
    ground.remove("walras/a");
    ground.look();
    assert_eq!(ground.problems(), [""; 0]);
}

#[test]
fn nothing_is_owed_to_a_workload_that_went_however_that_was_noticed() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.make("walras/b");
    ground.look();
    assert_eq!(ground.originals(), ["walras/a", "walras/b"]);
    ground.remove("walras/a");
    // Noticed by setting it, before the next look.
    assert!(ground.set_limit("walras/a", 500).is_gone());
    ground.remove("walras/b");
    ground.look();
    assert_eq!(ground.originals(), [""; 0]);
}

#[test]
fn a_parent_that_is_named_later_does_not_strand_what_was_sized_in_it() {
    let mut ground = Ground::new("paths = [\"batch/jobs/*\"]");
    ground.make("batch/jobs");
    ground.make("batch/jobs/a");
    ground.set_quota("batch/jobs/a", 50);
    ground.look();
    ground.set_limit("batch/jobs/a", 700);
    assert_eq!(ground.quota("batch/jobs/a"), Some(70));
    ground.configure("paths = [\"batch/jobs/*\", \"batch/jobs\"]");
    ground.look();
    assert_eq!(ground.held(), ["batch/jobs"]);
    assert_eq!(ground.quota("batch/jobs/a"), Some(50), "it has back what it came with");
    assert_eq!(ground.originals(), ["batch/jobs"]);
}

#[test]
fn what_an_earlier_daemon_left_and_nobody_wants_any_more_is_given_back() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.set_quota("walras/a", 50);
    ground.look();
    ground.set_limit("walras/a", 700);
    ground.start_again("walras = \"none\"");
    ground.look();
    assert_eq!(ground.quota("walras/a"), Some(50));
    assert_eq!(ground.originals(), [""; 0]);
}

#[test]
fn what_cannot_be_opened_is_not_gone() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.set_quota("walras/a", 50);
    ground.look();
    ground.set_limit("walras/a", 700);
    ground.start_again("");
    ground.remove_file("walras/a", "cpu.stat");
    ground.look();
    assert_eq!(ground.originals(), ["walras/a"], "it is still owed what it came with");
    ground.write("walras/a", "cpu.stat", "usage_usec 0\n");
    ground.look();
    assert_eq!(ground.held(), ["walras/a"]);
    ground.configure("walras = \"none\"");
    ground.look();
    assert_eq!(ground.quota("walras/a"), Some(50));
}

#[test]
fn what_the_owner_sets_is_the_owners_and_is_what_it_gets_back() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.set_quota("walras/a", 50);
    ground.look();
    ground.set_limit("walras/a", 700);
    ground.look_at_all();
    assert_eq!(ground.owned(), [""; 0], "that was us");
    ground.set_quota("walras/a", 30);
    ground.look_at_all();
    assert_eq!(ground.owned(), ["walras/a from 500m to 300m"]);
    ground.set_limit("walras/a", 800);
    assert_eq!(ground.quota("walras/a"), Some(80), "it is sized as before");
    assert_eq!(ground.stop(), 1);
    assert_eq!(ground.quota("walras/a"), Some(30));
}

#[test]
fn what_the_owner_sets_is_noticed_before_it_is_overwritten() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.set_quota("walras/a", 50);
    ground.look();
    ground.set_limit("walras/a", 700);
    ground.set_quota("walras/a", 30);
    assert!(ground.set_limit("walras/a", 900).is_overtaken());
    assert_eq!(ground.quota("walras/a"), Some(30), "what was decided before does not count");
    ground.look();
    assert_eq!(ground.owned(), ["walras/a from 500m to 300m"]);
    ground.set_limit("walras/a", 900);
    ground.start_again("walras = \"none\"");
    ground.look();
    assert_eq!(ground.quota("walras/a"), Some(30), "kept before anything was written");
}

#[test]
fn what_the_owner_sets_last_is_not_overwritten_by_giving_back() {
    let mut ground = Ground::new("");
    for name in ["walras/a", "walras/b"] {
        ground.make(name);
        ground.set_quota(name, 50);
    }
    ground.look();
    ground.set_limit("walras/a", 700);
    ground.set_limit("walras/b", 700);
    ground.set_quota("walras/a", 30);
    ground.configure("podman = \"none\"");
    ground.look();
    ground.set_quota("walras/b", 20);
    ground.stop();
    assert_eq!((ground.quota("walras/a"), ground.quota("walras/b")), (Some(30), Some(20)));
}

#[test]
fn whoever_sets_back_what_it_came_with_changes_nothing() {
    let mut ground = Ground::new("");
    ground.make("walras/a");
    ground.set_quota("walras/a", 50);
    ground.look();
    ground.set_limit("walras/a", 700);
    // As an engine does that writes all of its settings when one of them changes.
    ground.set_quota("walras/a", 50);
    ground.look_at_all();
    assert_eq!(ground.owned(), [""; 0]);
    assert!(!ground.set_limit("walras/a", 800).is_overtaken());
    ground.stop();
    assert_eq!(ground.quota("walras/a"), Some(50));
}

#[test]
fn what_a_machine_is_permitted_is_its_right_and_its_cap() {
    let mut ground = Ground::new("");
    ground.make("walras/vm-db");
    ground.make("walras/other");
    ground.look();
    assert_eq!(ground.owned(), [""; 0]);
    ground.permit(&[("walras/vm-db", 1000)]);
    ground.look();
    assert_eq!(ground.owned(), ["walras/vm-db has a right to 1000m of 1000m"]);
    // Told once, and again when it is another one.
    ground.look();
    ground.permit(&[("walras/vm-db", 2000)]);
    ground.look();
    let told = "walras/vm-db has a right to 2000m of 2000m";
    assert_eq!(ground.owned().last(), Some(&told));
    assert_eq!(ground.owned().len(), 2);
    // Without a permit it is a workload like every other.
    ground.permit(&[]);
    ground.look();
    assert_eq!(ground.owned().len(), 3);
    assert!(ground.owned()[2].starts_with("walras/vm-db has a right to 0m of"));
}
