//! What a VM waits for, on one page: since when, in whose words, and what to do.
//!
//! ```text
//!  API server ──fetch──► Facts ──┬─ finding: the first rule that fits ─► Finding ─┐
//!                                │    (rules: vm, vmi, kept, disks, pod)           ├─page─► text
//!                                └─ event: newest first ──────────────────────────┘
//!  a DataVolume, a PVC, a DataImportCron ──disk::fetch──► Disk ──► the same page
//!  a pool, a replica set ──group::fetch──► Group ──► the same page
//! ```
//!
//! The way of a VM to its guest is long: DataVolumes, PVCs, the VMI, its pod, the scheduler, the kubelet, virt-handler.
//! Whoever stands still on it has said so on an object of his own; the page is that sentence, found. Everything below
//! [`fetch()`] is pure. What may not be read is named, and the rest is told all the same.

mod advice;
mod disk;
mod disks;
pub(crate) mod event;
mod fetch;
mod finding;
mod group;
mod kept;
mod page;
mod pod;
mod see;
#[cfg(test)]
mod situations;
#[cfg(test)]
mod tests;
mod vm;
mod vmi;

pub(crate) use disk::fetch as fetch_disk;
pub(crate) use fetch::fetch;
pub(crate) use finding::find;
pub(crate) use group::fetch as fetch_group;
pub(crate) use page::page;

use jiff::Timestamp;
use serde_json::Value;

/// What is known of a VM, as the API server has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Name of the VM, and of its VMI.
    pub(crate) name: String,
    /// Namespace of all objects.
    pub(crate) namespace: String,
    /// The VM; none for a VMI that stands alone.
    pub(crate) vm: Option<Value>,
    /// The VMI.
    pub(crate) vmi: Option<Value>,
    /// The launcher pods, the newest first.
    pub(crate) pods: Vec<Value>,
    /// The volumes that are PVCs.
    pub(crate) volumes: Vec<Volume>,
    /// The node of the VMI, or of its pod.
    pub(crate) node: Option<Value>,
    /// The events of all of these.
    pub(crate) events: Vec<event::Event>,
    /// What could not be read, and why.
    pub(crate) unread: Vec<String>,
}

/// A volume that is a PVC, with the DataVolume that fills it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Volume {
    /// Name of the volume in the spec.
    pub(crate) name: String,
    /// Name of the PVC, which is that of the DataVolume.
    pub(crate) claim: String,
    /// The spec names a DataVolume, not a PVC.
    pub(crate) is_data_volume: bool,
    /// The PVC.
    pub(crate) pvc: Option<Value>,
    /// The DataVolume.
    pub(crate) data_volume: Option<Value>,
    /// The two could be looked for.
    pub(crate) is_known: bool,
}

/// What a VM waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// One sentence.
    pub(crate) says: String,
    /// Since when it is so.
    pub(crate) since: Option<Timestamp>,
    /// Who says so.
    pub(crate) words: Vec<Words>,
    /// What a person can do; `$virt` stands for the name of this program.
    pub(crate) advice: Vec<String>,
}

/// A sentence of an object, a program or an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) who: String,
    pub(crate) text: String,
}

impl Finding {
    fn new(says: impl Into<String>) -> Finding {
        Finding { says: says.into(), since: None, words: Vec::new(), advice: Vec::new() }
    }

    fn since(mut self, since: Option<Timestamp>) -> Finding {
        self.since = since;
        self
    }

    fn said(mut self, who: impl Into<String>, text: &str) -> Finding {
        let words = Words { who: who.into(), text: text.to_owned() };
        // Several objects repeat one sentence; who said it first stands nearest to the cause.
        if !text.is_empty() && !self.words.iter().any(|known| known.text == words.text) {
            self.words.push(words);
        }
        self
    }

    /// All words in one, in lower case: signs are looked for in them.
    fn heard(&self) -> String {
        self.words.iter().map(|words| words.text.to_lowercase()).collect::<Vec<_>>().join("\n")
    }

    fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice.push(advice.into());
        self
    }
}
