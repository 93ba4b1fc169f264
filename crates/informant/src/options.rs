//! The command line: few flags, each with a default that is right in a guest of ours. The key never
//! is one of them, since every program in a guest can read command lines.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Where QEMU's `fw_cfg` shows the key in a guest. Only root can read it.
pub const KEY_FILE: &str = "/sys/firmware/qemu_fw_cfg/by_name/opt/dev.walras/key/raw";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Some text.
    Help(String),
    /// To run.
    Run(Options),
}

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where agents are answered.
    pub listen: SocketAddr,
    /// Where metrics are.
    pub metrics_listen: SocketAddr,
    /// The file with the key.
    pub key_file: PathBuf,
    /// The group of workloads whose memory is limited with the guest's.
    pub cgroup: Option<PathBuf>,
    /// Whether CPUs and memory that were plugged in are brought online.
    pub online: bool,
    /// The folder under which `proc` and `sys` are.
    pub root: PathBuf,
}

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// A flag that is none.
    #[error("{flag}: no such flag; `walras-informant --help` lists them")]
    Unknown {
        /// What was typed.
        flag: String,
    },
    /// A flag without its value.
    #[error("{flag}: a value has to follow")]
    NoValue {
        /// Which.
        flag: String,
    },
    /// A value that is no address.
    #[error("{flag}: {value:?} is not an address with a port such as 0.0.0.0:10301")]
    NoAddress {
        /// Of which flag.
        flag: String,
        /// What was typed.
        value: String,
    },
}

const HELP: &str = "\
The program in a guest of Walras: metrics for the agent of its machine, approval of
shrinking, requests for more, and CPUs and memory online when they are plugged in.

Usage: walras-informant [FLAGS]

  --listen ADDR          where agents are answered       [0.0.0.0:10301]
  --metrics-listen ADDR  where Prometheus metrics are    [0.0.0.0:9100]
  --key-file PATH        64 hexadecimal digits, shared with the agent; by default what
                         QEMU was given as -fw_cfg name=opt/dev.walras/key,file=PATH
  --cgroup PATH          limit this group's memory with the guest's (memory.high)
  --no-online            leave plugged CPUs and memory as the kernel does
  --root DIR             where proc and sys are          [/]
  --help, --version

Run it as root from the guest's init; docs/informant.md has examples.";

/// Reads a command line, without the program's name.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn read(words: impl IntoIterator<Item = String>) -> Result<Asked, OptionsError> {
    let mut options = Options::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (flag, given) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let mut value = || {
            let value = given.clone().or_else(|| words.next());
            value.ok_or_else(|| OptionsError::NoValue { flag: flag.clone() })
        };
        match flag.as_str() {
            "--help" | "-h" => return Ok(Asked::Help(HELP.to_owned())),
            "--version" => return Ok(Asked::Help(version())),
            "--listen" => options.listen = address(&flag, value()?)?,
            "--metrics-listen" => options.metrics_listen = address(&flag, value()?)?,
            "--key-file" => options.key_file = value()?.into(),
            "--cgroup" => options.cgroup = Some(value()?.into()),
            "--no-online" => options.online = false,
            "--root" => options.root = value()?.into(),
            _ => return Err(OptionsError::Unknown { flag }),
        }
    }
    Ok(Asked::Run(options))
}

fn version() -> String {
    format!("walras-informant {}", env!("CARGO_PKG_VERSION"))
}

fn address(flag: &str, value: String) -> Result<SocketAddr, OptionsError> {
    value.parse().map_err(|_| OptionsError::NoAddress { flag: flag.to_owned(), value })
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 10301)),
            metrics_listen: SocketAddr::from(([0, 0, 0, 0], 9100)),
            key_file: KEY_FILE.into(),
            cgroup: None,
            online: true,
            root: "/".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Asked, OptionsError> {
        read(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_have_defaults_and_both_spellings() {
        assert_eq!(asked(""), Ok(Asked::Run(Options::default())));
        let Ok(Asked::Run(options)) = asked("--listen=127.0.0.1:1 --cgroup /x --no-online") else {
            panic!("flags are fine");
        };
        assert_eq!(options.listen.port(), 1);
        assert_eq!((options.cgroup, options.online), (Some("/x".into()), false));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value() {
        for (words, told) in [
            ("--colour", "--colour: no such flag"),
            ("--listen", "--listen: a value has to follow"),
            ("--listen here", "--listen: \"here\" is not an address with a port"),
        ] {
            let error = asked(words).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
