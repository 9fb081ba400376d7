//! Polls of good servers and bad ones.

use super::*;
use ::tests::http::{Behaviour, Fail, Server};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

const SHORT: Duration = Duration::from_millis(400);

fn polls(addresses: Addresses) -> Polls {
    Polls { idle: SHORT, ..Polls::new(addresses).unwrap() }
}

fn key(namespace: &str, name: &str) -> Key {
    Key::new(cluster_model::objects::Kind::DataImportCron, namespace, name)
}

async fn asked(question: Question, addresses: Addresses) -> Answer {
    let mut polls = polls(addresses);
    polls.ask(key("n", "a"), "1".into(), question);
    polls.start_due();
    polls.next().await.unwrap().answer
}

async fn file(url: String) -> Answer {
    asked(Question::File(url), Addresses::Any).await
}

fn image(address: &str) -> Question {
    Question::Image { host: address.into(), repository: "a/b".into(), tag: "v1".into() }
}

/// The address of a server that answers each request as told: by its first line, and the stream.
fn server(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
                head.push(byte[0]);
                // A greeting of TLS.
                if head[0] < b'A' {
                    break;
                }
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            answer(head.lines().next().unwrap_or_default(), &mut stream);
        }
    });
    address
}

fn says(stream: &mut TcpStream, head: &str, body: &[u8]) {
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(body);
}

#[tokio::test]
async fn a_registry_is_asked_by_one_head() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let said = digest.clone();
    let (to, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let address = server(move |line, stream| {
        let _ = to.send(line.to_owned());
        if line.starts_with("HEAD /v2/a/b/manifests/v1 ") {
            let head = format!("200 OK\r\nDocker-Content-Digest: {said}");
            let _ = write!(stream, "HTTP/1.1 {head}\r\nContent-Length: 1234\r\nConnection: close\r\n\r\n");
        }
    });
    assert_eq!(asked(image(&address), Addresses::Any).await, Ok(digest));
    let mut all = Vec::new();
    while let Ok(line) = lines.try_recv() {
        all.push(line);
    }
    // That of the loopback address alone is asked first whether it speaks TLS.
    all.retain(|line| line.contains("HTTP/1.1"));
    assert_eq!(all, ["HEAD /v2/a/b/manifests/v1 HTTP/1.1"]);
}

#[tokio::test]
async fn a_registry_that_says_no_digest_or_a_bad_one_is_asked_for_the_manifest() {
    for said in
        ["", "\r\nDocker-Content-Digest: uid:0a1b2c3d4e5f", "\r\nDocker-Content-Digest: sha256:../../x"]
    {
        let address = server(move |line, stream| {
            let head = format!("200 OK{said}");
            says(stream, &head, if line.starts_with("GET") { b"{}" } else { b"" });
        });
        let hex = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(asked(image(&address), Addresses::Any).await, Ok(format!("sha256:{hex}")));
    }
}

#[tokio::test]
async fn an_endless_manifest_is_refused() {
    let address = server(|line, stream| match line.starts_with("GET") {
        false => says(stream, "200 OK", b""),
        true => {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            while stream.write_all(&[b' '; 1 << 16]).is_ok() {}
        }
    });
    assert_eq!(asked(image(&address), Addresses::Any).await, Err((NoAnswer::Odd, None)));
}

#[tokio::test]
async fn a_file_is_named_by_what_its_server_says_of_its_version() {
    let version = |etag: Option<&str>, modified: Option<&str>| Behaviour {
        etag: etag.map(str::to_owned),
        last_modified: modified.map(str::to_owned),
        ..Behaviour::default()
    };
    let server = Server::start(vec![7; 100], version(Some("\"1\""), None));
    let first = file(server.url("/a")).await.unwrap();
    assert!(crate::data_import_cron::is_image_digest(&first), "{first}");
    assert_eq!(file(server.url("/a")).await.as_ref(), Ok(&first), "it is named alike");
    server.set(version(Some("\"2\""), None));
    let second = file(server.url("/a")).await.unwrap();
    server.set(version(Some("W/\"2\""), Some("Sun, 06 Nov 1994 08:49:37 GMT")));
    let third = file(server.url("/a")).await.unwrap();
    assert!(first != second && second != third);
    server.set(version(Some("W/\"2\""), None));
    assert_eq!(file(server.url("/a")).await, Err((NoAnswer::Nameless, None)));
    assert!(server.requests().iter().all(|request| request.method == "HEAD"), "no body was asked for");
}

