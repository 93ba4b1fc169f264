//! This crate on the control groups of this machine, whichever version it has.
//!
//! Every test works in a group of its own and says what the kernel's files hold afterwards, read
//! without this crate. Needs root and a writable cpu controller, and fails without;
//! `WALRAS_WITHOUT_CGROUPS=1` leaves the tests out and says so. The same executable, linked
//! statically, runs in a virtual machine that has the other version.

#[cfg(test)]
mod ground;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use walras_cgroup::{
        Adopted, CgroupError, CgroupPath, Created, Group, Target, Version, WalkLimits,
        WeightInForce, Written, allow_open_files, remove_left_behind, walk,
    };
    use walras_core::smooth::weight::KernelWeight;
    use walras_core::units::{Millicores, Moment};

    use crate::ground::{Burner, Ground, Shelf, burn_if_told, wait_for};

    const WIDE: WalkLimits = WalkLimits { depth: 16, groups: 4096 };

    fn limit(milli: u64) -> Target {
        Target { limit: Some(Millicores::new(milli)), weight: None, burst: None }
    }

    fn burst(milli: u64, burst: u64) -> Target {
        Target { burst: Some(Millicores::new(burst)), ..limit(milli) }
    }

    fn adopted(ground: &Ground, path: &CgroupPath) -> Adopted {
        let group = Group::open(&ground.layout, path).unwrap();
        group.adopt(&mut Shelf::default()).unwrap()
    }

    /// Quota, period, burst buffer and weight as the kernel's files tell them.
    fn told(ground: &Ground, path: &CgroupPath) -> String {
        match ground.layout.version() {
            Version::V1 => {
                let files =
                    ["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"];
                let [quota, period, burst, shares] = files.map(|file| ground.text(path, file));
                let quota = quota.replace("-1", "max");
                let weight = (shares.parse::<u32>().unwrap() * 100 + 512) / 1024;
                format!("{quota} {period} {burst} {weight}")
            }
            Version::V2 => {
                let files = ["cpu.max", "cpu.max.burst", "cpu.weight"];
                files.map(|file| ground.text(path, file)).join(" ")
            }
        }
    }

    fn set_quota(ground: &Ground, path: &CgroupPath, quota_us: u32) -> std::io::Result<()> {
        match ground.layout.version() {
            Version::V1 => ground.write(path, "cpu.cfs_quota_us", &quota_us.to_string()),
            Version::V2 => ground.write(path, "cpu.max", &format!("{quota_us} 100000")),
        }
    }

    #[test]
    fn the_burning_process_burns() {
        burn_if_told();
    }

    #[test]
    fn a_process_that_is_held_back_shows_in_the_counters_and_runs_on_when_it_may() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"held");
        let mut held = adopted(&ground, &path);
        held.apply(&limit(100)).unwrap();
        let _burner = Burner::start(ground.last());
        let sample = wait_for("throttling", || {
            let sample = held.group().sample(Moment::from_ms(7)).unwrap();
            (sample.nr_throttled >= 3).then_some(sample)
        });
        assert_eq!(sample.at, Moment::from_ms(7));
        assert!(sample.usage.as_us() > 10_000, "{sample:?}");
        assert!(sample.throttled.as_us() > 10_000, "{sample:?}");
        assert!(sample.nr_periods >= sample.nr_throttled, "{sample:?}");
        if ground.layout.version() == Version::V2 {
            assert!(sample.stalled.is_some(), "the kernel of the guest measures pressure");
        }
        held.restore().unwrap();
        // Without a limit it uses in no time what it could never have used with it.
        wait_for("running freely", || {
            let later = held.group().sample(Moment::from_ms(8)).unwrap();
            (later.usage.as_us() > sample.usage.as_us() + 500_000).then_some(())
        });
    }

    #[test]
    fn what_is_in_force_is_not_written_again_and_what_others_change_is_noticed() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"a");
        let mut group = adopted(&ground, &path);
        assert_eq!(told(&ground, &path), "max 100000 0 100");
        let weight = Some(KernelWeight::from_request(Millicores::new(4000)));
        let target = Target { weight, ..burst(250, 250) };
        let first = group.apply(&target).unwrap();
        assert_eq!(first.written, Written { quota: true, burst: true, weight: true });
        assert!(!first.changed_by_others);
        assert_eq!(told(&ground, &path), "25000 100000 25000 157");
        assert_eq!(first.now, group.group().settings().unwrap());
        let second = group.apply(&target).unwrap();
        assert_eq!(second.written, Written::default());
        set_quota(&ground, &path, 77_000).unwrap();
        let third = group.apply(&target).unwrap();
        assert_eq!(third.written, Written { quota: true, ..Written::default() });
        assert!(third.changed_by_others && !second.changed_by_others);
        group.apply(&limit(1)).unwrap();
        assert_eq!(told(&ground, &path), "1000 100000 1000 157");
        group.restore().unwrap();
        assert_eq!(told(&ground, &path), "max 100000 0 100");
    }

    #[test]
    fn a_burst_buffer_moves_with_its_quota_although_the_kernel_refuses_one_above_it() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"a");
        let mut group = adopted(&ground, &path);
        let steps = [(1000, 1000), (200, 200), (1500, 10), (1500, 1500), (10, 0), (300, 300)];
        for (step, buffer) in steps {
            group.apply(&burst(step, buffer)).unwrap();
            let expected = format!("{} 100000 {} 100", step * 100, buffer * 100);
            assert_eq!(told(&ground, &path), expected);
        }
        // In the other order the kernel would have none of it.
        let refused = set_quota(&ground, &path, 20_000).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(22), "{refused}");
        group.apply(&burst(200, 200)).unwrap();
        group.restore().unwrap();
        assert_eq!(told(&ground, &path), "max 100000 0 100");
    }

    #[test]
    fn the_period_stays_as_found() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"a");
        match ground.layout.version() {
            Version::V1 => ground.write(&path, "cpu.cfs_period_us", "40000").unwrap(),
            Version::V2 => ground.write(&path, "cpu.max", "max 40000").unwrap(),
        }
        let mut group = adopted(&ground, &path);
        group.apply(&limit(500)).unwrap();
        assert_eq!(told(&ground, &path), "20000 40000 0 100");
        group.restore().unwrap();
        assert_eq!(told(&ground, &path), "max 40000 0 100");
    }

    #[test]
    fn a_group_that_cannot_be_kept_is_left_alone_and_one_that_was_survives_a_crash() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"a");
        set_quota(&ground, &path, 60_000).unwrap();
        let open = || Group::open(&ground.layout, &path).unwrap();
        let error = open().adopt(&mut Shelf { full: true, ..Shelf::default() }).unwrap_err();
        assert!(error.to_string().ends_with("could not be kept: the shelf is full"), "{error}");
        let mut shelf = Shelf::default();
        let mut first = open().adopt(&mut shelf).unwrap();
        // Kept before the first write.
        assert_eq!(shelf.kept, [first.original().clone()]);
        first.apply(&burst(200, 100)).unwrap();
        drop(first);
        assert_eq!(told(&ground, &path), "20000 100000 10000 100");
        let mut second = open().adopt_again(shelf.kept.remove(0)).unwrap();
        second.apply(&limit(300)).unwrap();
        second.restore().unwrap();
        assert_eq!(told(&ground, &path), "60000 100000 0 100");
    }

    #[test]
    fn what_the_owner_changes_is_what_is_given_back() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"a");
        set_quota(&ground, &path, 60_000).unwrap();
        let (mut group, mut shelf) = (adopted(&ground, &path), Shelf::default());
        assert_eq!(group.take_owners_change(&mut shelf).unwrap(), None);
        group.apply(&limit(200)).unwrap();
        assert_eq!(group.take_owners_change(&mut shelf).unwrap(), None, "that was us");
        set_quota(&ground, &path, 30_000).unwrap();
        let full = group.take_owners_change(&mut Shelf { full: true, ..Shelf::default() });
        assert!(full.is_err(), "what cannot be kept is not taken");
        let change = group.take_owners_change(&mut shelf).unwrap().unwrap();
        assert_eq!(change.to.max.limit_floor(), Some(Millicores::new(300)));
        assert_eq!(shelf.kept, [group.original().clone()]);
        group.apply(&limit(900)).unwrap();
        assert_eq!(group.take_owners_change(&mut shelf).unwrap(), None, "us again");
        group.restore().unwrap();
        assert_eq!(told(&ground, &path), "30000 100000 0 100");
    }

    #[test]
    fn what_the_owner_changes_inside_is_given_back_there() {
        let Some(mut ground) = Ground::prepared() else { return };
        let (outer, inner) = (ground.make(b"a"), ground.make(b"a/b"));
        set_quota(&ground, &outer, 60_000).unwrap();
        set_quota(&ground, &inner, 30_000).unwrap();
        let (mut group, mut shelf) = (adopted(&ground, &outer), Shelf::default());
        group.apply(&limit(1000)).unwrap();
        assert_eq!(group.take_owners_change(&mut shelf).unwrap(), None, "that was us");
        set_quota(&ground, &inner, 20_000).unwrap();
        let change = group.take_owners_change(&mut shelf).unwrap().unwrap();
        assert_eq!(change.from, change.to, "it is about the one inside");
        assert_eq!(shelf.kept, [group.original().clone()]);
        group.apply(&limit(900)).unwrap();
        assert_eq!(told(&ground, &inner), "30000 100000 0 100", "its new part of the whole");
        group.restore().unwrap();
        assert_eq!(told(&ground, &inner), "20000 100000 0 100");
        assert_eq!(told(&ground, &outer), "60000 100000 0 100");
    }

    #[test]
    fn what_a_refused_change_of_ours_left_is_not_the_owners() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"a");
        set_quota(&ground, &path, 60_000).unwrap();
        let (mut group, mut shelf) = (adopted(&ground, &path), Shelf::default());
        group.apply(&burst(500, 100)).unwrap();
        // One inside that is not known: the first version refuses less than that has, after the
        // buffer was written.
        let inside = ground.make(b"a/b");
        set_quota(&ground, &inside, 40_000).unwrap();
        let refused = group.apply(&burst(100, 50));
        match ground.layout.version() {
            Version::V1 => assert!(refused.is_err()),
            Version::V2 => assert!(refused.is_ok()),
        }
        assert_eq!(group.take_owners_change(&mut shelf).unwrap(), None);
        set_quota(&ground, &inside, 5_000).unwrap();
        group.restore().unwrap();
        assert_eq!(told(&ground, &path), "60000 100000 0 100");
    }

    #[test]
    fn a_group_made_again_under_the_same_name_is_another_one() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"again");
        let mut old = adopted(&ground, &path);
        let kept = old.original().clone();
        ground.unmake(&path);
        ground.make(b"again");
        let new = Group::open(&ground.layout, &path).unwrap();
        assert_ne!(new.identity(), old.group().identity());
        let found = walk(&ground.layout, ground.top(), WIDE).unwrap().found;
        assert_eq!(found.first().map(|found| found.identity), Some(new.identity()));
        assert!(old.group().sample(Moment::ORIGIN).is_err_and(|error| error.is_gone()));
        assert!(old.apply(&limit(100)).is_err_and(|error| error.is_gone()));
        assert!(old.restore().is_err_and(|error| error.is_gone()));
        assert!(new.adopt_again(kept).is_err_and(|error| error.is_gone()));
        assert_eq!(told(&ground, &path), "max 100000 0 100", "the new one was not touched");
    }

    #[test]
    fn a_group_that_vanishes_while_it_is_read_is_gone_and_nothing_else() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"flicker");
        let gone = Group::open(&ground.layout, &path).unwrap();
        ground.unmake(&path);
        let words = gone.settings().unwrap_err().to_string();
        assert_eq!(words, format!("the control group {path} is gone"));
        assert!(Group::open(&ground.layout, &path).is_err_and(|error| error.is_gone()));
        // Now at any moment of an opening, a reading and a writing, until each was seen.
        let (done, layout) = (AtomicBool::new(false), &ground.layout);
        let (mut whole, mut part, mut none) = (0, 0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for patience in (0..200).cycle() {
                    let made = Created::create(layout, &path).unwrap();
                    (0..patience).for_each(|_| std::thread::yield_now());
                    made.remove().unwrap();
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let _done = Done(&done);
            wait_for("a group that vanished half-way", || {
                match Group::open(layout, &path).map(every_use) {
                    Ok(Ok(())) => whole += 1,
                    Ok(Err(error)) if error.is_gone() => part += 1,
                    Err(error) if error.is_gone() => none += 1,
                    Ok(Err(error)) | Err(error) => panic!("{error}"),
                }
                (whole > 0 && part > 20 && none > 0).then_some(())
            });
        });
        println!("used {whole} times, gone meanwhile {part} times, gone before {none} times");
    }

    /// Reads and writes a group in every way there is.
    fn every_use(group: Group) -> Result<(), CgroupError> {
        group.sample(Moment::ORIGIN)?;
        let mut adopted = group.adopt(&mut Shelf::default())?;
        adopted.apply(&burst(100, 100))?;
        adopted.restore()?;
        Ok(())
    }

    /// Says that a test is done, also if it failed.
    struct Done<'a>(&'a AtomicBool);

    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_limit_above_holds_the_one_below() {
        let Some(mut ground) = Ground::prepared() else { return };
        let parent = ground.make(b"parent");
        let middle = ground.make(b"parent/middle");
        let path = ground.make(b"parent/middle/child");
        let mut child = adopted(&ground, &path);
        set_quota(&ground, &parent, 50_000).unwrap();
        set_quota(&ground, &middle, 50_000).unwrap();
        // Also the first limit of all, which the kernel's first version would refuse.
        let first = child.apply(&limit(900)).unwrap();
        assert_eq!(first.held_by.map(|above| above.limit), Some(Millicores::new(500)));
        let lower = child.apply(&limit(300)).unwrap();
        assert_eq!(lower.held_by, None);
        let held = child.apply(&limit(800)).unwrap();
        let above = held.held_by.expect("the parent has less");
        assert_eq!((above.path, above.limit), (middle, Millicores::new(500)));
        assert_eq!(told(&ground, &path), "50000 100000 0 100");
        child.restore().unwrap();
    }

    #[test]
    fn limited_groups_inside_move_with_the_one_around_them() {
        let Some(mut ground) = Ground::prepared() else { return };
        let pod = ground.make(b"pod");
        let [big, deep, free] =
            [&b"pod/big"[..], b"pod/big/deep", b"pod/free"].map(|name| ground.make(name));
        for (path, quota_us) in [(&pod, 100_000), (&big, 80_000), (&deep, 20_000)] {
            set_quota(&ground, path, quota_us).unwrap();
        }
        ground.write(&big, burst_file(&ground), "80000").unwrap();
        let mut family = adopted(&ground, &pod);
        assert_eq!(family.original().inner.len(), 2, "{:?}", family.original());
        let quotas = |ground: &Ground| {
            [&pod, &big, &deep, &free]
                .map(|path| told(ground, path))
                .map(|told| told.split(' ').next().map(str::to_owned).unwrap())
        };
        let steps = [
            (2000, ["200000", "160000", "40000", "max"]),
            (500, ["50000", "40000", "10000", "max"]),
            (100, ["10000", "8000", "2000", "max"]),
            (1000, ["100000", "80000", "20000", "max"]),
        ];
        for (milli, expected) in steps {
            let applied = family.apply(&limit(milli)).unwrap();
            assert_eq!(applied.inner_written, 2);
            assert_eq!(quotas(&ground), expected, "{milli}");
        }
        family.apply(&limit(40)).unwrap();
        let restored = family.restore().unwrap();
        assert_eq!(restored.inner_written, 2);
        assert_eq!(told(&ground, &pod), "100000 100000 0 100");
        assert_eq!(told(&ground, &big), "80000 100000 80000 100");
        assert_eq!(told(&ground, &deep), "20000 100000 0 100");
    }

    fn burst_file(ground: &Ground) -> &'static str {
        match ground.layout.version() {
            Version::V1 => "cpu.cfs_burst_us",
            Version::V2 => "cpu.max.burst",
        }
    }

    #[test]
    fn a_group_that_only_gets_leftovers_keeps_doing_so() {
        let Some(mut ground) = Ground::prepared() else { return };
        let path = ground.make(b"idle");
        ground.write(&path, "cpu.idle", "1").unwrap();
        let mut group = adopted(&ground, &path);
        assert_eq!(group.original().settings.weight, WeightInForce::Idle);
        let weight = Some(KernelWeight::from_request(Millicores::new(1000)));
        let applied = group.apply(&Target { weight, ..limit(500) }).unwrap();
        assert_eq!(applied.written, Written { quota: true, ..Written::default() });
        group.restore().unwrap();
        assert_eq!(ground.text(&path, "cpu.idle"), "1");
    }

    #[test]
    fn without_the_controller_a_group_can_be_read_but_not_adopted() {
        let Some(mut ground) = Ground::prepared() else { return };
        if ground.layout.version() == Version::V1 {
            // There the files are in every group of the hierarchy.
            return;
        }
        let parent = ground.make(b"parent");
        let path = ground.make(b"parent/child");
        ground.write(&parent, "cgroup.subtree_control", "-cpu").unwrap();
        let group = Group::open(&ground.layout, &path).unwrap();
        assert_eq!(group.sample(Moment::ORIGIN).unwrap().nr_periods, 0);
        let error = group.adopt(&mut Shelf::default()).unwrap_err();
        assert!(matches!(error, CgroupError::NoController { file: "cpu.max", .. }), "{error}");
    }

    #[test]
    fn what_dead_processes_left_behind_is_removed_with_everything_in_it() {
        let Some(mut ground) = Ground::prepared() else { return };
        // No process has a number that large.
        let dead = ground.make(b"left-4194305-7");
        let inside = ground.make(b"left-4194305-7/a");
        ground.make(b"left-4194305-7/a/b");
        let alive = ground.make(format!("left-{}-7", std::process::id()).as_bytes());
        let other = ground.make(b"left-over");
        let count = remove_left_behind(&ground.layout, ground.top(), b"left-").unwrap();
        assert_eq!(count, 1);
        let open = |path| Group::open(&ground.layout, path);
        assert!([&dead, &inside].into_iter().all(|path| open(path).is_err()));
        assert!([&alive, &other].into_iter().all(|path| open(path).is_ok()));
    }

    #[test]
    fn hostile_names_and_depths_are_listed_within_bounds() {
        let Some(mut ground) = Ground::prepared() else { return };
        let long = [b'x'; 200];
        let names: [&[u8]; 6] =
            [b"a\x1b[2Jb\r", b"\xff\xfe", b"tab\tand \"quotes\"", b"-rf", b"\\x2d\\", &long];
        for name in names {
            ground.make(name);
        }
        // The one name that the kernel itself has none of.
        assert!(Created::create(&ground.layout, &ground.path(b"a\nb")).is_err());
        let mut deep = b"deep".to_vec();
        ground.make(&deep);
        for _ in 0..20 {
            deep.extend(b"/deep");
            ground.make(&deep);
        }
        let listed = walk(&ground.layout, ground.top(), WIDE).unwrap();
        assert!(listed.cut_short && listed.refused.is_empty(), "{listed:?}");
        assert_eq!(listed.found.len(), names.len() + WIDE.depth);
        assert!(listed.found.is_sorted());
        for name in names {
            let path = ground.path(name);
            assert!(listed.found.iter().any(|found| found.path == path), "{path}");
            let group = Group::open(&ground.layout, &path).unwrap();
            group.sample(Moment::ORIGIN).unwrap();
            assert!(!path.to_string().contains(['\x1b', '\r', '\t']), "{path}");
        }
        let all =
            walk(&ground.layout, ground.top(), WalkLimits { depth: 64, groups: 4096 }).unwrap();
        assert_eq!((all.found.len(), all.cut_short), (names.len() + 21, false));
        let few = walk(&ground.layout, ground.top(), WalkLimits { depth: 64, groups: 5 }).unwrap();
        assert_eq!((few.found.len(), few.cut_short), (5, true));
        let nothing = ground.path(b"nothing");
        assert!(walk(&ground.layout, &nothing, WIDE).is_err_and(|error| error.is_gone()));
    }

    #[test]
    fn what_may_not_be_read_or_written_is_reported_and_the_rest_goes_on() {
        let Some(mut ground) = Ground::prepared() else { return };
        let open = ground.make(b"open");
        let shut = ground.make(b"shut");
        ground.make(b"shut/inside");
        let folder = shut.under(ground.layout.cpu_root());
        let mut group = adopted(&ground, &open);
        let file = match ground.layout.version() {
            Version::V1 => "cpu.cfs_quota_us",
            Version::V2 => "cpu.max",
        };
        let set_mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(&folder, 0);
        set_mode(&open.under(ground.layout.cpu_root()).join(file), 0o444);
        // Root is asked for permission, too, once it has given up the right not to be. Only this
        // thread has.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut mine = capabilities(None).unwrap();
                mine.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
                set_capabilities(None, mine).unwrap();
                let listed = walk(&ground.layout, ground.top(), WIDE).unwrap();
                let paths: Vec<_> = listed.found.iter().map(|found| &found.path).collect();
                assert_eq!(paths, [&open, &shut]);
                let [refused] = &listed.refused[..] else { panic!("{listed:?}") };
                let error = refused.error.to_string();
                assert_eq!(
                    error,
                    format!("{shut}: not allowed to use the group itself; this usually takes root")
                );
                let error = Group::open(&ground.layout, &shut).unwrap_err();
                assert!(matches!(error, CgroupError::NotAllowed { .. }), "{error}");
                let error = group.apply(&limit(100)).unwrap_err();
                let expected =
                    format!("{open}: not allowed to use {file}; this usually takes root");
                assert_eq!(error.to_string(), expected);
            });
        });
        set_mode(&folder, 0o755);
    }

    #[test]
    fn two_hundred_groups_are_found_read_and_written() {
        const COUNT: usize = 200;
        let Some(mut ground) = Ground::prepared() else { return };
        assert!(allow_open_files(4096) >= 1024);
        for number in 0..COUNT {
            ground.make(format!("g{number:03}").as_bytes());
        }
        let found = walk(&ground.layout, ground.top(), WIDE).unwrap().found;
        assert_eq!(found.len(), COUNT);
        let mut groups: Vec<Adopted> =
            found.iter().map(|found| adopted(&ground, &found.path)).collect();
        for (group, found) in groups.iter().zip(&found) {
            assert_eq!(group.group().identity(), found.identity);
            group.group().sample(Moment::ORIGIN).unwrap();
        }
        for (group, milli) in groups.iter_mut().zip(10..) {
            group.apply(&limit(milli)).unwrap();
        }
        let last = ground.path(b"g199");
        assert_eq!(told(&ground, &last), "20900 100000 0 100");
        for group in &mut groups {
            group.restore().unwrap();
        }
        assert_eq!(told(&ground, &last), "max 100000 0 100");
    }
}
