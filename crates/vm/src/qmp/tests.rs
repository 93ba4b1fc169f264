//! The client against a script that plays QEMU.

use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream};

use super::lines::LINE_MAX;
use super::*;

const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;

/// Plays QEMU: greets, agrees, and hands the connection on.
async fn greeted(theirs: DuplexStream) -> BufReader<DuplexStream> {
    let mut theirs = BufReader::new(theirs);
    say(&mut theirs, GREETING).await;
    let asked = hear(&mut theirs).await;
    assert_eq!(asked["execute"], "qmp_capabilities");
    say(&mut theirs, r#"{"timestamp": {}, "event": "RESUME"}"#).await;
    say(&mut theirs, r#"{"return": {}}"#).await;
    theirs
}

async fn say(theirs: &mut BufReader<DuplexStream>, line: &str) {
    theirs.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
}

async fn hear(theirs: &mut BufReader<DuplexStream>) -> Value {
    let mut line = String::new();
    theirs.read_line(&mut line).await.unwrap();
    serde_json::from_str(&line).unwrap()
}

async fn connected() -> (Qmp, BufReader<DuplexStream>) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (qmp, theirs) = tokio::join!(Qmp::over(ours), greeted(theirs));
    (qmp.unwrap(), theirs)
}

#[tokio::test]
async fn answers_find_their_questions_in_any_order() {
    let (qmp, mut theirs) = connected().await;
    let script = async {
        let first = hear(&mut theirs).await;
        let second = hear(&mut theirs).await;
        assert_eq!(first["arguments"]["value"], 1);
        assert!(second.get("arguments").is_none());
        let (first, second) = (first["id"].clone(), second["id"].clone());
        say(&mut theirs, r#"{"event": "SHUTDOWN", "data": {"guest": true}}"#).await;
        say(&mut theirs, &format!(r#"{{"return": "two", "id": {second}}}"#)).await;
        say(&mut theirs, r#"{"return": "of nobody", "id": 99}"#).await;
        let error = r#"{"class": "GenericError", "desc": "no"}"#;
        say(&mut theirs, &format!(r#"{{"error": {error}, "id": {first}}}"#)).await;
    };
    let mut events = qmp.events();
    let (one, two) = (qmp.ask("one", json!({ "value": 1 })), qmp.ask("two", Value::Null));
    let (one, two, ()) = tokio::join!(one, two, script);
    let refused = QmpError::Refused { class: "GenericError".into(), desc: "no".into() };
    assert_eq!(one, Err(refused));
    assert_eq!(two, Ok(json!("two")));
    let event = events.recv().await.unwrap();
    assert_eq!((event.name.as_str(), &event.data["guest"]), ("SHUTDOWN", &json!(true)));
}

#[tokio::test]
async fn whoever_asks_when_qemu_ends_is_told() {
    let (qmp, theirs) = connected().await;
    let end = async {
        let mut theirs = theirs;
        hear(&mut theirs).await;
    };
    let (answer, ()) = tokio::join!(qmp.ask("query-status", Value::Null), end);
    assert!(matches!(answer, Err(QmpError::Closed(_))), "{answer:?}");
    let again = qmp.ask("query-status", Value::Null).await;
    assert!(matches!(again, Err(QmpError::Closed(_))));
    assert!(qmp.is_closed());
}

#[tokio::test]
async fn a_silent_qemu_is_given_up_and_its_late_answer_is_nobodys() {
    let (qmp, mut theirs) = connected().await;
    let limit = Duration::from_millis(20);
    let answer = qmp.ask_within("query-status", Value::Null, limit).await;
    assert_eq!(answer, Err(QmpError::Silent(limit)));
    let late = hear(&mut theirs).await["id"].clone();
    say(&mut theirs, &format!(r#"{{"return": "late", "id": {late}}}"#)).await;
    let script = async {
        let asked = hear(&mut theirs).await["id"].clone();
        say(&mut theirs, &format!(r#"{{"return": "now", "id": {asked}}}"#)).await;
    };
    let (answer, ()) = tokio::join!(qmp.ask("query-status", Value::Null), script);
    assert_eq!(answer, Ok(json!("now")));
}

#[tokio::test]
async fn what_is_no_qemu_is_refused() {
    for words in ["{\"hello\": 1}", "220 smtp", ""] {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        theirs.write_all(format!("{words}\n").as_bytes()).await.unwrap();
        drop(theirs);
        let answer = Qmp::over(ours).await;
        assert!(matches!(answer, Err(QmpError::Closed(_))), "{words}");
    }
}

#[tokio::test]
async fn a_line_without_end_is_not_collected_for_ever() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let flood = async {
        let mut theirs = theirs;
        let piece = vec![b'x'; 1 << 16];
        let mut sent = 0;
        // It ends when the other side has left.
        while theirs.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
        sent
    };
    let (answer, sent) = tokio::join!(async { Qmp::over(ours).await.map(|_| ()) }, flood);
    assert!(matches!(answer, Err(QmpError::Closed(_))));
    assert!(sent < 2 * LINE_MAX, "{sent}");
}
