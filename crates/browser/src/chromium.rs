//! A headless Chromium, driven by its debugging protocol over two pipes: messages are JSON, each
//! ended by a zero byte. Ends with its value, and its profile folder goes with it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Long enough for the slowest machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Chromium reads its orders from descriptor 3 and answers on 4; what it says otherwise is noise.
const START: &str = "exec chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
    --remote-debugging-pipe --user-data-dir=\"$0\" about:blank \
    3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// Whether a page is to be light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// A key that a page is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// To the next control.
    Tab,
    /// Does what the control is for.
    Enter,
    /// Closes what is open.
    Escape,
    /// To the filter.
    Slash,
}

/// A browser with one page.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<Value>,
    session: Option<String>,
    next_id: u64,
    /// What the page complained about.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

// === impl Chromium ===

impl Chromium {
    /// Starts one, with an empty page.
    #[must_use]
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a folder of its own");
        let mut child = Command::new("sh")
            .args(["-c", START])
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh is there");
        let orders = child.stdin.take().expect("it is piped");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).expect("Chromium speaks JSON");
                message.clear();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            orders,
            answers,
            session: None,
            next_id: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        browser.open_page();
        browser
    }

    /// Shows `url` in a window of this size.
    pub fn show(&mut self, url: &str, width: u32, height: u32, scheme: Scheme) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let feature = json!([{"name": "prefers-color-scheme", "value": scheme.name()}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": feature}));
        self.call("Page.navigate", &json!({"url": url}));
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// What an expression comes to.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &asked);
        assert_eq!(answer.get("exceptionDetails"), None, "{expression}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        // A page that is being left has nothing to evaluate in, so what fails is tried again.
        let asked = json!({"expression": format!("Boolean({expression})"), "returnByValue": true});
        while self.call("Runtime.evaluate", &asked)["result"]["value"] != json!(true) {
            let complaints = &self.complaints;
            assert!(Instant::now() < end, "never true: {expression}\n{complaints:#?}");
            // The page that is waited for needs the machine, too.
            #[expect(clippy::disallowed_methods, reason = "a rest between two looks")]
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Presses a key, as a person would.
    pub fn press(&mut self, key: Key) {
        let (name, code, number, text) = match key {
            Key::Tab => ("Tab", "Tab", 9, ""),
            Key::Enter => ("Enter", "Enter", 13, "\r"),
            Key::Escape => ("Escape", "Escape", 27, ""),
            Key::Slash => ("/", "Slash", 191, "/"),
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": name, "code": code, "text": text,
                "windowsVirtualKeyCode": number});
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Writes a picture of what is shown.
    pub fn picture(&mut self, path: &Path) {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let text = answer["data"].as_str().expect("a picture");
        std::fs::write(path, from_base64(text)).expect("the folder can be written");
    }

    /// What the page complained about: exceptions, blocked or missing files.
    pub fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    fn open_page(&mut self) {
        let made = self.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": made["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", &attach);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut order = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let sent = self.orders.write_all(format!("{order}\0").as_bytes());
        sent.expect("Chromium is missing; install it with `apt-get install chromium`");
        loop {
            let mut answer = self.answers.recv_timeout(PATIENCE).expect("Chromium answers");
            if answer["id"] == json!(id) {
                assert_eq!(answer.get("error"), None, "{method}");
                return answer["result"].take();
            }
            self.listen(&answer);
        }
    }

    fn listen(&mut self, event: &Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &params["exceptionDetails"],
            Some("Log.entryAdded") if params["entry"]["level"] == json!("error") => {
                &params["entry"]
            }
            Some(_) | None => return,
        };
        self.complaints.push(complaint.to_string());
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing left to end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

// === impl Scheme ===

impl Scheme {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Light, Self::Dark];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let sextet = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for value in text.bytes().filter_map(sextet) {
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).expect("eight bits"));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::from_base64;

    #[test]
    fn pictures_are_read_back_whatever_their_length() {
        assert_eq!(from_base64("TWFu"), b"Man");
        assert_eq!(from_base64("TWE="), b"Ma");
        assert_eq!(from_base64("+/8="), [0xfb, 0xff]);
        assert_eq!(from_base64(""), b"");
    }
}
