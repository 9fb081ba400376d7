//! Detection of a restored etcd: the history of the cluster continues, or it went back to a snapshot.
//!
//! ```text
//!  each follower: a Trail ── the newest version, and the version of each object ──┐ a list contradicts
//!                  │                                                              ├──► the history went back
//!  writes: History ┴─ the newest version of all kinds in one etcd ────────────────┘
//! ```
//!
//! A list is requested without a version, so the API server answers with the present content of etcd. It
//! contains every object seen before the request, at the same version or a newer one. So a list that is
//! older, or that has an older version of an object, is of another history.
//! After that, remembered state is invalid: deleted objects exist again, and changed ones are as before. A
//! receiver whose state is just the last list needs nothing more. A program that decides on a cache of many
//! kinds exits and restarts ([`History::wait`]): otherwise it would decide on some kinds before the restore
//! and others after.
//! **Assumptions.** Versions are rising numbers, as etcd's are; others are not compared. The kinds of
//! KubeVirt and CDI are custom resources, and those are all in one etcd; any other kind may have its own
//! (`--etcd-servers-overrides`).

use cluster_model::objects::Kind;
use serde_json::Value;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// Maximum number of deleted objects that a trail remembers until the next list.
const GONE: usize = 1024;

/// The history that a program has seen.
#[derive(Debug)]
pub struct History {
    newest: Mutex<BTreeMap<&'static str, u64>>,
    back: watch::Sender<Option<String>>,
}

impl Default for History {
    fn default() -> Self {
        History { newest: Mutex::default(), back: watch::Sender::new(None) }
    }
}

impl History {
    /// Records an object in a response or an event of the API server.
    pub fn record(&self, kind: Kind, object: &Value) {
        if let Some(version) = version_of(object) {
            self.record_version(kind, version);
        }
    }

    /// The reason, if the history went back.
    pub fn restore_reason(&self) -> Option<String> {
        self.back.borrow().clone()
    }

    /// Waits until the history goes back, and returns the reason.
    pub async fn wait(&self) -> String {
        let mut back = self.back.subscribe();
        loop {
            if let Some(why) = back.borrow_and_update().clone() {
                return why;
            }
            if back.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn record_version(&self, kind: Kind, version: u64) {
        let mut all = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = all.entry(store(kind)).or_default();
        *newest = version.max(*newest);
    }

    pub(crate) fn newest(&self, kind: Kind) -> u64 {
        let all = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(store(kind)).copied().unwrap_or_default()
    }

    /// Records that another history has started.
    pub(crate) fn went_back(&self, kind: Kind, why: String) {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).remove(store(kind));
        self.back.send_replace(Some(why));
    }
}

/// The etcd that stores a kind: one for all custom resources, and maybe another for each other kind.
fn store(kind: Kind) -> &'static str {
    let group = kind.api_version().split('/').next().unwrap_or_default();
    if group.ends_with("kubevirt.io") { "kubevirt.io" } else { kind.plural() }
}

/// Versions that one follower has seen.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    newest: u64,
    /// Versions of objects, by hashes of their names and uids.
    objects: HashMap<u64, u64>,
    /// Hashes of the objects deleted last.
    gone: VecDeque<u64>,
}

impl Trail {
    /// The newest version seen.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Records the version of a watch event. False if it is older than an earlier one.
    pub(crate) fn record_version(&mut self, version: u64) -> bool {
        let goes_on = version >= self.newest;
        self.newest = version.max(self.newest);
        goes_on
    }

    /// Records an object in a watch event. False if its version is older than an earlier one.
    pub(crate) fn record_object(&mut self, object: &Value, is_gone: bool) -> bool {
        let Some(version) = version_of(object) else { return true };
        let sum = sum(object);
        self.objects.insert(sum, version);
        if is_gone {
            self.gone.push_back(sum);
            if self.gone.len() > GONE
                && let Some(oldest) = self.gone.pop_front()
            {
                self.objects.remove(&oldest);
            }
        }
        self.record_version(version)
    }