#[tokio::test]
async fn a_server_without_head_is_asked_for_one_byte() {
    let address = server(|line, stream| match line.starts_with("GET") {
        true => says(stream, "206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 0-0/100", b"x"),
        false => says(stream, "405 Method Not Allowed", b""),
    });
    let by_get = file(format!("http://{address}/a")).await;
    let server =
        Server::start(vec![7; 100], Behaviour { etag: Some("\"1\"".into()), ..Behaviour::default() });
    assert_eq!(by_get, file(server.url("/a")).await, "one version has one name");
}

#[tokio::test]
async fn a_bad_server_gives_one_of_few_reasons() {
    let fail = |status, retry_after: Option<&str>| Behaviour {
        fail: Some(Fail { status, times: u32::MAX, skip: 0, retry_after: retry_after.map(str::to_owned) }),
        ..Behaviour::default()
    };
    let server = Server::start(vec![7; 100], Behaviour::default());
    let minute = Some(SignedDuration::from_secs(60));
    for (behaviour, expected) in [
        (fail(401, None), (NoAnswer::Denied, None)),
        (fail(404, None), (NoAnswer::Missing, None)),
        (fail(429, Some("60")), (NoAnswer::Busy, minute)),
        (fail(503, Some("60")), (NoAnswer::Broken, minute)),
        (fail(418, None), (NoAnswer::Odd, None)),
        (Behaviour { mute: u32::MAX, ..Behaviour::default() }, (NoAnswer::Silent, None)),
        (
            Behaviour {
                redirects: vec![("/a".into(), 302, "file:///etc/passwd".into())],
                ..Behaviour::default()
            },
            (NoAnswer::Odd, None),
        ),
        (
            Behaviour { redirects: vec![("/a".into(), 302, "/a".into())], ..Behaviour::default() },
            (NoAnswer::Odd, None),
        ),
    ] {
        server.set(behaviour.clone());
        assert_eq!(file(server.url("/a")).await, Err(expected), "{behaviour:?}");
    }
    let url = server.url("/a");
    drop(server);
    assert_eq!(file(url).await, Err((NoAnswer::Unreachable, None)));
}

#[tokio::test]
async fn addresses_of_the_node_are_not_asked() {
    let server = Server::start(vec![7; 100], Behaviour::default());
    let port = server.url("/a").rsplit_once(':').unwrap().1.to_owned();
    for host in
        ["127.0.0.1", "localhost", "[::1]", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0", "a.localhost"]
    {
        let url = format!("http://{host}:{port}");
        let answer = asked(Question::File(url.clone()), Addresses::Remote).await;
        assert_eq!(answer, Err((NoAnswer::Barred, None)), "{url}");
    }
    let answer = asked(image("127.0.0.1:1"), Addresses::Remote).await;
    assert_eq!(answer, Err((NoAnswer::Barred, None)));
    for url in ["http://169.254.169.254/latest/meta-data", "https://[fe80::1]/a"] {
        let answer = asked(Question::File(url.into()), Addresses::Remote).await;
        assert_eq!(answer, Err((NoAnswer::Barred, None)), "{url}");
    }
    assert_eq!(server.requests(), []);
}

/// An address of this host that others reach too, where it has one.
fn outside() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent: the route says which address would be.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V4(ip) if !ip.is_loopback() && !ip.is_unspecified() => Some(ip),
        _ => None,
    }
}

#[tokio::test]
async fn nobody_leads_a_poll_to_an_address_of_the_node() {
    let Some(outside) = outside() else {
        println!("this host has no address but its own: nothing can lead anywhere");
        return;
    };
    let inside = Server::start(vec![7; 100], Behaviour::default());
    let redirects = vec![("/a".into(), 302, inside.url("/a"))];
    let server = Server::start_at(outside, vec![7; 100], Behaviour { redirects, ..Behaviour::default() });
    let answer = asked(Question::File(server.url("/a")), Addresses::Remote).await;
    assert_eq!(answer, Err((NoAnswer::Barred, None)));
    assert_eq!((server.requests().len(), inside.requests()), (1, vec![]));
    assert!(asked(Question::File(server.url("/b")), Addresses::Remote).await.is_ok(), "it is asked itself");
}

