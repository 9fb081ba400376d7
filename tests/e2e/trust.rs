//! What a stolen token does not do, and what a user does not take away from under a VM: the API server refuses it by itself.

use crate::tiny;
use std::io::Write as _;
use std::process::{Command, Stdio};
use tests::cluster::{Cluster, Space, until};
use tests::coracle::Ran;

/// A node without a VMI, to have another's token of.
pub(crate) struct Elsewhere<'a>(&'a Cluster, pub(crate) String);

impl<'a> Elsewhere<'a> {
    pub(crate) fn new(space: &'a Space) -> Self {
        let name = format!("elsewhere-{}", space.name);
        let node = format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nspec:\n  unschedulable: true\n  \
             taints: [{{key: nobody, effect: NoExecute}}]\n"
        );
        space.apply(&node);
        Elsewhere(&space.cluster, name)
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        self.0.run(&["delete", "node", &self.1, "--wait=false"]);
    }
}

/// Somebody at the API server, by a token alone.
pub(crate) struct Bearer<'a> {
    space: &'a Space,
    server: String,
    token: String,
}

impl<'a> Bearer<'a> {
    /// An account of ours; `bound` is what kubectl says to have the token bound to something.
    pub(crate) fn of(space: &'a Space, account: &str, bound: &[&str]) -> Self {
        let words = [&["-n", "kubevirt", "create", "token", account, "--duration=1h"], bound].concat();
        let token = String::from_utf8(space.cluster.run(&words).ok().out).unwrap().trim().to_owned();
        let config = ["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"];
        let server = String::from_utf8(space.cluster.run(&config).ok().out).unwrap();
        Bearer { space, server, token }
    }

    /// The agent of a node.
    pub(crate) fn agent(space: &'a Space, node: &str) -> Self {
        Self::of(space, "kubevirt-handler", &["--bound-object-kind=Node", "--bound-object-name", node])
    }

    /// kubectl, reading this.
    pub(crate) fn reads(&self, input: &str, words: &[&str]) -> Ran {
        let token = format!("--token={}", self.token);
        let first = [
            "--kubeconfig=/dev/null",
            "--insecure-skip-tls-verify",
            "-s",
            &self.server,
            &token,
            "-n",
            &self.space.name,
        ];
        kubectl(self.space, input, &[&first[..], words].concat())
    }

    pub(crate) fn runs(&self, words: &[&str]) -> Ran {
        self.reads("", words)
    }

    /// A change of an object, as the agent asks for it: kubectl reads an object first, which the agent may not.
    pub(crate) fn patches(&self, object: &str, change: &str) -> Ran {
        let apps = "/apis/apps/v1/namespaces/kubevirt";
        let path = match object.split_once('/') {
            Some(("node", name)) => format!("/api/v1/nodes/{name}"),
            Some(("pv", name)) => format!("/api/v1/persistentvolumes/{name}"),
            Some((kind @ ("daemonsets" | "deployments"), name)) => format!("{apps}/{kind}/{name}?dryRun=All"),
            // Of a pod its status, which is all that ours change of it.
            Some(("pod", name)) => format!("/api/v1/namespaces/{}/pods/{name}/status", self.space.name),
            Some(("vmi", name)) => {
                format!("/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstances/{name}", self.space.name)
            }
            Some(("pvc", name)) => {
                format!("/api/v1/namespaces/{}/persistentvolumeclaims/{name}", self.space.name)
            }
            Some((kind @ ("datasource" | "dataimportcron"), name)) => {
                format!("/apis/cdi.kubevirt.io/v1beta1/namespaces/{}/{kind}s/{name}", self.space.name)
            }
            Some(("secret", name)) => format!("/api/v1/namespaces/{}/secrets/{name}", self.space.name),
            _ => panic!("{object} is not patched here"),
        };
        let header = ["-H", "Content-Type: application/merge-patch+json", "-X", "PATCH", "-d", change];
        let token = format!("Authorization: Bearer {}", self.token);
        let address = format!("{}{path}", self.server);
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--fail-with-body", "-H", &token]).args(header).arg(address).stdin(Stdio::null());
        let mut ran = Ran::of(curl.output().expect("curl is there"));
        // What the server says of a refusal is its answer.
        ran.err += &String::from_utf8_lossy(&ran.out);
        ran
    }
}

