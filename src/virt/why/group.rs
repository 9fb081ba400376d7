//! The page of `why` about a pool or a replica set: the number of its VMs or VMIs, and the ones that are not
//! ready.

mod rules;

use super::Finding;
use super::event::{Event, EventFilter};
use super::fetch::kept;
use super::page::{Parts, row, troubles, written};
use crate::error::Result;
use crate::virt::client::Cluster;
use crate::virt::json::{condition, list, name, phase, text};
use cluster_model::objects::{Kind, is_whole};
use futures_util::future::join;
use jiff::Timestamp;
use rules::RULES;
use serde_json::Value;

/// Maximum number of listed members that are not ready.
const MOST: usize = 10;

/// A pool or a replica set, with its members and events.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    kind: Kind,
    name: String,
    namespace: String,
    object: Value,
    /// Member VMs or VMIs; `None` if they could not be read.
    members: Option<Vec<Value>>,
    events: Vec<Event>,
    /// Objects that could not be read, with the reason.
    unread: Vec<String>,
}

/// Reads the object, its members and its events.
pub(crate) async fn fetch(cluster: &Cluster, kind: Kind, name_of_it: &str) -> Result<Group> {
    let namespace = cluster.namespace();
    let doing = format!("cannot read {kind} {name_of_it} in namespace {namespace}");
    let object = cluster.object(kind, name_of_it, &doing).await?;
    let uid = text(&object, "/metadata/uid");
    let (of, ..) = terms(kind);
    let (members_path, events_path) = (of.collection(namespace), Kind::Event.collection(namespace));
    let mut members = Vec::new();
    // Each page is filtered at once, so that memory holds members alone.
    let take = |page: Vec<Value>| members.extend(page.into_iter().filter(|member| is_of(kind, uid, member)));
    let (listed, events) = join(cluster.pages(&members_path, take), cluster.list(&events_path)).await;
    let mut unread = Vec::new();
    let members = kept(&mut unread, of, "(all)", listed).map(|_| members);
    let partial = members.iter().flatten().filter(|member| !is_whole(member));
    unread
        .extend(partial.map(|member| format!("{of} {}: nested too deep, or too many values", name(member))));
    let filter = EventFilter { group: Some((kind, name_of_it.to_owned())), ..EventFilter::default() };
    let events = filter.select(kept(&mut unread, Kind::Event, "(all)", events));
    let (name, namespace) = (name_of_it.to_owned(), namespace.to_owned());
    Ok(Group { kind, name, namespace, object, members, events, unread })
}

impl Group {
    /// Text of the page. `program` is the name of the command in its hints.
    pub(crate) fn page(&self, program: &str, now: Timestamp) -> String {
        let there = self.number("/status/replicas", 0);
        let ready = self.number("/status/readyReplicas", 0);
        let counts = format!("{} wanted, {there} there, {ready} ready", self.wanted());
        let mut rows = vec![row(&self.kind.to_string(), &self.name, counts)];
        rows.extend(troubles(&self.object, now));
        let of = terms(self.kind).0.to_string();
        let unready = self.unready();
        rows.extend(unready.iter().take(MOST).map(|member| row(&of, name(member), state(member))));
        if unready.len() > MOST {
            rows.push(row("", "", format!("and {} more", unready.len() - MOST)));
        }
        let all = format!(
            "kubectl get events -n {} --field-selector involvedObject.kind={},involvedObject.name={}",
            self.namespace,
            self.kind.name(),
            self.name
        );
        written(self.find(), &Parts { rows, unread: &self.unread, events: &self.events, all }, program, now)
    }

    /// The finding about the pool or replica set.
    fn find(&self) -> Finding {
        let Some(found) = RULES.iter().find_map(|rule| rule(self)) else { return self.is_complete() };
        match self.unready().first() {
            Some(first) => found.advise(format!(
                "look at the first that is not ready: $virt why {}/{} -n {}",
                terms(self.kind).1,
                name(first),
                self.namespace
            )),
            None => found,
        }
    }

