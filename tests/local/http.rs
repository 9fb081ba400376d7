//! The program against web servers: good ones (nginx) and ones that misbehave.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};
use tests::coracle::Ran;
use tests::http::{Authority, Behaviour, Change, Fail, Server, Spoil};
use tests::nginx::{Nginx, Serve};

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");
/// Size of the disk: several reads of the engine.
const SIZE: u64 = (9 << 20) + 512 * 5;

/// A folder with the disk, and the disk in each kind of file that is served.
struct Place(tests::place::Place);

impl std::ops::Deref for Place {
    type Target = tests::place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Place {
    fn new(seed: u64) -> Self {
        let place = tests::place::Place::with_disk(PROGRAM, SIZE, seed);
        place.qcow2("disk.qcow2", "");
        place.shell("xz -0 -T2 --block-size=1MiB -k disk.qcow2");
        Place(place)
    }

    /// Converts the file at `url` with these arguments, within a time limit.
    fn convert(&self, url: &str, more: &[&str]) -> Ran {
        self.convert_with(url, more, &[])
    }

    fn convert_with(&self, url: &str, more: &[&str], variables: &[(&str, &str)]) -> Ran {
        for end in ["", ".partial", ".partial.journal"] {
            let _ = std::fs::remove_file(self.path(&format!("out.img{end}")));
        }
        let args = [&["convert", "-q", url, "out.img"], more].concat();
        let since = Instant::now();
        let mut command = self.command(&args);
        let ran = Ran::of(command.envs(variables.iter().copied()).output().unwrap());
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}: {}", since.elapsed(), ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        let there = self.path("out.img").exists();
        assert_eq!(there, ran.code == 0, "{}", ran.err);
        assert!(!there || self.same("out.img"), "the disk is another one");
        ran
    }
}

const FILES: [&str; 3] = ["disk.qcow2", "disk.raw", "disk.qcow2.xz"];

fn good() -> Behaviour {
    Behaviour::default()
}

#[test]
fn servers_that_differ_and_lines_that_break_give_the_same_disk() {
    let place = Place::new(31);
    let drops = |bytes, times| Behaviour { drop_after: Spoil::some(bytes, times), ..good() };
    let busy = |status| Some(Fail { status, times: 2, skip: 1, retry_after: Some("0".into()) });
    let cases = [
        ("good", good()),
        ("no ranges", Behaviour { ranges: false, ..good() }),
        ("no ranges, no length", Behaviour { ranges: false, chunked: true, ..good() }),
        ("the end of the connection is the end", Behaviour { ranges: false, until_close: true, ..good() }),
        ("chunked ranges", Behaviour { chunked: true, ..good() }),
        ("gzip on the way", Behaviour { ranges: false, gzip: true, ..good() }),
        ("no ETag", Behaviour { etag: None, ..good() }),
        ("a weak ETag", Behaviour { etag: Some("W/\"v\"".into()), ..good() }),
        ("nothing known", Behaviour { etag: None, last_modified: None, ..good() }),
        ("slow to answer", Behaviour { latency: Duration::from_millis(30), ..good() }),
        ("short ranges", Behaviour { longest_range: Some(300_000), ..good() }),
        ("drops", drops(200_000, 6)),
        ("drops a stream", Behaviour { drop_after: Spoil::some(700_000, 3), ..good() }),
        ("stalls once", Behaviour { stall_after: Spoil::some(100_000, 1), ..good() }),
        ("answers 503 for a while", Behaviour { fail: busy(503), ..good() }),
        ("answers 429 for a while", Behaviour { fail: busy(429), ..good() }),
        ("says text/html", Behaviour { content_type: "text/html".into(), ..good() }),
    ];
    for (name, behaviour) in cases {
        for file in FILES {
            let server = Server::start(place.bytes(file), behaviour.clone());
            let ran = place.convert(&server.url("/a/disk"), &["--idle-timeout", "4"]);
            assert_eq!(ran.code, 0, "{name}, {file}: {}", ran.err);
        }
    }
}

