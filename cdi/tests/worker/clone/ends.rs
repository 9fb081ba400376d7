//! Pods of a clone that end in the middle: the next one goes on, and little is sent twice.

use super::relay::Relay;
use super::*;
use rustix::process::Signal;
use std::time::{Duration, Instant};

const SIZE: u64 = 512 * MIB;
const DATA: u64 = 160 * MIB;

/// A clone over a slow network, in its middle.
struct Middle {
    origin: Origin,
    server: Pod,
    relay: Relay,
    volume: tempfile::TempDir,
    job: Import,
    importer: Pod,
}

impl Middle {
    fn start() -> Middle {
        let origin = Origin::with(SIZE, &[(0, DATA / 2), (SIZE / 2 + 4096, DATA / 2)]);
        let mut server = origin.serve();
        let relay = Relay::to(&server.at(), MIB);
        let volume = tempfile::tempdir().unwrap();
        let job = origin.job(&relay.at, volume.path());
        let importer = Pod::start(&job);
        let middle = Middle { origin, server, relay, volume, job, importer };
        let until = Instant::now() + PATIENCE;
        while mark(middle.volume.path()).is_none_or(|done| done < 4 * MIB) {
            assert!(Instant::now() < until, "no mark: {:?}", names(middle.volume.path()));
            std::thread::sleep(Duration::from_millis(10));
        }
        middle
    }

    fn whole(origin: &Origin, relay: &Relay, volume: &Path) {
        assert!(tests::disk::same(&origin.disk(), &disk(volume)));
        assert_eq!(names(volume), ["disk.img"]);
        let sent = relay.sent();
        assert!(sent <= DATA + DATA / 10 + MIB, "{sent} bytes for {DATA}");
        assert!(allocated(&disk(volume)) <= origin.allocated() + 256 * 1024);
    }
}

/// The progress in the journal.
fn mark(volume: &Path) -> Option<u64> {
    let journal = std::fs::read(volume.join("disk.img.partial.journal")).ok()?;
    let journal = String::from_utf8_lossy(&journal);
    let (whole, _) = journal.rsplit_once('\n')?;
    let (_, last) = whole.rsplit_once("\"done\":")?;
    last.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn an_importer_that_is_killed_is_gone_on_with_by_the_next() {
    let Middle { origin, server: _server, relay, volume, job, mut importer } = Middle::start();
    importer.signal(Signal::KILL);
    importer.log();
    relay.hurry();
    let report = Pod::run(&job).done();
    assert!(report.resumed >= 4 * MIB, "{report:?}");
    Middle::whole(&origin, &relay, volume.path());
}

#[test]
fn a_source_pod_that_is_killed_is_followed_by_another_and_the_importer_goes_on() {
    let Middle { origin, mut server, relay, volume, importer, .. } = Middle::start();
    server.signal(Signal::KILL);
    server.log();
    // The kubelet gives the volume to its group at each mount.
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(origin.disk(), std::fs::Permissions::from_mode(0o660)).unwrap();
    let mut next = origin.serve();
    relay.leads_to(&next.at());
    relay.hurry();
    importer.wait().done();
    Middle::whole(&origin, &relay, volume.path());
}

#[test]
fn a_source_pod_whose_certificates_end_says_so_and_the_importer_waits_for_the_next() {
    let origin = Origin::with(8 * MIB, &[(0, 2 * MIB)]);
    let ended =
        origin.serve_with(Target::File(origin.disk()), &[("DEADLINE", "2026-01-01T00:00:00Z")]).wait();
    let report = ended.report.expect("a termination message");
    assert_eq!((ended.code, report.deadline_passed), (Some(0), true), "{report:?}");
    // No server listens there.
    let relay = Relay::to("127.0.0.1:1", u64::MAX);
    let volume = tempfile::tempdir().unwrap();
    let mut importer = Pod::start(&origin.job(&relay.at, volume.path()));
    importer.reports(|report| report.stage == Stage::Waiting && report.failures > 0);
    let mut next = origin.serve();
    relay.leads_to(&next.at());
    importer.wait().done();
    assert!(tests::disk::same(&origin.disk(), &disk(volume.path())));
}