    fn me(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    /// A number of VMs or VMIs as text.
    fn many(&self, number: u64) -> String {
        format!("{number} {}{}", terms(self.kind).0, if number == 1 { "" } else { "s" })
    }

    fn warning(&self) -> Option<&Event> {
        self.events.iter().find(|event| event.is_warning)
    }

    fn number(&self, pointer: &str, unset: u64) -> u64 {
        self.object.pointer(pointer).and_then(Value::as_u64).unwrap_or(unset)
    }

    fn wanted(&self) -> u64 {
        self.number("/spec/replicas", 1)
    }

    fn members(&self) -> &[Value] {
        self.members.as_deref().unwrap_or_default()
    }

    /// Number of members without those that have ended: another VMI replaces each of these.
    fn there(&self) -> u64 {
        match &self.members {
            Some(members) => members.iter().filter(|member| !has_ended(member)).count() as u64,
            None => self.number("/status/replicas", 0),
        }
    }

    /// Number of members that have not ended and are not ready.
    fn not_ready(&self) -> u64 {
        let waits = |member: &&Value| !has_ended(member) && !is_ready(member);
        match &self.members {
            Some(members) => members.iter().filter(waits).count() as u64,
            None => self.there().saturating_sub(self.number("/status/readyReplicas", 0)),
        }
    }

    /// Members that are not ready or have ended, ordered by number.
    fn unready(&self) -> Vec<&Value> {
        let mut unready: Vec<&Value> = self.members().iter().filter(|member| !is_ready(member)).collect();
        // `web-2` comes before `web-10`.
        unready.sort_by_cached_key(|member| (name(member).len(), name(member).to_owned()));
        unready
    }
}

/// Kind of the members, kubectl's short name for it, and kubectl's short name for the pool or replica set
/// itself.
fn terms(kind: Kind) -> (Kind, &'static str, &'static str) {
    match kind {
        Kind::VirtualMachinePool => (Kind::VirtualMachine, "vm", "vmpool"),
        _ => (Kind::VirtualMachineInstance, "vmi", "vmirs"),
    }
}

/// True for a member that counts: a VM that is being deleted still counts in a pool, a VMI does not in a
/// replica set.
fn is_of(kind: Kind, uid: Option<&str>, member: &Value) -> bool {
    let is_controller = |owner: &Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let is_ours = list(member, "/metadata/ownerReferences")
        .any(|owner| uid.is_some() && text(owner, "/uid") == uid && is_controller(owner));
    is_ours && (kind == Kind::VirtualMachinePool || !goes(member))
}

fn goes(member: &Value) -> bool {
    text(member, "/metadata/deletionTimestamp").is_some()
}

/// True for a VMI in a final phase. A VM has no phase, and does not end.
fn has_ended(member: &Value) -> bool {
    matches!(phase(member), "Succeeded" | "Failed")
}

fn is_ready(member: &Value) -> bool {
    !goes(member) && condition(member, "Ready", "True").is_some()
}

fn state(member: &Value) -> String {
    let says = text(member, "/status/printableStatus").or(text(member, "/status/phase"));
    let how = if goes(member) { "being deleted" } else { "not ready" };
    format!("{}, {how}", says.unwrap_or("no status"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const POOL: Kind = Kind::VirtualMachinePool;
    const SET: Kind = Kind::VirtualMachineInstanceReplicaSet;

    fn now() -> Timestamp {
        "2026-09-01T10:10:00Z".parse().unwrap()
    }

    fn group(kind: Kind, spec: &Value, status: &Value, members: Vec<Value>) -> Group {
        Group {
            kind,
            name: "web".to_owned(),
            namespace: "blue".to_owned(),
            object: json!({"metadata": {"name": "web", "uid": "u1"}, "spec": spec, "status": status}),
            members: Some(members),
            events: Vec::new(),
            unread: Vec::new(),
        }
    }

    fn vm(number: u32, printed: &str, ready: &str) -> Value {
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-09-01T10:05:00Z"});
        json!({
            "metadata": {"name": format!("web-{number}")},
            "status": {"printableStatus": printed, "conditions": [ready]},
        })
    }

    fn vmi(number: u32, phase: &str, ready: &str) -> Value {
        let mut vmi = vm(number, "", ready);
        vmi["status"]["phase"] = json!(phase);
        vmi
    }

    fn says(group: &Group) -> (String, String, String) {
        let page = group.page("virtctl", now());
        assert!(page.contains("\nObjects\n") && !page.contains("$virt"), "{page}");
        let found = group.find();
        let words: Vec<String> =
            found.quotes.iter().map(|words| format!("{}: {}", words.source, words.text)).collect();
        (found.says, words.join(" | "), found.advice.join("; "))
    }

    #[test]
    fn a_pool_and_a_replica_set_say_what_they_wait_for() {
        let up = |number: u32| vm(number, "Running", "True");
        let counted = json!({"replicas": 2, "labelSelector": "app=web"});
        let said = |kind: &str, reason: &str, message: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]});
        let (one, two, three) = (json!({"replicas": 1}), json!({"replicas": 2}), json!({"replicas": 3}));
        let keeps = json!({"replicas": 1, "scaleInStrategy": {"opportunistic": {}}});
        let mut leaving = vm(1, "Terminating", "True");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-09-01T10:05:00Z");
        for (found, wanted, words, advice) in [
            (
                group(POOL, &two, &counted, vec![up(0), up(1)]),
                "VirtualMachinePool web has 2 VMs, all ready, and waits for nothing",
                "",
                "",
            ),
            (
                group(POOL, &json!({"replicas": 0}), &counted, vec![]),
                "VirtualMachinePool web is to have no VM, and waits for nothing",
                "",
                "",
            ),
            (
                group(POOL, &keeps, &counted, vec![up(0), up(1)]),
                "VirtualMachinePool web has 2 VMs, all ready, and waits for nothing",
                "",
                "",
            ),
            (
                group(
                    POOL,
                    &three,
                    &counted,
                    vec![up(0), vm(10, "Starting", "False"), vm(2, "Starting", "False")],
                ),
                "VirtualMachinePool web waits for 2 of its 3 VMs, which are not ready",
                "",
                "$virt why vm/web-2 -n blue",
            ),
            (
                group(POOL, &two, &counted, vec![up(0), leaving.clone()]),
                "VirtualMachinePool web waits for 1 of its 2 VMs, which is not ready",
                "",
                "$virt why vm/web-1 -n blue",
            ),
            (
                group(POOL, &two, &said("ReplicaFailure", "FailedScaleOut", "exceeded quota"), vec![up(0)]),
                "VirtualMachinePool web waits for a VM that cannot be created",
                "virt-controller, condition ReplicaFailure, FailedScaleOut of VirtualMachinePool web: exceeded quota",
                "a quota",
            ),
            (
                group(POOL, &one, &said("ReplicaFailure", "FailedScaleIn", "takes 0"), vec![up(0), up(1)]),
                "VirtualMachinePool web has more VMs than spec.replicas, and its selectors match fewer than must be deleted",
                "virt-controller, condition ReplicaFailure, FailedScaleIn of VirtualMachinePool web: takes 0",
                "selectionPolicy.selectors, or spec.replicas: kubectl edit vmpool web -n blue",
            ),
            (
                group(POOL, &one, &said("ReplicaFailure", "InvalidSpec", "spec.replicas: x"), vec![]),
                "VirtualMachinePool web has a spec that cannot be carried out",
                "virt-controller, condition ReplicaFailure, InvalidSpec of VirtualMachinePool web: spec.replicas: x",
                "kubectl edit vmpool web -n blue",
            ),
            (
                group(POOL, &one, &said("ReplicaFailure", "FailedUpdate", "no"), vec![up(0)]),
                "VirtualMachinePool web cannot be kept at its number of VMs",
                "virt-controller, condition ReplicaFailure, FailedUpdate of VirtualMachinePool web: no",
                "fix the cause",
            ),
            (
                group(SET, &one, &said("ReplicaPaused", "Paused", ""), vec![]),
                "VirtualMachineInstanceReplicaSet web is paused: no VMI is created or deleted",
                "",
                "kubectl edit vmirs web -n blue",
            ),
            (
                group(POOL, &one, &json!({}), vec![]),
                "VirtualMachinePool web waits for virt-controller, which has not looked at it yet",
                "",
                "virt-controller runs",
            ),
            (
                group(POOL, &three, &counted, vec![up(0), up(1)]),
                "VirtualMachinePool web waits for virt-controller to create 1 VM",
                "",
                "virt-controller runs",
            ),
            (
                group(POOL, &one, &counted, vec![up(0), up(1)]),
                "VirtualMachinePool web waits for 1 VM to be deleted",
                "",
                "virt-controller runs",
            ),
            (
                group(POOL, &one, &counted, vec![up(0), leaving]),
                "VirtualMachinePool web waits for 1 VM to be deleted",
                "",
                "look at the first that is not ready: $virt why vm/web-1 -n blue",
            ),
            (
                group(SET, &json!({}), &counted, vec![vmi(0, "Scheduling", "False")]),
                "VirtualMachineInstanceReplicaSet web waits for its VMI, which is not ready",
                "",
                "$virt why vmi/web-0 -n blue",
            ),
            (
                group(SET, &one, &counted, vec![vmi(0, "Failed", "False")]),
                "VirtualMachineInstanceReplicaSet web waits for virt-controller to create 1 VMI",
                "",
                "$virt why vmi/web-0 -n blue",
            ),
        ] {
            let (said, by, to_do) = says(&found);
            assert!(said.starts_with(wanted), "{said}");
            assert_eq!(by, words, "{said}");
            assert!(to_do.contains(advice) && (!advice.is_empty() || to_do.is_empty()), "{said}: {to_do}");
        }
    }

