//! Requests that change nothing.

use super::request::{JSON, send};
use crate::error::Result;
use cluster_model::objects::{Key, Kind};
use http::Request;
use serde_json::{Value, json};
use std::time::Duration;

/// Time-out of a request. It is short, because a client waits for the program's own answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of listed objects, for kinds with few objects.
const FEW: usize = 50;

/// True if there is any object of a kind.
pub async fn has_any(client: &kube::Client, kind: Kind) -> Result<bool> {
    let request = Request::get(format!("{}?limit=1", kind.collection("")));
    let list = send(client, "list", &Key::new(kind, "", "(all)"), request, None, PATIENCE).await?;
    Ok(list["items"].as_array().is_some_and(|items| !items.is_empty()))
}

/// The objects of a kind in a namespace, for kinds with few objects.
pub async fn list_few(client: &kube::Client, kind: Kind, namespace: &str) -> Result<Vec<Value>> {
    let request = Request::get(format!("{}?limit={FEW}", kind.collection(namespace)));
    let mut list = send(client, "list", &Key::new(kind, namespace, "(all)"), request, None, PATIENCE).await?;
    Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// The status of a review, which is requested by creating it.
pub async fn review(client: &kube::Client, kind: Kind, spec: &Value) -> Result<Value> {
    let object = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {}, "spec": spec});
    let request = Request::post(kind.collection(""));
    let key = Key::new(kind, "", "(new)");
    let mut answer = send(client, "create", &key, request, Some((JSON, &object)), PATIENCE).await?;
    Ok(answer["status"].take())
}