/// Certificates would not help.
#[tokio::test]
async fn a_server_in_plain_http_is_told_apart_from_one_with_a_bad_certificate() {
    let plain = || {
        server(|line, stream| {
            if !line.starts_with("HEAD") {
                // Its greeting has to be read: else the end of the connection could overtake the answer.
                let _ = stream.read(&mut [0; 4096]);
                says(stream, "400 Bad Request", b"");
            }
        })
    };
    let url = format!("https://{}/a", plain());
    assert_eq!(file(url).await, Err((NoAnswer::Plain, None)));
    assert!(NoAnswer::Plain.description().contains("insecureRegistries of the CDIConfig"));
    assert!(!NoAnswer::Plain.is_transient(), "another try does not help");
}

#[tokio::test]
async fn a_namespace_whose_servers_hang_holds_up_itself_alone() {
    let silent = Server::start(vec![], Behaviour { mute: u32::MAX, ..Behaviour::default() });
    let good = Server::start(vec![7; 100], Behaviour::default());
    let mut polls = polls(Addresses::Any);
    for number in 0..20 {
        polls.ask(key("bad", &number.to_string()), "1".into(), Question::File(silent.url("/a")));
    }
    polls.ask(key("good", "a"), "1".into(), Question::File(good.url("/a")));
    polls.start_due();
    assert_eq!((polls.running.len(), polls.waiting.len()), (OF_NAMESPACE + 1, 18));
    let first = polls.next().await.unwrap();
    assert_eq!(first.key, key("good", "a"));
    assert!(first.answer.is_ok());
    // What is asked for again while it is asked is asked once, and what waits keeps its place; another of that name comes after.
    for (name, uid, waiting) in [("0", "1", 18), ("2", "1", 18), ("0", "2", 19)] {
        polls.ask(key("bad", name), uid.into(), Question::File(silent.url("/a")));
        assert_eq!((polls.waiting.len(), &polls.waiting[0].0), (waiting, &key("bad", "2")), "{name} {uid}");
    }
    while polls.are_running() {
        assert!(polls.next().await.unwrap().answer.is_err());
        polls.start_due();
        assert!(polls.running.len() <= OF_NAMESPACE);
    }
    assert!(polls.waiting.is_empty() && polls.of_namespace.is_empty() && polls.by_task.is_empty());
}

#[tokio::test]
async fn the_next_poll_is_one_of_the_namespace_that_was_served_longest_ago() {
    let silent = Server::start(vec![], Behaviour { mute: u32::MAX, ..Behaviour::default() });
    let mut polls = polls(Addresses::Any);
    let asks = |polls: &mut Polls, namespace: &str, name: &str| {
        polls.ask(key(namespace, name), "1".into(), Question::File(silent.url("/a")));
    };
    let crowd = ["bad1", "bad2", "bad3", "bad4"];
    for (namespace, number) in
        crowd.into_iter().flat_map(|namespace| (0..10).map(move |number| (namespace, number)))
    {
        asks(&mut polls, namespace, &number.to_string());
    }
    asks(&mut polls, "good", "a");
    asks(&mut polls, "good", "b");
    polls.start_due();
    assert_eq!(polls.running.len(), AT_ONCE);
    let count = |polls: &Polls, namespace: &str| {
        polls.running.keys().filter(|key| key.namespace == namespace).count()
    };
    assert_eq!(count(&polls, "good"), 1, "it begins beside the first of each namespace");
    // Whichever ends: the good one, which was served as long ago as they were, does not wait for all that the crowd asked before.
    for _ in 0..AT_ONCE {
        polls.next().await.unwrap();
        polls.start_due();
    }
    assert!(!polls.waiting.iter().any(|(key, ..)| key.namespace == "good"), "both have begun");
    while polls.are_running() {
        polls.next().await;
        polls.start_due();
    }
    assert!(polls.served.is_empty());
}
