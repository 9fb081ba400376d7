//! Failures of a keeper: after one event, nothing that failed is tried a second time.

use super::*;
use api::launcher::{Answer, Denial, DenialReason, Life};

/// A keeper that handles events one by one.
fn keeper(server: &Server, place: &Path, pod: Arc<Pod>) -> Keeper<Server> {
    let node = Node {
        cluster: server.clone(),
        pods: Pods::played(place),
        findings: place.join("none"),
        launchers: Launchers::default(),
        address: None,
    };
    let facts = Facts::new(&node.pods, input(server), pod).unwrap();
    Keeper { facts, state: LiveState::default(), effects: Effects::new(Arc::new(node)) }
}

fn input(server: &Server) -> KeeperInput {
    let object = Arc::new(server.object.borrow().clone());
    KeeperInput { object, pod: None, permitted: Permitted::NotKnown, role: Role::Guest }
}

/// The watch is behind: a second write would come too late as well.
#[tokio::test]
async fn a_write_that_came_too_late_is_tried_again_after_a_pause_only() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::new(vmi());
    // The keeper has to report that this pod is not a launcher pod.
    let pod = Arc::new(Pod::read(&json!({"metadata": {"uid": "pod-uid"}})).unwrap());
    let mut keeper = keeper(&server, place.path(), pod);
    let writes = || (*server.conflicts.lock().unwrap(), *server.writes.lock().unwrap());
    server.object.send_modify(|object| object["metadata"]["resourceVersion"] = json!("2"));
    keeper.handle(KeeperEvent::Changed).await;
    assert_eq!(writes(), (1, 0));
    assert!(keeper.effects.retry.at.is_some());
    keeper.facts.update(input(&server));
    keeper.handle(KeeperEvent::Changed).await;
    assert_eq!(writes(), (1, 1));
    assert!(server.status("conditions").to_string().contains("is not a launcher pod"));
}

/// A deleted VMI is not left to run because its launcher was busy once.
#[tokio::test]
async fn a_request_that_was_denied_is_sent_again_after_a_pause_only() {
    let place = tempfile::tempdir().unwrap();
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:30Z");
    let server = Server::new(object);
    let launcher = Fake::new();
    launcher.is(Life::Running);
    let busy = Answer::Denied(Denial::new(DenialReason::TooManyRequests, &[&16]));
    *launcher.refuses.lock().unwrap() = vec![(200, json!(busy))];
    let _listening = launcher.listen(place.path());
    let mut keeper = keeper(&server, place.path(), pod());
    keeper.handle(KeeperEvent::Changed).await;
    assert_eq!(launcher.told().len(), 1, "{:?}", launcher.told());
    assert!(keeper.effects.retry.at.is_some() && keeper.state.connection().is_some());
    let signaled = || server.events.lock().unwrap().iter().filter(|event| *event == "ShuttingDown").count();
    assert_eq!(signaled(), 0, "the guest was not asked");
    keeper.handle(KeeperEvent::Changed).await;
    assert_eq!((launcher.told().len(), signaled()), (2, 1), "{:?}", launcher.told());
}

#[tokio::test]
async fn a_request_that_failed_is_sent_again_after_a_pause_only() {
    let place = tempfile::tempdir().unwrap();
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:30Z");
    let server = Server::new(object);
    let launcher = Fake::new();
    launcher.is(Life::Running);
    *launcher.refuses.lock().unwrap() = vec![(500, json!({"error": "busy"})); 3];
    let _listening = launcher.listen(place.path());
    let mut keeper = keeper(&server, place.path(), pod());
    keeper.handle(KeeperEvent::Changed).await;
    assert_eq!(launcher.told().len(), 1, "{:?}", launcher.told());
    assert!(keeper.effects.retry.at.is_some() && keeper.state.connection().is_some());
    keeper.handle(KeeperEvent::Changed).await;
    assert_eq!(launcher.told().len(), 2, "{:?}", launcher.told());
}
