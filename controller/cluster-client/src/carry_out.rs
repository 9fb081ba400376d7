//! Carries out a plan, step by step, up to the first failure.
//!
//! ```text
//!  Plan ── step by step ──► request ──► response ──► the World (we read our own writes)
//!            └─ the first failure ends it: conflict (decide again), refused or unreachable (retry later, recorded)
//! ```

use super::certificate;
use super::deletion::Deletion;
use super::event::{Source, event};
use super::object::meta;
use super::server::{Server, is_of};
use super::signing_key;
use crate::error::{Error, ErrorKind, Result};
use api::vmi::DeviceAttribute;
use api::wire::Wire;
use cluster_model::claimed::{self, Allocated, ClaimedDevice, Search, TellDevices};
use cluster_model::issue::{Issue, IssueKey, KeyChange, PodCertificateIssue};
use cluster_model::networks;
use cluster_model::objects::{Attempt, FOUND_BY, Key, Kind, LauncherPods, object_labels, owner};
use cluster_model::plan::{EventRecord, Mounts, NetworkAttachment, Plan, Step};
use cluster_model::worker::WORK;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of pages of ResourceSlices that are read.
const SLICES: usize = 4;

/// Result of a plan.
#[derive(Debug, Default)]
pub struct PlanResult {
    /// Objects as the API server returned them.
    pub answers: Vec<(Kind, Value)>,
    /// Objects to delete that are already gone, by uid. A watch that does not follow them would never report
    /// it.
    pub gone: Vec<(Key, String)>,
    /// Deletions that the API server accepted.
    pub deletions: Vec<Deletion>,
    /// Number of requests that changed something.
    pub writes: usize,
    /// Error that ended the plan early, and the operation that failed.
    pub failed: Option<(Option<Attempt>, Error)>,
}

impl PlanResult {
    /// Result of a plan whose task panicked: it is retried.
    pub fn broken_off(error: impl std::error::Error + Send + Sync + 'static) -> PlanResult {
        let error = Error::new(ErrorKind::Unreachable, "the task of a plan panicked").because(error);
        PlanResult { failed: Some((None, error)), ..PlanResult::default() }
    }
}

/// Carries out a plan in order, up to the first failed step. `source` is the program in events.
pub async fn carry_out(server: &impl Server, source: Source<'_>, plan: Plan) -> PlanResult {
    let mut work = Work { server, source, versions: BTreeMap::new(), done: PlanResult::default() };
    for step in plan.steps {
        let about = step.attempt();
        if let Err(error) = work.step(step).await {
            work.done.failed = Some((about, error));
            break;
        }
    }
    work.done
}

/// A plan that is being carried out.
struct Work<'a, S> {
    server: &'a S,
    source: Source<'a>,
    /// Versions after our own changes, from which a second change of the same object continues.
    versions: BTreeMap<Key, String>,
    done: PlanResult,
}

