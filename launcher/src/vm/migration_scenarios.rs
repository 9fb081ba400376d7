//! Migrations of a VM, with a hypervisor that sends it nowhere.

use super::{NAME, Scene, begin, play};
use crate::hypervisor::{Condition, End, ErrorKind, Event, Pause};
use api::launcher::{
    Answer, Life, Migrate, MigrationLimits, MigrationPhase, MigrationSockets, Request, State,
};
use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Limits with which the monitor pauses the guest after a second for each GiB, and aborts after two.
fn paused_soon() -> MigrationLimits {
    MigrationLimits { completion_seconds_per_gib: 1, allow_pause: true, ..MigrationLimits::default() }
}

fn order(id: &str) -> Request {
    migration(id, MigrationLimits::default())
}

fn migration(id: &str, limits: MigrationLimits) -> Request {
    let (target, socket) = target();
    // It waits for as long as the test runs.
    std::mem::forget(target);
    migration_to(socket, id, limits)
}

/// A target that waits for the source's word.
fn target() -> (UnixListener, PathBuf) {
    let socket = tempfile::tempdir().unwrap().keep().join("release");
    (UnixListener::bind(&socket).unwrap(), socket)
}

/// The source's message to its target, once its connection has ended.
fn told(target: &UnixListener) -> String {
    let mut text = String::new();
    target.accept().unwrap().0.read_to_string(&mut text).unwrap();
    text
}

fn migration_to(release: PathBuf, id: &str, limits: MigrationLimits) -> Request {
    let socket = |name: &str| format!("/run/{name}").into();
    let sockets = MigrationSockets { libvirt: socket("l"), memory: socket("m"), disks: socket("d"), release };
    let copied_disks = vec!["root".to_owned()];
    Request::Migrate(Box::new(Migrate { id: id.into(), sockets, copied_disks, whole_disks: false, limits }))
}

fn phase(state: &State) -> Option<MigrationPhase> {
    state.migration.as_ref().map(|migration| migration.phase)
}

fn has_ended(state: &State) -> bool {
    phase(state).is_some_and(|phase| !matches!(phase, MigrationPhase::Running | MigrationPhase::Aborting))
        && state.doing.is_none()
}

/// A VM whose migration is in progress.
async fn migrating() -> Scene {
    let scene = Scene::running().await;
    scene.fake.hang("migrate");
    assert_eq!(scene.ask(order("a")).await, Answer::Queued);
    while scene.fake.hung("migrate") == 0 {
        tokio::task::yield_now().await;
    }
    scene
}

fn denied(answer: Answer) -> String {
    match answer {
        Answer::Denied(denial) => denial.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_vm_that_has_migrated_is_not_started_again_by_any_launcher() {
    play(async {
        let scene = migrating().await;
        let told = scene.until(|state| state.migration.as_ref().is_some_and(|m| m.progress.total > 0)).await;
        assert_eq!((told.life, told.doing.as_deref()), (Life::Running, Some("migrate")));
        assert!(matches!(scene.ask(order("a")).await, Answer::Ignored { .. }));
        assert_eq!(denied(scene.ask(order("b")).await), "the VM is migrating already: a");
        scene.fake.release("migrate");
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Succeeded, Some("Migrated")));
        assert_eq!((phase(&state), state.qemu_pid), (Some(MigrationPhase::Succeeded), None));
        assert!(scene.said().contains("migrate default_vm a vda"), "{}", scene.said());
        let moved = "the VM has migrated away from this launcher";
        for request in [Request::Start, Request::Unpause, Request::Destroy, Request::Reboot] {
            assert_eq!(denied(scene.ask(request).await), moved);
        }
        let Scene { fake, handle, folder } = scene;
        drop(handle);
        let calls = |fake: &crate::hypervisor::fake::Fake| {
            fake.conversation().iter().filter(|call| call.starts_with("start ")).count()
        };
        let scene = Scene { handle: begin(folder.path(), &fake), fake, folder };
        assert_eq!(denied(scene.ask(Request::Start).await), moved);
        let state = scene.until(|_| true).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Succeeded, Some("Migrated")));
        assert_eq!(calls(&scene.fake), 1);
    });
}

