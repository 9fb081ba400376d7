//! A VM that comes from another launcher, with a hypervisor that receives none.

use super::{NAME, Scene, begin, begin_to_receive, play, sync, vmi};
use crate::hypervisor::fake::Fake;
use crate::hypervisor::{Condition, End, ErrorKind, Event, Pause};
use api::launcher::{Answer, DenialReason, Life, Release, Request, State};
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

/// A launcher whose VM has arrived, and whose source has not said that it has none any more.
async fn holding() -> Scene {
    let scene = receiving().await;
    scene.fake.withhold_release();
    scene.fake.release("receive");
    let state = scene.until(|state| state.life == Life::Paused).await;
    assert_eq!((state.reason.as_deref(), state.receives), (Some("AwaitsRelease"), false));
    assert_eq!(state.doing.as_deref(), Some("receive"));
    scene
}

#[test]
fn a_vm_that_has_arrived_goes_on_when_it_is_released_and_by_nothing_else() {
    for runs in [true, false] {
        play(async move {
            let scene = holding().await;
            for request in [Request::Unpause, Request::Start, Request::Shutdown { grace: Some(0) }] {
                assert_eq!(reason(scene.ask(request).await), DenialReason::Receiving);
            }
            assert_eq!(scene.fake.condition(NAME), Some(Condition::Paused(Pause::Asked)));
            assert!(scene.folder.path().join("r/migration").exists());
            assert_eq!(scene.ask(Request::Release(Release { runs })).await, Answer::Queued);
            let state = scene.until(|state| state.doing.is_none()).await;
            let expected = if runs { (Life::Running, None) } else { (Life::Paused, Some("PausedByUser")) };
            assert_eq!((state.life, state.reason.as_deref()), expected);
            assert!(!scene.folder.path().join("r/migration").exists());
            let again = scene.ask(Request::Release(Release { runs })).await;
            assert!(matches!(again, Answer::Ignored { .. }), "{again:?}");
        });
    }
}

#[test]
fn a_vm_that_cannot_go_on_is_held_and_released_again() {
    play(async {
        let scene = holding().await;
        scene.fake.fail_next("resume", ErrorKind::Failed, "the disk is locked");
        let release = || Request::Release(Release { runs: true });
        assert_eq!(scene.ask(release()).await, Answer::Queued);
        let is_told = |state: &State| state.message.as_ref().is_some_and(|told| told.contains("is locked"));
        assert_eq!(scene.until(is_told).await.reason.as_deref(), Some("AwaitsRelease"));
        assert_eq!(scene.ask(release()).await, Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
    });
}

#[test]
fn a_vm_that_is_held_and_not_there_is_waited_for_by_nobody() {
    play(async {
        let scene = holding().await;
        scene.fake.fail_next("resume", ErrorKind::NotFound, "no domain");
        assert_eq!(scene.ask(Request::Release(Release { runs: true })).await, Answer::Queued);
        let state = scene.until(is_over).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("Lost")));
    });
    play(async {
        let scene = receiving().await;
        scene.fake.fail_next("state", ErrorKind::NotFound, "no domain");
        scene.fake.withhold_release();
        scene.fake.release("receive");
        let state = scene.until(is_over).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("NotReceived")));
    });
}

#[test]
fn a_launcher_that_was_killed_while_it_held_its_vm_holds_it_again() {
    play(async {
        let Scene { fake, handle, folder } = holding().await;
        drop(handle);
        let scene = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = scene.until(|state| state.doing.is_some()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Paused, Some("AwaitsRelease")));
        assert_eq!(reason(scene.ask(Request::Unpause).await), DenialReason::Receiving);
        assert_eq!(scene.ask(Request::Release(Release { runs: true })).await, Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
    });
}

#[test]
fn a_vm_that_is_not_released_ends_with_its_launcher() {
    play(async {
        let scene = holding().await;
        scene.handle.end().await;
        let state = scene.until(is_over).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("NotReceived")));
        assert!(state.message.unwrap().contains("before the VM's source had released it"));
        assert_eq!(scene.fake.condition(NAME), Some(Condition::Off(End::Destroyed)));
    });
}

/// The message of a source that has gone may be late: without the pause for it, neither end would have the guest.
#[test]
fn a_vm_that_is_released_while_its_launcher_is_to_end_is_shut_down_in_order() {
    play(async {
        let scene = holding().await;
        scene.handle.end().await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(scene.fake.condition(NAME), Some(Condition::Paused(Pause::Asked)));
        assert_eq!(scene.ask(Request::Release(Release { runs: true })).await, Answer::Queued);
        let state = scene.until(is_over).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Succeeded, Some("Shutdown")), "{state:?}");
    });
}

#[test]
fn a_vm_that_ends_before_it_is_released_is_not_here() {
    play(async {
        let scene = holding().await;
        scene.fake.happen(NAME, &Event::Ended(End::Crashed));
        let state = scene.until(is_over).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("NotReceived")));
        assert!(state.message.unwrap().contains("its QEMU ended before"));
    });
}

/// Its new disks have what it wrote since: nobody may take them for unused.
#[test]
fn a_vm_that_was_released_and_is_lost_has_been_received() {
    for (verb, kind) in [("receive", ErrorKind::Ended), ("watch", ErrorKind::Failed)] {
        play(async move {
            let scene = receiving().await;
            scene.fake.fail_next(verb, kind, "it is gone");
            scene.fake.release("receive");
            let state = scene.until(is_over).await;
            assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("Lost")), "{verb}");
            assert!(state.message.unwrap().contains("it is gone"));
            assert_eq!(reason(scene.ask(Request::Start).await), DenialReason::Moved);
        });
    }
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
