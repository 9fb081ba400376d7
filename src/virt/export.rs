//! An export: a PVC of the cluster becomes a container image in a registry, by a pod of the cluster.
//!
//! ```text
//!  ExportParams ─► GET PVC ─┬─ the same is under way ─────────────────────────────► followed
//!                   └─ PATCH the annotations of the request, with an ID of its own ─► followed
//!
//!  every second: GET PVC ─► Stage ─┬─ Waits, Runs ─► message, progress
//!                                  ├─ Done ───────► the digest
//!                                  └─ Failed ─────► the end, with its reason
//! ```
//!
//! `api::job::export` documents the annotations. **Absent:** the bytes; none passes this computer.

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::json::annotation;
use api::cdi::annotations::{
    EXPORT_ASKS, EXPORT_DIGEST, EXPORT_ID, EXPORT_MESSAGE, EXPORT_PHASE, EXPORT_PROGRESS, EXPORT_REASON,
    EXPORT_REQUEST, EXPORT_TARGET,
};
use api::job::export::is_digest;
use api::quantity::Quantity;
use cluster_model::objects::Kind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep};

/// Interval between two reads of the PVC.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of consecutive failures of the API server.
const ABSENCES: u32 = 30;
/// Timeout for the first answer of virt-controller.
const SILENCE: Duration = Duration::from_secs(60);

/// A requested export of a PVC to an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportParams {
    /// Kind of the object that the user named: DataVolume or PersistentVolumeClaim.
    pub(crate) kind: Kind,
    /// Name of the object, and of its PVC.
    pub(crate) name: String,
    /// Annotations of the request, without its ID.
    pub(crate) asks: BTreeMap<&'static str, String>,
}

/// An export that was requested, or joined while it ran.
#[derive(Debug, Clone)]
pub(crate) struct ExportRequest {
    params: ExportParams,
    /// Request ID of an earlier answer, which must not be taken for the answer to this request.
    before: Option<String>,
    /// True if the same export ran already.
    pub(crate) is_joined: bool,
}

/// Progress of an export in bytes of the volume.
#[derive(Debug, Default)]
pub(crate) struct ExportProgress {
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
}

impl ExportParams {
    /// Prefix of the object's name on the command line.
    pub(crate) fn word(&self) -> &'static str {
        if self.kind == Kind::DataVolume { "dv" } else { "pvc" }
    }

    /// Name of the target image.
    pub(crate) fn target(&self) -> &str {
        self.asks.get(EXPORT_TARGET).map_or("", String::as_str)
    }

    fn doing(&self, cluster: &Cluster) -> String {
        format!("cannot export {} {} of namespace {}", self.kind, self.name, cluster.namespace())
    }
}

/// Requests an export, or joins a running one with the same request.
pub(crate) async fn ask(cluster: &Cluster, params: &ExportParams) -> Result<ExportRequest> {
    let doing = params.doing(cluster);
    let find = async |kind: Kind| cluster.find(&kind.object(cluster.namespace(), &params.name)).await;
    let missing = |kind: Kind| {
        Error::new(ErrorKind::NotFound, format!("{doing}: there is no {kind} {}", params.name)).with_hint(
            format!("'kubectl get {} -n {}' lists those there are", params.word(), cluster.namespace()),
        )
    };
    let claim = find(Kind::PersistentVolumeClaim).await.map_err(|e| e.into_error(&doing))?;
    let claim = claim.ok_or_else(|| missing(Kind::PersistentVolumeClaim))?;
    let object = match params.kind {
        Kind::DataVolume => {
            if annotation(&claim, EXPORT_TARGET).is_some() {
                let what =
                    format!("{doing}: its PVC has an export request of its own, which takes precedence");
                return Err(Error::refused(what).with_hint(format!("say pvc/{}", params.name)));
            }
            find(Kind::DataVolume)
                .await
                .map_err(|e| e.into_error(&doing))?
                .ok_or_else(|| missing(Kind::DataVolume))?
        }
        _ => claim.clone(),
    };
    let before = annotation(&claim, EXPORT_REQUEST).map(str::to_owned);
    let is_under_way = matches!(annotation(&claim, EXPORT_PHASE), Some("Pending" | "Running"));
    if is_under_way && is_same(&object, params) {
        return Ok(ExportRequest { params: params.clone(), before: None, is_joined: true });
    }
    let path = params.kind.object(cluster.namespace(), &params.name);
    cluster.patch(&path, &change(params, &id())).await.map_err(|e| e.into_error(&doing))?;
    Ok(ExportRequest { params: params.clone(), before, is_joined: false })
}

