//! Between the messages of the API and the core's types. Everything that comes in is checked here,
//! with all faults at once, each with its field and value; code behind this does not check again.

mod container;
mod others;
#[cfg(test)]
mod tests;
mod vm;

use std::collections::BTreeMap;
use std::fmt;

use walras_core::run::{
    Actual, Container, Desired, FieldFault, Kind, Revision, Spec, Status, Work, WorkloadId,
    is_variable,
};
use walras_rpc::agent::workload_spec::Spec as AnySpec;
use walras_rpc::agent::{
    ActualState, ApplyWorkloadRequest, DesiredState, WorkloadStatus, WorkloadType,
};

use crate::clock::seconds;

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// These fields are wrong.
    Faults(Vec<FieldFault>),
    /// This host cannot run that.
    Unsupported(String),
}

/// An apply in the core's types.
pub struct Request {
    /// Which workload.
    pub id: WorkloadId,
    /// What to run.
    pub spec: Spec,
    /// Whether to run it.
    pub desired: Desired,
    /// Its secrets.
    pub secrets: BTreeMap<String, String>,
}

/// Reads an apply.
///
/// # Errors
/// Everything that is wrong with it.
pub fn request(message: ApplyWorkloadRequest) -> Result<Request, SpecError> {
    let mut reader = Reader::default();
    let id = reader.keep("id", WorkloadId::new(&message.id));
    if message.id.len() == 1 {
        // It is the container's name, too.
        reader.fault("id", format!("`{}` is too short; Docker wants two letters", message.id));
    }
    let revision = reader.keep("revision_id", Revision::new(&message.revision_id));
    let desired = match DesiredState::try_from(message.desired_state) {
        Ok(DesiredState::Unspecified | DesiredState::Running) => Desired::Running,
        Ok(DesiredState::Stopped) => Desired::Stopped,
        Err(_) => {
            reader.fault("desired_state", format!("{} is none", message.desired_state));
            Desired::Running
        }
    };
    let spec = message.spec.unwrap_or_default();
    let (rollback, secrets) = (spec.rollback, spec.secrets);
    let work = reader.work(&message.id, message.r#type, spec.spec, spec.secrets_as_files)?;
    reader.secrets(&secrets, work.as_ref());
    if let Some(Work::Container(container)) = &work {
        reader.faults.extend(container.check());
    }
    match (id, revision, work) {
        (Some(id), Some(revision), Some(work)) if reader.faults.is_empty() => {
            let names = secrets.keys().cloned().collect();
            let spec = Spec { revision, rollback, secrets: names, work };
            Ok(Request { id, spec, desired, secrets })
        }
        (_, _, _) => Err(SpecError::Faults(reader.faults)),
    }
}

/// The faults found so far.
#[derive(Default)]
struct Reader {
    faults: Vec<FieldFault>,
}

impl Reader {
    fn fault(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.faults.push(FieldFault { field: field.into(), what: what.into() });
    }

    fn keep<T>(&mut self, field: &str, read: Result<T, impl fmt::Display>) -> Option<T> {
        read.map_err(|error| self.fault(field, error.to_string())).ok()
    }

    /// A number that must not be negative; zero is "not said".
    fn number<T: TryFrom<i64>>(&mut self, field: &str, number: i64) -> Option<T> {
        if number == 0 {
            return None;
        }
        let read = T::try_from(number).ok().filter(|_| number > 0);
        if read.is_none() {
            self.fault(field, format!("{number} is out of range"));
        }
        read
    }

    /// What to run. The type need not be said where the spec shows it.
    fn work(
        &mut self,
        id: &str,
        kind: i32,
        spec: Option<AnySpec>,
        secrets_as_files: bool,
    ) -> Result<Option<Work>, SpecError> {
        let Ok(kind) = WorkloadType::try_from(kind) else {
            self.fault("type", format!("{kind} is none"));
            return Ok(None);
        };
        let (shown, work) = match spec {
            Some(AnySpec::Container(spec)) => {
                let container = Container { secrets_as_files, ..self.container(spec) };
                (WorkloadType::Container, Some(Work::Container(container)))
            }
            Some(AnySpec::Compose(spec)) => {
                (WorkloadType::Compose, self.compose(id, spec).map(Work::Compose))
            }
            Some(AnySpec::Custom(spec)) => (WorkloadType::Custom, Some(self.custom(spec))),
            Some(AnySpec::Vm(spec)) => (WorkloadType::Vm, self.vm(id, spec).map(Work::Vm)),
            None => {
                self.fault("spec", "is missing: say container, compose, vm or custom");
                return Ok(None);
            }
        };
        if kind != WorkloadType::Unspecified && kind != shown {
            let name = |kind: WorkloadType| {
                kind.as_str_name().trim_start_matches("WORKLOAD_TYPE_").to_lowercase()
            };
            self.fault("type", format!("{} is said, and the spec is {}", name(kind), name(shown)));
        }
        if secrets_as_files && shown != WorkloadType::Container {
            self.fault("secrets_as_files", "is possible for containers only");
        }
        Ok(work)
    }

    /// Secrets by their names alone: their values are in no message.
    fn secrets(&mut self, secrets: &BTreeMap<String, String>, work: Option<&Work>) {
        let env = match work {
            Some(Work::Container(container)) => Some(&container.env),
            Some(Work::Compose(compose)) => Some(&compose.env),
            Some(Work::Vm(_) | Work::Custom(_)) | None => None,
        };
        let as_files =
            matches!(work, Some(Work::Container(container)) if container.secrets_as_files);
        for (name, value) in secrets {
            let field = format!("secrets.{}", name.chars().take(80).collect::<String>());
            if !is_variable(name) {
                self.fault(&field, "is no name of a variable");
            } else if as_files && (name.contains('/') || name.starts_with('.')) {
                self.fault(&field, "is no name of a file");
            } else if value.contains('\0') || value.len() > 64 << 10 {
                self.fault(&field, "its value has a zero byte, or more than 64 KiB");
            } else if env.is_some_and(|env| env.contains_key(name)) {
                self.fault(&field, "is in env, too");
            }
        }
    }
}

/// What is told of a workload.
pub(crate) fn status(
    id: &WorkloadId,
    kind: Kind,
    status: &Status,
    handles: &[String],
) -> WorkloadStatus {
    let desired = match status.desired {
        Desired::Running => DesiredState::Running,
        Desired::Stopped => DesiredState::Stopped,
    };
    let actual = match status.actual {
        Actual::Pending => ActualState::Pending,
        Actual::Running => ActualState::Running,
        Actual::Stopped => ActualState::Stopped,
        Actual::Failed => ActualState::Failed,
        Actual::Unknown => ActualState::Unknown,
    };
    let mut metadata = BTreeMap::new();
    let mut put = |name: &str, value: String| metadata.insert(name.to_owned(), value);
    if let Some(fault) = &status.fault {
        put("failure_reason", fault.kind.code().to_owned());
        put("last_error", fault.words.clone());
    }
    if let Some(failed) = &status.failed_revision {
        put("failed_revision", failed.to_string());
    }
    if status.terminal {
        put("retry_terminal", "true".to_owned());
    }
    if status.attempts > 0 {
        put("retry_attempts", status.attempts.to_string());
    }
    if let Some(at) = status.retry_at {
        put("next_retry_time", seconds(at).to_string());
    }
    if status.repairs > 0 {
        put("repairs", status.repairs.to_string());
    }
    if let Some(at) = status.answered_at {
        put("runtime_answered_at", seconds(at).to_string());
    }
    if !handles.is_empty() {
        put("container_id", handles.join(","));
    }
    WorkloadStatus {
        id: id.to_string(),
        r#type: type_of(kind).into(),
        revision_id: status.revision.to_string(),
        desired_state: desired.into(),
        actual_state: actual.into(),
        message: status.message.clone(),
        created_at: seconds(status.created_at),
        updated_at: seconds(status.updated_at),
        metadata,
        usage: None,
    }
}

/// A kind as messages have it.
pub(crate) fn type_of(kind: Kind) -> WorkloadType {
    match kind {
        Kind::Container => WorkloadType::Container,
        Kind::Compose => WorkloadType::Compose,
        Kind::Vm => WorkloadType::Vm,
        Kind::Custom => WorkloadType::Custom,
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(words) => f.write_str(words),
            Self::Faults(faults) => {
                let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("; "))
            }
        }
    }
}

impl std::error::Error for SpecError {}

impl fmt::Debug for Request {
    /// Without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?}", self.id, self.desired, self.spec)
    }
}
