//! The test ladder as plain data: which tiers there are, what each proves, and its commands.
//!
//! `plan` looks only at the facts it is given and runs nothing; `run` carries plans out. A tier
//! that would have nothing to do is never a passed tier: it is broken if that is a mistake, and
//! not run if the machine lacks something that the ladder does not insist on.

use std::fmt;
use std::path::PathBuf;

use crate::facts::{BROWSER_TEST, FUZZ_PACKAGE, Facts, KERNEL_TEST, README_COMMAND};
use crate::tier::Tier;
use crate::tools::{self, Need};

/// What a tier does on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Meet the needs, then take the steps, and stop at the first that fails.
    Run { needs: Vec<Need>, steps: Vec<Step>, note: Option<String> },
    /// The machine lacks something; the reason goes into the summary.
    NotRun(String),
    /// The repository lacks something that it must have; the tier fails.
    Broken(String),
}

/// One thing to do, and what has to come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Has to succeed.
    Run(Call),
    /// Has to succeed; if it fails, no later tier that needs a build can tell anything new.
    Build(Call),
    /// Has to succeed and to write the given text to its standard output.
    Prints(Call, &'static str),
    /// Builds test executables, of which every one has to pass in a virtual machine.
    Guest(Call),
    /// All have to succeed. The first runs beside the others, which run one after another and
    /// whose output is shown when they are done.
    Beside(Call, Vec<Call>),
    /// The file has to be there by now.
    Exists(PathBuf),
}

/// A program with its arguments and additions to its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(&'static str, String)>,
    /// A variable of our own environment that the program must not see.
    pub(crate) without: Option<&'static str>,
}

