//! Waits for the disk after its last byte was sent.

use super::annotations::POD_PHASE;
use super::ready::Pace;
use super::stage::describe_claim;
use super::{UploadContext, doing};
use crate::error::{Error, Result};
use crate::virt::json::annotation;
use cluster_model::objects::Kind;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Timeout until the disk is complete.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of consecutive failures of the API server.
const ABSENCES: u32 = 30;

/// Waits until the disk is complete.
pub(crate) async fn wait_for_disk(
    UploadContext { cluster, params, observer }: UploadContext<'_>,
) -> Result<()> {
    let path = Kind::PersistentVolumeClaim.object(cluster.namespace(), &params.name);
    let what =
        format!("{}: all bytes are sent, but the disk is not known to be complete", doing(params, cluster));
    let until = Instant::now() + LONGEST;
    let (mut said, mut absences, mut pace) = (String::new(), 0, Pace::new());
    loop {
        match cluster.get(&path).await {
            Ok(pvc) => {
                absences = 0;
                match after(&pvc) {
                    After::Whole => return observer.out("Processing completed successfully\n"),
                    After::Failed(told) => return Err(Error::failed(format!("{what}: {told}"))),
                    After::Waits(told) if told != said => {
                        observer.waits(&told);
                        said = told;
                    }
                    After::Waits(_) => {}
                }
            }
            Err(e) if e.is_temporary() && absences < ABSENCES => absences += 1,
            Err(e) => return Err(e.into_error(&what)),
        }
        if Instant::now() >= until {
            observer.out(
                "Timed out waiting for post upload processing to complete, please check upload pod status for progress\n",
            )?;
            let hours = LONGEST.as_secs() / 3600;
            return Err(Error::failed(format!("{what} after {hours} h: {said}")));
        }
        sleep(pace.pause(absences == 0)).await;
    }
}

#[derive(Debug, PartialEq, Eq)]
enum After {
    Whole,
    Waits(String),
    Failed(String),
}

fn after(pvc: &Value) -> After {
    match annotation(pvc, POD_PHASE) {
        Some("Succeeded") => After::Whole,
        Some("Failed") => After::Failed(describe_claim(pvc)),
        _ => After::Waits(describe_claim(pvc)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_phase_of_the_pod_is_the_end() {
        let after = |phase: Value| after(&json!({"metadata": {"annotations": {POD_PHASE: phase}}}));
        assert_eq!(after(json!("Succeeded")), After::Whole);
        assert!(matches!(after(json!("Failed")), After::Failed(told) if told.contains("Failed")));
        for phase in [json!("Running"), json!(""), Value::Null] {
            assert!(matches!(after(phase), After::Waits(_)));
        }
    }
}
