//! Starts that find no room: the VM waits for it, and ends as it is asked to.

use super::{Handle, Parts, drive};
use crate::hypervisor::fake::Fake;
use crate::hypervisor::{Condition, ErrorKind, Hypervisor as _};
use crate::root::Root;
use api::launcher::{Answer, Life, NO_SPACE, Request, Resolved, START_FAILED, State, Sync};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const FULL: &str = "cannot write data to file: No space left on device";

struct Scene {
    fake: Arc<Fake>,
    handle: Handle,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// A VM whose start fails at these verbs, once each.
    async fn failing(verbs: &[&str]) -> Scene {
        Scene::of(|fake| verbs.iter().for_each(|verb| fake.fail_next(verb, ErrorKind::NoSpace, FULL))).await
    }

    /// A VM whose start fails as the fake is told.
    async fn of(tell: impl FnOnce(&Fake)) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::default());
        tell(&fake);
        let root = Root::open(&folder.path().join("r"), folder.path()).unwrap();
        let lines = crate::console::lines().0;
        let parts = Parts { hypervisor: fake.clone(), root, lines, clock: crate::clock::now };
        let (handle, driver) = drive(parts).unwrap();
        tokio::spawn(driver);
        let scene = Scene { fake, handle, _folder: folder };
        assert_eq!(scene.sync(1).await, Answer::Queued);
        scene
    }

    async fn sync(&self, generation: u64) -> Answer {
        let vmi = json!({
            "metadata": {"name": "vm", "namespace": "default"},
            "spec": {"domain": {
                "memory": {"guest": format!("{}Mi", 63 + generation)},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"autoattachPodInterface": false},
            }},
        });
        self.handle.sync(Sync { vmi, generation, resolved: Resolved::default() }).await.unwrap()
    }

    async fn until(&self, wanted: impl FnMut(&State) -> bool) -> State {
        let mut reader = self.handle.state();
        let state = tokio::time::timeout(Duration::from_secs(60), reader.wait_for(wanted)).await;
        state.expect("a minute is enough").expect("the driver lives").clone()
    }

    async fn waits(&self) -> State {
        self.until(|state| state.reason.as_deref() == Some(NO_SPACE)).await
    }

    /// The calls of these verbs, in their order.
    fn calls(&self, verbs: &[&str]) -> Vec<String> {
        let all = self.fake.conversation();
        let calls = all.iter().filter_map(|line| line.split(' ').next().filter(|verb| verbs.contains(verb)));
        calls.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_start_without_room_is_tried_again_with_the_newest_spec() {
    let scene = Scene::failing(&["define", "line"]).await;
    let state = scene.waits().await;
    assert_eq!((state.life, state.doing.as_deref()), (Life::Preparing, Some("start")));
    let message = state.message.unwrap();
    assert!(message.contains(FULL), "{message}");
    assert!(matches!(scene.sync(2).await, Answer::Ignored { .. }));
    let state = scene.until(|state| state.life == Life::Running).await;
    assert_eq!((state.generation, state.reason, state.message), (2, None, None));
    assert!(scene.fake.definition().contains("68157440"), "65 MiB: {}", scene.fake.definition());
    // What failed behind its start was ended before the next one.
    let calls = scene.calls(&["define", "start", "destroy", "resume"]);
    assert_eq!(calls, ["define", "define", "start", "destroy", "define", "start", "resume"]);
    let lives: Vec<Life> = state.phases.iter().map(|(life, _)| *life).collect();
    assert_eq!(lives, [Life::Preparing, Life::Running]);
}

#[tokio::test]
async fn a_domain_that_runs_is_not_started_a_second_time() {
    let scene = Scene::failing(&["line", "destroy"]).await;
    let state = scene.until(|state| state.life.is_final()).await;
    assert_eq!(state.reason.as_deref(), Some(START_FAILED), "{state:?}");
    assert_eq!(scene.calls(&["start"]), ["start"]);
    // It runs no longer when it is said to have failed.
    assert_eq!(scene.calls(&["destroy"]), ["destroy", "destroy"]);
    assert!(matches!(scene.fake.state("default_vm").unwrap().condition, Condition::Off(_)));
}

/// A thread that panics behind the start of QEMU leaves it.
#[tokio::test]
async fn a_start_that_breaks_off_leaves_no_domain() {
    let scene = Scene::of(|fake| fake.break_next("line")).await;
    let state = scene.until(|state| state.life.is_final()).await;
    assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some(START_FAILED)));
    let message = state.message.unwrap();
    assert!(message.contains("panicked"), "{message}");
    assert!(matches!(scene.fake.state("default_vm").unwrap().condition, Condition::Off(_)));
    assert_eq!(scene.calls(&["start", "destroy"]), ["start", "destroy"]);
}

#[tokio::test]
async fn a_vm_that_waits_for_room_ends_at_once() {
    for request in [Some(Request::Shutdown { grace: None }), Some(Request::Destroy), None] {
        let scene = Scene::failing(&["start"]).await;
        scene.waits().await;
        match request.clone() {
            Some(request) => assert_eq!(scene.handle.request(request).await.unwrap(), Answer::Queued),
            None => scene.handle.end().await,
        }
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some(START_FAILED)), "{request:?}");
        let message = state.message.unwrap();
        assert!(message.starts_with("the VM was stopped before it could start: ") && message.contains(FULL));
        assert_eq!(scene.calls(&["start"]), ["start"]);
        // A launcher that ends waits for no room either.
        scene.handle.end().await;
        let mut reader = scene.handle.state();
        let ends = async { while reader.changed().await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("the launcher ends");
    }
}
