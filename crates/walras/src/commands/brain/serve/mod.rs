//! `walras brain serve`: answers schedulers over gRPC, and takes over models while it does.
//!
//! Requests are answered in threads of their own from whatever model is in service. One loop looks
//! once a second at the settings, the model's file and, where it is told to, at what became of
//! pods. A model that cannot be used is told of and changes nothing.

mod answer;
mod convert;
mod counts;
mod follow;
mod model;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use tokio::runtime::{Builder, Runtime};
use tracing::{debug, info, warn};
use walras_brain::verdict::Scale;
use walras_cgroup::allow_open_files;
use walras_node::log::{self, LogFormat, LogLevel};
use walras_node::serve as http;
use walras_node::signal::{self, Asked};
use walras_rpc::{BRAIN_LIMITS, Limits, Listen, Server, TlsFolder, serve_brain};

use self::answer::Serving;
use self::follow::Follower;
use self::model::{Models, Wanted};
use super::args::{KindChoice, OrderChoice};
use crate::cli::{FormatChoice, LevelChoice};
use crate::failure::Failure;

/// How often settings, models and outcomes are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long requests that are under way may take when it stops.
const STOP_WITHIN: Duration = Duration::from_secs(2);
/// So many files may have to be open: one for each connection.
const OPEN_FILES: u64 = 4_096;
/// Threads that answer.
const THREADS: usize = 2;

pub(super) const SERVE: &str = "\
Examples:
  walras brain serve --socket /run/walras/brain.sock
  walras brain serve --model brain.safetensors --events /var/lib/walras/events
  walras brain serve --model none                         neutral answers: 50, confidence 0
  walras brain serve --listen 0.0.0.0:50052 --tls /etc/walras/tls
  grpcurl -plaintext -unix /run/walras/brain.sock scheduler.Brain/HealthCheck

Serves scheduler.Brain (Score, BatchScore, HealthCheck, ScoreMatrix), grpc.health.v1.Health and
reflection. A node whose telemetry is older than 10 s is neutral on its own. The model's file is
looked at once a second; a new one that passes its checks is in service from the next request on,
and one that does not is told of and changes nothing. --settings names a file that is looked at,
too, whose lines go before the flags:
  model: trees            mlp or trees, of those that are built in
  modelPath: /m/b.safetensors
  scale: batch            absolute, or stretched within each request
With --events it reads what `walras controller --collect` writes, and compares what the model says
with what became of pods. A model that does worse than 50 points for everybody, for half an hour
over 30 outcomes and more, is set aside until it does better or another one comes.
";

/// How to serve.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// The socket to serve on, for its owner
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/run/walras/brain.sock",
        env = "WALRAS_BRAIN_SOCKET"
    )]
    socket: PathBuf,
    /// Serve on this address as well; the usual port is 50052
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_BRAIN_LISTEN")]
    listen: Option<SocketAddr>,
    /// The folder with ca.pem, cert.pem, key.pem and clients for --listen; see `walras certs`
    #[arg(long, value_name = "DIR", requires = "listen", env = "WALRAS_BRAIN_TLS")]
    tls: Option<PathBuf>,
    /// Serve --listen without certificates, which is possible on the loopback interface only
    #[arg(long, requires = "listen", conflicts_with = "tls")]
    plain: bool,
    /// The model: a file, or none for neutral answers; the one that is built in where nothing is
    /// said
    #[arg(long, value_name = "FILE|none", env = "MODEL_PATH")]
    model: Option<PathBuf>,
    /// Which of the models that are built in
    #[arg(long, value_enum, default_value_t = KindChoice::Mlp, env = "WALRAS_BRAIN_KIND")]
    kind: KindChoice,
    /// How scores of one request relate to each other
    #[arg(long, value_enum, default_value = "absolute", env = "WALRAS_BRAIN_SCALE")]
    scale: ScaleChoice,
    /// The order of features, for a file that does not name them
    #[arg(long, value_enum)]
    feature_order: Option<OrderChoice>,
    /// A file with settings that may change while it serves
    #[arg(long, value_name = "FILE", env = "WALRAS_BRAIN_SETTINGS")]
    settings: Option<PathBuf>,
    /// The folder with what became of pods, to notice when the model does worse than none
    #[arg(long, value_name = "DIR", env = "WALRAS_BRAIN_EVENTS")]
    events: Option<PathBuf>,
    /// Where to serve metrics and health over HTTP, if anywhere
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_BRAIN_METRICS_LISTEN")]
    metrics_listen: Option<SocketAddr>,
    /// The least urgent messages that are logged
    #[arg(long, value_enum, env = "WALRAS_LOG_LEVEL")]
    log_level: Option<LevelChoice>,
    /// Whether messages are lines for people or JSON for programs
    #[arg(long, value_enum, env = "WALRAS_LOG_FORMAT")]
    log_format: Option<FormatChoice>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScaleChoice {
    /// As the model gives them
    Absolute,
    /// Stretched so that the worst node has 0 and the best 100
    Batch,
}