    /// Records a list of this version. `known` was the newest version of its etcd before the list was
    /// requested. Returns the reason if the list is of another history than before. The trail then continues
    /// with the list.
    pub(crate) fn record_list(
        &mut self,
        kind: Kind,
        version: &str,
        objects: &[Value],
        known: u64,
    ) -> Option<String> {
        let before = std::mem::take(self);
        let listed = version.parse::<u64>().ok();
        self.newest = listed.unwrap_or_default();
        self.objects = objects.iter().filter_map(|object| Some((sum(object), version_of(object)?))).collect();
        let plural = kind.plural();
        let newest = before.newest.max(known);
        if let Some(listed) = listed.filter(|listed| *listed < newest) {
            return Some(format!(
                "the list of {plural} has version {listed}, and version {newest} was seen before"
            ));
        }
        let older = objects.iter().find_map(|object| {
            let (version, seen) = (version_of(object)?, *before.objects.get(&sum(object))?);
            (version < seen).then_some((object, version, seen))
        })?;
        let (object, version, seen) = older;
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        Some(format!(
            "the list of {plural} has version {version} of {}/{}, and version {seen} was seen before",
            text("namespace"),
            text("name")
        ))
    }
}

pub(crate) fn version_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn sum(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for field in ["namespace", "name", "uid"] {
        object["metadata"][field].as_str().unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KIND: Kind = Kind::VirtualMachine;

    fn object(name: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": version.to_string()}})
    }

    #[test]
    fn a_list_that_is_older_than_what_was_seen_is_of_another_history() {
        let mut trail = Trail::default();
        assert_eq!(trail.record_list(KIND, "10", &[object("a", 5)], 0), None);
        assert!(trail.record_object(&object("a", 12), false));
        assert_eq!(trail.record_list(KIND, "12", &[object("a", 12)], 12), None, "nothing came since");
        let why = trail.record_list(KIND, "11", &[object("a", 5)], 0).unwrap();
        assert!(why.contains("virtualmachines has version 11") && why.contains("version 12"), "{why}");
        assert_eq!(trail.record_list(KIND, "11", &[object("a", 5)], 0), None, "the new history goes on");
        // Another follower, or a write, has seen a newer version.
        assert!(trail.record_list(KIND, "11", &[], 12).is_some());
    }

    /// `etcdutl snapshot restore --bump-revision` uses no version twice, and objects keep their old ones.
    #[test]
    fn an_object_that_is_older_than_it_was_is_of_another_history() {
        let mut trail = Trail::default();
        trail.record_list(KIND, "10", &[object("a", 5), object("b", 6)], 0);
        trail.record_object(&object("a", 12), false);
        trail.record_object(&object("b", 13), true);
        let listed = |objects: &[Value]| {
            let mut trail =
                Trail { newest: trail.newest, objects: trail.objects.clone(), ..Trail::default() };
            trail.record_list(KIND, "1000000000", objects, 13).is_some()
        };
        assert!(listed(&[object("a", 5)]));
        assert!(listed(&[object("a", 12), object("b", 6)]), "it was deleted, and is there again");
        assert!(!listed(&[object("a", 12)]) && !listed(&[object("a", 14)]) && !listed(&[object("c", 1)]));
    }

    #[test]
    fn what_is_deleted_is_not_remembered_without_end() {
        let mut trail = Trail::default();
        for number in 1..=5000 {
            trail.record_object(&object(&format!("vm-{number}"), number), true);
        }
        assert_eq!((trail.objects.len(), trail.gone.len()), (GONE, GONE));
        assert!(!trail.record_object(&object("a", 4999), false), "a watch tells in order");
    }

    #[test]
    fn kinds_of_other_etcds_are_not_compared() {
        let history = History::default();
        history.record(Kind::Event, &object("a", 900));
        history.record(Kind::DataVolume, &object("a", 30));
        assert_eq!([Kind::Event, Kind::Pod, KIND].map(|kind| history.newest(kind)), [900, 0, 30]);
        assert_eq!(history.restore_reason(), None);
    }
}
