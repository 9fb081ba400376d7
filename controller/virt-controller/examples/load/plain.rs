//! Without virt-controller: so many writes of each kind, as quickly as they are taken.

use crate::speaker::{JSON, MERGE, STRATEGIC, Speaker, core, vmis};
use crate::{AT_ONCE, Fault, Result};
use cluster_client::watch::{WatchMessage, follow};
use cluster_model::objects::{Kind, WatchTarget};
use cluster_model::objects::{LauncherAttempt, names};
use futures_util::{TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Longer than it ever takes.
const PATIENCE: Duration = Duration::from_secs(900);
/// The kinds of writes that are known here, as the audit log calls them.
const VMIS: &str = "user create virtualmachineinstances";
const PODS: &str = "virt-controller create pods";
const OUR_CHANGES: &str = "virt-controller patch virtualmachineinstances";
const THEIR_CHANGES: &str = "virt-handler patch virtualmachineinstances";
const POD_STATUSES: &str = "virt-controller patch pods/status";
const OUR_EVENTS: &str = "virt-controller create events";
const THEIR_EVENTS: &str = "virt-handler create events";
const KINDS: [&str; 7] = [VMIS, PODS, OUR_CHANGES, THEIR_CHANGES, POD_STATUSES, OUR_EVENTS, THEIR_EVENTS];

/// Who writes, and what from.
struct Scene {
    space: String,
    count: usize,
    writes: BTreeMap<String, usize>,
    vmi: Value,
    pod: Value,
    administrator: Speaker,
    controller: Speaker,
    handler: Speaker,
}

pub(crate) async fn run(
    space: &str,
    count: usize,
    sample: Value,
    writes: BTreeMap<String, usize>,
) -> Result<Value> {
    if let Some(kind) = writes.keys().find(|kind| !KINDS.contains(&kind.as_str())) {
        return Err(format!("'{kind}' is a kind of write that this program does not know").into());
    }
    let node = sample["vmi"]["status"]["nodeName"].as_str().unwrap_or_default();
    let scene = Scene {
        space: space.to_owned(),
        count,
        vmi: bare(&sample["vmi"]),
        pod: bare(&sample["pod"]),
        administrator: Speaker::administrator().await?,
        controller: Speaker::controller().await?,
        handler: Speaker::handler(node).await?,
        writes,
    };
    let (to, seen) = mpsc::channel(1024);
    let which = WatchTarget { namespace: space.to_owned(), ..WatchTarget::all(Kind::Pod, None) };
    tokio::spawn(follow(scene.administrator.0.clone(), which, to));
    let status = &sample["vmi"]["status"];
    let begin = Instant::now();
    let running = tokio::spawn(tokio::time::timeout(PATIENCE, running(seen, count)));
    let each = stream::iter((0..count).map(Ok::<_, Fault>));
    each.try_for_each_concurrent(AT_ONCE, |number| scene.one(number, status)).await?;
    let own = begin.elapsed().as_secs_f64();
    running.await?.map_err(|_| "not all pods run")?;
    let all = begin.elapsed().as_secs_f64();
    Ok(json!({"own": own, "all": all, "writes": scene.writes.values().sum::<usize>()}))
}

/// Waits until so many pods run.
async fn running(mut seen: mpsc::Receiver<WatchMessage>, count: usize) {
    let mut run = BTreeSet::new();
    while run.len() < count {
        let objects = match seen.recv().await {
            Some(WatchMessage::Changed(_, object)) => vec![object],
            Some(WatchMessage::Listed(_, objects)) => objects,
            Some(WatchMessage::Gone(..) | WatchMessage::Only(..)) => continue,
            None => return,
        };
        let running = objects.iter().filter(|pod| pod["status"]["phase"] == "Running");
        run.extend(running.map(|pod| pod["metadata"]["name"].to_string()));
    }
}

impl Scene {
    /// How many writes of a kind one VMI has: all of them together have all.
    fn share(&self, number: usize, kind: &str) -> usize {
        let all = self.writes.get(kind).copied().unwrap_or(0);
        all / self.count + usize::from(number < all % self.count)
    }

    /// All writes for one VMI.
    async fn one(&self, number: usize, status: &Value) -> Result<()> {
        let name = format!("m{number:05}");
        let mut vmi = self.vmi.clone();
        vmi["metadata"]["name"] = json!(name);
        let mut made = self.administrator.create(&vmis(&self.space), &vmi).await?;
        let uid = made["metadata"]["uid"].as_str().unwrap_or_default().to_owned();

        let mut pod = self.pod.clone();
        let pod_name = names::pod(&name, &uid, LauncherAttempt::Start);
        pod["metadata"]["name"] = json!(pod_name);
        pod["metadata"]["labels"]["kubevirt.io/created-by"] = json!(uid);
        pod["metadata"]["ownerReferences"][0]["name"] = json!(name);
        pod["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
        self.controller.create(&core(&self.space, "pods"), &pod).await?;

        let path = format!("{}/{name}", vmis(&self.space));
        for step in 0..self.share(number, OUR_CHANGES) {
            let mut change = json!({"status": status.clone()});
            change["status"]["conditions"][0]["message"] = json!(format!("step {step}"));
            change["metadata"] = json!({"resourceVersion": made["metadata"]["resourceVersion"]});
            made = self.controller.send(Method::PATCH, &path, MERGE, &change).await?;
        }
        for step in 0..self.share(number, THEIR_CHANGES) {
            let change = json!({
                "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
                "status": {
                    "phase": "Running", "reason": format!("step {step}"), "conditions": status["conditions"],
                },
            });
            made = self.handler.send(Method::PATCH, &path, MERGE, &change).await?;
        }
        for step in 0..self.share(number, POD_STATUSES) {
            let condition = json!({"type": "kubevirt.io/virtual-machine-unpaused", "status": "True", "message": format!("step {step}")});
            let path = format!("{}/{pod_name}/status", core(&self.space, "pods"));
            let change = json!({"status": {"conditions": [condition]}});
            self.controller.send(Method::PATCH, &path, STRATEGIC, &change).await?;
        }
        let tellers = [
            (&self.controller, OUR_EVENTS, "virt-controller", None),
            (&self.handler, THEIR_EVENTS, "virt-handler", Some(&status["nodeName"])),
        ];
        for (speaker, kind, component, node) in tellers {
            for step in 0..self.share(number, kind) {
                let mut event = self.event(&name, &uid, component, step);
                // A policy takes from virt-handler only what is said in the name of its own node.
                if let Some(node) = node {
                    event["source"]["host"] = node.clone();
                    event["reportingInstance"] = node.clone();
                }
                speaker.send(Method::POST, &core(&self.space, "events"), JSON, &event).await?;
            }
        }
        Ok(())
    }

    fn event(&self, name: &str, uid: &str, component: &str, step: usize) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{name}.{component}.{step}"), "namespace": self.space},
            "involvedObject": {
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                "namespace": self.space, "name": name, "uid": uid,
            },
            "type": "Normal", "reason": "SuccessfulCreate",
            "message": format!("Created virtual machine pod virt-launcher-{name}-xxxxx"),
            "source": {"component": component}, "reportingComponent": component,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
        })
    }
}

/// An object as somebody would send it, without what the API server and the scheduler have said of it.
fn bare(object: &Value) -> Value {
    let mut bare = object.clone();
    if let Value::Object(fields) = &mut bare {
        fields.remove("status");
    }
    for name in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "finalizers",
        "namespace",
        "name",
    ] {
        if let Some(meta) = bare["metadata"].as_object_mut() {
            meta.remove(name);
        }
    }
    if let Some(labels) = bare["metadata"]["labels"].as_object_mut() {
        labels.remove("kubevirt.io/nodeName");
    }
    if let Some(spec) = bare["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    bare
}
