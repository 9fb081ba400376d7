//! Client that reads and changes one object at a time.

use super::carry_out::{PlanResult, carry_out};
use super::event::Source;
use super::request::{JSON, send};
use super::server::{Server, not_of};
use super::usage;
use crate::error::{Error, ErrorKind, Result};
use crate::tenure::Tenure;
use cluster_model::members::Members;
use cluster_model::objects::{Key, Kind, LauncherPods, escaped};
use cluster_model::plan::{Mounts, Plan};
use http::Request;
use http::request::Builder;
use serde_json::{Value, json};
use std::time::Duration;

/// Time-out of a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of objects in a page, and maximum number of pages.
const PAGE: usize = 250;
const PAGES: usize = 40;
/// Number of ResourceSlices in a page: each has up to 128 devices.
const SLICES: usize = 16;

/// Client for writes to the API server, in the name of one program.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    /// Name of the program in events and field managers.
    component: &'static str,
    /// Node of the program, if it runs on each node.
    host: Option<String>,
    /// The API server checks changes without making them.
    is_dry: bool,
    /// Time in which the program may change anything; `None` without a Lease.
    tenure: Option<Tenure>,
}

impl Writer {
    /// A writer in the name of one program.
    pub fn new(client: kube::Client, component: &'static str) -> Writer {
        Writer { client, component, host: None, is_dry: false, tenure: None }
    }

    /// A writer in the name of a program that runs on each node.
    pub fn on_node(client: kube::Client, component: &'static str, node: &str) -> Writer {
        Writer { client, component, host: Some(node.to_owned()), is_dry: false, tenure: None }
    }

    /// The same writer with `dryRun=All`: the API server checks changes without making them.
    #[must_use]
    pub fn dry(self) -> Writer {
        Writer { is_dry: true, ..self }
    }

    /// The same writer for the holder of a Lease: it changes nothing when its time is over.
    #[must_use]
    pub fn with_tenure(self, tenure: Tenure) -> Writer {
        Writer { tenure: Some(tenure), ..self }
    }

    /// Carries out a plan in order, up to the first failed step.
    pub async fn carry_out(&self, plan: Plan) -> PlanResult {
        let source = Source { component: self.component, host: self.host.as_deref() };
        carry_out(self, source, plan).await
    }

    /// Creates an object as a dry run: the server validates it and stores nothing.
    pub async fn try_out(&self, key: &Key, object: &Value) -> Result<Value> {
        let query = self.clone().dry().query();
        let path = format!("{}?{query}", key.kind.collection(&key.namespace));
        self.send("try out", key, Request::post(path), Some((JSON, object))).await
    }

    fn query(&self) -> String {
        let dry = if self.is_dry { "&dryRun=All" } else { "" };
        format!("fieldManager={}{dry}", self.component)
    }

    /// The first result from the pods of a namespace, page by page.
    async fn find_in_pods<T>(
        &self,
        namespace: &str,
        found: impl Fn(&[Value]) -> Option<T>,
    ) -> Result<Option<T>> {
        self.find_in_pages((Kind::Pod, namespace), "", "which pods use a PVC", found).await
    }

    /// The first result from the objects of a namespace that a label selector takes, page by page. `unknown`: what
    /// cannot be determined if there are too many.
    pub async fn find_in_pages<T>(
        &self,
        (kind, namespace): (Kind, &str),
        selector: &str,
        unknown: &str,
        mut found: impl FnMut(&[Value]) -> Option<T>,
    ) -> Result<Option<T>> {
        let all = Key::new(kind, namespace, "(all)");
        let mut more = match selector {
            "" => String::new(),
            selector => format!("&labelSelector={}", escaped(selector)),
        };
        let selected = more.clone();
        for _ in 0..PAGES {
            let path = format!("{}?limit={PAGE}{more}", kind.collection(namespace));
            let list = self.send("list", &all, Request::get(path), None).await?;
            let objects = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            if let Some(found) = found(objects) {
                return Ok(Some(found));
            }
            match list["metadata"]["continue"].as_str().filter(|next| !next.is_empty()) {
                Some(next) => more = format!("{selected}&continue={}", escaped(next)),
                None => return Ok(None),
            }
        }
        let what = format!(
            "cannot determine {unknown}: the namespace {namespace} has more than {} {}",
            PAGE * PAGES,
            kind.plural()
        );
        Err(Error::new(ErrorKind::Refused, what))
    }

