//! The ordinary cases.

use super::{open, quick, read, read_all, refusal};
use cdi::ErrorKind;
use cdi::source::Source;
use cdi::source::options::Options;
use tests::http::pattern;
use tests::nginx::{Nginx, Serve};

#[test]
fn a_file_is_streamed_and_read_at_any_offset() {
    let nginx = Nginx::start(&Serve::default());
    let disk = pattern(23_456_789);
    let source = open(&nginx.write("disk.img", &disk), &quick());
    assert_eq!(source.facts().size, Some(disk.len() as u64));
    assert!(source.facts().seekable && source.facts().remote);
    assert!(source.facts().identity.as_ref().unwrap().is_proof(), "nginx sends a strong ETag");
    assert!(read_all(&source) == disk);
    for from in [1, 262_143, 262_144, 262_145, 10_000_000, disk.len() - 1, disk.len()] {
        assert!(read(&source, from as u64).unwrap() == disk[from..], "from {from}");
    }
    let at = source.read_at().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (at, disk) = (&at, &disk);
            scope.spawn(move || {
                for i in 0..40 {
                    let offset = (thread * 1_000_003 + i * 577_777) % disk.len();
                    let len = [1, 512, 65_536, 65_537, 300_000, 2_000_000][i % 6].min(disk.len() - offset);
                    let mut buf = vec![0; len];
                    at.read_exact_at(&mut buf, offset as u64).unwrap();
                    assert!(buf == disk[offset..offset + len], "{len} bytes at {offset}");
                }
            });
        }
    });
    for offset in [disk.len() as u64 - 1, disk.len() as u64, u64::MAX] {
        let error = at.read_exact_at(&mut [0; 2], offset).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "at {offset}");
    }
    assert!(source.stream(disk.len() as u64 + 1).is_err());
}

#[test]
fn opening_and_reading_the_front_is_one_request() {
    let nginx = Nginx::start(&Serve::default());
    let source = open(&nginx.write("disk.img", &pattern(1 << 20)), &quick());
    let at = source.read_at().unwrap();
    for offset in [0, 4096, 200_000] {
        at.read_exact_at(&mut [0; 50_000], offset).unwrap();
    }
    // nginx writes its log when a request is done.
    drop(source);
    assert_eq!(nginx.access_log(), ["206 262144 bytes=0-262143 /disk.img"]);
}

#[test]
fn small_and_empty_files_are_files() {
    let nginx = Nginx::start(&Serve::default());
    for len in [0, 1, 262_143, 262_144, 262_145] {
        let disk = pattern(len);
        let source = open(&nginx.write(&format!("{len}.img"), &disk), &quick());
        assert_eq!(source.facts().size, Some(len as u64));
        assert!(source.facts().seekable);
        assert!(read_all(&source) == disk, "{len} bytes");
        assert!(read(&source, len as u64).unwrap().is_empty());
    }
}

#[test]
fn a_server_without_ranges_is_streamed_with_one_request() {
    let nginx = Nginx::start(&Serve { no_ranges: true, ..Serve::default() });
    let disk = pattern(9_000_000);
    let source = open(&nginx.write("disk.img", &disk), &quick());
    assert_eq!(source.facts().size, Some(disk.len() as u64));
    assert!(!source.facts().seekable && source.read_at().is_none());
    assert!(read_all(&source) == disk);
    assert_eq!(nginx.access_log().len(), 1, "{:?}", nginx.access_log());
    assert!(read_all(&source) == disk, "it can be had again");
    assert!(source.stream(1).is_err());
}

#[test]
fn credentials_come_from_the_options_or_the_url() {
    let nginx = Nginx::start(&Serve { basic_auth: Some(("me".into(), "p@ss".into())), ..Serve::default() });
    let disk = pattern(300_000);
    let url = nginx.write("disk.img", &disk);
    let by_options = Options { user: Some("me".into()), password: Some("p@ss".into()), ..quick() };
    assert!(read_all(&open(&url, &by_options)) == disk);
    let with_user = url.replacen("://", "://me:p%40ss@", 1);
    let source = open(&with_user, &quick());
    assert_eq!(source.facts().name, url, "the user is not shown");
    assert!(read_all(&source) == disk);
    refusal(&url, &quick()).says(ErrorKind::Auth, &["401", "give a user and password"]);
    let wrong = refusal(&url.replacen("://", "://me:wrong-pw@", 1), &quick());
    wrong.says(ErrorKind::Auth, &["401", "check the user, password"]);
    assert!(!wrong.chain.contains("wrong-pw"), "{}", wrong.chain);
}

#[test]
fn compression_is_not_asked_for_and_a_rate_limit_is_lived_with() {
    let serve = Serve { gzip: true, limit_rate: Some(4 << 20), ..Serve::default() };
    let nginx = Nginx::start(&serve);
    let disk = vec![7; 3 << 20];
    let source = open(&nginx.write("disk.img", &disk), &quick());
    assert!(source.facts().seekable, "a compressed answer would not be");
    assert!(read_all(&source) == disk);
}

#[test]
fn what_is_not_there_is_not_found() {
    let nginx = Nginx::start(&Serve::default());
    refusal(&nginx.url("none.img"), &quick())
        .says(ErrorKind::NotFound, &["404", "/none.img", "check the link"]);
}
