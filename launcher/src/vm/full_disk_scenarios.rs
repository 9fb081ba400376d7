//! A disk whose free space cannot be read, and that stays full.

use super::{NAME, Scene, play};
use crate::hypervisor::{Event, Pause};
use api::launcher::Life;
use std::time::Duration;

/// The guest writes, and the host has no space for it.
async fn fills(scene: &Scene) {
    let path = "/nowhere/at/all".to_owned();
    let full = Event::IoError { disk: Some("root".into()), path, no_space: true, paused: true };
    scene.fake.happen(NAME, &full);
    scene.fake.happen(NAME, &Event::Paused(Pause::IoError));
    scene.until(|state| state.life == Life::Paused).await;
}

#[test]
fn a_vm_whose_disk_stays_full_is_resumed_more_and_more_rarely() {
    play(async {
        let scene = Scene::running().await;
        fills(&scene).await;
        scene.until(|state| state.life == Life::Running).await;
        fills(&scene).await;
        // The first resumption came after 5 s; this one comes after 10 s.
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!(scene.until(|_| true).await.life, Life::Paused, "{}", scene.said());
        scene.until(|state| state.life == Life::Running).await;
    });
}
