//! Who may clone a PVC of another namespace: asked of the API server while a DataVolume or a VM is written.
//!
//! ```text
//!  review ─► a turn ─► DataSource ─► its PVC ─► SubjectAccessReview: create datavolumes/source there ─► Found ─► rules, token
//!                      (one step to another)      of the maker; of what virt-controller makes for a VM,
//!                         │ nowhere yet           of the VM's service account
//!                         └─► of all PVCs of the namespace of the DataSource ─► token of the DataSource
//! ```
//!
//! **A DataSource that leads nowhere yet.** The token is of the DataSource, for whoever may clone every PVC of its namespace.
//! virt-controller takes it for a PVC of that namespace that the DataSource leads to when the clone begins, and for no other: whoever
//! turns the DataSource to another namespace gains nothing.
//!
//! A review comes from whoever reaches the port, and may be made up. Whoever makes one up learns whether a user may clone, and where a
//! DataSource leads to; a token that is signed for it opens nothing, for it is in no DataVolume that the API server showed to virt-api
//! (the policy `kubevirt-clone-tokens` lets nobody write it later, and virt-controller wants the webhook to have been there). So that a
//! flood of reviews is no flood at the API server, [`AT_ONCE`] are looked at at a time and [`WAITING`] wait; of more, one of the
//! address that has most is refused at once ([`super::waiting`]). All users ask from the one address of an API server: therefore the
//! namespaces of an address share its places, and take turns ([`namespaces`]).

use super::rules::clone::{Found, MOST, Wanted, Whose, account, denied};
use super::waiting::{Place, Waiting};
use api::cdi::{DataSource, DataSourceSource};
use api::vm::VirtualMachine;
use api::wire;
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_client::{Server, Writer, review};
use cluster_model::clones::RIGHT;
use cluster_model::objects::{Key, Kind};
use namespaces::{Namespaces, Share};
use serde_json::{Value, json};
use serve::transport::Peer;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

mod namespaces;

/// How long one review takes, from its coming to its answer. The API server waits 10 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// Reviews that are looked at at once.
const AT_ONCE: usize = 8;
/// Reviews that wait or are looked at.
const WAITING: usize = 128;
/// The name of virt-api in managed fields.
const COMPONENT: &str = "virt-api";

/// What is asked of the API server.
pub(super) trait Cluster: Send + Sync {
    /// An object; nothing where there is none.
    fn read(&self, key: &Key) -> impl Future<Output = Result<Option<Value>>> + Send;

    /// Whether somebody may do something, by the spec of a SubjectAccessReview.
    fn may(&self, spec: &Value) -> impl Future<Output = Result<bool>> + Send;
}

/// The API server itself.
pub(super) struct Real {
    client: kube::Client,
    server: Writer,
}

impl Cluster for Real {
    async fn read(&self, key: &Key) -> Result<Option<Value>> {
        match self.server.get(key).await {
            Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
            found => found.map(Some),
        }
    }

    async fn may(&self, spec: &Value) -> Result<bool> {
        let is = review(&self.client, Kind::SubjectAccessReview, spec).await?;
        Ok(is["allowed"] == true && is["denied"] != true)
    }
}

/// A question about clones.
pub(super) struct Asked<'a> {
    /// What is cloned, by template.
    pub(super) wanted: &'a [Option<Wanted>],
    /// The namespace of the clones.
    pub(super) namespace: &'a str,
    pub(super) whose: Whose,
    /// Whoever asks, as a SubjectAccessReview names them.
    pub(super) subject: &'a Value,
}

/// Asks who may clone.
pub(super) struct Clones<C = Real> {
    cluster: C,
    waiting: Waiting,
    namespaces: Namespaces,
    working: Semaphore,
}

impl Clones {
    pub(super) fn new(client: kube::Client) -> Clones {
        Clones::of(Real { server: Writer::new(client.clone(), COMPONENT), client })
    }
}

impl<C: Cluster> Clones<C> {
    fn of(cluster: C) -> Clones<C> {
        Clones {
            cluster,
            waiting: Waiting::new(WAITING),
            namespaces: Namespaces::new(WAITING),
            working: Semaphore::new(AT_ONCE),
        }
    }

    /// What comes of each source.
    pub(super) async fn found(&self, asked: &Asked<'_>, peer: Peer) -> Result<Vec<Option<Found>>> {
        let is_full = || {
            let what = format!(
                "cannot ask who may clone: {WAITING} other reviews wait for the API server; try again"
            );
            Error::new(ErrorKind::Unreachable, what)
        };
        let Some(share) = self.namespaces.enter(peer, asked.namespace) else {
            let what = format!(
                "cannot ask who may clone: too many other reviews of the namespace {} wait for the API server; try again",
                asked.namespace
            );
            return Err(Error::new(ErrorKind::Unreachable, what));
        };
        let Some(place) = self.waiting.enter(peer) else { return Err(is_full()) };
        let looked = async {
            let _works = self.turn(&share, &place).await?;
            self.look(asked).await
        };
        tokio::select! {
            looked = tokio::time::timeout(PATIENCE, looked) => looked.unwrap_or_else(|_| {
                let what = format!("the API server did not say who may clone within {} s; try again", PATIENCE.as_secs());
                Err(Error::new(ErrorKind::Unreachable, what))
            }),
            () = place.is_gone() => Err(is_full()),
        }
    }