/// True if the object's annotations have the same request.
fn is_same(object: &Value, params: &ExportParams) -> bool {
    let names = EXPORT_ASKS.into_iter().filter(|name| *name != EXPORT_ID);
    names.into_iter().all(|name| annotation(object, name) == params.asks.get(name).map(String::as_str))
}

/// Merge patch of the request. It removes annotations of an earlier one.
fn change(params: &ExportParams, id: &str) -> Value {
    let value = |name: &str| match name {
        EXPORT_ID => json!(id),
        name => json!(params.asks.get(name)),
    };
    let notes: Map<String, Value> =
        EXPORT_ASKS.iter().map(|name| ((*name).to_owned(), value(name))).collect();
    json!({"metadata": {"annotations": notes}})
}

/// A new request ID.
fn id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", now.as_nanos(), std::process::id())
}

/// Follows an export to its end. Returns the digest of the image.
pub(crate) async fn follow(
    cluster: &Cluster,
    asked: &ExportRequest,
    seen: &Arc<ExportProgress>,
) -> Result<String> {
    let params = &asked.params;
    let path = Kind::PersistentVolumeClaim.object(cluster.namespace(), &params.name);
    let (mut said, mut absences, mut heard) = (String::new(), 0, Instant::now());
    loop {
        match cluster.get(&path).await {
            Ok(claim) => {
                absences = 0;
                let stage = Stage::of(&claim, asked.before.as_deref());
                if stage != Stage::Unheard {
                    heard = Instant::now();
                }
                match stage {
                    Stage::Done(digest) => return Ok(digest),
                    Stage::Failed(kind, told) => {
                        return Err(Error::new(kind, format!("{}: {told}", params.doing(cluster))));
                    }
                    Stage::Runs(percent) => {
                        let total = capacity(&claim);
                        seen.total.store(total, Relaxed);
                        seen.done.store(total / 100 * percent, Relaxed);
                        said.clear();
                    }
                    Stage::Waits(told) if told != said => {
                        ui::say(&format!("coracle: waits: {told}"));
                        said = told;
                    }
                    Stage::Waits(_) => {}
                    Stage::Unheard if heard.elapsed() >= SILENCE => {
                        let what =
                            format!("{}: virt-controller does not answer the request", params.doing(cluster));
                        let hint = "is the control plane installed, and does virt-controller run?";
                        return Err(Error::failed(what).with_hint(hint));
                    }
                    Stage::Unheard => {}
                }
            }
            Err(e) if e.is_temporary() && absences < ABSENCES => absences += 1,
            Err(e) => return Err(e.into_error(&params.doing(cluster))),
        }
        sleep(INTERVAL).await;
    }
}

/// Progress of an export by the annotations of its PVC. Pure.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// virt-controller has not answered the request yet.
    Unheard,
    Waits(String),
    /// Progress in percent of the volume.
    Runs(u64),
    Done(String),
    Failed(ErrorKind, String),
}

impl Stage {
    /// The stage of a PVC. `before` is the ID of an earlier answer, to be ignored.
    fn of(claim: &Value, before: Option<&str>) -> Stage {
        let request = annotation(claim, EXPORT_REQUEST);
        if request.is_none() || request == before {
            return Stage::Unheard;
        }
        let message = || {
            let text = |name| annotation(claim, name).unwrap_or_default();
            let told = match text(EXPORT_MESSAGE) {
                "" => text(EXPORT_REASON),
                message => message,
            };
            printable::line(told)
        };
        match annotation(claim, EXPORT_PHASE) {
            Some("Succeeded") => match annotation(claim, EXPORT_DIGEST).filter(|digest| is_digest(digest)) {
                Some(digest) => Stage::Done(digest.to_owned()),
                None => {
                    Stage::Failed(ErrorKind::Failed, "it succeeded without reporting a digest".to_owned())
                }
            },
            Some("Failed") => {
                let kind = match annotation(claim, EXPORT_REASON).unwrap_or_default() {
                    "Forbidden" => ErrorKind::Auth,
                    "NotFound" => ErrorKind::NotFound,
                    "InvalidRequest" | "InvalidJob" | "Refused" | "Unsupported" => ErrorKind::Refused,
                    _ => ErrorKind::Failed,
                };
                Stage::Failed(kind, message())
            }
            Some("Running") => {
                let percent =
                    annotation(claim, EXPORT_PROGRESS).and_then(|text| text.strip_suffix('%')?.parse().ok());
                Stage::Runs(percent.unwrap_or(0).min(100))
            }
            _ => Stage::Waits(message()),
        }
    }
}

