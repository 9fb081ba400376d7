//! Clients of the target's ports, and of the source's sockets, that are not part of the migration.

use super::*;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS12;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Target alone, with a process of its pod that listens for the memory.
struct Target {
    ports: TargetPorts,
    _pod: Pod,
    memory: UnixListener,
    certificates: [Certificate; 2],
}

impl Target {
    async fn begin(limits: Limits) -> Target {
        let (pod, certificates) =
            (Pod::new(), [Certificate::generate().unwrap(), Certificate::generate().unwrap()]);
        let ports = open_ports(limits, &pod, &certificates[1]).await;
        ports.expect(&certificates[0].fingerprint()).unwrap();
        let memory = pod.listen(Channel::Memory);
        Target { ports, memory, _pod: pod, certificates }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(LOCAL, self.ports.ports().of(Channel::Memory))
    }

    /// Connects with this certificate, and reads the target's answer.
    async fn answer(&self, own: &Certificate) -> Result<Option<String>, String> {
        self.answer_to(own.key()).await
    }

    async fn answer_to(&self, own: Arc<dyn ResolvesClientCert>) -> Result<Option<String>, String> {
        let pinned = Fingerprint::parse(&self.certificates[1].fingerprint()).unwrap();
        let tls = tls::connector_with(TLS13_AES_128_GCM_SHA256, own, pinned).unwrap();
        let mut stream = hello(tls, self.address()).await?;
        let answer = timeout(LONG, relay::read_answer(&mut stream)).await.expect("no answer");
        answer.map_err(|e| e.to_string())
    }

    /// The source itself still comes through, and nothing else has reached the pod.
    async fn serves_the_source_alone(&self) {
        let own = self.certificates[0].clone();
        let (answer, arrived) = tokio::join!(self.answer(&own), timeout(LONG, self.memory.accept()));
        assert_eq!(answer, Ok(None));
        assert!(arrived.unwrap().is_ok());
        assert!(timeout(Duration::from_millis(100), self.memory.accept()).await.is_err());
    }
}

async fn hello(tls: TlsConnector, address: SocketAddr) -> Result<TlsStream<TcpStream>, String> {
    let tcp = TcpStream::connect(address).await.unwrap();
    let stream = timeout(LONG, tls.connect(ServerName::IpAddress(LOCAL.into()), tcp)).await;
    stream.expect("the handshake does not end").map(TlsStream::from).map_err(|e| e.to_string())
}

/// True if the connection is closed without an answer.
async fn is_closed(tcp: &mut TcpStream) -> bool {
    let read = timeout(LONG, tcp.read_to_end(&mut Vec::new())).await;
    read.is_ok()
}

#[tokio::test]
async fn plain_bytes_reach_nothing() {
    let target = Target::begin(Limits::default()).await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"QEVM\0\0\0\x03", &[0; 4096], &[0x16, 3, 1, 0xff, 0xff]] {
        let mut tcp = TcpStream::connect(target.address()).await.unwrap();
        tcp.write_all(bytes).await.unwrap();
        tcp.shutdown().await.unwrap();
        assert!(is_closed(&mut tcp).await);
    }
    assert_eq!(target.ports.failure(), None, "strangers are not the migration's failure");
    target.serves_the_source_alone().await;
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let target = Target::begin(Limits::default()).await;
    let said = target.answer_to(Arc::new(Shows(None))).await.unwrap_err();
    assert!(said.contains("CertificateRequired"), "{said}");
    target.serves_the_source_alone().await;
}

/// The certificate is public: a client that shows it must have its key.
#[tokio::test]
async fn the_sources_certificate_without_its_key_is_refused() {
    let target = Target::begin(Limits::default()).await;
    let key = |certificate: &Certificate| certificate.key().resolve(&[], &[]).unwrap();
    let (source, other) = (key(&target.certificates[0]), key(&Certificate::generate().unwrap()));
    let stolen = CertifiedKey::new(source.cert.clone(), Arc::clone(&other.key));
    let said = target.answer_to(Arc::new(Shows(Some(Arc::new(stolen))))).await.unwrap_err();
    assert!(
        said.contains("DecryptError") || said.contains("BadCertificate") || said.contains("AccessDenied"),
        "{said}"
    );
    assert_eq!(target.answer_to(Arc::new(Shows(Some(source)))).await, Ok(None));
}

