//! Writing to one registry.

use crate::work::{Image, LARGE, descriptor, fetch, open, registries, same, send, tag};
use container_disk::manifest::IMAGE_LAYER_MEDIA_TYPE;
use container_disk::place::{Place, Sink};
use container_disk::reference::Remote;
use container_disk::registry::Registries;
use container_disk::{Digest, ErrorKind};
use std::io::Write;
use tests::faults::{Fault, Proxy, What};
use tests::http::pattern;
use tests::registry::Registry;

const PATCH: &str = "/blobs/uploads/";

fn remote(address: &str, repository: &str) -> Remote {
    Remote::parse(&format!("{address}/{repository}")).unwrap()
}

/// Settings for one plain host.
fn plain(address: &str, more: &str) -> Registries {
    registries(&format!("[host.\"{address}\"]\nplain-http = true\n{more}"))
}

#[test]
fn a_blob_goes_up_as_it_is_made_in_one_request() {
    let server = Registry::start();
    let proxy = Proxy::start(&server.address(), vec![]);
    let all = plain(&proxy.address(), "");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    let bytes = pattern(LARGE);
    let (digest, size) = send(&to, None, &bytes).unwrap();
    assert_eq!((digest, size), (Digest::of(&bytes), LARGE as u64));
    same(&std::fs::read(server.blob(&digest.to_string()).unwrap()).unwrap(), &bytes);
    assert_eq!((proxy.count("PATCH", PATCH), proxy.count("PUT", PATCH)), (1, 1));
    assert_eq!(all.counters().now().sent, LARGE as u64);
    let (digest, size) = send(&to, None, b"").unwrap();
    assert_eq!((digest, size), (Digest::of(b""), 0), "an empty one");
    assert_eq!(server.uploads("os"), 0);
}

#[test]
fn what_is_there_is_skipped_and_what_a_sibling_has_is_mounted() {
    let server = Registry::start();
    let all = plain(&server.address(), "");
    let (one, two) = (remote(&server.address(), "one"), remote(&server.address(), "two"));
    let image = Image::new(LARGE, 1);
    image.push(&all.open(&one).unwrap(), "1").unwrap();
    let to = all.open(&two).unwrap();
    assert!(!to.has(&image.layer_part()).unwrap(), "nobody said where it could come from");
    to.mount_from(&one);
    to.mount_from(&remote("elsewhere", "three"));
    assert!(to.has(&image.layer_part()).unwrap());
    let to = all.open(&two).unwrap();
    assert!(to.has(&image.layer_part()).unwrap(), "now it is there");
    let other = descriptor(IMAGE_LAYER_MEDIA_TYPE, b"other");
    to.mount_from(&one);
    assert!(!to.has(&other).unwrap(), "202 is not mounted");
    assert_eq!(server.uploads("two"), 0, "and leaves nothing");
    let transfer_counts = all.counters().now();
    assert_eq!((transfer_counts.mounted, transfer_counts.skipped), (1, 1));
    assert_eq!(transfer_counts.sent, (image.layer.len() + image.config.len()) as u64);
}

#[test]
fn wrong_bytes_get_no_name_and_leave_nothing() {
    let server = Registry::start();
    let to = open(&server.address(), "os");
    let good = pattern(LARGE);
    let part = descriptor(IMAGE_LAYER_MEDIA_TYPE, &good);
    let mut bad = good.clone();
    bad[5_000_000] ^= 1;
    // A request that is interrupted leaves an upload that this registry itself cannot find any more.
    for (bytes, says, left) in [
        (&bad[..], "has the digest", 0),
        (&[&good[..], b"x"].concat()[..], "is longer than", 0),
        (&good[..LARGE - 1], "ends after", 1),
    ] {
        let e = send(&to, Some(&part), bytes).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains(says), "{e}");
        assert!(server.uploads("os") <= left, "{says}");
        assert!(server.blob(&part.digest).is_none());
    }
    let to = open(&server.address(), "other");
    let mut dropped = to.begin(None).unwrap();
    dropped.write_all(&good).unwrap();
    drop(dropped);
    assert_eq!(server.uploads("other"), 0);
    assert!(server.blob(&part.digest).is_none(), "half a blob is no blob");
}

