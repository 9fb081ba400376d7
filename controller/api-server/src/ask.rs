//! Questions that change nothing.

use super::request::{JSON, send};
use crate::error::Result;
use http::Request;
use kubernetes::objects::{Key, Kind};
use serde_json::{Value, json};
use std::time::Duration;

/// How long the API server may take to answer: somebody waits for us.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether there is any object of a kind.
pub async fn has_any(client: &kube::Client, kind: Kind) -> Result<bool> {
    let request = Request::get(format!("{}?limit=1", kind.collection("")));
    let list = send(client, "list", &Key::new(kind, "", "(all)"), request, None, PATIENCE).await?;
    Ok(list["items"].as_array().is_some_and(|items| !items.is_empty()))
}

/// The status of a review, which is asked by creating it.
pub async fn review(client: &kube::Client, kind: Kind, spec: &Value) -> Result<Value> {
    let object = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {}, "spec": spec});
    let request = Request::post(kind.collection(""));
    let key = Key::new(kind, "", "(new)");
    let mut answer = send(client, "create", &key, request, Some((JSON, &object)), PATIENCE).await?;
    Ok(answer["status"].take())
}
