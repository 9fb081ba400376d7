//! The API server in memory, with the real webhooks before it; and virt-controller, which decides on its objects.

use ::admission::rules::{Request, RequestContext, judge, review};
use ::cluster_client::Writer;
use ::virt_controller::decide;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::objects::{ClusterFacts, Key, Kind, Plain, World};
use cluster_model::plan::merge;
use cluster_model::webhooks::{WEBHOOKS, Webhook};
use jiff::Timestamp;
use kit::{ApiServer, json_patch};
use serde_json::{Value, json};

/// The one node.
pub(crate) const NODE: &str = "node1";
/// Users of the requests, with the names of the servers.
const PEOPLE: &str = "kubernetes-admin";
const CONTROLLER: &str = "system:serviceaccount:kubevirt:kubevirt-controller";
const HANDLER: &str = "system:serviceaccount:kubevirt:kubevirt-handler";

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    facts: ClusterFacts,
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
        let cluster = Cluster { server: ApiServer::default(), facts };
        let about = json!({"kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://2.3.0"});
        cluster.has(
            &Key::new(Kind::Node, "", NODE),
            json!({
                "metadata": {"labels": {"kubevirt.io/schedulable": "true"}},
                "status": {"nodeInfo": about},
            }),
        );
        cluster.has(&Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"), settings());
        let user = json!({"username": CONTROLLER});
        cluster.server.admits(move |kind, object| admit(kind, object, &Value::Null, &user));
        // No PVC is cloned on the way to a start, and no VM has devices.
        for (kind, namespace) in [(Kind::Pod, "n"), (Kind::ResourceSlice, "")] {
            cluster.server.answers(
                &format!("GET {}", kind.collection(namespace)),
                500,
                "nothing lists these",
            );
        }
        cluster
    }

    /// `kubectl apply`; what the server says, where it refuses.
    pub(crate) fn apply(&self, key: &Key, object: &Value) -> Result<(), String> {
        let object = admit(key.kind, object.clone(), &Value::Null, &json!({"username": PEOPLE}))?;
        self.has(key, object);
        Ok(())
    }

    /// There is such an object from now on.
    pub(crate) fn has(&self, key: &Key, object: Value) {
        self.server.put(&key.path(), object);
    }

    /// virt-controller decides on VMs and VMIs, until there is nothing to do.
    pub(crate) async fn decide(&self) {
        // Certificates and disks have tests of their own, and the settings need neither here.
        self.decide_on(&[Kind::VirtualMachine, Kind::VirtualMachineInstance], Timestamp::now()).await;
    }

    /// virt-controller decides at this time on all objects of these kinds, until there is nothing to do.
    pub(crate) async fn decide_on(&self, kinds: &[Kind], now: Timestamp) {
        let writer = Writer::new(self.server.client(), "virt-controller");
        for _ in 0..10 {
            let mut writes = 0;
            for key in kinds.iter().flat_map(|kind| self.keys(*kind)) {
                let plan = decide(&self.world(), &key, now);
                let done = writer.carry_out(plan).await;
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
        let object = admit(key.kind, object, &old, &json!({"username": HANDLER, "extra": node})).unwrap();
        self.has(key, object);
    }

    /// Changes an object as another user of the cluster.
    pub(crate) fn change(&self, key: &Key, change: &Value) {
        let mut object = self.object(key);
        merge(&mut object, change);
        self.has(key, object);
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
        self.server.object(&key.path()).unwrap_or_else(|| panic!("{key} is not there"))
    }

    pub(crate) fn keys(&self, kind: Kind) -> Vec<Key> {
        let text =
            |object: &Value, name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key =
            |(_, object): (Kind, Value)| Key::new(kind, text(&object, "namespace"), text(&object, "name"));
        self.server.objects().into_iter().filter(|(of, _)| *of == kind).map(key).collect()
    }

    /// Rises with every change.
    pub(crate) fn version(&self) -> u64 {
        self.server.version()
    }

    /// Paths of the objects that were deleted since the last call.
    pub(crate) fn deleted(&self) -> Vec<String> {
        let asked = self.server.asked().into_iter().filter(|request| request.verb == "delete");
        asked.map(|request| request.path).collect()
    }

    /// The objects as virt-controller sees them.
    fn world(&self) -> World {
        let mut world = World::new(self.facts.clone());
        for (kind, object) in self.server.objects() {
            world.put(kind, object, Timestamp::now());
        }
        world
    }
}

/// Settings by which VMs are emulated.
fn settings() -> Value {
    json!({"spec": {"configuration": {"developerConfiguration": {"useEmulation": true}}}})
}

/// The object after the webhooks for it, or the reason of their refusal.
fn admit(kind: Kind, mut object: Value, old: &Value, user: &Value) -> Result<Value, String> {
    let is_new = old.is_null();
    let asked = |hook: &&Webhook| match (kind, is_new) {
        (Kind::VirtualMachine, _) => hook.path.starts_with("/virtualmachines-"),
        (Kind::VirtualMachineInstance, true) => {
            ["/virtualmachineinstances-mutate", "/virtualmachineinstances-validate-create"]
                .contains(&hook.path)
        }
        (Kind::VirtualMachineInstance, false) => hook.path == "/virtualmachineinstances-validate-update",
        (Kind::DataVolume, _) => hook.path == "/datavolume-validate",
        _ => false,
    };
    let random = ("11111111-1111-4111-8111-111111111111".to_owned(), "serial".to_owned());
    let context = RequestContext {
        random,
        ..RequestContext::new("kubevirt", Some(&Plain { object: settings(), ..Plain::default() }))
    };
    for hook in WEBHOOKS.iter().filter(asked) {
        let asked = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1",
            "operation": if is_new { "CREATE" } else { "UPDATE" },
            "kind": {"kind": kind.name()}, "name": object["metadata"]["name"],
            "object": object, "oldObject": old, "userInfo": user,
        }});
        let request = Request::read(asked.to_string().as_bytes())?;
        let answer = review::write(&request, &judge(hook, &request, &context))["response"].clone();
        if answer["allowed"] != true {
            return Err(answer["status"]["message"].to_string());
        }
        if let Some(patch) = answer["patch"].as_str() {
            let steps: Vec<Value> = serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
            object = json_patch(object, &steps).unwrap();
        }
    }
    Ok(object)
}
