//! Leader election: the replica that holds the Lease acts.
//!
//! ```text
//!  no holder, or its holder has been silent for 15 s (by our own clock) ─► take it ─► act
//!  held by us: renewed every 3 s; not renewed for 10 s ─► stop acting (the program exits and restarts)
//!  the acting task gives no sign of life for 60 s ─► the same
//! ```
//!
//! A separate task renews the Lease: a long decision for one tenant is not a reason to change the leader,
//! since the next leader would have the same decision to make.
//!
//! The times of two computers are never compared: a holder is silent if *this* replica has seen no change for
//! so long. A leader that wakes up late changes nothing more: its [`Writer`] looks at the [`Tenure`] before each change. A
//! request that is on its way meanwhile is guarded by versions, uids and names, and by a second look before a guest begins.

use crate::error::{Error, ErrorKind, Result};
use crate::tenure::{LATE, SinceBoot, Tenure};
use crate::{Server as _, Writer};
use cluster_model::objects::{Key, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after which a silent holder loses the Lease.
const HELD: Duration = Duration::from_secs(15);
/// Interval of renewals and of attempts to acquire it.
const RENEW: Duration = Duration::from_secs(3);
/// Time without a sign of life after which the acting task counts as stuck.
const STUCK: Duration = Duration::from_secs(60);

/// Signs of life of the acting task. It counts as alive until the first one.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Mutex<Option<Instant>>>);

impl Pulse {
    /// Records a sign of life.
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn silent_for(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map_or(Duration::ZERO, |last| last.elapsed())
    }
}

/// A candidate for one Lease.
#[derive(Clone)]
pub struct Lease {
    writer: Writer,
    key: Key,
    identity: String,
    /// The last state seen, and the time since which it has not changed, by our clock.
    seen: Option<(Value, Instant)>,
    tenure: Tenure,
}

/// State of a Lease from this candidate's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ours,
    Free,
    Theirs,
}

impl Lease {
    /// A candidate. `identity` must be unique among the replicas.
    pub fn new(writer: Writer, namespace: &str, name: &str, identity: String) -> Lease {
        Lease {
            writer,
            key: Key::new(Kind::Lease, namespace, name),
            identity,
            seen: None,
            tenure: Tenure::default(),
        }
    }

    /// The time in which this candidate may act.
    pub fn tenure(&self) -> Tenure {
        self.tenure.clone()
    }

