//! Imports that come to their end.

use super::{Ended, Pod, disk, job, job_with, names};
use api::job::{Import, Source, Stage, Target};
use std::os::unix::fs::PermissionsExt as _;
use tests::http::{Behaviour, Fail, Server, Spoil, pattern};

#[test]
fn the_disk_of_a_server_is_the_disk_of_the_volume_and_nothing_lies_beside_it() {
    let volume = tempfile::tempdir().unwrap();
    std::fs::create_dir(volume.path().join("lost+found")).unwrap();
    let bytes = pattern(5 << 20);
    let server = Server::start(bytes.clone(), Behaviour::default());
    let job = Import { size: Some(6 << 20), ..job(volume.path(), &server.url("/disk.img")) };
    let report = Pod::run(&job).done();
    assert_eq!((report.message.as_str(), report.done, report.resumed), ("Import Complete", 6 << 20, 0));
    let disk = disk(volume.path());
    let found = std::fs::read(&disk).unwrap();
    assert!(found[..5 << 20] == bytes && found[5 << 20..].iter().all(|&byte| byte == 0));
    assert_eq!(found.len(), 6 << 20, "it has the size that was asked for");
    assert_eq!(std::fs::metadata(&disk).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(names(volume.path()), ["disk.img", "lost+found"]);
}

#[test]
fn an_empty_disk_is_made_with_all_its_blocks_where_that_is_asked_for() {
    let volume = tempfile::tempdir().unwrap();
    let target = Target::File(disk(volume.path()));
    let job = Import { source: Source::Blank, target, size: Some(3 << 20), preallocate: true };
    let report = Pod::run(&job).done();
    assert!(report.preallocation_applied && report.message == "Import Complete");
    assert_eq!(std::fs::metadata(disk(volume.path())).unwrap().len(), 3 << 20);
}

#[test]
fn a_server_that_comes_back_is_waited_for_and_the_report_says_until_when() {
    let volume = tempfile::tempdir().unwrap();
    let bytes = pattern(1 << 20);
    let away = Fail { status: 503, times: u32::MAX, skip: 0, retry_after: Some("0".into()) };
    let server = Server::start(bytes.clone(), Behaviour { fail: Some(away), ..Behaviour::default() });
    let mut pod = Pod::start(&job(volume.path(), &server.url("/disk.img")));
    let waits = pod.reports(|report| report.stage == Stage::Waiting);
    assert_eq!((waits.reason.as_str(), waits.failures), ("Failed", 1), "{waits:?}");
    assert!(waits.message.contains("503") && !waits.message.contains("--"), "{waits:?}");
    let until: jiff::Timestamp = waits.retry_at.as_deref().expect("a time").parse().unwrap();
    let left = until.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((-60..=10).contains(&left), "{left}");
    server.set(Behaviour::default());
    let report = pod.wait().done();
    assert_eq!(report.failures, 1);
    assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
}

#[test]
fn what_an_import_does_is_on_the_pages_of_its_server() {
    let volume = tempfile::tempdir().unwrap();
    let slow = Behaviour { rate: Some(512 << 10), ..Behaviour::default() };
    let server = Server::start(pattern(96 << 20), slow);
    let mut pod = Pod::start(&job(volume.path(), &server.url("/disk.img")));
    let moves = pod.reports(|report| report.stage == Stage::Moving && report.done > 0 && report.rate > 0);
    assert_eq!(moves.total, Some(96 << 20));
    assert!(moves.seconds_left.is_some(), "{moves:?}");
    assert_eq!(pod.page("/healthz").unwrap(), "OK");
    let metrics = pod.page("/metrics").unwrap();
    let name = "\nkubevirt_cdi_import_progress_total{ownerUID=\"0b5c-uid\"} ";
    let percent = metrics.split_once(name).unwrap_or_else(|| panic!("{metrics}")).1.lines().next().unwrap();
    assert!((0.0..100.0).contains(&percent.parse::<f64>().unwrap()), "{percent}");
    assert!(metrics.contains("\ncoracle_import_total_bytes{ownerUID=\"0b5c-uid\"} 100663296\n"), "{metrics}");
    assert!(pod.page("/").is_err(), "nothing else is there");
    server.hurry();
    pod.wait().done();
}

#[test]
fn what_is_secret_is_sent_to_its_server_and_said_to_nobody() {
    let secrets = tempfile::tempdir().unwrap();
    std::fs::write(secrets.path().join("token"), "X-Token: s3cret-a").unwrap();
    let folder = api::job::Files::Folder(secrets.path().to_owned());
    let wanted = Some(("x-token".to_owned(), "s3cret-a".to_owned()));
    let server = Server::start(pattern(1 << 20), Behaviour { wanted_header: wanted, ..Behaviour::default() });
    let run = |is_right: bool| -> Ended {
        let volume = tempfile::tempdir().unwrap();
        let url = server.url_with_user("s3cret-b:s3cret-c", "/disk.img?signature=s3cret-d");
        let job = job_with(volume.path(), &url, |http| {
            let secret = api::job::SecretFiles { secret: "tokens".into(), files: folder.clone() };
            http.secret_headers = if is_right { vec![secret] } else { vec![] };
            http.headers = vec!["X-More: s3cret-e".into()];
        });
        let mut pod = Pod::start_with(&job, &[("CORACLE_LOG", "debug")]);
        let page = pod.page("/v1/report").unwrap_or_default() + &pod.page("/metrics").unwrap_or_default();
        assert!(!page.contains("s3cret"), "{page}");
        let ended = pod.wait();
        let report = serde_json::to_string(&ended.report).unwrap();
        assert!(!ended.log.contains("s3cret") && !report.contains("s3cret"), "{ended:?}");
        ended
    };
    run(true).done();
    let refused = run(false).failed("Forbidden");
    assert!(refused.message.contains("403"), "{refused:?}");
    assert!(server.requests().iter().any(|request| request.header("x-token") == Some("s3cret-a")));
}

/// The end of a connection is the end of the body: nothing tells that it is the true one.
#[test]
fn a_raw_disk_of_unknown_length_is_said_to_be_one() {
    let bytes = pattern(1 << 20);
    let until_close = Behaviour { until_close: true, ranges: false, ..Behaviour::default() };
    for (drop_after, whole) in [(None, true), (Spoil::always(700_000), false)] {
        let volume = tempfile::tempdir().unwrap();
        let server = Server::start(bytes.clone(), Behaviour { drop_after, ..until_close.clone() });
        let ended = Pod::run(&job(volume.path(), &server.url("/disk.img")));
        assert!(ended.log.contains("did not say how long the disk is"), "{}", ended.log);
        let report = ended.done();
        assert!(report.length_unknown, "{report:?}");
        assert_eq!(std::fs::metadata(disk(volume.path())).unwrap().len() == 1 << 20, whole);
    }
    // A cut behind a member of a gzip leaves a whole one.
    let [first, second] = [&bytes[..1 << 19], &bytes[1 << 19..]].map(tests::layout::gzip);
    let cut = Spoil::always(first.len() as u64);
    let volume = tempfile::tempdir().unwrap();
    let server =
        Server::start([first, second].concat(), Behaviour { drop_after: cut, ..until_close.clone() });
    assert!(Pod::run(&job(volume.path(), &server.url("/disk.img.gz"))).done().length_unknown);
    assert_eq!(std::fs::metadata(disk(volume.path())).unwrap().len(), 1 << 19);
    // A length, an end mark or a checksum leaves no doubt.
    let sum = tests::layout::digest(&bytes);
    for (behaviour, checksum) in [
        (Behaviour { ranges: false, ..Behaviour::default() }, None),
        (Behaviour { chunked: true, ..until_close.clone() }, None),
        (until_close.clone(), Some(sum)),
    ] {
        let volume = tempfile::tempdir().unwrap();
        let until_close = behaviour.until_close && !behaviour.chunked;
        let server = Server::start(bytes.clone(), Behaviour { until_close, ..behaviour });
        let job = job_with(volume.path(), &server.url("/disk.img"), |http| http.checksum = checksum.clone());
        assert!(!Pod::run(&job).done().length_unknown, "{checksum:?}");
    }
}
