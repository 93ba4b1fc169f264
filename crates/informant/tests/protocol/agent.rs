//! A scripted agent: it signs what it sends, answers what it is asked, and remembers it.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use walras_informant::http::{self, Answer, Message};
use walras_wire::vm::auth::{Key, Reply, Request, Signature, Token};

use crate::world::KEY;

const PATIENCE: Duration = Duration::from_secs(20);

/// An agent.
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) address: SocketAddr,
    pub(crate) session: Option<Token>,
    /// What it was told, such as `resume`.
    heard: Arc<Mutex<Vec<String>>>,
    /// Whether it says that it is another one.
    pub(crate) lies: Arc<AtomicBool>,
    sequence: u64,
}

pub(crate) fn key() -> Key {
    Key::parse(KEY.as_bytes()).expect("a key")
}

impl Agent {
    /// An agent whose id is made of one digit.
    pub(crate) fn start(digit: char) -> Self {
        let id = "00000000-0000-0000-0000-000000000000".replace('0', &digit.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let lies = Arc::new(AtomicBool::new(false));
        let (told, lying, name) = (Arc::clone(&heard), Arc::clone(&lies), id.clone());
        thread::spawn(move || {
            let sequence = AtomicU64::new(1000);
            for stream in listener.incoming().flatten() {
                let Ok(message) = http::read_request(&stream, PATIENCE) else { continue };
                let signature = checked(&message);
                let body = String::from_utf8_lossy(&message.body).into_owned();
                told.lock().expect("a lock").push(format!("{} {body}", message.path));
                let id = if lying.load(Ordering::SeqCst) {
                    name.replace('-', "-f")
                } else {
                    name.clone()
                };
                let id = if id.len() == 36 {
                    id
                } else {
                    "ffffffff-ffff-ffff-ffff-ffffffffffff".to_owned()
                };
                let number = sequence.fetch_add(1, Ordering::SeqCst);
                let body =
                    format!("{{\"data\":{{\"agentID\":\"{id}\"}},\"sequenceNumber\":{number}}}");
                let reply =
                    Reply { to: signature, status: 200, session: None, body: body.as_bytes() };
                let signed = key().sign_reply(&reply).to_string();
                let mut answer = Answer::json(body.into_bytes());
                answer.fields.push(("Walras-Signature", signed));
                drop(http::write_answer(&stream, &answer, PATIENCE));
            }
        });
        Self { id, address, session: None, heard, lies, sequence: 0 }
    }

    /// How often it was told something that begins so.
    pub(crate) fn heard(&self, what: &str) -> usize {
        let heard = self.heard.lock().expect("a lock");
        heard.iter().filter(|words| words.starts_with(what)).count()
    }

    pub(crate) fn description(&self, min: u32, max: u32) -> String {
        format!(
            "{{\"agentID\":\"{}\",\"agentServeAddr\":\"{}\",\"minProtoVersion\":{min},\
             \"maxProtoVersion\":{max}}}",
            self.id, self.address
        )
    }

    /// Registers, and takes over the session that comes back.
    pub(crate) fn register(&mut self, to: SocketAddr) -> u16 {
        let answer = send(to, &self.request("POST", "/register", &self.description(4, 4)));
        if answer.status == 200 {
            self.session = answer.field("walras-session").and_then(Token::parse);
            assert!(self.session.is_some());
        }
        answer.status
    }

    /// Sends a numbered message.
    pub(crate) fn put(&mut self, to: SocketAddr, path: &str, data: &str) -> Message {
        self.sequence += 1;
        let data = data.replace("ID", &format!("{{\"agentID\":\"{}\"}}", self.id));
        let body = format!("{{\"data\":{data},\"sequenceNumber\":{}}}", self.sequence);
        send(to, &self.request("PUT", path, &body))
    }

    pub(crate) fn health(&mut self, to: SocketAddr) -> u16 {
        self.put(to, "/health-check", "ID").status
    }

    pub(crate) fn upscale(&mut self, to: SocketAddr, cpu: &str, memory: &str) -> u16 {
        let data = format!("{{\"cpu\":{cpu},\"memory\":\"{memory}\",\"id\":ID}}");
        self.put(to, "/upscale", &data).status
    }

    pub(crate) fn downscale(&mut self, to: SocketAddr, cpu: &str, memory: &str) -> (u16, String) {
        let data = format!("{{\"cpu\":{cpu},\"memory\":\"{memory}\",\"id\":ID}}");
        let answer = self.put(to, "/downscale", &data);
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// A request that is signed for the session.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Message {
        signed(method, path, body, self.session)
    }
}

/// Checks what the informant sent, and returns its signature.
fn checked(message: &Message) -> Signature {
    let field = |name: &str| message.field(name);
    let nonce = field("walras-nonce").and_then(Token::parse).expect("a nonce");
    let session = field("walras-session").and_then(Token::parse);
    let sequence = field("walras-sequence").map_or(0, |text| text.parse().expect("a number"));
    let signature = field("walras-signature").and_then(Signature::parse).expect("a signature");
    let (method, path, body) = (message.method.as_str(), message.path.as_str(), &message.body);
    let request = Request { method, path, nonce, session, sequence, body };
    assert!(key().signed(&request, signature), "{message:?}");
    signature
}

/// A request with a signature; the nonce is not random, which is the sender's loss only.
pub(crate) fn signed(method: &str, path: &str, body: &str, session: Option<Token>) -> Message {
    let nonce = Token::new([7; 16]);
    let request = Request { method, path, nonce, session, sequence: 0, body: body.as_bytes() };
    let mut fields = vec![
        ("Walras-Nonce".to_owned(), nonce.to_string()),
        ("Walras-Signature".to_owned(), key().sign(&request).to_string()),
    ];
    fields.extend(session.map(|session| ("Walras-Session".to_owned(), session.to_string())));
    let (method, path) = (method.to_owned(), path.to_owned());
    Message { method, path, fields, body: body.as_bytes().to_vec(), ..Message::default() }
}

pub(crate) fn send(to: SocketAddr, request: &Message) -> Message {
    http::call(to, request, PATIENCE).expect("an answer")
}

/// Whether the answer to a request was signed with the key.
pub(crate) fn is_signed(request: &Message, answer: &Message) -> bool {
    let of = |message: &Message, name: &str| {
        let mut all = message.fields.iter();
        all.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let to = of(request, "walras-signature").and_then(|text| Signature::parse(&text));
    let session = of(answer, "walras-session").and_then(|text| Token::parse(&text));
    let signature = of(answer, "walras-signature").and_then(|text| Signature::parse(&text));
    let (Some(to), Some(signature)) = (to, signature) else { return false };
    key().signed_reply(&Reply { to, status: answer.status, session, body: &answer.body }, signature)
}
