//! Permits over HTTP: POST `/` on port 10299, JSON of at most 1 KiB.
//!
//! With a key, a question has to be signed for the session of this server, which is random and new
//! at each start: a recording of an earlier server's questions is worth nothing. Who does not know
//! the session yet gets a 401 that names it. Within a session, questions of a machine are numbered,
//! and the ledger answers each number once.

use std::sync::Arc;

use walras_core::permit::Refusal;
use walras_core::units::Bytes;
use walras_wire::vm::auth::Token;
use walras_wire::vm::permit::{
    PermitRequest, PermitResponse, SEQUENCE_HEADER, read_request, read_sequence, status,
};

use crate::http::{Asked, Handler, Told};
use crate::seal::{NoRandom, Seal, one};

use super::Permits;

/// The header with what CPU costs on the machine's node.
pub const PRICE_HEADER: &str = "Walras-Price";
/// The header of a 409 with the number of the newest question.
pub const NEWEST_HEADER: &str = "Walras-Newest";

/// Permits as they are served.
#[derive(Debug)]
pub struct Served {
    permits: Arc<Permits>,
    /// What memory is counted in.
    slot: Bytes,
    sealed: Option<(Seal, Token)>,
}

impl Served {
    /// Serves `permits`, to whoever has the key; to everybody where there is none.
    ///
    /// # Errors
    /// The system has no random numbers to name a session by.
    pub fn new(permits: Arc<Permits>, slot: Bytes, seal: Option<Seal>) -> Result<Self, NoRandom> {
        let sealed = match seal {
            Some(seal) => {
                let session = seal.token()?;
                Some((seal, session))
            }
            None => None,
        };
        Ok(Self { permits, slot, sealed })
    }

    fn follow(&self, asked: &Asked) -> Told {
        if asked.path != "/" {
            return Told::words(404, "permits are asked for at /");
        }
        if asked.method != "POST" {
            return Told::words(400, "permits are asked for with POST");
        }
        let Some((seal, session)) = &self.sealed else {
            return match one(&asked.headers, SEQUENCE_HEADER).map(read_sequence) {
                Some(None) => Told::words(400, &format!("{SEQUENCE_HEADER}: is not a number")),
                Some(Some(sequence)) => self.permit(asked, Some(sequence)),
                None => self.permit(asked, None),
            };
        };
        let Some(checked) = seal.check(asked) else {
            return Told::words(401, "the question is not signed with the key of this server");
        };
        if checked.session != Some(*session) {
            let told =
                Told::words(401, "the question is of another session; ask again in this one");
            return seal.sign_answer(&checked, told, Some(*session));
        }
        let told = match checked.sequence {
            0 => Told::words(400, &format!("{SEQUENCE_HEADER}: is missing")),
            sequence => self.permit(asked, Some(sequence)),
        };
        seal.sign_answer(&checked, told, None)
    }

    fn permit(&self, asked: &Asked, sequence: Option<u64>) -> Told {
        match read_request(&asked.body) {
            Ok(request) => self.ask(&request, sequence),
            Err(error) => Told::words(400, &error.to_string()),
        }
    }

    fn ask(&self, request: &PermitRequest, sequence: Option<u64>) -> Told {
        match self.permits.ask(&request.ask(self.slot, sequence)) {
            Ok(priced) => {
                let response = PermitResponse::new(&priced.answer, self.slot);
                let mut told = Told::json(serde_json::to_vec(&response).unwrap_or_default());
                told.headers.extend(priced.price.map(|price| (PRICE_HEADER, price.to_string())));
                told
            }
            Err(refusal) => {
                let mut told = Told::words(status(&refusal), &refusal.to_string());
                if let Refusal::Overtaken { newest, .. } = refusal {
                    told.headers.push((NEWEST_HEADER, newest.to_string()));
                }
                told
            }
        }
    }
}

impl Handler for Served {
    fn answer(&self, asked: &Asked) -> Told {
        let told = self.follow(asked);
        self.permits.count(told.status);
        told
    }
}
