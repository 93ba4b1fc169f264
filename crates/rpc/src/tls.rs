//! TLS of both sides, from a folder with `ca.pem`, `cert.pem` and `key.pem`.
//!
//! Each side shows a certificate of the same authority, and the other checks its authority, its
//! validity, what it may be used for and its name. A server takes only clients whose name is in the
//! file `clients` of its folder. Where who asks proves itself otherwise, by a token, a server needs
//! `cert.pem` and `key.pem` alone. All files are read again when they change; ones that cannot be
//! used are told of, and the last good ones stay in force. Every connection is checked as a whole:
//! none is resumed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::rights::Rights;

/// The authority that both sides trust.
pub(crate) const CA_FILE: &str = "ca.pem";
/// One's own certificate.
pub(crate) const CERT_FILE: &str = "cert.pem";
/// Its key.
pub(crate) const KEY_FILE: &str = "key.pem";
/// Who may ask a server for what, one name a line.
pub(crate) const CLIENTS_FILE: &str = "clients";
/// Who must not read a key: group and everybody.
const OWNER_ALONE: u32 = 0o077;
/// Everybody. A cluster hands secrets to a program that is not root by its group.
const OWNER_AND_GROUP: u32 = 0o007;
/// Files are looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// A folder with certificates.
#[derive(Clone, Debug)]
pub struct TlsFolder(PathBuf);

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Others can read the key.
    #[error(
        "{}: others can read this key (mode {mode:03o}); run `chmod 600` on it",
        path.display()
    )]
    OpenKey {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// What a server goes by.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) config: Arc<ServerConfig>,
    clients: Vec<(ServerName<'static>, Rights)>,
}

/// Which side shows a certificate, and what is spoken then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Both sides; HTTP/2.
    ByBoth,
    /// The server; HTTP/2.
    ByServer,
    /// The server; HTTP/1.1.
    ByServerHttp1,
}

/// A bytes stream that is encrypted.
pub type Secured = tokio_rustls::server::TlsStream<TcpStream>;

/// The certificate of a server of HTTP/1.1, read again when it changes.
#[derive(Debug)]
pub struct ServerTls(Reloading);

/// What a server goes by, read again when it changes.
#[derive(Debug)]
pub(crate) struct Reloading {
    folder: TlsFolder,
    shown: Shown,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    served: Arc<Served>,
    stamps: Vec<Option<SystemTime>>,
    looked_at: Instant,
}

// === impl TlsFolder ===

impl TlsFolder {
    /// The folder at `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// What a client shows and checks.
    pub(crate) fn client(&self) -> Result<ClientConfig, TlsError> {
        let (chain, key) = self.identity(OWNER_ALONE)?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| self.content(CERT_FILE, &error))?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(chain, key);
        let mut config = config.map_err(|error| self.content(CERT_FILE, &error))?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    fn served(&self, shown: Shown) -> Result<Served, TlsError> {
        match shown {
            Shown::ByBoth => self.server(),
            Shown::ByServer => self.server_alone(HTTP2),
            Shown::ByServerHttp1 => self.server_alone(HTTP1),
        }
    }

