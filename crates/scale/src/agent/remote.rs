//! Schedulers: the one in this process, and one that is asked over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use walras_core::permit::{Answer, Ask, Refusal};
use walras_core::units::Bytes;
use walras_wire::vm::amount::NamePart;
use walras_wire::vm::auth::Token;
use walras_wire::vm::permit::{
    PermitRequest, PodName, SEQUENCE_HEADER, read_response, read_sequence,
};

use crate::http::{Answered, Client, Question};
use crate::permits::Permits;
use crate::permits::serve::NEWEST_HEADER;
use crate::seal::{Seal, Within, one};

use super::{NotPermitted, Scheduler};

/// It answers from memory.
const WITHIN: Duration = Duration::from_secs(2);

/// The ledger in this process.
#[derive(Clone, Debug)]
pub struct Local(pub Arc<Permits>);

/// A scheduler somewhere, for one machine: one connection, closed when a question fails.
#[derive(Debug)]
pub struct Remote {
    line: Mutex<Line>,
    seal: Option<Seal>,
    /// What memory is counted in.
    slot: Bytes,
}

#[derive(Debug)]
struct Line {
    client: Client,
    session: Option<Token>,
}

impl Scheduler for Local {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, NotPermitted>> {
        let answered = self.0.ask(&ask).map(|priced| priced.answer);
        let answered = answered.map_err(|refusal| NotPermitted {
            newest: match &refusal {
                Refusal::Overtaken { newest, .. } => Some(*newest),
                Refusal::UnknownVm { .. }
                | Refusal::NotScaled { .. }
                | Refusal::Nothing { .. }
                | Refusal::AboveMax { .. }
                | Refusal::Impossible { .. }
                | Refusal::Unsettled { .. } => None,
            },
            why: refusal.to_string(),
        });
        Box::pin(async move { answered })
    }
}

impl Remote {
    /// A scheduler at that address. With a seal, questions are signed and answers have to be.
    #[must_use]
    pub fn new(address: SocketAddr, slot: Bytes, seal: Option<Seal>) -> Self {
        let line = Mutex::new(Line { client: Client::new(address), session: None });
        Self { line, seal, slot }
    }

    async fn exchange(&self, ask: &Ask) -> Result<Answer, NotPermitted> {
        let mut line = self.line.lock().await;
        // A scheduler that started since names its session, and is asked again in it.
        for _ in 0..2 {
            let (answered, named) = self.once(&mut line, ask).await?;
            match named {
                Some(session) if answered.status == 401 && line.session != Some(session) => {
                    line.session = Some(session);
                }
                Some(_) | None => return self.read(&answered),
            }
        }
        Err(failed("the scheduler names another session each time"))
    }

    async fn once(
        &self,
        line: &mut Line,
        ask: &Ask,
    ) -> Result<(Answered, Option<Token>), NotPermitted> {
        let pod = pod_of(ask).ok_or_else(|| failed(&format!("{}: is no name", ask.vm)))?;
        let request = PermitRequest::new(pod, ask, self.slot, None);
        let mut question = Question::json("POST", "/", &request);
        let sequence = ask.sequence.unwrap_or(0);
        let signature = match &self.seal {
            Some(seal) => {
                let within = Within { session: line.session, sequence };
                Some((seal, seal.sign(&mut question, within).map_err(|error| failed(&error))?))
            }
            None => {
                question.headers.push((SEQUENCE_HEADER, sequence.to_string()));
                None
            }
        };
        let answered = line.client.ask(&question, WITHIN).await.map_err(|error| failed(&error))?;
        let Some((seal, signature)) = signature else {
            return Ok((answered, None));
        };
        match seal.check_answer(signature, &answered) {
            Some(session) => Ok((answered, session)),
            None => {
                let (status, words) = (answered.status, answered.words());
                Err(failed(&format!("an answer that is not signed with the key: {status} {words}")))
            }
        }
    }

    fn read(&self, answered: &Answered) -> Result<Answer, NotPermitted> {
        if answered.status != 200 {
            let newest = one(&answered.headers, NEWEST_HEADER).and_then(read_sequence);
            let newest = newest.filter(|_| answered.status == 409);
            let why = format!("{} {}", answered.status, answered.words());
            return Err(NotPermitted { newest, why });
        }
        let response = read_response(&answered.body).map_err(|error| failed(&error))?;
        response.answer(self.slot).ok_or_else(|| failed("a unit of nothing"))
    }
}

impl Scheduler for Remote {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, NotPermitted>> {
        Box::pin(async move { self.exchange(&ask).await })
    }
}

fn failed(why: &(impl ToString + ?Sized)) -> NotPermitted {
    NotPermitted { newest: None, why: why.to_string() }
}

/// A machine without a namespace is in that of plain hosts.
fn pod_of(ask: &Ask) -> Option<PodName> {
    let (namespace, name) = ask.vm.as_str().split_once('/')?;
    Some(PodName { namespace: NamePart::new(namespace)?, name: NamePart::new(name)? })
}
