//! What is told of workloads in the daemon's own `/metrics` and on its dashboard.
//!
//! It only reads. Everything is asked by a thread that is not one of ours, and answered soon.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::runtime::Handle;
use walras_core::run::WorkloadId;

use crate::api::Api;
use crate::clock::seconds;
use crate::manager::{ActionState, Filter};
use crate::metrics::{self, Scrape};

/// So many of the last actions are shown.
const ACTIONS: usize = 50;
/// So many lines of a workload are shown, and so many bytes of them.
const LINES: u32 = 200;
const BYTES_MAX: usize = 256 << 10;
/// How long a runtime may take to tell them.
const LINES_WITHIN: Duration = Duration::from_secs(3);

/// Tells of workloads.
#[derive(Clone, Debug)]
pub struct Beside {
    api: Arc<Api>,
    threads: Option<Handle>,
}

#[derive(Serialize)]
struct Page {
    drained: bool,
    workloads: Vec<Row>,
    actions: Vec<Done>,
}

#[derive(Serialize)]
struct Row {
    id: String,
    kind: &'static str,
    revision: String,
    wanted: &'static str,
    state: &'static str,
    message: String,
}

#[derive(Serialize)]
struct Done {
    task: u64,
    workload: String,
    kind: &'static str,
    state: &'static str,
    words: String,
    began_s: i64,
}

impl Beside {
    pub(crate) fn new(api: Arc<Api>, threads: Option<Handle>) -> Self {
        Self { api, threads }
    }

    /// Figures in OpenMetrics' text format, with its last line.
    #[must_use]
    pub fn metrics(&self) -> String {
        let manager = &self.api.manager;
        let (tally, queue, silent) = manager.counted();
        let list = manager.list();
        let runtimes = manager.runtime_names().into_iter();
        let scrape = Scrape {
            workloads: list.into_iter().map(|(_, told)| (told.kind, told.status.actual)).collect(),
            tally,
            queue,
            runtimes: runtimes.map(|name| (name, !silent.contains(&name))).collect(),
            in_use: self.api.scraped.in_use(),
            drained: manager.is_drained(),
            quarantined: manager.quarantined().len(),
        };
        metrics::written(scrape).unwrap_or_default()
    }

    /// Every workload and the last actions, as JSON.
    #[must_use]
    pub fn workloads(&self) -> String {
        let manager = &self.api.manager;
        let workloads = manager.list().into_iter().map(|(id, told)| Row {
            id: id.to_string(),
            kind: told.kind.name(),
            revision: told.status.revision.to_string(),
            wanted: match told.status.desired {
                walras_core::run::Desired::Running => "RUNNING",
                walras_core::run::Desired::Stopped => "STOPPED",
            },
            state: told.status.actual.name(),
            message: told.status.message,
        });
        let mut actions = manager.actions(&Filter::default());
        actions.reverse();
        actions.truncate(ACTIONS);
        let actions = actions.into_iter().map(|action| Done {
            task: action.task,
            workload: action.workload.map(|id| id.to_string()).unwrap_or_default(),
            kind: action.kind,
            state: action.state.name(),
            words: match action.state {
                ActionState::Failed(words) => words,
                ActionState::Running | ActionState::Completed => action.reason,
            },
            began_s: seconds(action.began),
        });
        let page = Page {
            drained: manager.is_drained(),
            workloads: workloads.collect(),
            actions: actions.collect(),
        };
        serde_json::to_string(&page).unwrap_or_default()
    }

    /// The last lines that a workload wrote; nothing if there is no such workload.
    #[must_use]
    pub fn logs(&self, id: &str) -> Option<String> {
        let id = WorkloadId::new(id).ok()?;
        let threads = self.threads.as_ref()?;
        let manager = Arc::clone(&self.api.manager);
        let (to, from) = std::sync::mpsc::channel();
        threads.spawn(async move {
            let mut text = Vec::new();
            let read = async {
                let Ok(mut lines) = manager.logs(&id, None, LINES, false) else { return false };
                while let Some(Ok(line)) = lines.recv().await {
                    text.extend(line);
                    if text.len() > BYTES_MAX {
                        break;
                    }
                }
                true
            };
            let there = tokio::time::timeout(LINES_WITHIN, read).await.unwrap_or(true);
            // Nobody may wait any more.
            to.send(there.then_some(text)).ok();
        });
        let text = from.recv_timeout(LINES_WITHIN + Duration::from_secs(1)).ok()??;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}
