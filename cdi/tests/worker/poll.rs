//! Polls: one question for the version of a source, and whom they and imports trust behind a proxy.

use super::{Ended, Pod, disk, job, job_with};
use api::job::{Confidential, Poll, Report, Source, Stage};
use sha2::{Digest as _, Sha256};
use std::path::Path;
use tests::http::{Authority, Behaviour, Server, pattern};

pub(crate) fn poll(source: Source) -> Ended {
    poll_with(source, &[])
}

fn poll_with(source: Source, environment: &[(&str, &str)]) -> Ended {
    Pod::start_words(&["poll"], &Poll { source }, environment).wait()
}

fn source(url: &str) -> Source {
    job(Path::new("/nowhere"), url).source
}

fn behaviour(etag: Option<&str>, modified: Option<&str>) -> Behaviour {
    Behaviour {
        etag: etag.map(str::to_owned),
        last_modified: modified.map(str::to_owned),
        ..Behaviour::default()
    }
}

#[track_caller]
fn refused(ended: Ended) -> Report {
    let report = ended.report.unwrap_or_else(|| panic!("no report: {}", ended.log));
    assert_eq!((ended.code, report.stage), (Some(1), Stage::Failed), "{report:?}");
    report
}

/// The version, named as virt-controller does in its own polls.
#[test]
fn a_file_is_named_by_what_its_server_says_of_its_version() {
    let server = Server::start(pattern(1 << 20), behaviour(Some("\"1\""), None));
    let named = |words: &str| format!("sha256:{}", hex::encode(Sha256::digest(words.as_bytes())));
    let digest = || poll(source(&server.url("/d"))).done().digest;
    assert_eq!(digest(), named("etag:\"1\""));
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    server.set(behaviour(Some("W/\"2\""), Some(date)));
    assert_eq!(digest(), named(&format!("mtime:{date} size:{}", 1 << 20)));
    server.set(behaviour(Some("W/\"2\""), None));
    let report = refused(poll(source(&server.url("/d"))));
    assert!(report.message.contains("must send a strong ETag"), "{report:?}");
}

#[test]
fn a_poll_sends_the_headers_of_the_template_and_says_none_of_them() {
    let server = Server::start(pattern(1 << 20), behaviour(Some("\"1\""), None));
    let with = job_with(Path::new("/nowhere"), &server.url("/d"), |http| {
        http.headers = vec![Confidential("X-Token: topsecret".to_owned())];
    });
    let ended = poll(with.source);
    assert!(!ended.log.contains("topsecret"), "{}", ended.log);
    ended.done();
    let requests = server.requests();
    assert!(format!("{requests:?}").contains("topsecret"), "{requests:?}");
    // An invalid source is final, and so is one without versions.
    assert!(refused(poll(source("file:///etc/passwd"))).message.contains("http://"));
    assert!(refused(poll(Source::Blank)).message.contains("versions"));
}

/// The certificates of the proxy are believed beside the system's, by polls and by imports.
#[test]
fn the_authorities_of_the_proxy_are_trusted() {
    let (authority, bytes) = (Authority::new(), pattern(1 << 20));
    let server = Server::start_tls(bytes.clone(), behaviour(Some("\"1\""), None), &authority);
    let folder = tempfile::tempdir().unwrap();
    let trust = folder.path().join("authorities.pem");
    let said = [("CDI_PROXY_CA", authority.pem()), ("SSL_CERT_FILE", trust.to_str().unwrap())];
    poll_with(source(&server.url("/d")), &said).done();
    let import = job(folder.path(), &server.url("/d"));
    Pod::start_with(&import, &said).wait().done();
    assert!(std::fs::read(disk(folder.path())).unwrap() == bytes);
    let other = tempfile::tempdir().unwrap();
    let mut untrusting = Pod::start(&job(other.path(), &server.url("/d")));
    let report = untrusting.reports(|report| report.stage == Stage::Waiting);
    assert!(report.message.contains("certificate"), "{report:?}");
}
