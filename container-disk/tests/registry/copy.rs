//! Copies from one registry to another.

use crate::work::{Image, LARGE, example, fetch, index, mirrored, open, registries, same, tag};
use container_disk::ErrorKind;
use container_disk::place::{Place, Sink};
use container_disk::reference::Remote;
use container_disk::registry::copy::{Options, Progress, copy};
use std::sync::atomic::Ordering::Relaxed;
use tests::faults::{Fault, Proxy, What};
use tests::registry::Registry;

#[test]
fn all_architectures_or_one_are_copied_byte_for_byte() {
    let (server, target) = (Registry::start(), Registry::start());
    let (amd, arm) = (Image::new(LARGE, 1), Image::new(LARGE / 2, 2));
    let from = open(&server.address(), "os");
    amd.push(&from, "amd").unwrap();
    arm.push(&from, "arm").unwrap();
    let both = index(&[("amd64", &amd), ("arm64", &arm)]);
    from.put(&both, Some("1")).unwrap();

    let to = open(&target.address(), "other/os");
    let progress = Progress::default();
    let copied = copy(&from, &tag("1"), &to, Some("copy"), &Options::default(), &progress).unwrap();
    assert_eq!((copied.digest, copied.moved, copied.there), (both.digest, 4, 0));
    assert_eq!(to.document(&tag("copy")).unwrap().bytes, both.bytes);
    for image in [&amd, &arm] {
        same(&fetch(&to, &image.layer_part()).unwrap(), &image.layer);
    }
    let total = progress.total.load(Relaxed);
    assert_eq!((progress.done.load(Relaxed), copied.bytes), (total, total));

    // A second copy transfers nothing.
    let again =
        copy(&from, &tag("1"), &to, Some("again"), &Options::default(), &Progress::default()).unwrap();
    assert_eq!((again.moved, again.there, again.bytes), (0, 4, 0));

    // The image of one architecture keeps its own digest.
    let one = open(&target.address(), "one");
    let options = Options { arch: Some("arm64".into()), ..Options::default() };
    let copied = copy(&from, &tag("1"), &one, Some("1"), &options, &Progress::default()).unwrap();
    assert_eq!((copied.digest, copied.moved), (arm.manifest.digest, 2));
    let options = Options { arch: Some("riscv64".into()), ..Options::default() };
    let e = copy(&from, &tag("1"), &one, Some("1"), &options, &Progress::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("it has amd64, arm64"), "{e}");
}

#[test]
fn within_a_registry_blobs_are_mounted() {
    let server = Registry::start();
    let image = Image::new(LARGE, 3);
    let all = registries("");
    let name = |repository: &str| Remote::parse(&format!("{}/{repository}", server.address())).unwrap();
    let (from, to) = (all.open(&name("one")).unwrap(), all.open(&name("two")).unwrap());
    image.push(&from, "1").unwrap();
    let sent = all.counters().now().sent;
    to.mount_from(&name("one"));
    let copied = copy(&from, &tag("1"), &to, Some("1"), &Options::default(), &Progress::default()).unwrap();
    assert_eq!((copied.moved, copied.there), (0, 2));
    assert_eq!(all.counters().now().sent, sent, "not a byte moves");
}

#[test]
fn trouble_on_both_sides_is_overcome() {
    let (first, second, target) = (Registry::start(), Registry::start(), Registry::start());
    let image = Image::new(24 << 20, 4);
    image.push(&open(&first.address(), "r"), "1").unwrap();
    image.push(&open(&second.address(), "r"), "1").unwrap();
    // The first source sends a wrong byte late. The upload is interrupted, and all of it is lost.
    let source = Proxy::start(&first.address(), vec![Fault::blobs(What::Corrupt(20 << 20))]);
    let gone = Fault::always(What::Answer(404, String::new(), vec![]))
        .path("/blobs/uploads/")
        .method("GET")
        .times(1);
    let cut = Fault::always(What::CutRequest(14 << 20)).method("PATCH").times(1);
    let sink = Proxy::start(&target.address(), vec![cut, gone]);
    let from = example(&mirrored(&[source.address(), second.address()], ""));
    let to = open(&sink.address(), "r");
    let progress = Progress::default();
    let copied = copy(&from, &tag("1"), &to, Some("1"), &Options::default(), &progress).unwrap();
    assert_eq!(copied.digest, image.manifest.digest);
    same(&std::fs::read(target.blob(&image.layer_part().digest).unwrap()).unwrap(), &image.layer);
    assert_eq!(progress.done.load(Relaxed), progress.total.load(Relaxed));
    // A request that is interrupted may leave an upload that this registry itself cannot find any more.
    assert!(target.uploads("r") <= 1);
}

#[test]
fn blobs_are_on_their_way_at_the_same_time() {
    let (server, target) = (Registry::start(), Registry::start());
    let image = Image::new(1000, 6);
    image.push(&open(&server.address(), "r"), "1").unwrap();
    // The config is answered only once the layer is requested as well.
    let proxy = Proxy::start(&server.address(), vec![Fault::blobs(What::Together(2))]);
    let from = example(&mirrored(&[proxy.address()], ""));
    let to = open(&target.address(), "r");
    copy(&from, &tag("1"), &to, Some("1"), &Options::default(), &Progress::default()).unwrap();
    assert_eq!(proxy.count("GET", "/blobs/"), 2, "neither was asked for twice");
}

#[test]
fn wrong_bytes_from_everywhere_leave_nothing_behind() {
    let (server, target) = (Registry::start(), Registry::start());
    let image = Image::new(LARGE, 5);
    image.push(&open(&server.address(), "r"), "1").unwrap();
    let proxy = Proxy::start(&server.address(), vec![Fault::blobs(What::Corrupt(LARGE as u64 - 1))]);
    let from = example(&mirrored(&[proxy.address()], ""));
    let to = open(&target.address(), "r");
    let e = copy(&from, &tag("1"), &to, Some("1"), &Options::default(), &Progress::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(target.blob(&image.layer_part().digest).is_none());
    assert_eq!(target.uploads("r"), 0);
    assert_eq!(to.document(&tag("1")).unwrap_err().kind(), ErrorKind::NotFound);
}
