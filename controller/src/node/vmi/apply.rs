//! What the node agent writes to the API server: the status of its instances, and events. Nothing else does.

use super::decide::{Event, Now};
use crate::node::error::{Error, Kind, Result};
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use http::{Method, Request};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Where statuses and events are written to.
pub trait Cluster: Send + Sync + 'static {
    /// Changes an instance. Gives back the object as it is then; nothing when it is another by now, or gone.
    fn change(&self, vmi: &ObjectMeta, patch: &[Value])
    -> impl Future<Output = Result<Option<Value>>> + Send;

    /// Tells people of an instance. What cannot be told is logged.
    fn tell(&self, vmi: &ObjectMeta, event: &Event) -> impl Future<Output = ()> + Send;
}

/// The API server.
#[derive(Clone)]
pub struct ApiServer {
    client: kube::Client,
    node: String,
}

/// Tells apart the events of one second.
static EVENTS: AtomicU64 = AtomicU64::new(0);

impl ApiServer {
    /// For the agent of a node.
    pub fn new(client: kube::Client, node: &str) -> ApiServer {
        ApiServer { client, node: node.to_owned() }
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Value, kube::Error> {
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, kind);
        let request = request.body(body).map_err(kube::Error::HttpError)?;
        let verb = request.method().to_string();
        let began = Instant::now();
        let answer = self.client.request(request).await;
        crate::metrics::request(&verb, began, Some(answer.as_ref()));
        answer
    }
}

impl Cluster for ApiServer {
    async fn change(&self, vmi: &ObjectMeta, patch: &[Value]) -> Result<Option<Value>> {
        let (namespace, name) = names(vmi);
        let path = format!("/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{name}");
        let body = Value::Array(patch.to_vec());
        match self.send(Method::PATCH, &path, "application/json-patch+json", &body).await {
            Ok(object) => Ok(Some(object)),
            // A test of the patch failed, or the object is gone: whoever asked looks again.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) || is_failed_test(&status) => {
                tracing::debug!("{namespace}/{name} changed meanwhile: {}", status.message);
                Ok(None)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                let what = format!("the status of {namespace}/{name} is refused by the API server");
                Err(Error::new(Kind::Refused, what).because(status.message.clone()))
            }
            Err(e) => Err(Error::failed(format!("cannot write the status of {namespace}/{name}")).because(e)),
        }
    }

    async fn tell(&self, vmi: &ObjectMeta, event: &Event) {
        let (namespace, name) = names(vmi);
        let now = super::watch::now();
        let number = EVENTS.fetch_add(1, Ordering::Relaxed);
        let body = event_of(vmi, event, &self.node, &now, number);
        let path = format!("/api/v1/namespaces/{namespace}/events");
        if let Err(e) = self.send(Method::POST, &path, "application/json", &body).await {
            tracing::warn!("cannot tell of {namespace}/{name} that {}: {e}", event.message);
        }
    }
}

/// The server says 422 of a patch whose test failed, and of an object that is refused; the text tells which.
fn is_failed_test(status: &kube::core::Status) -> bool {
    let said = ["testing value", "test operation", "rejected our request due to an error in our request"];
    status.code == 422 && said.iter().any(|words| status.message.contains(words))
}

fn names(vmi: &ObjectMeta) -> (&str, &str) {
    (vmi.namespace.as_deref().unwrap_or("default"), vmi.name.as_deref().unwrap_or_default())
}

/// An event of `v1`.
fn event_of(vmi: &ObjectMeta, event: &Event, node: &str, now: &Now, number: u64) -> Value {
    let (namespace, name) = names(vmi);
    // As Kubernetes names them: object, a dot, something of one kind.
    let nanos = Timestamp::now().as_nanosecond();
    let short = super::bounds::text(&event.message, 1000);
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{nanos:x}{number:x}"), "namespace": namespace},
        "involvedObject": {
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "name": name, "namespace": namespace, "uid": vmi.uid, "resourceVersion": vmi.resource_version
        },
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason, "message": short,
        "source": {"component": "virt-handler", "host": node},
        "reportingComponent": "virt-handler", "reportingInstance": node,
        "firstTimestamp": now.text, "lastTimestamp": now.text, "count": 1
    })
}

/// The instance as an object of the server says it is.
pub fn read(object: Value) -> Result<VirtualMachineInstance> {
    api::wire::read(object).map_err(|faults| {
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Error::refused(format!("an instance of the API server is not understood: {}", all.join("; ")))
    })
}
