//! Manifests of the installation, as one list of objects: `coracle manifests` prints it.
//!
//! ```text
//!  InstallOptions ─► namespace, definitions (api::crd), priority
//!            identity   an account for each program, with the rights that its code declares
//!            people     roles of users, aggregated to admin, edit and view; rights of all authenticated users
//!            admission  admission policies: on our accounts, on fencing, and against a downgrade
//!            policies   network policies of the programs
//!            programs   virt-controller, virt-api, virt-handler, and their probes
//!            monitoring optional: scrapes, rules, alerts and dashboards
//! ```
//!
//! Pure. **Called by** the program `coracle` alone. The KubeVirt object is not in the list: virt-controller
//! creates it if there is none, so that applying the list again changes no settings. The objects removed with
//! `kubectl delete -f` are exactly the applied ones. **Absent:** a client (`kubectl` applies the list), and
//! the programs: rights, names and the layout of their objects are in `cluster-model`, and
//! `tests/sim/programs` checks their command lines against the manifests.

// Tests wait for their own tasks only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]
// A `json!` is passed by value, since that reads better than a reference.
#![allow(clippy::needless_pass_by_value)]

mod admission;
mod identity;
pub mod monitoring;
mod people;
mod policies;
mod programs;

use cluster_model::components::CONTAINERS;
use cluster_model::versions::{IMAGES, REGISTRY, VERSION};
use serde_json::{Value, json};

/// Options of an installation.
#[derive(Clone, Debug)]
pub struct InstallOptions {
    pub namespace: String,
    /// Prefix of the images: a registry, and a path in it.
    pub registry: String,
    /// Tag of the images.
    pub version: String,
    /// Image pull policy; `None` for the default.
    pub pull_policy: Option<String>,
    /// Name of an image pull secret in the namespace.
    pub pull_secret: Option<String>,
}

impl InstallOptions {
    /// Full name of a program's image.
    fn image(&self, program: &str) -> String {
        format!("{}/{program}:{}", self.registry.trim_end_matches('/'), self.version)
    }
}

/// All objects, each after those that it needs.
pub fn objects(options: &InstallOptions) -> Vec<Value> {
    let mut objects = vec![namespace(options)];
    objects.extend(api::crd::all());
    objects.push(priority());
    // The policies come before the accounts that they restrict.
    objects.extend(admission::objects(options));
    objects.extend(identity::objects(options));
    objects.extend(people::objects());
    objects.extend(policies::objects(options));
    objects.extend(programs::objects(options));
    objects.iter_mut().for_each(|object| note(options, object));
    objects
}

/// Adds the annotations with the version of an object, for a component also to its pods. virt-controller uses
/// them to see whether an upgrade is complete, and [`admission`] to refuse a downgrade.
fn note(options: &InstallOptions, object: &mut Value) {
    let notes = [(VERSION, options.version.as_str()), (REGISTRY, options.registry.trim_end_matches('/'))];
    let put = |meta: &mut Value| {
        for (name, value) in notes {
            meta["annotations"][name] = json!(value);
        }
    };
    put(&mut object["metadata"]);
    if let Some(pod) = object.pointer_mut("/spec/template/metadata") {
        put(pod);
        object["metadata"]["annotations"][IMAGES] = json!(images(object));
    }
}

/// The images of a component's containers.
fn images(program: &Value) -> String {
    let pod = &program["spec"]["template"]["spec"];
    let all = CONTAINERS.iter().flat_map(|list| pod[list].as_array().into_iter().flatten());
    all.filter_map(|container| container["image"].as_str()).collect::<Vec<_>>().join(",")
}

/// The namespace permits privileged pods, whatever the cluster's default is: virt-handler is one.
fn namespace(options: &InstallOptions) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": options.namespace, "labels": {
            "kubevirt.io": "",
            "pod-security.kubernetes.io/enforce": "privileged",
        }},
    })
}

fn priority() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY, "labels": {"kubevirt.io": ""}},
        "value": 1_000_000_000,
        "description": "Control plane of KubeVirt: all VMs of the cluster need it.",
    })
}

/// The priority class of our own pods.
const PRIORITY: &str = "kubevirt-cluster-critical";

#[cfg(test)]
mod reach;
#[cfg(test)]
mod tests;