fn kubectl(space: &Space, input: &str, words: &[&str]) -> Ran {
    let mut command = space.cluster.kubectl(words);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // One that reads nothing may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Ran::of(child.wait_with_output().unwrap())
}

/// It was refused, and by the API server's own policy.
#[track_caller]
pub(crate) fn refused(ran: &Ran, said: &str) {
    assert_ne!(ran.code, 0, "it was done: {}", String::from_utf8_lossy(&ran.out));
    assert!(ran.err.contains("ValidatingAdmissionPolicy") && ran.err.contains(said), "{said}: {}", ran.err);
}

/// A VM that runs, on the node that is named.
pub(crate) fn vm(story: &str) -> Option<(Space, String)> {
    let space = Space::new(story)?;
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let node = space.get("vmi/web", ".status.nodeName");
    Some((space, node))
}

#[test]
fn the_token_of_another_nodes_handler_changes_nothing_here() {
    let Some((space, node)) = vm("agents") else { return };
    let elsewhere = Elsewhere::new(&space);
    let (here, there) = (format!("node/{node}"), format!("node/{}", elsewhere.1));
    let other = Bearer::agent(&space, &elsewhere.1);

    // A VMI, a node, an event about a VMI: nothing of another node.
    let own = "changes only the VMIs of its own node";
    refused(&other.patches("vmi/web", r#"{"status":{"phase":"Succeeded"}}"#), own);
    let taken = format!(r#"{{"status":{{"nodeName":"{}"}}}}"#, elsewhere.1);
    refused(&other.patches("vmi/web", &taken), own);
    let draws = r#"{"metadata":{"labels":{"kubevirt.io/schedulable":"false"}}}"#;
    refused(&other.patches(&here, draws), "changes its own node only");
    let event = |node: &str| {
        format!(
            "{{apiVersion: v1, kind: Event, metadata: {{generateName: web., namespace: {0}}}, type: Normal, reason: Told, \
             message: a word, involvedObject: {{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, name: web, \
             namespace: {0}}}, source: {{component: virt-handler, host: {node}}}, reportingComponent: virt-handler, \
             reportingInstance: {node}}}",
            space.name
        )
    };
    let create = ["create", "-f", "-"];
    refused(&other.reads(&event(&node), &create), "in the name of its own node only");
    let of_a_pod =
        event(&elsewhere.1).replace("kubevirt.io/v1, kind: VirtualMachineInstance", "v1, kind: Pod");
    refused(&other.reads(&of_a_pod, &create), "records events of VMIs only");
    other.reads(&event(&elsewhere.1), &create).ok();
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");

    // Of its own node, what it is there for.
    other.patches(&there, r#"{"metadata":{"labels":{"kubevirt.io/schedulable":"false","cpu-model.node.kubevirt.io/a":"true"},"annotations":{"kubevirt.io/heartbeat":"1"}}}"#).ok();
    for (change, said) in [
        (
            r#"{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}"#,
            "changes only those labels",
        ),
        (r#"{"metadata":{"labels":{"kubernetes.io/hostname":"node1"}}}"#, "changes only those labels"),
        (
            r#"{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"9"}}}"#,
            "changes only the heartbeat",
        ),
        (r#"{"spec":{"taints":null}}"#, "does not change the spec"),
        (r#"{"spec":{"unschedulable":null}}"#, "does not change the spec"),
        (r#"{"metadata":{"finalizers":["example.com/a"]}}"#, "labels and annotations of a node only"),
    ] {
        refused(&other.patches(&there, change), said);
    }

    // The one of this node: what it tells, and nothing else.
    let own = Bearer::agent(&space, &node);
    own.patches("vmi/web", r#"{"status":{"guestOSInfo":{"name":"told"}}}"#).ok();
    for (change, said) in [
        (taken.as_str(), "changes only the VMIs of its own node"),
        (r#"{"status":{"activePods":{"a":"b"}}}"#, "changes only its own fields"),
        (r#"{"status":{"virtualMachineRevisionName":"another"}}"#, "changes only its own fields"),
        (r#"{"status":{"phase":"Invented"}}"#, "sets a known phase"),
        (r#"{"spec":{"hostname":"other"}}"#, "does not change the spec of a VMI"),
        (
            r#"{"metadata":{"finalizers":["kubevirt.io/foregroundDeleteVirtualMachine","kubevirt.io/virtualMachineControllerFinalize","a.example/b"]}}"#,
            "does not change the metadata",
        ),
        (r#"{"metadata":{"labels":{"a":"b"}}}"#, "does not change the metadata"),
    ] {
        refused(&own.patches("vmi/web", change), said);
    }
    // Where the API server keeps owners itself (OwnerReferencesPermissionEnforcement, which is asked before any policy), it
    // refuses whoever may not delete the object, as the agent may not; elsewhere our policy does.
    let freed = own.patches("vmi/web", r#"{"metadata":{"ownerReferences":null}}"#);
    assert_ne!(freed.code, 0, "it was done: {}", String::from_utf8_lossy(&freed.out));
    if !freed.err.contains("cannot set an ownerRef on a resource you can't delete") {
        refused(&freed, "does not change the metadata");
    }
    assert!(space.get("vmi/web", ".metadata.ownerReferences").contains("VirtualMachine"));

    // A token that says no node is nobody's.
    let nobody = Bearer::of(&space, "kubevirt-handler", &[]);
    for (object, change) in [("vmi/web", r#"{"status":{"reason":"a"}}"#), (here.as_str(), draws)] {
        refused(&nobody.patches(object, change), "does not say its node");
    }
    refused(&nobody.reads(&event(&node), &create), "does not say its node");
}

#[test]
fn a_stolen_token_of_virt_controller_makes_no_way_into_a_node() {
    let Some((space, node)) = vm("controller") else { return };
    let thief = Bearer::of(&space, "kubevirt-controller", &[]);
    let made = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let uid = space.get("vmi/web", ".metadata.uid");
        let mut pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "labels": {"kubevirt.io": "virt-launcher"},
                "ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": uid}],
            },
            "spec": {
                "automountServiceAccountToken": false,
                "securityContext": {"runAsUser": 107, "runAsGroup": 107, "fsGroup": 107, "runAsNonRoot": true},
                "containers": [{
                    "name": "a", "image": "registry:5000/busybox:1", "command": ["true"],
                    "securityContext": {
                        "runAsUser": 107, "runAsGroup": 107, "runAsNonRoot": true,
                        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    },
                }],
                "nodeSelector": {"nowhere": "true"},
            },
        });
        change(&mut pod);
        pod.to_string()
    };
    let pod = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        thief.reads(&made(name, change), &["create", "-f", "-"])
    };
    let root = serde_json::json!([{"name": "root", "hostPath": {"path": "/"}}]);
    let mount = serde_json::json!([{"name": "root", "mountPath": "/root"}]);
    pod("virt-launcher-a", &|_| ()).ok();
    refused(
        &pod("virt-launcher-b", &|pod| pod["metadata"]["ownerReferences"] = serde_json::json!([])),
        "launcher pods only",
    );
    refused(&pod("virt-launcher-b", &|pod| pod["spec"]["hostPID"] = true.into()), "namespaces of a node");
    let privileged = |pod: &mut serde_json::Value| {
        pod["spec"]["containers"][0]["securityContext"] = serde_json::json!({"privileged": true});
    };
    refused(&pod("virt-launcher-b", &privileged), "makes no privileged pods");
    refused(
        &pod("virt-launcher-b", &|pod| pod["spec"]["automountServiceAccountToken"] = true.into()),
        "no token of a service account",
    );
    let shows = |pod: &mut serde_json::Value| {
        pod["spec"]["volumes"] = root.clone();
        pod["spec"]["containers"][0]["volumeMounts"] = mount.clone();
    };
    pod("virt-launcher-c", &shows).ok();
    // A folder of the node, and root's group, another user, or a way to become root.
    for (field, value, said) in [
        ("runAsGroup", serde_json::json!(0), "a launcher's user and rights only"),
        ("runAsUser", 1000.into(), "a launcher's user and rights only"),
        ("allowPrivilegeEscalation", true.into(), "nor such as may become it"),
    ] {
        let change = |pod: &mut serde_json::Value| {
            shows(pod);
            pod["spec"]["containers"][0]["securityContext"][field] = value.clone();
        };
        refused(&pod("virt-launcher-d", &change), said);
    }
    let groups = |pod: &mut serde_json::Value| {
        shows(pod);
        pod["spec"]["securityContext"]["supplementalGroups"] = serde_json::json!([0]);
    };
    refused(&pod("virt-launcher-d", &groups), "a launcher's user and groups only");
    // The token of another account, in a volume that nobody mounts by itself.
    let token_of = |account: &str, audience: &str, name: &str| {
        pod(name, &|pod| {
            pod["spec"]["serviceAccountName"] = account.into();
            pod["spec"]["volumes"] = serde_json::json!([{"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "audience": audience}},
            ]}}]);
        })
    };
    let token = |audience: &str, name: &str| token_of("default", audience, name);
    // A VMI's serviceAccount volume: for launchers, and never where Kubernetes' and our own accounts are.
    refused(&token("", "virt-launcher-f"), "with the verb use on serviceaccounts");
    // An administrator opens an account: that one, and no other of the namespace.
    space.apply(&crate::shares::opening("default"));
    until(|| token("", "virt-launcher-f").code == 0, || "the account stays closed".to_owned());
    space.run(&["create", "serviceaccount", "other"]);
    refused(&token_of("other", "", "virt-launcher-d"), "with the verb use on serviceaccounts");
    let with_token = |pod: &mut serde_json::Value| {
        pod["spec"]["volumes"] = serde_json::json!([{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
        pod["spec"]["containers"][0]["volumeMounts"] =
            serde_json::json!([{"name": "token", "mountPath": "/token"}]);
    };
    for namespace in ["kubevirt", "kube-system"] {
        let ran = thief.reads(&made("virt-launcher-d", &with_token), &["-n", namespace, "create", "-f", "-"]);
        refused(&ran, "none of the accounts of Kubernetes and KubeVirt");
    }
    let of_another = |pod: &mut serde_json::Value| {
        with_token(pod);
        pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = 1000.into();
    };
    refused(&pod("virt-launcher-d", &of_another), "shows tokens of service accounts");
    refused(&token("https://kubernetes.default.svc", "virt-launcher-d"), "no token of a service account");
    token("istio-ca", "virt-launcher-e").ok();
    // An account of ours, where they are: a program in the pod would reach it without any volume.
    for account in ["kubevirt-controller", "kubevirt-apiserver", "kubevirt-handler", "cdi-uploadproxy"] {
        let home = made("virt-launcher-d", &|pod| pod["spec"]["serviceAccountName"] = account.into());
        let ran = thief.reads(&home, &["-n", "kubevirt", "create", "-f", "-"]);
        refused(&ran, "gives the accounts of KubeVirt to no pod");
    }
    // Root with the capabilities that open a node; a mesh's may change the pod's own network.
    let root = |capability: &str, name: &str| {
        pod(name, &|pod| {
            pod["spec"]["initContainers"] = serde_json::json!([{
                "name": "init", "image": "registry:5000/busybox:1",
                "securityContext": {
                    "runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": false, "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"], "add": [capability]},
                },
            }]);
        })
    };
    for capability in ["SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE"] {
        refused(&root(capability, "virt-launcher-d"), "no capabilities of root");
    }
    root("NET_ADMIN", "virt-launcher-g").ok();
    let csi = serde_json::json!([{"name": "a", "csi": {"driver": "example.com"}}]);
    refused(
        &pod("virt-launcher-d", &|pod| pod["spec"]["volumes"] = csi.clone()),
        "the kinds of volumes that launchers have",
    );

    // A worker is a PVC's, and sees nothing of a node. PVCs are those of DataVolumes.
    let worker = |name: &str, owner: &str, change: &dyn Fn(&mut serde_json::Value)| {
        pod(name, &|pod| {
            pod["metadata"]["labels"] = serde_json::json!({"kubevirt.io": "cdi-worker"});
            pod["metadata"]["ownerReferences"][0]["kind"] = owner.into();
            let version = if owner == "PersistentVolumeClaim" { "v1" } else { "kubevirt.io/v1" };
            pod["metadata"]["ownerReferences"][0]["apiVersion"] = version.into();
            change(pod);
        })
    };
    worker("importer-a", "PersistentVolumeClaim", &|_| ()).ok();
    refused(&worker("importer-b", "VirtualMachineInstance", &|_| ()), "worker pods, owned by their PVCs");
    refused(&worker("other", "PersistentVolumeClaim", &|_| ()), "worker pods, owned by their PVCs");
    refused(&worker("importer-b", "PersistentVolumeClaim", &shows), "worker pods with nothing of a node");
    let image = |volume: &'static str| {
        move |pod: &mut serde_json::Value| {
            pod["spec"]["volumes"] =
                serde_json::json!([{"name": volume, "image": {"reference": "registry:5000/disk:1"}}]);
        }
    };
    worker("importer-c", "PersistentVolumeClaim", &image("cdi-image-vol")).ok();
    for (name, volume) in [("importer-d", "other"), ("cdi-upload-d", "cdi-image-vol")] {
        refused(&worker(name, "PersistentVolumeClaim", &image(volume)), "worker pods with nothing of a node");
    }
    let claim = |owner: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: theirs{owner}}}, spec: {{accessModes: \
             [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}}}"
        )
    };
    refused(&thief.reads(&claim(""), &["create", "-f", "-"]), "the PVCs of DataVolumes only");
    space.apply(&claim(""));
    let said = "only annotations of CDI of a PVC";
    refused(&thief.patches("pvc/theirs", r#"{"metadata":{"labels":{"a":"b"}}}"#), said);
    refused(&thief.patches("pvc/theirs", r#"{"metadata":{"annotations":{"a":"b"}}}"#), said);
    thief.patches("pvc/theirs", r#"{"metadata":{"annotations":{"cdi.kubevirt.io/a":"b"}}}"#).ok();

    space.run(&["run", "theirs", "--image=registry:5000/pause:1"]);
    let said = "deletes launcher and worker pods only, and changes launcher pods and the permit";
    refused(&thief.runs(&["delete", "pod", "theirs"]), said);
    let ended = r#"{"status":{"phase":"Succeeded"}}"#;
    refused(&thief.patches("pod/theirs", ended), said);
    refused(&thief.patches("pod/virt-launcher-a", ended), "only the conditions of a pod's status");
    let revision =
        "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: theirs}, revision: 1, data: {}}";
    let said = "the revisions of VMs only";
    refused(&thief.reads(revision, &["create", "-f", "-"]), said);
    space.apply(revision);
    refused(&thief.runs(&["delete", "controllerrevision", "theirs"]), said);
    let role = format!("node/{node}");
    refused(
        &thief.patches(&role, r#"{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}"#),
        "whether VMIs may be scheduled",
    );
    refused(&thief.patches(&role, r#"{"spec":{"unschedulable":true}}"#), "changes only labels of a node");
    // The secrets of the installation: the two that are its own, and no way to the token of another account.
    let secret = |of: &str, words: &[&str]| {
        let token = format!("--token={}", thief.token);
        let first = [
            "--kubeconfig=/dev/null",
            "--insecure-skip-tls-verify",
            "-s",
            &thief.server,
            &token,
            "-n",
            "kubevirt",
        ];
        kubectl(&space, of, &[&first[..], words].concat())
    };
    secret("", &["get", "secret", "kubevirt-ca", "-o", "name"]).ok();
    for words in [&["get", "secret", "another"][..], &["get", "secrets"], &["get", "configmaps"]] {
        assert!(secret("", words).err.contains("Forbidden"), "{words:?}");
    }
    let made = "{apiVersion: v1, kind: Secret, metadata: {name: mine, annotations: {kubernetes.io/service-account.name: \
                kubevirt-handler}}, type: kubernetes.io/service-account-token}";
    refused(&secret(made, &["create", "-f", "-"]), "only objects with the names of its own");
    let hook = ["delete", "validatingwebhookconfiguration", "another"];
    assert!(secret("", &hook).err.contains("Forbidden"));
    of_upload_pods(&thief);
}

/// In other namespaces virt-controller writes secrets and services of upload pods alone, and reads no secret.
fn of_upload_pods(thief: &Bearer<'_>) {
    let space = thief.space;
    let uid = space.run(&["get", "pvc", "theirs", "-o", "jsonpath={.metadata.uid}"]);
    let object = |kind: &str, name: &str, label: &str, owner: &str, rest: serde_json::Value| {
        let mut object = serde_json::json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {
                "name": name, "labels": {"cdi.kubevirt.io": label},
                "ownerReferences": [{"apiVersion": "v1", "kind": owner, "name": "theirs", "uid": uid}],
            },
        });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object.to_string()
    };
    let create = ["create", "-f", "-"];
    let (label, pvc) = ("cdi-upload-server", "PersistentVolumeClaim");
    let secret = |name: &str, label: &str, owner: &str, kind: &str| {
        object("Secret", name, label, owner, serde_json::json!({"type": kind}))
    };
    thief.reads(&secret("cdi-upload-a", label, pvc, "Opaque"), &create).ok();
    let said = "and secrets of upload pods";
    for other in [
        secret("theirs", label, pvc, "Opaque"),
        secret("cdi-upload-b", "importer", pvc, "Opaque"),
        secret("cdi-upload-b", label, pvc, "example.com/other"),
        // A name of its own is one in its own namespace.
        secret("kubevirt-ca", label, pvc, "Opaque"),
    ] {
        refused(&thief.reads(&other, &create), said);
    }
    refused(&thief.reads(&secret("cdi-upload-b", label, "Pod", "Opaque"), &create), "for PVCs only");
    assert!(thief.runs(&["get", "secret", "cdi-upload-a"]).err.contains("Forbidden"));
    let data = r#"{"data":{"tls.key":"QQ=="}}"#;
    thief.patches("secret/cdi-upload-a", data).ok();
    // What is a tenant's becomes none of ours, whatever it is called, and is not deleted.
    let theirs = |name: &str| {
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, stringData: {{a: b}}}}")
    };
    let takes = r#"{"metadata":{"labels":{"cdi.kubevirt.io":"cdi-upload-server"}}}"#;
    for name in ["theirs", "cdi-upload-theirs"] {
        space.apply(&theirs(name));
        for change in [data, takes, "{}"] {
            refused(&thief.patches(&format!("secret/{name}"), change), said);
        }
        refused(&thief.runs(&["delete", "secret", name, "--wait=false"]), said);
    }
    thief.runs(&["delete", "secret", "cdi-upload-a", "--wait=false"]).ok();

    let service = |name: &str, address: &str, selector: serde_json::Value| {
        let spec = serde_json::json!({"clusterIP": address, "selector": selector, "ports": [{"port": 8443}]});
        object("Service", name, label, pvc, serde_json::json!({"spec": spec}))
    };
    let selects = |name: &str| serde_json::json!({"service": name});
    thief.reads(&service("cdi-upload-a", "None", selects("cdi-upload-a")), &create).ok();
    refused(&thief.reads(&service("theirs", "None", selects("theirs")), &create), "of upload pods");
    let said = "headless services only";
    for (address, selector) in [
        ("", selects("cdi-upload-b")),
        ("None", selects("cdi-upload-a")),
        ("None", serde_json::json!({"service": "cdi-upload-b", "app": "web"})),
        ("None", serde_json::json!({"app": "web"})),
    ] {
        refused(&thief.reads(&service("cdi-upload-b", address, selector), &create), said);
    }
    space.apply("{apiVersion: v1, kind: Service, metadata: {name: theirs}, spec: {ports: [{port: 80}]}}");
    refused(&thief.runs(&["delete", "service", "theirs", "--wait=false"]), "of upload pods");
    thief.runs(&["delete", "service", "cdi-upload-a", "--wait=false"]).ok();
}

#[test]
fn nobody_takes_from_under_a_vm_what_keeps_a_second_from_its_disk() {
    let Some((space, _)) = vm("fencing") else { return };
    let bind = ["create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice"];
    space.run(&bind);
    // Also the admin of a namespace is none of the cluster's.
    space.run(&["create", "rolebinding", "root", "--clusterrole=admin", "--user=root"]);
    let name = space.pod_of("web");
    let pod = format!("pod/{name}");
    let as_user = |user: &str, words: &[&str]| space.try_run(&[&["--as", user], words].concat());
    let patch = |user: &str, object: &str, change: &str| {
        as_user(user, &["patch", object, "--type=merge", "-p", change])
    };
    let force = ["delete", "pod", name.as_str(), "--force", "--grace-period=0", "--wait=false"];
    let none = r#"{"metadata":{"finalizers":null}}"#;
    let off = r#"{"metadata":{"annotations":{"kubevirt.io/fencing":"off"}}}"#;
    let evicts = |user: &str, name: &str| {
        let evict = serde_json::json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space.name},
            "deleteOptions": {"gracePeriodSeconds": 0},
        });
        let path = format!("/api/v1/namespaces/{}/pods/{name}/eviction", space.name);
        let words = ["--as", user, "create", "--raw", &path, "-f", "-"];
        kubectl(&space, &evict.to_string(), &words)
    };
    // The rights of a role come a moment after it is bound.
    until(
        || patch("alice", "vm/web", r#"{"metadata":{"labels":{"mine":"yes"}}}"#).code == 0,
        || "alice may nothing".into(),
    );
    until(
        || patch("root", "vm/web", r#"{"metadata":{"labels":{"mine":"no"}}}"#).code == 0,
        || "root may nothing".into(),
    );
    for user in ["alice", "root"] {
        for object in ["vmi/web", "vm/web"] {
            refused(
                &patch(user, object, none),
                "a finalizer of KubeVirt is removed by virt-controller once nothing of the VM runs",
            );
        }
        for change in [
            r#"{"metadata":{"labels":{"kubevirt.io":null}}}"#,
            r#"{"metadata":{"labels":{"kubevirt.io/created-by":"another"}}}"#,
            r#"{"metadata":{"ownerReferences":null}}"#,
        ] {
            refused(
                &patch(user, &pod, change),
                "the owner of a launcher pod and the labels it is found by stay",
            );
        }
        let by_force = "is not deleted by force while it may run";
        refused(&as_user(user, &force), by_force);
        refused(&evicts(user, &name), by_force);
        let label =
            ["run", "stranger", "--image=registry:5000/pause:1", "--labels=kubevirt.io=virt-launcher"];
        refused(&as_user(user, &label), "are made by virt-controller only");
        // It would stand in the way of a launcher that is to come, and be waited for when its VMI goes.
        let named = ["run", "virt-launcher-next-0123456789", "--image=registry:5000/pause:1"];
        refused(&as_user(user, &named), "are made by virt-controller only");
        // The word that ends fencing is not theirs to leave for who has the right.
        let word = "only users who may unfence";
        for object in ["vmi/web", "vm/web", pod.as_str()] {
            refused(&patch(user, object, off), word);
        }
    }
    // Nor is it anything without the right where it stands.
    space.run(&["patch", "vmi", "web", "--type=merge", "-p", off]);
    for user in ["alice", "root"] {
        refused(&patch(user, "vmi/web", none), "a finalizer of KubeVirt");
    }
    space.run(&["annotate", "vmi", "web", "kubevirt.io/fencing-"]);
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
    // Whoever may all does not do it by habit either, but can.
    refused(&space.try_run(&["patch", "vmi", "web", "--type=merge", "-p", none]), "a finalizer of KubeVirt");
    refused(&space.try_run(&force), "is not deleted by force");
    space.run(&["patch", &pod, "--type=merge", "-p", off]);
    // An ordinary deletion is everybody's, and what was begun in order ends in order.
    as_user("alice", &["delete", "vm", "web", "--wait=false"]).ok();
    space.gone("vm/web");
    space.gone(&pod);
}

#[test]
fn what_a_pod_does_not_get_of_its_vmi_is_told() {
    let Some(space) = Space::new("passed") else { return };
    let manifest = tiny("web", "Always").replace(
        "  template:\n",
        "  template:\n    metadata:\n      labels: {app: web}\n      annotations:\n        \
         k8s.v1.cni.cncf.io/networks: kube-system/a\n        \
         container.apparmor.security.beta.kubernetes.io/compute: unconfined\n        \
         descheduler.alpha.kubernetes.io/evict: \"true\"\n",
    );
    let told = space.try_apply(&manifest).ok();
    let said = "spec.template.metadata.annotations: the launcher pod of the VMI does not get \
                container.apparmor.security.beta.kubernetes.io/compute, k8s.v1.cni.cncf.io/networks";
    assert!(told.err.contains(said), "{}", told.err);
    let pod = format!("pod/{}", space.pod_of("web"));
    let notes = space.get(&pod, ".metadata.annotations");
    assert!(notes.contains("descheduler.alpha.kubernetes.io/evict"), "{notes}");
    assert!(!notes.contains("cni.cncf.io") && !notes.contains("apparmor"), "{notes}");
    assert_eq!(space.get(&pod, ".metadata.labels.app"), "web");
    // It stays on the VMI.
    assert!(space.get("vmi/web", ".metadata.annotations").contains("k8s.v1.cni.cncf.io/networks"));
    let reasons = || space.run(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
    until(|| reasons().contains("NotPassedOn"), reasons);
}
