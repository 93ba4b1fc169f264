//! A server and its clients on this machine: who gets in, who does not, and what is bounded.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::SocketAddr;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use futures_util::{StreamExt as _, stream};
    use hyper_util::rt::TokioIo;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpStream, UnixStream};
    use tokio::sync::mpsc;
    use tokio_rustls::TlsConnector;
    use tonic::transport::{Channel, Endpoint};
    use tonic_health::pb::HealthCheckRequest as Ask;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use walras_rpc::agent::{
        ApplyWorkloadRequest, ApplyWorkloadResponse, DeleteWorkloadRequest, DeleteWorkloadResponse,
        ExecRequest, ExecResponse, GetLogsRequest, GetLogsResponse, GetWorkloadStatusRequest,
        GetWorkloadStatusResponse, HealthCheckRequest, HealthCheckResponse, ListActionsRequest,
        ListActionsResponse, ListWorkloadsRequest, ListWorkloadsResponse, SetDrainRequest,
        SetDrainResponse, SnapshotAction, SnapshotInfo, SnapshotRequest, SnapshotResponse,
    };
    use walras_rpc::certs::{self, Use, Wish};
    use walras_rpc::{
        Agent, Answers, CallError, Client, Code, Limits, Listen, Peer, Refused, ServeError, Server,
        Target, TlsFolder,
    };

    /// An agent that tells who asked.
    struct Echo;

    impl Agent for Echo {
        async fn apply(
            &self,
            peer: &Peer,
            request: ApplyWorkloadRequest,
        ) -> Result<ApplyWorkloadResponse, Refused> {
            let message = format!("{} by {}", request.id, peer.name.as_deref().unwrap_or("nobody"));
            Ok(ApplyWorkloadResponse { applied: true, message, ..Default::default() })
        }

        async fn delete(
            &self,
            _: &Peer,
            request: DeleteWorkloadRequest,
        ) -> Result<DeleteWorkloadResponse, Refused> {
            let message = format!("{}: there is no such workload", request.id);
            Err(Refused { code: Code::NotFound, message })
        }

        async fn status(
            &self,
            _: GetWorkloadStatusRequest,
        ) -> Result<GetWorkloadStatusResponse, Refused> {
            // Longer than any request may take.
            std::future::pending().await
        }

        async fn list(&self, _: ListWorkloadsRequest) -> Result<ListWorkloadsResponse, Refused> {
            Ok(ListWorkloadsResponse::default())
        }

        async fn health(&self, _: HealthCheckRequest) -> Result<HealthCheckResponse, Refused> {
            Ok(HealthCheckResponse { healthy: true, ..Default::default() })
        }

        async fn actions(&self, _: ListActionsRequest) -> Result<ListActionsResponse, Refused> {
            Ok(ListActionsResponse::default())
        }

        async fn drain(
            &self,
            _: &Peer,
            request: SetDrainRequest,
        ) -> Result<SetDrainResponse, Refused> {
            Ok(SetDrainResponse { drained: request.drain })
        }

        async fn snapshot(
            &self,
            _: &Peer,
            request: SnapshotRequest,
        ) -> Result<SnapshotResponse, Refused> {
            let one = SnapshotInfo { name: request.name, taken_at: 7 };
            Ok(SnapshotResponse { snapshots: vec![one] })
        }

        async fn logs(&self, request: GetLogsRequest) -> Result<Answers<GetLogsResponse>, Refused> {
            let (to, from) = mpsc::channel(1);
            tokio::spawn(async move {
                for number in 0..request.tail {
                    let text = format!("{number}\n").into_bytes();
                    to.send(Ok(GetLogsResponse { text })).await.ok();
                }
            });
            Ok(from)
        }

        async fn exec(
            &self,
            _: &Peer,
            first: ExecRequest,
            mut input: mpsc::Receiver<Vec<u8>>,
        ) -> Result<Answers<ExecResponse>, Refused> {
            let (to, from) = mpsc::channel(1);
            tokio::spawn(async move {
                while let Some(output) = input.recv().await {
                    let piece = ExecResponse { output, ..Default::default() };
                    to.send(Ok(piece)).await.ok();
                }
                let exit_code = i64::try_from(first.command.len()).unwrap_or(0);
                let last = ExecResponse { ended: true, exit_code, ..Default::default() };
                to.send(Ok(last)).await.ok();
            });
            Ok(from)
        }
    }

    fn wish(name: &str, usage: Use) -> Wish {
        let (dns, ips) = match usage {
            Use::Server => (vec!["localhost".to_owned()], vec!["127.0.0.1".parse().unwrap()]),
            Use::Client => (vec![], vec![]),
        };
        Wish { name: name.to_owned(), dns, ips, usage, from_s: 0, days: 1 }
    }

    /// An authority, a server `web1`, and the client `alice` whom it knows.
    struct Ground {
        dir: TempDir,
        address: SocketAddr,
        _server: Server,
    }

    impl Ground {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            certs::init(dir.path()).unwrap();
            let server = certs::issue(dir.path(), &wish("web1", Use::Server)).unwrap();
            certs::issue(dir.path(), &wish("alice", Use::Client)).unwrap();
            fs::write(server.join("clients"), "# ours\nalice\n").unwrap();
            let (server, address) = serve(&server).await;
            Self { dir, address, _server: server }
        }

        fn issue(&self, wish: &Wish) -> PathBuf {
            certs::issue(self.dir.path(), wish).unwrap()
        }

        async fn ask_as(&self, folder: &Path) -> Result<String, CallError> {
            ask(self.address.to_string(), folder).await
        }
    }

    async fn serve(folder: &Path) -> (Server, SocketAddr) {
        let address = "127.0.0.1:0".parse().unwrap();
        let listen = Listen::Tls { address, folder: TlsFolder::new(folder) };
        let limits = Limits { message: 100_000, ..Limits::DEFAULT };
        let server = Server::start(Arc::new(Echo), &listen, limits).await.unwrap();
        let address = server.address().unwrap();
        (server, address)
    }

    async fn ask(address: String, folder: &Path) -> Result<String, CallError> {
        let mut client =
            Client::connect(&Target::Tls { address, folder: TlsFolder::new(folder) }).await?;
        let request = ApplyWorkloadRequest { id: "web".to_owned(), ..Default::default() };
        Ok(client.apply(request).await?.message)
    }

    #[tokio::test]
    async fn who_has_the_right_certificate_gets_in_and_is_known_by_name() {
        let ground = Ground::new().await;
        let alice = ground.dir.path().join("alice");
        assert_eq!(ground.ask_as(&alice).await.unwrap(), "web by alice");
        let by_name = format!("localhost:{}", ground.address.port());
        assert_eq!(ask(by_name, &alice).await.unwrap(), "web by alice");
    }

    #[tokio::test]
    async fn who_has_another_certificate_does_not() {
        let ground = Ground::new().await;
        let client = |name| wish(name, Use::Client);
        let day = 24 * 3600;
        let late = ground.issue(&Wish { from_s: -3 * day, ..client("late.alice") });
        let early = ground.issue(&Wish { from_s: day, ..client("early.alice") });
        let server_only = ground.issue(&wish("server.alice", Use::Server));
        let stranger = ground.issue(&client("mallory"));
        let elsewhere = tempfile::tempdir().unwrap();
        certs::init(elsewhere.path()).unwrap();
        let foreign = certs::issue(elsewhere.path(), &client("alice")).unwrap();
        // It trusts our authority, and shows the certificate of another.
        fs::copy(ground.dir.path().join("ca.pem"), foreign.join("ca.pem")).unwrap();
        for (folder, expected) in [
            (late, "CertificateExpired"),
            // The library's alert for both.
            (early, "CertificateExpired"),
            (server_only, "UnsupportedCertificate"),
            // Both authorities have one name, so it is the signature that is wrong.
            (foreign, "DecryptError"),
            (stranger, "no name of your certificate is in the list of clients"),
        ] {
            let error = ground.ask_as(&folder).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{}: {error}", folder.display());
        }
    }

    #[tokio::test]
    async fn who_has_no_certificate_does_not() {
        let ground = Ground::new().await;
        let ca = fs::read(ground.dir.path().join("ca.pem")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(ground.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        // With TLS 1.3 the refusal comes after the handshake.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.ok();
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err().to_string();
        assert!(error.contains("CertificateRequired"), "{error}");
    }

    /// The first message of a handshake that offers this version at most, and the server's alert.
    async fn alert_for(address: SocketAddr, version: [u8; 2]) -> u8 {
        let suites = [0xc0, 0x09, 0xc0, 0x13, 0x00, 0x2f, 0x00, 0x35];
        // Without signatures and curves it would be refused before its version is looked at.
        let (signatures, curves) = ([0, 13, 0, 4, 0, 2, 4, 3], [0, 10, 0, 4, 0, 2, 0, 29]);
        let extensions = [&[0, 16][..], &signatures, &curves].concat();
        let mut hello = [&version[..], &[7; 32], &[0], &[0, 8], &suites, &[1, 0]].concat();
        hello.extend(extensions);
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        hello = [&[1, 0, 0, length(&hello)][..], &hello].concat();
        let record = [&[22, 3, 1, 0, length(&hello)][..], &hello].concat();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&record).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        // An alert, of two bytes: fatal, and which.
        assert_eq!((answer[0], &answer[3..6]), (21, &[0, 2, 2][..]), "{answer:?}");
        answer[6]
    }

    #[tokio::test]
    async fn an_old_version_of_tls_is_refused() {
        let ground = Ground::new().await;
        let protocol_version = 70;
        assert_eq!(alert_for(ground.address, [3, 2]).await, protocol_version, "TLS 1.1");
        assert_eq!(alert_for(ground.address, [3, 1]).await, protocol_version, "TLS 1.0");
        // It is the version: the same with 1.2 is refused for what else it lacks.
        assert_ne!(alert_for(ground.address, [3, 3]).await, protocol_version);
    }

    #[tokio::test]
    async fn a_client_refuses_a_server_of_another_name_or_use() {
        let ground = Ground::new().await;
        let alice = ground.dir.path().join("alice");
        let other = Wish { dns: vec![], ips: vec![], ..wish("web2", Use::Server) };
        for wish in [other, wish("web3", Use::Client)] {
            let folder = ground.issue(&wish);
            fs::write(folder.join("clients"), "alice\n").unwrap();
            let (_server, address) = serve(&folder).await;
            let error = ask(address.to_string(), &alice).await.unwrap_err().to_string();
            assert!(error.contains("certificate"), "{}: {error}", wish.name);
        }
    }

    #[tokio::test]
    async fn lists_and_certificates_are_read_again_when_they_change() {
        let ground = Ground::new().await;
        let bob = ground.issue(&wish("bob", Use::Client));
        let served = ground.dir.path().join("web1");
        assert!(ground.ask_as(&bob).await.is_err());
        fs::write(served.join("clients"), "bob\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while ground.ask_as(&bob).await.is_err() {
            assert!(Instant::now() < deadline, "the new list is not in force");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // A list that cannot be used changes nothing.
        fs::write(served.join("clients"), "not a name\n").unwrap();
        let until = Instant::now() + Duration::from_millis(1200);
        while Instant::now() < until {
            assert_eq!(ground.ask_as(&bob).await.unwrap(), "web by bob");
        }
    }

    #[tokio::test]
    async fn who_may_only_read_is_refused_everything_else() {
        let ground = Ground::new().await;
        let served = ground.dir.path().join("web1");
        let bob = ground.issue(&wish("bob", Use::Client));
        fs::write(served.join("clients"), "alice\nbob read logs\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut client = loop {
            let address = ground.address.to_string();
            let target = Target::Tls { address, folder: TlsFolder::new(&bob) };
            let mut client = Client::connect(&target).await.unwrap();
            if client.health().await.is_ok() {
                break client;
            }
            assert!(Instant::now() < deadline, "the new list is not in force");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let refused = client.apply(ApplyWorkloadRequest::default()).await.unwrap_err();
        assert_eq!(refused.code, Code::Forbidden);
        assert_eq!(refused.message, "bob may not apply here, only: read, logs");
        assert_eq!(client.delete("web").await.unwrap_err().code, Code::Forbidden);
        assert_eq!(client.drain(true).await.unwrap_err().code, Code::Forbidden);
        // Whoever may look sees snapshots, and makes none.
        let snapshot = |action: SnapshotAction| SnapshotRequest {
            action: action.into(),
            ..Default::default()
        };
        assert_eq!(client.snapshot(snapshot(SnapshotAction::Unspecified)).await.unwrap().len(), 1);
        for action in [SnapshotAction::Take, SnapshotAction::Revert, SnapshotAction::Drop] {
            let refused = client.snapshot(snapshot(action)).await.unwrap_err();
            assert_eq!(refused.code, Code::Forbidden);
        }
        let (to, from) = mpsc::channel(1);
        to.send(ExecRequest::default()).await.unwrap();
        assert_eq!(client.exec(from).await.unwrap_err().code, Code::Forbidden);
        let request = GetLogsRequest { tail: 1, ..Default::default() };
        assert!(client.logs(request).await.is_ok());
    }

    #[tokio::test]
    async fn lines_and_commands_are_streams() {
        let ground = Ground::new().await;
        let alice = ground.dir.path().join("alice");
        let target =
            Target::Tls { address: ground.address.to_string(), folder: TlsFolder::new(&alice) };
        let mut client = Client::connect(&target).await.unwrap();
        let request = GetLogsRequest { id: "web".to_owned(), tail: 300, ..Default::default() };
        let mut pieces = client.logs(request).await.unwrap();
        for number in 0..300 {
            let piece = pieces.next().await.unwrap().unwrap();
            assert_eq!(piece.text, format!("{number}\n").into_bytes());
        }
        assert_eq!(pieces.next().await.unwrap(), None);
        let (to, from) = mpsc::channel(4);
        let command = vec!["cat".to_owned(), "-".to_owned()];
        to.send(ExecRequest { command, ..Default::default() }).await.unwrap();
        to.send(ExecRequest { input: b"hello".to_vec(), ..Default::default() }).await.unwrap();
        drop(to);
        let mut pieces = client.exec(from).await.unwrap();
        assert_eq!(pieces.next().await.unwrap().unwrap().output, b"hello");
        let last = pieces.next().await.unwrap().unwrap();
        assert!(last.ended && last.exit_code == 2, "{last:?}");
    }

    #[tokio::test]
    async fn certificates_that_change_under_load_lose_no_request() {
        let ground = Ground::new().await;
        let served = ground.dir.path().join("web1");
        let alice = ground.dir.path().join("alice");
        let serial = || fs::read(served.join("cert.pem")).unwrap();
        let first = serial();
        for round in 0..5 {
            let rotated = Wish { days: 2 + round, ..wish("web1", Use::Server) };
            let fresh = tempfile::tempdir().unwrap();
            for file in ["ca.pem", "ca-key.pem"] {
                fs::copy(ground.dir.path().join(file), fresh.path().join(file)).unwrap();
            }
            let fresh = certs::issue(fresh.path(), &rotated).unwrap();
            for file in ["key.pem", "cert.pem"] {
                // As people do it: one file after the other, each at once.
                fs::rename(fresh.join(file), served.join(file)).unwrap_or_else(|_| {
                    fs::copy(fresh.join(file), served.join(file)).unwrap();
                });
                for _ in 0..10 {
                    assert_eq!(ground.ask_as(&alice).await.unwrap(), "web by alice");
                }
            }
            let until = Instant::now() + Duration::from_millis(300);
            while Instant::now() < until {
                assert_eq!(ground.ask_as(&alice).await.unwrap(), "web by alice");
            }
        }
        assert_ne!(serial(), first);
    }

    #[tokio::test]
    async fn what_is_too_large_or_takes_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let limits =
            Limits { message: 1000, request: Duration::from_millis(100), ..Limits::DEFAULT };
        let listen = Listen::Unix { path: path.clone() };
        let _server = Server::start(Arc::new(Echo), &listen, limits).await.unwrap();
        let mut client = Client::connect(&Target::Unix { path }).await.unwrap();
        let id = "x".repeat(2000);
        let large =
            client.apply(ApplyWorkloadRequest { id, ..Default::default() }).await.unwrap_err();
        assert!(large.message.contains("too large"), "{large:?}");
        let slow = client.status("web").await.unwrap_err();
        assert_eq!(slow.code, Code::Unreachable, "{slow:?}");
        let missing = client.delete("web").await.unwrap_err();
        assert_eq!(missing.code, Code::NotFound);
        assert_eq!(missing.message, "web: there is no such workload");
    }

    #[tokio::test]
    async fn connections_are_bounded_and_a_silent_one_gives_its_place_back() {
        let dir = tempfile::tempdir().unwrap();
        certs::init(dir.path()).unwrap();
        let folder = certs::issue(dir.path(), &wish("web1", Use::Server)).unwrap();
        let alice = certs::issue(dir.path(), &wish("alice", Use::Client)).unwrap();
        fs::write(folder.join("clients"), "alice\n").unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let listen = Listen::Tls { address, folder: TlsFolder::new(&folder) };
        let limits =
            Limits { connections: 1, handshake: Duration::from_millis(200), ..Limits::DEFAULT };
        let server = Server::start(Arc::new(Echo), &listen, limits).await.unwrap();
        let address = server.address().unwrap();
        let _silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(ask(address.to_string(), &alice).await.unwrap(), "web by alice");
    }

    #[tokio::test]
    async fn without_certificates_only_this_machine_is_served() {
        let open = Listen::Plain { address: "0.0.0.0:0".parse().unwrap() };
        let refused = Server::start(Arc::new(Echo), &open, Limits::DEFAULT).await.unwrap_err();
        assert!(matches!(refused, ServeError::Open { .. }), "{refused}");
        let listen = Listen::Plain { address: "127.0.0.1:0".parse().unwrap() };
        let server = Server::start(Arc::new(Echo), &listen, Limits::DEFAULT).await.unwrap();
        let target = Target::Plain { address: server.address().unwrap() };
        let mut client = Client::connect(&target).await.unwrap();
        assert!(client.health().await.unwrap().healthy);
        assert!(client.drain(true).await.unwrap());
        server.stop(Duration::from_secs(5)).await;
        assert_eq!(client.health().await.unwrap_err().code, Code::Unreachable);
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_and_is_taken_over_only_when_deserted() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listen = Listen::Unix { path: path.clone() };
        let server = Server::start(Arc::new(Echo), &listen, Limits::DEFAULT).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = Server::start(Arc::new(Echo), &listen, Limits::DEFAULT).await;
        assert!(second.unwrap_err().to_string().contains("in use"));
        server.stop(Duration::from_secs(5)).await;
        drop(std::os::unix::net::UnixListener::bind(dir.path().join("left")).unwrap());
        let left = Listen::Unix { path: dir.path().join("left") };
        Server::start(Arc::new(Echo), &left, Limits::DEFAULT).await.unwrap();
    }

    async fn channel(path: &Path) -> Channel {
        let path = path.to_owned();
        let reach = tower::service_fn(move |_| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        Endpoint::from_static("http://socket").connect_with_connector(reach).await.unwrap()
    }

    #[tokio::test]
    async fn health_and_reflection_are_served_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listen = Listen::Unix { path: path.clone() };
        let _server = Server::start(Arc::new(Echo), &listen, Limits::DEFAULT).await.unwrap();
        let channel = channel(&path).await;
        let ask = Ask { service: walras_rpc::SERVICE.to_owned() };
        let health = HealthClient::new(channel.clone()).check(ask).await.unwrap().into_inner();
        assert_eq!(health.status, 1, "SERVING");
        let list = MessageRequest::ListServices(String::new());
        let ask = ServerReflectionRequest { host: String::new(), message_request: Some(list) };
        let asked = stream::iter([ask]);
        let mut client = ServerReflectionClient::new(channel);
        let mut told = client.server_reflection_info(asked).await.unwrap().into_inner();
        let told = format!("{:?}", told.next().await.unwrap().unwrap());
        assert!(told.contains(walras_rpc::SERVICE) && told.contains("grpc.health.v1"), "{told}");
    }

    #[test]
    fn keys_are_their_owners_and_nothing_is_overwritten() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        certs::init(dir.path()).unwrap();
        assert!(certs::init(dir.path()).unwrap_err().to_string().contains("exists"));
        let alice = certs::issue(dir.path(), &wish("alice", Use::Client)).unwrap();
        assert!(certs::issue(dir.path(), &wish("alice", Use::Client)).is_err());
        for key in [dir.path().join("ca-key.pem"), alice.join("key.pem")] {
            assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        for bad in ["", "../alice", "a/b", "-a", "a b"] {
            assert!(certs::issue(dir.path(), &wish(bad, Use::Client)).is_err(), "{bad}");
        }
        fs::set_permissions(alice.join("key.pem"), fs::Permissions::from_mode(0o640)).unwrap();
        let target = Target::Tls { address: "a:1".to_owned(), folder: TlsFolder::new(&alice) };
        let asked = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = asked.block_on(Client::connect(&target)).unwrap_err().to_string();
        assert!(error.contains("others can read this key (mode 640)"), "{error}");
    }
}
