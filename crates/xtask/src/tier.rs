//! The tiers of the ladder: what each is called, what it proves, and how long it may take.

use clap::ValueEnum;

/// One rung of the ladder, in the order in which they are climbed: cheap before dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Tier {
    Format,
    Lints,
    Policy,
    Pure,
    Tidy,
    Unit,
    Property,
    Kernel,
    Guest,
    Vm,
    Browser,
    Docker,
    Kube,
    Doc,
    Corpus,
    Fuzz,
    Manual,
}

impl Tier {
    /// The name on the command line and in the summary.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Lints => "lints",
            Self::Policy => "policy",
            Self::Pure => "pure",
            Self::Tidy => "tidy",
            Self::Unit => "unit",
            Self::Property => "property",
            Self::Kernel => "kernel",
            Self::Guest => "guest",
            Self::Vm => "vm",
            Self::Browser => "browser",
            Self::Docker => "docker",
            Self::Kube => "kube",
            Self::Doc => "doc",
            Self::Corpus => "corpus",
            Self::Fuzz => "fuzz",
            Self::Manual => "manual",
        }
    }

    /// What is known once the tier has passed.
    pub(crate) fn proves(self) -> &'static str {
        match self {
            Self::Format => "the code is laid out by rustfmt",
            Self::Lints => "clippy has no complaint about any target",
            Self::Policy => "licences, duplicates and sources of dependencies are as agreed",
            Self::Pure => "the core builds for a machine without an operating system",
            Self::Tidy => "the repository keeps its own rules, and this tool works",
            Self::Unit => "every unit and integration test passes",
            Self::Property => "the market keeps its promises on generated inputs",
            Self::Kernel => "control groups of this kernel work, and the simulator is like them",
            Self::Guest => {
                "the market runs on control groups of the second version, in a virtual machine"
            }
            Self::Vm => "virtual machines start, grow, shrink, move and end on a real QEMU",
            Self::Browser => "the pages of a node and of a cluster work in a real browser",
            Self::Docker => "containers are run on a real Docker, whatever dies on the way",
            Self::Kube => {
                "a real Kubernetes starts, resizes a pod in place, breaks, mends and ends"
            }
            Self::Doc => "examples in the documentation run, and its links lead somewhere",
            Self::Corpus => "every input that fuzzing ever kept is still handled",
            Self::Fuzz => "a short search finds no input that breaks a parser or an invariant",
            Self::Manual => "man pages, completions and the first command of the README work",
        }
    }

    /// How many seconds it may take on a new machine with two cores. Together less than an hour:
    /// whoever needs more in one tier finds it in another.
    pub(crate) const fn budget_s(self) -> u32 {
        match self {
            Self::Format => 5,
            Self::Lints => 180,
            Self::Policy => 240,
            Self::Pure => 30,
            Self::Tidy => 90,
            Self::Unit => 480,
            Self::Property => 200,
            Self::Kernel => 100,
            Self::Guest => 220,
            Self::Vm => 90,
            Self::Browser => 120,
            Self::Docker => 60,
            Self::Kube => 1200,
            Self::Doc => 45,
            Self::Corpus => 30,
            Self::Fuzz => 200,
            Self::Manual => 300,
        }
    }

    /// Whether the tier can only repeat the compiler's message where the product does not build.
    pub(crate) fn repeats_a_broken_build(self) -> bool {
        match self {
            Self::Format | Self::Lints | Self::Policy | Self::Pure | Self::Tidy | Self::Unit => {
                false
            }
            Self::Property
            | Self::Kernel
            | Self::Guest
            | Self::Vm
            | Self::Browser
            | Self::Docker
            | Self::Kube
            | Self::Doc
            | Self::Corpus
            | Self::Fuzz
            | Self::Manual => true,
        }
    }
}
