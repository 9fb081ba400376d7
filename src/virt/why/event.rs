//! Events of a VM and of all objects that belong to it.

use super::Quote;
use crate::virt::json::{age, moment, text};
use cluster_model::objects::{Kind, LauncherAttempt, names};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

/// An Event of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Time of the last occurrence.
    pub(crate) when: Option<Timestamp>,
    pub(crate) is_warning: bool,
    pub(crate) reason: String,
    /// Kind and name of the involved object.
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// Uid of the involved object; empty where the component did not write it.
    pub(crate) uid: String,
    /// Component that reported it.
    pub(crate) from: String,
    pub(crate) message: String,
    pub(crate) count: u64,
}

impl Event {
    /// Reads an event; `None` if its object is of another kind.
    pub(super) fn from_object(object: &Value) -> Option<Event> {
        let kind = Kind::from_name(text(object, "/involvedObject/kind")?)?;
        let places = [
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/eventTime",
            "/firstTimestamp",
            "/metadata/creationTimestamp",
        ];
        let word = |pointer: &str| text(object, pointer).unwrap_or_default().to_owned();
        let from = text(object, "/source/component").or(text(object, "/reportingComponent"));
        let count = object.pointer("/series/count").or(object.pointer("/count"));
        Some(Event {
            when: places.iter().find_map(|place| moment(object, place)),
            is_warning: text(object, "/type") == Some("Warning"),
            reason: word("/reason"),
            kind,
            name: word("/involvedObject/name"),
            uid: word("/involvedObject/uid"),
            from: from.unwrap_or_default().to_owned(),
            message: word("/message").trim().to_owned(),
            count: count.and_then(Value::as_u64).unwrap_or(1).max(1),
        })
    }

    /// True if the event is about another object that had the name of this one before.
    pub(super) fn is_of_earlier(&self, object: &Value) -> bool {
        text(object, "/metadata/uid").is_some_and(|uid| !self.uid.is_empty() && self.uid != uid)
    }

    /// Name of the involved object, for messages.
    fn object(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    /// The message of the event, with its component and object.
    pub(super) fn quote(&self) -> Quote {
        let from = if self.from.is_empty() { String::new() } else { format!("{}, ", self.from) };
        Quote::new(format!("{from}event {} of {}", self.reason, self.object()), &self.message)
    }
}

/// Selection of events by their objects.
#[derive(Debug, Clone, Default)]
pub(super) struct EventFilter {
    pub(super) vm: String,
    pub(super) claims: BTreeSet<String>,
    pub(super) crons: BTreeSet<String>,
    pub(super) group: Option<(Kind, String)>,
    /// Names of migrations of the VMI.
    pub(super) migrations: BTreeSet<String>,
    /// Names of existing pods: launchers, or workers.
    pub(super) pods: BTreeSet<String>,
}

impl EventFilter {
    fn has(&self, event: &Event) -> bool {
        match event.kind {
            Kind::VirtualMachine | Kind::VirtualMachineInstance => event.name == self.vm,
            Kind::PersistentVolumeClaim | Kind::DataVolume => self.claims.contains(&event.name),
            Kind::DataImportCron => self.crons.contains(&event.name),
            Kind::VirtualMachineInstanceMigration => self.migrations.contains(&event.name),
            Kind::VirtualMachinePool | Kind::VirtualMachineInstanceReplicaSet => {
                self.group.as_ref().is_some_and(|(kind, name)| *kind == event.kind && *name == event.name)
            }
            Kind::Pod => self.pods.contains(&event.name) || self.is_launcher(&event.name),
            _ => false,
        }
    }

    /// True for a launcher pod of an earlier start: the letters at the end of its name are others.
    fn is_launcher(&self, pod: &str) -> bool {
        let begin = |pod: &str| pod.rsplit_once('-').map(|(begin, _)| begin.to_owned());
        !self.vm.is_empty() && begin(pod) == begin(&names::pod(&self.vm, "", LauncherAttempt::Start))
    }

