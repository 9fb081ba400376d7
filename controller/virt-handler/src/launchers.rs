//! The launchers that the keepers of this node speak to, for who else asks them: who measures, and virt-api.
//!
//! ```text
//!  keepers ── list ──► Launchers ──┬─ all ─► measures
//!             until they break off ├─ all ─► disk_pressure
//!                                  └─ of ──► asked: by namespace, name and uid
//! ```

use super::disk_pressure::GrowingDisks;
use super::filesystems::Filesystems;
use super::launcher_client::Client;
use super::pod::{Pod, Process};
use api::launcher::{GuestLoad, State};
use api::meta::ObjectMeta;
use api::vmi::Domain;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The launchers that keepers speak to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launchers(Arc<Mutex<BTreeMap<u64, Entry>>>);

/// The launcher of one VMI.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) client: Client,
    /// The name and uid of its pod.
    pub(crate) pod: (String, String),
    /// The process of the launcher, where it is seen.
    pub(crate) process: Option<Arc<Process>>,
    /// The VMI has CPUs of its own: each vCPU is pinned to one.
    pub(crate) has_own_cpus: bool,
    /// The VMI has devices of the node.
    pub(crate) has_devices: bool,
    /// What disks are called in the spec, by what the guest calls them.
    pub(crate) disks: Names,
    /// What interfaces are called in the spec, by their taps.
    pub(crate) taps: Names,
    /// The guest agent can be asked.
    pub(crate) agent: bool,
    /// How busy the guest was when its agent was asked last.
    pub(crate) load: Option<GuestLoad>,
    /// What file systems were told under.
    pub(crate) filesystems: Filesystems,
    /// Disks that grow on the node as the guest writes.
    pub(crate) growing: Option<GrowingDisks>,
}

/// What devices are called in the spec, by other names of theirs.
pub(crate) type Names = BTreeMap<String, String>;

impl Entry {
    /// True while the VMI is paused for the disk of its node.
    pub(crate) fn is_paused_for_disk(&self) -> bool {
        self.growing.as_ref().is_some_and(GrowingDisks::is_paused)
    }
}

/// A launcher's place among them; it ends with this value.
#[derive(Debug)]
pub(crate) struct Listed {
    all: Launchers,
    number: u64,
}

impl Launchers {
    /// A place for the launcher of a VMI, of which file systems were told under these names: a launcher that breaks off and
    /// comes again has no new ones.
    pub(crate) fn list(&self, vmi: &ObjectMeta, client: &Client, filesystems: &Filesystems) -> Listed {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let entry = Entry {
            namespace: text(&vmi.namespace),
            name: text(&vmi.name),
            uid: text(&vmi.uid),
            client: client.clone(),
            pod: (String::new(), String::new()),
            process: None,
            has_own_cpus: false,
            has_devices: false,
            disks: Names::new(),
            taps: Names::new(),
            agent: false,
            load: None,
            filesystems: filesystems.clone(),
            growing: None,
        };
        self.look(|all| drop(all.insert(number, entry)));
        Listed { all: self.clone(), number }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Entry> {
        self.look(|all| all.values().cloned().collect())
    }

    /// The launcher of this VMI, and of no other that had its name before; the one that was listed last.
    pub(crate) fn of(&self, namespace: &str, name: &str, uid: &str) -> Option<Client> {
        self.look(|all| {
            let is =
                |entry: &&Entry| (&*entry.namespace, &*entry.name, &*entry.uid) == (namespace, name, uid);
            all.values().rev().find(is).map(|entry| entry.client.clone())
        })
    }

    fn look<T>(&self, look: impl FnOnce(&mut BTreeMap<u64, Entry>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Listed {
    /// What devices are called in the spec: interfaces by their taps, disks by what the guest calls them. Others are not
    /// told: a launcher's word is no name of a measure, which whoever collects them keeps for ever. `agent`: the guest agent can be asked.
    pub(crate) fn devices(&self, taps: Names, disks: Names, agent: bool) {
        self.all.look(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                (entry.taps, entry.disks, entry.agent) = (taps, disks, agent);
                entry.load = entry.load.filter(|_| agent);
            }
        });
    }

    /// Where the launcher runs, and what its VMI has of the node.
    pub(crate) fn runs(&self, pod: Option<&Pod>, process: Option<Arc<Process>>, domain: &Domain) {
        let pod = pod.map(|pod| (pod.metadata.name.clone(), pod.metadata.uid.clone())).unwrap_or_default();
        let has_own = domain.cpu.as_ref().is_some_and(|cpu| cpu.dedicated_cpu_placement == Some(true));
        let devices = &domain.devices;
        let has_devices = !devices.gpus.is_empty() || !devices.host_devices.is_empty();
        self.all.look(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                (entry.pod, entry.process) = (pod, process);
                (entry.has_own_cpus, entry.has_devices) = (has_own, has_devices);
            }
        });
    }

    /// Disks of the VMI that grow on the node, if it has some.
    pub(crate) fn grows(&self, disks: Option<GrowingDisks>) {
        self.all.look(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                entry.growing = disks;
            }
        });
    }

    /// The launcher tells a state.
    pub(crate) fn see(&self, state: &State) {
        self.all.look(|all| {
            if let Some(disks) = all.get_mut(&self.number).and_then(|entry| entry.growing.as_mut()) {
                disks.see(state);
            }
        });
    }

    /// How busy the guest is; nothing where its agent does not say. It is told until the agent is asked again, or cannot be.
    pub(crate) fn load(&self, load: Option<GuestLoad>) {
        self.all.look(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                entry.load = load;
            }
        });
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.all.look(|all| drop(all.remove(&self.number)));
    }
}
