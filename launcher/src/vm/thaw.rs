//! Automatic thaw of the guest's file systems when the time of their freeze is over. The client of the freeze
//! may be gone by then, and a guest whose file systems stay frozen hangs.
//!
//! ```text
//!  freeze(after) ─► guest agent ─► alarm ─── time is over ──► guest agent: thaw ── fails ──► again, every 5 s for 10 min
//!                                    │ thaw.json: a new launcher goes on waiting
//!  freeze(), thaw() ─────────────────► no alarm
//!  frozen ─── every 5 s ──► guest agent: is it still? ──► State.frozen
//! ```
//!
//! A freeze of a frozen guest, and a thaw of one that is not frozen, succeed without a command, as in
//! KubeVirt: the guest agent would refuse the first, and run the hooks of the second again. A freeze with a
//! time sets the alarm again; one without leaves it.
//!
//! The alarm is set on the thread that calls the guest agent, so that a client that leaves cannot prevent it.
//! Each freeze or thaw is done together with its change of the alarm, one at a time. An alarm that rings
//! while file systems are frozen again checks its time once more, and leaves them frozen. An alarm outlives
//! its VM; a guest that has ended, or was restarted, has nothing frozen, and a thaw does no harm. A paused
//! guest is thawed when it goes on, since it does not answer before.

use super::guest::{Freezing, Guest};
use super::handle::Handle;
use crate::error::{Error, Result};
use crate::hypervisor::embed::write_whole;
use crate::hypervisor::{self, ErrorKind};
use crate::threads;
use api::launcher::{Freeze, LONGEST_FREEZE, Life, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Pause between two attempts to thaw …
const AGAIN: Duration = Duration::from_secs(5);
/// … and their number.
const TRIES: u32 = 120;

/// Freezes and thaws file systems. All clones share one alarm.
#[derive(Clone)]
pub(crate) struct Thaw {
    alarm: Arc<Alarm>,
}

struct Alarm {
    file: PathBuf,
    due: watch::Sender<Option<Due>>,
    /// Held from the call of the guest agent to freeze or thaw until the alarm is set. It blocks.
    asks: Mutex<()>,
    handle: Handle,
}

/// The time to thaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at: Instant,
    tries: u32,
}

/// The time to thaw in the file, for a new launcher.
#[derive(Debug, Serialize, Deserialize)]
struct StoredAlarm {
    /// Time in RFC 3339.
    at: String,
}

/// The time after which a freeze is to end.
pub(crate) fn after(freeze: &Freeze) -> Result<Option<Duration>> {
    let after = Duration::from_millis(freeze.thaw_after_ms.unwrap_or_default());
    if after > LONGEST_FREEZE {
        let (asked, most) = (after.as_secs(), LONGEST_FREEZE.as_secs());
        return Err(Error::refused(format!(
            "file systems are frozen for {most} s at most, not for {asked} s"
        )));
    }
    Ok(Some(after).filter(|after| !after.is_zero()))
}

impl Thaw {
    /// Continues with the alarm of an earlier launcher. Called inside a runtime of tokio.
    pub(crate) fn start(handle: Handle) -> Thaw {
        Thaw::start_at(AGAIN, handle)
    }

    /// The same with another pause between two attempts.
    pub(crate) fn start_at(again: Duration, handle: Handle) -> Thaw {
        let file = handle.root.thaw();
        let due = stored_alarm(&file).unwrap_or_else(|e| {
            tracing::warn!("cannot read {}: {e}; file systems that are frozen stay so", file.display());
            None
        });
        let state = handle.state();
        let alarm = Arc::new(Alarm { file, due: watch::Sender::new(due), asks: Mutex::default(), handle });
        tokio::spawn(wait(again, state, alarm.due.subscribe(), Arc::downgrade(&alarm)));
        Thaw { alarm }
    }

    /// Freezes the guest's file systems, for this time or until they are thawed. Returns their number.
    /// Blocks.
    pub(crate) fn freeze(&self, guest: &Guest<'_>, after: Option<Duration>) -> hypervisor::Result<u64> {
        let _asks = self.alarm.asks();
        if guest.is_frozen() {
            if after.is_some() {
                self.alarm.set(after);
            }
            self.alarm.handle.frozen(true);
            return Ok(0);
        }
        let done = guest.freeze();
        match &done {
            Ok(_) => {
                self.alarm.set(after);
                self.alarm.handle.frozen(true);
            }
            // After a timeout the guest agent may still be freezing. A refusal means that it froze nothing,
            // or had frozen before.
            Err(e) if e.kind() == ErrorKind::TimedOut && after.is_some() => self.alarm.set(after),
            Err(_) => {}
        }
        done
    }

