//! Stops of guests that do not react: the time at which they are destroyed does not depend on the wall clock,
//! or on further requests.

use super::{Handle, Parts, drive};
use crate::hypervisor::fake::Fake;
use crate::hypervisor::{End, ErrorKind, Event};
use crate::root::Root;
use api::launcher::{Answer, Life, Request, Resolved, State, Sync};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const NAME: &str = "default_vm";

struct Scene {
    fake: Arc<Fake>,
    handle: Handle,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// A running VM whose guest does not react to the power button.
    async fn deaf(clock: fn() -> String) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::default());
        let root = Root::open(&folder.path().join("r"), folder.path()).unwrap();
        let lines = crate::console::lines().0;
        let (handle, driver) = drive(Parts { hypervisor: fake.clone(), root, lines, clock }).unwrap();
        tokio::spawn(driver);
        let vmi = json!({
            "metadata": {"name": "vm", "namespace": "default"},
            "spec": {
                "terminationGracePeriodSeconds": 600,
                "domain": {
                    "memory": {"guest": "64Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"autoattachPodInterface": false},
                },
            },
        });
        let sync = Sync { vmi, generation: 1, resolved: Resolved::default() };
        assert_eq!(handle.sync(sync).await.unwrap(), Answer::Queued);
        let scene = Scene { fake, handle, _folder: folder };
        scene.until(|state| state.life == Life::Running).await;
        scene.fake.deaf();
        scene
    }

    async fn until(&self, wanted: impl FnMut(&State) -> bool) -> State {
        let mut reader = self.handle.state();
        let state = tokio::time::timeout(Duration::from_secs(60), reader.wait_for(wanted)).await;
        state.expect("a minute is enough").expect("the driver lives").clone()
    }

    /// Sends a shutdown, and waits until the guest was asked.
    async fn stop(&self, grace: Option<u64>) {
        let asked = self.presses();
        assert_eq!(self.handle.request(Request::Shutdown { grace }).await.unwrap(), Answer::Queued);
        while self.presses() == asked {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn presses(&self) -> usize {
        self.calls("shutdown")
    }

    fn calls(&self, verb: &str) -> usize {
        self.fake.conversation().iter().filter(|said| **said == format!("{verb} {NAME}")).count()
    }

    /// Waits until the loop has ended.
    async fn loop_ends(&self) {
        let mut reader = self.handle.state();
        let ends = async { while reader.changed().await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("the launcher ends");
    }

    async fn ended(&self) -> (Option<String>, String) {
        let state = self.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.grace), (Life::Failed, None));
        (state.reason, state.message.unwrap_or_default())
    }
}

const EXPIRED: &str = "GracePeriodExpired";

fn play(scene: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(scene);
}

/// A wall clock that jumps by ten minutes at every read, forwards and backwards.
fn jumps() -> String {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    let times = ["2026-11-21T10:00:00Z", "2026-11-21T10:10:00Z", "2026-11-21T09:50:00Z"];
    times[LOOKS.fetch_add(1, Ordering::Relaxed) % times.len()].to_owned()
}

#[test]
fn a_clock_that_jumps_by_ten_minutes_changes_no_grace_period() {
    play(async {
        let scene = Scene::deaf(jumps).await;
        let began = Instant::now();
        scene.stop(Some(2)).await;
        assert_eq!(scene.until(|state| state.life == Life::Stopping).await.grace, Some(2));
        assert_eq!(scene.ended().await.0.as_deref(), Some(EXPIRED));
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    });
}

#[test]
fn a_stop_that_is_told_again_is_not_put_off() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.stop(Some(2)).await;
        scene.stop(Some(600)).await;
        let state = scene.until(|state| state.grace.is_some()).await;
        assert_eq!(state.grace, Some(2), "the earlier end counts");
        let (reason, message) = scene.ended().await;
        assert_eq!(reason.as_deref(), Some(EXPIRED));
        assert!(message.contains("within 2 s"), "{message}");
    });
}

#[test]
fn a_forced_stop_brings_the_end_nearer() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.stop(None).await;
        assert_eq!(scene.until(|state| state.grace.is_some()).await.grace, Some(600));
        scene.stop(Some(1)).await;
        let (reason, message) = scene.ended().await;
        assert_eq!(reason.as_deref(), Some(EXPIRED));
        assert!(message.contains("within 1 s"), "{message}");
    });
}

#[test]
fn a_later_request_that_fails_takes_no_earlier_end_back() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.stop(Some(2)).await;
        scene.fake.fail_next("shutdown", ErrorKind::Failed, "no");
        scene.stop(Some(600)).await;
        assert_eq!(scene.ended().await.0.as_deref(), Some(EXPIRED));
    });
}

#[test]
fn a_request_that_reaches_no_guest_starts_no_grace_period() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.fake.fail_next("shutdown", ErrorKind::Failed, "no");
        assert_eq!(scene.handle.request(Request::Shutdown { grace: Some(1) }).await.unwrap(), Answer::Queued);
        let state = scene.until(|state| state.message.is_some()).await;
        assert_eq!((state.life, state.grace), (Life::Running, None));
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(scene.until(|_| true).await.life, Life::Running, "nobody has asked it");
        scene.fake.happen(NAME, &Event::Ended(End::Shutdown));
        assert_eq!(scene.until(|state| state.life.is_final()).await.life, Life::Succeeded);
    });
}

#[test]
fn a_launcher_that_is_to_end_asks_its_vm_until_it_ends() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.fake.fail_next("shutdown", ErrorKind::Failed, "no");
        scene.handle.end().await;
        scene.until(|state| state.life == Life::Stopping).await;
        assert_eq!(scene.presses(), 2, "the first one has failed");
        scene.fake.happen(NAME, &Event::Ended(End::Shutdown));
        scene.loop_ends().await;
    });
}

#[test]
fn a_launcher_that_is_to_end_is_not_kept_by_clients_in_a_loop() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.fake.hang("reset");
        while scene.handle.request(Request::Reset).await.unwrap() == Answer::Queued {}
        scene.handle.end().await;
        scene.fake.release("reset");
        scene.until(|state| state.life == Life::Stopping).await;
    });
}

#[test]
fn a_forced_end_that_fails_is_tried_again() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.fake.fail_next("destroy", ErrorKind::Failed, "the process does not end");
        scene.stop(Some(1)).await;
        assert_eq!(scene.ended().await.0.as_deref(), Some(EXPIRED));
        assert_eq!(scene.calls("destroy"), 2);
    });
}

/// A user restarts the VM, and its pod is deleted meanwhile.
#[test]
fn a_launcher_that_is_to_end_starts_no_vm() {
    play(async {
        let scene = Scene::deaf(crate::clock::now).await;
        scene.stop(None).await;
        assert_eq!(scene.handle.request(Request::Start).await.unwrap(), Answer::Queued);
        scene.handle.end().await;
        // The answer comes after the launcher knows that it is to end.
        assert!(matches!(scene.handle.request(Request::Reboot).await.unwrap(), Answer::Denied(_)));
        scene.fake.happen(NAME, &Event::Ended(End::Shutdown));
        scene.loop_ends().await;
        assert_eq!((scene.until(|_| true).await.life, scene.calls("start")), (Life::Succeeded, 1));
    });
}
