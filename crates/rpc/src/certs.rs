//! A small certificate authority, for hosts and people who have none.
//!
//! Called by `walras certs`, and by tests. A certificate is for one use only: who serves cannot ask
//! with it, and who asks cannot serve. Keys are readable by their owner alone, and nothing that is
//! there is overwritten.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use crate::tls::{CA_FILE, CERT_FILE, CLIENTS_FILE, KEY_FILE};

/// The authority's key.
const CA_KEY_FILE: &str = "ca-key.pem";
/// What the authority is called in every certificate. Its key, and not its name, tells it apart.
const CA_NAME: &str = "Walras host authority";
/// How long an authority is valid.
const CA_DAYS: u32 = 3650;
/// A clock that is a little behind does not refuse a new certificate.
const BACKDATED: Duration = Duration::minutes(5);

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To serve the API.
    Server,
    /// To ask for something.
    Client,
}

/// What a certificate should say.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whose it is: the name of a host, or of who asks.
    pub name: String,
    /// More names of a host.
    pub dns: Vec<String>,
    /// Its addresses.
    pub ips: Vec<IpAddr>,
    /// What it may be used for.
    pub usage: Use,
    /// From when it is valid, in seconds from now; usually a little before.
    pub from_s: i64,
    /// How long it is valid from then on.
    pub days: u32,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// A file cannot be read or written, or is there already.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The name is none.
    #[error("name: `{0}` is no name of a host or client: letters, digits, `-` and `.`")]
    Name(String),
    /// It cannot be made.
    #[error("the certificate cannot be made: {0}")]
    Made(#[from] rcgen::Error),
}

/// Makes an authority in `folder`, which is made where it is missing.
///
/// # Errors
/// There is one already, or it cannot be written.
pub fn init(folder: &Path) -> Result<(), CertsError> {
    make_folder(folder)?;
    let key = KeyPair::generate()?;
    write(&folder.join(CA_KEY_FILE), &key.serialize_pem(), 0o600)?;
    let certificate = authority()?.self_signed(&key)?;
    write(&folder.join(CA_FILE), &certificate.pem(), 0o644)
}

/// Makes a certificate by the authority in `folder`. Says in which folder it is, together with
/// everything else that its owner needs.
///
/// # Errors
/// There is no authority, or a certificate of that name, or the name is none.
pub fn issue(folder: &Path, wish: &Wish) -> Result<PathBuf, CertsError> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
    let is_name = wish.name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && wish.name.len() <= 63
        && wish.name.chars().all(fits);
    if !is_name {
        return Err(CertsError::Name(wish.name.clone()));
    }
    let ca_key = read(&folder.join(CA_KEY_FILE))?;
    let ca = read(&folder.join(CA_FILE))?;
    let issuer = Issuer::new(authority()?, KeyPair::from_pem(&ca_key)?);
    let key = KeyPair::generate()?;
    let certificate = params(wish)?.signed_by(&key, &issuer)?;
    let place = folder.join(&wish.name);
    make_folder(&place)?;
    write(&place.join(KEY_FILE), &key.serialize_pem(), 0o600)?;
    write(&place.join(CERT_FILE), &certificate.pem(), 0o644)?;
    write(&place.join(CA_FILE), &ca, 0o644)?;
    if wish.usage == Use::Server {
        let text = "# Who may ask: the name in its certificate, one a line.\n";
        write(&place.join(CLIENTS_FILE), text, 0o644)?;
    }
    Ok(place)
}

/// What the authority says about itself: the same each time, so that only its key has to be kept.
fn authority() -> Result<CertificateParams, CertsError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named(CA_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let from = OffsetDateTime::now_utc() - BACKDATED;
    (params.not_before, params.not_after) = (from, from + Duration::days(CA_DAYS.into()));
    Ok(params)
}

fn params(wish: &Wish) -> Result<CertificateParams, CertsError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named(&wish.name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![match wish.usage {
        Use::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Use::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    for name in core::iter::once(&wish.name).chain(&wish.dns) {
        params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    params.subject_alt_names.extend(wish.ips.iter().copied().map(SanType::IpAddress));
    params.use_authority_key_identifier_extension = true;
    let from = OffsetDateTime::now_utc() - BACKDATED + Duration::seconds(wish.from_s);
    (params.not_before, params.not_after) = (from, from + Duration::days(wish.days.into()));
    Ok(params)
}

fn named(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn make_folder(folder: &Path) -> Result<(), CertsError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| CertsError::File { path: folder.to_owned(), source })
}

fn read(path: &Path) -> Result<String, CertsError> {
    fs::read_to_string(path).map_err(|source| CertsError::File { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), CertsError> {
    let opened = OpenOptions::new().create_new(true).write(true).mode(mode).open(path);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|source| CertsError::File { path: path.to_owned(), source })
}