    /// Thaws the guest's file systems. Returns their number. Blocks.
    pub(crate) fn thaw(&self, guest: &Guest<'_>) -> hypervisor::Result<u64> {
        let _asks = self.alarm.asks();
        let count = match guest.freeze_status() {
            Some(Freezing::Thawed) => 0,
            _ => guest.thaw()?,
        };
        self.alarm.set(None);
        self.alarm.handle.frozen(false);
        Ok(count)
    }
}

impl Alarm {
    fn asks(&self) -> MutexGuard<'_, ()> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Thaws, and sets the alarm for the next attempt if that fails. Does nothing if the alarm has changed.
    /// Blocks.
    fn on_alarm(&self, was: Due, again: Duration) {
        let _asks = self.asks();
        if *self.due.borrow() != Some(was) {
            return;
        }
        let next = match thaw(&self.handle) {
            Ok(()) => {
                self.handle.frozen(false);
                None
            }
            Err(e) if was.tries < TRIES => {
                tracing::warn!("{e}; it is tried again in {} s", again.as_secs());
                Some(Due { at: Instant::now() + again, tries: was.tries + 1 })
            }
            Err(e) => {
                tracing::error!("the guest's file systems stay frozen: {e}");
                None
            }
        };
        if next.is_none() {
            let forgotten = self.keep(None);
            tracing::debug!("no file systems are to be thawed: {forgotten:?}");
        }
        self.due.send_replace(next);
    }

    /// Updates whether file systems are still frozen: those of Windows thaw by themselves. Blocks.
    fn refresh_frozen(&self) {
        let _asks = self.asks();
        let Some(name) = self.handle.name() else { return };
        let guest = Guest { hypervisor: &*self.handle.hypervisor, name };
        if guest.freeze_status() == Some(Freezing::Thawed) {
            self.handle.frozen(false);
        }
    }

    fn set(&self, after: Option<Duration>) {
        if let Err(e) = self.keep(after) {
            tracing::warn!("cannot keep the time to thaw in {}: {e}", self.file.display());
        }
        self.due.send_replace(after.map(|after| Due { at: Instant::now() + after, tries: 0 }));
    }

    fn keep(&self, after: Option<Duration>) -> io::Result<()> {
        let Some(after) = after else {
            return match fs::remove_file(&self.file) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        };
        let at = Timestamp::now().checked_add(after).map_err(io::Error::other)?;
        write_whole(&self.file, &serde_json::to_vec(&StoredAlarm { at: at.to_string() })?)
    }
}

/// The alarm of an earlier launcher.
fn stored_alarm(file: &PathBuf) -> io::Result<Option<Due>> {
    let text = match fs::read(file) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let at: Timestamp = serde_json::from_slice::<StoredAlarm>(&text)?.at.parse().map_err(io::Error::other)?;
    // A changed wall clock must not prolong the freeze.
    let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
    Ok(Some(Due { at: Instant::now() + left.min(LONGEST_FREEZE), tries: 0 }))
}

/// Thaws when it is time, as long as there is an alarm.
async fn wait(
    again: Duration,
    mut state: watch::Receiver<State>,
    mut due: watch::Receiver<Option<Due>>,
    alarm: Weak<Alarm>,
) {
    loop {
        let now = *due.borrow_and_update();
        let mut awake = state.clone();
        let is_over = async {
            match now {
                Some(due) => sleep_until(due.at).await,
                None => pending().await,
            }
            // A paused guest does not answer, however long it is paused. If the launcher is ending, the alarm rings.
            let _ = awake.wait_for(|state| state.life != Life::Paused).await;
        };
        let is_frozen = async {
            // The state has no publisher, so the launcher is ending.
            let asks = |state: &State| state.frozen && state.life != Life::Paused;
            let is_gone = state.wait_for(asks).await.is_err();
            if is_gone {
                return pending().await;
            }
            sleep(again).await;
        };
        tokio::select! {
            changed = due.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            () = is_over => {}
            () = is_frozen => {
                let Some(looking) = alarm.upgrade() else { return };
                if let Err(e) = threads::run("thaw", move || looking.refresh_frozen()).await {
                    tracing::error!("{e}");
                }
                continue;
            }
        }
        let (Some(alarm), Some(was)) = (alarm.upgrade(), now) else { return };
        let ringing = Arc::clone(&alarm);
        if let Err(e) = threads::run("thaw", move || ringing.on_alarm(was, again)).await {
            tracing::error!("the guest's file systems stay frozen: {e}");
            alarm.due.send_if_modified(|due| due.take_if(|due| *due == was).is_some());
        }
    }
}

