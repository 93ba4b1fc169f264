//! How agents, schedulers and guests prove to each other who they are: by a key that both have.
//!
//! A request carries a nonce, and where there is one the session and a number that grows, and a
//! signature over all of that, the method, the path and the body. An answer is signed together with
//! the signature of its request, so it cannot be one that was given before. Sessions are random and
//! named by whoever is asked, when an agent registers or a scheduler starts: what was recorded in
//! another session, or earlier in this one, is refused. No clock is compared with another.
//!
//! Keys are never shown, and signatures are compared in constant time.

use std::fmt;

use ring::hmac;
use thiserror::Error;

/// The header with a random number of the request.
pub const NONCE_HEADER: &str = "Walras-Nonce";
/// The header with the session.
pub const SESSION_HEADER: &str = "Walras-Session";
/// The header with the number of a request within its session.
pub const SEQUENCE_HEADER: &str = super::permit::SEQUENCE_HEADER;
/// The header with the signature.
pub const SIGNATURE_HEADER: &str = "Walras-Signature";

/// A key has so many bytes, and is written as twice as many hexadecimal digits.
const KEY_BYTES: usize = 32;
/// So many bytes have nonces and sessions.
const TOKEN_BYTES: usize = 16;
/// So many bytes has a signature.
const SIGNATURE_BYTES: usize = 32;

/// A key that two parties share.
#[derive(Clone)]
pub struct Key(hmac::Key);

/// Why something is no key. It does not tell what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a key is 64 hexadecimal digits, as `openssl rand -hex 32` prints them; here are {length} \
     characters"
)]
pub struct KeyError {
    length: usize,
}

/// A nonce or a session: random, and written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token([u8; TOKEN_BYTES]);

/// A signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature([u8; SIGNATURE_BYTES]);

/// What is signed of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// As `POST`.
    pub method: &'a str,
    /// As `/register`.
    pub path: &'a str,
    /// Random.
    pub nonce: Token,
    /// Within which session, where there is one.
    pub session: Option<Token>,
    /// Its number there; zero where there is none.
    pub sequence: u64,
    /// What is sent.
    pub body: &'a [u8],
}

/// What is signed of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// To which request, by its signature.
    pub to: Signature,
    /// As 200.
    pub status: u16,
    /// The session that it names.
    pub session: Option<Token>,
    /// What is answered.
    pub body: &'a [u8],
}

// === impl Key ===

impl Key {
    /// Reads a key, as a file or QEMU's `fw_cfg` has it. White space around it does not count.
    ///
    /// # Errors
    /// It is not 64 hexadecimal digits.
    pub fn parse(text: &[u8]) -> Result<Self, KeyError> {
        let text = text.trim_ascii();
        let bytes: [u8; KEY_BYTES] = unhex(text).ok_or(KeyError { length: text.len() })?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Signs a request.
    #[must_use]
    pub fn sign(&self, request: &Request<'_>) -> Signature {
        let mut context = hmac::Context::with_key(&self.0);
        request.write(&mut context);
        Signature::of(&context)
    }

    /// Whether a request was signed with this key.
    #[must_use]
    pub fn signed(&self, request: &Request<'_>, signature: Signature) -> bool {
        same(&self.sign(request), &signature)
    }

    /// Signs an answer.
    #[must_use]
    pub fn sign_reply(&self, reply: &Reply<'_>) -> Signature {
        let mut context = hmac::Context::with_key(&self.0);
        reply.write(&mut context);
        Signature::of(&context)
    }

    /// Whether an answer was signed with this key.
    #[must_use]
    pub fn signed_reply(&self, reply: &Reply<'_>, signature: Signature) -> bool {
        same(&self.sign_reply(reply), &signature)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Compares without telling by the time it takes where the first difference is.
fn same(one: &Signature, other: &Signature) -> bool {
    let differences = one.0.iter().zip(other.0).fold(0, |seen, (one, other)| seen | (one ^ other));
    std::hint::black_box(differences) == 0
}

// === impl Request ===

impl Request<'_> {
    fn write(&self, context: &mut hmac::Context) {
        let parts =
            [b"walras request 1", self.method.as_bytes(), self.path.as_bytes(), &self.nonce.0];
        parts.into_iter().for_each(|part| add(context, part));
        add(context, self.session.as_ref().map_or(&[], |session| &session.0));
        add(context, &self.sequence.to_be_bytes());
        add(context, self.body);
    }
}

// === impl Reply ===

impl Reply<'_> {
    fn write(&self, context: &mut hmac::Context) {
        add(context, b"walras answer 1");
        add(context, &self.to.0);
        add(context, &self.status.to_be_bytes());
        add(context, self.session.as_ref().map_or(&[], |session| &session.0));
        add(context, self.body);
    }
}

/// With its length before it, so that no part can be taken for the end of another.
fn add(context: &mut hmac::Context, part: &[u8]) {
    let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
    context.update(&length.to_be_bytes());
    context.update(part);
}

// === impl Token ===

impl Token {
    /// Of bytes that are random.
    #[must_use]
    pub const fn new(random: [u8; TOKEN_BYTES]) -> Self {
        Self(random)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; TOKEN_BYTES] {
        self.0
    }