/// What `tier` does, given `facts`.
pub(crate) fn plan(tier: Tier, facts: &Facts) -> Plan {
    match tier {
        Tier::Format => Plan::Run {
            needs: vec![Need::Component { name: "rustfmt", command: "fmt" }],
            steps: vec![Step::Run(Call::cargo("fmt --all --check"))],
            note: None,
        },
        Tier::Lints => Plan::Run {
            needs: vec![Need::Component { name: "clippy", command: "clippy" }],
            steps: vec![Step::Run(lint_command(facts))],
            note: None,
        },
        Tier::Policy => policy(facts),
        Tier::Pure => Plan::Run {
            needs: vec![Need::Target("x86_64-unknown-none")],
            steps: vec![Step::Run(Call::cargo(
                "build --package walras-core --target x86_64-unknown-none",
            ))],
            note: None,
        },
        Tier::Tidy => steps(vec![Step::Run(Call::cargo("test --package xtask --no-fail-fast"))]),
        Tier::Unit => unit(facts),
        Tier::Property => property(facts),
        Tier::Kernel => kernel(facts),
        Tier::Guest => guest(facts),
        Tier::Vm => vm(facts),
        Tier::Browser => browser(facts),
        Tier::Docker => docker(facts),
        Tier::Kube => kube(facts),
        Tier::Doc => steps(vec![
            Step::Run(product_tests(facts).arg("--doc")),
            Step::Run(Call::cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-Dwarnings")),
        ]),
        Tier::Corpus => corpus(facts),
        Tier::Fuzz => fuzz(facts),
        Tier::Manual => manual(facts),
    }
}

/// The command that writes the man pages to `folder`.
pub(crate) fn man_pages(folder: &str) -> Call {
    Call::cargo("run --package walras --quiet -- man --out").arg(folder)
}

/// A program of ours, which is built along with the integration tests of its package.
fn built(facts: &Facts, program: &str) -> Call {
    Call::new(facts.places.target.join("debug").join(program).display().to_string())
}

fn steps(steps: Vec<Step>) -> Plan {
    Plan::Run { needs: Vec::new(), steps, note: None }
}

fn policy(facts: &Facts) -> Plan {
    let deny = || Call::new(tools::CARGO_DENY.program(&facts.places).display().to_string());
    let mut steps = vec![Step::Run(deny().args("check bans licenses sources"))];
    let mut note = None;
    if facts.advisories {
        steps.push(Step::Run(deny().args("check advisories")));
    } else {
        note = Some(
            "known vulnerabilities were left out, because their database comes from the network; \
             include them with `WALRAS_ADVISORIES=1 cargo xtask test --tier policy`"
                .to_owned(),
        );
    }
    Plan::Run { needs: vec![Need::Tool(tools::CARGO_DENY)], steps, note }
}

/// `cargo test` for the product's packages. Always all of them with all of their features,
/// whichever tests are chosen then: another set of packages would be another set of features of
/// what they depend on, and all of that would be compiled again.
fn product_tests(facts: &Facts) -> Call {
    let call = Call::cargo("test --workspace --exclude xtask");
    let call = if facts.has_fuzz() { call.args("--exclude").arg(FUZZ_PACKAGE) } else { call };
    call.arg("--features").arg(all_features(facts))
}

fn is_property(test: &str) -> bool {
    test.starts_with("prop_")
}

/// What tests on the kernel are behind.
const KERNEL_FEATURE: &str = "real-kernel";
/// Where guests' programs have to run: anywhere, without any library.
const GUEST_TARGET: &str = "x86_64-unknown-linux-musl";
/// Packages whose tests on the kernel do not depend on how fast a machine is.
const GUEST_PACKAGES: [&str; 2] = ["walras-cgroup", "walras"];
/// Where fuzz targets run.
const FUZZ_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The tests that start a Docker, and what they are behind.
const DOCKER_TEST: &str = "docker";
const DOCKER_FEATURE: &str = "walras/real-docker";

/// The tests that start virtual machines, and what they are behind.
const VM_TEST: &str = "vm";
const VM_FEATURE: &str = "walras-vm/real-vm";

/// The tests that start clusters, or what belongs to one.
const CLUSTER_TESTS: [&str; 3] = ["cluster", "kube", "prometheus"];
const CLUSTER_FEATURE: &str =
    "walras-testbed/real-cluster,walras/real-cluster,walras-kube/real-prometheus";

/// Every feature that only adds tests.
fn all_features(facts: &Facts) -> String {
    let kernel = features(&facts.workspace.kernel_packages, KERNEL_FEATURE);
    let browser = features(&facts.workspace.browser_packages, BROWSER_TEST);
    format!("{kernel},{browser},{DOCKER_FEATURE},{VM_FEATURE},{CLUSTER_FEATURE}")
}

/// With the features, so that tests that only some machines can run are linted everywhere.
fn lint_command(facts: &Facts) -> Call {
    let call = Call::cargo("clippy --workspace --all-targets --features").arg(all_features(facts));
    call.args("-- -D warnings")
}

/// The tests that need more than a compiler: root, and the control groups of a kernel.
fn kernel(facts: &Facts) -> Plan {
    let packages = &facts.workspace.kernel_packages;
    if packages.is_empty() {
        return Plan::Broken(format!("no integration test is called `{KERNEL_TEST}`"));
    }
    steps(vec![Step::Run(special_tests(facts, KERNEL_TEST))])
}

/// The tests of this name, which are behind a feature.
fn special_tests(facts: &Facts, test: &str) -> Call {
    product_tests(facts).arg("--test").arg(test).args("--no-fail-fast -- --nocapture")
}

fn features(packages: &[String], feature: &str) -> String {
    let features = packages.iter().map(|package| format!("{package}/{feature}"));
    features.collect::<Vec<_>>().join(",")
}

fn guest(facts: &Facts) -> Plan {
    if !facts.guest {
        return Plan::NotRun("neither QEMU nor a Debian system to get it from".to_owned());
    }
    let build = Call::cargo("test --no-run --message-format=json-render-diagnostics --target");
    let build = GUEST_PACKAGES
        .iter()
        .fold(build.arg(GUEST_TARGET), |build, package| build.arg("--package").arg(*package))
        .arg("--features")
        .arg(features(&GUEST_PACKAGES.map(str::to_owned), KERNEL_FEATURE))
        .arg("--test")
        .arg(KERNEL_TEST);
    // Here because this tier has what is needed from Debian already, and is not the last.
    let bpf = Call::cargo("run --quiet --package xtask -- bpf --check");
    let needs =
        vec![Need::Target(GUEST_TARGET), Need::StaticCompiler, Need::BpfCompiler, Need::Guest];
    Plan::Run { needs, steps: vec![Step::Run(bpf), Step::Guest(build)], note: None }
}

/// The tests of what runs virtual machines, with the kernel of the tier `guest`.
fn vm(facts: &Facts) -> Plan {
    if !facts.guest {
        return Plan::NotRun("neither QEMU nor a Debian system to get it from".to_owned());
    }
    let guest = facts.places.cache.join("guest").display().to_string();
    let call = special_tests(facts, VM_TEST).env("WALRAS_GUEST", &guest);
    Plan::Run { needs: vec![Need::Guest], steps: vec![Step::Run(call)], note: None }
}

/// The tests of the pages.
fn browser(facts: &Facts) -> Plan {
    let packages = &facts.workspace.browser_packages;
    if packages.is_empty() {
        return Plan::Broken(format!("no integration test is called `{BROWSER_TEST}`"));
    }
    if !facts.browser {
        return Plan::NotRun("neither Chromium nor a Debian system to get it from".to_owned());
    }
    let call = special_tests(facts, BROWSER_TEST);
    Plan::Run { needs: vec![Need::Browser], steps: vec![Step::Run(call)], note: None }
}

/// The tests of what runs containers, on a Docker of their own.
fn docker(facts: &Facts) -> Plan {
    if !facts.guest {
        return Plan::NotRun("no Debian system to get Docker from".to_owned());
    }
    let prepare = Call::cargo("run --quiet --package xtask -- docker");
    steps(vec![Step::Run(prepare), Step::Run(special_tests(facts, DOCKER_TEST))])
}

fn unit(facts: &Facts) -> Plan {
    steps(vec![build_unit_tests(facts), Step::Run(unit_tests(facts).arg("--no-fail-fast"))])
}

/// Builds them, and the programs that some of them run: `walras` is one.
fn build_unit_tests(facts: &Facts) -> Step {
    Step::Build(unit_tests(facts).arg("--no-run"))
}

/// The unit tests, and the integration tests that need nothing but a compiler.
fn unit_tests(facts: &Facts) -> Call {
    let mut call = product_tests(facts).args("--lib --bins");
    let is_special = |test: &str| {
        [KERNEL_TEST, BROWSER_TEST, DOCKER_TEST, VM_TEST].contains(&test)
            || CLUSTER_TESTS.contains(&test)
    };
    let ordinary = |test: &&String| !is_property(test) && !is_special(test);
    for test in facts.workspace.tests.iter().filter(ordinary) {
        call = call.arg("--test").arg(test);
    }
    call
}

fn property(facts: &Facts) -> Plan {
    let mut call = product_tests(facts);
    let mut tests = facts.workspace.tests.iter().filter(|test| is_property(test)).peekable();
    if tests.peek().is_none() {
        return Plan::Broken("no integration test has a name that begins with `prop_`".to_owned());
    }
    for test in tests {
        call = call.arg("--test").arg(test);
    }
    // Without capture, because the seeds and the numbers of cases are the point.
    steps(vec![Step::Run(call.args("--no-fail-fast -- --nocapture"))])
}

fn kube(facts: &Facts) -> Plan {
    if facts.without_kubernetes {
        return Plan::NotRun("WALRAS_WITHOUT_KUBERNETES is set".to_owned());
    }
    // What keeps a cluster running is taken as it was built, and not built again for each.
    let keeper = built(facts, "walras-testbed").program;
    let tests = |test| special_tests(facts, test).env("CARGO_BIN_EXE_walras-testbed", &keeper);
    let manifest = facts.places.root.join("crates/testbed").display().to_string();
    let prepare =
        built(facts, "walras-testbed").arg("prepare").env("CARGO_MANIFEST_DIR", &manifest);
    // These tests, because Cargo builds a package's programs for its integration tests only: with
    // any others, the program that is called next would not be there on a new machine.
    let build =
        CLUSTER_TESTS.iter().fold(product_tests(facts), |call, test| call.arg("--test").arg(*test));
    let mut all = vec![Step::Build(build.arg("--no-run"))];
    // As the testbed builds what goes into images: while one test did, the others would wait for
    // cargo, and some of them beside a running cluster.
    for package in ["walras-loadgen", "walras"] {
        let image = Call::cargo("build --quiet --bins --package").arg(package).arg("--target");
        all.push(Step::Build(image.arg(GUEST_TARGET)));
    }
    // Prepared first, because this shows how far it is, and tests do not.
    all.push(Step::Run(prepare));
    all.push(Step::Run(tests("cluster")));
    // It needs no cluster, and is done long before the others are.
    all.push(Step::Beside(tests("kube"), vec![tests("prometheus")]));
    let needs = vec![Need::Target(GUEST_TARGET), Need::StaticCompiler, Need::Go];
    Plan::Run { needs, steps: all, note: None }
}

/// The test of the tier `kube` that goes on for as long as it is told.
const SOAK_TEST: &str = "faults::nothing_is_lost_whatever_breaks";

/// Faults and hostile tenants on a cluster for so many minutes, and the same again where a seed is
/// named.
pub(crate) fn soak(facts: &Facts, minutes: u32, seed: Option<u64>) -> Call {
    let call = product_tests(facts).args("--test kube");
    let call = call.args("--no-fail-fast -- --nocapture --exact").arg(SOAK_TEST);
    let call = call.env("WALRAS_FAULT_MINUTES", &minutes.to_string());
    seed.into_iter().fold(call, |call, seed| call.env("WALRAS_FAULT_SEED", &seed.to_string()))
}

/// The command that starts, lists and ends testbeds.
pub(crate) fn testbed() -> Call {
    Call::cargo("run --quiet --package walras-testbed --")
}

fn corpus(facts: &Facts) -> Plan {
    if !facts.has_fuzz() {
        return Plan::Broken(format!("the workspace has no package {FUZZ_PACKAGE}"));
    }
    steps(vec![Step::Run(Call::cargo("test --package").arg(FUZZ_PACKAGE))])
}

fn fuzz(facts: &Facts) -> Plan {
    if facts.workspace.fuzz_targets.is_empty() {
        return Plan::Broken(format!("the package {FUZZ_PACKAGE} has no fuzz targets"));
    }
    let Some(nightly) = &facts.nightly else {
        return Plan::NotRun("no nightly toolchain".to_owned());
    };
    let places = &facts.places;
    let mut needs = vec![Need::Tool(tools::CARGO_FUZZ)];
    let build = Call::new(tools::CARGO_FUZZ.program(places).display().to_string())
        .args("build --fuzz-dir fuzz --features libfuzzer --target")
        .arg(FUZZ_TARGET)
        .arg("--target-dir")
        .arg(places.fuzz_target.display().to_string())
        .env("RUSTUP_TOOLCHAIN", nightly);
    // All at once, and our own cargo names itself in CARGO, and is not of the nightly toolchain.
    let mut steps = vec![Step::Run(Call { without: Some("CARGO"), ..build })];
    let built = places.fuzz_target.join(FUZZ_TARGET).join("release");
    for target in &facts.workspace.fuzz_targets {
        // libFuzzer writes what it finds to the first folder and only reads the others.
        let found = places.cache.join("fuzz-corpus").join(target);
        let committed = places.root.join("fuzz/corpus").join(target);
        let artifacts = places.cache.join("fuzz-artifacts").join(target);
        let call = Call::new(built.join(target).display().to_string())
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(format!("-max_total_time={}", facts.fuzz_seconds))
            .args("-rss_limit_mb=4096 -timeout=60 -verbosity=0 -print_final_stats=1")
            .arg(found.display().to_string())
            .arg(committed.display().to_string());
        steps.push(Step::Exists(committed));
        steps.push(Step::Run(call));
        needs.push(Need::Folder(artifacts));
        needs.push(Need::Folder(found));
    }
    Plan::Run { needs, steps, note: None }
}

fn manual(facts: &Facts) -> Plan {
    let Some(command) = &facts.readme_command else {
        return Plan::Broken(format!(
            "README.md has no code block that begins with `{README_COMMAND}`"
        ));
    };
    let pages = facts.places.target.join("xtask/man");
    let man = built(facts, "walras").args("man --out").arg(pages.display().to_string());
    let mut steps =
        vec![build_unit_tests(facts), Step::Run(man), Step::Exists(pages.join("walras.1"))];
    for shell in ["bash", "zsh", "fish"] {
        let call = built(facts, "walras").arg("completions").arg(shell);
        steps.push(Step::Prints(call, "walras"));
    }
    steps.push(Step::Run(Call::new("sh").arg("-c").arg(command)));
    Plan::Run { needs: vec![Need::EmptyFolder(pages)], steps, note: None }
}

// === impl Facts ===

impl Facts {
    fn has_fuzz(&self) -> bool {
        self.workspace.packages.iter().any(|name| name == FUZZ_PACKAGE)
    }
}

// === impl Call ===

impl Call {
    fn new(program: impl Into<String>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new(), without: None }
    }

    /// A cargo call, with its arguments as one would type them.
    fn cargo(args: &str) -> Self {
        Self::new("cargo").args(args)
    }

    /// Adds the arguments in `args`, which spaces separate.
    fn args(mut self, args: &str) -> Self {
        self.args.extend(args.split(' ').map(str::to_owned));
        self
    }

    /// Adds one argument as it is.
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    fn env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }
}