#[tokio::test]
async fn a_target_without_the_key_of_its_certificate_is_refused() {
    let listener = TcpListener::bind((LOCAL, 0)).await.unwrap();
    let (own, target) = (Certificate::generate().unwrap(), Certificate::generate().unwrap());
    let key = |certificate: &Certificate| certificate.key().resolve(&[], &[]).unwrap();
    let stolen = CertifiedKey::new(key(&target).cert.clone(), Arc::clone(&key(&own).key));
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config =
        config.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertAndKey::from(stolen)));
    config.alpn_protocols = vec![b"coracle-migration/1".to_vec()];
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        drop(TlsAcceptor::from(Arc::new(config)).accept(tcp).await);
    });
    let pinned = Fingerprint::parse(&target.fingerprint()).unwrap();
    let said = hello(tls::connector(&own, pinned).unwrap(), address).await.unwrap_err();
    assert!(said.contains("BadSignature"), "{said}");
}

#[tokio::test]
async fn an_older_tls_is_refused() {
    let target = Target::begin(Limits::default()).await;
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]).unwrap();
    let config = config.with_root_certificates(RootCertStore::empty());
    let config = config.with_client_cert_resolver(target.certificates[0].key());
    let said = hello(TlsConnector::from(Arc::new(config)), target.address()).await.unwrap_err();
    assert!(said.contains("ProtocolVersion"), "{said}");
    target.serves_the_source_alone().await;
}

