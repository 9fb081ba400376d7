//! An API server that is a map, with the real webhooks before it; and virt-controller on its World.

use ::admission::rules::{Request, RequestContext, judge, review};
use ::cluster_client::error::{Error, ErrorKind, Result};
use ::cluster_client::{self, Server, Source};
use ::virt_controller::decide;
use cluster_model::objects::{ClusterFacts, Key, Kind, Plain, World};
use cluster_model::plan::{Mounts, merge};
use cluster_model::webhooks::{WEBHOOKS, Webhook};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The one node.
pub(crate) const NODE: &str = "node1";
/// Users of the requests, with the names of the servers.
const PEOPLE: &str = "kubernetes-admin";
const CONTROLLER: &str = "system:serviceaccount:kubevirt:kubevirt-controller";
const HANDLER: &str = "system:serviceaccount:kubevirt:kubevirt-handler";

pub(crate) struct Cluster(Mutex<Inner>);

struct Inner {
    objects: BTreeMap<Key, Value>,
    world: World,
    version: u64,
    deleted: Vec<Key>,
}

impl Cluster {
    /// One node, and settings by which VMs are emulated.
    pub(crate) fn new() -> Cluster {
        let facts = ClusterFacts {
            namespace: "kubevirt".into(),
            launcher_image: "registry.example/virt-launcher:1".into(),
            worker_image: "registry.example/cdi-worker:1".into(),
            version: "1.0.0".into(),
            image_volumes: true,
        };
        let world = World::of(facts);
        let cluster =
            Cluster(Mutex::new(Inner { objects: BTreeMap::new(), world, version: 0, deleted: Vec::new() }));
        let about = json!({"kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://2.3.0"});
        cluster.has(
            &Key::new(Kind::Node, "", NODE),
            json!({
                "metadata": {"labels": {"kubevirt.io/schedulable": "true"}},
                "status": {"nodeInfo": about},
            }),
        );
        let emulated = json!({"developerConfiguration": {"useEmulation": true}});
        cluster.has(
            &Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"),
            json!({"spec": {"configuration": emulated}}),
        );
        cluster
    }

    /// `kubectl apply`; what the server says, where it refuses.
    pub(crate) fn apply(&self, key: &Key, object: &Value) -> std::result::Result<(), String> {
        let object = self.admit(key, object.clone(), &Value::Null, &json!({"username": PEOPLE}))?;
        self.put(key, object);
        Ok(())
    }

