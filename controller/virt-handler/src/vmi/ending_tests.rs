//! Ends of VMIs while virt-handler was away, stops during a restart of virt-handler, and nodes that cannot
//! take a VMI now.

use super::*;
use api::launcher::{Ending, Life};

/// A pod whose launcher has ended, with this termination message.
fn ended(code: i64, message: &str) -> Arc<Pod> {
    let mut pod = (*pod()).clone();
    let end = json!({"terminated": {"exitCode": code, "reason": "Completed", "message": message}});
    let said = json!({"status": {"containerStatuses": [{"name": "compute", "state": end}]}});
    pod.status = Pod::read(&said).unwrap().status;
    Arc::new(pod)
}

fn left(life: Life, reason: &str, message: &str) -> String {
    Ending { life, reason: Some(reason.into()), message: Some(message.into()) }.termination()
}

fn running() -> Value {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    object
}

fn ends(object: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&object["status"]["phase"].as_str().unwrap_or_default())
}

/// The launcher shut its VM down while virt-handler was away; the kubelet has removed the folders of the pod since.
#[tokio::test]
async fn a_shutdown_while_nobody_listened_is_read_from_the_pod() {
    for (message, phase, said) in [
        (left(Life::Succeeded, "Shutdown", "the guest shut down"), "Succeeded", ""),
        (left(Life::Failed, "GuestPanicked", "the guest panicked"), "Failed", "the guest panicked"),
        (
            "panicked at \u{1b}".to_owned(),
            "Failed",
            "the launcher ended before the VMI did: Completed, exit code 0",
        ),
    ] {
        let scene = Scene::of(running());
        scene.wanted.send_modify(|wanted| wanted.pod = Some(ended(0, &message)));
        let object = scene.server.until("an end", ends).await;
        assert_eq!(object["status"]["phase"], phase, "{message}");
        let conditions = object["status"]["conditions"].to_string();
        assert!(conditions.contains(said), "{conditions}");
    }
}

