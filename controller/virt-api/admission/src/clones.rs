//! Access reviews for clones of PVCs in other namespaces, made while a DataVolume or a VM is admitted.
//!
//! ```text
//!  review ─► a turn ─► DataSource ─► its PVC ─► SubjectAccessReview: create datavolumes/source there ─► CloneResult ─► rules, token
//!                      (one step to another)      for the author; for objects that virt-controller creates for a VM,
//!                         │ nowhere yet           for the VM's service account
//!                         └─► for all PVCs of the namespace of the DataSource ─► token of the DataSource
//! ```
//!
//! **A DataSource without a PVC yet.** The token names the DataSource, for a user who may clone every PVC of
//! its namespace. virt-controller accepts it for the PVC of that namespace that the DataSource references
//! when the clone starts, and for no other: pointing the DataSource to another namespace gains nothing.
//!
//! A review may be forged by any client that reaches the port. Its author learns whether a user may clone,
//! and the target of a DataSource. A token signed for it is useless, since it is in no DataVolume that passed
//! virt-api's webhook (the policy `kubevirt-clone-tokens` forbids adding it later, and virt-controller
//! requires that the webhook existed). A flood of reviews does not flood the API server ([`super::review_queue`]).

use super::review_queue::ReviewQueue;
use super::rules::clone::{CloneResult, CloneSource, CloneSubject, MOST, account, denied};
use api::cdi::{DataSource, DataSourceSource};
use api::vm::VirtualMachine;
use api::wire;
use cluster_client::error::Result;
use cluster_client::{Server, Writer, review};
use cluster_model::clones::RIGHT;
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};
use serve::transport::Peer;

/// Name of virt-api in managed fields.
const COMPONENT: &str = "virt-api";

/// A question about the clones of a request.
pub(super) struct CloneCheck<'a> {
    /// Sources of the clones, one for each template.
    pub(super) wanted: &'a [Option<CloneSource>],
    /// Namespace of the clones.
    pub(super) namespace: &'a str,
    pub(super) whose: CloneSubject,
    /// The user of the request, as in a SubjectAccessReview.
    pub(super) subject: &'a Value,
}

/// Checks permissions of clones.
pub(super) struct Clones {
    client: kube::Client,
    server: Writer,
    queue: ReviewQueue,
}

impl Clones {
    pub(super) fn new(client: kube::Client) -> Clones {
        Clones { server: Writer::new(client.clone(), COMPONENT), client, queue: ReviewQueue::new() }
    }

    /// The result for each source.
    pub(super) async fn found(&self, asked: &CloneCheck<'_>, peer: Peer) -> Result<Vec<Option<CloneResult>>> {
        let doing = "check the permission to clone";
        self.queue.run(peer, asked.namespace, doing, Box::pin(self.look(asked))).await
    }

    async fn look(&self, asked: &CloneCheck<'_>) -> Result<Vec<Option<CloneResult>>> {
        let mut subject = None;
        let mut all = Vec::with_capacity(asked.wanted.len());
        for (count, wanted) in asked.wanted.iter().enumerate() {
            let Some(wanted) = wanted else {
                all.push(None);
                continue;
            };
            if count >= MOST {
                let why =
                    format!("a VM has no more than {MOST} dataVolumeTemplates where one of them is a clone");
                all.push(Some(CloneResult::Denied(why)));
                continue;
            }
            let resolved = self.resolve(wanted).await?;
            let home = match (&resolved, wanted) {
                (Some((namespace, _)), _) => namespace,
                (None, CloneSource::Claim(namespace, _) | CloneSource::Source(namespace, _)) => namespace,
            };
            if home == asked.namespace {
                all.push(Some(CloneResult::Own));
                continue;
            }
            if subject.is_none() {
                subject = Some(self.subject(asked).await?);
            }
            let found = match (&subject, resolved, wanted) {
                (Some(Ok(subject)), Some((namespace, name)), _) => {
                    self.check_clone(subject, namespace, name).await?
                }
                (Some(Ok(subject)), None, CloneSource::Source(namespace, name)) => {
                    self.check_deferred_clone(subject, namespace, name).await?
                }
                // A DataSource without a PVC is not refused.
                (Some(Err(why)), Some(_), _) => CloneResult::Denied(why.clone()),
                _ => CloneResult::Own,
            };
            all.push(Some(found));
        }
        Ok(all)
    }

