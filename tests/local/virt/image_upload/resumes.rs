//! Uploads that break off: the offset at which they resume, the number of attempts, and their tokens.

use super::*;
use std::fs::File;

const LINE: &str = "dv d --size=1Gi --image-path=disk.img";
const CREATE: &str = "POST /v1beta1/upload-tus";
const HEAD: &str = "HEAD /v1beta1/upload-tus/0123.abc";

fn patch(offset: u64) -> String {
    format!("PATCH /v1beta1/upload-tus/0123.abc @{offset}")
}

#[test]
fn an_upload_goes_on_behind_the_last_byte_that_the_server_has() {
    let story = Story::new(ours());
    story.proxy.cuts(&[100_000, 1, 50_000]);
    let ran = story.run(&format!("{LINE} --retry=2")).ok();
    let asked = [
        CREATE.to_owned(),
        patch(0),
        HEAD.to_owned(),
        patch(100_000),
        HEAD.to_owned(),
        patch(100_001),
        HEAD.to_owned(),
        patch(150_001),
    ];
    assert_eq!(story.proxy.asked(), asked);
    assert_eq!(story.proxy.taken(), 300_000, "no byte is sent twice but those on their way");
    assert!(ran.err.contains("coracle: the upload broke off after "), "{}", ran.err);
    assert!(ran.err.contains("(1 of 2 attempts)") && !ran.err.contains("(2 of 2"), "{}", ran.err);
    story.has_the_disk();
}

#[test]
fn a_new_pod_that_has_nothing_is_sent_everything() {
    let story = Story::new(ours());
    story.proxy.cuts(&[100_000]);
    story.proxy.answers(HEAD, 404, "");
    story.run(LINE).ok();
    let asked = [CREATE.to_owned(), patch(0), HEAD.to_owned(), CREATE.to_owned(), patch(0)];
    assert_eq!(story.proxy.asked(), asked);
    story.has_the_disk();
}

#[test]
fn another_token_is_asked_for_when_the_first_one_is_over() {
    let story = Story::new(ours());
    story.proxy.cuts(&[100_000]);
    story.proxy.answers(HEAD, 401, "");
    story.server().answers_once(&format!("POST {TOKENS}"), 201, token("old"));
    story.run(LINE).ok();
    assert_eq!(story.proxy.asked(), [CREATE, &patch(0), HEAD, HEAD, &patch(100_000)]);
    let tokens = story.asked().into_iter().filter(|one| *one == format!("POST {TOKENS}")).count();
    assert_eq!(tokens, 2);
    story.has_the_disk();
}

#[test]
fn a_token_that_is_never_good_ends_the_upload_at_once() {
    for manners in [ours(), upstream()] {
        let story = Story::new(Manners { token: Some("another".to_owned()), ..manners });
        let said = "authentication failed: unexpected return value 401, the token is not valid";
        story.run(LINE).refused(5, said);
        let tokens = story.asked().into_iter().filter(|one| *one == format!("POST {TOKENS}")).count();
        assert_eq!(tokens, 1);
        assert!(story.proxy.uploads().is_empty());
    }
    // Later a new token is requested up to three times.
    let story = Story::new(ours());
    story.proxy.cuts(&[100_000]);
    for _ in 0..4 {
        story.proxy.answers(HEAD, 401, "");
    }
    story.run(LINE).refused(5, "authentication failed: unexpected return value 401, ");
    let tokens = story.asked().into_iter().filter(|one| *one == format!("POST {TOKENS}")).count();
    assert_eq!(tokens, 4);
}