    /// Who asks shows no certificate.
    fn server_alone(&self, protocol: &[u8]) -> Result<Served, TlsError> {
        let (chain, key) = self.identity(OWNER_AND_GROUP)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| self.content(CERT_FILE, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = config.map_err(|error| self.content(CERT_FILE, &error))?;
        config.alpn_protocols = vec![protocol.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Served { config: Arc::new(config), clients: Vec::new() })
    }

    fn server(&self) -> Result<Served, TlsError> {
        let roots = Arc::new(self.roots()?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        let verifier = verifier.map_err(|error| self.content(CA_FILE, &error))?;
        let (chain, key) = self.identity(OWNER_ALONE)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| self.content(CERT_FILE, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key);
        let mut config = config.map_err(|error| self.content(CERT_FILE, &error))?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Served { config: Arc::new(config), clients: self.clients()? })
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(CA_FILE)? {
            roots.add(certificate).map_err(|error| self.content(CA_FILE, &error))?;
        }
        Ok(roots)
    }

    /// The certificate and its key, which those in `others` must not be able to read.
    fn identity(
        &self,
        others: u32,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let path = self.0.join(KEY_FILE);
        let unread = |source| TlsError::File { path: path.clone(), source };
        let mode = fs::metadata(&path).map_err(unread)?.permissions().mode() & 0o777;
        if mode & others != 0 {
            return Err(TlsError::OpenKey { path, mode });
        }
        let key = fs::read(&path).map_err(unread)?;
        let key = PrivateKeyDer::from_pem_slice(&key);
        let key = key.map_err(|error| self.content(KEY_FILE, &error))?;
        Ok((self.certificates(CERT_FILE)?, key))
    }

    fn certificates(&self, file: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let text = self.text(file)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        let found = found.map_err(|error| self.content(file, &error))?;
        if found.is_empty() {
            return Err(self.content(file, &"there is no certificate in it"));
        }
        Ok(found)
    }

    fn clients(&self) -> Result<Vec<(ServerName<'static>, Rights)>, TlsError> {
        let text = self.text(CLIENTS_FILE)?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parsed = lines.map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            let bad = |what: String| self.content(CLIENTS_FILE, &what);
            let rights = Rights::named(words).map_err(|word| {
                let known = "read, logs, apply, delete, exec, drain and all";
                bad(format!("`{word}` after {name} is no right; there are {known}"))
            })?;
            let none = || bad(format!("`{name}` is no name"));
            let name = ServerName::try_from(name.clone()).map_err(|_| none())?;
            Ok((name, rights))
        });
        parsed.collect()
    }

    fn text(&self, file: &str) -> Result<String, TlsError> {
        let path = self.0.join(file);
        fs::read_to_string(&path).map_err(|source| TlsError::File { path, source })
    }

    fn content(&self, file: &str, what: &impl ToString) -> TlsError {
        TlsError::Content { path: self.0.join(file), what: what.to_string() }
    }

    /// When each file was last changed.
    fn stamps(&self) -> Vec<Option<SystemTime>> {
        let changed = |file: &&str| fs::metadata(self.0.join(file)).and_then(|it| it.modified());
        [CA_FILE, CERT_FILE, KEY_FILE, CLIENTS_FILE].iter().map(|file| changed(file).ok()).collect()
    }
}

// === impl Served ===

impl Served {
    /// The name of a client as the list has it, and its rights, if it is there.
    pub(crate) fn client_of(&self, certificate: &CertificateDer<'_>) -> Option<(String, Rights)> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let fits = |name: &ServerName<'_>| verify_server_name(&parsed, name).is_ok();
        let (name, rights) = self.clients.iter().find(|(name, _)| fits(name))?;
        Some((name.to_str().into_owned(), *rights))
    }
}

// === impl Reloading ===

impl Reloading {
    pub(crate) fn new(folder: TlsFolder, shown: Shown) -> Result<Self, TlsError> {
        let stamps = folder.stamps();
        let served = Arc::new(folder.served(shown)?);
        let current = Mutex::new(Current { served, stamps, looked_at: Instant::now() });
        Ok(Self { folder, shown, current })
    }

    /// What is in force now.
    pub(crate) fn served(&self) -> Arc<Served> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked_at.elapsed() >= LOOK_EVERY {
            current.looked_at = Instant::now();
            let stamps = self.folder.stamps();
            if stamps != current.stamps {
                match self.folder.served(self.shown) {
                    Ok(served) => {
                        current.served = Arc::new(served);
                        info!("certificates were read again");
                    }
                    Err(error) => warn!("the last good certificates stay in force: {error}"),
                }
                current.stamps = stamps;
            }
        }
        Arc::clone(&current.served)
    }
}

// === impl ServerTls ===

impl ServerTls {
    /// The certificate in `folder`.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn new(folder: &TlsFolder) -> Result<Self, TlsError> {
        Ok(Self(Reloading::new(folder.clone(), Shown::ByServerHttp1)?))
    }

    /// Lets a connection be encrypted.
    ///
    /// # Errors
    /// The other side does not do its part.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Secured> {
        TlsAcceptor::from(Arc::clone(&self.0.served().config)).accept(stream).await
    }
}

/// What a client checks that shows no certificate: those of the authority in the file `ca`.
pub(crate) fn trusting(ca: &Path) -> Result<ClientConfig, TlsError> {
    let content =
        |what: &dyn ToString| TlsError::Content { path: ca.to_owned(), what: what.to_string() };
    let text = fs::read(ca).map_err(|source| TlsError::File { path: ca.to_owned(), source })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| content(&error))?;
        roots.add(certificate).map_err(|error| content(&error))?;
    }
    if roots.is_empty() {
        return Err(content(&"there is no certificate in it"));
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| content(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// The one place that says whose cryptography is used.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
