//! What the API server answers to one client, and what goes wrong between the two.

use super::{Sim, pod_condition};
use crate::rights;
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_client::signing_key::Pair;
use cluster_client::{self, PlanResult, Server, Source};
use cluster_model::members::Members;
use cluster_model::objects::FINALIZER;
use cluster_model::objects::{Key, Kind, LauncherPods, public_keys};
use cluster_model::plan::{Mounts, Plan, merge};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What goes wrong between a client and the server.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// How many requests are answered before one is not; and whether that one was done all the same.
    pub(crate) breaks: Option<(u8, bool)>,
    /// No pod is let in.
    pub(crate) full: bool,
    /// Objects of this kind are not deleted.
    pub(crate) keeps: Option<Kind>,
    /// Objects of this kind are not changed, but for a status of its own path.
    pub(crate) locks: Option<Kind>,
    /// Somebody is quicker: the next plan is decided on an old picture.
    pub(crate) meddles: bool,
    /// What was asked for by name.
    pub(crate) got: Vec<Key>,
}

/// Carries a plan out, as the program does. Every step is one that was declared.
pub(crate) fn carry_out(sim: &mut Sim, plan: Plan) -> PlanResult {
    for step in &plan.steps {
        assert!(rights::permits_step(step), "not declared: {step:?}");
        sim.used.extend(rights::required_rights(step));
    }
    let door = SimServer(Mutex::new(sim));
    let done = cluster_client::carry_out(&door, Source::new("virt-controller"), plan).now_or_never();
    let done = done.expect("nothing is waited for here");
    sim.writes += done.writes;
    done
}

struct SimServer<'a>(Mutex<&'a mut Sim>);

impl SimServer<'_> {
    fn ask(&self, answer: impl FnOnce(&mut Sim) -> Result<Value>) -> Result<Value> {
        let mut guard = self.0.lock().unwrap();
        let sim: &mut Sim = &mut guard;
        match sim.wire.breaks {
            Some((0, is_done)) => {
                sim.wire.breaks = None;
                if is_done {
                    drop(answer(sim));
                }
                Err(Error::new(ErrorKind::Unreachable, "the API server did not answer"))
            }
            counted => {
                sim.wire.breaks = counted.map(|(left, is_done)| (left - 1, is_done));
                answer(sim)
            }
        }
    }
}

/// A VMI as the webhook lets it in: nobody takes it away before its pod.
pub(crate) fn admitted(mut vmi: Value) -> Value {
    let mut held = finalizers(&vmi);
    if !held.contains(&json!(FINALIZER)) {
        held.push(json!(FINALIZER));
        vmi["metadata"]["finalizers"] = Value::Array(held);
    }
    vmi
}

fn error(kind: ErrorKind, key: &Key, why: &str) -> Error {
    Error::new(kind, format!("{key}: {why}"))
}