#[test]
fn attempts_are_counted_and_the_last_answer_is_told() {
    let post = "POST /v1beta1/upload-async";
    let story = Story::new(upstream());
    for _ in 0..2 {
        story.proxy.answers(post, 500, "Saving stream failed: no room\n");
    }
    let said =
        "error uploading image after 2 retries: unexpected return value 500, Saving stream failed: no room";
    story.run(&format!("{LINE} --retry=2")).refused(1, said);
    assert_eq!(story.proxy.asked().iter().filter(|asked| *asked == post).count(), 2);

    story.proxy.answers(post, 503, "another upload of this PVC is in progress");
    story.proxy.cuts(&[7]);
    let ran = story.run(&format!("{LINE} --retry=3")).ok();
    assert!(
        ran.err.contains("(1 of 3 attempts): unexpected return value 503, another upload"),
        "{}",
        ran.err
    );
    assert_eq!(story.proxy.asked().iter().filter(|asked| *asked == post).count(), 3);
    story.has_the_disk();
}

#[test]
fn what_no_attempt_can_mend_is_told_at_once_and_no_further_byte_is_sent() {
    let story = Story::new(upstream());
    // A sparse file is large and takes no space.
    let size = 1 << 30;
    File::create(story.cluster.place.path("large.img")).unwrap().set_len(size).unwrap();
    story.proxy.answers_at_once("POST /v1beta1/upload-async", 413, "too large");
    let ran = story.run("dv d --size=2Gi --image-path=large.img");
    let ran = ran.refused(3, "error uploading image after 1 retry: unexpected return value 413, too large");
    assert!(ran.err.contains("perhaps an Ingress"), "{}", ran.err);
    assert!(story.proxy.taken() < size, "{}", story.proxy.taken());

    let small = "effective image size is larger than the reported available storage";
    story.proxy.answers("POST /v1beta1/upload-async", 400, small);
    story.run(LINE).refused(3, small).refused(3, "a larger --size");
}

#[test]
fn a_disk_that_is_whole_although_its_answer_was_lost_is_no_failure() {
    let story = Story::new(upstream());
    story.server().answers_once(&format!("GET {DV}"), 200, data_volume("UploadReady").to_string());
    story.server().has(DV, &data_volume("Succeeded"));
    let server = story.server().clone();
    server.answers_once(&format!("GET {PVC}"), 404, "{}");
    server.has(PVC, &filled());
    story.proxy.answers("POST /v1beta1/upload-async", 409, "this PVC has its disk already");
    story.run(LINE).ok();
}

#[test]
fn no_attempt_uploads_nothing_and_waits_for_the_disk() {
    let story = Story::new(upstream());
    story.server().answers_once(&format!("GET {PVC}"), 404, "{}");
    story.server().has(PVC, &filled());
    let ran = story.run(&format!("{LINE} --retry=0")).ok();
    assert!(story.proxy.asked().is_empty());
    assert!(ran.err.contains("--retry=0 sends nothing"), "{}", ran.err);
    assert!(!out(&ran).contains("Uploading"), "{}", out(&ran));
}

#[test]
fn a_disk_that_a_server_of_ours_refuses_is_not_sent_again() {
    let story = Story::new(ours());
    let why = "Saving stream failed: vmdk is not supported";
    story.proxy.refuses("PATCH", 500, why, "InvalidImage");
    let said = format!("error uploading image after 1 retry: unexpected return value 500, {why}");
    story.run(LINE).refused(3, &said);
    assert_eq!(story.proxy.asked(), [CREATE.to_owned(), patch(0)]);
}

#[test]
fn a_volume_that_nobody_asked_for_is_asked_for_by_the_second_command() {
    let story = Story::new(ours());
    let there = json!({
        "metadata": {"name": "d", "annotations": {"cdi.kubevirt.io/storage.upload.target": ""}},
        "status": {"phase": "Pending"},
    });
    story.server().answers_once(&format!("GET {PVC}"), 200, there.to_string());
    story.server().answers(&format!("PATCH {DV}"), 200, "{}");
    let ran = story.run(&format!("{LINE} --force-bind")).ok();
    assert!(ran.err.contains("was made without --force-bind"), "{}", ran.err);
    assert_eq!(
        body(&story.server().asked(), &format!("PATCH {DV}")),
        json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}}})
    );
    story.has_the_disk();
}
