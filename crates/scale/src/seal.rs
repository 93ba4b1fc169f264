//! Signs requests and answers, and checks those of others. See `wire::vm::auth` for what is signed.

use hyper::header::{HeaderMap, HeaderName};
use ring::rand::{SecureRandom, SystemRandom};
use walras_wire::vm::auth::{
    Key, NONCE_HEADER, Reply, Request, SEQUENCE_HEADER, SESSION_HEADER, SIGNATURE_HEADER,
    Signature, Token,
};

use crate::http::{Answered, Asked, Question, Told};

/// A key, and randomness.
#[derive(Clone, Debug)]
pub struct Seal {
    key: Key,
    random: SystemRandom,
}

/// A request whose signature was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The session it was made in.
    pub session: Option<Token>,
    /// Its number there; zero where it has none.
    pub sequence: u64,
    signature: Signature,
}

/// There is no randomness to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandom;

/// Where a request is made.
#[derive(Clone, Copy, Debug)]
pub struct Within {
    /// The session, where there is one.
    pub session: Option<Token>,
    /// The number in it.
    pub sequence: u64,
}

impl Seal {
    /// Signs with that key.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Self { key, random: SystemRandom::new() }
    }

    /// A random token.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn token(&self) -> Result<Token, NoRandom> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).map_err(|_| NoRandom)?;
        Ok(Token::new(bytes))
    }

    /// Signs a question; returns what its answer has to be signed for.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn sign(&self, question: &mut Question, within: Within) -> Result<Signature, NoRandom> {
        let nonce = self.token()?;
        let Within { session, sequence } = within;
        let (method, path, body) = (question.method, question.path.as_str(), &question.body);
        let request = Request { method, path, nonce, session, sequence, body };
        let signature = self.key.sign(&request);
        let mut header = |name, value: String| question.headers.push((name, value));
        header(NONCE_HEADER, nonce.to_string());
        if let Some(session) = session {
            header(SESSION_HEADER, session.to_string());
        }
        if sequence > 0 {
            header(SEQUENCE_HEADER, sequence.to_string());
        }
        header(SIGNATURE_HEADER, signature.to_string());
        Ok(signature)
    }

    /// Checks a request; nothing where it is not signed with the key.
    #[must_use]
    pub fn check(&self, asked: &Asked) -> Option<Checked> {
        let header = |name: &str| one(&asked.headers, name);
        let nonce = Token::parse(header(NONCE_HEADER)?)?;
        let session = match header(SESSION_HEADER) {
            Some(text) => Some(Token::parse(text)?),
            None => None,
        };
        let sequence = header(SEQUENCE_HEADER).map_or(Some(0), |text| text.parse().ok())?;
        let signature = Signature::parse(header(SIGNATURE_HEADER)?)?;
        let (method, path, body) = (asked.method.as_str(), asked.path.as_str(), &asked.body);
        let request = Request { method, path, nonce, session, sequence, body };
        self.key.signed(&request, signature).then_some(Checked { session, sequence, signature })
    }

    /// Signs an answer to a request that was checked.
    #[must_use]
    pub fn sign_answer(&self, to: &Checked, mut told: Told, session: Option<Token>) -> Told {
        let reply = Reply { to: to.signature, status: told.status, session, body: &told.body };
        let signature = self.key.sign_reply(&reply).to_string();
        if let Some(session) = session {
            told.headers.push((SESSION_HEADER, session.to_string()));
        }
        told.headers.push((SIGNATURE_HEADER, signature));
        told
    }

    /// Whether an answer was signed with the key, for that question; and the session it names.
    #[must_use]
    pub fn check_answer(&self, to: Signature, answered: &Answered) -> Option<Option<Token>> {
        let header = |name: &str| one(&answered.headers, name);
        let session = match header(SESSION_HEADER) {
            Some(text) => Some(Token::parse(text)?),
            None => None,
        };
        let signature = Signature::parse(header(SIGNATURE_HEADER)?)?;
        let (status, body) = (answered.status, answered.body.as_ref());
        let signed = self.key.signed_reply(&Reply { to, status, session, body }, signature);
        signed.then_some(session)
    }
}

/// A header that is there once.
pub(crate) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return None;
    }
    first.to_str().ok()
}
