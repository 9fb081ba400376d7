//! The pod that polls where virt-controller cannot poll by itself. Pure: the same DataImportCron gives the
//! same pod, byte for byte.
//!
//! ```text
//!  pod poller-NAME-N, owned by the DataImportCron, restartPolicy Never, five minutes at most; N failures in a row before it
//!  └─ container: cdi-worker poll, uid 107, CDI_JOB has the question
//!       /etc/cdi/secrets/NAME, /etc/cdi/certs/NAME     what the template names, as in the importer's pod
//!  ends with a digest or a reason in its termination message ─► learned ─► deleted; one that failed stays until the next one
//! ```
//!
//! | reason for a pod | |
//! |---|---|
//! | the template names a Secret, a ConfigMap, headers, or a user in its URL | virt-controller has no right to Secrets of tenants, and polls without credentials |
//! | `coracle-registries`, `insecureRegistries` | cdi-worker applies the rules of registries |
//! | `importProxy` | virt-controller's own requests go through no proxy |
//!
//! **Assumptions.** The digest of a pod that is marked as the poller of a DataImportCron is accepted. A user
//! who may create pods in that namespace may import anything there.

use super::source::{Question, Source, is_image_digest};
use crate::data_volume::base_pod::{self, BasePod};
use crate::data_volume::pod::MountedObjects;
use crate::data_volume::registries::RegistrySettings;
use crate::data_volume::worker::{attempt, why_not_running};
use api::cdi::DataImportCron;
use api::data_volume::DataVolume;
use api::job::{self, Files, Import, Poll, References, Refusal, Report, Stage, Target};
use cluster_model::objects::{IndexKey, Key, Kind, Pod, World, names, owner};
use cluster_model::polls::{CONTAINER, NoAnswer, PollRecord, WORK, is_poller};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::path::PathBuf;

/// The longest life of a pod, in seconds.
const LONGEST: i64 = 300;
/// Most characters of a pod's message that are kept.
const WORDS: usize = 512;

/// True if a pod has to poll this source.
pub(super) fn is_wanted(world: &World, source: &Source<'_>) -> bool {
    match source {
        Source::ByPod => true,
        Source::Asked(question) => has_proxy(world) || is_told(world, question),
        Source::Pinned(_) | Source::Pvc(_) | Source::Refused(..) => false,
    }
}

fn has_proxy(world: &World) -> bool {
    let said = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let proxy = world.disk_settings().imports.import_proxy.as_ref();
    proxy.is_some_and(|proxy| said(&proxy.http_proxy) || said(&proxy.https_proxy))
}

/// True if there are settings for this registry. Settings that cannot be read are reported when the pod is
/// created.
fn is_told(world: &World, question: &Question) -> bool {
    let Question::Image { host, .. } = question else { return false };
    !RegistrySettings::of_host(Some(host), world).is_ok_and(|told| told.is_empty())
}

/// The pods of a DataImportCron, the last one first.
pub(super) fn all<'a>(world: &'a World, cron: &DataImportCron) -> Vec<&'a Pod> {
    let Some(uid) = cron.metadata.uid.clone() else { return Vec::new() };
    let owned =
        world.indexed_by(&IndexKey::Owner(uid)).filter_map(|key| world.pods.get(&key.namespace, &key.name));
    let is_its = |pod: &&Pod| is_poller(&pod.meta) && pod.meta.namespace == cron.metadata.namespace;
    let mut pods: Vec<&Pod> = owned.filter(is_its).collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(attempt(pod)));
    pods
}

