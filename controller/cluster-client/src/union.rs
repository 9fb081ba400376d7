//! Watch of several selections of a kind, told as one.
//!
//! ```text
//!  selection 0 ─► Listed, Changed, Gone ─┐
//!  selection 1 ─► Listed, Changed, Gone ─┴─► Union ─► Listed (once all were listed), Changed, Gone ─► the receiver
//! ```
//!
//! An object is gone when no selection shows it any more. An object that goes from one selection to another at once
//! may be told as gone, and as new again.

use super::history::{History, version_of};
use super::watch::{WatchMessage, follow_history};
use cluster_model::objects::{Key, Kind, WatchTarget};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::mpsc::{self, Sender};

/// Maximum number of messages of all selections that wait.
const WAITING: usize = 8;

/// Sends the messages of these selections of a kind until the receiver is dropped. A single selection needs no union.
pub async fn follow_union(
    client: kube::Client,
    kind: Kind,
    mut selections: Vec<WatchTarget>,
    to: Sender<WatchMessage>,
    history: Arc<History>,
) {
    if selections.len() == 1 {
        return follow_history(client, selections.remove(0), to, history).await;
    }
    let (tell, mut seen) = mpsc::channel(WAITING);
    let mut union = Union::new(kind, selections.len());
    let follows = selections.into_iter().enumerate().map(|(selection, target)| {
        let (client, tell, history) = (client.clone(), tell.clone(), Arc::clone(&history));
        async move {
            let (own, mut heard) = mpsc::channel(1);
            tokio::join!(follow_history(client, target, own, history), async {
                while let Some(message) = heard.recv().await {
                    if tell.send((selection, message)).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let follows = futures_util::future::join_all(follows);
    drop(tell);
    tokio::join!(follows, async move {
        while let Some((selection, message)) = seen.recv().await {
            for message in union.merge(selection, message) {
                if to.send(message).await.is_err() {
                    return;
                }
            }
        }
    });
}

/// The objects of all selections. Pure.
struct Union {
    kind: Kind,
    /// Selections that were not listed yet.
    unlisted: BTreeSet<usize>,
    /// Objects until all selections were listed, by uid.
    early: BTreeMap<String, Value>,
    /// Objects that a selection shows, by uid.
    shown: BTreeMap<String, KnownObject>,
}

/// Object that at least one selection shows.
struct KnownObject {
    key: Key,
    version: u64,
    selections: BTreeSet<usize>,
}

impl Union {
    fn new(kind: Kind, selections: usize) -> Union {
        Union { kind, unlisted: (0..selections).collect(), early: BTreeMap::new(), shown: BTreeMap::new() }
    }

    /// Takes a message of a selection. Returns the messages to pass on.
    fn merge(&mut self, selection: usize, message: WatchMessage) -> Vec<WatchMessage> {
        match message {
            WatchMessage::Listed(_, objects) => {
                let listed: BTreeSet<String> = objects.iter().filter_map(uid).collect();
                let is_left_out = |(uid, shown): &(&String, &KnownObject)| {
                    shown.selections.contains(&selection) && !listed.contains(*uid)
                };
                let left_out: Vec<String> =
                    self.shown.iter().filter(is_left_out).map(|(uid, _)| uid.clone()).collect();
                let gone = left_out.into_iter().filter_map(|uid| self.hide(selection, &uid));
                let mut messages: Vec<WatchMessage> = gone.collect();
                messages.extend(objects.into_iter().filter_map(|object| self.show(selection, object)));
                if self.unlisted.remove(&selection) && self.unlisted.is_empty() {
                    let all = std::mem::take(&mut self.early).into_values().collect();
                    return vec![WatchMessage::Listed(self.kind, all)];
                }
                messages
            }
            WatchMessage::Changed(_, object) => self.show(selection, object).into_iter().collect(),
            WatchMessage::Gone(_, uid) => self.hide(selection, &uid).into_iter().collect(),
            // A selection by name is a watch of its own.
            WatchMessage::Only(..) => Vec::new(),
        }
    }

    /// An object that a selection shows. One that is older than what another selection has shown is left out.
    fn show(&mut self, selection: usize, object: Value) -> Option<WatchMessage> {
        let (uid, version) = (uid(&object)?, version_of(&object).unwrap_or_default());
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let shown = self.shown.entry(uid.clone()).or_insert_with(|| KnownObject {
            key: Key::new(self.kind, text("namespace"), text("name")),
            version,
            selections: BTreeSet::new(),
        });
        shown.selections.insert(selection);
        if version < shown.version {
            return None;
        }
        shown.version = version;
        if self.unlisted.is_empty() {
            return Some(WatchMessage::Changed(self.kind, object));
        }
        self.early.insert(uid, object);
        None
    }

    /// An object that a selection shows no longer.
    fn hide(&mut self, selection: usize, uid: &str) -> Option<WatchMessage> {
        let shown = self.shown.get_mut(uid)?;
        shown.selections.remove(&selection);
        if !shown.selections.is_empty() {
            return None;
        }
        let shown = self.shown.remove(uid)?;
        let was_early = self.early.remove(uid).is_some();
        (!was_early && self.unlisted.is_empty()).then(|| WatchMessage::Gone(shown.key, uid.to_owned()))
    }
}

fn uid(object: &Value) -> Option<String> {
    object["metadata"]["uid"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KIND: Kind = Kind::VirtualMachineInstance;

    fn object(uid: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "n", "name": uid, "uid": uid, "resourceVersion": version.to_string()}})
    }

    fn listed(objects: &[Value]) -> WatchMessage {
        WatchMessage::Listed(KIND, objects.to_vec())
    }

    fn changed(uid: &str, version: u64) -> WatchMessage {
        WatchMessage::Changed(KIND, object(uid, version))
    }

    fn gone(uid: &str) -> WatchMessage {
        WatchMessage::Gone(Key::new(KIND, "n", uid), uid.to_owned())
    }

    /// Messages as short texts.
    fn texts(messages: Vec<WatchMessage>) -> Vec<String> {
        let text = |object: &Value| {
            let meta = &object["metadata"];
            format!("{}@{}", meta["uid"].as_str().unwrap(), meta["resourceVersion"].as_str().unwrap())
        };
        let texts = messages.into_iter().map(|message| match message {
            WatchMessage::Listed(_, all) => {
                format!("all {}", all.iter().map(text).collect::<Vec<_>>().join(" "))
            }
            WatchMessage::Changed(_, object) => text(&object),
            WatchMessage::Gone(key, uid) => format!("gone {} {uid}", key.name),
            WatchMessage::Only(key, _) => format!("only {}", key.name),
        });
        texts.collect()
    }

    /// Two selections that were listed, with an object each and one of both.
    fn both() -> Union {
        let mut union = Union::new(KIND, 2);
        assert!(union.merge(0, listed(&[object("a", 1), object("c", 3)])).is_empty());
        assert_eq!(texts(union.merge(1, listed(&[object("b", 2), object("c", 3)]))), ["all a@1 b@2 c@3"]);
        union
    }

    #[test]
    fn nothing_is_told_before_all_selections_are_listed() {
        let mut union = Union::new(KIND, 2);
        for message in [listed(&[object("a", 1), object("b", 1)]), changed("a", 2), gone("b")] {
            assert!(union.merge(0, message).is_empty());
        }
        assert_eq!(texts(union.merge(1, listed(&[]))), ["all a@2"]);
        assert_eq!(texts(union.merge(0, changed("a", 3))), ["a@3"]);
    }

    #[test]
    fn an_object_is_gone_when_no_selection_shows_it() {
        let mut union = both();
        assert!(union.merge(0, gone("c")).is_empty(), "the other one shows it");
        assert_eq!(texts(union.merge(1, gone("c"))), ["gone c c"]);
        assert_eq!(texts(union.merge(0, gone("a"))), ["gone a a"]);
        assert!(union.merge(0, gone("a")).is_empty(), "it was told");
        assert_eq!(texts(union.merge(1, changed("a", 9))), ["a@9"]);
    }

    #[test]
    fn a_list_of_one_selection_says_nothing_about_the_others() {
        let mut union = both();
        assert_eq!(texts(union.merge(0, listed(&[object("d", 7)]))), ["gone a a", "d@7"]);
        assert_eq!(texts(union.merge(1, listed(&[]))), ["gone b b", "gone c c"]);
    }

    /// Watches of two selections do not keep step.
    #[test]
    fn an_object_never_becomes_older() {
        let mut union = both();
        assert_eq!(texts(union.merge(0, changed("c", 5))), ["c@5"]);
        assert!(union.merge(1, changed("c", 4)).is_empty());
        assert_eq!(texts(union.merge(1, changed("c", 5))), ["c@5"]);
    }

    #[tokio::test]
    async fn selections_of_a_server_are_followed_as_one() {
        let server = kit::ApiServer::default();
        let selection = |label: &str| WatchTarget::all(KIND, Some(label));
        let vmi = |name: &str, labels: Value| json!({"metadata": {"namespace": "n", "name": name, "labels": labels}, "spec": {}});
        server.put_object(KIND, vmi("a", json!({"here": "1"})));
        server.put_object(KIND, vmi("b", json!({"soon": "1"})));
        server.put_object(KIND, vmi("c", json!({})));
        let (to, mut seen) = mpsc::channel(1);
        let selections = vec![selection("here=1"), selection("soon=1")];
        tokio::spawn(follow_union(server.client(), KIND, selections, to, Arc::default()));
        let Some(WatchMessage::Listed(KIND, all)) = seen.recv().await else { panic!("no list") };
        let mut names: Vec<&str> = all.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "b"]);
        server.put_object(KIND, vmi("d", json!({"soon": "1"})));
        let Some(WatchMessage::Changed(KIND, object)) = seen.recv().await else { panic!("no change") };
        assert_eq!(object["metadata"]["name"], "d");
    }
}