#[test]
fn an_answer_that_comes_before_the_end_is_heard_also_where_nobody_takes_the_rest() {
    let server = Registry::start();
    // More than all buffers on the way can hold.
    let proxy = Proxy::start(&server.address(), vec![Fault::always(What::Deaf(403)).method("PATCH")]);
    let all = plain(&proxy.address(), "idle = \"10s\"");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    let e = send(&to, None, &pattern(32 << 20)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth, "not that nothing was taken: {e}");
    assert_eq!(proxy.count("PATCH", PATCH), 1);
}

#[test]
fn an_upload_that_breaks_goes_on_at_the_byte_that_the_registry_reports() {
    let server = Registry::start();
    let end = Fault::always(What::EndRequest(3_000_000)).method("PATCH");
    let proxy = Proxy::start(&server.address(), vec![end.times(2)]);
    let all = plain(&proxy.address(), "");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    let bytes = pattern(LARGE);
    let (digest, _) = send(&to, None, &bytes).unwrap();
    same(&std::fs::read(server.blob(&digest.to_string()).unwrap()).unwrap(), &bytes);
    assert_eq!(all.counters().now().resumed, 2);
    assert_eq!(proxy.count("POST", PATCH), 1, "it is the same upload");
    assert_eq!(proxy.count("PATCH", PATCH), 3);
}

#[test]
fn an_upload_that_the_registry_forgets_begins_anew_with_what_is_kept() {
    let server = Registry::start();
    // This registry loses an upload whose request is interrupted.
    let cut = Fault::always(What::CutRequest(3_000_000)).method("PATCH");
    let proxy = Proxy::start(&server.address(), vec![cut.times(2)]);
    let all = plain(&proxy.address(), "");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    let bytes = pattern(7 << 20);
    let (digest, _) = send(&to, None, &bytes).unwrap();
    same(&std::fs::read(server.blob(&digest.to_string()).unwrap()).unwrap(), &bytes);
    assert_eq!((all.counters().now().resumed, proxy.count("POST", PATCH)), (2, 3));
}

#[test]
fn more_than_is_kept_is_asked_for_again() {
    let server = Registry::start();
    // The upload is lost after a while. Then all of its bytes are needed again, which are more than are kept.
    let gone = Fault::always(What::Answer(404, String::new(), vec![])).path(PATCH).method("GET").times(1);
    let cut = Fault::always(What::CutRequest(14 << 20)).method("PATCH").times(1);
    let proxy = Proxy::start(&server.address(), vec![cut, gone]);
    let to = plain(&proxy.address(), "").open(&remote(&proxy.address(), "os")).unwrap();
    let bytes = pattern(24 << 20);
    let mut writer = to.begin(None).unwrap();
    let e = writer.write_all(&bytes).and_then(|()| writer.arrive().map_err(Into::into)).unwrap_err();
    assert!(e.to_string().contains("the rest must be sent again"), "{e}");
    assert!(writer.write_all(b"more").is_err(), "not before it is said where");
    let at = writer.rewind().unwrap().unwrap();
    assert_eq!(at, 0);
    writer.write_all(&bytes[at as usize..]).unwrap();
    let (digest, size) = writer.finish().unwrap();
    assert_eq!((digest, size), (Digest::of(&bytes), bytes.len() as u64), "hashed once, not twice");
    same(&std::fs::read(server.blob(&digest.to_string()).unwrap()).unwrap(), &bytes);
}

#[test]
fn chunks_are_sent_where_no_stream_is_taken() {
    let server = Registry::start();
    // The registry refuses bodies without a length, and then states the minimum length of a chunk.
    let refuse = Fault::always(What::Answer(411, String::new(), vec![])).method("PATCH").times(1);
    let least = Fault::always(What::Header("OCI-Chunk-Min-Length: 9000000\r\n".into())).method("POST");
    let proxy = Proxy::start(&server.address(), vec![refuse, least]);
    let all = plain(&proxy.address(), "");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    let bytes = pattern(20 << 20);
    let (digest, _) = send(&to, None, &bytes).unwrap();
    same(&std::fs::read(server.blob(&digest.to_string()).unwrap()).unwrap(), &bytes);
    let patches = proxy.requests().into_iter().filter(|request| request.method == "PATCH");
    let ranges: Vec<_> =
        patches.filter_map(|request| request.header("content-range").map(str::to_owned)).collect();
    assert_eq!(ranges, ["0-8999999", "9000000-17999999", "18000000-20971519"]);
    // The second blob does not try to stream again, and an interrupted chunk is sent again.
    let cut = Fault::always(What::CutRequest(3_000_000)).method("PATCH").times(2);
    proxy.set(vec![cut]);
    let other = pattern(9 << 20).into_iter().map(|byte| !byte).collect::<Vec<u8>>();
    let (digest, _) = send(&to, None, &other).unwrap();
    same(&std::fs::read(server.blob(&digest.to_string()).unwrap()).unwrap(), &other);
    assert!(proxy.requests().iter().all(|request| request.header("transfer-encoding").is_none()
        || request.method != "PATCH"
        || request.header("content-range").is_none()));
}