#[test]
fn a_vm_that_libvirt_says_has_left_is_not_started_without_a_record_of_its_migration() {
    play(async {
        let Scene { fake, handle, folder } = Scene::running().await;
        drop(handle);
        fake.happen(NAME, &Event::Ended(End::Left));
        let scene = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Succeeded, Some("Migrated")));
        assert!(denied(scene.ask(Request::Start).await).contains("migrated away"));
    });
}

/// libvirt has undefined the domain, and the launcher was killed before it could write that down.
#[test]
fn a_launcher_that_was_killed_at_the_end_of_a_migration_starts_no_second_guest() {
    play(async {
        let Scene { fake, handle, folder } = migrating().await;
        drop(handle);
        fake.forget(NAME);
        let scene = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!(
            (state.reason.as_deref(), phase(&state)),
            (Some("MigrationUnknown"), Some(MigrationPhase::Unknown))
        );
        assert!(denied(scene.ask(Request::Start).await).contains("migrated away"));
        scene.fake.release("migrate");
    });
}

#[test]
fn a_migration_that_fails_leaves_the_vm_as_it_was_and_its_id_is_not_used_again() {
    play(async {
        let scene = migrating().await;
        scene.fake.fail_next("migrate", ErrorKind::Failed, "the link is cut");
        scene.fake.happen(NAME, &Event::Paused(Pause::Passing));
        scene.fake.happen(NAME, &Event::Resumed);
        scene.fake.release("migrate");
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, phase(&state)), (Life::Running, Some(MigrationPhase::Failed)));
        let message = state.migration.unwrap().message.unwrap();
        assert!(message.contains("the link is cut"), "{message}");
        assert!(!state.phases.iter().any(|(life, _)| *life == Life::Paused), "{:?}", state.phases);
        assert_eq!(denied(scene.ask(order("a")).await), "the migration a has ended already");
        assert_eq!(scene.ask(order("b")).await, Answer::Queued);
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!(state.reason.as_deref(), Some("Migrated"));
    });
}

#[test]
fn an_aborted_migration_is_told_as_one_and_an_end_aborts_it() {
    play(async {
        let scene = migrating().await;
        assert!(matches!(
            scene.ask(Request::AbortMigration { id: "b".into() }).await,
            Answer::Ignored { .. }
        ));
        assert_eq!(scene.ask(Request::AbortMigration { id: "a".into() }).await, Answer::Queued);
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, phase(&state)), (Life::Running, Some(MigrationPhase::Aborted)));
        assert_eq!(state.migration.unwrap().message.as_deref(), Some("Live migration has been aborted"));

        let scene = migrating().await;
        assert_eq!(scene.ask(Request::Shutdown { grace: None }).await, Answer::Queued);
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!(
            (state.reason.as_deref(), phase(&state)),
            (Some("Shutdown"), Some(MigrationPhase::Aborted))
        );
    });
}

/// The guest's end and the abort's cross: the VM has gone, and what waited for it is dropped.
#[test]
fn a_shutdown_that_comes_too_late_ends_nothing_here() {
    play(async {
        let scene = migrating().await;
        scene.fake.hang("abort_migration");
        assert_eq!(scene.ask(Request::Shutdown { grace: None }).await, Answer::Queued);
        scene.fake.release("migrate");
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Succeeded, Some("Migrated")));
        assert_eq!(phase(&state), Some(MigrationPhase::Succeeded));
        scene.fake.release("abort_migration");
    });
}

/// The guest at the target goes on by the source's word alone.
#[test]
fn a_vm_whose_result_was_not_heard_goes_on_here_and_its_target_is_not_released() {
    play(async {
        let (scene, (target, socket)) = (Scene::running().await, target());
        scene.fake.hang("migrate");
        let order = migration_to(socket, "a", MigrationLimits::default());
        assert_eq!(scene.ask(order).await, Answer::Queued);
        while scene.fake.hung("migrate") == 0 {
            tokio::task::yield_now().await;
        }
        scene.fake.happen(NAME, &Event::Paused(Pause::Passing));
        scene.fake.fail_next("migrate", ErrorKind::Unavailable, "the connection broke");
        scene.fake.release("migrate");
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, phase(&state)), (Life::Running, Some(MigrationPhase::Failed)));
        assert!(state.migration.unwrap().message.unwrap().contains("the connection broke"));
        assert_eq!(told(&target), "");
    });
}

