//! What is printed about workloads: tables and sentences for people, JSON for programs.

use std::io::{self, Write};

use comfy_table::{Table, TableStyle};
use serde::Serialize;
use walras_rpc::agent::{AgentAction, HealthCheckResponse, SnapshotInfo, WorkloadStatus};

use super::apply::Outcome;

/// A status as JSON has it. Names are those of the API, without their prefixes.
#[derive(Serialize)]
struct StatusJson<'a> {
    id: &'a str,
    r#type: String,
    revision_id: &'a str,
    desired_state: &'a str,
    actual_state: &'a str,
    message: &'a str,
    created_at: i64,
    updated_at: i64,
    metadata: &'a std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
struct AppliedJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    applied: bool,
    skipped: bool,
    message: &'a str,
    revision_id: &'a str,
    status: Option<StatusJson<'a>>,
}

#[derive(Serialize)]
struct ActionJson<'a> {
    task_id: &'a str,
    workload_id: &'a str,
    action_type: &'a str,
    status: &'a str,
    reason: &'a str,
    error: &'a str,
    started_at: i64,
    ended_at: i64,
}

#[derive(Serialize)]
struct SnapshotJson<'a> {
    name: &'a str,
    taken_at: i64,
}

#[derive(Serialize)]
struct HealthJson<'a> {
    healthy: bool,
    version: &'a str,
    runtimes: &'a std::collections::BTreeMap<String, String>,
    memory_percent: f64,
    cpu_percent: f64,
    disk_percent: f64,
    drained: bool,
    quarantined: u32,
}

/// What came of an apply, on one host or on several.
pub(super) fn applied(
    output: &mut impl Write,
    outcomes: &[Outcome],
    as_json: bool,
) -> io::Result<()> {
    let all = || {
        outcomes.iter().flat_map(|outcome| {
            let host = outcome.host.as_deref();
            outcome.told.iter().map(move |(revision, response)| (host, revision, response))
        })
    };
    if as_json {
        let all = all().map(|(host, revision_id, response)| AppliedJson {
            host,
            applied: response.applied,
            skipped: response.skipped,
            message: &response.message,
            revision_id,
            status: response.status.as_ref().map(status_json),
        });
        return json(output, &all.collect::<Vec<_>>());
    }
    let rows = all().map(|(host, revision, response)| {
        let status = response.status.clone().unwrap_or_default();
        let state = state(&status).to_owned();
        let row = [status.id, revision.clone(), state, response.message.clone(), status.message];
        (host.unwrap_or_default().to_owned(), row)
    });
    if outcomes.iter().all(|outcome| outcome.host.is_none()) {
        let rows = rows.map(|(_, row)| row);
        return table(output, ["ID", "REVISION", "STATE", "WHAT", "HOW IT IS"], rows);
    }
    let rows =
        rows.map(|(host, [id, revision, state, what, how])| [host, id, revision, state, what, how]);
    table(output, ["HOST", "ID", "REVISION", "STATE", "WHAT", "HOW IT IS"], rows)
}

/// The workloads of a host.
pub(super) fn list(
    output: &mut impl Write,
    found: &[WorkloadStatus],
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        return json(output, &found.iter().map(status_json).collect::<Vec<_>>());
    }
    if found.is_empty() {
        return writeln!(output, "There are no workloads.");
    }
    let rows = found.iter().map(|status| {
        let (desired, actual) = (desired(status).to_owned(), state(status).to_owned());
        let (id, revision) = (status.id.clone(), status.revision_id.clone());
        [id, kind(status), revision, desired, actual, status.message.clone()]
    });
    table(output, ["ID", "TYPE", "REVISION", "WANTED", "STATE", "HOW IT IS"], rows)
}

