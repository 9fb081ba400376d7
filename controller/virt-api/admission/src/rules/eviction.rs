//! Decision about evictions of launcher pods: the guest is shut down, or the eviction (and with it the drain
//! of the node) waits.
//!
//! | `evictionStrategy` | answer |
//! |---|---|
//! | unset, `None`; `LiveMigrateIfPossible` of a VMI that cannot migrate | yes: the launcher shuts the guest down |
//! | `LiveMigrate`, `LiveMigrateIfPossible` of a VMI that can migrate | 429, and the VMI gets the node to leave: `status.evacuationNodeName`. virt-controller migrates it |
//! | `LiveMigrate` of a VMI that cannot migrate | 429: its guest is not shut down |
//! | `External` | 429, and the node to leave. Another program ends the VMI |
//!
//! If unset in the VMI, the value of the KubeVirt object applies. 429 makes `kubectl drain`, and every other
//! client of the Eviction API, retry: a drain waits until the pod is gone. The messages are upstream's, which
//! the descheduler and others look for.
//!
//! **Guarantees.** An eviction is permitted only after the pod and its VMI were read. A pod that is not a
//! launcher pod of an existing VMI, or that has ended, needs no protection.

use super::answer::Deferral;
use super::{AdmissionResponse, Operation, Request, RequestContext};
use api::vmi::{ConditionType, EvictionStrategy, VirtualMachineInstance};
use cluster_model::conditions::is_true;
use cluster_model::objects::names::{self, is_name};
use cluster_model::objects::{Key, Kind, LauncherPods, Pod, owner};

/// The pod to evict and its VMI, as the API server has them.
#[derive(Clone, Debug, Default)]
pub struct Evicted {
    /// The pod, if it exists.
    pub pod: Option<Pod>,
    /// The VMI that the pod names as its owner, if it exists.
    pub vmi: Option<VirtualMachineInstance>,
}

/// The launcher pod that a request is about; `None` for another pod. Namespace and name are valid in a path.
pub fn pod_of(request: &Request) -> Option<Key> {
    let Request { operation, namespace, name, .. } = request;
    let is_launcher = name.starts_with(names::LAUNCHER) && is_name(name) && is_name(namespace);
    (*operation == Operation::Create && is_launcher).then(|| Key::new(Kind::Pod, namespace, name))
}

/// The VMI that a pod names as its owner.
pub fn vmi_of(pod: &Pod) -> Option<Key> {
    let kind = Kind::VirtualMachineInstance;
    let is_vmi = |owner: &&api::meta::OwnerReference| {
        owner.kind == kind.name() && owner.api_version == kind.api_version() && is_name(&owner.name)
    };
    let owner = owner::controller(&pod.meta).filter(is_vmi)?;
    Some(Key::new(kind, pod.meta.namespace.clone()?, &owner.name))
}

/// A review reduced to the fields for its decision. The rest is not kept while it waits.
pub fn reduced(request: Request) -> Request {
    let dry_run = is_dry(&request);
    let Request { uid, operation, namespace, name, .. } = request;
    Request { uid, operation, namespace, name, dry_run, ..Request::default() }
}

/// True for a dry run of the eviction.
pub fn is_dry(request: &Request) -> bool {
    request.dry_run || request.object["deleteOptions"]["dryRun"][0] == "All"
}

/// Deferral for a pod that could not be read. The client retries.
pub fn deferred_unread(request: &Request, why: &str) -> AdmissionResponse {
    let Request { namespace, name, .. } = request;
    let message = format!(
        "the pod {namespace}/{name} is not evicted now, since it is not known whether its VMI may be shut down: {why}; \
         try again"
    );
    AdmissionResponse::later(Deferral { message, evacuates: None })
}

/// The decision about an eviction, from the pod and the VMI that were read.
pub(super) fn judge(request: &Request, context: &RequestContext) -> AdmissionResponse {
    if pod_of(request).is_none() {
        return AdmissionResponse::yes();
    }
    match &context.evicted {
        Some(evicted) => decide(evicted, context.config.eviction_strategy.as_ref()),
        None => deferred_unread(request, "it was not read from the API server"),
    }
}

fn decide(evicted: &Evicted, of_cluster: Option<&EvictionStrategy>) -> AdmissionResponse {
    let Evicted { pod: Some(pod), vmi: Some(vmi) } = evicted else { return AdmissionResponse::yes() };
    if pod.has_ended() || has_ended(vmi) || !is_launcher_of(pod, vmi) {
        return AdmissionResponse::yes();
    }
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let can_migrate = is_true(said, &ConditionType::LiveMigratable);
    match vmi.spec.eviction_strategy.as_ref().or(of_cluster) {
        Some(EvictionStrategy::LiveMigrate | EvictionStrategy::LiveMigrateIfPossible) if can_migrate => {
            AdmissionResponse::later(evacuated(pod, vmi))
        }
        Some(EvictionStrategy::LiveMigrate) => {
            let name = vmi.metadata.name.as_deref().unwrap_or_default();
            let message =
                format!("VMI {name} is configured with an eviction strategy but is not live-migratable");
            AdmissionResponse::later(Deferral { message, evacuates: None })
        }
        Some(EvictionStrategy::External) => AdmissionResponse::later(evacuated(pod, vmi)),
        None
        | Some(
            EvictionStrategy::None | EvictionStrategy::LiveMigrateIfPossible | EvictionStrategy::Other(_),
        ) => AdmissionResponse::yes(),
    }
}

/// Deferral for a VMI that has to leave its node.
fn evacuated(pod: &Pod, vmi: &VirtualMachineInstance) -> Deferral {
    let said = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
    let status = vmi.status.as_ref();
    let (namespace, name) = (vmi.metadata.namespace.as_deref(), vmi.metadata.name.as_deref());
    let triggered = format!(
        "Eviction triggered evacuation of VMI \"{}/{}\"",
        namespace.unwrap_or_default(),
        name.unwrap_or_default()
    );
    if said(status.and_then(|status| status.evacuation_node_name.as_ref())).is_some() {
        return Deferral { message: format!("Evacuation in progress: {triggered}"), evacuates: None };
    }
    let node = said(status.and_then(|status| status.node_name.as_ref()));
    match node.filter(|node| pod.node.as_ref() == Some(node)) {
        Some(node) => Deferral { message: triggered, evacuates: Some(node) },
        // The guest is on another node, or not yet handed over to the pod's node.
        None => Deferral { message: "Eviction request for target Pod".to_owned(), evacuates: None },
    }
}

fn has_ended(vmi: &VirtualMachineInstance) -> bool {
    let phase = vmi.status.as_ref().and_then(|status| status.phase.as_ref());
    phase.is_some_and(api::vmi::Phase::is_final)
}

fn is_launcher_of(pod: &Pod, vmi: &VirtualMachineInstance) -> bool {
    LauncherPods::for_vmi(vmi).is_some_and(|pods| pods.any().contains(&pod.meta))
}
