//! Registry of the launchers that the keepers of this node are connected to, for other users: metrics, disk
//! pressure, and virt-api's requests.
//!
//! ```text
//!  keepers ── list ──► Launchers ──┬─ all ─► measures
//!             until they break off ├─ all ─► disk_pressure
//!                                  └─ of ──► asked: by namespace, name and uid
//! ```

use super::filesystems::Filesystems;
use super::growing_disks::GrowingDisks;
use super::launcher_client::Client;
use super::pod::{Pod, Process};
use api::launcher::{GuestLoad, State};
use api::meta::ObjectMeta;
use api::vmi::Domain;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Launchers that keepers are connected to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launchers(Arc<Mutex<BTreeMap<u64, Entry>>>);

/// Launcher of one VMI.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) client: Client,
    /// Name and UID of its pod.
    pub(crate) pod: (String, String),
    /// Process of the launcher, if known.
    pub(crate) process: Option<Arc<Process>>,
    /// The VMI has dedicated CPUs: each vCPU is pinned to one.
    pub(crate) has_own_cpus: bool,
    /// The VMI has devices of the node.
    pub(crate) has_devices: bool,
    /// Disk names of the spec by target names in the guest.
    pub(crate) disks: Names,
    /// Interface names of the spec by tap names.
    pub(crate) taps: Names,
    /// True if the guest agent is connected.
    pub(crate) agent: bool,
    /// Load of the guest, at the last query of its agent.
    pub(crate) load: Option<GuestLoad>,
    /// Names under which file systems were reported.
    pub(crate) filesystems: Filesystems,
    /// Disks that grow on the node as the guest writes.
    pub(crate) growing: Option<GrowingDisks>,
}

/// Names of disks or interfaces in the VMI's spec, by their target names in the guest or their tap names.
pub(crate) type Names = BTreeMap<String, String>;

impl Entry {
    /// True while the VMI is paused because of disk pressure.
    pub(crate) fn is_paused_for_disk(&self) -> bool {
        self.growing.as_ref().is_some_and(GrowingDisks::is_paused)
    }
}

/// Entry of a launcher in the registry; removed on drop.
#[derive(Debug)]
pub(crate) struct Registration {
    all: Launchers,
    number: u64,
}

impl Launchers {
    /// Adds the launcher of a VMI. `filesystems`: names that are kept over reconnects of the launcher.
    pub(crate) fn list(&self, vmi: &ObjectMeta, client: &Client, filesystems: &Filesystems) -> Registration {
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
        self.with_entries(|all| drop(all.insert(number, entry)));
        Registration { all: self.clone(), number }
    }

    pub(crate) fn all(&self) -> Vec<Entry> {
        self.with_entries(|all| all.values().cloned().collect())
    }

    /// Client of the launcher of this VMI. The UID excludes an earlier VMI of the same name. If several are
    /// listed, the last one counts.
    pub(crate) fn client(&self, namespace: &str, name: &str, uid: &str) -> Option<Client> {
        self.with_entries(|all| {
            let is =
                |entry: &&Entry| (&*entry.namespace, &*entry.name, &*entry.uid) == (namespace, name, uid);
            all.values().rev().find(is).map(|entry| entry.client.clone())
        })
    }

    fn with_entries<T>(&self, work: impl FnOnce(&mut BTreeMap<u64, Entry>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Registration {
    /// Sets the device names of the spec: interfaces by their taps, disks by their names in the guest. Other
    /// devices are not exported: a name that the launcher chooses must not become the label of a metric,
    /// which monitoring systems keep for ever. `agent`: the guest agent is connected.
    pub(crate) fn devices(&self, taps: Names, disks: Names, agent: bool) {
        self.all.with_entries(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                (entry.taps, entry.disks, entry.agent) = (taps, disks, agent);
                entry.load = entry.load.filter(|_| agent);
            }
        });
    }

    /// Sets the pod and the process of the launcher, and what its VMI uses of the node.
    pub(crate) fn set_launcher(&self, pod: Option<&Pod>, process: Option<Arc<Process>>, domain: &Domain) {
        let pod = pod.map(|pod| (pod.metadata.name.clone(), pod.metadata.uid.clone())).unwrap_or_default();
        let has_own = domain.cpu.as_ref().is_some_and(|cpu| cpu.dedicated_cpu_placement == Some(true));
        let devices = &domain.devices;
        let has_devices = !devices.gpus.is_empty() || !devices.host_devices.is_empty();
        self.all.with_entries(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                (entry.pod, entry.process) = (pod, process);
                (entry.has_own_cpus, entry.has_devices) = (has_own, has_devices);
            }
        });
    }

    /// Sets the disks of the VMI that grow on the node, if any.
    pub(crate) fn grows(&self, disks: Option<GrowingDisks>) {
        self.all.with_entries(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                entry.growing = disks;
            }
        });
    }

    /// Takes a state that the launcher reports.
    pub(crate) fn update(&self, state: &State) {
        self.all.with_entries(|all| {
            if let Some(disks) = all.get_mut(&self.number).and_then(|entry| entry.growing.as_mut()) {
                disks.update(state);
            }
        });
    }

    /// Sets the load of the guest; `None` if its agent does not report it. It is exported until the next
    /// query, or until the agent disconnects.
    pub(crate) fn load(&self, load: Option<GuestLoad>) {
        self.all.with_entries(|all| {
            if let Some(entry) = all.get_mut(&self.number) {
                entry.load = load;
            }
        });
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.all.with_entries(|all| drop(all.remove(&self.number)));
    }
}
