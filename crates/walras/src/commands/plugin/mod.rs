//! `kubectl walras`: shows allocations, pauses and goes on, with the rights of the caller.

mod cli;
mod placement;

use std::collections::BTreeSet;
use std::io::Write;

use comfy_table::{Table, TableStyle};
use walras_kube::plugin::pause::{Change, Outcome};
use walras_kube::plugin::preview::Row;
use walras_kube::plugin::{PluginError, Session, Target};
use walras_wire::state::NodeState;

use self::cli::{PluginCommand, Whom};
use crate::commands::top::table_of_node;
use crate::failure::Failure;

pub(crate) use self::cli::{PLUGIN, PluginCli};
use crate::screen::{self, Look};

/// Runs one command of the plugin.
pub(crate) fn run(cli: &PluginCli) -> Result<(), Failure> {
    let namespace = cli.namespace.as_deref();
    // Before a cluster is looked for: what makes no sense makes none anywhere.
    let whom = match &cli.command {
        PluginCommand::Pause { whom, .. } | PluginCommand::Resume { whom } => Some(whom),
        PluginCommand::Top { .. }
        | PluginCommand::Preview { .. }
        | PluginCommand::Explain { .. } => None,
    };
    if let Some(whom) = whom {
        check(whom, namespace)?;
    }
    let session = Session::open(cli.kubeconfig.as_deref()).map_err(told)?;
    match &cli.command {
        PluginCommand::Top { node, system_namespace, json } => {
            top(&session, system_namespace, node.as_deref(), *json)
        }
        PluginCommand::Preview { json } => preview(&session, namespace, *json),
        PluginCommand::Explain { pod, placement: true, system_namespace } => {
            let namespace = namespace.unwrap_or_else(|| session.namespace());
            placement::explain(&session, system_namespace, namespace, pod)
        }
        PluginCommand::Explain { pod, placement: false, .. } => explain(&session, namespace, pod),
        PluginCommand::Pause { whom, restore } => {
            let change = if *restore { Change::Restore } else { Change::Pause };
            apply(&session, &target(&session, whom, namespace), change)
        }
        PluginCommand::Resume { whom } => {
            apply(&session, &target(&session, whom, namespace), Change::Resume)
        }
    }
}

fn top(session: &Session, system: &str, node: Option<&str>, json: bool) -> Result<(), Failure> {
    let told = session.nodes(system, node).map_err(told)?;
    if told.is_empty() {
        let place = node.map_or_else(String::new, |node| format!(" on the node {node}"));
        let message = format!("there is no agent in the namespace {system}{place}");
        return Err(Failure::Input(message));
    }
    let mut output = screen::output();
    if json {
        let each: Vec<_> = told
            .iter()
            .map(|one| match &one.state {
                Ok(state) => serde_json::json!({ "node": one.node, "state": state }),
                Err(because) => serde_json::json!({ "node": one.node, "error": because }),
            })
            .collect();
        let text = serde_json::to_string_pretty(&each).map_err(std::io::Error::from)?;
        writeln!(output, "{text}")?;
        return Ok(output.flush()?);
    }
    for one in &told {
        match &one.state {
            Ok(state) => writeln!(output, "{}", table_of_node(state, Look::of_stdout()))?,
            Err(because) => writeln!(output, "{}: {because}\n", one.node)?,
        }
    }
    write!(output, "{}", in_vain(told.iter().filter_map(|one| one.state.as_ref().ok())))?;
    Ok(output.flush()?)
}

/// Settings without effect. All nodes are told the same, so each is shown once.
fn in_vain<'a>(nodes: impl Iterator<Item = &'a NodeState>) -> String {
    let notes: BTreeSet<&str> = nodes.flat_map(|node| &node.notes).map(String::as_str).collect();
    notes.into_iter().map(|note| format!("Note: the setting {note}.\n")).collect()
}

fn preview(session: &Session, namespace: Option<&str>, json: bool) -> Result<(), Failure> {
    let allocations = session.allocations(namespace).map_err(told)?;
    let rows: Vec<Row> = allocations.iter().map(Row::of).collect();
    let mut output = screen::output();
    if json {
        let rows = serde_json::to_string_pretty(&rows).map_err(std::io::Error::from)?;
        writeln!(output, "{rows}")?;
    } else if rows.is_empty() {
        writeln!(output, "No pod is sized there, or no agent has said anything yet.")?;
    } else {
        writeln!(output, "{}", table(&rows))?;
    }
    Ok(output.flush()?)
}

