//! The Brain over gRPC: package `scheduler`, as KubeAttention's plugin asks for it.
//!
//! Whoever scores implements [`Brain`] in plain functions: a batch takes about a millisecond, so it
//! is answered where it arrives. [`BrainClient`] asks one.

use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::adapter::answer;
use crate::client::{CallError, Target, answer as answered, reach};
use crate::listen::Listen;
use crate::scheduler::brain_client::BrainClient as Asking;
use crate::scheduler::brain_server::{Brain as Service, BrainServer};
use crate::scheduler::{
    BatchScoreRequest, BatchScoreResponse, HealthCheckRequest, HealthCheckResponse,
    ScoreMatrixRequest, ScoreMatrixResponse, ScoreRequest, ScoreResponse,
};
use crate::serve::{Described, Limits, Refused, ServeError, Server};

/// The name of the service, as health checks ask for it.
pub const SERVICE: &str = "scheduler.Brain";
/// The port where nothing is said; KubeAttention's own is that of the workload API here.
pub const PORT: u16 = 50052;
const DESCRIPTION: &[u8] = include_bytes!("generated/scheduler.bin");

/// Whoever scores.
pub trait Brain: Send + Sync + 'static {
    /// Scores one node.
    ///
    /// # Errors
    /// The request makes no sense.
    fn score(&self, request: ScoreRequest) -> Result<ScoreResponse, Refused>;
    /// Scores many nodes.
    ///
    /// # Errors
    /// The request makes no sense.
    fn batch(&self, request: BatchScoreRequest) -> Result<BatchScoreResponse, Refused>;
    /// Scores the rows of a matrix.
    ///
    /// # Errors
    /// The request makes no sense.
    fn matrix(&self, request: ScoreMatrixRequest) -> Result<ScoreMatrixResponse, Refused>;
    /// By which model it answers.
    fn health(&self) -> HealthCheckResponse;
}

/// Bounds of a Brain: 1,024 connections with small windows, messages of 4 MiB (more than 20,000
/// nodes by name), of which eight are taken in at a time.
pub const BRAIN_LIMITS: Limits = Limits {
    connections: 1_024,
    handshake: Duration::from_secs(5),
    message: 4 << 20,
    request: Duration::from_secs(2),
    concurrent: 16,
    in_all: 8,
    window: 256 << 10,
};

/// Starts to serve a Brain.
///
/// # Errors
/// The place or the certificates cannot be used.
pub async fn serve_brain<B: Brain>(
    brain: Arc<B>,
    listen: &Listen,
    limits: Limits,
) -> Result<Server, ServeError> {
    let service = BrainServer::new(Adapter(brain))
        .max_decoding_message_size(limits.message)
        .max_encoding_message_size(usize::MAX);
    let described = Described { service: SERVICE, description: DESCRIPTION };
    Server::begin(service, described, listen, limits).await
}

/// A Brain as the library wants it.
struct Adapter<B>(Arc<B>);

#[tonic::async_trait]
impl<B: Brain> Service for Adapter<B> {
    async fn score(
        &self,
        request: Request<ScoreRequest>,
    ) -> Result<Response<ScoreResponse>, Status> {
        answer(self.0.score(request.into_inner()))
    }

    async fn batch_score(
        &self,
        request: Request<BatchScoreRequest>,
    ) -> Result<Response<BatchScoreResponse>, Status> {
        answer(self.0.batch(request.into_inner()))
    }

    async fn health_check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        answer(Ok(self.0.health()))
    }

    async fn score_matrix(
        &self,
        request: Request<ScoreMatrixRequest>,
    ) -> Result<Response<ScoreMatrixResponse>, Status> {
        answer(self.0.matrix(request.into_inner()))
    }
}

/// A client of one Brain.
#[derive(Clone, Debug)]
pub struct BrainClient {
    inner: Asking<Channel>,
}

impl BrainClient {
    /// Reaches a Brain.
    ///
    /// # Errors
    /// It cannot be reached, or does not prove itself.
    pub async fn connect(target: &Target) -> Result<Self, CallError> {
        let inner = Asking::new(reach(target).await?)
            .max_decoding_message_size(64 << 20)
            .max_encoding_message_size(usize::MAX);
        Ok(Self { inner })
    }

    /// Scores one node.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn score(&mut self, request: ScoreRequest) -> Result<ScoreResponse, Refused> {
        answered(self.inner.score(request).await)
    }

    /// Scores many nodes.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn batch(
        &mut self,
        request: BatchScoreRequest,
    ) -> Result<BatchScoreResponse, Refused> {
        answered(self.inner.batch_score(request).await)
    }

    /// Scores the rows of a matrix.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn matrix(
        &mut self,
        request: ScoreMatrixRequest,
    ) -> Result<ScoreMatrixResponse, Refused> {
        answered(self.inner.score_matrix(request).await)
    }

    /// By which model it answers.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn health(&mut self) -> Result<HealthCheckResponse, Refused> {
        answered(self.inner.health_check(HealthCheckRequest {}).await)
    }
}