#[test]
fn retry_after_is_waited_for() {
    let place = Place::new(32);
    let fail = Some(Fail { status: 503, times: 1, skip: 1, retry_after: Some("2".into()) });
    for file in FILES {
        let server = Server::start(place.bytes(file), Behaviour { fail: fail.clone(), ..good() });
        let since = Instant::now();
        place.convert(&server.url("/disk"), &[]).ok();
        assert!(since.elapsed() > Duration::from_millis(1900) || server.requests().len() < 2, "{file}");
    }
}

#[test]
fn a_stall_ends_with_what_was_waited_for_and_how_long() {
    let place = Place::new(33);
    for file in FILES {
        for ranges in [true, false] {
            let stall_after = Some(Spoil {
                bytes: if ranges { 0 } else { 300_000 },
                times: u32::MAX,
                skip: u32::from(ranges),
            });
            let stall = Behaviour { stall_after, ranges, ..good() };
            let mute = Behaviour { mute: u32::MAX, ranges, ..good() };
            for behaviour in [stall, mute] {
                let server = Server::start(place.bytes(file), behaviour);
                let since = Instant::now();
                let ran = place.convert(&server.url("/disk"), &["--idle-timeout", "1", "--retries", "1"]);
                let took = since.elapsed();
                let ran = ran.refused(1, "while waiting for");
                // Without ranges the second attempt, after half of the time, finds that it cannot resume.
                let said = ["no byte came for 1 s", "no byte for 0.5 s"].map(|said| ran.err.contains(said));
                assert!(said[0] || said[1] && !ranges, "{}", ran.err);
                assert!(ran.err.contains("/disk"), "{}", ran.err);
                assert!(took < Duration::from_secs(8), "{file}: {took:?}");
            }
        }
    }
}

#[test]
fn a_file_that_changes_midway_is_never_mixed() {
    let place = Place::new(34);
    let other: Vec<u8> = place.bytes("disk.raw").iter().map(|b| b ^ 0x55).collect();
    for file in FILES {
        for (etag, ranges) in
            [(Some("\"v2\"".to_owned()), true), (None, true), (Some("\"v2\"".to_owned()), false)]
        {
            let modified = Some("Mon, 07 Nov 1994 08:49:37 GMT".to_owned());
            let bytes = place.bytes(file);
            let mut new = other.clone();
            new.resize(bytes.len(), 7);
            let change = Change {
                after_requests: if ranges { 5 } else { 1 },
                bytes: new,
                etag: etag.clone(),
                last_modified: modified,
            };
            let first = etag.is_some().then(|| "\"v1\"".to_owned());
            // A stream asks again only after a break.
            let drop_after = Spoil::some(600_000, 4);
            let behaviour = Behaviour { etag: first, change: Some(change), drop_after, ranges, ..good() };
            let server = Server::start(bytes, behaviour);
            let ran = place.convert(&server.url("/disk"), &[]).refused(1, "changed while it was read");
            assert!(!ran.err.contains("goes on from there"), "{}", ran.err);
            place.nothing_beside("out.img");
        }
    }
}

#[test]
fn a_server_that_proves_no_version_gives_one_version() {
    let place = Place::new(47);
    let second = good().last_modified;
    let weak = Some("W/\"v\"".to_owned());
    let cases = [
        (None, None, None),
        (weak.clone(), None, None),
        (weak, second.clone(), second.clone()),
        (None, second.clone(), second),
    ];
    for (etag, last_modified, date) in cases {
        for file in FILES {
            let bytes = place.bytes(file);
            // Another disk with the same response headers.
            let new = bytes.iter().map(|b| b ^ 0x55).collect();
            let (etag, last_modified, date) = (etag.clone(), last_modified.clone(), date.clone());
            let change = Change {
                after_requests: 2,
                bytes: new,
                etag: etag.clone(),
                last_modified: last_modified.clone(),
            };
            let server =
                Server::start(bytes, Behaviour { etag, last_modified, date, change: Some(change), ..good() });
            // Convert compares the disk with the first version.
            place.convert(&server.url("/disk"), &[]).ok();
            assert_eq!(server.requests().len(), 2, "{file}: the first bytes, and all of them");
        }
    }
}

