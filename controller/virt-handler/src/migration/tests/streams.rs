//! Streams of a migration that goes well.

use super::*;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::time::Instant;

#[tokio::test]
async fn each_of_the_connections_carries_bytes_both_ways_and_counts_them() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(Limits::default()).await;
    for channel in Channel::ALL {
        let (mut source, mut target) = scene.stream(channel).await;
        passes(&mut source, &mut target, b"to the target").await;
        passes(&mut target, &mut source, b"back").await;
        passes(&mut source, &mut target, &vec![7; 3 << 20]).await;
    }
    let streams = Channel::ALL.len() as u64;
    let (there, back) = (streams * ((3 << 20) + 13), streams * 4);
    assert_eq!((scene.sockets.bytes().sent(), scene.sockets.bytes().received()), (there, back));
    assert_eq!((scene.ports.bytes().received(), scene.ports.bytes().sent()), (there, back));
    assert_eq!((scene.sockets.failure(), scene.ports.failure()), (None, None));
}

#[tokio::test]
async fn the_end_of_one_direction_is_passed_on_and_the_other_goes_on() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(Limits::default()).await;
    let (mut source, mut target) = scene.stream(Channel::Libvirt).await;
    source.shutdown().await.unwrap();
    assert!(is_ended(&mut target).await);
    passes(&mut target, &mut source, b"the result").await;
    drop(target);
    assert!(is_ended(&mut source).await);
    let (mut source, mut target) = scene.stream(Channel::Memory).await;
    target.shutdown().await.unwrap();
    assert!(is_ended(&mut source).await);
    passes(&mut source, &mut target, b"pages").await;
    drop(source);
    assert!(is_ended(&mut target).await);
    assert_eq!((scene.sockets.failure(), scene.ports.failure()), (None, None));
}

/// The target learns by it that the source's libvirt has finished.
#[tokio::test]
async fn bytes_before_the_end_arrive_and_then_the_end() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(Limits::default()).await;
    let (mut source, mut target) = scene.stream(Channel::Libvirt).await;
    let sent = vec![1; 1 << 20];
    let (_, read) = tokio::join!(
        async {
            source.write_all(&sent).await.unwrap();
            drop(source);
        },
        async {
            let mut read = Vec::new();
            timeout(LONG, target.read_to_end(&mut read)).await.unwrap().unwrap();
            read
        }
    );
    assert!(read == sent);
}

#[tokio::test]
async fn closing_an_end_in_the_middle_ends_its_streams_and_removes_the_sockets() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(Limits::default()).await;
    let (mut source, mut target) = scene.stream(Channel::Memory).await;
    passes(&mut source, &mut target, b"some").await;
    assert_eq!(scene.source.names().len(), Channel::ALL.len());
    drop(scene.ports);
    assert!(is_ended(&mut source).await && is_ended(&mut target).await);
    until(|| scene.sockets.failure().is_some()).await;
    let failure = scene.sockets.failure().unwrap();
    let broke = "the connection to the other node broke off: the stream of the memory after 4 bytes sent and 0 bytes received";
    assert!(failure.starts_with(broke) && !failure.contains("https:"), "{failure}");
    // The ports are closed as well.
    let mut late = scene.source.connect(Channel::Disks).await;
    assert!(is_ended(&mut late).await);
    drop(scene.sockets);
    until(|| scene.source.names().is_empty()).await;

    let scene = Scene::begin(Limits::default()).await;
    let (mut source, mut target) = scene.stream(Channel::Memory).await;
    drop(scene.sockets);
    assert!(is_ended(&mut source).await && is_ended(&mut target).await);
    until(|| scene.source.names().is_empty()).await;
}

#[tokio::test]
async fn a_socket_is_the_launchers_alone_and_replaces_one_that_was_left_over() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(Limits::default()).await;
    let path = scene.source.sockets.join(&scene.source.names()[0]);
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (107, 107, 0o600));
    // The next virt-handler: the file of the former one is still there.
    let next = open_sockets(Limits::default(), &scene.source, scene.ports.ports(), &scene.certificates).await;
    let replaced = fs::metadata(&path).unwrap();
    assert_ne!(found.ino(), replaced.ino());
    // The end of the former one leaves the new socket.
    drop(scene.sockets);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(fs::metadata(&path).unwrap().ino(), replaced.ino());
    drop(next);
    until(|| scene.source.names().is_empty()).await;
}

#[tokio::test]
async fn a_file_or_a_link_in_the_place_of_a_socket_is_refused_and_stays() {
    let outside = tempfile::tempdir().unwrap();
    let elsewhere = outside.path().join("elsewhere");
    for make in [
        (|path, _| fs::write(path, "kept").unwrap()) as fn(&PathBuf, &PathBuf),
        |path, _| fs::create_dir(path).unwrap(),
        |path, elsewhere| symlink(elsewhere, path).unwrap(),
    ] {
        let pod = Pod::new();
        let path = pod.sockets.join(SocketNames::new(UID).unwrap().of(Channel::Libvirt));
        make(&path, &elsewhere);
        let own = Certificate::generate().unwrap();
        let ports = MigrationPorts::new([1, 2, 3, 4]);
        let place = Arc::clone(&pod.place);
        let opened = SourceSockets::open(place, UID, LOCAL, ports, &own, &own.fingerprint()).await;
        let said = opened.unwrap_err().to_string();
        assert!(said.contains(&format!("{UID}-libvirt")) && said.contains("is not a socket"), "{said}");
        assert!(fs::symlink_metadata(&path).is_ok() && !elsewhere.exists());
    }
}