/// Thaws; a guest that does not run has nothing frozen.
fn thaw(handle: &Handle) -> hypervisor::Result<()> {
    let Some(name) = handle.name() else { return Ok(()) };
    match (Guest { hypervisor: &*handle.hypervisor, name }).thaw() {
        Ok(count) => tracing::info!("the time of a freeze is over: {count} file systems are thawed"),
        Err(e) if matches!(e.kind(), ErrorKind::NotNow | ErrorKind::NotFound) => {}
        Err(e) => return Err(e),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hypervisor::fake::Fake;
    use crate::root::Root;
    use crate::vm::{Parts, drive};

    #[test]
    fn a_freeze_is_bounded() {
        let of = |ms| after(&Freeze { thaw_after_ms: ms });
        assert_eq!(of(None).unwrap(), None);
        assert_eq!(of(Some(0)).unwrap(), None);
        assert_eq!(of(Some(3_600_000)).unwrap(), Some(LONGEST_FREEZE));
        let refused = of(Some(3_600_001)).unwrap_err();
        assert_eq!(refused.kind(), crate::error::ErrorKind::Refused);
        assert!(refused.to_string().contains("for 3600 s at most"), "{refused}");
    }

    /// As many thaws as the guest agent was asked for, of an alarm that rings when this has happened to it.
    async fn thaws_after(happens: impl FnOnce(&Alarm)) -> usize {
        let folder = tempfile::Builder::new().prefix("s").tempdir_in("/tmp").unwrap();
        let root = Root::open(&folder.path().join("r"), folder.path()).unwrap();
        let fake = Arc::new(Fake::default());
        fake.agent_says("guest-fsfreeze-thaw", r#"{"return":1}"#);
        let hypervisor = fake.clone();
        let parts = Parts { hypervisor, root, lines: crate::console::lines().0, clock: crate::clock::now };
        let (handle, _driver) = drive(parts).unwrap();
        handle.name.set("vm".into()).unwrap();
        let due = Due { at: Instant::now(), tries: 0 };
        let alarm = Arc::new(Alarm {
            file: handle.root.thaw(),
            due: watch::Sender::new(Some(due)),
            asks: Mutex::default(),
            handle,
        });
        let asks = alarm.asks();
        let ringing = Arc::clone(&alarm);
        let rings = std::thread::spawn(move || ringing.on_alarm(due, AGAIN));
        happens(&alarm);
        let set = *alarm.due.borrow();
        drop(asks);
        rings.join().unwrap();
        let asked = fake.conversation().iter().filter(|said| said.ends_with("guest-fsfreeze-thaw")).count();
        assert_eq!(*alarm.due.borrow(), set.filter(|_| asked == 0), "the alarm afterwards");
        assert_eq!(alarm.file.exists(), asked == 0 && set.is_some(), "what a new launcher finds");
        asked
    }

    #[tokio::test]
    async fn an_alarm_that_rings_while_file_systems_are_frozen_anew_leaves_them_frozen() {
        assert_eq!(thaws_after(|_| {}).await, 1);
        assert_eq!(thaws_after(|alarm| alarm.set(Some(LONGEST_FREEZE))).await, 0);
        assert_eq!(thaws_after(|alarm| alarm.set(None)).await, 0);
    }

    #[test]
    fn a_kept_alarm_is_never_longer_than_a_freeze_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("thaw.json");
        assert_eq!(stored_alarm(&file).unwrap(), None);
        for (at, most) in [("2026-01-01T00:00:00Z", Duration::ZERO), ("2999-01-01T00:00:00Z", LONGEST_FREEZE)]
        {
            fs::write(&file, format!(r#"{{"at":"{at}"}}"#)).unwrap();
            let before = Instant::now();
            let due = stored_alarm(&file).unwrap().unwrap().at;
            assert!(due >= before + most && due <= Instant::now() + most, "{at}");
        }
        for broken in ["", "{}", r#"{"at":"soon"}"#] {
            fs::write(&file, broken).unwrap();
            stored_alarm(&file).unwrap_err();
        }
    }
}