#[test]
fn lies_are_noticed() {
    let place = Place::new(35);
    let cases = [
        ("more than it has", Behaviour { length_lie: 5000, ..good() }),
        ("more, no ranges", Behaviour { length_lie: 5000, ranges: false, ..good() }),
        ("less than it has, no ranges", Behaviour { length_lie: -70_000, ranges: false, ..good() }),
        ("other bytes than asked for", Behaviour { range_lie: 512, ..good() }),
        ("a smaller total", Behaviour { total_lie: Some(400_000), ..good() }),
        ("a total no disk has", Behaviour { total_lie: Some(u64::MAX), ..good() }),
        ("an encoding that is none", Behaviour { claimed_encoding: Some((0, "br".into())), ..good() }),
        ("gzip that is none", Behaviour { claimed_encoding: Some((0, "gzip".into())), ..good() }),
        ("ranges at first only", Behaviour { no_ranges_from: Some(1), ..good() }),
    ];
    for (name, behaviour) in cases {
        for file in FILES {
            if (name.starts_with("less") || name.starts_with("a smaller")) && file == "disk.raw" {
                // A server that lies consistently serves a smaller disk, which cannot be detected.
                continue;
            }
            if (name.starts_with("less") || name.starts_with("a smaller")) && file == "disk.raw" {
                // A server that stands by its lie serves a smaller disk, and nobody can tell.
                continue;
            }
            let server = Server::start(place.bytes(file), behaviour.clone());
            let ran = place.convert(&server.url("/disk"), &["--retries", "1", "--idle-timeout", "2"]);
            // The disk is right all the same: a range response says which bytes it has, and a server that
            // cannot be trusted with ranges is asked for the whole file.
            let harmless = ["more than it has", "ranges at first only", "other bytes than asked for"]
                .contains(&name)
                && ran.code == 0;
            assert!(harmless || [1, 3].contains(&ran.code), "{name}, {file}: {} {}", ran.code, ran.err);
            assert!(
                harmless || ran.err.contains("/disk") || ran.err.contains("offset"),
                "{name}, {file}: {}",
                ran.err
            );
        }
    }
}

#[test]
fn answers_that_are_no_disk_have_their_exit_codes() {
    let place = Place::new(36);
    let page = b"<!DOCTYPE html><html><body>Please log in</body></html>".to_vec();
    for content_type in ["text/html; charset=utf-8", "application/octet-stream"] {
        let server = Server::start(page.clone(), Behaviour { content_type: content_type.into(), ..good() });
        for url in [server.url("/disk.qcow2"), server.url("/disk.raw.gz")] {
            place.convert(&url, &[]).refused(3, "web page");
            place.nothing_beside("out.img");
        }
    }
    for (status, code, said) in [
        (401, 5, "401"),
        (403, 5, "403"),
        (407, 5, "407"),
        (404, 4, "404"),
        (410, 4, "410"),
        (500, 1, "500"),
        (400, 1, "400"),
    ] {
        let fail = Some(Fail { status, times: u32::MAX, skip: 0, retry_after: None });
        let server = Server::start(page.clone(), Behaviour { fail, ..good() });
        let ran = place.convert(&server.url("/disk"), &["--retries", "1"]).refused(code, said);
        assert!(ran.err.contains("/disk"), "{}", ran.err);
        place.nothing_beside("out.img");
    }
    let server = Server::start(page, good());
    let url = server.url("/disk");
    drop(server);
    place.convert(&url, &["--retries", "1"]).refused(1, "connect");
    place.convert("http://no-such-host.invalid/disk", &["--retries", "0"]).refused(1, "no-such-host");
    place.convert("http://", &[]).refused(2, "URL");
}