impl<S: Server> Work<'_, S> {
    async fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Create { key, object } => self.create(key, object).await?,
            Step::CreateOnNetworks { key, mut object, networks } => {
                let mut known = BTreeMap::new();
                for network in &networks {
                    self.add_device(&mut object, network, &mut known).await?;
                }
                self.create(key, object).await?;
            }
            Step::RecordDevices(telling) => self.tell_devices(telling).await?,
            Step::Patch { key, version, change, part } => self.patch(key, version, change, part).await?,
            Step::Delete { key, uid, version } => self.delete(key, uid, version).await?,
            Step::Evict { key, uid } => match self.server.evict(&key, &uid).await {
                Ok(_) => self.done.writes += 1,
                // A disruption budget, the VMI's eviction strategy, or a replaced pod. The eviction is
                // requested again later if still needed.
                Err(error) => tracing::info!("the pod is not evicted now: {}", error.chain()),
            },
            Step::DeleteOwnedBy { key, owner } => self.delete_of(&key, &owner).await?,
            Step::RequireAbsent { key, of } => match self.server.get(&key).await {
                Err(error) if error.kind() == ErrorKind::Gone => {}
                Err(error) => return Err(error),
                Ok(object) if of.is_some_and(|of| !of.contains(&meta(&object))) => {}
                Ok(object) => {
                    self.done.answers.push((key.kind, object));
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!("{key} exists; the cache was outdated"),
                    ));
                }
            },
            Step::RequireNoLauncherPod { namespace, vmis } => self.no_pod_of(&namespace, &vmis).await?,
            Step::RequirePresent { key, uid } => self.present(key, uid).await?,
            Step::RequireMembers(members) => {
                if !self.server.has_members(&members).await? {
                    let (kind, least) = (members.kind.name(), members.least);
                    let what = format!(
                        "fewer than {least} objects {kind} of the owner {} in namespace {} stay; the cache was outdated",
                        members.owner, members.namespace
                    );
                    return Err(Error::new(ErrorKind::Conflict, what));
                }
            }
            Step::RequireNoMounter { claim, by } => {
                if let Some(pod) = self.server.mounter(&claim, by).await? {
                    let why = if by == Mounts::ToWrite { " for writing" } else { "" };
                    let what = format!(
                        "pod {pod} mounts PVC {}{why}: this waits until the pod has ended",
                        claim.name
                    );
                    return Err(Error::new(ErrorKind::Refused, what));
                }
            }
            Step::Issue(issue) => {
                let made = self.issue(&issue).await?;
                self.done.writes += 1;
                self.done.answers.push((issue.key.kind, made));
            }
            Step::IssueForPod(issue) => {
                // The response is a tenant's Secret and is not kept.
                drop(self.issue_for_pod(&issue).await?);
                self.done.writes += 1;
            }
            Step::IssueKey(issue) => {
                let made = self.issue_key(&issue).await?;
                self.done.writes += 1;
                self.done.answers.push((issue.key.kind, made));
            }
            Step::RecordEvent(note) => self.record_event(&note).await,
        }
        Ok(())
    }

    async fn create(&mut self, key: Key, object: Value) -> Result<()> {
        let made = match self.server.create(&key, &object).await {
            Err(error) if error.kind() == ErrorKind::Exists => {
                let there = self.server.get(&key).await?;
                check_is_own(&key, &object, &there)?;
                there
            }
            other => {
                self.done.writes += 1;
                other?
            }
        };
        self.done.answers.push((key.kind, made));
        Ok(())
    }

    async fn patch(
        &mut self,
        key: Key,
        version: String,
        mut change: Value,
        part: Option<&'static str>,
    ) -> Result<()> {
        let version = self.versions.get(&key).cloned().unwrap_or(version);
        if !version.is_empty() {
            change["metadata"]["resourceVersion"] = json!(version);
        }
        let answer = self.server.patch(&key, &change, part).await?;
        self.done.writes += 1;
        if let Some(version) = answer["metadata"]["resourceVersion"].as_str() {
            self.versions.insert(key.clone(), version.to_owned());
        }
        self.done.answers.push((key.kind, answer));
        Ok(())
    }

    async fn delete(&mut self, key: Key, uid: String, version: String) -> Result<()> {
        let own = self.versions.get(&key).filter(|_| !version.is_empty());
        let version = own.unwrap_or(&version);
        let answer = match self.server.delete(&key, &uid, version).await {
            Err(error) if error.kind() == ErrorKind::Gone => {
                self.done.gone.push((key, uid));
                return Ok(());
            }
            other => {
                self.done.writes += 1;
                other?
            }
        };
        self.done.deletions.extend(Deletion::read(key, uid, answer));
        Ok(())
    }

    /// Reads the devices of a launcher pod's ResourceClaims and writes them to the status of its VMI: all of
    /// them, or none.
    async fn tell_devices(&mut self, telling: TellDevices) -> Result<()> {
        let TellDevices { key, version, pod, node, devices } = telling;
        let mut claims: BTreeMap<Key, Value> = BTreeMap::new();
        let mut found = Vec::new();
        for wanted in devices {
            if !claims.contains_key(&wanted.claim) {
                let claim = self
                    .server
                    .get(&wanted.claim)
                    .await
                    .map_err(|error| missing_claim_error(error, &wanted))?;
                claims.insert(wanted.claim.clone(), claim);
            }
            let claim = claims.get(&wanted.claim).unwrap_or(&Value::Null);
            let allocated = claimed::allocated(claim, &pod, &wanted.request)
                .map_err(|why| no_device(&wanted, &format!("{} {why}", wanted.claim)))?;
            found.push((wanted, allocated));
        }
        let drivers: BTreeSet<&str> = found.iter().map(|(_, allocated)| allocated.driver.as_str()).collect();
        let mut places = BTreeMap::new();
        for driver in drivers {
            let own = found.iter().enumerate().filter(|(_, (_, allocated))| allocated.driver == driver);
            places.extend(self.find_devices(driver, &node, &own.collect::<Vec<_>>()).await?);
        }
        // Devices in the order of the spec.
        let told = found.into_iter().zip(places.into_values());
        let told = told.map(|((wanted, allocated), place)| (wanted, allocated, place));
        let change = json!({"status": {"deviceStatus": claimed::status(told).write()}});
        self.patch(key, version, change, None).await
    }

    /// Searches for devices in the ResourceSlices of their driver on the node. Each slice is read once. The
    /// result is keyed by the index of the device.
    async fn find_devices(
        &self,
        driver: &str,
        node: &str,
        wanted: &[(usize, &(ClaimedDevice, Allocated))],
    ) -> Result<BTreeMap<usize, DeviceAttribute>> {
        let mut searches: Vec<Search<'_>> =
            wanted.iter().map(|(_, (_, allocated))| Search::new(allocated)).collect();
        let Some((_, (first, _))) = wanted.first() else { return Ok(BTreeMap::new()) };
        let mut more: Option<String> = None;
        for _ in 0..SLICES {
            let page = self.server.slices(driver, node, more.as_deref()).await;
            let page = page.map_err(|error| match (&more, error.kind()) {
                // `Gone` means that the continue token expired, since reading took too long. The list starts
                // again.
                (Some(_), ErrorKind::Gone) => {
                    let what = format!(
                        "the ResourceSlices of driver {driver} on {node} changed while they were read"
                    );
                    Error::new(ErrorKind::Unreachable, what).because(error)
                }
                _ => missing_claim_error(error, first),
            })?;
            for slice in page["items"].as_array().into_iter().flatten() {
                searches.iter_mut().for_each(|search| search.read_slice(slice));
            }
            more = page["metadata"]["continue"].as_str().filter(|next| !next.is_empty()).map(str::to_owned);
            if more.is_none() {
                let each = searches.into_iter().zip(wanted);
                return each
                    .map(|(search, (at, (of, _)))| {
                        Ok((*at, search.finish().map_err(|why| no_device(of, &why))?))
                    })
                    .collect();
            }
        }
        let why = format!("driver {driver} has more than {SLICES} pages of ResourceSlices on {node}");
        Err(no_device(first, &why))
    }

    /// Adds a device of a network to the launcher container, if its NetworkAttachmentDefinition names a
    /// resource. `known` caches the definitions.
    async fn add_device<'n>(
        &self,
        pod: &mut Value,
        network: &'n NetworkAttachment,
        known: &mut BTreeMap<&'n Key, Option<Value>>,
    ) -> Result<()> {
        let NetworkAttachment { name, definition, needs_device } = network;
        let what = |why: &str| {
            let (namespace, known) = (&definition.namespace, &definition.name);
            let what = format!("network {name}: NetworkAttachmentDefinition {namespace}/{known} {why}");
            Error::new(ErrorKind::Refused, what)
        };
        if !known.contains_key(definition) {
            let found = match self.server.get(definition).await {
                Err(error) if error.kind() == ErrorKind::Gone => None,
                found => Some(found?),
            };
            known.insert(definition, found);
        }
        let Some(found) = known.get(definition).and_then(Option::as_ref) else {
            // The status by Multus is reported when the pod exists.
            return if *needs_device { Err(what("is not there")) } else { Ok(()) };
        };
        match networks::resource(found) {
            Ok(Some(resource)) => networks::add_device(pod, name, resource),
            Ok(None) if *needs_device => {
                let why =
                    format!("has no annotation {} with the resource of its devices", networks::RESOURCE);
                return Err(what(&why));
            }
            Ok(None) => {}
            Err(odd) => {
                let why = format!(
                    "names {odd:?} in its annotation {}, which is not a resource of a device plugin",
                    networks::RESOURCE
                );
                return Err(what(&why));
            }
        }
        Ok(())
    }

    /// Requires that none of these launcher pods exists.
    async fn no_pod_of(&mut self, namespace: &str, vmis: &[LauncherPods]) -> Result<()> {
        let found = self.server.launcher_of(namespace, vmis).await?;
        let Some(pod) = found else { return Ok(()) };
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let error = Error::new(
            ErrorKind::Conflict,
            format!("launcher pod {namespace}/{name} exists; the cache was outdated"),
        );
        self.done.answers.push((Kind::Pod, pod));
        Err(error)
    }

    /// Requires that an object still exists and is not being deleted. Its present state is recorded in the
    /// result.
    async fn present(&mut self, key: Key, uid: String) -> Result<()> {
        let old =
            |what: &str| Error::new(ErrorKind::Conflict, format!("{key} {what}; the cache was outdated"));
        let object = match self.server.get(&key).await {
            Err(error) if error.kind() == ErrorKind::Gone => {
                let error = old("is gone");
                self.done.gone.push((key, uid));
                return Err(error);
            }
            object => object?,
        };
        let there = meta(&object);
        if there.uid.as_deref() == Some(uid.as_str()) && there.deletion_timestamp.is_none() {
            return Ok(());
        }
        let error = old("was replaced, or is being deleted");
        self.done.answers.push((key.kind, object));
        Err(error)
    }

    /// Deletes the object of this name if it has this owner. A missing object and one of another owner count
    /// as success.
    async fn delete_of(&mut self, key: &Key, owner: &str) -> Result<()> {
        let there = match key.kind {
            Kind::Secret => self.server.patch_of(key, owner, &json!({})).await,
            _ => self.server.get(key).await,
        };
        let there = match there {
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Refused => {
                tracing::info!("the object is not deleted: {}", error.chain());
                return Ok(());
            }
            there => there?,
        };
        let uid = there["metadata"]["uid"].as_str().unwrap_or_default();
        if !is_of(&there, owner) || uid.is_empty() {
            return Ok(());
        }
        match self.server.delete(key, uid, "").await {
            Err(error) if error.kind() == ErrorKind::Gone => Ok(()),
            done => {
                self.done.writes += 1;
                done.map(drop)
            }
        }
    }

    /// Creates a certificate and its Secret. An existing one counts as success.
    async fn issue(&self, issue: &Issue) -> Result<Value> {
        let authority = match &issue.signer {
            Some(signer) => Some(self.server.get(&signer.key).await?),
            None => None,
        };
        let present = match &issue.version {
            Some(_) if issue.has_paths => Some(self.server.get(&issue.key).await?),
            _ => None,
        };
        let mut secret = certificate::secret(issue, authority.as_ref(), present.as_ref())?;
        match &issue.version {
            Some(version) => {
                secret["metadata"]["resourceVersion"] = json!(version);
                self.server.patch(&issue.key, &secret, None).await
            }
            None => match self.server.create(&issue.key, &secret).await {
                Err(error) if error.kind() == ErrorKind::Exists => self.server.get(&issue.key).await,
                other => other,
            },
        }
    }

    /// Creates the certificate of a worker pod and its Secret. An existing Secret of the same owner gets a
    /// new certificate without being read. A Secret of another owner is left as it is.
    async fn issue_for_pod(&self, issue: &PodCertificateIssue) -> Result<Value> {
        let authority = self.server.get(&issue.signer()).await?;
        let others = self.server.get(&issue.peer_bundle()).await?;
        let secret = certificate::for_pod(issue, &authority, &others)?;
        match self.server.create(&issue.key, &secret).await {
            Err(error) if error.kind() == ErrorKind::Exists => {
                let owner = issue.owner["uid"].as_str().unwrap_or_default();
                self.server.patch_of(&issue.key, owner, &secret).await
            }
            other => other,
        }
    }

    /// Creates or promotes a key that signs upload tokens. An existing one counts as success.
    async fn issue_key(&self, issue: &IssueKey) -> Result<Value> {
        let change = match issue.change {
            KeyChange::First => signing_key::signing_secret(issue, &self.server.signing_key().await?),
            KeyChange::Next => signing_key::next(issue, &self.server.signing_key().await?),
            KeyChange::Promote => signing_key::promoted(issue, &self.server.get(&issue.key).await?)?,
        };
        match &issue.version {
            Some(_) => self.server.patch(&issue.key, &change, None).await,
            None => match self.server.create(&issue.key, &change).await {
                Err(error) if error.kind() == ErrorKind::Exists => self.server.get(&issue.key).await,
                other => other,
            },
        }
    }

    /// Records an event. A failure is logged and does not end the plan.
    async fn record_event(&self, note: &EventRecord) {
        let (object, key) = event(note, self.source, Timestamp::now());
        if let Err(error) = self.server.create(&key, &object).await {
            tracing::warn!("{}", error.chain());
        }
    }
}