/// The socket is removed first, and the kubelet's report comes a moment later.
#[tokio::test]
async fn a_launcher_that_is_gone_without_a_word_is_judged_by_what_the_kubelet_has_of_it() {
    let scene = Scene::of(running());
    scene.launcher.is(Life::Running);
    let listening = scene.launcher.listen(scene.place.path());
    scene.server.until("a target", |object| object["status"]["volumeStatus"][0]["target"] == "vda").await;
    listening.abort();
    // Its last state was never reported: the connection is gone.
    drop(listening.await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(scene.server.status("phase"), "Running", "nothing says how it ended");
    let message = left(Life::Succeeded, "Shutdown", "the guest shut down");
    scene.wanted.send_modify(|wanted| wanted.pod = Some(ended(0, &message)));
    let object = scene.server.until("an end", ends).await;
    assert_eq!(object["status"]["phase"], "Succeeded");
}

/// A busy kubelet may report the end of a container later than its socket is removed. Until then QEMU may
/// run.
#[tokio::test]
async fn a_vmi_whose_launcher_is_silent_has_not_ended_before_the_kubelet_says_so() {
    for (message, phase) in
        [(left(Life::Succeeded, "Shutdown", "the guest shut down"), "Succeeded"), (String::new(), "Failed")]
    {
        let scene = Scene::of(running());
        scene.launcher.is(Life::Running);
        let listening = scene.launcher.listen(scene.place.path());
        scene.server.until("a target", |object| object["status"]["volumeStatus"][0]["target"] == "vda").await;
        listening.abort();
        drop(listening.await);
        // Far below the limit, and longer than an earlier version of virt-handler waited.
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(scene.server.status("phase"), "Running", "the kubelet has not said that it ended");
        scene.wanted.send_modify(|wanted| wanted.pod = Some(ended(0, &message)));
        let object = scene.server.until("an end", ends).await;
        assert_eq!(object["status"]["phase"], phase, "{message}");
    }
}

#[tokio::test]
async fn a_launcher_that_began_anew_is_not_handed_a_vmi_that_ran() {
    let scene = Scene::of(running());
    let _listening = scene.launcher.listen(scene.place.path());
    let object = scene.server.until("an end", ends).await;
    assert_eq!(object["status"]["phase"], "Failed");
    let conditions = object["status"]["conditions"].to_string();
    assert!(conditions.contains("the launcher began anew"), "{conditions}");
    assert_eq!(scene.launcher.told(), Vec::<Value>::new());
}

/// A forced stop shortens the grace period. A new virt-handler does not know what the earlier one sent.
#[tokio::test]
async fn a_forced_stop_is_told_by_a_virt_handler_that_was_restarted() {
    for (says, told) in [(None, 1), (Some(900), 1), (Some(0), 0)] {
        let mut object = running();
        object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:30Z");
        object["spec"]["terminationGracePeriodSeconds"] = json!(0);
        let scene = Scene::of(object);
        scene.launcher.state.send_modify(|state| state.grace = says);
        scene.launcher.is(Life::Stopping);
        let _listening = scene.launcher.listen(scene.place.path());
        scene.server.until("a target", |object| object["status"]["volumeStatus"][0]["target"] == "vda").await;
        // Later requests come after everything that was to be done.
        scene.launcher.state.send_modify(|state| (state.agent, state.number) = (true, state.number + 1));
        let connected =
            |object: &Value| object["status"]["conditions"].to_string().contains("AgentConnected");
        scene.server.until("the guest agent", connected).await;
        let forced = json!({"request": "shutdown", "grace": 0});
        let all = scene.launcher.told();
        assert_eq!(all, vec![forced; told], "{says:?}");
    }
}

/// The full grace period is sent, however long ago the deletion was requested.
#[tokio::test]
async fn a_stop_that_virt_handler_was_late_for_asks_the_guest() {
    let mut object = running();
    object["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    object["spec"]["terminationGracePeriodSeconds"] = json!(180);
    let scene = Scene::of(object);
    scene.launcher.is(Life::Running);
    let _listening = scene.launcher.listen(scene.place.path());
    let mut state = scene.launcher.state.subscribe();
    timeout(Duration::from_secs(60), state.wait_for(|state| state.life == Life::Stopping))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(scene.launcher.told(), [json!({"request": "shutdown", "grace": 180})]);
}

#[tokio::test]
async fn a_vmi_waits_for_a_node_that_is_full_and_runs_once_there_is_room() {
    let full = json!({"error": "cannot keep the VM in /r/vm.json: No space left on device (os error 28)"});
    let denied = (200, json!({"answer": "denied", "reason": "generation 1 is older than 2"}));
    let scene = Scene::of(vmi());
    // The last one is answered first.
    *scene.launcher.refuses.lock().unwrap() =
        vec![denied, (503, full.clone()), (500, full.clone()), (507, full.clone()), (422, full)];
    let _listening = scene.launcher.listen(scene.place.path());
    let waits = |object: &Value| object["status"]["conditions"].to_string().contains("No space left");
    let object = scene.server.until("a reason", |object| waits(object) || ends(object)).await;
    assert_eq!(object["status"]["phase"], "Scheduled", "a full node ends no VMI");
    scene.server.until("Running", |object| object["status"]["phase"] == "Running" || ends(object)).await;
    assert_eq!(scene.server.status("phase"), "Running");
    assert_eq!(scene.launcher.told().len(), 6);
}

#[tokio::test]
async fn a_vmi_with_faults_has_failed() {
    let fault = json!([{"reason": "FieldValueInvalid", "message": "no such model", "field": "spec.domain.cpu.model"}]);
    let scene = Scene::of(vmi());
    scene.launcher.refuses.lock().unwrap().push((422, json!({"error": "it has a fault", "faults": fault})));
    let _listening = scene.launcher.listen(scene.place.path());
    scene.server.until("an end", ends).await;
    assert_eq!(scene.server.status("phase"), "Failed");
    assert_eq!(scene.launcher.told().len(), 1);
}