    /// Waits until the Lease is acquired.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!("{}", error.chain()),
            }
            tokio::time::sleep(RENEW).await;
        }
    }

    /// Renews the Lease while the task with this pulse is alive. Returns when it is lost.
    pub async fn renew_until_lost(&mut self, pulse: &Pulse) -> Error {
        let mut renewed = SinceBoot::now();
        loop {
            tokio::time::sleep(RENEW).await;
            if pulse.silent_for() >= STUCK {
                let what = format!(
                    "{} is released: the acting task gave no sign of life for {} s",
                    self.key,
                    STUCK.as_secs()
                );
                return Error::new(ErrorKind::Setup, what);
            }
            let attempt = tokio::time::timeout(LATE.saturating_sub(renewed.elapsed()), self.attempt()).await;
            match attempt {
                Ok(Ok(true)) => renewed = SinceBoot::now(),
                Ok(Ok(false)) => {
                    return Error::new(
                        ErrorKind::Conflict,
                        format!("{} was acquired by another replica", self.key),
                    );
                }
                Ok(Err(error)) => tracing::warn!("{}", error.chain()),
                Err(_) => {}
            }
            if renewed.elapsed() >= LATE {
                let what = format!("{} could not be renewed for {} s", self.key, LATE.as_secs());
                return Error::new(ErrorKind::Unreachable, what);
            }
        }
    }

    /// Releases the Lease, so that the next holder need not wait.
    pub async fn release(&mut self) {
        let Ok(lease) = self.writer.get(&self.key).await else { return };
        if lease["spec"]["holderIdentity"] == self.identity.as_str() {
            let change = json!({
                "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
                "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
            });
            if let Err(error) = self.writer.patch(&self.key, &change, None).await {
                tracing::warn!("{}", error.chain());
            }
        }
    }

    /// Acquires or renews the Lease if possible. Returns true if this candidate holds it.
    async fn attempt(&mut self) -> Result<bool> {
        let asked = SinceBoot::now();
        let is_ours = self.ask().await?;
        if is_ours {
            self.tenure.renew(asked);
        }
        Ok(is_ours)
    }

    async fn ask(&mut self) -> Result<bool> {
        let now = micro(Timestamp::now());
        let lease = match self.writer.get(&self.key).await {
            Ok(lease) => lease,
            Err(error) if error.kind() == ErrorKind::Gone => {
                let object = json!({
                    "apiVersion": Kind::Lease.api_version(),
                    "kind": Kind::Lease.name(),
                    "metadata": {"name": self.key.name, "namespace": self.key.namespace},
                    "spec": self.spec(&now, &now, 0),
                });
                return match self.writer.create(&self.key, &object).await {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind() == ErrorKind::Exists => Ok(false),
                    Err(error) => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        let spec = &lease["spec"];
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != spec) {
            self.seen = Some((spec.clone(), Instant::now()));
        }
        let silent = self.seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        let changes = spec["leaseTransitions"].as_u64().unwrap_or(0);
        let new = match state(spec, &self.identity, silent) {
            State::Theirs => return Ok(false),
            State::Ours => self.spec(&now, spec["acquireTime"].as_str().unwrap_or(&now), changes),
            State::Free => self.spec(&now, &now, changes + 1),
        };
        let change =
            json!({"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": new});
        match self.writer.patch(&self.key, &change, None).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn spec(&self, now: &str, since: &str, changes: u64) -> Value {
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": HELD.as_secs(),
            "acquireTime": since,
            "renewTime": now,
            "leaseTransitions": changes,
        })
    }
}

fn state(spec: &Value, identity: &str, silent: Duration) -> State {
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    let held = spec["leaseDurationSeconds"].as_u64().map_or(HELD, Duration::from_secs);
    match holder {
        "" => State::Free,
        holder if holder == identity => State::Ours,
        _ if silent > held => State::Free,
        _ => State::Theirs,
    }
}

/// A time in the format of Leases.
fn micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_holder_that_is_silent_for_long_loses_it() {
        let held = json!({"holderIdentity": "a", "leaseDurationSeconds": 15});
        let seconds = Duration::from_secs;
        assert_eq!(state(&held, "a", seconds(100)), State::Ours);
        assert_eq!(state(&held, "b", seconds(15)), State::Theirs);
        assert_eq!(state(&held, "b", seconds(16)), State::Free);
        assert_eq!(state(&json!({"holderIdentity": ""}), "b", seconds(0)), State::Free);
        assert_eq!(state(&Value::Null, "b", seconds(0)), State::Free);
    }

    #[tokio::test]
    async fn it_is_not_kept_for_a_task_that_is_stuck() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let writer = Writer::new(kube::Client::try_from(nowhere).unwrap(), "test");
        let mut lease = Lease::new(writer, "n", "lease", "one".to_owned());
        let pulse = Pulse::default();
        *pulse.0.lock().unwrap() = Instant::now().checked_sub(STUCK);
        let lost = lease.renew_until_lost(&pulse).await;
        assert!(lost.to_string().contains("no sign of life for 60 s"), "{lost}");
        pulse.beat();
        assert!(pulse.silent_for() < STUCK);
    }

    #[test]
    fn what_has_not_begun_to_act_is_not_stuck() {
        let pulse = Pulse::default();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(pulse.silent_for(), Duration::ZERO);
        pulse.beat();
        std::thread::sleep(Duration::from_millis(1));
        assert!(pulse.silent_for() > Duration::ZERO);
    }

    #[test]
    fn times_have_six_digits() {
        let time = Timestamp::from_second(0).unwrap();
        assert_eq!(micro(time), "1970-01-01T00:00:00.000000Z");
    }
}
