//! Gets a text over plain HTTP, within bounds of size and time.
//!
//! For exporters on the same machine or network. What needs TLS or an account, as the API server
//! of Kubernetes does, is asked by whoever has those, and its answer is given to the parsers.

use std::time::Duration;

use ureq::Agent;

use super::exposition::TEXT_MAX;

/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nobody answers, or not in time, or with too much.
    #[error("{url} cannot be read: {source}")]
    NoAnswer {
        /// Where.
        url: String,
        /// What happened.
        source: Box<ureq::Error>,
    },
    /// Somebody answers, and not with a text.
    #[error("{url} answers {status}")]
    Status {
        /// Where.
        url: String,
        /// With what.
        status: u16,
    },
}

/// The text at `url`.
///
/// # Errors
///
/// Where there is none, or it is larger than [`TEXT_MAX`], or it takes longer than two seconds.
pub fn fetch(url: &str) -> Result<String, FetchError> {
    let config = Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(None)
        .user_agent("walras");
    let agent: Agent = config.build().into();
    let failed = |source| FetchError::NoAnswer { url: url.to_owned(), source: Box::new(source) };
    let mut answer = agent.get(url).call().map_err(failed)?;
    let status = answer.status();
    if !status.is_success() {
        return Err(FetchError::Status { url: url.to_owned(), status: status.as_u16() });
    }
    let limit = u64::try_from(TEXT_MAX).unwrap_or(u64::MAX);
    answer.body_mut().with_config().limit(limit).read_to_string().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// Answers one request with `answer`, and returns where.
    fn serve(answer: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            // Who has seen enough may have left.
            stream.write_all(answer.as_bytes()).ok();
        });
        format!("http://{address}/metrics")
    }

    #[test]
    fn a_text_is_fetched_and_anything_else_is_told() {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\na 1\nb";
        assert_eq!(fetch(&serve(ok.to_owned())).unwrap(), "a 1\nb");
        let refused = "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let error = fetch(&serve(refused.to_owned())).unwrap_err().to_string();
        assert!(error.ends_with("answers 503"), "{error}");
        let long =
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "a".repeat(TEXT_MAX + 1));
        let error = fetch(&serve(long)).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = fetch(&format!("http://{nobody}/")).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
    }
}