impl fmt::Display for Call {
    /// As one would type it, except that the program goes by its last name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={value} ")?;
        }
        f.write_str(self.program.rsplit('/').next().unwrap_or(&self.program))?;
        self.args.iter().try_for_each(|arg| {
            if arg.contains(' ') { write!(f, " '{arg}'") } else { write!(f, " {arg}") }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Workspace;
    use crate::tools::Places;
    use clap::ValueEnum as _;

    /// How every call begins that tests the product.
    const TESTS: &str = "cargo test --workspace --exclude xtask --exclude walras-fuzz --features \
        walras-cgroup/real-kernel,walras-sim/real-kernel,walras-node/browser,walras-kube/browser,\
        walras/real-docker,walras-vm/real-vm,walras-testbed/real-cluster,walras/real-cluster,\
        walras-kube/real-prometheus";

    fn facts() -> Facts {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Facts {
            places: Places {
                root: "/repo".into(),
                cache: "/c".into(),
                target: "/c/target".into(),
                fuzz_target: "/c/target-fuzz".into(),
                shared: true,
            },
            workspace: Workspace {
                packages: names(&["walras", "walras-core", "walras-fuzz", "xtask"]),
                tests: names(&["browser", "golden", "kernel", "prop_market", "prop_need"]),
                fuzz_targets: names(&["parse"]),
                kernel_packages: names(&["walras-cgroup", "walras-sim"]),
                browser_packages: names(&["walras-node", "walras-kube"]),
            },
            guest: true,
            browser: true,
            nightly: Some("nightly-x".to_owned()),
            readme_command: Some("cargo run --release -- sim 'a b'".to_owned()),
            advisories: false,
            without_kubernetes: false,
            fuzz_seconds: 5,
        }
    }

    /// The plan as text, a line for each step, without the needs.
    fn check(tier: Tier, facts: &Facts) -> String {
        match plan(tier, facts) {
            Plan::NotRun(reason) => format!("not run: {reason}"),
            Plan::Broken(reason) => format!("broken: {reason}"),
            Plan::Run { steps, .. } => {
                let lines = steps.iter().map(|step| match step {
                    Step::Run(call) => call.to_string(),
                    Step::Build(call) => format!("build: {call}"),
                    Step::Guest(call) => format!("guest: {call}"),
                    Step::Beside(first, others) => {
                        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
                        format!("{first}\nbeside: {}", others.join("\nbeside: "))
                    }
                    Step::Prints(call, text) => format!("{call} | has {text}"),
                    Step::Exists(path) => format!("has {}", path.display()),
                });
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }

    #[test]
    fn a_soak_is_one_test_for_so_many_minutes() {
        let call = soak(&facts(), 60, Some(7));
        let expected = format!(
            "WALRAS_FAULT_MINUTES=60 WALRAS_FAULT_SEED=7 {TESTS} --test kube --no-fail-fast -- \
             --nocapture --exact {SOAK_TEST}"
        );
        assert_eq!(call.to_string(), expected);
    }

    #[test]
    fn names_on_the_command_line_and_in_the_summary_agree() {
        for tier in Tier::value_variants() {
            let value = tier.to_possible_value().unwrap();
            assert_eq!(value.get_name(), tier.name());
        }
    }

    #[test]
    fn all_tiers_together_take_less_than_an_hour() {
        let budgets = Tier::value_variants().iter().map(|tier| tier.budget_s());
        assert!(budgets.sum::<u32>() <= 3600);
    }

    #[test]
    fn unit_and_property_tests_divide_the_integration_tests_by_name() {
        let tests = TESTS;
        let unit = format!("{tests} --lib --bins --test golden");
        let both = format!("build: {unit} --no-run\n{unit} --no-fail-fast");
        assert_eq!(check(Tier::Unit, &facts()), both);
        let property =
            format!("{tests} --test prop_market --test prop_need --no-fail-fast -- --nocapture");
        assert_eq!(check(Tier::Property, &facts()), property);
    }

    #[test]
    fn tests_on_the_kernel_run_here_and_those_that_need_no_speed_in_a_guest() {
        let kernel = format!("{TESTS} --test kernel --no-fail-fast -- --nocapture");
        assert_eq!(check(Tier::Kernel, &facts()), kernel);
        let guest = "cargo run --quiet --package xtask -- bpf --check\n\
            guest: cargo test --no-run --message-format=json-render-diagnostics --target \
            x86_64-unknown-linux-musl --package walras-cgroup --package walras --features \
            walras-cgroup/real-kernel,walras/real-kernel --test kernel";
        assert_eq!(check(Tier::Guest, &facts()), guest);
        let elsewhere = Facts { guest: false, ..facts() };
        assert!(check(Tier::Guest, &elsewhere).starts_with("not run: "));
    }

    #[test]
    fn every_page_is_tested_in_one_browser_where_one_can_be_had() {
        let expected = format!("{TESTS} --test browser --no-fail-fast -- --nocapture");
        assert_eq!(check(Tier::Browser, &facts()), expected);
        let elsewhere = Facts { browser: false, ..facts() };
        assert!(check(Tier::Browser, &elsewhere).starts_with("not run: "));
    }

    #[test]
    fn a_tier_with_nothing_to_do_is_broken() {
        let mut bare = facts();
        bare.workspace = Workspace { packages: vec!["walras".into()], ..Workspace::default() };
        bare.readme_command = None;
        let broken =
            [Tier::Property, Tier::Kernel, Tier::Browser, Tier::Corpus, Tier::Fuzz, Tier::Manual];
        for tier in broken {
            assert!(check(tier, &bare).starts_with("broken: "), "{tier:?}");
        }
        let unit = check(Tier::Unit, &bare);
        assert!(!unit.contains("walras-fuzz"), "cargo warns about unknown exclusions: {unit}");
    }

    #[test]
    fn fuzzing_needs_a_nightly_toolchain_and_never_writes_to_the_checkout() {
        let expected = "RUSTUP_TOOLCHAIN=nightly-x cargo-fuzz build --fuzz-dir fuzz --features \
            libfuzzer --target x86_64-unknown-linux-gnu --target-dir /c/target-fuzz\n\
            has /repo/fuzz/corpus/parse\n\
            parse -artifact_prefix=/c/fuzz-artifacts/parse/ -max_total_time=5 -rss_limit_mb=4096 \
            -timeout=60 -verbosity=0 -print_final_stats=1 /c/fuzz-corpus/parse \
            /repo/fuzz/corpus/parse";
        assert_eq!(check(Tier::Fuzz, &facts()), expected);
        let without = Facts { nightly: None, ..facts() };
        assert_eq!(check(Tier::Fuzz, &without), "not run: no nightly toolchain");
    }

    #[test]
    fn clusters_are_prepared_before_they_are_tested_and_left_out_only_on_request() {
        let keeper = "CARGO_BIN_EXE_walras-testbed=/c/target/debug/walras-testbed";
        let tests = |name| format!("{keeper} {TESTS} --test {name} --no-fail-fast -- --nocapture");
        let image = |package| {
            format!(
                "build: cargo build --quiet --bins --package {package} --target \
                 x86_64-unknown-linux-musl"
            )
        };
        let expected = format!(
            "build: {TESTS} --test cluster --test kube --test prometheus --no-run\n\
             {}\n{}\n\
             CARGO_MANIFEST_DIR=/repo/crates/testbed walras-testbed prepare\n\
             {}\n{}\nbeside: {}",
            image("walras-loadgen"),
            image("walras"),
            tests("cluster"),
            tests("kube"),
            tests("prometheus")
        );
        assert_eq!(check(Tier::Kube, &facts()), expected);
        let without = Facts { without_kubernetes: true, ..facts() };
        assert_eq!(check(Tier::Kube, &without), "not run: WALRAS_WITHOUT_KUBERNETES is set");
        let mut more = facts();
        more.workspace.tests.extend(CLUSTER_TESTS.map(String::from));
        assert_eq!(check(Tier::Unit, &more), check(Tier::Unit, &facts()));
    }

    #[test]
    fn the_network_is_used_only_on_request_and_leaving_it_out_is_said() {
        let note = |facts: &Facts| match plan(Tier::Policy, facts) {
            Plan::Run { note, .. } => note,
            Plan::NotRun(_) | Plan::Broken(_) => None,
        };
        let asked = Facts { advisories: true, ..facts() };
        assert_eq!(check(Tier::Policy, &facts()), "cargo-deny check bans licenses sources");
        assert!(note(&facts()).unwrap().contains("WALRAS_ADVISORIES=1"));
        assert!(check(Tier::Policy, &asked).ends_with("\ncargo-deny check advisories"));
        assert_eq!(note(&asked), None);
    }

    #[test]
    fn the_manual_tier_ends_with_the_command_of_the_readme() {
        let text = check(Tier::Manual, &facts());
        let lines: Vec<_> = text.lines().collect();
        let man = "walras man --out /c/target/xtask/man";
        assert_eq!(lines[1..3], [man, "has /c/target/xtask/man/walras.1"]);
        assert_eq!(lines[3], "walras completions bash | has walras");
        assert!(lines[6].starts_with("sh -c 'cargo run --release -- sim"), "{text}");
        assert_eq!(lines.len(), 7);
    }
}
