//! A false source pod: the owner of the source's namespace may have put any server in its place.

use super::*;
use tests::disk::qemu_convert;
use tests::http::{Behaviour, Server, pattern};

/// The job of an importer that believes this server.
fn job(origin: &Origin, server: &Server, authority: &tests::http::Authority, volume: &Path) -> Import {
    std::fs::write(origin.importer.path().join("ca.crt"), authority.pem()).unwrap();
    let source = Source::Clone(Clone { url: server.url("/disk"), tls: origin.importer.path().to_owned() });
    Import { source, ..origin.job("unused", volume) }
}

fn answered(bytes: Vec<u8>, behaviour: Behaviour, check: impl FnOnce(Pod)) {
    let (origin, authority) = (Origin::new(), tests::http::Authority::new());
    let server = Server::start_tls(bytes, behaviour, &authority);
    let volume = tempfile::tempdir().unwrap();
    check(Pod::start(&Import { size: Some(8 * MIB), ..job(&origin, &server, &authority, volume.path()) }));
    assert!(!disk(volume.path()).exists());
}

fn invalid(bytes: Vec<u8>) {
    answered(bytes, Behaviour::default(), |pod| {
        let report: Report = pod.wait().failed("InvalidImage");
        assert!(!report.message.contains("panic"), "{report:?}");
    });
}

fn qcow2() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw");
    std::fs::write(&raw, pattern(3 << 20)).unwrap();
    std::fs::read(qemu_convert("-O qcow2", &raw, &folder.path().join("qcow2"))).unwrap()
}

#[test]
fn what_is_no_qcow2_or_a_broken_one_is_an_invalid_image() {
    let good = qcow2();
    invalid(pattern(1 << 20));
    invalid(good[..good.len() / 2].to_vec());
    invalid(good[..100].to_vec());
    let with = |at: usize, bytes: &[u8]| {
        let mut image = good.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    // Clusters of 2^63 bytes, an L1 table behind the end, a backing file.
    invalid(with(20, &63_u32.to_be_bytes()));
    invalid(with(40, &(1_u64 << 40).to_be_bytes()));
    invalid(with(8, &1024_u64.to_be_bytes()));
    // Every table entry is garbage.
    let mut garbage = good.clone();
    garbage[3 << 16..5 << 16].fill(0xee);
    invalid(garbage);
}

#[test]
fn a_disk_that_claims_to_be_huge_does_not_fit_and_takes_no_memory() {
    let mut image = qcow2();
    image[24..32].copy_from_slice(&(1_u64 << 62).to_be_bytes());
    answered(image, Behaviour::default(), |pod| {
        let report = pod.wait().failed("InvalidImage");
        assert!(report.message.contains("over the limit"), "{report:?}");
    });
}

#[test]
fn ranges_that_are_not_those_that_were_asked_for_are_not_taken() {
    let (origin, authority) = (Origin::new(), tests::http::Authority::new());
    let server = Server::start_tls(qcow2(), Behaviour { range_lie: 512, ..Behaviour::default() }, &authority);
    let volume = tempfile::tempdir().unwrap();
    // The whole file can be had.
    Pod::run(&job(&origin, &server, &authority, volume.path())).done();
    assert!(std::fs::read(disk(volume.path())).unwrap() == pattern(3 << 20));
}

#[test]
fn nobody_is_led_out_of_tls() {
    let redirects = vec![("/disk".into(), 302, "http://127.0.0.1:1/etc".into())];
    answered(qcow2(), Behaviour { redirects, ..Behaviour::default() }, |mut pod| {
        let report = pod.reports(|report| report.stage == Stage::Waiting && !report.reason.is_empty());
        assert!(report.message.contains("from TLS"), "{report:?}");
    });
}