    /// The selected events, newest first.
    pub(super) fn select(&self, objects: impl IntoIterator<Item = Vec<Value>>) -> Vec<Event> {
        let objects = objects.into_iter().flatten();
        let mut events: Vec<Event> = objects.filter_map(|object| Event::from_object(&object)).collect();
        events.retain(|event| self.has(event));
        // Events of the same second are listed oldest first.
        events.reverse();
        events.sort_by_key(|event| std::cmp::Reverse(event.when));
        events
    }
}

/// A table of at most `most` events, with the number of omitted ones.
pub(crate) fn table(events: &[Event], most: usize, now: Timestamp) -> String {
    let head = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "FROM", "MESSAGE"].map(str::to_owned);
    let rows = events.iter().take(most).map(|event| {
        let times = if event.count > 1 { format!(" (x{})", event.count) } else { String::new() };
        [
            event.when.map_or_else(|| "unknown".to_owned(), |when| age(now, when)) + &times,
            if event.is_warning { "Warning" } else { "Normal" }.to_owned(),
            event.reason.clone(),
            event.object(),
            event.from.clone(),
            event.message.clone(),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(head)
        .chain(rows)
        // Users of the namespace choose these texts, so control characters are escaped.
        .map(|row| row.map(|cell| printable::line(&cell)))
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    if events.len() > most {
        text += &format!("({} older events are left out)\n", events.len() - most);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(kind: &str, name: &str, reason: &str, second: u32) -> Value {
        json!({
            "type": "Warning", "reason": reason, "message": format!("{reason}\u{1b}[31m!"),
            "involvedObject": {"kind": kind, "name": name}, "source": {"component": "kubelet"},
            "lastTimestamp": format!("2026-09-01T10:00:{second:02}Z"), "count": second,
        })
    }

    #[test]
    fn events_of_the_vm_and_its_parts_come_newest_first() {
        let objects = [
            event("VirtualMachine", "web", "A", 1),
            event("VirtualMachine", "other", "no", 2),
            event("Deployment", "web", "no", 3),
            event("Pod", "virt-launcher-web-x7k2p", "B", 9),
            event("Pod", "virt-launcher-web-a-x7k2p", "no", 5),
            event("Pod", "web", "no", 5),
            event("PersistentVolumeClaim", "disk", "C", 4),
            event("DataVolume", "elsewhere", "no", 6),
            event("VirtualMachineInstanceMigration", "move-1", "D", 7),
            event("VirtualMachineInstanceMigration", "move-2", "no", 8),
        ];
        let filter = EventFilter {
            vm: "web".to_owned(),
            claims: BTreeSet::from(["disk".to_owned()]),
            migrations: BTreeSet::from(["move-1".to_owned()]),
            ..EventFilter::default()
        };
        let mut found = filter.select([objects.to_vec()]);
        assert_eq!(found.iter().map(|event| event.reason.as_str()).collect::<String>(), "BDCA");
        found.remove(1);
        let now = "2026-09-01T10:00:10Z".parse().unwrap();
        assert_eq!(
            table(&found, 2, now),
            "LAST SEEN  TYPE     REASON  OBJECT                       FROM     MESSAGE\n\
             1s (x9)    Warning  B       Pod virt-launcher-web-x7k2p  kubelet  B [31m!\n\
             6s (x4)    Warning  C       PVC disk                     kubelet  C [31m!\n\
             (1 older events are left out)\n"
        );
    }

    #[test]
    fn events_of_a_pool_are_not_those_of_a_replica_set_of_its_name() {
        let objects = [
            event("VirtualMachinePool", "web", "A", 1),
            event("VirtualMachineInstanceReplicaSet", "web", "B", 2),
            event("ReplicaSet", "web", "no", 3),
            event("VirtualMachinePool", "other", "no", 4),
            event("VirtualMachine", "web", "no", 5),
        ];
        for (kind, reason) in [(Kind::VirtualMachinePool, "A"), (Kind::VirtualMachineInstanceReplicaSet, "B")]
        {
            let filter = EventFilter { group: Some((kind, "web".to_owned())), ..EventFilter::default() };
            let found = filter.select([objects.to_vec()]);
            assert_eq!(found.iter().map(|event| event.reason.as_str()).collect::<String>(), reason);
        }
    }

    #[test]
    fn events_of_both_apis_are_read() {
        let new = json!({
            "type": "Normal", "reason": "Scheduled", "note": "x", "message": "m",
            "involvedObject": {"kind": "Pod", "name": "p"}, "reportingComponent": "default-scheduler",
            "eventTime": "2026-09-01T10:00:00.000001Z", "lastTimestamp": null,
            "series": {"count": 3, "lastObservedTime": "2026-09-01T10:05:00.5Z"},
        });
        let event = Event::from_object(&new).unwrap();
        assert_eq!((event.count, event.from.as_str()), (3, "default-scheduler"));
        assert_eq!(event.when, Some("2026-09-01T10:05:00.5Z".parse().unwrap()));
        assert_eq!(Event::from_object(&json!({})), None);
    }
}
