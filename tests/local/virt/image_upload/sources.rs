//! Where the bytes come from, and to whom they go.

use super::*;
use tests::http::{Authority, Behaviour, Server};

#[test]
fn a_pipe_is_sent_as_it_comes_and_once() {
    let line = "dv d --size=1Gi --image-path=-";
    let story = Story::new(ours());
    story.piped(line, &story.disk).ok();
    assert_eq!(story.proxy.asked(), ["HEAD /v1beta1/upload-async", "POST /v1beta1/upload-async"]);
    story.has_the_disk();

    let story = Story::new(ours());
    story.proxy.answers("POST /v1beta1/upload-async", 503, "busy");
    let said = "error uploading image after 1 retries: unexpected return value 503, busy";
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
    let line = "dv d --size=1Gi --image-path=disk.img --retry=1";
    let ran = story.run(line).refused(1, "error uploading image after 1 retries: https://127.0.0.1:");
    assert!(ran.err.contains("--insecure accepts any"), "{}", ran.err);
    assert!(story.proxy.asked().is_empty());
    story.run(&format!("{line} --insecure")).ok();
    story.has_the_disk();
}