#[tokio::test]
async fn a_migration_without_a_uid_opens_nothing() {
    let (pod, own) = (Pod::new(), Certificate::generate().unwrap());
    for uid in ["", "../../launcher-sock", "a/b"] {
        let place = || Arc::clone(&pod.place);
        let said = TargetPorts::open(LOCAL, &own, place(), uid, LONG).await.unwrap_err();
        assert!(said.to_string().contains("is not a UID"), "{said}");
        let ports = MigrationPorts::new([1, 2, 3, 4]);
        let said = SourceSockets::open(place(), uid, LOCAL, ports, &own, &own.fingerprint()).await;
        assert!(said.unwrap_err().to_string().contains("is not a UID"));
    }
    assert!(pod.names().is_empty());
}

#[tokio::test]
async fn ports_without_a_source_are_closed_in_time_and_ports_in_use_are_not() {
    if !may_give() {
        return;
    }
    let (pod, own) = (Pod::new(), Certificate::generate().unwrap());
    let soon = Duration::from_millis(50);
    let ports = TargetPorts::open(LOCAL, &own, Arc::clone(&pod.place), UID, soon).await.unwrap();
    until(|| ports.findings().borrow().is_closed).await;
    assert_eq!(ports.failure().as_deref(), Some("the source did not connect within 0 s"));

    let (source, soon) = (Pod::new(), Duration::from_secs(2));
    let certificates = [Certificate::generate().unwrap(), own];
    let ports = TargetPorts::open(LOCAL, &certificates[1], Arc::clone(&pod.place), UID, soon).await.unwrap();
    ports.expect(&certificates[0].fingerprint()).unwrap();
    let sockets = open_sockets(Limits::default(), &source, ports.ports(), &certificates).await;
    let listener = pod.listen(Channel::Libvirt);
    let mut from = source.connect(Channel::Libvirt).await;
    let (mut to, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    sleep(soon + Duration::from_millis(200)).await;
    passes(&mut from, &mut to, b"still there").await;
    assert!(!ports.findings().borrow().is_closed && sockets.failure().is_none());
}

/// A key of AES-GCM must not encrypt more than so many packets: 256 GiB of memory.
#[tokio::test]
async fn a_long_stream_changes_its_keys() {
    if !may_give() {
        return;
    }
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let common = CipherSuiteCommon { confidentiality_limit: 64, ..suite.common };
    let (hkdf_provider, aead_alg, quic) = (suite.hkdf_provider, suite.aead_alg, suite.quic);
    let suite = Box::leak(Box::new(Tls13CipherSuite { common, hkdf_provider, aead_alg, quic }));
    let (source, target) = (Pod::new(), Pod::new());
    let [own, other] = [Certificate::generate().unwrap(), Certificate::generate().unwrap()];
    let ports = open_ports(Limits::default(), &target, &other).await;
    ports.expect(&own.fingerprint()).unwrap();
    let pinned = Fingerprint::parse(&other.fingerprint()).unwrap();
    let tls = tls::connector_with(SupportedCipherSuite::Tls13(suite), own.key(), pinned).unwrap();
    let place = Arc::clone(&source.place);
    let sockets =
        SourceSockets::open_with(Limits::default(), place, UID, LOCAL, ports.ports(), tls).await.unwrap();
    let listener = target.listen(Channel::Memory);
    let mut from = source.connect(Channel::Memory).await;
    let (mut to, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    // Each of them needs a new key several times, many more than one end may ask for in a row.
    for _ in 0..40 {
        passes(&mut from, &mut to, &vec![5; 4 << 20]).await;
    }
    assert_eq!((sockets.failure(), ports.failure()), (None, None));
}

/// `cargo test --release -p virt-handler -- --ignored --nocapture throughput`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn throughput_of_one_stream() {
    const BYTES: usize = 4 << 30;
    let scene = Scene::begin(Limits::default()).await;
    let (mut source, mut target) = scene.stream(Channel::Memory).await;
    let (began, cpu) = (Instant::now(), processor_seconds());
    let send = tokio::spawn(async move {
        let piece = vec![9; 256 << 10];
        for _ in 0..BYTES / piece.len() {
            source.write_all(&piece).await.unwrap();
        }
    });
    let (mut piece, mut read) = (vec![0; 256 << 10], 0);
    while read < BYTES {
        read += target.read(&mut piece).await.unwrap();
    }
    send.await.unwrap();
    let megabytes = BYTES as f64 / 1e6;
    println!("{:.0} MB/s", megabytes / began.elapsed().as_secs_f64());
    println!("{:.0} MB for each second of a processor", megabytes / (processor_seconds() - cpu));
}

/// Time of this process on processors: both ends of the stream, and the two pods.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}
