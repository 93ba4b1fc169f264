//! Calls kubectl on a testbed and gives its output back.
//!
//! The testbed's own questions go straight to the API server, so that disturbed traffic disturbs
//! only those that a test is about. Programs under test use the kubeconfig that the user gets.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A kubectl and the kubeconfig it uses.
#[derive(Clone, Debug)]
pub struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) cache: PathBuf,
}

impl Kubectl {
    /// What kubectl prints when called with `args`.
    ///
    /// # Errors
    ///
    /// If kubectl fails; the message has what it said.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        self.run_with(args, "")
    }

    /// The same, with `input` on its standard input.
    ///
    /// # Errors
    ///
    /// If kubectl fails; the message has what it said.
    pub fn run_with(&self, args: &[&str], input: &str) -> Result<String> {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut stdin = child.stdin.take().context("kubectl has no standard input")?;
        // It may end without reading all of it, and then says why.
        stdin.write_all(input.as_bytes()).ok();
        drop(stdin);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`kubectl {}` failed: {}", args.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The same as [`Kubectl::run`], as JSON.
    ///
    /// # Errors
    ///
    /// If kubectl fails or prints something else.
    pub fn json(&self, args: &[&str]) -> Result<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&self.run(&args)?).context("kubectl did not print JSON")
    }

    /// Creates or changes what `manifest` describes.
    ///
    /// # Errors
    ///
    /// If kubectl fails.
    pub fn apply(&self, manifest: &Value) -> Result<()> {
        self.run_with(&["apply", "-f", "-"], &manifest.to_string()).map(drop)
    }

    /// kubectl with `args`, to be started by the caller; for what does not end by itself.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--cache-dir").arg(&self.cache);
        command.args(args).env_remove("KUBECONFIG");
        command
    }
}