/// Client that shows this certificate, or none.
#[derive(Debug)]
struct Shows(Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

#[tokio::test]
async fn another_certificate_is_refused_even_one_of_another_migration() {
    let target = Target::begin(Limits::default()).await;
    let other = Certificate::generate().unwrap();
    // The target's own certificate is not the source's.
    for certificate in [&other, &target.certificates[1]] {
        assert!(target.answer(certificate).await.is_err());
    }
    // The source of this migration at the ports of another one.
    let another = Target::begin(Limits::default()).await;
    another.ports.expect(&other.fingerprint()).unwrap();
    let own = &target.certificates[0];
    let pinned = Fingerprint::parse(&another.certificates[1].fingerprint()).unwrap();
    let stream = hello(tls::connector(own, pinned).unwrap(), another.address()).await;
    if let Ok(mut stream) = stream {
        assert!(timeout(LONG, relay::read_answer(&mut stream)).await.unwrap().is_err());
    }
    // A source leaves a target with another certificate than its own.
    let said = hello(tls::connector(own, pinned).unwrap(), target.address()).await.unwrap_err();
    assert!(said.contains("invalid peer certificate"), "{said}");
    target.serves_the_source_alone().await;
}

#[tokio::test]
async fn before_the_source_is_known_every_connection_is_closed() {
    let (pod, certificates) =
        (Pod::new(), [Certificate::generate().unwrap(), Certificate::generate().unwrap()]);
    let ports = open_ports(Limits::default(), &pod, &certificates[1]).await;
    let memory = pod.listen(Channel::Memory);
    let target = Target { ports, _pod: pod, memory, certificates };
    assert!(target.answer(&target.certificates[0]).await.is_err());
    let mut silent = TcpStream::connect(target.address()).await.unwrap();
    assert!(is_closed(&mut silent).await);
    assert!(target.ports.expect("not a fingerprint").is_err());
    target.ports.expect(&target.certificates[0].fingerprint()).unwrap();
    target.serves_the_source_alone().await;
}

#[tokio::test]
async fn a_source_finds_another_certificate_or_no_target_and_says_so() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(SHORT).await;
    drop(scene.sockets);
    let stranger = Certificate::generate().unwrap();
    let expects_another = [scene.certificates[0].clone(), stranger.clone()];
    let is_another = [stranger, scene.certificates[1].clone()];
    for (certificates, said) in
        [(expects_another, "another certificate"), (is_another, "refused the TLS handshake")]
    {
        let sockets = open_sockets(SHORT, &scene.source, scene.ports.ports(), &certificates).await;
        let mut pod = scene.source.connect(Channel::Memory).await;
        assert!(is_ended(&mut pod).await);
        until(|| sockets.failure().is_some()).await;
        let failure = sockets.failure().unwrap();
        assert!(failure.contains(said) && failure.contains("127.0.0.1"), "{failure}");
    }
    let ports = scene.ports.ports();
    drop(scene.ports);
    let sockets = open_sockets(SHORT, &scene.source, ports, &scene.certificates).await;
    let mut pod = scene.source.connect(Channel::Memory).await;
    assert!(is_ended(&mut pod).await);
    until(|| {
        sockets.failure().is_some_and(|why| why.contains("cannot connect to the target node 127.0.0.1"))
    })
    .await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_closed_and_one_that_says_no_more_holds_up_no_other() {
    let target = Target::begin(SHORT).await;
    let mut silent = TcpStream::connect(target.address()).await.unwrap();
    let mut half = TcpStream::connect(target.address()).await.unwrap();
    half.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
    assert!(is_closed(&mut silent).await && is_closed(&mut half).await);
    // The source itself, which sends nothing after its handshake.
    let own = &target.certificates[0];
    let pinned = Fingerprint::parse(&target.certificates[1].fingerprint()).unwrap();
    let mut idle = Vec::new();
    for _ in 0..10 {
        idle.push(hello(tls::connector(own, pinned).unwrap(), target.address()).await.unwrap());
        idle.push(hello(tls::connector(own, pinned).unwrap(), target.address()).await.unwrap());
        for _ in 0..2 {
            timeout(LONG, target.memory.accept()).await.unwrap().unwrap();
        }
    }
    target.serves_the_source_alone().await;
}

#[tokio::test]
async fn a_thousand_connections_close_their_own_and_the_source_comes_through() {
    let target = Target::begin(Limits::default()).await;
    let flood = |number: usize| {
        let address = target.address();
        async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
            let mut tcp = socket.connect(address).await.unwrap();
            if number.is_multiple_of(2) {
                drop(tcp.write_all(&[0x16, 3, 1, 2, 0, 1]).await);
            }
            tcp
        }
    };
    let mut open = Vec::new();
    for number in 0..500 {
        open.push(flood(number).await);
    }
    target.serves_the_source_alone().await;
    for number in 500..1000 {
        open.push(flood(number).await);
    }
    target.serves_the_source_alone().await;
    // All but the last ones are closed, without waiting for the time limit of a handshake.
    let mut closed = 0;
    for tcp in &mut open {
        let read = timeout(Duration::from_millis(20), tcp.read(&mut [0; 64])).await;
        closed += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
    }
    assert!((1000 - MOST_UNPROVEN..1000).contains(&closed), "{closed} of 1000 are closed");
}

#[tokio::test]
async fn a_process_outside_of_the_source_pod_reaches_nothing() {
    if !may_give() {
        return;
    }
    let (source, target) = (Pod::empty(), Target::begin(Limits::default()).await);
    let sockets = open_sockets(Limits::default(), &source, target.ports.ports(), &target.certificates).await;
    let mut stranger = source.connect(Channel::Memory).await;
    assert!(is_ended(&mut stranger).await);
    assert!(timeout(Duration::from_millis(200), target.memory.accept()).await.is_err());
    assert_eq!((sockets.bytes().sent(), sockets.failure()), (0, None));
}

