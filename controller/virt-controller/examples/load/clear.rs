//! Takes VMIs and pods of a namespace away, whoever holds them.

use crate::speaker::{JSON, MERGE, Speaker, core, vmis};
use crate::{AT_ONCE, Fault, Result};
use cluster_model::metadata::FENCING;
use futures_util::{TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longer than it ever takes.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn run(space: &str) -> Result<Value> {
    // It may let go of what it holds, and no webhook is asked of that.
    let (administrator, controller) = (Speaker::administrator().await?, Speaker::controller().await?);
    let (path, pods) = (vmis(space), core(space, "pods"));
    let free = json!({"metadata": {"finalizers": null}});
    patch_all(&administrator.get(&path).await?, &controller, &path, &free).await?;
    // Without this word nobody deletes a launcher pod by force, which is how kwok deletes any.
    let word = json!({"metadata": {"annotations": {FENCING: "off"}}});
    patch_all(&administrator.get(&pods).await?, &administrator, &pods, &word).await?;
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let begin = Instant::now();
    for path in [&path, &pods] {
        administrator.send(Method::DELETE, path, JSON, &now).await?;
        while !is_empty(&administrator, path).await? {
            if begin.elapsed() > PATIENCE {
                return Err(format!("{path} is not empty after {PATIENCE:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(json!({"seconds": begin.elapsed().as_secs_f64()}))
}

/// Changes each object of a list, which is at this path.
async fn patch_all(list: &Value, speaker: &Speaker, path: &str, change: &Value) -> Result<()> {
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|one| one["metadata"]["name"].as_str());
    let each = stream::iter(names.map(Ok::<_, Fault>));
    each.try_for_each_concurrent(AT_ONCE, |name| async move {
        speaker.send(Method::PATCH, &format!("{path}/{name}"), MERGE, change).await.map(drop)
    })
    .await
}

async fn is_empty(administrator: &Speaker, path: &str) -> Result<bool> {
    let list = administrator.get(&format!("{path}?limit=1")).await?;
    Ok(list["items"].as_array().is_none_or(Vec::is_empty))
}
