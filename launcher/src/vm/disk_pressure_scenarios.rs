//! Pauses for disk pressure of the node, beside those of a user.

use super::{NAME, Scene, begin, play};
use crate::hypervisor::{ErrorKind, Event, Pause};
use api::launcher::{Answer, Life, PAUSED_BY_DISK_PRESSURE, Request, State};

/// The request of virt-handler.
fn full() -> Request {
    Request::PauseForDiskPressure { message: "VMI was paused: the disk is nearly full".into() }
}

/// A VM that is paused for disk pressure.
async fn paused() -> Scene {
    let scene = Scene::running().await;
    assert_eq!(scene.ask(full()).await, Answer::Queued);
    let state = scene.until(|state| state.life == Life::Paused).await;
    assert_eq!(state.reason.as_deref(), Some(PAUSED_BY_DISK_PRESSURE));
    assert_eq!(state.message.as_deref(), Some("VMI was paused: the disk is nearly full"));
    scene
}

fn is_of_user(state: &State) -> bool {
    state.life == Life::Paused && state.reason.as_deref() == Some("PausedByUser")
}

async fn is_not_resumed(scene: &Scene) {
    let answer = scene.ask(Request::ResumeAfterDiskPressure).await;
    assert!(matches!(answer, Answer::Ignored { .. }), "{answer:?}");
}

#[test]
fn a_vm_goes_on_when_there_is_room() {
    play(async {
        let scene = paused().await;
        assert!(matches!(scene.ask(full()).await, Answer::Ignored { .. }), "it is paused already");
        assert_eq!(scene.ask(Request::ResumeAfterDiskPressure).await, Answer::Queued);
        let state = scene.until(|state| state.life == Life::Running).await;
        assert_eq!((state.reason, state.message), (None, None));
        is_not_resumed(&scene).await;
        // The next pause is the user's.
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(is_of_user).await;
    });
}

#[test]
fn a_vm_that_a_user_paused_is_not_resumed() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(is_of_user).await;
        assert!(matches!(scene.ask(full()).await, Answer::Ignored { .. }));
        is_not_resumed(&scene).await;
        scene.until(is_of_user).await;
    });
}

#[test]
fn a_user_who_pauses_a_vm_that_is_paused_for_its_node_keeps_it_paused() {
    play(async {
        let scene = paused().await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(is_of_user).await;
        is_not_resumed(&scene).await;
        assert_eq!(scene.ask(Request::Unpause).await, Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
    });
}

#[test]
fn a_pause_of_a_user_that_overtakes_a_resumption_stands() {
    play(async {
        let scene = paused().await;
        // The resumption waits behind the change of media, and the user pauses meanwhile.
        scene.fake.hang("change_media");
        assert_eq!(scene.ask(Request::Eject { disk: "cd".into() }).await, Answer::Queued);
        assert_eq!(scene.ask(Request::ResumeAfterDiskPressure).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.fake.release("change_media");
        scene.until(|state| is_of_user(state) && state.doing.is_none()).await;
        let last = scene.said();
        let resumed = last.lines().filter(|line| line.starts_with("resume")).count();
        assert_eq!(resumed, 1, "at its start: {last}");
    });
}

#[test]
fn a_new_launcher_knows_why_the_vm_is_paused() {
    play(async {
        let scene = paused().await;
        let Scene { fake, handle, folder } = scene;
        drop(handle);
        let scene = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = scene.until(|state| state.life == Life::Paused && state.doing.is_none()).await;
        assert_eq!(state.reason.as_deref(), Some(PAUSED_BY_DISK_PRESSURE));
        assert_eq!(scene.ask(Request::ResumeAfterDiskPressure).await, Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
    });
}

#[test]
fn a_pause_that_fails_leaves_nothing_behind() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.fail_next("pause", ErrorKind::Failed, "QEMU does not answer");
        assert_eq!(scene.ask(full()).await, Answer::Queued);
        scene.until(|state| state.message.is_some() && state.doing.is_none()).await;
        is_not_resumed(&scene).await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(is_of_user).await;
    });
}

#[test]
fn a_disk_that_fails_meanwhile_is_told() {
    play(async {
        let scene = paused().await;
        let broken =
            Event::IoError { disk: Some("root".into()), path: "/d".into(), no_space: false, paused: true };
        scene.fake.happen(NAME, &broken);
        scene.fake.happen(NAME, &Event::Paused(Pause::IoError));
        scene.until(|state| state.reason.as_deref() == Some("PausedIOError")).await;
        is_not_resumed(&scene).await;
    });
}

/// How often the hypervisor was asked for this.
fn count(scene: &Scene, verb: &str) -> usize {
    scene.said().lines().filter(|line| line.starts_with(&format!("{verb} "))).count()
}

async fn hangs(scene: &Scene, verb: &str) {
    while scene.fake.hung(verb) == 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_pause_of_a_user_during_a_resumption_follows_it() {
    play(async {
        let scene = paused().await;
        scene.fake.hang("resume");
        assert_eq!(scene.ask(Request::ResumeAfterDiskPressure).await, Answer::Queued);
        hangs(&scene, "resume").await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.fake.release("resume");
        scene.until(|state| state.doing.is_none()).await;
        assert_eq!(count(&scene, "pause"), 2, "{}", scene.said());
        scene.until(is_of_user).await;
        is_not_resumed(&scene).await;
    });
}

#[test]
fn a_pause_behind_a_resumption_of_a_user_is_for_disk_pressure() {
    play(async {
        let scene = paused().await;
        scene.fake.hang("resume");
        assert_eq!(scene.ask(Request::Unpause).await, Answer::Queued);
        hangs(&scene, "resume").await;
        assert_eq!(scene.ask(full()).await, Answer::Queued);
        scene.fake.release("resume");
        scene.until(|state| state.doing.is_none()).await;
        assert_eq!(count(&scene, "pause"), 2, "{}", scene.said());
        let state = scene.until(|state| state.life == Life::Paused).await;
        assert_eq!(state.reason.as_deref(), Some(PAUSED_BY_DISK_PRESSURE));
        assert_eq!(scene.ask(Request::ResumeAfterDiskPressure).await, Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
    });
}