#[test]
fn redirects_are_followed_and_credentials_stay_where_they_belong() {
    let place = Place::new(37);
    for file in FILES {
        let other = Server::start(place.bytes(file), good());
        let redirects = [301, 302, 303, 307, 308].map(|s| (format!("/{s}"), s, other.url("/elsewhere")));
        let mut redirects = redirects.to_vec();
        redirects.push(("/loop".into(), 302, "/loop".into()));
        redirects.push(("/file".into(), 302, "file:///etc/passwd".into()));
        let server = Server::start(vec![], Behaviour { redirects, ..good() });
        std::fs::write(place.path("password"), "hush-hush\n").unwrap();
        for status in [301, 302, 303, 307, 308] {
            let url = server.url(&format!("/{status}"));
            place
                .convert(&url, &["--user", "me", "--password-file", "password", "--header", "X-Key: hush"])
                .ok();
        }
        assert!(server.requests().iter().all(|r| r.header("authorization").is_some()));
        assert!(!other.requests().is_empty());
        for request in other.requests() {
            assert_eq!(request.header("authorization"), None);
            assert_eq!(request.header("x-key"), None);
        }
        place.convert(&server.url("/loop"), &[]).refused(1, "redirect");
        place.convert(&server.url("/file"), &[]).refused(1, "redirect");
    }
}

/// A server that requires credentials, and the arguments and variables with them.
type Case<'a> = (&'a Behaviour, &'a [&'a str], &'a [(&'a str, &'a str)]);

#[test]
fn a_server_outside_leads_nobody_with_credentials_inside_by_way_of_another() {
    let place = Place::new(48);
    // Hosts with unknown names count as outside: a proxy answers for them.
    let proxy = Server::start(vec![], good());
    let inside = proxy.url("/secret");
    let path = |url: &str, status, to: &str| (url.to_owned(), status, to.to_owned());
    let redirects = vec![
        path("http://first.invalid/disk", 302, "http://second.invalid/hop"),
        path("http://second.invalid/hop", 302, &inside),
    ];
    let files = vec![(inside.clone(), place.bytes("disk.raw")), ("/secret".into(), place.bytes("disk.raw"))];
    proxy.set(Behaviour { redirects, files, ..good() });
    let by_proxy = proxy.url("");
    let variables = [("http_proxy", &*by_proxy), ("no_proxy", ""), ("NO_PROXY", "")];
    let ran = place.convert_with("http://me:pw@first.invalid/disk", &[], &variables);
    let ran = ran.refused(1, "a private address, for a request with credentials");
    assert!(!ran.err.contains("me:pw"), "{}", ran.err);
    let asked = proxy.requests();
    assert!(asked.iter().all(|r| !r.path.ends_with("/secret")), "{asked:?}");
    // Without credentials a redirect inside can do no harm.
    place.convert_with("http://first.invalid/disk", &[], &variables).ok();
}

