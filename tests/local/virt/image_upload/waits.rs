//! Waits of an upload: their messages, and their ends.

use super::*;
use std::io::{BufRead as _, BufReader, Read};
use std::process::Child;

const LINE: &str = "dv d --size=1Gi --image-path=disk.img";

fn scheduled() -> Value {
    let mut data_volume = data_volume("UploadScheduled");
    data_volume["status"]["conditions"] = json!([
        {"type": "Bound", "status": "True"},
        {"type": "Running", "status": "False", "reason": "ContainerCreating", "message": "pulling the image"},
    ]);
    data_volume
}

const WAITS: &str =
    "DataVolume in phase UploadScheduled; Running False (ContainerCreating): pulling the image";

#[test]
fn the_pod_is_waited_for_with_what_the_data_volume_says() {
    let story = Story::new(upstream());
    story.server().answers_once(&format!("GET {DV}"), 200, scheduled().to_string());
    let ran = story.run(LINE).ok();
    let said = "DataVolume blue/d created\nWaiting for PVC d upload pod to be ready...\nPod now ready\n";
    assert!(out(&ran).contains(said), "{}", out(&ran));
    assert!(ran.err.contains(&format!("coracle: waits: {WAITS}\n")), "{}", ran.err);
    let asked = story.asked();
    let wanted = [
        format!("POST {DVS}"),
        format!("GET {DV}"),
        format!("GET {EVENTS}"),
        format!("GET {PVC}"),
        format!("GET {DV}"),
        format!("GET {DV}"),
        format!("GET {CONFIG}"),
    ];
    assert_eq!(asked[1..8], wanted);
    story.has_the_disk();
}

#[test]
fn a_wait_that_is_over_says_what_it_was_for() {
    let story = Story::new(upstream());
    story.server().has(DV, &scheduled());
    let said = format!(
        "the upload pod of DataVolume d in namespace blue was not ready within 0 s: {WAITS}; \
         'kubectl describe dv d -n blue' shows its events; --wait-secs waits longer"
    );
    let ran = story.run(&format!("{LINE} --wait-secs=0")).refused(1, &said);
    assert!(!ran.err.contains("timed out waiting for the condition"), "{}", ran.err);

    story.server().has(
        PVC,
        &json!({
            "metadata": {"name": "d", "annotations": {
                "cdi.kubevirt.io/storage.upload.target": "",
                "cdi.kubevirt.io/storage.condition.running.reason": "Unschedulable",
                "cdi.kubevirt.io/storage.condition.running.message": "no node has room",
            }},
            "status": {"phase": "Pending"},
        }),
    );
    let said = "PVC in phase Pending (Unschedulable): no node has room";
    story.run("pvc d --image-path=disk.img --wait-secs=0").refused(1, said);
    story.server().forgets(DV);
    story.server().forgets(PVC);
    let ran = story.run(&format!("{LINE} --wait-secs=0")).refused(1, "there is no DataVolume d yet");
    assert!(out(&ran).ends_with("DV d not found... \n"), "{}", out(&ran));
}

#[test]
fn a_volume_that_cannot_come_ends_the_wait() {
    let event = |kind: &str, uid: &str, reason: &str, message: &str| {
        let about = json!({"kind": kind, "uid": uid});
        json!({"items": [{"involvedObject": about, "reason": reason, "message": message}]}).to_string()
    };
    let story = Story::new(upstream());
    let server = story.server();
    server.has(DV, &data_volume("Pending"));
    for (events, said) in [
        (
            event("DataVolume", "v", "ErrClaimNotValid", "no accessMode specified"),
            "Claim not valid: no accessMode specified",
        ),
        (
            event("PersistentVolumeClaim", "p", "ProvisioningFailed", "no room left"),
            "Provisioning failed: no room left",
        ),
    ] {
        server.answers_once(&format!("GET {PVC}"), 404, "{}");
        server.has(PVC, &json!({"metadata": {"name": "d", "uid": "p"}}));
        server.answers("GET /api/v1/namespaces/blue/events", 200, events);
        story.run(LINE).refused(1, said);
        server.forgets(PVC);
    }
    // A user without permission to read Events gets a message, and the upload waits on.
    server.answers(
        "GET /api/v1/namespaces/blue/events",
        403,
        super::super::status(403, "you cannot list events"),
    );
    let ran = story.run(&format!("{LINE} --wait-secs=0")).refused(1, "was not ready within 0 s");
    assert!(ran.err.contains("coracle: Events are not read: you cannot list events"), "{}", ran.err);

    for phase in ["WaitForFirstConsumer", "PendingPopulation"] {
        server.has(DV, &data_volume(phase));
        let said = format!(
            "cannot upload to DataVolume in {phase} phase, make sure the PVC is Bound, or use force-bind flag"
        );
        story.run(LINE).refused(1, &said);
        server.asked();
        story.run(&format!("{LINE} --force-bind --wait-secs=0")).refused(1, "was not ready within 0 s");
        let made = body(&server.asked(), &format!("POST {DVS}"));
        let annotations = json!({"cdi.kubevirt.io/storage.bind.immediate.requested": ""});
        assert_eq!(made["metadata"]["annotations"], annotations);
    }
    server.has(DV, &data_volume("Failed"));
    story.run(LINE).refused(1, "DataVolume in phase Failed");
    assert!(story.proxy.asked().is_empty());
}

#[test]
fn a_disk_that_fails_after_its_last_byte_is_told() {
    let story = Story::new(upstream());
    let server = story.server().clone();
    story.proxy.when_whole(move || {
        let failed = json!({
            "cdi.kubevirt.io/storage.pod.phase": "Failed",
            "cdi.kubevirt.io/storage.condition.running.message": "the image is broken",
        });
        server.has(PVC, &json!({"metadata": {"annotations": failed}, "status": {"phase": "Bound"}}));
    });
    story.run(LINE).refused(1, "PVC in phase Bound; worker pod in phase Failed: the image is broken");
}

fn started(story: &Story) -> Child {
    let words: Vec<&str> = ["image-upload"].into_iter().chain(LINE.split(' ')).collect();
    let mut command = story.cluster.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends Ctrl-C, and returns the message.
fn interrupted(mut child: Child, mut rest: impl Read) -> String {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    said
}

#[test]
fn ctrl_c_leaves_a_sentence_about_what_becomes_of_the_upload() {
    let story = Story::new(upstream());
    story.server().has(DV, &scheduled());
    let mut child = started(&story);
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    assert!(line.contains("coracle: waits: "), "{line}");
    let said = interrupted(child, err);
    let wanted = "coracle: interrupted; DataVolume d in namespace blue has no disk yet: the same command uploads it anew\n";
    assert_eq!(said, wanted);

    // All bytes are sent, and the disk is not complete yet.
    let story = Story::new(upstream());
    let server = story.server().clone();
    story.proxy.when_whole(move || server.has(PVC, &json!({"status": {"phase": "Bound"}})));
    let mut child = started(&story);
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("coracle: waits: PVC in phase Bound") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0, "it ended");
    }
    let said = interrupted(child, err);
    assert!(
        said.contains("coracle: interrupted; all bytes are sent, and the cluster goes on by itself"),
        "{said}"
    );
}
