//! Fetches images: with credentials of private registries, and with words about how far it is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bollard::Docker as Engine;
use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures_util::TryStreamExt as _;
use serde::Deserialize;
use walras_core::run::{Fault, FaultKind};

use super::Docker;
use super::faults::Tried;

/// Where credentials for images without a registry's name are found.
const USUAL_REGISTRY: &str = "https://index.docker.io/v1/";
const MB: u64 = 1_000_000;

/// A file with credentials, as `docker login` writes it.
#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    auths: BTreeMap<String, Credentials>,
}

#[derive(Deserialize)]
struct Credentials {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// Layers of an image: how much of each is here, and how large it is.
#[derive(Default)]
struct Layers(BTreeMap<String, (u64, u64)>);

impl Docker {
    /// Sees to it that an image is here.
    pub(super) async fn fetch(
        &self,
        engine: &Engine,
        image: &str,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), Fault> {
        match engine.inspect_image(image).await {
            Ok(_) => return Ok(()),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {}
            Err(error) => return Err(self.fault(&error, Tried::Question)),
        }
        let credentials = match &self.options.registry_auth {
            Some(file) => credentials(file, registry(image))?,
            None => None,
        };
        let (name, tag) = name_and_tag(image);
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: Some(tag.to_owned()),
            ..Default::default()
        };
        progress(&format!("{image} is being fetched"));
        let mut layers = Layers::default();
        let pulled = engine.create_image(Some(options), None, credentials);
        let pulled = pulled.try_for_each(|info| {
            if layers.heard(info) {
                progress(&layers.words(image));
            }
            std::future::ready(Ok(()))
        });
        pulled.await.map_err(|error| self.fault(&error, Tried::Pull))
    }
}

impl Layers {
    /// Takes note, and says whether there is something to tell.
    fn heard(&mut self, info: CreateImageInfo) -> bool {
        let (Some(layer), Some(detail)) = (info.id, info.progress_detail) else { return false };
        let bytes = |number: Option<i64>| number.and_then(|it| u64::try_from(it).ok());
        let (Some(here), Some(all)) = (bytes(detail.current), bytes(detail.total)) else {
            return false;
        };
        self.0.insert(layer, (here.min(all), all));
        true
    }

    fn words(&self, image: &str) -> String {
        let here: u64 = self.0.values().map(|(here, _)| here).sum();
        let all: u64 = self.0.values().map(|(_, all)| all).sum();
        format!("{image} is being fetched: {} of {} MB", here / MB, all.div_ceil(MB))
    }
}

/// An image without a tag is the latest one, and not all of them.
fn name_and_tag(image: &str) -> (&str, &str) {
    if let Some((name, digest)) = image.split_once('@') {
        return (name, digest);
    }
    match image.rsplit_once(':') {
        // The colon of a registry's port comes before a slash.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        Some(_) | None => (image, "latest"),
    }
}

/// The registry of an image, as files with credentials call it.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        Some(_) | None => USUAL_REGISTRY,
    }
}

/// What a file has for a registry. It is read each time, so that it can be changed.
fn credentials(file: &Path, registry: &str) -> Result<Option<DockerCredentials>, Fault> {
    let unusable = |what: &dyn std::fmt::Display| {
        let words = format!("{}: credentials cannot be used: {what}", file.display());
        Fault::new(FaultKind::ImagePull, words)
    };
    let mode = fs::metadata(file).map_err(|error| unusable(&error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(unusable(&"others can read it; run `chmod 600` on it"));
    }
    let text = fs::read_to_string(file).map_err(|error| unusable(&error))?;
    // What is wrong with it may quote it.
    let config: ConfigFile =
        serde_json::from_str(&text).map_err(|_| unusable(&"it is no file of `docker login`"))?;
    let Some(found) = config.auths.into_iter().find(|(name, _)| name == registry) else {
        return Ok(None);
    };
    let Credentials { auth, mut username, mut password, identitytoken } = found.1;
    if let Some(auth) = auth.filter(|_| username.is_none()) {
        let bytes = BASE64_STANDARD.decode(auth).ok();
        let pair = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = pair.as_deref().and_then(|pair| pair.split_once(':'));
        let (name, word) = pair.ok_or_else(|| unusable(&format!("{registry}: `auth` is none")))?;
        (username, password) = (Some(name.to_owned()), Some(word.to_owned()));
    }
    let serveraddress = Some(registry.to_owned());
    let known = DockerCredentials {
        username,
        password,
        serveraddress,
        identitytoken,
        ..Default::default()
    };
    Ok(Some(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_split_at_its_tag_and_not_at_a_port() {
        for (image, expected, of) in [
            ("nginx", ("nginx", "latest"), USUAL_REGISTRY),
            ("nginx:1.27", ("nginx", "1.27"), USUAL_REGISTRY),
            ("team/nginx", ("team/nginx", "latest"), USUAL_REGISTRY),
            ("host:5000/nginx", ("host:5000/nginx", "latest"), "host:5000"),
            ("host.example/nginx:1", ("host.example/nginx", "1"), "host.example"),
            ("localhost/a/b:1", ("localhost/a/b", "1"), "localhost"),
            ("nginx@sha256:ab", ("nginx", "sha256:ab"), USUAL_REGISTRY),
        ] {
            assert_eq!(name_and_tag(image), expected, "{image}");
            assert_eq!(registry(image), of, "{image}");
        }
    }

    #[test]
    fn credentials_are_found_by_their_registry_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let write = |text: &str, mode| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        let text = r#"{"auths": {"a.example": {"auth": "Ym9iOnM6M2NyZXQ="},
            "b.example": {"username": "eve", "password": "hush"}, "c.example": {"auth": "bm8="}},
            "credsStore": "x"}"#;
        write(text, 0o600);
        let of = |registry: &str| credentials(&file, registry);
        let found = of("a.example").unwrap().unwrap();
        assert_eq!(
            (found.username.as_deref(), found.password.as_deref()),
            (Some("bob"), Some("s:3cret"))
        );
        assert_eq!(of("b.example").unwrap().unwrap().password.as_deref(), Some("hush"));
        assert_eq!(of("other.example").unwrap(), None);
        assert!(of("c.example").unwrap_err().words.contains("c.example"));
        write(text, 0o644);
        assert!(of("a.example").unwrap_err().words.contains("chmod 600"));
        write("{\"auths\": \"hush\"}", 0o600);
        assert!(!of("a.example").unwrap_err().words.contains("hush"));
    }

    #[test]
    fn progress_is_told_in_megabytes_of_all_layers() {
        let mut layers = Layers::default();
        let info = |id: &str, here, all| {
            let text = format!(
                r#"{{"id": "{id}", "progressDetail": {{"current": {here}, "total": {all}}}}}"#
            );
            serde_json::from_str::<CreateImageInfo>(&text).unwrap()
        };
        assert!(!layers.heard(CreateImageInfo::default()));
        assert!(layers.heard(info("a", 10_000_000, 30_000_000)));
        assert!(layers.heard(info("b", 2_000_000, 1_500_000)));
        assert!(layers.heard(info("a", 20_000_000, 30_000_000)));
        assert_eq!(layers.words("nginx:1"), "nginx:1 is being fetched: 21 of 32 MB");
    }
}