    async fn check_clone(&self, subject: &Value, namespace: String, name: String) -> Result<CloneResult> {
        let user = subject["user"].as_str().unwrap_or_default();
        Ok(match self.is_permitted(subject, &namespace, Some(&name)).await? {
            true => CloneResult::Permitted(namespace, name),
            false => CloneResult::Denied(denied(user, &namespace)),
        })
    }

    /// The PVC of the DataSource is not known yet. So the token requires the right to clone all PVCs of its
    /// namespace. A right on PVCs of certain names (`resourceNames`) is not enough.
    async fn check_deferred_clone(
        &self,
        subject: &Value,
        namespace: &str,
        source: &str,
    ) -> Result<CloneResult> {
        if ![namespace, source].into_iter().all(cluster_model::objects::names::is_name) {
            return Ok(CloneResult::Own);
        }
        Ok(match self.is_permitted(subject, namespace, None).await? {
            true => CloneResult::PermittedLater(namespace.to_owned(), source.to_owned()),
            false => CloneResult::Own,
        })
    }

    async fn is_permitted(&self, subject: &Value, namespace: &str, name: Option<&str>) -> Result<bool> {
        let (group, plural, part) = RIGHT;
        let mut spec = subject.clone();
        spec["resourceAttributes"] = json!({
            "group": group, "version": api::cdi::VERSION, "resource": plural, "subresource": part, "verb": "create",
            "namespace": namespace,
        });
        if let Some(name) = name {
            spec["resourceAttributes"]["name"] = json!(name);
        }
        let answer = review(&self.client, Kind::SubjectAccessReview, &spec).await?;
        Ok(answer["allowed"] == true && answer["denied"] != true)
    }

    /// Namespace and name of the source PVC; `None` if it is not known yet.
    async fn resolve(&self, wanted: &CloneSource) -> Result<Option<(String, String)>> {
        let (namespace, name) = match wanted {
            CloneSource::Claim(namespace, name) => return Ok(Some((namespace.clone(), name.clone()))),
            CloneSource::Source(namespace, name) => (namespace, name),
        };
        let Some(source) = self.source(namespace, name).await? else { return Ok(None) };
        let source = match &source.data_source {
            None => Some(source),
            Some(other) if other.namespace.is_empty() || other.namespace == *namespace => {
                self.source(namespace, &other.name).await?
            }
            Some(_) => None,
        };
        let within = |other: &str| if other.is_empty() { namespace.clone() } else { other.to_owned() };
        Ok(source.and_then(|source| source.pvc).map(|pvc| (within(&pvc.namespace), pvc.name)))
    }

    async fn source(&self, namespace: &str, name: &str) -> Result<Option<DataSourceSource>> {
        let is_path = [namespace, name].into_iter().all(cluster_model::objects::names::is_name);
        if !is_path {
            return Ok(None);
        }
        let found = self.server.find(&Key::new(Kind::DataSource, namespace, name)).await?;
        let source = found.and_then(|object| wire::read_in_part::<DataSource>(object, &mut Vec::new()));
        Ok(source.map(|source| source.spec.source))
    }

    /// The user whose right to clone counts, as in a SubjectAccessReview. The inner error is the reason why
    /// there is none.
    async fn subject(&self, asked: &CloneCheck<'_>) -> Result<std::result::Result<Value, String>> {
        let name = match &asked.whose {
            CloneSubject::Requester => return Ok(Ok(asked.subject.clone())),
            CloneSubject::Nobody => {
                let why =
                    "virt-controller creates it, and not for a VM whose service account could be checked";
                return Ok(Err(why.to_owned()));
            }
            CloneSubject::Account(name) => name.clone(),
            CloneSubject::Vm(name, uid) => {
                let found =
                    self.server.find(&Key::new(Kind::VirtualMachine, asked.namespace, &**name)).await?;
                let vm =
                    found.and_then(|object| wire::read_in_part::<VirtualMachine>(object, &mut Vec::new()));
                match vm.filter(|vm| vm.metadata.uid.as_ref() == Some(uid)) {
                    Some(vm) => account(&vm),
                    None => {
                        return Ok(Err(format!(
                            "VM {name}, for which it is created, does not exist any more"
                        )));
                    }
                }
            }
        };
        let namespace = asked.namespace;
        Ok(Ok(json!({
            "user": format!("system:serviceaccount:{namespace}:{name}"),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
        })))
    }
}

#[cfg(test)]
mod tests;
