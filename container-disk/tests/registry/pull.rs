//! Reading from one registry.

use crate::work::{Image, LARGE, example, fetch, fetch_from, mirrored, open, registries, same, tag};
use container_disk::place::{Place, Reference};
use container_disk::reference::Remote;
use container_disk::{Digest, ErrorKind};
use tests::faults::{Fault, Proxy, What};
use tests::http::Authority;
use tests::registry::{Registry, Serve};

/// Sizes of the pieces: 128 KiB, then doubled up to 2 MiB.
const PIECES: usize = 8;

#[test]
fn what_was_pushed_is_what_comes() {
    let server = Registry::start();
    let image = Image::new(LARGE, 1);
    // A loopback address without settings: TLS is tried, then plain HTTP.
    image.push(&open(&server.address(), "group/os"), "1").unwrap();
    let from = open(&server.address(), "group/os");
    let document = from.document(&tag("1")).unwrap();
    assert_eq!((document.digest, &document.bytes), (image.manifest.digest, &image.manifest.bytes));
    assert_eq!(from.document(&Reference::Digest(document.digest)).unwrap().bytes, document.bytes);
    same(&fetch(&from, &image.config_part()).unwrap(), &image.config);
    same(&fetch(&from, &image.layer_part()).unwrap(), &image.layer);
    for at in [1, 4096, LARGE - 1, LARGE] {
        same(&fetch_from(&from, &image.layer_part(), at as u64).unwrap(), &image.layer[at..]);
    }
    assert_eq!(
        fetch_from(&from, &image.layer_part(), LARGE as u64 + 1).unwrap_err().kind(),
        ErrorKind::Usage
    );
}

#[test]
fn a_blob_is_read_at_any_offset() {
    let server = Registry::start();
    let image = Image::new(LARGE, 2);
    image.push(&open(&server.address(), "os"), "1").unwrap();
    let from = open(&server.address(), "os");
    let at = from.blob(&image.layer_part()).unwrap().read_at().unwrap();
    for (offset, len) in [(0, 512), (65_000, 2000), (1 << 20, 3 << 20), (LARGE - 10, 10), (LARGE, 0)] {
        let mut buf = vec![0; len];
        at.read_exact_at(&mut buf, offset as u64).unwrap();
        same(&buf, &image.layer[offset..offset + len]);
    }
    let e = at.read_exact_at(&mut [0; 2], LARGE as u64 - 1).unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::UnexpectedEof);
    let small = from.blob(&image.config_part()).unwrap().read_at().unwrap();
    let mut buf = vec![0; image.config.len()];
    small.read_exact_at(&mut buf, 0).unwrap();
    same(&buf, &image.config);
}

#[test]
fn small_reads_of_many_threads_fetch_each_block_once() {
    let server = Registry::start();
    let image = Image::new(LARGE, 9);
    image.push(&open(&server.address(), "r"), "1").unwrap();
    let proxy = Proxy::start(&server.address(), vec![]);
    let from = mirrored(&[proxy.address()], "");
    let at = example(&from).blob(&image.layer_part()).unwrap().read_at().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (at, layer) = (&at, &image.layer);
            scope.spawn(move || {
                // Neighbouring pieces, as a table walk reads them, divided among the threads.
                for i in (thread..1000).step_by(4) {
                    let offset = 300_000 + i * 1_500;
                    let mut buf = vec![0; 1_500];
                    at.read_exact_at(&mut buf, offset as u64).unwrap();
                    same(&buf, &layer[offset..offset + 1_500]);
                }
            });
        }
    });
    let (requests, received) = (proxy.count("GET", "/blobs/"), from.counters().now().received);
    assert!(requests <= 12, "{requests} requests");
    assert!(received <= 1_500_000 + (2 << 20), "{received} bytes for a million and a half");
}