/// Serves until it is told to stop.
pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let level = args.log_level.map_or(LogLevel::Info, Into::into);
    log::start(level, args.log_format.map_or(LogFormat::Text, Into::into), &[]);
    let listen = places(args)?;
    let open_files = allow_open_files(OPEN_FILES);
    debug!(open_files, "files that may be open");
    let wanted = Wanted {
        model: model::Choice::of(args.model.as_deref(), args.kind.into()),
        scale: args.scale.into(),
        order: args.feature_order.map(Into::into),
    };
    let serving = Arc::new(Serving::default());
    let mut models = Models::new(Arc::clone(&serving), wanted, args.settings.clone());
    // A model that was asked for and cannot be used is bad input; later it would be bad news.
    models.begin().map_err(Failure::Input)?;
    let asked = signal::listen().map_err(|error| Failure::Machine(error.to_string()))?;
    let machine = |error: String| Failure::Machine(error);
    let metrics = args.metrics_listen.map(|address| {
        let serving = Arc::clone(&serving);
        http::start_metrics(address, move || serving.metrics())
    });
    let metrics = metrics.transpose().map_err(|error| machine(error.to_string()))?;
    let threads = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let threads = threads.map_err(|error| machine(error.to_string()))?;
    let servers = start(&threads, &serving, &listen)?;
    let mut follower = args.events.clone().map(|folder| Follower::new(folder, unix_ms()));
    info!(model = serving.model_version(), "the Brain answers");
    loop {
        match asked.recv_timeout(LOOK_EVERY) {
            Ok(Asked::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Asked::Reload) | Err(RecvTimeoutError::Timeout) => {}
        }
        if models.look() {
            follower.iter_mut().for_each(Follower::model_changed);
        }
        if let Some(follower) = &mut follower {
            follower.look(&serving, unix_ms());
        }
    }
    threads.block_on(async {
        for server in servers {
            server.stop(STOP_WITHIN).await;
        }
    });
    drop(metrics);
    info!("the Brain has stopped");
    Ok(())
}

fn start(
    threads: &Runtime,
    serving: &Arc<Serving>,
    listen: &[Listen],
) -> Result<Vec<Server>, Failure> {
    let mut servers = Vec::new();
    for place in listen {
        let limits: Limits = BRAIN_LIMITS;
        let server = threads.block_on(serve_brain(Arc::clone(serving), place, limits));
        let server = server.map_err(|error| Failure::Machine(error.to_string()))?;
        info!(?place, address = ?server.address(), "served here");
        servers.push(server);
    }
    Ok(servers)
}

fn places(args: &ServeArgs) -> Result<Vec<Listen>, Failure> {
    let mut listen = vec![Listen::Unix { path: args.socket.clone() }];
    match (args.listen, &args.tls) {
        (None, _) => {}
        (Some(address), Some(tls)) => {
            listen.push(Listen::Tls { address, folder: TlsFolder::new(tls) });
        }
        (Some(address), None) if args.plain && address.ip().is_loopback() => {
            listen.push(Listen::Plain { address });
        }
        (Some(address), None) if args.plain => {
            return Err(Failure::Input(format!(
                "--plain: {address} can be reached from other machines; without certificates it \
                 can be served on the loopback interface or a socket only"
            )));
        }
        (Some(_), None) => {
            let words = "--listen: say --tls DIR with certificates, or --plain on loopback";
            return Err(Failure::Input(words.to_owned()));
        }
    }
    if let Some(folder) = args.socket.parent()
        && let Err(error) = std::fs::create_dir_all(folder)
    {
        warn!("{}: cannot be made: {error}", folder.display());
    }
    Ok(listen)
}

/// Now, in milliseconds since 1970.
fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

impl From<ScaleChoice> for Scale {
    fn from(choice: ScaleChoice) -> Self {
        match choice {
            ScaleChoice::Absolute => Self::Absolute,
            ScaleChoice::Batch => Self::Batch,
        }
    }
}