impl Server for SimServer<'_> {
    async fn mounter(&self, claim: &Key, by: Mounts) -> Result<Option<String>> {
        let name = self.ask(|sim| {
            let pods = sim
                .objects
                .iter()
                .filter(|(key, _)| key.kind == Kind::Pod && key.namespace == claim.namespace);
            Ok(json!(cluster_client::usage::mounter(pods.map(|(_, pod)| pod), &claim.name, by)))
        })?;
        Ok(name.as_str().map(str::to_owned))
    }

    async fn launcher_of(&self, namespace: &str, vmis: &[LauncherPods]) -> Result<Option<Value>> {
        let found = self.ask(|sim| {
            let pods =
                sim.objects.iter().filter(|(key, _)| key.kind == Kind::Pod && key.namespace == namespace);
            Ok(cluster_client::usage::launcher_of(pods.map(|(_, pod)| pod), vmis)
                .cloned()
                .unwrap_or_default())
        })?;
        Ok(Some(found).filter(|found| !found.is_null()))
    }

    async fn slices(&self, driver: &str, node: &str, _: Option<&str>) -> Result<Value> {
        self.ask(|sim| {
            let is_its =
                |slice: &&Value| slice["spec"]["driver"] == driver && slice["spec"]["nodeName"] == node;
            let slices = sim.objects.iter().filter(|(key, _)| key.kind == Kind::ResourceSlice);
            let own: Vec<&Value> = slices.map(|(_, slice)| slice).filter(is_its).collect();
            Ok(json!({"items": own}))
        })
    }

    async fn get(&self, key: &Key) -> Result<Value> {
        self.ask(|sim| {
            sim.wire.got.push(key.clone());
            sim.objects.get(key).cloned().ok_or_else(|| error(ErrorKind::Gone, key, "not found"))
        })
    }

    async fn create(&self, key: &Key, object: &Value) -> Result<Value> {
        self.ask(|sim| {
            if key.kind == Kind::Event {
                let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
                sim.told.push((text("reason"), text("message")));
                sim.warnings.extend((object["type"] == "Warning").then(|| text("reason")));
                return Ok(object.clone());
            }
            if sim.objects.contains_key(key) {
                return Err(error(ErrorKind::Exists, key, "already exists"));
            }
            if key.kind == Kind::Pod && sim.wire.full {
                return Err(error(ErrorKind::Refused, key, "exceeded quota"));
            }
            let mut object = object.clone();
            match key.kind {
                Kind::VirtualMachineInstance => object = admitted(object),
                Kind::PersistentVolumeClaim => kit::store_data_source(&mut object),
                _ => {}
            }
            sim.put(key.kind, object);
            Ok(sim.get(key).clone())
        })
    }

    async fn patch(&self, key: &Key, change: &Value, part: Option<&str>) -> Result<Value> {
        self.ask(|sim| {
            let Some(old) = sim.objects.get(key) else {
                return Err(error(ErrorKind::Gone, key, "not found"));
            };
            let mut change = change.clone();
            let seen = change
                .get_mut("metadata")
                .and_then(Value::as_object_mut)
                .and_then(|meta| meta.remove("resourceVersion"));
            if seen.is_some_and(|seen| seen != old["metadata"]["resourceVersion"]) {
                return Err(error(ErrorKind::Conflict, key, "the object has been modified"));
            }
            if sim.wire.locks == Some(key.kind) && part.is_none() {
                return Err(error(ErrorKind::Refused, key, "denied the request: it is locked"));
            }
            let has_path = !super::has_one_path(key.kind);
            // virt-controller has no right to change more of a pod.
            let says = has_path && (key.kind == Kind::Pod || change.get("status").is_some());
            assert_eq!(says, part.is_some(), "{key}: a status has its own path ({has_path})");
            let mut object = old.clone();
            match change["status"]["conditions"].as_array() {
                Some(conditions) if key.kind == Kind::Pod => {
                    conditions.iter().for_each(|new| pod_condition(&mut object, new.clone()));
                }
                _ => merge(&mut object, &change),
            }
            if super::is_going(old) && finalizers(&object).iter().any(|name| !finalizers(old).contains(name))
            {
                return Err(error(
                    ErrorKind::Refused,
                    key,
                    "no new finalizers can be added while it is deleted",
                ));
            }
            sim.put(key.kind, object.clone());
            // What was let go is gone; it is answered as it was last.
            object["metadata"]["resourceVersion"] = json!(sim.version.to_string());
            Ok(sim.objects.get(key).cloned().unwrap_or(object))
        })
    }

    async fn has_members(&self, members: &Members) -> Result<bool> {
        let stays = self.ask(|sim| {
            let all = sim
                .objects
                .iter()
                .filter(|(key, _)| key.kind == members.kind && key.namespace == members.namespace);
            let listed =
                all.filter(|(_, object)| is_selected(&members.selector_text, &object["metadata"]["labels"]));
            Ok(json!(listed.filter(|(_, object)| members.includes(object)).count() >= members.least))
        })?;
        Ok(stays == true)
    }

    async fn delete(&self, key: &Key, uid: &str, version: &str) -> Result<Value> {
        self.ask(|sim| match sim.objects.get(key) {
            None => Err(error(ErrorKind::Gone, key, "not found")),
            Some(old) if !uid.is_empty() && old["metadata"]["uid"] != uid => {
                Err(error(ErrorKind::Conflict, key, "the uid is another"))
            }
            Some(old) if !version.is_empty() && old["metadata"]["resourceVersion"] != version => {
                Err(error(ErrorKind::Conflict, key, "the object has been modified"))
            }
            Some(_) if sim.wire.keeps == Some(key.kind) => {
                Err(error(ErrorKind::Refused, key, "denied the request: it is kept"))
            }
            Some(_) => {
                sim.delete(key);
                let left = sim.objects.get(key).cloned();
                Ok(left.unwrap_or_else(|| json!({"kind": "Status", "status": "Success"})))
            }
        })
    }

    /// Each is another, and none is a key: a real one takes as long to make as many histories.
    async fn signing_key(&self) -> Result<Pair> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Ok(Pair { private: format!("private {number}"), public: public_keys::to_pem(&number.to_be_bytes()) })
    }
}

/// True if a list with this selector, in its form as text, has an object with these labels.
fn is_selected(selector: &str, labels: &Value) -> bool {
    let mut is_inside = false;
    let mut terms = selector.split(|letter: char| {
        is_inside = letter == '(' || is_inside && letter != ')';
        letter == ',' && !is_inside
    });
    let is_one = |key: &str, values: &str| {
        let mut values = values.trim_matches(['(', ')']).split(',');
        labels[key].as_str().is_some_and(|label| values.any(|value| value == label))
    };
    terms.all(|term| match (term.split_once(" notin "), term.split_once(" in "), term.split_once('=')) {
        (Some((key, values)), ..) => !is_one(key, values),
        (_, Some((key, values)), _) => is_one(key, values),
        (_, _, Some((key, value))) => labels[key] == value,
        _ => match term.strip_prefix('!') {
            Some(key) => labels[key].is_null(),
            None => term.is_empty() || !labels[term].is_null(),
        },
    })
}

fn finalizers(object: &Value) -> Vec<Value> {
    object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}
