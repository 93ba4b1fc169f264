//! One question to Prometheus, and what its answer means.
//!
//! Called by `latency`, in a thread that may wait. Whatever comes back is sorted into one of five
//! answers; no bytes make it panic. Who does not speak as Prometheus does is away, whatever it
//! says: a Prometheus that starts answers every question with 503, and so does a gateway whose
//! Prometheus is gone.

use std::time::Duration;

use serde_json::Value;

/// An answer is no longer than this.
const ANSWER_BYTES_MAX: u64 = 1_000_000;
/// Of what Prometheus complains about, so many characters are told.
const WORDS_MAX: usize = 200;

/// What came of a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The latency.
    Seconds(f64),
    /// The series are there, but the query made no number of them: there were no requests.
    Idle,
    /// The query finds no series.
    Unknown,
    /// Prometheus answers, but has no number for this question.
    Refused(String),
    /// It does not answer.
    Away(String),
}

/// Asks for the value of `query` in seconds, and waits for `patience` at most.
pub(super) fn ask(url: &str, query: &str, patience: Duration) -> Answer {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(patience))
        // What it says about a query that it refuses is worth more than the code.
        .http_status_as_error(false)
        .build();
    let address = format!("{}/api/v1/query", url.trim_end_matches('/'));
    // The answer is not waited for after that, so it need not be worked out.
    let timeout = format!("{}ms", patience.as_millis());
    let call = ureq::Agent::new_with_config(config).get(&address);
    let mut answer = match call.query("query", query).query("timeout", timeout).call() {
        Ok(answer) => answer,
        Err(error) => return Answer::Away(words(&error, patience)),
    };
    let status = answer.status().as_u16();
    match answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string() {
        Ok(body) => read(status, &body),
        Err(ureq::Error::BodyExceedsLimit(bytes)) => {
            Answer::Refused(format!("the answer is longer than {bytes} bytes"))
        }
        Err(error) => Answer::Away(words(&error, patience)),
    }
}

/// Why there is no answer.
fn words(error: &ureq::Error, patience: Duration) -> String {
    if let ureq::Error::Timeout(_) = error {
        return format!("no answer within {} s", patience.as_secs_f64());
    }
    error.to_string()
}

/// What an answer with this status and body says.
fn read(status: u16, body: &str) -> Answer {
    let said: Value = serde_json::from_str(body).unwrap_or_default();
    match said["status"].as_str() {
        Some("success") => latency_in(&said["data"]),
        Some("error") => {
            let because = shortened(said["error"].as_str().unwrap_or("it does not say why"));
            match status {
                // The query cannot be understood, or cannot be carried out on what there is.
                400 | 422 => Answer::Refused(because),
                _ => Answer::Away(because),
            }
        }
        _ => Answer::Away(format!("it answers with status {status}, and not as Prometheus does")),
    }
}

/// The beginning of a text. Prometheus likes to list all series that do not fit.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The largest number of a result.
fn latency_in(data: &Value) -> Answer {
    let no_number = |what: &str| {
        Answer::Refused(format!("the query gives {what}, and a number of seconds is needed"))
    };
    let result = &data["result"];
    let values: Vec<&Value> = match data["resultType"].as_str() {
        Some("vector") => {
            let series = result.as_array().map(Vec::as_slice).unwrap_or_default();
            series.iter().map(|series| &series["value"][1]).collect()
        }
        Some("scalar") => vec![&result[1]],
        Some("matrix") => return no_number("a range of values"),
        Some(other) => return no_number(&format!("a {other}")),
        None => return no_number("nothing"),
    };
    if values.is_empty() {
        return Answer::Unknown;
    }
    // A series whose value is a histogram has no `value`.
    let numbers: Option<Vec<f64>> =
        values.iter().map(|value| value.as_str()?.parse().ok()).collect();
    let Some(numbers) = numbers else {
        return no_number("histograms");
    };
    let latency = numbers.into_iter().filter(|number| number.is_finite()).reduce(f64::max);
    latency.map_or(Answer::Idle, Answer::Seconds)
}

#[cfg(test)]
mod tests {
    use super::super::server::{Reply, Server};
    use super::*;

    const FIXTURE: &str = include_str!("../../testdata/prometheus.txt");

    fn check(status: &str, body: &str) -> String {
        match read(status.parse().unwrap(), body) {
            Answer::Seconds(seconds) => format!("{seconds} s"),
            Answer::Idle => "idle".to_owned(),
            Answer::Unknown => "unknown".to_owned(),
            Answer::Refused(because) => format!("refused: {because}"),
            Answer::Away(because) => format!("away: {because}"),
        }
    }

    #[test]
    fn every_answer_is_one_of_five() {
        let mut cases = 0;
        for case in FIXTURE.split("\ncase ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let (status, rest) = rest.split_once('\n').unwrap();
            let (body, rest) = rest.split_once("----\n").unwrap();
            let expected = rest.lines().next().unwrap();
            assert_eq!(check(status, body), expected, "{name}");
            cases += 1;
        }
        assert!(cases >= 12, "{cases}");
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn the_question_arrives_as_it_was_meant() {
        let server = Server::start(Reply::Seconds("0.25"));
        // A slash at the end of the address is no matter.
        let asked = ask(&format!("{}/", server.url()), "max(x{a=\"1 + 2&b\"}) # s", PATIENCE);
        assert_eq!(asked, Answer::Seconds(0.25));
        assert_eq!(server.last_query(), "max(x{a=\"1 + 2&b\"}) # s");
    }

    #[test]
    fn an_answer_is_bounded_in_length() {
        let server = Server::start(Reply::Endless);
        let refused = Answer::Refused("the answer is longer than 1000000 bytes".to_owned());
        assert_eq!(ask(&server.url(), "x", PATIENCE), refused);
    }

    #[test]
    fn an_answer_is_bounded_in_time() {
        let patience = Duration::from_millis(50);
        let away = Answer::Away("no answer within 0.05 s".to_owned());
        for silence in [Reply::Nothing, Reply::Half] {
            let server = Server::start(silence);
            assert_eq!(ask(&server.url(), "x", patience), away, "{silence:?}");
        }
    }

    #[test]
    fn nobody_there_is_away() {
        // This port has had no listener for thirty years.
        let Answer::Away(because) = ask("http://127.0.0.1:1", "x", PATIENCE) else {
            panic!("there is no server");
        };
        assert!(because.contains("refused"), "{because}");
    }
}
