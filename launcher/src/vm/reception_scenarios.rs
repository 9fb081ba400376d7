//! A VM that comes from another launcher, with a hypervisor that receives none.

use super::{NAME, Scene, begin, begin_to_receive, play, sync, vmi};
use crate::hypervisor::fake::Fake;
use crate::hypervisor::{Condition, ErrorKind, Event};
use api::launcher::{Answer, DenialReason, Life, Request, State};
use std::sync::Arc;

/// A launcher that waits for its VM.
async fn receiving() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::default());
    let handle = begin_to_receive(folder.path(), &fake);
    let scene = Scene { fake, handle, folder };
    scene.fake.hang("receive");
    assert_eq!(scene.handle.sync(sync(vmi(|_| {}), 1)).await.unwrap(), Answer::Queued);
    let state = scene.until(|state| state.receives).await;
    assert_eq!((state.life, state.doing.as_deref()), (Life::Preparing, Some("receive")));
    scene
}

fn reason(answer: Answer) -> DenialReason {
    match answer {
        Answer::Denied(denial) => denial.reason(),
        other => panic!("{other:?}"),
    }
}

fn calls(fake: &Fake, verb: &str) -> usize {
    fake.conversation().iter().filter(|call| call.starts_with(verb)).count()
}

fn is_over(state: &State) -> bool {
    state.life.is_final()
}

#[test]
fn a_vm_that_arrives_is_taken_over_as_it_runs() {
    play(async {
        let scene = receiving().await;
        for request in
            [Request::Start, Request::Pause, Request::Shutdown { grace: Some(0) }, Request::Destroy]
        {
            assert_eq!(reason(scene.ask(request).await), DenialReason::Receiving);
        }
        let again = scene.handle.sync(sync(vmi(|_| {}), 1)).await.unwrap();
        assert!(matches!(again, Answer::Ignored { .. }), "{again:?}");
        scene.fake.release("receive");
        let state = scene.until(|state| state.life == Life::Running && state.doing.is_none()).await;
        assert!(!state.receives && state.generation == 1 && state.targets["root"] == "vda", "{state:?}");
        assert!(!scene.folder.path().join("r/migration").exists());
        assert_eq!((calls(&scene.fake, "define"), calls(&scene.fake, "start ")), (0, 0));
        assert_eq!(calls(&scene.fake, "receive default_vm /run/receive"), 1);
        // Its disks are there, and its requests and events are heard.
        assert!(scene.folder.path().join("r/disks/root.qcow2").exists());
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(|state| state.life == Life::Paused).await;
        scene.fake.happen(NAME, &Event::Resumed);
        scene.until(|state| state.life == Life::Running).await;
    });
}

#[test]
fn a_vm_that_does_not_arrive_is_started_by_no_launcher() {
    play(async {
        let scene = receiving().await;
        scene.fake.fail_next("receive", ErrorKind::Failed, "the source stayed");
        scene.fake.release("receive");
        let state = scene.until(is_over).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("NotReceived")));
        assert!(state.message.unwrap().contains("the source stayed"));
        assert_eq!(reason(scene.ask(Request::Start).await), DenialReason::Moved);
        let Scene { fake, handle, folder } = scene;
        drop(handle);
        let scene = Scene { handle: begin(folder.path(), &fake), fake, folder };
        assert_eq!(reason(scene.ask(Request::Start).await), DenialReason::Moved);
        assert_eq!(scene.until(is_over).await.reason.as_deref(), Some("NotReceived"));
        assert_eq!(calls(&scene.fake, "start "), 0);
    });
}

#[test]
fn a_launcher_that_is_killed_while_it_receives_leaves_a_vm_that_is_found_and_never_started() {
    for has_arrived in [false, true] {
        play(async move {
            let Scene { fake, handle, folder } = receiving().await;
            drop(handle);
            // The libvirt of the next launcher.
            let next = Arc::new(Fake::default());
            if has_arrived {
                next.happen(NAME, &Event::Resumed);
            }
            let scene = Scene { handle: begin(folder.path(), &next), fake: next, folder };
            let state = scene.until(|state| is_over(state) || state.life == Life::Running).await;
            if has_arrived {
                assert_eq!((state.life, state.receives), (Life::Running, false));
                assert!(!scene.folder.path().join("r/migration").exists());
            } else {
                assert_eq!(state.reason.as_deref(), Some("MigrationUnknown"));
                assert_eq!(reason(scene.ask(Request::Start).await), DenialReason::Moved);
            }
            assert_eq!(calls(&scene.fake, "start "), 0);
            fake.release("receive");
        });
    }
}

#[test]
fn a_launcher_that_is_to_end_waits_for_no_source() {
    play(async {
        let scene = receiving().await;
        scene.handle.end().await;
        let state = scene.until(is_over).await;
        assert_eq!(state.reason.as_deref(), Some("NotReceived"));
        assert!(state.message.unwrap().contains("it was given up"));
        assert_eq!(scene.fake.condition(NAME), None::<Condition>);
    });
}

#[test]
fn a_part_that_cannot_be_made_is_told_before_a_source_is_waited_for() {
    play(async {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::default());
        let handle = begin_to_receive(folder.path(), &fake);
        let scene = Scene { fake, handle, folder };
        let without_disk = vmi(|vmi| {
            vmi["spec"]["volumes"][0] =
                serde_json::json!({"name": "root", "persistentVolumeClaim": {"claimName": "a"}});
        });
        scene.handle.sync(sync(without_disk, 1)).await.unwrap();
        let state = scene.until(is_over).await;
        assert_eq!(state.reason.as_deref(), Some("NotReceived"));
        assert!(state.message.unwrap().contains("'root'"));
        assert_eq!(calls(&scene.fake, "receive"), 0);
    });
}
