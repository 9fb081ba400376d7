//! Everything that makes a cluster run VMs, as one list of objects: `coracle manifests` prints it.
//!
//! ```text
//!  Wishes ─► namespace, definitions (api::crd), priority
//!            identity   an account for each program, its rights: what the reconcilers declare
//!            people     what users of a cluster may do, aggregated to admin, edit and view; what everybody may ask
//!            admission  what the API server itself refuses: to our accounts, to whoever ends fencing, and a downgrade
//!            policies   who may reach them
//!            programs   virt-controller, virt-api, virt-handler, and what the kubelet must know of them
//!            monitoring apart from these, for who wants it: scrapes, rules, alerts and dashboards
//! ```
//!
//! Pure. **Called by** the program `coracle` alone. The KubeVirt object is not in the list: virt-controller makes it
//! where there is none, so that applying the list again changes no settings. What is removed with
//! `kubectl delete -f` is exactly what was applied. **Absent:** a client (whoever applies the list has one), and the programs:
//! rights, names and the form of what they write are in `cluster-model`, and `tests/sim/programs` holds their command
//! lines against what is installed.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]
// A `json!` reads better where it is handed over than behind a `&`.
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

/// What an installation is to be like.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Where it is.
    pub namespace: String,
    /// Where its images are: a registry, and a path in it.
    pub registry: String,
    /// Their tag.
    pub version: String,
    /// When images are pulled, if not when they are missing.
    pub pull_policy: Option<String>,
    /// A secret in the namespace, with which images are pulled.
    pub pull_secret: Option<String>,
}

impl Wishes {
    /// The name of an image.
    fn image(&self, program: &str) -> String {
        format!("{}/{program}:{}", self.registry.trim_end_matches('/'), self.version)
    }
}

/// All objects, each after those it needs.
pub fn objects(wishes: &Wishes) -> Vec<Value> {
    let mut objects = vec![namespace(wishes)];
    objects.extend(api::crd::all());
    objects.push(priority());
    // Before the accounts that they bind.
    objects.extend(admission::objects(wishes));
    objects.extend(identity::objects(wishes));
    objects.extend(people::objects());
    objects.extend(policies::objects(wishes));
    objects.extend(programs::objects(wishes));
    objects.iter_mut().for_each(|object| note(wishes, object));
    objects
}

/// Notes of which version an object is, and of a program also at its pods. By it virt-controller tells whether an upgrade has
/// reached everything, and [`admission`] refuses a downgrade.
fn note(wishes: &Wishes, object: &mut Value) {
    let notes = [(VERSION, wishes.version.as_str()), (REGISTRY, wishes.registry.trim_end_matches('/'))];
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

/// The images of the containers of a program.
fn images(program: &Value) -> String {
    let pod = &program["spec"]["template"]["spec"];
    let all = CONTAINERS.iter().flat_map(|list| pod[list].as_array().into_iter().flatten());
    all.filter_map(|container| container["image"].as_str()).collect::<Vec<_>>().join(",")
}

/// virt-handler is privileged, whatever the cluster asks of pods by default.
fn namespace(wishes: &Wishes) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": wishes.namespace, "labels": {
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

/// The priority of our own pods.
const PRIORITY: &str = "kubevirt-cluster-critical";

#[cfg(test)]
mod reach;
#[cfg(test)]
mod tests;
