//! TLS of both sides, from a folder with `ca.pem`, `cert.pem` and `key.pem`.
//!
//! Each side shows a certificate of the same authority, and the other checks its authority, its
//! validity, what it may be used for and its name. A server takes only clients whose name is in the
//! file `clients` of its folder. All files are read again when they change; ones that cannot be
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
use tracing::{info, warn};

/// The authority that both sides trust.
pub(crate) const CA_FILE: &str = "ca.pem";
/// One's own certificate.
pub(crate) const CERT_FILE: &str = "cert.pem";
/// Its key.
pub(crate) const KEY_FILE: &str = "key.pem";
/// Who may ask a server, one name a line.
pub(crate) const CLIENTS_FILE: &str = "clients";
/// Files are looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const HTTP2: &[u8] = b"h2";

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
    clients: Vec<ServerName<'static>>,
}

/// What a server goes by, read again when it changes.
#[derive(Debug)]
pub(crate) struct Reloading {
    folder: TlsFolder,
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
        let (chain, key) = self.identity()?;
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

    fn server(&self) -> Result<Served, TlsError> {
        let roots = Arc::new(self.roots()?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        let verifier = verifier.map_err(|error| self.content(CA_FILE, &error))?;
        let (chain, key) = self.identity()?;
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

    fn identity(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let path = self.0.join(KEY_FILE);
        let unread = |source| TlsError::File { path: path.clone(), source };
        let mode = fs::metadata(&path).map_err(unread)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
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

    fn clients(&self) -> Result<Vec<ServerName<'static>>, TlsError> {
        let text = self.text(CLIENTS_FILE)?;
        let names = text.lines().map(str::trim);
        let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
        let parsed = names.map(|name| {
            let name = name.to_owned();
            ServerName::try_from(name.clone())
                .map_err(|_| self.content(CLIENTS_FILE, &format!("`{name}` is no name")))
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
    /// The name of a client as the list has it, if it is there.
    pub(crate) fn name_of(&self, certificate: &CertificateDer<'_>) -> Option<String> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let found = self.clients.iter().find(|name| verify_server_name(&parsed, name).is_ok())?;
        Some(found.to_str().into_owned())
    }
}

// === impl Reloading ===

impl Reloading {
    pub(crate) fn new(folder: TlsFolder) -> Result<Self, TlsError> {
        let stamps = folder.stamps();
        let served = Arc::new(folder.server()?);
        let current = Mutex::new(Current { served, stamps, looked_at: Instant::now() });
        Ok(Self { folder, current })
    }

    /// What is in force now.
    pub(crate) fn served(&self) -> Arc<Served> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked_at.elapsed() >= LOOK_EVERY {
            current.looked_at = Instant::now();
            let stamps = self.folder.stamps();
            if stamps != current.stamps {
                match self.folder.server() {
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

/// The one place that says whose cryptography is used.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
