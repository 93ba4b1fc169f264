//! What an error of Docker means, by its kind and code and what was tried.

use bollard::errors::Error;
use walras_core::run::FaultKind;

/// What was tried when an error came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    Question,
    Pull,
    Create,
    Start,
    Clear,
    Network,
    Exec,
}

/// What an error of the client means, by its kind and code.
pub(super) fn kind(error: &Error, tried: Tried) -> FaultKind {
    let Error::DockerResponseServerError { status_code, .. } = error else {
        return match (error, tried) {
            (Error::DockerStreamError { .. }, Tried::Pull) => FaultKind::ImagePull,
            (Error::RequestTimeoutError, _) => FaultKind::Timeout,
            (Error::JsonDataError { .. } | Error::JsonSerdeError { .. }, _) => FaultKind::Runtime,
            // Everything else is about the connection.
            _ => FaultKind::Silent,
        };
    };
    match (tried, status_code) {
        (Tried::Pull, 404) | (Tried::Create, 404) => FaultKind::ImageNotFound,
        (Tried::Pull, 400) => FaultKind::InvalidSpec,
        (Tried::Pull, _) => FaultKind::ImagePull,
        (Tried::Create, 409) => FaultKind::NameInUse,
        (Tried::Create | Tried::Start, 400 | 403) => FaultKind::InvalidSpec,
        (Tried::Question | Tried::Start | Tried::Clear | Tried::Exec, 404) => FaultKind::NotFound,
        (Tried::Exec, 400 | 403) => FaultKind::InvalidSpec,
        (Tried::Network, _) => FaultKind::Network,
        (Tried::Question | Tried::Create | Tried::Start | Tried::Clear | Tried::Exec, _) => {
            FaultKind::Runtime
        }
    }
}

/// What is so already is as good as done.
pub(super) fn already(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::DockerResponseServerError { status_code: 304, .. }) => Ok(()),
        other => other,
    }
}

/// What is gone needs no stopping and no removing.
pub(super) fn gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_by_code_and_by_what_was_tried() {
        let answer = |status_code| Error::DockerResponseServerError {
            status_code,
            message: "container import report not found".to_owned(),
        };
        for (tried, code, expected) in [
            (Tried::Pull, 404, FaultKind::ImageNotFound),
            (Tried::Pull, 500, FaultKind::ImagePull),
            (Tried::Create, 404, FaultKind::ImageNotFound),
            (Tried::Create, 409, FaultKind::NameInUse),
            (Tried::Create, 400, FaultKind::InvalidSpec),
            (Tried::Start, 404, FaultKind::NotFound),
            (Tried::Start, 500, FaultKind::Runtime),
            (Tried::Clear, 500, FaultKind::Runtime),
        ] {
            assert_eq!(kind(&answer(code), tried), expected, "{code}");
        }
        assert_eq!(kind(&Error::RequestTimeoutError, Tried::Start), FaultKind::Timeout);
    }
}