#[test]
fn a_registry_that_takes_only_whole_blobs_wants_the_digest_first() {
    let server = Registry::start();
    let proxy = Proxy::start(&server.address(), vec![]);
    let to = plain(&proxy.address(), "upload = \"whole\"").open(&remote(&proxy.address(), "os")).unwrap();
    let e = to.begin(None).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.to_string().contains("spool the blob"), "{e}");
    let bytes = pattern(LARGE);
    let part = descriptor(IMAGE_LAYER_MEDIA_TYPE, &bytes);
    proxy.set(vec![Fault::always(What::CutRequest(1_000_000)).method("PUT").times(1)]);
    send(&to, Some(&part), &bytes).unwrap();
    assert_eq!(send(&to, Some(&part), &bytes).unwrap().0, Digest::of(&bytes));
    same(&fetch(&to, &part).unwrap(), &bytes);
    assert_eq!(proxy.count("PATCH", PATCH), 0);
}

#[test]
fn that_only_whole_blobs_are_taken_is_found_out() {
    let server = Registry::start();
    let proxy = Proxy::start(
        &server.address(),
        vec![Fault::always(What::Answer(405, String::new(), vec![])).method("PATCH")],
    );
    let all = plain(&proxy.address(), "");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    let bytes = pattern(LARGE);
    let part = descriptor(IMAGE_LAYER_MEDIA_TYPE, &bytes);
    send(&to, Some(&part), &bytes).unwrap();
    same(&std::fs::read(server.blob(&part.digest).unwrap()).unwrap(), &bytes);
    assert_eq!(proxy.count("PATCH", PATCH), 2, "a stream, and a chunk");
    send(&to, Some(&descriptor(IMAGE_LAYER_MEDIA_TYPE, b"other")), b"other").unwrap();
    assert_eq!(proxy.count("PATCH", PATCH), 2, "now it is known");
    assert_eq!(to.begin(None).err().unwrap().kind(), ErrorKind::Usage);
    // Without a known digest the only result can be an error.
    let anew = all.open(&remote(&proxy.address(), "os")).unwrap();
    let e = send(&anew, None, b"new").unwrap_err();
    assert!(e.kind() == ErrorKind::Usage && e.to_string().contains("spool the blob"), "{e:?}");
    assert_eq!(server.uploads("os"), 0);
}

#[test]
fn trouble_that_passes_is_waited_for_and_trouble_that_does_not_is_told() {
    let server = Registry::start();
    let busy = Fault::always(What::Answer(429, "Retry-After: 0\r\n".into(), vec![])).times(1);
    let proxy = Proxy::start(&server.address(), vec![]);
    let all = plain(&proxy.address(), "");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    let image = Image::new(1000, 9);
    for method in ["HEAD", "POST", "PATCH", "PUT"] {
        proxy.set(vec![busy.clone().method(method)]);
        to.has(&image.layer_part()).unwrap();
        image.push(&to, method).unwrap();
        assert_eq!(to.document(&tag(method)).unwrap().digest, image.manifest.digest);
    }
    assert_eq!(all.counters().now().retries, 4);
    proxy.set(vec![Fault::always(What::Answer(403, String::new(), vec![])).method("POST")]);
    let e = send(&to, None, b"x").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth);
    // The digest that the registry reports must be the sent one.
    let lie = format!("Docker-Content-Digest: {}\r\n", Digest::of(b"lie"));
    proxy.set(vec![Fault::always(What::Answer(201, lie, vec![])).method("PUT").path("/manifests/")]);
    let e = to.put(&image.manifest, Some("x")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
}
