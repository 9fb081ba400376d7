//! Clones of PVCs of other namespaces: the sources in a request, and the token that proves the author's
//! permission to virt-controller.
//!
//! ```text
//!  request ─ wanted() ─► sources ─ asked of the API server (crate::clones) ─► CloneResult ─┬─► DataVolume: token, or a refusal
//!                                                                                          └─► VM: refusals of its templates
//! ```
//!
//! The token replaces any value written by the author. A DataVolume without one from here is not cloned.

use super::{AdmissionResponse, Operation, Request, RequestContext, patch};
use api::data_volume::{DataVolume, Spec};
use api::fault::{Fault, Reason};
use api::vm::VirtualMachine;
use api::wire::{self, Wire};
use cluster_model::clones::CLONE_TOKEN;
use cluster_model::objects::{Kind, owner};
use cluster_model::plan::merge;
use cluster_model::webhooks::Question;
use serde_json::{Value, json};

/// Maximum number of clones of a VM.
pub const MOST: usize = 16;

/// Source of a clone, as in the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneSource {
    /// A PVC of this namespace and name.
    Claim(String, String),
    /// The source of the DataSource of this namespace and name.
    Source(String, String),
}

/// Result of the permission check of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneResult {
    /// No token is needed: the source is in the same namespace, or is not known yet.
    Own,
    /// The PVC of this namespace and name may be cloned.
    Permitted(String, String),
    /// Every PVC of this namespace may be cloned, and the DataSource of this name has none yet.
    PermittedLater(String, String),
    /// The source may not be cloned, with the reason.
    Denied(String),
}

/// User whose right to clone counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneSubject {
    /// The user of the request.
    Requester,
    /// A service account of the namespace.
    Account(String),
    /// The service account of a VM of the namespace, by name and uid.
    Vm(String, String),
    /// None: virt-controller creates the DataVolume, and not for a VM.
    Nobody,
}

/// The sources of a DataVolume, or of each template of a VM; empty if the webhook does not check clones.
pub fn wanted(question: Question, request: &Request) -> Vec<Option<CloneSource>> {
    if request.is_leaving() {
        return Vec::new();
    }
    match question {
        Question::FillDataVolume if request.operation == Operation::Create => {
            read::<DataVolume>(&request.object).map(|volume| vec![of_spec(&volume.spec, request)])
        }
        // The permission given when the VM was written is checked again when its DataVolume is created.
        Question::Vm
            if request.operation == Operation::Create
                || templates(&request.old) != templates(&request.object) =>
        {
            let vm = read::<VirtualMachine>(&request.object);
            vm.map(|vm| {
                let templates = vm.spec.data_volume_templates.iter();
                templates.map(|template| of_spec(&template.spec, request)).collect()
            })
        }
        _ => None,
    }
    .filter(|list: &Vec<_>| list.iter().any(Option::is_some))
    .unwrap_or_default()
}

fn templates(vm: &Value) -> &Value {
    &vm["spec"]["dataVolumeTemplates"]
}

fn of_spec(spec: &Spec, request: &Request) -> Option<CloneSource> {
    let own = &request.namespace;
    let within = |other: Option<&str>| other.filter(|other| !other.is_empty()).unwrap_or(own).to_owned();
    if let Some(named) = &spec.source_ref {
        return Some(CloneSource::Source(within(named.namespace.as_deref()), named.name.clone()));
    }
    let pvc = spec.source.as_ref()?.pvc.as_ref()?;
    let namespace = within(Some(&pvc.namespace));
    (namespace != *own).then(|| CloneSource::Claim(namespace, pvc.name.clone()))
}

/// The user whose right to clone counts. `controller` is virt-controller's user.
pub fn whose(question: Question, request: &Request, controller: &str) -> CloneSubject {
    if question == Question::Vm {
        return CloneSubject::Account(
            read::<VirtualMachine>(&request.object).map_or_else(usual, |vm| account(&vm)),
        );
    }
    if request.who.name != controller {
        return CloneSubject::Requester;
    }
    let meta = read::<DataVolume>(&request.object).map(|volume| volume.metadata);
    let vm = meta.as_ref().and_then(owner::controller).filter(|owner| {
        owner.kind == Kind::VirtualMachine.name() && owner.api_version == Kind::VirtualMachine.api_version()
    });
    vm.map_or(CloneSubject::Nobody, |owner| CloneSubject::Vm(owner.name.clone(), owner.uid.clone()))
}

/// The service account of a VM: that of its `serviceAccount` volume, or the namespace's default one.
pub fn account(vm: &VirtualMachine) -> String {
    let volumes = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
    let named = volumes.filter_map(|volume| volume.service_account.as_ref());
    let mut named =
        named.filter_map(|source| source.service_account_name.clone()).filter(|name| !name.is_empty());
    named.next().unwrap_or_else(usual)
}

fn usual() -> String {
    "default".to_owned()
}

/// Message of a denial: upstream's, followed by the missing right.
pub fn denied(user: &str, namespace: &str) -> String {
    let (group, plural, part) = cluster_model::clones::RIGHT;
    format!(
        "User {user} has insufficient permissions in clone source namespace {namespace}: it takes the right to create \
         {plural}/{part} ({group}) there"
    )
}

/// The DataVolume with its token, or without one.
pub(super) fn fill(request: &Request, context: &RequestContext) -> AdmissionResponse {
    if request.operation != Operation::Create {
        return AdmissionResponse::yes();
    }
    if let Some(Some(CloneResult::Denied(why))) = context.clones.first() {
        return AdmissionResponse::no(vec![Fault::new("spec.source", Reason::Invalid, why.clone())]);
    }
    let mut should = request.object.clone();
    match &context.token {
        Some(token) => merge(&mut should, &json!({"metadata": {"annotations": {CLONE_TOKEN: token}}})),
        None => {
            let annotations = should.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
            annotations.and_then(|annotations| annotations.remove(CLONE_TOKEN));
        }
    }
    AdmissionResponse { patch: patch::between(&request.object, &should), ..AdmissionResponse::yes() }
}

/// Faults of a VM's templates whose sources its service account may not clone.
pub(super) fn faults(context: &RequestContext) -> impl Iterator<Item = Fault> + '_ {
    context.clones.iter().enumerate().filter_map(|(i, found)| match found {
        Some(CloneResult::Denied(why)) => {
            let message = format!("Authorization failed, message is: {why}");
            Some(Fault::new(format!("spec.dataVolumeTemplates[{i}]"), Reason::Invalid, message))
        }
        _ => None,
    })
}

fn read<T: Wire>(object: &Value) -> Option<T> {
    wire::read_in_part(object.clone(), &mut Vec::new())
}