    /// There is such an object from now on.
    pub(crate) fn has(&self, key: &Key, mut object: Value) {
        if !key.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(key.namespace);
        }
        object["metadata"]["name"] = json!(key.name);
        self.put(key, object);
    }

    /// virt-controller decides on VMs and VMIs, until there is nothing to do.
    pub(crate) async fn decide(&self) {
        // Certificates and disks have tests of their own, and the settings need neither here.
        self.decide_on(&[Kind::VirtualMachine, Kind::VirtualMachineInstance], Timestamp::now()).await;
    }

    /// virt-controller decides at this time on all objects of these kinds, until there is nothing to do.
    pub(crate) async fn decide_on(&self, kinds: &[Kind], now: Timestamp) {
        for _ in 0..10 {
            let mut writes = 0;
            for key in self.all().into_iter().filter(|key| kinds.contains(&key.kind)) {
                let plan = decide(&self.inner().world, &key, now);
                let done = cluster_client::carry_out(self, Source::of("virt-controller"), plan).await;
                assert!(done.failed.is_none(), "{:?}", done.failed);
                writes += done.writes;
            }
            if writes == 0 {
                return;
            }
        }
        panic!("it never settles");
    }

    /// virt-handler changes the status of a VMI: a merge patch of what it has seen, judged as a word from its node.
    pub(crate) fn tell(&self, key: &Key, change: &Value) {
        let old = self.object(key);
        let mut object = old.clone();
        merge(&mut object, change);
        let node = json!({"authentication.kubernetes.io/node-name": [NODE]});
        let object = self.admit(key, object, &old, &json!({"username": HANDLER, "extra": node})).unwrap();
        self.put(key, object);
    }

    /// Changes an object as another user of the cluster.
    pub(crate) fn change(&self, key: &Key, change: &Value) {
        let mut object = self.object(key);
        merge(&mut object, change);
        self.put(key, object);
    }

    /// CDI fills a DataVolume: its claim is there and bound, and it says so.
    pub(crate) fn filled(&self, data: &Key) {
        let wanted = self.object(data)["spec"]["storage"]["resources"].clone();
        let claim = json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": wanted},
            "status": {"phase": "Bound", "capacity": wanted["requests"]},
        });
        self.has(&Key::new(Kind::PersistentVolumeClaim, data.namespace.clone(), data.name.clone()), claim);
        self.change(data, &json!({"status": {"phase": "Succeeded"}}));
    }

    pub(crate) fn object(&self, key: &Key) -> Value {
        self.inner().objects.get(key).unwrap_or_else(|| panic!("{key} is not there")).clone()
    }

    pub(crate) fn keys(&self, kind: Kind) -> Vec<Key> {
        self.all().into_iter().filter(|key| key.kind == kind).collect()
    }

    /// Rises with every change.
    pub(crate) fn version(&self) -> u64 {
        self.inner().version
    }

    /// The objects that were deleted so far.
    pub(crate) fn deleted(&self) -> Vec<Key> {
        self.inner().deleted.clone()
    }

    fn all(&self) -> Vec<Key> {
        self.inner().objects.keys().cloned().collect()
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn put(&self, key: &Key, mut object: Value) -> Value {
        let mut guard = self.inner();
        let inner = &mut *guard;
        let old = inner.objects.get(key);
        inner.version += 1;
        let meta = |name: &str| old.map(|old| old["metadata"][name].clone());
        let uid = meta("uid").unwrap_or_else(|| json!(format!("uid-{}", inner.version)));
        let before = meta("generation").and_then(|count| count.as_i64()).unwrap_or(0);
        let is_another = old.is_none_or(|old| old["spec"] != object["spec"]);
        object["metadata"]["uid"] = uid;
        object["metadata"]["generation"] = json!(before + i64::from(is_another));
        object["metadata"]["resourceVersion"] = json!(inner.version.to_string());
        inner.world.put(key.kind, object.clone(), Timestamp::now());
        inner.objects.insert(key.clone(), object.clone());
        object
    }

    /// The object after the webhooks for it, or the reason of their refusal.
    fn admit(
        &self,
        key: &Key,
        object: Value,
        old: &Value,
        who: &Value,
    ) -> std::result::Result<Value, String> {
        let is_new = old.is_null();
        let asked = |hook: &&Webhook| match (key.kind, is_new) {
            (Kind::VirtualMachine, _) => hook.path.starts_with("/virtualmachines-"),
            (Kind::VirtualMachineInstance, true) => {
                ["/virtualmachineinstances-mutate", "/virtualmachineinstances-validate-create"]
                    .contains(&hook.path)
            }
            (Kind::VirtualMachineInstance, false) => hook.path == "/virtualmachineinstances-validate-update",
            (Kind::DataVolume, _) => hook.path == "/datavolume-validate",
            _ => false,
        };
        let settings = self.object(&Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"));
        let random = ("11111111-1111-4111-8111-111111111111".to_owned(), "serial".to_owned());
        let around = RequestContext {
            random,
            ..RequestContext::new("kubevirt", Some(&Plain { object: settings, ..Plain::default() }))
        };
        let mut object = object;
        for hook in WEBHOOKS.iter().filter(asked) {
            let asked = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1",
                "operation": if is_new { "CREATE" } else { "UPDATE" },
                "kind": {"kind": key.kind.name()}, "name": key.name,
                "object": object, "oldObject": old, "userInfo": who,
            }});
            let request = Request::read(asked.to_string().as_bytes())?;
            let answer = review::write(&request, &judge(hook, &request, &around))["response"].clone();
            if answer["allowed"] != true {
                return Err(answer["status"]["message"].to_string());
            }
            if let Some(patch) = answer["patch"].as_str() {
                let bytes =
                    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, patch).unwrap();
                let steps: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
                object = patched(object, &steps).unwrap();
            }
        }
        Ok(object)
    }
}

