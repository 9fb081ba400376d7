//! Clients that may not read the disk, and hostile ones.

use super::*;
use std::net::TcpStream;

#[test]
fn the_disk_is_for_the_importer_of_this_clone_alone() {
    let origin = Origin::with(8 * MIB, &[(0, MIB)]);
    let mut server = origin.serve();
    let at = server.at();
    let other = origin.clients.sign("golden/debian-other/root");
    // Certificates of the servers' authority are none of clients.
    for identity in [None, Some(&other)] {
        let mut connection = origin.servers.connect(&at, identity).unwrap();
        for (request, headers) in [("GET /disk", vec![]), ("HEAD /disk", vec![("Range", "bytes=0-9")])] {
            let answer = connection.ask(request, &headers, b"").is(401);
            assert!(!answer.headers.contains_key("etag") && !answer.body.contains("tenant"), "{answer:?}");
        }
        assert_eq!(connection.ask("GET /healthz", &[], b"").is(200).body, "OK");
        connection.ask("GET /v1/report", &[], b"").is(200).says("waits for the importer");
    }
    for stranger in [origin.servers.sign(CLIENT), Authority::new().sign(CLIENT)] {
        let refused = origin.servers.connect(&at, Some(&stranger)).map(|mut connection| {
            connection.send(b"GET /disk HTTP/1.1\r\nHost: a\r\n\r\n").and_then(|()| connection.read_byte())
        });
        assert!(refused.and_then(|read| read).is_err());
    }
    let mut connection = origin.connect(&at);
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        connection.ask(&format!("{method} /disk"), &[], b"").is(405);
    }
    for path in ["/", "/disk/", "/disk/../etc/passwd", "/disk.img", "//disk", "/%64isk"] {
        connection.ask(&format!("GET {path}"), &[], b"").is(404);
    }
    assert_eq!(sent(&mut server), 0);
}

#[test]
fn an_importer_believes_no_server_but_those_of_its_authority() {
    let (origin, evil) = (Origin::with(8 * MIB, &[(0, MIB)]), Origin::with(8 * MIB, &[(0, MIB)]));
    // The server accepts any certificate, and shows one of its own authority.
    let mut server = evil.serve();
    let volume = tempfile::tempdir().unwrap();
    let mut importer = Pod::start(&origin.job(&server.at(), volume.path()));
    let report = importer.reports(|report| report.stage == Stage::Waiting);
    assert!(report.message.contains("TLS with 127.0.0.1 failed"), "{report:?}");
    assert_eq!(sent(&mut server), 0);
    assert!(names(volume.path()).is_empty());
    // A proxy is not asked: it would be told which PVCs are cloned.
    let mut server = origin.serve();
    let proxy = [("https_proxy", "http://127.0.0.1:1"), ("HTTPS_PROXY", "http://127.0.0.1:1")];
    Pod::start_with(&origin.job(&server.at(), volume.path()), &proxy).wait().done();
}

#[test]
fn ranges_that_are_not_one_are_refused_and_tables_are_read_over_and_over() {
    let origin = Origin::with(3000 * MIB, &[(0, MIB), (2900 * MIB, MIB)]);
    let mut server = origin.serve();
    let at = server.at();
    let mut connection = origin.connect(&at);
    let size = connection.ask("HEAD /disk", &[], b"").is(200).header("content-length").to_owned();
    let many = format!("bytes={}", (0..1000).map(|n| format!("{n}-{n}")).collect::<Vec<_>>().join(","));
    for range in
        [many.as_str(), "bytes=0-1,1-2", "bytes=9-1", "bytes=", "bytes=99999999999999999-", "chars=0-1"]
    {
        let answer = connection.ask("GET /disk", &[("Range", range)], b"").is(416);
        assert_eq!(answer.header("content-range"), format!("bytes */{size}"));
    }
    for nth in 0..300_u64 {
        let range = format!("bytes={}-{}", nth * 97, nth * 97);
        assert_eq!(
            connection.ask("HEAD /disk", &[("Range", &range)], b"").is(206).header("content-length"),
            "1"
        );
        connection.head("GET /disk", &[("Range", &range), ("Content-Length", "0")]);
        connection.skip_answer(1);
    }
    let head = "x".repeat(300 << 10);
    let mut wide = origin.connect(&at);
    let _ = wide.send(format!("GET /disk HTTP/1.1\r\nHost: {head}\r\n\r\n").as_bytes());
    assert!(wide.status().is_none_or(|status| status >= 400), "a head has its bounds");
    assert!(peak(&server) < 64 << 10, "{} KiB", peak(&server));
}

#[test]
fn many_connections_keep_nobody_out_and_take_little_memory() {
    let origin = Origin::with(200 * MIB, &[(0, 40 * MIB)]);
    let mut server = origin.serve();
    let at = server.at();
    let other = origin.clients.sign("golden/debian-other/root");
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&at).unwrap()).collect();
    let strangers: Vec<Connection> = (0..40)
        .map(|_| {
            let mut connection = origin.servers.connect(&at, Some(&other)).unwrap();
            connection.send(b"GET /disk HTT").unwrap();
            connection
        })
        .collect();
    // Clients that may read it, ask for all of it, and take nothing.
    let greedy: Vec<Connection> = (0..16)
        .map(|_| {
            let mut connection = origin.connect(&at);
            connection.head("GET /disk", &[]);
            connection.read_byte().unwrap();
            connection
        })
        .collect();
    let volume = tempfile::tempdir().unwrap();
    Pod::run(&origin.job(&at, volume.path())).done();
    assert!(tests::disk::same(&origin.disk(), &disk(volume.path())));
    assert_eq!(server.page("/healthz").unwrap(), "OK");
    assert!(peak(&server) < 96 << 10, "{} KiB", peak(&server));
    drop((silent, strangers, greedy));
}

/// The most memory that a pod had, in KiB.
fn peak(pod: &Pod) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pod.process.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