/// Capacity of a PVC in bytes.
fn capacity(claim: &Value) -> u64 {
    let text = claim["status"]["capacity"]["storage"].as_str().unwrap_or_default();
    Quantity::parse(text).ok().and_then(|size| size.bytes()).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> ExportParams {
        let asks = [(EXPORT_TARGET, "docker://registry.example/os:1".to_owned())].into();
        ExportParams { kind: Kind::PersistentVolumeClaim, name: "d".to_owned(), asks }
    }

    #[test]
    fn a_request_takes_the_place_of_the_one_before() {
        let change = change(&params(), "7");
        let notes = change["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(notes.len(), EXPORT_ASKS.len());
        let told: Vec<&String> =
            notes.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name).collect();
        assert_eq!(told, [EXPORT_ID, EXPORT_TARGET]);
        assert_ne!(id(), {
            std::thread::sleep(Duration::from_millis(1));
            id()
        });
    }

    #[test]
    fn the_same_request_is_known_whatever_its_id_is() {
        let object = |notes: Value| json!({"metadata": {"annotations": notes}});
        let target = "docker://registry.example/os:1";
        assert!(is_same(&object(json!({EXPORT_TARGET: target, EXPORT_ID: "1", "other": "x"})), &params()));
        assert!(!is_same(&object(json!({EXPORT_TARGET: "docker://registry.example/os:2"})), &params()));
        let format = "cdi.kubevirt.io/storage.export.format";
        assert!(!is_same(&object(json!({EXPORT_TARGET: target, format: "raw"})), &params()));
    }

    #[test]
    fn the_answer_to_another_request_is_none() {
        let stage = |notes: Value, before| Stage::of(&json!({"metadata": {"annotations": notes}}), before);
        assert_eq!(stage(json!({}), None), Stage::Unheard);
        let done = json!({EXPORT_REQUEST: "1", EXPORT_PHASE: "Succeeded", EXPORT_DIGEST: format!("sha256:{}", "0a".repeat(32))});
        assert_eq!(stage(done.clone(), Some("1")), Stage::Unheard);
        assert_eq!(stage(done, Some("2")), Stage::Done(format!("sha256:{}", "0a".repeat(32))));
        let runs = json!({EXPORT_REQUEST: "1", EXPORT_PHASE: "Running", EXPORT_PROGRESS: "42%"});
        assert_eq!(stage(runs, None), Stage::Runs(42));
        let waits =
            json!({EXPORT_REQUEST: "1", EXPORT_PHASE: "Pending", EXPORT_MESSAGE: "VMI web uses it\u{1b}[2J"});
        assert_eq!(stage(waits, None), Stage::Waits("VMI web uses it [2J".to_owned()));
        for (reason, kind) in [
            ("Forbidden", ErrorKind::Auth),
            ("NotFound", ErrorKind::NotFound),
            ("InvalidRequest", ErrorKind::Refused),
            ("Error", ErrorKind::Failed),
        ] {
            let failed = json!({EXPORT_REQUEST: "1", EXPORT_PHASE: "Failed", EXPORT_REASON: reason, EXPORT_MESSAGE: "why"});
            assert_eq!(stage(failed, None), Stage::Failed(kind, "why".to_owned()));
        }
        let odd = json!({EXPORT_REQUEST: "1", EXPORT_PHASE: "Succeeded", EXPORT_DIGEST: "x"});
        assert!(matches!(stage(odd, None), Stage::Failed(ErrorKind::Failed, _)));
    }
}