fn no(kind: ErrorKind, key: &Key, why: &str) -> Error {
    Error::new(kind, format!("{key}: {why}"))
}

impl Server for Cluster {
    async fn mounter(&self, claim: &Key, _: Mounts) -> Result<Option<String>> {
        panic!("{claim} is cloned on the way to its start")
    }

    async fn slices(&self, driver: &str, node: &str, _: Option<&str>) -> Result<Value> {
        panic!("devices of {driver} on {node} are looked for on the way of a VM without any")
    }

    async fn get(&self, key: &Key) -> Result<Value> {
        self.inner().objects.get(key).cloned().ok_or_else(|| no(ErrorKind::Gone, key, "not found"))
    }

    async fn create(&self, key: &Key, object: &Value) -> Result<Value> {
        match (key.kind, self.inner().objects.contains_key(key)) {
            (Kind::Event, _) => return Ok(object.clone()),
            (_, true) => return Err(no(ErrorKind::Exists, key, "already exists")),
            _ => {}
        }
        let object = self.admit(key, object.clone(), &Value::Null, &json!({"username": CONTROLLER}));
        Ok(self.put(key, object.map_err(|why| no(ErrorKind::Refused, key, &why))?))
    }

    async fn patch(&self, key: &Key, change: &Value, _: Option<&str>) -> Result<Value> {
        let mut object = self.object(key);
        let mut change = change.clone();
        let meta = change.get_mut("metadata").and_then(Value::as_object_mut);
        if meta
            .and_then(|meta| meta.remove("resourceVersion"))
            .is_some_and(|seen| seen != object["metadata"]["resourceVersion"])
        {
            return Err(no(ErrorKind::Conflict, key, "the object has been modified"));
        }
        match change["status"]["conditions"].as_array() {
            Some(new) if key.kind == Kind::Pod => {
                let mut list = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                list.retain(|old| !new.iter().any(|new| new["type"] == old["type"]));
                list.extend(new.iter().cloned());
                object["status"]["conditions"] = json!(list);
            }
            _ => merge(&mut object, &change),
        }
        Ok(self.put(key, object))
    }

    async fn delete(&self, key: &Key, _: &str) -> Result<Value> {
        let mut inner = self.inner();
        let object = inner.objects.remove(key).ok_or_else(|| no(ErrorKind::Gone, key, "not found"))?;
        inner.world.remove(key);
        inner.deleted.push(key.clone());
        Ok(object)
    }
}

/// The value after a JSON patch, or nothing if one of its tests fails. Implements the part of the standard
/// that we write.
fn patched(mut value: Value, steps: &[Value]) -> Option<Value> {
    for step in steps {
        let path = step["path"].as_str()?;
        let new = step["value"].clone();
        let is = value.pointer(path).cloned();
        let (parent, name) = path.rsplit_once('/')?;
        let name = name.replace("~1", "/").replace("~0", "~");
        match (value.pointer_mut(parent)?, step["op"].as_str()?) {
            (_, "test") if is.as_ref() == Some(&new) => {}
            (_, "test") => return None,
            (Value::Object(fields), "remove") => drop(fields.remove(&name)),
            (Value::Object(fields), _) => drop(fields.insert(name, new)),
            (Value::Array(list), "add") if name == "-" => list.push(new),
            (Value::Array(list), "replace") => *list.get_mut(name.parse::<usize>().ok()?)? = new,
            (parent, op) => panic!("{op} {path} in {parent}"),
        }
    }
    Some(value)
}
