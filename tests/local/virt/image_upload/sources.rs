//! Sources of the bytes, and addresses that they are sent to.

use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use tests::http::{Authority, Behaviour, Server};
use tests::registry::Registry;

#[test]
fn a_pipe_is_sent_as_it_comes_and_once() {
    let line = "dv d --size=1Gi --image-path=-";
    let story = Story::new(ours());
    story.piped(line, &story.disk).ok();
    assert_eq!(story.proxy.asked(), ["HEAD /v1beta1/upload-async", "POST /v1beta1/upload-async"]);
    story.has_the_disk();

    let story = Story::new(ours());
    story.proxy.answers("POST /v1beta1/upload-async", 503, "busy");
    let said = "error uploading image after 1 retry: unexpected return value 503, busy";
    let ran = story.piped(line, &story.disk).refused(1, said);
    assert!(ran.err.contains("standard input cannot be read again"), "{}", ran.err);
    story.run("dv d --size=1Gi --image-path=/dev/null").refused(3, "a character device");
}

#[test]
fn a_disk_of_a_web_server_is_passed_on_and_gone_on_with() {
    let story = Story::new(ours());
    let server = Server::start(story.disk.clone(), Behaviour::default());
    story.proxy.cuts(&[100_000]);
    let url = server.url("/disk.img");
    let ran = story.run(&format!("dv d --size=1Gi --image-path={url}")).ok();
    assert!(out(&ran).ends_with(&format!("Uploading {url} completed successfully\n")), "{}", out(&ran));
    story.has_the_disk();
    story.server().forgets(PVC);
    let none = server.url("/none").replace("http://", "ftp://");
    story.run(&format!("dv d --size=1Gi --image-path={none}")).refused(2, "ftp:// names are not supported");
}

#[test]
fn a_certificate_that_nobody_knows_is_accepted_when_that_is_said() {
    let authority = Authority::new();
    let story = Story::with(UploadProxy::start_tls(ours(), &authority), pattern(300_000));
    // The error comes at once: an untrusted certificate will not be trusted the next time.
    let line = "dv d --size=1Gi --image-path=disk.img";
    let ran = story.run(line).refused(3, "error uploading image after 1 retry: https://127.0.0.1:");
    assert!(ran.err.contains("--insecure accepts any"), "{}", ran.err);
    assert!(story.proxy.asked().is_empty());
    story.run(&format!("{line} --insecure")).ok();
    story.has_the_disk();
}

#[test]
fn a_sparse_disk_is_sent_without_its_holes_and_goes_on_so() {
    let story = Story::new(ours());
    // A disk of 10 GiB with 20 pieces of 1 MiB of data.
    let path = story.cluster.place.path("sparse.img");
    let file = File::create(&path).unwrap();
    file.set_len(10 << 30).unwrap();
    let piece = pattern(1 << 20);
    for number in 0..20 {
        file.write_all_at(&piece, number * (511 << 20) + 4096).unwrap();
    }
    drop(file);
    story.proxy.cuts(&[7_000_001]);
    let ran = story.run("dv d --image-path=sparse.img").ok();
    assert!(ran.err.contains("the volume gets the size of the disk, 10Gi"), "{}", ran.err);
    let made = body(&story.server().asked(), &format!("POST {DVS}"));
    assert_eq!(made["spec"]["storage"]["resources"]["requests"]["storage"], "10Gi");
    let taken = story.proxy.taken();
    assert!(taken < 25 << 20, "{taken} bytes were sent");
    let asked = story.proxy.asked();
    assert_eq!(asked[3], "PATCH /v1beta1/upload-tus/0123.abc @7000001", "{asked:?}");
    // QEMU reads the same disk, and finds no fault in it.
    let sent = story.cluster.place.path("sent.qcow2");
    std::fs::write(&sent, &story.proxy.uploads()[0]).unwrap();
    for args in [&["check", "-f", "qcow2"][..], &["compare", "-f", "raw", "-F", "qcow2"]] {
        let mut command = Command::new("qemu-img");
        command.args(args);
        if args[0] == "compare" {
            command.arg(&path);
        }
        let ran = command.arg(&sent).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stdout));
    }
    // Upstream's server gets the disk unchanged.
    let story = Story::new(upstream());
    let file = File::create(story.cluster.place.path("sparse.img")).unwrap();
    file.set_len(8 << 20).unwrap();
    story.run("dv d --image-path=sparse.img").ok();
    assert!(story.proxy.uploads() == [vec![0; 8 << 20]]);
}

#[test]
fn a_disk_that_changes_while_it_is_sent_does_not_go_on() {
    let story = Story::new(ours());
    story.proxy.cuts(&[100_000]);
    let path = story.cluster.place.path("disk.img");
    // The source changes after the break, before the next attempt.
    story.proxy.when_cut(move || {
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"other", 0).unwrap();
    });
    let ran = story.run("dv d --size=1Gi --image-path=disk.img").refused(1, "was changed while it was read");
    assert!(story.proxy.uploads().is_empty(), "{}", ran.err);
}

#[test]
fn the_size_of_a_volume_is_that_of_the_disk_where_it_can_be_known() {
    let story = Story::new(ours());
    // The last flag wins: 300,000 bytes become 1 MiB.
    story.run("dv d --image-path=disk.img").ok();
    let made = body(&story.server().asked(), &format!("POST {DVS}"));
    assert_eq!(made["spec"]["storage"]["resources"]["requests"]["storage"], "1Mi");
    let server = Server::start(story.disk.clone(), Behaviour::default());
    story.server().forgets(PVC);
    story.run(&format!("dv d --image-path={}", server.url("/disk.img"))).ok();
    let made = body(&story.server().asked(), &format!("POST {DVS}"));
    assert_eq!(made["spec"]["storage"]["resources"]["requests"]["storage"], "1Mi");
    // The size of a pipe is not known, and a refused disk has none.
    story.server().forgets(PVC);
    story.piped("dv d --image-path=-", b"x").refused(2, "the size must be specified");
    std::fs::write(story.cluster.place.path("d.vmdk"), [&b"KDMV"[..], &[0; 1000]].concat()).unwrap();
    story.run("dv d --image-path=d.vmdk").refused(2, "--size sets the size of the volume");
    story
        .run("dv d --image-path=disk.img --access-mode=RWX --size=1Gi")
        .refused(2, "say --access-mode=ReadWriteMany");
    story.run("dv d --image-path=disk.img --size=10GB").refused(2, "write 10Gi or 10G");
}

#[test]
fn the_disk_of_an_image_in_a_registry_is_sent() {
    let story = Story::new(ours());
    let registry = Registry::start();
    let name = format!("docker://{}/disk:1", registry.address());
    let build = |args: &[&str]| {
        let ran = story.cluster.place.command(args).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    build(&["build", "--format", "raw", "-t", &name, "disk.img"]);
    story.run(&format!("dv d --size=1Gi --image-path={name}")).ok();
    // A disk in an image has whole sectors.
    let uploads = story.proxy.uploads();
    assert_eq!((uploads.len(), uploads[0].len()), (1, story.disk.len().next_multiple_of(512)));
    assert!(uploads[0].starts_with(&story.disk));
}