/// Error for a device of a ResourceClaim that could not be determined.
fn no_device(wanted: &ClaimedDevice, why: &str) -> Error {
    let what = format!("spec.domain.devices.{} {}: {why}", wanted.list.field(), wanted.name);
    Error::new(ErrorKind::Refused, what)
}

/// Error for a missing ResourceClaim. Its kind is not `Gone`, which would mean that the plan's own object is
/// gone.
fn missing_claim_error(error: Error, wanted: &ClaimedDevice) -> Error {
    match error.kind() {
        ErrorKind::Gone => {
            let why =
                format!("{} is not there, or this cluster does not serve resource.k8s.io/v1", wanted.claim);
            no_device(wanted, &why).because(error)
        }
        _ => error,
    }
}

/// Refuses an existing object that differs in owner or labels from the one to create. A watch by labels would
/// not report such a pod, and a ControllerRevision without the labels would not be read. So it must not be
/// taken for the created one. The same holds for the Service of a deleted PVC, which the garbage collector
/// removes later than the PVC.
fn check_is_own(key: &Key, wanted: &Value, there: &Value) -> Result<()> {
    let owner = |object: &Value| {
        let meta = meta(object);
        let owner = owner::controller(&meta).cloned();
        owner.map(|owner| (owner.api_version, owner.kind, owner.uid))
    };
    let labels = || FOUND_BY.into_iter().chain([WORK.0, object_labels::KIND]);
    let found_by = |object: &Value| {
        labels().map(|label| object["metadata"]["labels"][label].clone()).collect::<Vec<_>>()
    };
    if !matches!(key.kind, Kind::Pod | Kind::Service | Kind::ControllerRevision)
        || owner(wanted) == owner(there) && found_by(wanted) == found_by(there)
    {
        return Ok(());
    }
    let what = format!(
        "{key} is there already, and was created by another program or user: delete it, or give the VMI or the DataVolume another name"
    );
    Err(Error::new(ErrorKind::Refused, what))
}
