//! Requests that follow one another more quickly than the hypervisor reports what they have changed.

use super::{NAME, Scene, play};
use crate::hypervisor::{End, Event};
use api::launcher::{Answer, Life, Request, State};

/// The calls of these verbs, in their order.
fn calls(scene: &Scene, verbs: &[&str]) -> Vec<String> {
    let said = scene.said();
    let calls = said.lines().filter_map(|line| line.split(' ').next().filter(|verb| verbs.contains(verb)));
    calls.map(str::to_owned).collect()
}

fn is_paused(state: &State) -> bool {
    state.life == Life::Paused && state.doing.is_none()
}

#[test]
fn a_guest_that_was_paused_a_moment_ago_is_resumed_for_its_shutdown() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hold_events();
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Shutdown { grace: None }).await, Answer::Queued);
        scene.until(|state| state.life == Life::Stopping).await;
        assert_eq!(
            calls(&scene, &["pause", "resume", "shutdown"]),
            ["resume", "pause", "resume", "shutdown"]
        );
        scene.fake.send_events();
        scene.until(|state| state.life == Life::Succeeded).await;
    });
}

#[test]
fn a_pause_right_behind_a_resumption_is_not_dropped() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(is_paused).await;
        scene.fake.hold_events();
        assert_eq!(scene.ask(Request::Unpause).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(|state| state.doing.is_none()).await;
        assert_eq!(calls(&scene, &["pause", "resume"]), ["resume", "pause", "resume", "pause"]);
        scene.fake.send_events();
        scene.until(is_paused).await;
    });
}

#[test]
fn a_resumption_right_behind_a_pause_is_not_dropped() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hold_events();
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Unpause).await, Answer::Queued);
        scene.until(|state| state.doing.is_none()).await;
        assert_eq!(calls(&scene, &["pause", "resume"]), ["resume", "pause", "resume"]);
        scene.fake.send_events();
        scene.until(|state| state.life == Life::Running).await;
    });
}

/// The events of the resumption and of the next pause come before the result of the resumption.
#[test]
fn a_resumption_that_a_failing_disk_ends_leaves_the_vm_paused() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(is_paused).await;
        scene.fake.hang("resume");
        assert_eq!(scene.ask(Request::Unpause).await, Answer::Queued);
        while scene.fake.hung("resume") == 0 {
            tokio::task::yield_now().await;
        }
        scene.fake.happen(NAME, &Event::Resumed);
        let failing = Event::IoError { disk: None, path: "/d".into(), no_space: false, paused: true };
        scene.fake.happen(NAME, &failing);
        scene.until(|state| state.reason.as_deref() == Some("PausedIOError")).await;
        scene.fake.release("resume");
        scene.until(is_paused).await;
        assert_eq!(scene.ask(Request::Unpause).await, Answer::Queued);
    });
}

/// libvirt ends a VM while it reconnects to its QEMU, and tells nothing of it.
#[test]
fn a_vm_whose_end_was_never_told_is_found_off_by_the_next_request() {
    for request in [Request::Destroy, Request::Shutdown { grace: Some(0) }, Request::Pause] {
        play(async {
            let scene = Scene::running().await;
            scene.fake.hold_events();
            scene.fake.happen(NAME, &Event::Ended(End::Destroyed));
            assert_eq!(scene.ask(request).await, Answer::Queued);
            let state = scene.until(|state| state.qemu_pid.is_none() && state.doing.is_none()).await;
            assert!(matches!(state.life, Life::Succeeded | Life::Failed), "{state:?}");
            // A late event changes nothing.
            let ended = state.life;
            scene.fake.send_events();
            scene.ask(Request::Destroy).await;
            scene.until(|state| state.life == ended && state.doing.is_none()).await;
        });
    }
}