    async fn send(
        &self,
        doing: &str,
        key: &Key,
        request: Builder,
        body: Option<(&str, &Value)>,
    ) -> Result<Value> {
        // Only a read has no body.
        if body.is_some() && self.tenure.as_ref().is_some_and(|tenure| !tenure.is_valid()) {
            let what = format!("cannot {doing} {key}: this replica may not hold its Lease any more");
            return Err(Error::new(ErrorKind::Unreachable, what));
        }
        send(&self.client, doing, key, request, body, PATIENCE).await
    }
}

impl Server for Writer {
    async fn mounter(&self, claim: &Key, by: Mounts) -> Result<Option<String>> {
        self.find_in_pods(&claim.namespace, |pods| usage::mounter(pods, &claim.name, by)).await
    }

    async fn has_members(&self, members: &Members) -> Result<bool> {
        let mut count = 0;
        let place = (members.kind, members.namespace.as_str());
        let unknown = format!("how many objects of the owner {} stay", members.owner);
        let found = self.find_in_pages(place, &members.selector_text, &unknown, |objects| {
            count += objects.iter().filter(|object| members.includes(object)).count();
            (count >= members.least).then_some(())
        });
        Ok(found.await?.is_some())
    }

    async fn launcher_of(&self, namespace: &str, vmis: &[LauncherPods]) -> Result<Option<Value>> {
        self.find_in_pods(namespace, |pods| usage::launcher_of(pods, vmis).cloned()).await
    }

    async fn slices(&self, driver: &str, node: &str, more: Option<&str>) -> Result<Value> {
        let selector = escaped(&format!("spec.driver={driver},spec.nodeName={node}"));
        let more = more.map_or_else(String::new, |more| format!("&continue={}", escaped(more)));
        let path =
            format!("{}?fieldSelector={selector}&limit={SLICES}{more}", Kind::ResourceSlice.collection(""));
        let all = Key::new(Kind::ResourceSlice, "", format!("(of {driver} on {node})"));
        self.send("list", &all, Request::get(path), None).await
    }

    async fn get(&self, key: &Key) -> Result<Value> {
        self.send("read", key, Request::get(key.path()), None).await
    }

    async fn create(&self, key: &Key, object: &Value) -> Result<Value> {
        let path = format!("{}?{}", key.kind.collection(&key.namespace), self.query());
        self.send("create", key, Request::post(path), Some((JSON, object))).await
    }

    async fn patch(&self, key: &Key, change: &Value, part: Option<&str>) -> Result<Value> {
        let below = part.map_or_else(String::new, |part| format!("/{part}"));
        let path = format!("{}{below}?{}", key.path(), self.query());
        let kind = match key.kind {
            Kind::Pod => "application/strategic-merge-patch+json",
            _ => "application/merge-patch+json",
        };
        self.send("change", key, Request::patch(path), Some((kind, change))).await
    }

    async fn patch_of(&self, key: &Key, owner: &str, change: &Value) -> Result<Value> {
        // The server compares the owner, so that a tenant's Secret is not read.
        let test = json!({"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": owner});
        let parts = ["/metadata/labels", "/metadata/ownerReferences", "/data"].into_iter();
        let parts =
            parts.filter_map(|path| Some(json!({"op": "add", "path": path, "value": change.pointer(path)?})));
        let steps: Vec<Value> = std::iter::once(test).chain(parts).collect();
        let path = format!("{}?{}", key.path(), self.query());
        let body = Value::Array(steps);
        let body = Some(("application/json-patch+json", &body));
        self.send("change", key, Request::patch(path), body).await.map_err(|error| match error.kind() {
            ErrorKind::Refused => not_of(key).because(error),
            _ => error,
        })
    }

    async fn delete(&self, key: &Key, uid: &str, version: &str) -> Result<Value> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        for (field, expected) in [("uid", uid), ("resourceVersion", version)] {
            if !expected.is_empty() {
                options["preconditions"][field] = json!(expected);
            }
        }
        if self.is_dry {
            options["dryRun"] = json!(["All"]);
        }
        self.send("delete", key, Request::delete(key.path()), Some((JSON, &options))).await
    }

    async fn evict(&self, key: &Key, uid: &str) -> Result<Value> {
        let mut eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": key.namespace, "name": key.name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        if self.is_dry {
            eviction["deleteOptions"]["dryRun"] = json!(["All"]);
        }
        let path = format!("{}/eviction?{}", key.path(), self.query());
        self.send("evict", key, Request::post(path), Some((JSON, &eviction))).await
    }
}
