//! Every right of virt-controller is used, and it uses no other: by a history in which all of them come up, and by what its
//! writer asks for each step.

use super::*;
use crate::decide;
use crate::sim::others::{image_is, worker_ends};
use crate::sim::{Sim, blank, data_volume_spec, vm, vm_with_disk, vmi};
use api::job::Stage;
use api::machine::host_device::List;
use api::meta::{LabelSelector, ObjectMeta};
use base64::Engine as _;
use cluster_client::Writer;
use cluster_client::certificate;
use cluster_client::lease::Lease;
use cluster_client::watch;
use cluster_model::claimed::{ClaimedDevice, PCI, TellDevices};
use cluster_model::issue::{Holder, Issue, IssueKey, KeyChange, PodCertificateIssue, Signer, Usage};
use cluster_model::members::Members;
use cluster_model::objects::rights::{names, watch_rights};
use cluster_model::objects::{API_CERTIFICATE, Attempt, Home, LEASE, LauncherPods, followed_by};
use cluster_model::plan::{EventRecord, Mounts, NetworkAttachment, Plan};
use cluster_model::uploads::{BUNDLE, SIGNING_KEY};
use jiff::Timestamp;
use kit::ApiServer;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// An installation from its first object to its end, and what it looks after meanwhile.
fn history() -> Sim {
    let mut sim = Sim::empty();
    let installation = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    for key in [installation.clone(), cluster_model::objects::certificates(&sim.world)] {
        let plan = decide(&sim.world, &key, sim.now);
        sim.apply(plan);
    }
    sim.settle();
    // A VM with a disk of its own, on a node that falls silent later.
    let beat = json!({"kubevirt.io/heartbeat": "1"});
    let schedulable = json!({"kubevirt.io/schedulable": "true"});
    sim.put(Kind::Node, json!({"metadata": {"name": "node1", "labels": schedulable, "annotations": beat}}));
    let mut web = vm_with_disk("web", "Always", blank());
    // Its pod may get a device of a network.
    web["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"] =
        json!([{"name": "lan", "bridge": {}}]);
    web["spec"]["template"]["spec"]["networks"] = json!([{"name": "lan", "multus": {"networkName": "lan"}}]);
    let web = sim.put(Kind::VirtualMachine, web);
    sim.settle();
    sim.bind(&Key::new(Kind::PersistentVolumeClaim, "n", "data"));
    sim.settle();
    let worker = Key::new(Kind::Pod, "n", "importer-data");
    worker_ends(&mut sim, &worker, Some(Stage::Done));
    sim.settle();
    let run = Key::new(Kind::VirtualMachineInstance, "n", "web");
    sim.boot(&run);
    // virt-handler reports the sizes of its disks.
    let mut volumes = sim.get(&run)["status"]["volumeStatus"].clone();
    volumes.as_array_mut().unwrap().iter_mut().for_each(|one| one["size"] = json!(1_000_000));
    sim.change(&run, json!({"status": {"volumeStatus": volumes}}));
    // It must leave its node, and its migration is cancelled.
    let migratable = json!([{"type": "LiveMigratable", "status": "True"}]);
    let leaves = json!({"evacuationNodeName": "node1", "conditions": migratable});
    sim.change(&run, json!({"spec": {"evictionStrategy": "LiveMigrate"}, "status": leaves}));
    sim.settle();
    let migration = sim.keys(Kind::VirtualMachineInstanceMigration).remove(0);
    assert_eq!(sim.phase(&migration), "Scheduling");
    let stays = json!({"evacuationNodeName": null});
    sim.change(&run, json!({"spec": {"evictionStrategy": null}, "status": stays}));
    sim.delete(&migration);
    sim.settle();
    // Another one outlives its VMI.
    let spec = json!({"metadata": {"namespace": "n", "name": "late"}, "spec": {"vmiName": "gone"}});
    sim.put(Kind::VirtualMachineInstanceMigration, spec);
    // A VMI with a device of a ResourceClaim.
    let mut object = vmi("claims");
    object["spec"]["domain"]["devices"]["gpus"] =
        json!([{"name": "g", "claimName": "c", "requestName": "card"}]);
    object["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": "one"}]);
    let claims = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    let pod = sim.pod_of(&claims).unwrap();
    let uid = sim.uid(&pod);
    sim.put(Kind::ResourceClaim, allocated_claim("one", &uid));
    sim.put(Kind::ResourceSlice, slice_of_node1());
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(sim.get(&claims)["status"]["phase"], "Scheduled");
    sim.agent_says(&claims, "Succeeded");
    sim.delete(&claims);
    sim.settle();
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    // A disk that a client sends, once the authorities of its certificate are known.
    let spec = data_volume_spec(json!({"upload": {}}));
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": "n", "name": "sent"}, "spec": spec}));
    sim.settle();
    sim.bind(&Key::new(Kind::PersistentVolumeClaim, "n", "sent"));
    let server = Key::new(Kind::Pod, "n", "cdi-upload-sent");
    for _ in 0..20 {
        sim.settle();
        if sim.objects.contains_key(&server) {
            break;
        }
        sim.advance(30);
    }
    worker_ends(&mut sim, &server, Some(Stage::Done));
    sim.settle();
    assert!(!sim.objects.contains_key(&server));
    // A name for a disk.
    let gold = json!({"source": {"pvc": {"namespace": "n", "name": "data"}}});
    sim.put(Kind::DataSource, json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": gold}));
    // An image that is imported anew when its tag moves, and what is too old goes.
    let template =
        json!({"spec": data_volume_spec(json!({"registry": {"url": "docker://registry.example/os:1"}}))});
    let spec = json!({
        "template": template, "schedule": "@hourly", "managedDataSource": "os", "importsToKeep": 1, "retentionPolicy": "None",
    });
    let cron = json!({"metadata": {"namespace": "n", "name": "images"}, "spec": spec});
    let cron = sim.put(Kind::DataImportCron, cron);
    for digits in ["0a", "0b"] {
        sim.advance(60);
        image_is(&mut sim, &cron, Ok(&format!("sha256:{}", digits.repeat(32))));
        sim.settle();
        let name = format!("os-{}", digits.repeat(6));
        sim.bind(&Key::new(Kind::PersistentVolumeClaim, "n", &name));
        sim.settle();
        worker_ends(&mut sim, &Key::new(Kind::Pod, "n", format!("importer-{name}")), Some(Stage::Done));
        sim.settle();
    }
    let imports = sim.keys(Kind::DataVolume).into_iter().filter(|key| key.name.starts_with("os-"));
    assert_eq!(imports.count(), 1);
    // A PVC with a dataSourceRef: another one is filled in its place, its volume passes, and it goes.
    let named = json!({"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "blank"});
    let source = json!({"source": {"blank": {}}});
    sim.put(
        Kind::VolumeImportSource,
        json!({"metadata": {"namespace": "n", "name": "blank"}, "spec": source}),
    );
    let resources = json!({"requests": {"storage": "1Gi"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": resources, "dataSourceRef": named});
    let target = sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": "populated"}, "spec": spec}),
    );
    sim.settle();
    let uid = |sim: &Sim, key: &Key| sim.uid(key);
    let prime = Key::new(Kind::PersistentVolumeClaim, "n", format!("prime-{}", uid(&sim, &target)));
    let claim = json!({"namespace": "n", "name": prime.name, "uid": uid(&sim, &prime)});
    let spec = json!({"claimRef": claim, "persistentVolumeReclaimPolicy": "Delete"});
    sim.put(Kind::PersistentVolume, json!({"metadata": {"name": "pv"}, "spec": spec}));
    let bound = json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    sim.change(&prime, bound.clone());
    sim.settle();
    worker_ends(&mut sim, &Key::new(Kind::Pod, "n", format!("importer-{}", prime.name)), Some(Stage::Done));
    sim.settle();
    sim.change(&target, bound);
    sim.settle();
    assert!(!sim.objects.contains_key(&prime));
    // A PVC that was there before its DataVolume.
    let notes = json!({"cdi.kubevirt.io/allowClaimAdoption": "true"});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let meta = json!({"namespace": "n", "name": "kept", "annotations": notes});
    let kept = json!({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}});
    let kept = sim.put(Kind::PersistentVolumeClaim, kept);
    let spec = blank();
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": "n", "name": "kept"}, "spec": spec}));
    sim.settle();
    assert_eq!(sim.get(&kept)["metadata"]["ownerReferences"][0]["kind"], "DataVolume");
    // A StorageClass that comes and goes, and its StorageProfile with it.
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "rancher.io/local-path"});
    let class = sim.put(Kind::StorageClass, class);
    sim.settle();
    sim.delete(&class);
    sim.settle();
    assert_eq!(sim.keys(Kind::StorageProfile), []);
    // A set that is scaled to nothing.
    let template = json!({"metadata": {"labels": {"app": "many"}}, "spec": vmi("many")["spec"]});
    let selector = json!({"matchLabels": {"app": "many"}});
    let spec = json!({"replicas": 1, "selector": selector, "template": template});
    let set = sim.put(
        Kind::VirtualMachineInstanceReplicaSet,
        json!({"metadata": {"namespace": "n", "name": "many"}, "spec": spec}),
    );
    sim.settle();
    let one = sim
        .objects
        .keys()
        .find(|key| key.kind == Kind::VirtualMachineInstance && key.name != "web")
        .unwrap()
        .clone();
    let pod = sim.pod_of(&one).unwrap();
    sim.change(&pod, json!({"spec": {"nodeName": "node1"}}));
    sim.change(&set, json!({"spec": {"replicas": 0}}));
    sim.settle();
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    // A VM of a pool.
    let template = json!({"metadata": {"labels": {"app": "pool"}}, "spec": vm("pool", "Halted")["spec"]});
    let selector = json!({"matchLabels": {"app": "pool"}});
    let spec = json!({"replicas": 1, "selector": selector, "virtualMachineTemplate": template});
    let pool = json!({"metadata": {"namespace": "n", "name": "pool"}, "spec": spec});
    sim.put(Kind::VirtualMachinePool, pool);
    sim.settle();
    // What runs is of an older version, and is evicted.
    sim.world.facts.launcher_image = "registry.example/virt-launcher:2".into();
    sim.change(
        &installation,
        json!({"spec": {"workloadUpdateStrategy": {"workloadUpdateMethods": ["Evict"]}}}),
    );
    sim.settle();
    // The VM is halted: its VMI, its pod, its revision go.
    let pod = sim.pod_of(&run).unwrap();
    sim.change(&web, json!({"spec": {"runStrategy": "Halted"}}));
    sim.settle();
    sim.agent_says(&run, "Succeeded");
    sim.settle();
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    // The programs of the installation are to run elsewhere.
    let notes = json!({cluster_model::components::PRISTINE: "{}"});
    for (kind, name) in [(Kind::Deployment, "virt-api"), (Kind::DaemonSet, "virt-handler")] {
        sim.put(kind, json!({"metadata": {"namespace": "kubevirt", "name": name, "annotations": notes}}));
    }
    sim.change(&installation, json!({"spec": {"imagePullSecrets": [{"name": "key"}]}}));
    sim.settle();
    // Days pass: the node is silent, certificates are made anew.
    sim.advance(6 * 24 * 3600);
    sim.settle();
    // The installation goes, and is wanted again.
    sim.delete(&installation);
    sim.settle();
    assert!(!sim.objects.contains_key(&installation));
    sim.put(Kind::KubeVirt, crate::sim::kubevirt(json!({})));
    sim.settle();
    sim
}

/// A ResourceClaim whose request `card` has the device `card-0`, for the pod of a uid.
fn allocated_claim(name: &str, pod: &str) -> Value {
    let result = json!({"request": "card", "driver": "gpu.example.com", "pool": "node1", "device": "card-0"});
    json!({"metadata": {"namespace": "n", "name": name}, "status": {
        "reservedFor": [{"resource": "pods", "name": "p", "uid": pod}],
        "allocation": {"devices": {"results": [result]}},
    }})
}

/// The ResourceSlice that has it.
fn slice_of_node1() -> Value {
    let device = json!({"name": "card-0", "attributes": {PCI: {"string": "0000:81:00.0"}}});
    json!({"metadata": {"name": "node1-gpu"}, "spec": {
        "driver": "gpu.example.com", "nodeName": "node1",
        "pool": {"name": "node1", "generation": 1, "resourceSliceCount": 1}, "devices": [device],
    }})
}

/// Who acts is settled by a lease.
async fn lease() -> BTreeSet<Right> {
    let server = ApiServer::default();
    let writer = Writer::new(server.client(), "virt-controller");
    let mut lease = Lease::new(writer, "kubevirt", LEASE, "one".into());
    lease.acquire().await;
    lease.release().await;
    server.kept_to(Program::Controller);
    server.rights()
}

/// Who may read what it measures.
async fn measures() -> BTreeSet<Right> {
    let server = ApiServer::default();
    assert!(
        serve::authentication::Gate::new(server.client())
            .check_access(
                &kit::monitors_request(),
                serve::transport::Peer::of(std::net::Ipv4Addr::LOCALHOST.into())
            )
            .await
            .is_ok()
    );
    server.rights()
}

#[tokio::test]
async fn every_right_is_used_and_no_other() {
    let mut used = history().used;
    used.extend(
        followed_by(Program::Controller, &Home::default()).iter().flat_map(|which| watch_rights(which.kind)),
    );
    used.extend(lease().await);
    used.extend(measures().await);
    assert_eq!(used, all_rights(Program::Controller).collect());
}

/// Secrets, webhooks and their like are followed one by one: a list of all would take a right to all.
#[tokio::test]
async fn a_kind_is_followed_by_two_rights_and_few_objects_by_their_names() {
    for which in followed_by(Program::Controller, &Home { namespace: "kubevirt".into(), ..Home::default() }) {
        let server = ApiServer::default();
        let (to, mut seen) = tokio::sync::mpsc::channel(1);
        let kind = which.kind;
        let task = tokio::spawn(watch::follow(server.client(), which, to));
        assert!(
            matches!(seen.recv().await, Some(watch::WatchMessage::Listed(of, _)) if of == kind)
                || kind_is_named(kind)
        );
        server.until_used(&watch_rights(kind).into()).await;
        task.abort();
        server.kept_to(Program::Controller);
        assert_eq!(server.rights(), watch_rights(kind).into());
    }
}

fn kind_is_named(kind: Kind) -> bool {
    names(Program::Controller, kind).is_some()
}

/// A step about another secret is none that may be done.
#[test]
fn a_step_may_be_done_only_with_the_names_that_are_declared() {
    let named = Kind::ALL.iter().filter(|kind| **kind != Kind::Lease);
    for (kind, ours) in named.filter_map(|kind| Some((kind, names(Program::Controller, *kind)?))) {
        let step = |name: &str| Step::Patch {
            key: Key::new(*kind, "", name),
            version: "1".into(),
            change: json!({}),
            part: None,
        };
        assert!(ours.iter().all(|name| permits_step(&step(name))), "{kind:?}");
        assert!(!permits_step(&step("another")), "{kind:?}");
    }
    let mut stranger = issue("another", Some("1"), None);
    assert!(!permits_step(&Step::Issue(stranger.clone())));
    stranger.key.name = API_CERTIFICATE.into();
    assert!(permits_step(&Step::Issue(stranger.clone())));
    let key = Key::new(Kind::Secret, "kubevirt", "another");
    stranger.signer = Some(Signer { key, name: "authority".into(), hosts: Vec::new(), usage: Usage::Server });
    assert!(!permits_step(&Step::Issue(stranger)), "who signs is read");
}

fn issue(name: &str, version: Option<&str>, signer: Option<Signer>) -> Issue {
    Issue {
        key: Key::new(Kind::Secret, "kubevirt", name),
        version: version.map(str::to_owned),
        name: name.to_owned(),
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::from_second(1 << 32).unwrap(),
        signer,
        has_paths: false,
    }
}

/// A file of a Secret.
fn text(file: &Value) -> String {
    let bytes = base64::engine::general_purpose::STANDARD.decode(file.as_str().unwrap()).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn the_writer_asks_for_a_step_what_it_is_said_to_need() {
    let (pod, authority) = (Key::new(Kind::Pod, "n", "web"), issue("authority", None, None));
    let signed = certificate::secret(&authority, None, None).unwrap();
    let signer = || {
        Some(Signer {
            key: authority.key.clone(),
            name: "authority".into(),
            hosts: vec!["a".into()],
            usage: Usage::Server,
        })
    };
    let patch = |part| Step::Patch { key: pod.clone(), version: "1".into(), change: json!({}), part };
    let owner = ObjectMeta { name: Some("web".into()), uid: Some("1".into()), ..ObjectMeta::default() };
    let owned = json!({"metadata": {"name": "web", "ownerReferences": [owner::reference(Kind::VirtualMachineInstance, &owner)]}});
    let for_pod = PodCertificateIssue {
        key: Key::new(Kind::Secret, "n", "cdi-upload-web"),
        installation: "kubevirt".into(),
        owner: owner::reference(Kind::PersistentVolumeClaim, &owner),
        labels: Map::new(),
        holder: Holder::Server(vec!["a".into()]),
        from: authority.from,
        until: authority.until,
    };
    let bundle = json!({"data": {BUNDLE: text(&signed["data"]["tls.crt"])}});
    let signing = |version: Option<&str>, change| {
        let key = Key::new(Kind::Secret, "kubevirt", SIGNING_KEY);
        Step::IssueKey(IssueKey { key, version: version.map(str::to_owned), change, at: authority.from })
    };
    let next = json!({
        "metadata": {"name": SIGNING_KEY, "resourceVersion": "1"},
        "data": {"next.id_rsa": "QQ==", "next.id_rsa.pub": "QQ=="},
    });
    let lan = Key::new(Kind::NetworkAttachmentDefinition, "n", "lan");
    let vf = json!({"metadata": {"name": "lan", "annotations": {"k8s.v1.cni.cncf.io/resourceName": "intel.com/vf"}}});
    let wanted = ClaimedDevice {
        list: List::Gpus,
        name: "gpu".into(),
        claim: Key::new(Kind::ResourceClaim, "n", "one"),
        request: "card".into(),
    };
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    let telling = TellDevices {
        key: vmi.clone(),
        version: "1".into(),
        pod: "1".into(),
        node: "node1".into(),
        devices: vec![wanted.clone()],
    };
    let message = "A sentence.".to_owned();
    let note = EventRecord { key: pod.clone(), uid: "1".into(), warning: false, reason: "Word", message };
    for step in [
        Step::Create { key: pod.clone(), object: json!({"metadata": {"name": "web"}}) },
        Step::Create { key: pod.clone(), object: owned.clone() },
        Step::CreateOnNetworks {
            key: pod.clone(),
            object: owned.clone(),
            networks: vec![NetworkAttachment {
                name: "lan".into(),
                definition: lan.clone(),
                needs_device: true,
            }],
        },
        Step::RecordDevices(telling),
        Step::Patch { key: pod.clone(), version: "1".into(), change: owned, part: None },
        patch(None),
        patch(Some("status")),
        Step::Delete { key: pod.clone(), uid: "1".into(), version: "1".into() },
        Step::Evict { key: pod.clone(), uid: "1".into() },
        Step::DeleteOwnedBy { key: Key::new(Kind::Secret, "n", "cdi-upload-web"), owner: "1".into() },
        Step::DeleteOwnedBy { key: Key::new(Kind::Service, "n", "cdi-upload-web"), owner: "1".into() },
        Step::RequireAbsent { key: Key::new(Kind::Pod, "n", "other"), of: None },
        Step::RequirePresent { key: pod.clone(), uid: "1".into() },
        Step::RequireMembers(Members {
            kind: Kind::VirtualMachine,
            namespace: "n".into(),
            owner: "1".into(),
            selector: LabelSelector::default(),
            selector_text: "app=web".into(),
            least: 0,
        }),
        Step::RequireNoLauncherPod { namespace: "n".into(), vmis: vec![LauncherPods::default()] },
        Step::RequireNoMounter { claim: Key::new(Kind::PersistentVolumeClaim, "n", "disk"), by: Mounts::Any },
        Step::Issue(issue("authority", None, None)),
        Step::Issue(issue("authority", Some("1"), None)),
        Step::Issue(issue("server", None, signer())),
        Step::Issue(issue("server", Some("1"), signer())),
        Step::IssueForPod(for_pod.clone()),
        signing(None, KeyChange::First),
        signing(Some("1"), KeyChange::Next),
        signing(Some("1"), KeyChange::Promote),
        Step::RecordEvent(note),
    ] {
        let server = ApiServer::default();
        // What is to be made is there already: that is when it is read.
        let there = json!({"metadata": {"name": "web", "uid": "1"}, "spec": {}});
        let made = match &step {
            Step::Create { object, .. } | Step::CreateOnNetworks { object, .. } => object.clone(),
            _ => there,
        };
        let has = |key: &Key, mut object: Value| {
            object["metadata"]["resourceVersion"] = json!("1");
            server.put(&key.path(), object);
        };
        has(&pod, made);
        has(&lan, vf.clone());
        has(&wanted.claim, allocated_claim("one", "1"));
        server.put_object(Kind::ResourceSlice, slice_of_node1());
        has(&vmi, json!({"metadata": {"name": "web"}}));
        has(&authority.key, signed.clone());
        has(&issue("server", None, None).key, json!({"metadata": {"name": "server"}}));
        has(&for_pod.signer(), signed.clone());
        has(&for_pod.peer_bundle(), bundle.clone());
        let of_upload =
            json!({"metadata": {"name": "cdi-upload-web", "uid": "2", "ownerReferences": [for_pod.owner]}});
        has(&Key::new(Kind::Service, "n", "cdi-upload-web"), of_upload.clone());
        has(&for_pod.key, of_upload);
        has(&Key::new(Kind::Secret, "kubevirt", SIGNING_KEY), next.clone());
        let writer = Writer::new(server.client(), "virt-controller");
        let done = writer.carry_out(Plan { steps: vec![step.clone()], again: None }).await;
        assert!(done.failed.is_none(), "{step:?}: {:?}", done.failed);
        assert_eq!(server.rights(), required_rights(&step).into_iter().collect(), "{step:?}");
    }
}

/// An API server that always has one page more is not asked for ever.
#[tokio::test]
async fn pages_of_resource_slices_without_end_are_given_up() {
    let server = ApiServer::default();
    let wanted = ClaimedDevice {
        list: List::Gpus,
        name: "gpu".into(),
        claim: Key::new(Kind::ResourceClaim, "n", "one"),
        request: "card".into(),
    };
    server.put(&wanted.claim.path(), allocated_claim("one", "1"));
    let page = json!({"metadata": {"continue": "more"}, "items": []});
    server.answers(&format!("GET {}", Kind::ResourceSlice.collection("")), 200, page.to_string());
    let telling = TellDevices {
        key: Key::new(Kind::VirtualMachineInstance, "n", "web"),
        version: "1".into(),
        pod: "1".into(),
        node: "node1".into(),
        devices: vec![wanted],
    };
    let writer = Writer::new(server.client(), "virt-controller");
    let done = writer.carry_out(Plan { steps: vec![Step::RecordDevices(telling)], again: None }).await;
    let (about, error) = done.failed.unwrap();
    assert_eq!(about, Some(Attempt::Make(Kind::ResourceClaim)));
    assert!(error.to_string().contains("has more than 4 pages of ResourceSlices on node1"), "{error}");
    assert_eq!((server.count(), done.writes), (5, 0));
}