    /// As a header has it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text.as_bytes()).map(Self)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

// === impl Signature ===

impl Signature {
    fn of(context: &hmac::Context) -> Self {
        let tag = context.clone().sign();
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes.copy_from_slice(tag.as_ref());
        Self(bytes)
    }

    /// As a header has it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text.as_bytes()).map(Self)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn unhex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn key() -> Key {
        Key::parse(DIGITS.as_bytes()).unwrap()
    }

    fn request(body: &[u8]) -> Request<'_> {
        let session = Some(Token::new([2; 16]));
        Request {
            method: "PUT",
            path: "/upscale",
            nonce: Token::new([1; 16]),
            session,
            sequence: 7,
            body,
        }
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let good = request(b"{}");
        let signature = key().sign(&good);
        assert!(key().signed(&good, signature));
        for bad in [
            Request { method: "POST", ..good },
            Request { path: "/downscale", ..good },
            Request { nonce: Token::new([9; 16]), ..good },
            Request { session: None, ..good },
            Request { session: Some(Token::new([3; 16])), ..good },
            Request { sequence: 8, ..good },
            Request { body: b"{ }", ..good },
        ] {
            assert!(!key().signed(&bad, signature), "{bad:?}");
        }
        let other = Key::parse(DIGITS.replace('0', "f").as_bytes()).unwrap();
        assert!(!other.signed(&good, signature));
    }

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        let one = Request { method: "PUT", path: "/a", ..request(b"") };
        let other = Request { method: "PUT/", path: "a", ..request(b"") };
        assert_ne!(key().sign(&one), key().sign(&other));
    }

    #[test]
    fn an_answer_is_to_one_request_only() {
        let (first, second) = (key().sign(&request(b"1")), key().sign(&request(b"2")));
        let reply = Reply { to: first, status: 200, session: None, body: b"{}" };
        let signature = key().sign_reply(&reply);
        assert!(key().signed_reply(&reply, signature));
        assert!(!key().signed_reply(&Reply { to: second, ..reply }, signature));
        assert!(!key().signed_reply(&Reply { status: 404, ..reply }, signature));
        assert!(!key().signed_reply(&Reply { body: b"", ..reply }, signature));
    }

    #[test]
    fn keys_and_tokens_are_hexadecimal_digits_and_keys_are_not_shown() {
        assert!(Key::parse(format!("{DIGITS}\n").as_bytes()).is_ok());
        for text in ["", "00", &DIGITS.replace('0', "g"), &DIGITS[1..]] {
            let told = Key::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(told.contains("64 hexadecimal digits"), "{told}");
        }
        assert_eq!(format!("{:?}", key()), "Key(..)");
        let token = Token::new([0xab; 16]);
        assert_eq!(Token::parse(&token.to_string()), Some(token));
        assert_eq!(Token::parse("ab"), None);
        let signature = key().sign(&request(b""));
        assert_eq!(Signature::parse(&signature.to_string()), Some(signature));
    }
}