    /// Waits until this one may begin. The next one waits no longer than that, and not for the end of this one.
    async fn turn(&self, share: &Share<'_>, place: &Place<'_>) -> Result<SemaphorePermit<'_>> {
        let _of_namespace = share.is_first().await;
        let _of_address = place.is_first().await;
        let works = self.working.acquire().await;
        works.map_err(|e| Error::setup("clones are not asked about any more", e))
    }

    async fn look(&self, asked: &Asked<'_>) -> Result<Vec<Option<Found>>> {
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
                all.push(Some(Found::Denied(why)));
                continue;
            }
            let resolved = self.resolve(wanted).await?;
            let home = match (&resolved, wanted) {
                (Some((namespace, _)), _) => namespace,
                (None, Wanted::Claim(namespace, _) | Wanted::Source(namespace, _)) => namespace,
            };
            if home == asked.namespace {
                all.push(Some(Found::Own));
                continue;
            }
            if subject.is_none() {
                subject = Some(self.subject(asked).await?);
            }
            let found = match (&subject, resolved, wanted) {
                (Some(Ok(subject)), Some((namespace, name)), _) => self.may(subject, namespace, name).await?,
                (Some(Ok(subject)), None, Wanted::Source(namespace, name)) => {
                    self.may_later(subject, namespace, name).await?
                }
                // Of what leads nowhere yet nothing is refused.
                (Some(Err(why)), Some(_), _) => Found::Denied(why.clone()),
                _ => Found::Own,
            };
            all.push(Some(found));
        }
        Ok(all)
    }

    async fn may(&self, subject: &Value, namespace: String, name: String) -> Result<Found> {
        let user = subject["user"].as_str().unwrap_or_default();
        Ok(match self.is_permitted(subject, &namespace, Some(&name)).await? {
            true => Found::Permitted(namespace, name),
            false => Found::Denied(denied(user, &namespace)),
        })
    }

    /// Which PVC the DataSource will lead to nobody knows: it is signed for whoever may clone all of its namespace. A right to clone
    /// PVCs of certain names (`resourceNames`) is not enough.
    async fn may_later(&self, subject: &Value, namespace: &str, source: &str) -> Result<Found> {
        if ![namespace, source].into_iter().all(cluster_model::objects::names::is_name) {
            return Ok(Found::Own);
        }
        Ok(match self.is_permitted(subject, namespace, None).await? {
            true => Found::PermittedLater(namespace.to_owned(), source.to_owned()),
            false => Found::Own,
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
        self.cluster.may(&spec).await
    }

    /// The PVC that is meant; nothing, where that is not known yet.
    async fn resolve(&self, wanted: &Wanted) -> Result<Option<(String, String)>> {
        let (namespace, name) = match wanted {
            Wanted::Claim(namespace, name) => return Ok(Some((namespace.clone(), name.clone()))),
            Wanted::Source(namespace, name) => (namespace, name),
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
        let found = self.cluster.read(&Key::new(Kind::DataSource, namespace, name)).await?;
        let source = found.and_then(|object| wire::read_in_part::<DataSource>(object, &mut Vec::new()));
        Ok(source.map(|source| source.spec.source))
    }

    /// Whose right counts, as a SubjectAccessReview names them; or why nobody's does.
    async fn subject(&self, asked: &Asked<'_>) -> Result<std::result::Result<Value, String>> {
        let name = match &asked.whose {
            Whose::Requester => return Ok(Ok(asked.subject.clone())),
            Whose::Nobody => {
                let why =
                    "virt-controller makes it, and for no VM whose service account could be asked about";
                return Ok(Err(why.to_owned()));
            }
            Whose::Account(name) => name.clone(),
            Whose::Vm(name, uid) => {
                let found =
                    self.cluster.read(&Key::new(Kind::VirtualMachine, asked.namespace, &**name)).await?;
                let vm =
                    found.and_then(|object| wire::read_in_part::<VirtualMachine>(object, &mut Vec::new()));
                match vm.filter(|vm| vm.metadata.uid.as_ref() == Some(uid)) {
                    Some(vm) => account(&vm),
                    None => {
                        return Ok(Err(format!("VM {name}, for which it is made, is not there any more")));
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