    #[test]
    fn the_page_lists_the_first_that_are_not_ready() {
        let mut vms: Vec<Value> = (1..13).map(|number| vm(number, "Starting", "False")).collect();
        vms.push(vm(0, "Running", "True"));
        let status = json!({"replicas": 13, "readyReplicas": 1});
        let mut found = group(POOL, &json!({"replicas": 13}), &status, vms);
        let page = found.page("virtctl", now());
        let head = "VirtualMachinePool web waits for 12 of its 13 VMs, which are not ready.\n\
                    Since 2026-09-01T10:05:00Z, for 5m.\n\n\
                    What to do\n  - look at the first that is not ready: virtctl why vm/web-1 -n blue\n\n\
                    Objects\n  VirtualMachinePool  web     13 wanted, 13 there, 1 ready\n  VM";
        assert!(page.starts_with(head), "{page}");
        assert_eq!(page.matches("  Starting, not ready\n").count(), MOST, "{page}");
        assert!(page.contains("  web-10  Starting") && !page.contains("web-11"), "{page}");
        assert!(page.contains("  and 2 more\n") && !page.contains("web-0"), "{page}");

        // Without the right to list them, its own numbers count.
        found.members = None;
        found.unread = vec!["VM (all): forbidden".to_owned()];
        let page = found.page("virtctl", now());
        assert!(page.starts_with("VirtualMachinePool web waits for 12 of its 13 VMs"), "{page}");
        assert!(page.contains("Not read\n  - VM (all): forbidden\n"), "{page}");
    }