/// A row for each pod; CPU is request / limit.
fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_header(["NAMESPACE", "POD", "HAS", "SHOULD HAVE", "PHASE", "REASON"]);
    for row in rows {
        let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([
            row.namespace.clone(),
            row.pod.clone(),
            format!("{} / {}", word(&row.request), word(&row.limit)),
            format!("{} / {}", row.desired_request, row.desired_limit),
            word(&row.phase),
            word(&row.reason),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn explain(session: &Session, namespace: Option<&str>, pod: &str) -> Result<(), Failure> {
    let namespace = namespace.unwrap_or_else(|| session.namespace());
    let allocations = session.allocations(Some(namespace)).map_err(told)?;
    let found = allocations.iter().find(|allocation| allocation.spec.pod_name == pod);
    let found = found.ok_or_else(|| {
        Failure::Input(format!(
            "nothing is said about a pod {pod} in the namespace {namespace}: there is none, or it \
             is left alone, or the agent of its node is not running"
        ))
    })?;
    let mut output = screen::output();
    for sentence in Row::of(found).sentences() {
        writeln!(output, "{sentence}")?;
    }
    Ok(output.flush()?)
}

fn check(whom: &Whom, namespace: Option<&str>) -> Result<(), Failure> {
    let message = match (whom.all, &whom.pod, namespace) {
        (true, _, Some(_)) => "--all is everybody, and -n is one namespace: say one of them",
        (false, None, None) => {
            "say whom it is for: a pod, -n NAMESPACE for all pods of a namespace, or --all"
        }
        (true, _, None) | (false, Some(_), _) | (false, None, Some(_)) => return Ok(()),
    };
    Err(Failure::Input(message.to_owned()))
}

fn target(session: &Session, whom: &Whom, namespace: Option<&str>) -> Target {
    let here = || namespace.unwrap_or_else(|| session.namespace()).to_owned();
    match &whom.pod {
        _ if whom.all => Target::Everybody(whom.system_namespace.clone()),
        Some(name) => Target::Pod { namespace: here(), name: name.clone() },
        None => Target::Namespace(here()),
    }
}

fn apply(session: &Session, target: &Target, change: Change) -> Result<(), Failure> {
    let outcome = session.change(target, change).map_err(told)?;
    let mut output = screen::output();
    writeln!(output, "{}", sentence(target, &outcome))?;
    Ok(output.flush()?)
}

fn sentence(target: &Target, outcome: &Outcome) -> String {
    let word = |mode: &Option<String>| {
        mode.clone().unwrap_or_else(|| format!("none of its own, so {}", target.otherwise()))
    };
    match outcome {
        Outcome::Nothing { mode } => format!("{target}: nothing to do, the mode is {}", word(mode)),
        Outcome::NotPaused { mode } => format!(
            "{target}: nothing is changed, since it was not paused by `kubectl walras pause` and \
             nothing is remembered; the mode is {}",
            word(mode)
        ),
        Outcome::Changed { from, edit } => {
            format!("{target}: the mode is {}; it was {}", word(&edit.mode), word(from))
        }
    }
}

fn told(error: PluginError) -> Failure {
    match error {
        PluginError::Missing(message) => Failure::Input(message),
        PluginError::Connect(_)
        | PluginError::Runtime(_)
        | PluginError::NotInstalled
        | PluginError::Conflict(_)
        | PluginError::Api { .. } => Failure::Machine(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_on_without_a_memory_says_so() {
        let target = Target::Namespace("shop".to_owned());
        let told = sentence(&target, &Outcome::NotPaused { mode: Some("off".to_owned()) });
        assert_eq!(
            told,
            "namespace shop: nothing is changed, since it was not paused by `kubectl walras pause` \
             and nothing is remembered; the mode is off"
        );
    }

    #[test]
    fn a_setting_without_effect_is_told_once_for_all_nodes() {
        let node = |notes: &[&str]| {
            let notes = notes.iter().map(|note| (*note).to_owned()).collect();
            NodeState { notes, ..crate::commands::top::made_up_state() }
        };
        let nodes = [node(&["b has no effect: so it is", "a has no effect: so it is"]), node(&[])];
        let again = node(&["b has no effect: so it is"]);
        assert_eq!(
            in_vain(nodes.iter().chain([&again])),
            "Note: the setting a has no effect: so it is.\n\
             Note: the setting b has no effect: so it is.\n"
        );
        assert_eq!(in_vain([].into_iter()), "");
    }

    #[test]
    fn a_table_shows_what_pods_have_and_should_have() {
        let row = Row {
            namespace: "shop".to_owned(),
            pod: "web".to_owned(),
            request: Some("200m".to_owned()),
            limit: None,
            desired_request: "450m".to_owned(),
            desired_limit: "500m".to_owned(),
            phase: None,
            reason: None,
            message: None,
            explanation: None,
        };
        let expected = "NAMESPACE  POD  HAS       SHOULD HAVE  PHASE  REASON\n\
                        shop       web  200m / -  450m / 500m  -      -";
        assert_eq!(table(&[row]), expected);
    }
}
