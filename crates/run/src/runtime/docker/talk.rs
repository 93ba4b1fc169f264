//! What containers write, and commands that are run in them.

use bollard::Docker as Engine;
use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use bollard::query_parameters::LogsOptions;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use walras_core::run::{Fault, FaultKind};

use super::Docker;
use super::faults::Tried;
use crate::runtime::{Output, RuntimeLogs, RuntimeOutput};

impl Docker {
    /// What containers wrote; each line of several begins with the name of its container.
    pub(in crate::runtime) fn logs_of(
        &self,
        containers: Vec<(String, String)>,
        tail: u32,
        follow: bool,
    ) -> RuntimeLogs<'_> {
        let told = async move {
            let engine = self.engine().await?;
            let several = containers.len() > 1;
            let all = containers.into_iter().map(|(name, handle)| {
                let lines = self.lines(&engine, &handle, tail, follow);
                let named = move |line: Vec<u8>| {
                    if several { [name.as_bytes(), b" | ", &line].concat() } else { line }
                };
                lines.map_ok(named).boxed()
            });
            let all: Vec<BoxStream<'_, _>> = all.collect();
            Ok::<_, Fault>(stream::select_all(all))
        };
        stream::once(told).try_flatten().boxed()
    }

    fn lines(
        &self,
        engine: &Engine,
        handle: &str,
        tail: u32,
        follow: bool,
    ) -> impl futures_util::Stream<Item = Result<Vec<u8>, Fault>> + Send + '_ {
        let options = LogsOptions {
            follow,
            stdout: true,
            stderr: true,
            tail: tail.to_string(),
            ..Default::default()
        };
        let lines = engine.logs(handle, Some(options)).map_ok(|line| line.into_bytes().to_vec());
        lines.map_err(|error| self.fault(&error, Tried::Question))
    }

    /// Runs a command in a container.
    pub(in crate::runtime) fn exec_in(
        &self,
        handle: String,
        command: Vec<String>,
        input: Option<mpsc::Receiver<Vec<u8>>>,
    ) -> RuntimeOutput<'_> {
        let begun = async move {
            let engine = self.engine().await?;
            let fault = |error| self.fault(&error, Tried::Exec);
            let config = ExecConfig {
                attach_stdin: Some(input.is_some()),
                attach_stdout: Some(true),
                attach_stderr: Some(true),
                cmd: Some(command),
                ..Default::default()
            };
            let made = self.soon(engine.create_exec(&handle, config)).await?;
            let started = engine.start_exec(&made.id, None).await.map_err(fault)?;
            let StartExecResults::Attached { output, input: mut to } = started else {
                let words = "the command was started and nobody is told what it writes";
                return Err(Fault::new(FaultKind::Runtime, words));
            };
            let fed = async move {
                let Some(mut from) = input else { return };
                while let Some(bytes) = from.recv().await {
                    // A command that does not read ends by itself.
                    if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                        return;
                    }
                }
                to.shutdown().await.ok();
            };
            tokio::spawn(fed);
            let written = output.map_ok(|piece| match piece {
                LogOutput::StdErr { message } => Output::Error(message.to_vec()),
                LogOutput::StdOut { message }
                | LogOutput::StdIn { message }
                | LogOutput::Console { message } => Output::Out(message.to_vec()),
            });
            let written = written.map_err(fault);
            let ended = async move {
                let told = self.soon(engine.inspect_exec(&made.id)).await?;
                Ok(Output::Ended(told.exit_code.unwrap_or(-1)))
            };
            Ok(written.chain(stream::once(ended)))
        };
        stream::once(begun).try_flatten().boxed()
    }
}