#[test]
fn a_target_is_told_that_the_vm_is_gone_and_whether_it_ran() {
    for runs in [true, false] {
        play(async move {
            let (scene, (target, socket)) = (Scene::running().await, target());
            if !runs {
                assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
                scene.until(|state| state.life == Life::Paused && state.doing.is_none()).await;
            }
            let order = migration_to(socket, "a", MigrationLimits::default());
            assert_eq!(scene.ask(order).await, Answer::Queued);
            let state = scene.until(has_ended).await;
            assert_eq!(phase(&state), Some(MigrationPhase::Succeeded));
            assert_eq!(told(&target), format!("{{\"runs\":{runs}}}\n"));
        });
    }
}

/// The pause was for the disk of the node that the guest leaves.
#[test]
fn a_vm_that_is_paused_for_its_node_goes_on_at_the_target() {
    play(async {
        let (scene, (target, socket)) = (Scene::running().await, target());
        let full = Request::PauseForDiskPressure { message: "the disk is nearly full".into() };
        assert_eq!(scene.ask(full).await, Answer::Queued);
        scene.until(|state| state.life == Life::Paused && state.doing.is_none()).await;
        assert_eq!(scene.ask(migration_to(socket, "a", MigrationLimits::default())).await, Answer::Queued);
        scene.until(has_ended).await;
        assert_eq!(told(&target), "{\"runs\":true}\n");
    });
}

#[test]
fn a_vm_does_not_leave_for_a_target_that_does_not_wait_for_it() {
    play(async {
        let scene = Scene::running().await;
        let order = migration_to("/nonexistent/release".into(), "a", MigrationLimits::default());
        assert_eq!(scene.ask(order).await, Answer::Queued);
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, phase(&state)), (Life::Running, Some(MigrationPhase::Failed)));
        assert!(state.migration.unwrap().message.unwrap().contains("the target does not wait for it"));
        assert!(!scene.said().contains("migrate default_vm"), "{}", scene.said());
        assert!(!scene.folder.path().join("r/migration").exists());
    });
}

#[test]
fn a_guest_that_crashes_while_it_migrates_has_crashed() {
    play(async {
        let scene = migrating().await;
        scene.fake.happen(NAME, &Event::Ended(End::Crashed));
        scene.until(|state| state.life == Life::Failed).await;
        scene.fake.release("migrate");
        let state = scene.until(has_ended).await;
        assert_eq!((state.reason.as_deref(), phase(&state)), (Some("Crashed"), Some(MigrationPhase::Failed)));
    });
}

#[test]
fn a_vm_that_its_user_has_paused_stays_paused_where_its_migration_fails() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(|state| state.life == Life::Paused && state.doing.is_none()).await;
        scene.fake.hang("migrate");
        assert_eq!(scene.ask(migration("a", paused_soon())).await, Answer::Queued);
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, phase(&state)), (Life::Paused, Some(MigrationPhase::Failed)));
        assert_eq!(scene.fake.condition(NAME), Some(Condition::Paused(Pause::Asked)));
    });
}

/// virt-handler closes the connections of an abort that does not end.
#[test]
fn an_abort_by_a_limit_is_told_while_the_migration_does_not_end_by_it() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hang("migrate");
        scene.fake.hang("abort_migration");
        let limits = MigrationLimits { allow_pause: false, ..paused_soon() };
        assert_eq!(scene.ask(migration("a", limits)).await, Answer::Queued);
        let state = scene.until(|state| phase(state) == Some(MigrationPhase::Aborting)).await;
        assert_eq!(state.life, Life::Running);
        scene.fake.release("abort_migration");
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, phase(&state)), (Life::Running, Some(MigrationPhase::Failed)));
        assert!(state.migration.unwrap().message.unwrap().starts_with("it was not done within 1 s"));
    });
}

#[test]
fn a_guest_that_the_monitor_paused_is_resumed_where_it_stays() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hang("migrate");
        assert_eq!(scene.ask(migration("a", paused_soon())).await, Answer::Queued);
        let state = scene.until(|state| state.life == Life::Paused).await;
        assert_eq!(state.reason.as_deref(), Some("PausedByMigrationMonitor"));
        // Twice the time is over, and the monitor aborts.
        let state = scene.until(has_ended).await;
        assert_eq!((state.life, phase(&state)), (Life::Running, Some(MigrationPhase::Failed)));
        let message = state.migration.unwrap().message.unwrap();
        assert!(message.starts_with("it was not done within 2 s"), "{message}");
    });
}