    #[test]
    fn it_has_those_that_it_controls() {
        let owned = |uid: &str, controller: bool, deleted: Option<&str>| {
            let owner = json!({"uid": uid, "controller": controller});
            json!({"metadata": {"ownerReferences": [owner], "deletionTimestamp": deleted}})
        };
        let (ours, leaving) = (owned("u1", true, None), owned("u1", true, Some("2026-09-01T10:05:00Z")));
        assert!(is_of(POOL, Some("u1"), &ours) && is_of(SET, Some("u1"), &ours));
        assert!(is_of(POOL, Some("u1"), &leaving) && !is_of(SET, Some("u1"), &leaving));
        for other in [owned("u2", true, None), owned("u1", false, None), json!({}), json!(7)] {
            assert!(!is_of(POOL, Some("u1"), &other) && !is_of(POOL, None, &other), "{other}");
        }
    }

    #[test]
    fn odd_objects_make_a_page_too() {
        for kind in [POOL, SET] {
            for odd in [json!(null), json!(7), json!({"status": {"conditions": {"a": 1}}, "metadata": 3})] {
                let mut found = group(kind, &odd, &odd, vec![odd.clone()]);
                assert!(!says(&found).0.is_empty());
                found.object = odd;
                assert!(!says(&found).0.is_empty());
                found.members = None;
                assert!(!says(&found).0.is_empty());
            }
        }
    }
}