/// A few workloads with everything that is told of them.
pub(super) fn statuses(
    output: &mut impl Write,
    found: &[WorkloadStatus],
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        for status in found {
            json(output, &status_json(status))?;
        }
        return Ok(());
    }
    for status in found {
        let (state, desired) = (state(status), desired(status));
        writeln!(output, "{}: {state}, wanted {desired}: {}", status.id, status.message)?;
        writeln!(output, "  revision {}", status.revision_id)?;
        for (name, value) in &status.metadata {
            writeln!(output, "  {name} {value}")?;
        }
    }
    Ok(())
}

/// What was done.
pub(super) fn actions(
    output: &mut impl Write,
    found: &[AgentAction],
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        let all = found.iter().map(|action| ActionJson {
            task_id: &action.task_id,
            workload_id: &action.workload_id,
            action_type: &action.action_type,
            status: &action.status,
            reason: &action.reason,
            error: &action.error,
            started_at: action.started_at,
            ended_at: action.ended_at,
        });
        return json(output, &all.collect::<Vec<_>>());
    }
    if found.is_empty() {
        return writeln!(output, "Nothing was done.");
    }
    let rows = found.iter().cloned().map(|action| {
        let words = if action.error.is_empty() { action.reason } else { action.error };
        [action.task_id, action.workload_id, action.action_type, action.status, words]
    });
    table(output, ["TASK", "WORKLOAD", "ACTION", "STATUS", "WHY"], rows)
}

/// What is kept of a machine's disks.
pub(super) fn snapshots(
    output: &mut impl Write,
    found: &[SnapshotInfo],
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        let all = found.iter().map(|one| SnapshotJson { name: &one.name, taken_at: one.taken_at });
        return json(output, &all.collect::<Vec<_>>());
    }
    if found.is_empty() {
        return writeln!(output, "There are no snapshots.");
    }
    let rows = found.iter().map(|one| [one.name.clone(), one.taken_at.to_string()]);
    table(output, ["NAME", "TAKEN AT (SECONDS SINCE 1970)"], rows)
}

/// How a host is.
pub(super) fn health(
    output: &mut impl Write,
    health: &HealthCheckResponse,
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        let told = HealthJson {
            healthy: health.healthy,
            version: &health.version,
            runtimes: &health.runtime_status,
            memory_percent: health.memory_utilization,
            cpu_percent: health.cpu_utilization,
            disk_percent: health.disk_utilization,
            drained: health.drained,
            quarantined: health.quarantined,
        };
        return json(output, &told);
    }
    let well = if health.healthy { "well" } else { "not well" };
    let drained = if health.drained { ", and drained" } else { "" };
    writeln!(output, "The host is {well}{drained}. It runs walras {}.", health.version)?;
    for (runtime, status) in &health.runtime_status {
        writeln!(output, "  {runtime}: {status}")?;
    }
    writeln!(
        output,
        "  in use: memory {:.0} %, CPU {:.0} %, disk {:.0} %",
        health.memory_utilization, health.cpu_utilization, health.disk_utilization
    )?;
    if health.quarantined > 0 {
        let count = health.quarantined;
        writeln!(output, "  {count} records could not be read and are kept aside; see its log")?;
    }
    Ok(())
}

fn status_json(status: &WorkloadStatus) -> StatusJson<'_> {
    StatusJson {
        id: &status.id,
        r#type: kind(status),
        revision_id: &status.revision_id,
        desired_state: desired(status),
        actual_state: state(status),
        message: &status.message,
        created_at: status.created_at,
        updated_at: status.updated_at,
        metadata: &status.metadata,
    }
}

fn state(status: &WorkloadStatus) -> &'static str {
    status.actual_state().as_str_name().trim_start_matches("ACTUAL_STATE_")
}

fn kind(status: &WorkloadStatus) -> String {
    status.r#type().as_str_name().trim_start_matches("WORKLOAD_TYPE_").to_lowercase()
}

fn desired(status: &WorkloadStatus) -> &'static str {
    status.desired_state().as_str_name().trim_start_matches("DESIRED_STATE_")
}

fn json(output: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *output, value)?;
    writeln!(output)
}

fn table<const N: usize>(
    output: &mut impl Write,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for line in table.lines() {
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}
