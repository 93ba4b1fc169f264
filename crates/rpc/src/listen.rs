//! Where a server listens, and who is at the other end of a connection.
//!
//! Connections are accepted one by one, and no more than so many at once. Each proves itself in a
//! task of its own and within a time, so that one that does not keeps nobody else waiting.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fs, future};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;
use tracing::debug;

use crate::rights::Rights;
use crate::serve::{Limits, ServeError};
use crate::tls::{Reloading, Served, Shown, TlsFolder};

/// How long to wait after the system had no connection to give, as when too many files are open.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Where to listen, and how who asks proves itself.
#[derive(Clone, Debug)]
pub enum Listen {
    /// On a port, with certificates on both sides.
    Tls {
        /// The address.
        address: SocketAddr,
        /// The certificates.
        folder: TlsFolder,
    },
    /// On a port, with a certificate on this side; who asks proves itself by other means.
    OurTls {
        /// The address.
        address: SocketAddr,
        /// Our certificate.
        folder: TlsFolder,
    },
    /// On a port of the loopback interface, for everybody on this machine.
    Plain {
        /// The address.
        address: SocketAddr,
    },
    /// On a socket in the file system, for its owner.
    Unix {
        /// Where.
        path: PathBuf,
    },
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in the list of clients, or how it came in where no name is needed; nothing if it is
    /// not in the list.
    pub name: Option<String>,
    /// What it may ask for.
    pub rights: Rights,
}

impl Peer {
    /// Somebody of this machine, who may do everything.
    fn local(name: &str) -> Self {
        Self { name: Some(name.to_owned()), rights: Rights::ALL }
    }
}

/// Bytes both ways.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// One accepted connection. Its place is free again when it is dropped.
pub(crate) struct Connection {
    io: Box<dyn Io>,
    peer: Peer,
    _place: OwnedSemaphorePermit,
}

/// Something to accept connections from.
#[derive(Debug)]
pub(crate) enum Door {
    Tls(TcpListener, Arc<Reloading>),
    Plain(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Door {
    pub(crate) async fn open(listen: &Listen) -> Result<Self, ServeError> {
        let cannot = |place: String| move |source| ServeError::Listen { place, source };
        match listen {
            Listen::Tls { address, folder } => {
                let tls = Arc::new(Reloading::new(folder.clone(), Shown::ByBoth)?);
                let bound = TcpListener::bind(address).await;
                Ok(Self::Tls(bound.map_err(cannot(address.to_string()))?, tls))
            }
            Listen::OurTls { address, folder } => {
                let tls = Arc::new(Reloading::new(folder.clone(), Shown::ByServer)?);
                let bound = TcpListener::bind(address).await;
                Ok(Self::Tls(bound.map_err(cannot(address.to_string()))?, tls))
            }
            Listen::Plain { address } if !address.ip().is_loopback() => {
                Err(ServeError::Open { address: *address })
            }
            Listen::Plain { address } => {
                let bound = TcpListener::bind(address).await;
                Ok(Self::Plain(bound.map_err(cannot(address.to_string()))?))
            }
            Listen::Unix { path } => {
                let bound = bind_unix(path).map_err(cannot(path.display().to_string()))?;
                Ok(Self::Unix(bound, path.clone()))
            }
        }
    }

    /// The address with the port that was given, if there is one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tls(listener, _) | Self::Plain(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// Accepts until nobody takes the connections any more.
    pub(crate) async fn accept(self, limits: Limits, to: mpsc::Sender<io::Result<Connection>>) {
        let places = Arc::new(Semaphore::new(limits.connections));
        loop {
            let place = tokio::select! {
                place = Arc::clone(&places).acquire_owned() => place,
                () = to.closed() => return,
            };
            let Ok(place) = place else { return };
            let accepted = tokio::select! {
                accepted = self.next() => accepted,
                () = to.closed() => return,
            };
            let (raw, served) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    debug!("a connection was not accepted: {error}");
                    time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let to = to.clone();
            tokio::spawn(async move {
                let proven = time::timeout(limits.handshake, prove(raw, served)).await;
                match proven {
                    Ok(Ok((io, peer))) => {
                        // Nobody is left to take it when the server has stopped.
                        to.send(Ok(Connection { io, peer, _place: place })).await.ok();
                    }
                    Ok(Err(error)) => debug!("a connection was refused: {error}"),
                    Err(_) => debug!("a connection took too long to prove itself"),
                }
            });
        }
    }

    async fn next(&self) -> io::Result<(Raw, Option<Arc<Served>>)> {
        match self {
            Self::Tls(listener, tls) => {
                let (stream, _) = listener.accept().await?;
                Ok((Raw::Tcp(stream), Some(tls.served())))
            }
            Self::Plain(listener) => Ok((Raw::Tcp(listener.accept().await?.0), None)),
            Self::Unix(listener, _) => Ok((Raw::Other(Box::new(listener.accept().await?.0)), None)),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // It may be gone already, which is as good.
            fs::remove_file(path).ok();
        }
    }
}

enum Raw {
    Tcp(TcpStream),
    Other(Box<dyn Io>),
}

/// Lets a connection prove itself, where it has to.
async fn prove(raw: Raw, served: Option<Arc<Served>>) -> io::Result<(Box<dyn Io>, Peer)> {
    match (raw, served) {
        (Raw::Tcp(stream), Some(served)) => {
            stream.set_nodelay(true)?;
            let acceptor = TlsAcceptor::from(Arc::clone(&served.config));
            let stream = acceptor.accept(stream).await?;
            let certificates = stream.get_ref().1.peer_certificates();
            let first = certificates.and_then(<[_]>::first);
            let known = first.and_then(|certificate| served.client_of(certificate));
            let (name, rights) = known.unzip();
            let rights = rights.unwrap_or(Rights::ALL);
            Ok((Box::new(stream), Peer { name, rights }))
        }
        (Raw::Tcp(stream), None) => {
            stream.set_nodelay(true)?;
            Ok((Box::new(stream), Peer::local("loopback")))
        }
        (Raw::Other(io), _) => Ok((io, Peer::local("socket"))),
    }
}

/// A socket that only its owner may use. One that nobody listens on any more is replaced.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    if let Ok(there) = fs::symlink_metadata(path) {
        let deserted =
            there.file_type().is_socket() && std::os::unix::net::UnixStream::connect(path).is_err();
        if !deserted {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "it is in use"));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A stream of the connections that arrive.
pub(crate) fn arriving(
    from: mpsc::Receiver<io::Result<Connection>>,
) -> impl futures_util::Stream<Item = io::Result<Connection>> {
    futures_util::stream::unfold(from, |mut from| async move {
        let next = future::poll_fn(|context| from.poll_recv(context)).await?;
        Some((next, from))
    })
}

// === impl Connection ===

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