#[tokio::test]
async fn a_listener_outside_of_the_target_pod_gets_no_stream() {
    let (pod, certificates) =
        (Pod::empty(), [Certificate::generate().unwrap(), Certificate::generate().unwrap()]);
    let ports = open_ports(Limits::default(), &pod, &certificates[1]).await;
    ports.expect(&certificates[0].fingerprint()).unwrap();
    let memory = pod.listen(Channel::Memory);
    let target = Target { ports, _pod: pod, memory, certificates };
    let said = target.answer(&target.certificates[0]).await.unwrap().unwrap();
    assert!(said.contains("does not belong to the pod"), "{said}");
}

#[tokio::test]
async fn a_target_pod_without_the_socket_fails_the_stream_by_its_name() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(Limits::default()).await;
    let mut source = scene.source.connect(Channel::Disks).await;
    assert!(is_ended(&mut source).await);
    until(|| scene.sockets.failure().is_some() && scene.ports.failure().is_some()).await;
    for failure in [scene.sockets.failure().unwrap(), scene.ports.failure().unwrap()] {
        let name = format!("cannot connect to the socket migration-{UID}-disks of the target pod");
        assert!(failure.contains(&name) && failure.contains("No such file"), "{failure}");
    }
    // The next one comes through.
    let (mut source, mut target) = scene.stream(Channel::Disks).await;
    passes(&mut source, &mut target, b"blocks").await;
}

#[tokio::test]
async fn one_stream_too_many_is_refused_and_the_others_go_on() {
    let target = Target::begin(Limits::default()).await;
    let own = &target.certificates[0];
    let pinned = Fingerprint::parse(&target.certificates[1].fingerprint()).unwrap();
    let mut streams = Vec::new();
    for _ in 0..MOST {
        let mut stream = hello(tls::connector(own, pinned).unwrap(), target.address()).await.unwrap();
        assert_eq!(relay::read_answer(&mut stream).await.unwrap(), None);
        streams.push((stream, target.memory.accept().await.unwrap().0));
    }
    let said = target.answer(own).await.unwrap().unwrap();
    assert!(said.contains("64 streams already"), "{said}");
    let (node, pod) = streams.last_mut().unwrap();
    node.write_all(b"page").await.unwrap();
    node.flush().await.unwrap();
    let mut page = [0; 4];
    timeout(LONG, pod.read_exact(&mut page)).await.unwrap().unwrap();
    assert_eq!(&page, b"page");
    streams.pop();
    let again = async {
        while target.answer(own).await != Ok(None) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, again).await.expect("its place is not free again");
}

#[tokio::test]
async fn a_target_whose_source_did_not_come_says_which_connections_it_refused() {
    let (pod, stranger) = (Pod::new(), Certificate::generate().unwrap());
    let certificates = [Certificate::generate().unwrap(), Certificate::generate().unwrap()];
    let (place, deadline) = (Arc::clone(&pod.place), Duration::from_secs(2));
    let ports = TargetPorts::open(LOCAL, &certificates[1], place, UID, deadline).await.unwrap();
    ports.expect(&certificates[0].fingerprint()).unwrap();
    let pinned = Fingerprint::parse(&certificates[1].fingerprint()).unwrap();
    let address = SocketAddr::new(LOCAL, ports.ports().of(Channel::Memory));
    // A client learns with its first read that its certificate is refused.
    if let Ok(mut stream) = hello(tls::connector(&stranger, pinned).unwrap(), address).await {
        assert!(timeout(LONG, relay::read_answer(&mut stream)).await.unwrap().is_err());
    }
    let mut findings = ports.findings();
    timeout(LONG, findings.changed()).await.unwrap().unwrap();
    let Findings { failure, is_closed } = findings.borrow().clone();
    let failure = failure.unwrap();
    assert!(
        is_closed && failure.starts_with("the source did not connect within 2 s; connections refused: 1"),
        "{failure}"
    );
    assert!(failure.contains("no TLS handshake with the source's certificate"), "{failure}");
    assert!(TcpStream::connect(address).await.is_err(), "the ports are closed");
}