/// Result of a poll pod, with the failure as text; `None` while it has not ended.
pub(super) fn poll_result(pod: &Pod) -> Option<(PollRecord, Option<String>)> {
    let made = || pod.meta.creation_timestamp.as_ref()?.parse::<Timestamp>().ok();
    let ended = pod.container(CONTAINER).and_then(|container| container.ended.as_ref());
    let (report, said, at) = match ended {
        Some((code, word, message, finished)) => {
            let report = Report::of_termination(message);
            let said = if word.is_empty() {
                format!("exit code {code}")
            } else {
                format!("{word}, exit code {code}")
            };
            (report, said, finished.parse().ok().or_else(made))
        }
        // Evicted, over its time, or its node is gone: no container says how it ended.
        None if pod.has_ended() => {
            let word = pod.reason.clone().unwrap_or_else(|| "Error".to_owned());
            let message = pod.message.clone().unwrap_or_default();
            (None, format!("{word}: {message}"), made())
        }
        None => return None,
    };
    let at = at.unwrap_or(Timestamp::UNIX_EPOCH);
    let digest =
        report.as_ref().filter(|report| report.stage == Stage::Done && is_image_digest(&report.digest));
    if let Some(report) = digest {
        let polled = PollRecord { at, answer: Ok(report.digest.clone()), failures: 0, pause: None };
        return Some((polled, None));
    }
    let message = report.map(|report| report.message).filter(|message| !message.is_empty());
    let why = message.unwrap_or_else(|| format!("the poll pod ended without an answer ({said})"));
    let failures = u32::try_from(attempt(pod)).unwrap_or(u32::MAX).saturating_add(1);
    let why = why.chars().filter(|letter| !letter.is_control()).take(WORDS).collect();
    Some((PollRecord { at, answer: Err(NoAnswer::Pod), failures, pause: None }, Some(why)))
}

/// Reason and message of a pod that does not run yet; `None` if it runs.
pub(super) fn why_pending(world: &World, pod: &Pod) -> Option<String> {
    let runs = pod.container(CONTAINER).is_some_and(|container| container.running);
    if runs || pod.is_going() {
        return None;
    }
    let (word, message) = why_not_running(world, pod, CONTAINER, "Poll", None);
    let name = pod.meta.name.as_deref().unwrap_or_default();
    (word != "Pending").then(|| format!("pod {name} does not run: {word}: {message}"))
}

/// The pod after this number of failures, or the reason why there can be none.
pub(super) fn pod(world: &World, cron: &DataImportCron, failures: i64) -> Result<(Key, Value), String> {
    let meta = &cron.metadata;
    let template = &cron.spec.template;
    let volume = DataVolume { metadata: meta.clone(), spec: template.spec.clone(), ..DataVolume::default() };
    let mut named = MountedReferences::default();
    // Nothing is written: a poll has no target.
    let mut source = match Import::from_data_volume(&volume, Target::File(PathBuf::new()), &mut named) {
        Ok(import) => import.source,
        Err(Refusal::Faults(faults)) => {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            return Err(format!("spec.template: {first}"));
        }
        Err(Refusal::Reference(never)) => match never {},
    };
    let told = RegistrySettings::of_source(&source, world)?;
    if let job::Source::Registry(registry) = &mut source {
        told.apply_to_job(registry);
    }
    let (mut volumes, mut mounts) = (Vec::new(), vec![json!({"name": "tmp", "mountPath": "/tmp"})]);
    volumes.push(json!({"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}));
    named.0.add(&mut volumes, &mut mounts);
    // A job is made of texts alone.
    let job = serde_json::to_string(&Poll { source }).unwrap_or_default();
    let env = vec![json!({"name": "CDI_JOB", "value": job}), json!({"name": "OWNER_UID", "value": meta.uid})];
    let mut container = base_pod::container(world, CONTAINER, "poll", env);
    container["volumeMounts"] = json!(mounts);
    let name = names::poller(meta.name.as_deref().unwrap_or_default(), failures);
    let mut pod = base_pod::pod(BasePod {
        world,
        name: &name,
        namespace: meta.namespace.as_deref(),
        owner: owner::reference(Kind::DataImportCron, meta),
        work: WORK,
        fetches: true,
        attempt: failures,
        labels: Map::new(),
        container,
        volumes,
    });
    pod["spec"]["activeDeadlineSeconds"] = json!(LONGEST);
    told.apply_to_pod(&mut pod);
    if let Some(class) = template.spec.priority_class_name.as_ref().filter(|class| !class.is_empty()) {
        pod["spec"]["priorityClassName"] = json!(class);
    }
    Ok((Key::new(Kind::Pod, meta.namespace.clone().unwrap_or_default(), name), pod))
}

/// Secrets and ConfigMaps of the template. An image that nodes pull is looked up in its registry.
#[derive(Default)]
struct MountedReferences(MountedObjects);

impl References for MountedReferences {
    type Error = Infallible;

    fn secret(&mut self, name: &str) -> Result<Files, Infallible> {
        self.0.secret(name)
    }

    fn config_map(&mut self, name: &str) -> Result<PathBuf, Infallible> {
        self.0.config_map(name)
    }
}
