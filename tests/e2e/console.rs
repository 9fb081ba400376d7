//! What a guest says on its serial console is kept where people look for logs.

use crate::tiny;
use std::io::Read as _;
use std::process::Stdio;
use tests::cluster::{Space, until};
use tests::serial::says;

#[test]
fn what_a_guest_says_is_in_the_log_of_a_container() {
    let Some(space) = Space::new("serial") else { return };
    space.apply(&tiny("web", "Once"));
    space.has("vmi/web", "Ready", "True");
    let pod = space.pod_of("web");
    let log = || space.run(&["logs", &pod, "-c", "guest-console-log"]);
    // A prompt, whose line has no end.
    until(|| says(log().as_bytes(), "tiny login:", 1), log);
    // Whoever follows it sees the guest to its end.
    let mut follow =
        space.cluster.kubectl(&["-n", &space.name, "logs", "-f", &pod, "-c", "guest-console-log"]);
    let mut child = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = child.stdout.take().unwrap();
    let all = std::thread::spawn(move || {
        let mut text = Vec::new();
        lines.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    space.console("web").log_in().power_off();
    until(|| all.is_finished(), || "the log does not end with the guest".into());
    let (all, _) = (all.join().unwrap().unwrap(), child.wait().unwrap());
    assert!(says(all.as_bytes(), "tiny login:", 1) && all.contains("reboot: Power down"), "{all}");
}

#[test]
fn a_guest_that_nobody_listens_to_has_no_such_container() {
    let Some(space) = Space::new("mute") else { return };
    let mute = "        devices:\n          logSerialConsole: false\n";
    space.apply(&tiny("web", "Always").replace("        devices:\n", mute));
    space.has("vmi/web", "Ready", "True");
    assert_eq!(space.get(&format!("pod/{}", space.pod_of("web")), ".spec.containers[*].name"), "compute");
}
