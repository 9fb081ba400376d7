//! Order of the rules: the first that applies gives the finding. A deletion comes first; of the other states
//! the one nearest to the guest.

use super::event::Event;
use super::{Facts, Finding, Quote, disks, migration, offline, pod, undeletable, vm, vmi};
use crate::virt::json::{self, Condition, conditions, text};
use cluster_model::objects::Kind;
use jiff::Timestamp;
use serde_json::Value;

/// Facts in the form that rules read.
pub(super) struct RuleContext<'a> {
    pub(super) facts: &'a Facts,
    pub(super) now: Timestamp,
    pub(super) name: &'a str,
    /// Launcher pod that runs the guest, or will.
    pub(super) pod: Option<&'a Value>,
}

type Rule = fn(&RuleContext<'_>) -> Option<Finding>;

/// Rules while the VMI exists.
const OF_VMI: &[Rule] = &[
    vm::is_deleted,
    offline::moves,
    vmi::is_deleted,
    vmi::is_unheard,
    undeletable::is_undeletable,
    migration::migrates,
    vmi::is_paused,
    vmi::runs,
    vmi::has_ended,
    disks::wait,
    pod::has_ended,
    pod::is_not_scheduled,
    pod::container_waits,
    pod::begins,
    vmi::is_not_synchronized,
    vmi::is_handed_over,
    vmi::has_no_pod,
];

/// Rules while the VMI does not exist.
const OF_VM: &[Rule] = &[
    vm::is_deleted,
    vm::is_new,
    vm::needs_recovery,
    offline::waits,
    vm::fails_again,
    vm::is_off,
    vm::has_failure,
    disks::wait,
    vm::starts,
];

/// Finds the reason why a VM waits.
pub(crate) fn find(facts: &Facts, now: Timestamp) -> Finding {
    let context = RuleContext { facts, now, name: &facts.name, pod: active(facts) };
    let rules = if facts.vmi.is_some() { OF_VMI } else { OF_VM };
    rules.iter().find_map(|rule| rule(&context)).unwrap_or_else(|| {
        Finding::new(format!(
            "No rule fits what VM {} waits for; its objects and events are below",
            facts.name
        ))
    })
}

/// The pod that the VMI lists as active, else the newest.
fn active(facts: &Facts) -> Option<&Value> {
    let pods =
        facts.vmi.as_ref().and_then(|vmi| vmi.pointer("/status/activePods")).and_then(Value::as_object);
    let node = facts.vmi.as_ref().and_then(|vmi| text(vmi, "/status/nodeName"));
    let is_active = |pod: &&Value| {
        let uid = text(pod, "/metadata/uid").unwrap_or_default();
        pods.is_some_and(|pods| pods.contains_key(uid))
            && node.is_none_or(|node| text(pod, "/spec/nodeName") == Some(node))
    };
    facts.pods.iter().find(is_active).or(facts.pods.first())
}

impl<'a> RuleContext<'a> {
    pub(super) fn vm(&self) -> Option<&'a Value> {
        self.facts.vm.as_ref()
    }

    pub(super) fn vmi(&self) -> Option<&'a Value> {
        self.facts.vmi.as_ref()
    }

    /// Phase of the VMI; empty while its status is.
    pub(super) fn phase(&self) -> &'a str {
        self.vmi().and_then(|vmi| text(vmi, "/status/phase")).unwrap_or_default()
    }

    /// Run strategy of the VM.
    pub(super) fn strategy(&self) -> &'a str {
        self.vm().map_or("", strategy)
    }

    /// Path of the VMI's spec: in the VM's template, or in a VMI without a VM.
    pub(super) fn at(&self) -> &'static str {
        match self.vm() {
            Some(_) => "spec.template.spec",
            None => "spec of the VMI",
        }
    }

    /// The newest warning about an object with one of these reasons; no reasons stand for all. An object of the name that was deleted
    /// before is another one.
    pub(super) fn warning(&self, kind: Kind, name: &str, reasons: &[&str]) -> Option<&'a Event> {
        let object = match kind {
            Kind::VirtualMachine => self.vm(),
            Kind::VirtualMachineInstance => self.vmi(),
            Kind::VirtualMachineInstanceMigration => self.facts.migration(name),
            _ => None,
        };
        self.facts.events.iter().find(|event| {
            event.is_warning
                && event.kind == kind
                && event.name == name
                && !object.is_some_and(|object| event.is_of_earlier(object))
                && (reasons.is_empty() || reasons.contains(&event.reason.as_str()))
        })
    }

    /// The newest warning about a launcher pod of this start or an earlier one.
    pub(super) fn warning_of_pods(&self) -> Option<&'a Event> {
        self.facts.events.iter().find(|event| event.is_warning && event.kind == Kind::Pod)
    }

    /// Name of a node that is not ready, with the message of its condition.
    pub(super) fn node_trouble(&self) -> Option<(&'a str, Quote)> {
        let node = self.facts.node.as_ref()?;
        let ready =
            conditions(node).find(|condition| condition.kind == "Ready" && condition.status != "True")?;
        let name = json::name(node);
        Some((name, Quote::new(format!("condition Ready of Node {name}"), ready.message_or_reason())))
    }

    /// The message of a condition of the VM or of the VMI, and the component that set it, with a comma.
    pub(super) fn quote(&self, who: &str, said: &Condition<'_>, kind: Kind) -> Quote {
        said.quote(who, kind, self.name)
    }
}

/// The run strategy of a VM; `running` is its deprecated form.
pub(super) fn strategy(vm: &Value) -> &str {
    let running = vm.pointer("/spec/running").and_then(Value::as_bool);
    text(vm, "/spec/runStrategy").unwrap_or(if running == Some(true) { "Always" } else { "Halted" })
}
