//! The certificates of a testbed: an authority that lives as long as the testbed, and everybody's.
//!
//! Called once for each testbed. The keys are worth nothing elsewhere and are readable by their
//! owner alone.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

use crate::state::State;

/// Whom a certificate is for.
struct Holder<'a> {
    file: &'a str,
    name: &'a str,
    group: Option<&'a str>,
    /// The names under which it serves; a client has none.
    serves: &'a [&'a str],
}

/// Writes the authority, and a certificate and key for every component, to `certs`.
pub(crate) fn write(state: &State) -> Result<()> {
    let folder = state.dir.join("certs");
    fs::create_dir_all(&folder)?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name("walras-testbed", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    save(&folder, "ca.crt", &certificate.pem())?;
    save(&folder, "ca.key", &key.serialize_pem())?;
    let authority = Issuer::new(params, key);
    let address = state.address().to_string();
    let api_names = [
        address.as_str(),
        "127.0.0.1",
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ];
    let client = |file, name, group| Holder { file, name, group, serves: &[] };
    let holders = [
        client("admin", "testbed-admin", Some("system:masters")),
        client("controller-manager", "system:kube-controller-manager", None),
        client("scheduler", "system:kube-scheduler", None),
        Holder { file: "api-server", name: "kube-apiserver", group: None, serves: &api_names },
    ];
    for holder in &holders {
        sign(&folder, holder, &authority)?;
    }
    for node in state.real_nodes() {
        let user = format!("system:node:{}", node.name());
        let address = node.address(state).to_string();
        let (as_client, as_server) = node.certificates();
        let group = Some("system:nodes");
        let client = Holder { file: as_client, name: user.as_str(), group, serves: &[] };
        sign(&folder, &client, &authority)?;
        let serves = [node.name(), address.as_str()];
        let server = Holder { file: as_server, name: user.as_str(), group, serves: &serves };
        sign(&folder, &server, &authority)?;
    }
    let accounts = KeyPair::generate()?;
    save(&folder, "service-accounts.pub", &accounts.public_key_pem())?;
    save(&folder, "service-accounts.key", &accounts.serialize_pem())
}

fn sign(folder: &Path, holder: &Holder<'_>, authority: &Issuer<'_, KeyPair>) -> Result<()> {
    let made = try_to_sign(folder, holder, authority);
    made.with_context(|| format!("cannot make a certificate for {}", holder.file))
}

fn try_to_sign(folder: &Path, holder: &Holder<'_>, authority: &Issuer<'_, KeyPair>) -> Result<()> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name(holder.name, holder.group);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![if holder.serves.is_empty() {
        ExtendedKeyUsagePurpose::ClientAuth
    } else {
        ExtendedKeyUsagePurpose::ServerAuth
    }];
    for served in holder.serves {
        params.subject_alt_names.push(match served.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*served).try_into()?),
        });
    }
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    save(folder, &format!("{}.crt", holder.file), &certificate.pem())?;
    save(folder, &format!("{}.key", holder.file), &key.serialize_pem())
}

fn name(common: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name.push(DnType::CommonName, common);
    name
}

fn save(folder: &Path, file: &str, text: &str) -> Result<()> {
    let path = folder.join(file);
    let mut options = OpenOptions::new();
    let mut out = options.create_new(true).write(true).mode(0o600).open(&path)?;
    out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::state::{Life, Spec};

    #[test]
    fn every_component_gets_a_certificate_and_a_key_that_only_its_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::pretend(7, Spec::with_real_nodes(2, 2), Life::UntilDown);
        state.dir = folder.path().into();
        write(&state).unwrap();
        let mut names = Vec::new();
        for entry in fs::read_dir(folder.path().join("certs")).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let text = fs::read_to_string(entry.path()).unwrap();
            assert!(text.starts_with("-----BEGIN "), "{text}");
            names.push(entry.file_name().into_string().unwrap());
        }
        names.sort();
        let holders = ["admin", "api-server", "ca", "controller-manager"];
        let more = ["kubelet", "kubelet-server", "kubelet-2", "kubelet-2-server", "scheduler"];
        let pairs =
            holders.iter().chain(&more).flat_map(|n| [format!("{n}.crt"), format!("{n}.key")]);
        let mut expected: Vec<String> = pairs.collect();
        expected.extend(["service-accounts.key".into(), "service-accounts.pub".into()]);
        expected.sort();
        assert_eq!(names, expected);
    }
}
