//! The page of `coracle virt why`: the reason why a VM waits, since when, with the messages of components and
//! advice.
//!
//! ```text
//!  API server ──fetch──► Facts ──┬─ finding: the first rule that applies ─► Finding ─┐
//!                                │    (rules: vm, vmi, migration, …, pod)             ├─page─► text
//!                                └─ event: newest first ─────────────────────────────┘
//!  a DataVolume, a PVC, a DataImportCron ──disk::fetch──► Disk ──► the same page
//!  a pool, a replica set ──group::fetch──► Group ──► the same page
//! ```
//!
//! Many components act until a guest runs: DataVolumes, PVCs, the VMI, its pod, the scheduler, the kubelet,
//! virt-handler. Each component reports why it waits in the status of its own object; the page finds that
//! message. Everything below [`fetch()`] is pure. Objects that the user may not read are listed, and the
//! others are used all the same.

mod advice;
mod disk;
mod disks;
pub(crate) mod event;
mod fetch;
mod finding;
mod group;
mod migration;
mod offline;
mod page;
mod pod;
#[cfg(test)]
mod situations;
#[cfg(test)]
mod tests;
mod undeletable;
mod vm;
mod vmi;
mod volume_patch;

pub(crate) use disk::fetch as fetch_disk;
pub(crate) use fetch::fetch;
pub(crate) use finding::find;
pub(crate) use group::fetch as fetch_group;
pub(crate) use page::page;

use crate::virt::json::{Condition, annotation_text};
use cluster_model::metadata::OFFLINE_MIGRATION;
use cluster_model::objects::Kind;
use jiff::Timestamp;
use serde_json::Value;

/// A VM with all objects that belong to it, as the API server has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// The VM; `None` for a VMI without a VM.
    pub(crate) vm: Option<Value>,
    pub(crate) vmi: Option<Value>,
    /// Migrations of the VMI, newest first.
    pub(crate) migrations: Vec<Value>,
    /// Launcher pods, newest first.
    pub(crate) pods: Vec<Value>,
    /// Volumes that are PVCs.
    pub(crate) volumes: Vec<Volume>,
    /// Node of the VMI, or of its pod.
    pub(crate) node: Option<Value>,
    /// Events about all of these objects.
    pub(crate) events: Vec<event::Event>,
    /// Objects that could not be read, with the reason.
    pub(crate) unread: Vec<String>,
}

impl Facts {
    /// True if the VMI has no guest, and moves the disks of its VM.
    fn has_carrier(&self) -> bool {
        self.vmi.as_ref().is_some_and(|vmi| annotation_text(vmi, OFFLINE_MIGRATION).is_some())
    }

    fn migration(&self, name: &str) -> Option<&Value> {
        self.migrations.iter().find(|migration| crate::virt::json::name(migration) == name)
    }
}

/// A volume that is a PVC, with the DataVolume that fills it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Volume {
    pub(crate) name: String,
    /// Name of the PVC, which is also that of the DataVolume.
    pub(crate) claim: String,
    /// True if the spec names a DataVolume, not a PVC.
    pub(crate) is_data_volume: bool,
    pub(crate) pvc: Option<Value>,
    pub(crate) data_volume: Option<Value>,
    /// True if both could be read, or do not exist.
    pub(crate) is_known: bool,
}

/// The reason why a VM waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The reason as one sentence.
    pub(crate) says: String,
    /// Time since which it holds.
    pub(crate) since: Option<Timestamp>,
    /// Messages of components that support it.
    pub(crate) quotes: Vec<Quote>,
    /// Advice for the user; `$virt` stands for the name of this program. A command after a line break is not wrapped.
    pub(crate) advice: Vec<String>,
}

/// A message in a condition, a status or an event, with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quote {
    pub(crate) source: String,
    pub(crate) text: String,
}

impl Finding {
    fn new(says: impl Into<String>) -> Finding {
        Finding { says: says.into(), since: None, quotes: Vec::new(), advice: Vec::new() }
    }

    fn since(mut self, since: Option<Timestamp>) -> Finding {
        self.since = since;
        self
    }

    /// Adds messages. Several objects repeat one message; the first one is nearest to the cause.
    fn quote(mut self, quotes: impl IntoIterator<Item = Quote>) -> Finding {
        for quote in quotes {
            if !quote.text.is_empty() && !self.quotes.iter().any(|known| known.text == quote.text) {
                self.quotes.push(quote);
            }
        }
        self
    }

    fn quote_event(self, event: Option<&event::Event>) -> Finding {
        self.quote(event.map(event::Event::quote))
    }

    /// All messages in one text in lower case, to be searched.
    fn quoted_text(&self) -> String {
        self.quotes.iter().map(|words| words.text.to_lowercase()).collect::<Vec<_>>().join("\n")
    }

    fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice.push(advice.into());
        self
    }
}

impl Condition<'_> {
    /// The message, with the object that has the condition. `who` is the component that set it, and a comma.
    fn quote(&self, who: &str, kind: Kind, name: &str) -> Quote {
        Quote::new(format!("{who}{} of {kind} {name}", self.shown()), self.message_or_reason())
    }
}

impl Quote {
    fn new(source: impl Into<String>, text: impl Into<String>) -> Quote {
        Quote { source: source.into(), text: text.into() }
    }
}
