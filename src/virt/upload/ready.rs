//! Waits for an upload pod: before the first byte, and again after an upload broke off.
//!
//! ```text
//!  every 2 s: GET DataVolume or PVC ─► Stage ─┬─ Ready ─► the upload begins
//!                                             ├─ Waits ─► does an Event say why? then the end, else waits on
//!                                             └─ Failed, or after --wait-secs ─► the end, with the last reason
//! ```

use super::events::check_events;
use super::stage::{Stage, UNBOUND};
use super::{UploadContext, UploadParams, doing};
use crate::error::{Error, Result};
use crate::virt::client::Cluster;
use crate::virt::json::phase;
use cluster_model::objects::Kind;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// First interval between two reads of the target.
const SHORTEST: Duration = Duration::from_millis(100);
/// Longest interval between two reads of the target, and the interval while it does not exist.
const INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of consecutive failures of the API server.
const ABSENCES: u32 = 5;

/// Waits until the upload pod is ready.
pub(crate) async fn wait_for_pod(context: UploadContext<'_>) -> Result<()> {
    let UploadContext { cluster, params, observer } = context;
    let until = Instant::now() + params.patience;
    let (mut target, mut pace) = (TargetReader::new(context), Pace::new());
    let (mut is_announced, mut reads_events) = (false, true);
    loop {
        let object = target.read().await?;
        let waits = match &object {
            Some(Some(object)) => match stage(object, params)? {
                Stage::Ready => {
                    return if is_announced { observer.out("Pod now ready\n") } else { Ok(()) };
                }
                Stage::Done => {
                    let what = format!("PVC {} already successfully imported/cloned/updated", params.name);
                    return Err(Error::failed(what));
                }
                Stage::Failed(told) => return Err(Error::failed(format!("{}: {told}", target.doing))),
                Stage::Waits(told) => told,
            },
            Some(None) => {
                if params.kind == Kind::DataVolume {
                    observer.out(&format!("DV {} not found... \n", params.name))?;
                }
                format!("there is no {} {} yet", params.kind, params.name)
            }
            None => "the API server does not answer".to_owned(),
        };
        if let Some(Some(object)) = &object {
            if reads_events {
                reads_events = check_events(context, object).await?;
            }
            if !is_announced {
                observer.out(&format!("Waiting for PVC {} upload pod to be ready...\n", params.name))?;
                is_announced = true;
            }
        }
        target.say(&waits);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(params, cluster, &waits));
        }
        sleep(left.min(pace.pause(matches!(object, Some(Some(_)))))).await;
    }
}

/// Waits after a broken upload until it can be resumed. True if the disk is complete already.
pub(super) async fn is_done_meanwhile(context: UploadContext<'_>) -> Result<bool> {
    let UploadContext { cluster, params, .. } = context;
    let until = Instant::now() + params.patience;
    let (mut target, mut pace) = (TargetReader::new(context), Pace::new());
    loop {
        // An API server that is down says nothing about the upload proxy.
        let Ok(Some(object)) = cluster.find(&target.path).await else { return Ok(false) };
        let waits = match Stage::of(params.kind, &object) {
            Stage::Ready => return Ok(false),
            Stage::Done => return Ok(true),
            Stage::Failed(told) => return Err(Error::failed(format!("{}: {told}", target.doing))),
            Stage::Waits(told) => told,
        };
        target.say(&waits);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(params, cluster, &waits));
        }
        sleep(left.min(pace.pause(true))).await;
    }
}

/// Growing pause between two reads: most waits are short, and a long one must not load the API server.
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn new() -> Pace {
        Pace(SHORTEST)
    }

    /// The next pause. `is_seen` is true if the object existed at this read.
    pub(super) fn pause(&mut self, is_seen: bool) -> Duration {
        let longer = self.0.saturating_mul(2).min(INTERVAL);
        if is_seen { std::mem::replace(&mut self.0, longer) } else { INTERVAL }
    }
}

/// Repeated reads of the upload's target.
struct TargetReader<'a> {
    context: UploadContext<'a>,
    path: String,
    doing: String,
    absences: u32,
    said: String,
}

impl<'a> TargetReader<'a> {
    fn new(context: UploadContext<'a>) -> TargetReader<'a> {
        let UploadContext { cluster, params, .. } = context;
        let path = params.kind.object(cluster.namespace(), &params.name);
        TargetReader { context, path, doing: doing(params, cluster), absences: 0, said: String::new() }
    }

    /// The target: `Some(None)` if it does not exist; `None` if the API server fails for a moment.
    async fn read(&mut self) -> Result<Option<Option<Value>>> {
        match self.context.cluster.find(&self.path).await {
            Ok(object) => {
                self.absences = 0;
                Ok(Some(object))
            }
            Err(e) if e.is_temporary() && self.absences < ABSENCES => {
                self.absences += 1;
                Ok(None)
            }
            Err(e) => Err(e.into_error(&self.doing)),
        }
    }

    /// Reports a reason to wait, once.
    fn say(&mut self, waits: &str) {
        if self.said != waits {
            self.context.observer.waits(waits);
            waits.clone_into(&mut self.said);
        }
    }
}

fn stage(object: &Value, params: &UploadParams) -> Result<Stage> {
    let phase = phase(object);
    if params.kind == Kind::DataVolume && UNBOUND.contains(&phase) && !params.force_bind {
        return Err(Error::failed(format!(
            "cannot upload to DataVolume in {phase} phase, make sure the PVC is Bound, or use force-bind flag"
        )));
    }
    Ok(Stage::of(params.kind, object))
}

/// Error of the timeout, with the last reason to wait. virtctl says "timed out waiting for the condition"
/// instead.
fn late(params: &UploadParams, cluster: &Cluster, waits: &str) -> Error {
    let (kind, name, namespace) = (params.kind, &params.name, cluster.namespace());
    let seconds = params.patience.as_secs();
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
    use super::super::params::tests::plain;
    use super::*;
    use crate::error::ErrorKind;
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
            let forced = UploadParams { force_bind: true, ..plain() };
            assert!(matches!(stage(&object, &forced), Ok(Stage::Waits(_))));
        }
    }
}