#[test]
fn secrets_are_sent_and_never_shown() {
    const SECRET: &str = "s3cr3t-p4ss";
    let place = Place::new(38);
    std::fs::write(place.path("password"), format!("{SECRET}\n")).unwrap();
    std::fs::write(place.path("headers"), format!("X-Token: {SECRET}\n\n")).unwrap();
    let basic = Behaviour { basic: Some(("me".into(), SECRET.into())), ..good() };
    let wants = |name: &str, value: &str| Behaviour {
        wanted_header: Some((name.to_owned(), value.to_owned())),
        ..good()
    };
    let bearer = wants("authorization", &format!("Bearer {SECRET}"));
    let token = wants("x-token", SECRET);
    let header = format!("X-Token: {SECRET}");
    let cases: [Case<'_>; 7] = [
        (&basic, &["--user", "me", "--password-file", "password"], &[]),
        (&basic, &["--user", "me"], &[("CORACLE_HTTP_PASSWORD", SECRET)]),
        (&bearer, &[], &[("CORACLE_HTTP_BEARER", SECRET)]),
        (&bearer, &["--bearer-file", "password"], &[]),
        (&token, &["--header", &header], &[]),
        (&token, &["--header-file", "headers"], &[]),
        (&basic, &["in the URL"], &[]),
    ];
    for file in FILES {
        for (behaviour, args, variables) in cases {
            let server = Server::start(place.bytes(file), behaviour.clone());
            let (url, args) = match args {
                ["in the URL"] => (server.url_with_user(&format!("me:{SECRET}"), "/disk"), vec![]),
                args => (server.url("/disk"), args.to_vec()),
            };
            let ran = place.convert_with(&url, &[&args[..], &["-vv", "--json"]].concat(), variables);
            assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
            let said = format!("{}{}", ran.err, String::from_utf8_lossy(&ran.out));
            assert!(!said.contains(SECRET), "{args:?}: {said}");
            // Nor where they are wrong.
            let other = Server::start(place.bytes(file), wants("x-other", "x"));
            let url = url.replace(&server.url(""), &other.url(""));
            let ran = place.convert_with(&url, &[&args[..], &["-vv"]].concat(), variables);
            assert!([0, 5].contains(&ran.code), "{}", ran.err);
            assert!(!ran.err.contains(SECRET), "{args:?}: {}", ran.err);
        }
        let server = Server::start(place.bytes(file), basic.clone());
        place.convert(&server.url("/disk"), &[]).refused(5, "401");
        place.convert(&server.url("/disk"), &["--user", "me"]).refused(2, "password");
    }
}

#[test]
fn authorities_are_believed_when_they_are_named() {
    let place = Place::new(39);
    let authority = Authority::new();
    std::fs::write(place.path("ca.pem"), authority.pem()).unwrap();
    for file in FILES {
        let server = Server::start_tls(place.bytes(file), good(), &authority);
        place.convert(&server.url("/disk"), &["--cacert", "ca.pem"]).ok();
        place.convert(&server.url("/disk"), &["--insecure"]).ok();
        let ran = place.convert(&server.url("/disk"), &["--retries", "0"]).refused(1, "TLS");
        assert!(ran.err.contains("CA"), "{}", ran.err);
        place.convert(&server.url("/disk"), &["--cacert", "disk.raw"]);
        place.convert(&server.url("/disk"), &["--cacert", "no.pem"]).refused(4, "no.pem");
    }
}

#[test]
fn nginx_serves_the_ordinary_cases() {
    let place = Place::new(40);
    let user = Some(("me".to_owned(), "word".to_owned()));
    let serves = [
        Serve::default(),
        Serve { no_ranges: true, ..Serve::default() },
        Serve { gzip: true, ..Serve::default() },
        Serve { limit_rate: Some(8 << 20), ..Serve::default() },
        Serve { basic_auth: user, ..Serve::default() },
    ];
    std::fs::write(place.path("password"), "word").unwrap();
    for serve in &serves {
        let nginx = Nginx::start(serve);
        for file in FILES {
            let url = nginx.link(file, &place.path(file));
            place.convert(&url, &["--user", "me", "--password-file", "password", "--verify"]).ok();
            if serve.basic_auth.is_some() {
                place.convert(&url, &[]).refused(5, "401");
            }
        }
        place
            .convert(&nginx.url("nothing"), &["--user", "me", "--password-file", "password"])
            .refused(4, "404");
    }
}

#[test]
fn each_byte_crosses_the_network_once() {
    let place = Place::new(41);
    let nginx = Nginx::start(&Serve::default());
    for file in FILES {
        let url = nginx.link(file, &place.path(file));
        place.convert(&url, &[]).ok();
        let log = nginx.access_log();
        let lines = log.iter().filter(|line| line.ends_with(file));
        let sent: u64 =
            lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum();
        let size = place.bytes(file).len() as u64;
        assert!(sent <= size + (512 << 10), "{file}: {sent} of {size} bytes were sent");
    }
}