#[test]
fn a_large_blob_is_fetched_in_pieces_and_where_that_cannot_be_in_one() {
    let server = Registry::start();
    let image = Image::new(LARGE, 3);
    image.push(&open(&server.address(), "r"), "1").unwrap();
    let proxy = Proxy::start(&server.address(), vec![]);
    let from = mirrored(&[proxy.address()], "");
    same(&fetch(&example(&from), &image.layer_part()).unwrap(), &image.layer);
    assert_eq!(proxy.count("GET", "/blobs/"), PIECES);
    assert_eq!(from.counters().now().received, LARGE as u64);
    proxy.set(vec![Fault::blobs(What::NoRanges)]);
    let from = mirrored(&[proxy.address()], "");
    same(&fetch(&example(&from), &image.layer_part()).unwrap(), &image.layer);
    same(&fetch_from(&example(&from), &image.layer_part(), 5_000_000).unwrap(), &image.layer[5_000_000..]);
    assert!(example(&from).blob(&image.layer_part()).unwrap().read_at().is_none(), "it has no ranges");
}

#[test]
fn ranges_of_one_blob_are_on_their_way_at_the_same_time() {
    let server = Registry::start();
    let image = Image::new(LARGE, 8);
    image.push(&open(&server.address(), "r"), "1").unwrap();
    // The first request shows support of ranges. The second is answered once the third was sent.
    let proxy = Proxy::start(&server.address(), vec![Fault::blobs(What::Together(2)).skip(1)]);
    let from = mirrored(&[proxy.address()], "");
    same(&fetch(&example(&from), &image.layer_part()).unwrap(), &image.layer);
    assert_eq!(proxy.count("GET", "/blobs/"), PIECES, "none was asked for twice");
}

#[test]
fn a_tag_is_looked_up_once() {
    let server = Registry::start();
    let (old, new) = (Image::new(1000, 4), Image::new(1000, 5));
    let to = open(&server.address(), "os");
    old.push(&to, "1").unwrap();
    let from = open(&server.address(), "os");
    assert_eq!(from.document(&tag("1")).unwrap().digest, old.manifest.digest);
    new.push(&to, "1").unwrap();
    assert_eq!(from.document(&tag("1")).unwrap().digest, old.manifest.digest, "it is what it was");
    assert_eq!(to.document(&tag("1")).unwrap().digest, new.manifest.digest, "and what was put there");
}

#[test]
fn what_is_not_there_is_not_found() {
    let server = Registry::start();
    let image = Image::new(1000, 6);
    image.push(&open(&server.address(), "os"), "1").unwrap();
    let from = open(&server.address(), "os");
    let e = from.document(&tag("2")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("404 Not Found (MANIFEST_UNKNOWN: "), "{e}");
    let e = from.document(&Reference::Digest(Digest::of(b"x"))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    let e = fetch(&from, &Image::new(1001, 6).layer_part()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("BLOB_UNKNOWN"), "{e}");
}

#[test]
fn a_registry_with_tls_is_believed_only_with_its_authority() {
    let authority = Authority::new();
    let server = Registry::serve(&Serve { tls: Some(&authority), ..Serve::default() });
    let address = server.address();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let image = Image::new(LARGE, 7);
    let name = Remote::parse(&format!("{address}/os")).unwrap();
    let trusting = registries(&format!("[host.\"{address}\"]\nca = {ca:?}"));
    image.push(&trusting.open(&name).unwrap(), "1").unwrap();
    same(&fetch(&trusting.open(&name).unwrap(), &image.layer_part()).unwrap(), &image.layer);
    let careless = registries(&format!("[host.\"{address}\"]\ninsecure = true"));
    same(&fetch(&careless.open(&name).unwrap(), &image.layer_part()).unwrap(), &image.layer);
    // A loopback address does not excuse this server: it has TLS, but with an unknown certificate.
    let e = registries("").open(&name).unwrap().document(&tag("1")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Failed);
    assert!(e.to_string().contains("registries.toml: ca ="), "{e}");
}
