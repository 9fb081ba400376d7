//! The wait for an upload pod: before the first byte, and again when an upload broke off.
//!
//! ```text
//!  every 2 s: GET DataVolume or PVC ─► Stage ─┬─ Ready ─► the upload begins
//!                                             ├─ Waits ─► is an Event to blame? then the end, else said and waited on
//!                                             └─ Failed, or --wait-secs are over ─► the end, with what it waited for
//! ```

use super::events::blamed;
use super::stage::{Stage, UNBOUND, phase};
use super::{Errand, Wish, doing};
use crate::virt::client::{Cluster, Failure};
use crate::virt::object::Kind;
use cdi::{Error, Result};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between the first two looks.
const SHORTEST: Duration = Duration::from_millis(100);
/// Between two looks at what takes long, or where nothing is to be seen.
const INTERVAL: Duration = Duration::from_secs(2);
/// How many times in a row the API server may be away.
const ABSENCES: u32 = 5;

/// Waits until the upload pod takes an upload.
pub(crate) async fn wait_for_pod(errand: Errand<'_>) -> Result<()> {
    let Errand { cluster, wish, hears } = errand;
    let until = Instant::now() + wish.patience;
    let (mut look, mut pace) = (Look::new(errand), Pace::new());
    let (mut is_announced, mut reads_events) = (false, true);
    loop {
        let object = look.at_target().await?;
        let waits = match &object {
            Some(Some(object)) => match stage(object, wish)? {
                Stage::Ready => {
                    return if is_announced { hears.out("Pod now ready\n") } else { Ok(()) };
                }
                Stage::Done => {
                    let what = format!("PVC {} already successfully imported/cloned/updated", wish.name);
                    return Err(Error::failed(what));
                }
                Stage::Failed(told) => return Err(Error::failed(format!("{}: {told}", look.doing))),
                Stage::Waits(told) => told,
            },
            Some(None) => {
                if wish.kind == Kind::DataVolume {
                    hears.out(&format!("DV {} not found... \n", wish.name))?;
                }
                format!("there is no {} {} yet", wish.kind, wish.name)
            }
            None => "the API server does not answer".to_owned(),
        };
        if let Some(Some(object)) = &object {
            if reads_events {
                reads_events = blamed(errand, object).await?;
            }
            if !is_announced {
                hears.out(&format!("Waiting for PVC {} upload pod to be ready...\n", wish.name))?;
                is_announced = true;
            }
        }
        look.say(&waits);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(wish, cluster, &waits));
        }
        sleep(left.min(pace.pause(matches!(object, Some(Some(_)))))).await;
    }
}

/// After an upload broke off: waits until it can go on. True, where there is nothing left to send.
pub(super) async fn is_done_meanwhile(errand: Errand<'_>) -> Result<bool> {
    let Errand { cluster, wish, .. } = errand;
    let until = Instant::now() + wish.patience;
    let (mut look, mut pace) = (Look::new(errand), Pace::new());
    loop {
        // An API server that is away says nothing about the upload proxy.
        let Ok(Some(object)) = cluster.find(&look.path).await else { return Ok(false) };
        let waits = match Stage::of(wish.kind, &object) {
            Stage::Ready => return Ok(false),
            Stage::Done => return Ok(true),
            Stage::Failed(told) => return Err(Error::failed(format!("{}: {told}", look.doing))),
            Stage::Waits(told) => told,
        };
        look.say(&waits);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(wish, cluster, &waits));
        }
        sleep(left.min(pace.pause(true))).await;
    }
}

/// How long it is until the next look: most waits are short, and the API server is asked less the longer one takes.
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn new() -> Pace {
        Pace(SHORTEST)
    }

    /// `is_seen`: the object was there at this look.
    pub(super) fn pause(&mut self, is_seen: bool) -> Duration {
        let longer = self.0.saturating_mul(2).min(INTERVAL);
        if is_seen { std::mem::replace(&mut self.0, longer) } else { INTERVAL }
    }
}

/// Looks at the target again and again.
struct Look<'a> {
    errand: Errand<'a>,
    path: String,
    doing: String,
    absences: u32,
    said: String,
}

impl<'a> Look<'a> {
    fn new(errand: Errand<'a>) -> Look<'a> {
        let Errand { cluster, wish, .. } = errand;
        let path = wish.kind.one(cluster.namespace(), &wish.name);
        Look { errand, path, doing: doing(wish, cluster), absences: 0, said: String::new() }
    }

    /// The target, where it is there; nothing where the API server is away for a moment.
    async fn at_target(&mut self) -> Result<Option<Option<Value>>> {
        match self.errand.cluster.find(&self.path).await {
            Ok(object) => {
                self.absences = 0;
                Ok(Some(object))
            }
            Err(e) if is_away(&e) && self.absences < ABSENCES => {
                self.absences += 1;
                Ok(None)
            }
            Err(e) => Err(e.of(&self.doing)),
        }
    }

    /// Says it once.
    fn say(&mut self, waits: &str) {
        if self.said != waits {
            self.errand.hears.waits(waits);
            waits.clone_into(&mut self.said);
        }
    }
}

/// Whether a failure may be over at the next look.
pub(super) fn is_away(failure: &Failure) -> bool {
    matches!(failure.code(), 0 | 429 | 500..)
}

fn stage(object: &Value, wish: &Wish) -> Result<Stage> {
    let phase = phase(object);
    if wish.kind == Kind::DataVolume && UNBOUND.contains(&phase) && !wish.force_bind {
        return Err(Error::failed(format!(
            "cannot upload to DataVolume in {phase} phase, make sure the PVC is Bound, or use force-bind flag"
        )));
    }
    Ok(Stage::of(wish.kind, object))
}

/// What it waited for, in place of "timed out waiting for the condition".
fn late(wish: &Wish, cluster: &Cluster, waits: &str) -> Error {
    let (kind, name, namespace) = (wish.kind, &wish.name, cluster.namespace());
    let seconds = wish.patience.as_secs();
    let what = format!(
        "the upload pod of {kind} {name} in namespace {namespace} was not ready within {seconds} s: {waits}"
    );
    Error::failed(what).with_hint(format!(
        "'kubectl describe {} {name} -n {namespace}' shows its events; --wait-secs waits longer",
        if kind == Kind::DataVolume { "dv" } else { "pvc" }
    ))
}

#[cfg(test)]
mod tests {
    use super::super::wish::tests::plain;
    use super::*;
    use cdi::ErrorKind;
    use serde_json::json;

    #[test]
    fn looks_are_close_at_first_and_far_where_nothing_is_seen() {
        let mut pace = Pace::new();
        let ms = |pause: Duration| pause.as_millis();
        assert_eq!(ms(pace.pause(false)), 2000);
        let pauses: Vec<_> = (0..7).map(|_| ms(pace.pause(true))).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(ms(pace.pause(false)), 2000);
    }

    #[test]
    fn a_volume_that_waits_for_its_first_pod_is_refused_unless_it_is_bound_at_once() {
        for phase in ["WaitForFirstConsumer", "PendingPopulation"] {
            let object = json!({"status": {"phase": phase}});
            let error = stage(&object, &plain()).unwrap_err();
            let wanted = format!(
                "cannot upload to DataVolume in {phase} phase, make sure the PVC is Bound, or use force-bind flag"
            );
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Failed, wanted));
            let forced = Wish { force_bind: true, ..plain() };
            assert!(matches!(stage(&object, &forced), Ok(Stage::Waits(_))));
        }
    }
}
