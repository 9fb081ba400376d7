//! Devices of this node that are assigned to one VMI at a time: PCI devices, mediated devices, USB devices,
//! as permitted by the KubeVirt object (`permittedHostDevices`).
//!
//! ```text
//!  KubeVirt object ─► rules ─┐
//!  /sys ─────────────────────┴─► discover ─► units by resource ─► one plug-in each ─► kubelet
//!   ▲                                   mediated: makes some of them (mediatedDevicesConfiguration)
//!      every 10 s, and when the rules change                        │  begun with the first unit, ended with the last rule
//!                                                                   └─ Allocate: looks again, and answers nodes of /dev, and
//!                                                                      PCI_RESOURCE_…, MDEV_PCI_RESOURCE_…, USB_RESOURCE_…
//! ```
//!
//! Only two things are remembered: what the kubelet was told, and which USB devices pods were given. All else
//! is read from `/sys` each time. A unit that is gone, or that a driver of the node took back, is reported as
//! unhealthy. A device of a resource that another device plug-in offers is left alone.

mod assignments;
mod discover;
mod in_use;
mod mediated;
mod sysfs;

use super::plugin::{self, Offer, PATIENCE};
use super::wire::{
    self, AllocateRequest, AllocateResponse, ContainerResponse, DeviceSpec, Devices, NumaNode, Topology,
};
use crate::blocking::Blocking;
use crate::error::Result;
use api::machine::host_device::variable;
use api::machine::permitted::{Permitted, Selector};
use assignments::UsbAssignments;
pub(crate) use assignments::to_pods;
use cluster_model::config::node::NodeSettings;
use cluster_model::objects::names::fnv;
use discover::{Discovery, Unit, discover};
use in_use::InUse;
use mediated::MediatedChanges;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tonic::Status;

/// Time between two looks at the node.
const EXAMINE: Duration = Duration::from_secs(10);
/// Time for the kubelet to learn that a resource has no devices any more.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Most resources of one node.
const RESOURCES: usize = 64;
/// Most units of a resource that are gone and still reported as unhealthy.
const GONE: usize = 256;
/// Concurrent looks at the node: one of the loop, and those for containers that are given devices. Plug-ins
/// have as many of their own at the kubelet's folder: if looks at devices hang, the offered devices stay
/// offered.
const LOOKS: usize = 4;

/// Mount points of the node's kernel file systems.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    /// Path of the node's `/sys`.
    pub(crate) sysfs: PathBuf,
    /// Path of the node's `/proc`.
    pub(crate) proc: PathBuf,
}

/// Offers the permitted devices of the node. Never returns. `folder`: the kubelet's; `labels`: the node's.
pub(crate) async fn run(
    folder: &Path,
    roots: Roots,
    mut settings: watch::Receiver<Option<NodeSettings>>,
    mut labels: watch::Receiver<Value>,
) {
    let blocking = Blocking::new("the node's devices for VMIs", LOOKS);
    let at_kubelet = Blocking::new("the kubelet's folder", LOOKS);
    // A removal waits until the device is closed. Discovery uses other threads and does not wait with it.
    let making = Blocking::new("the node's mediated devices", 1);
    let mut plugins = Plugins {
        folder: folder.to_owned(),
        at_kubelet,
        look: DeviceScanner {
            roots,
            settings: settings.clone(),
            blocking,
            given: Arc::default(),
            making,
            mediated: Arc::default(),
        },
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
        notes: BTreeSet::new(),
    };
    loop {
        let permitted = settings.borrow_and_update().as_ref().map(|said| said.host_devices.clone());
        if plugins.look.usb_assignments().is_none() {
            let given = given_before(folder, &plugins.at_kubelet).await;
            *plugins.look.usb_assignments() = given;
        }
        let types = plugins.look.types(&labels.borrow_and_update());
        plugins.look.make(folder, types).await;
        // Before the KubeVirt object is known, no plug-in is started or ended.
        if let Some(permitted) = permitted {
            match plugins.look.discover().await {
                Ok(found) => plugins.offer(&permitted, found),
                Err(e) => tracing::warn!("cannot offer devices of this node to VMIs: {}", e.chain()),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EXAMINE) => {}
            changed = settings.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            Ok(()) = labels.changed() => {}
        }
    }
}

/// Devices that pods were given before this virt-handler, from the kubelet's file. While they are unknown, no
/// USB device is offered.
async fn given_before(folder: &Path, at_kubelet: &Blocking) -> Option<UsbAssignments> {
    let folder = folder.to_owned();
    let read = move || UsbAssignments::of_kubelet(&folder);
    let read = at_kubelet.run("reading which devices pods have", PATIENCE, read).await;
    read.inspect_err(|e| {
        tracing::warn!(
            "cannot read which USB devices the pods of this node have; no USB devices are offered: {}",
            e.chain()
        )
    })
    .ok()
}

/// Discovery of the node's devices.
#[derive(Clone)]
struct DeviceScanner {
    roots: Roots,
    settings: watch::Receiver<Option<NodeSettings>>,
    blocking: Blocking,
    /// `None` until it is known.
    given: Arc<Mutex<Option<UsbAssignments>>>,
    making: Blocking,
    mediated: Arc<Mutex<Mediated>>,
}

/// State of the mediated devices after the last look.
#[derive(Debug, Default)]
struct Mediated {
    /// Devices that will be removed, and the time since they are offered to no pod.
    leaving: BTreeMap<String, Instant>,
    /// Changes that were made, or errors.
    notes: BTreeSet<Result<String, String>>,
}

impl DeviceScanner {
    /// Devices that are present now, by the current rules.
    async fn discover(&self) -> Result<Discovery> {
        let permitted = self.settings.borrow().as_ref().map(|said| said.host_devices.clone());
        let permitted = permitted.unwrap_or_default();
        if permitted.rules.is_empty() {
            return Ok(Discovery::default());
        }
        let (roots, given) = (self.roots.clone(), self.usb_assignments().clone());
        let mediated = self.mediated.clone();
        let look = move || {
            let mut found = scan(&roots, &permitted, given.as_ref())?;
            let leaving = held(&mediated).leaving.keys().cloned().collect();
            found.units.values_mut().for_each(|units| units.retain(|unit| !unit.is_of(&leaving)));
            Ok(found)
        };
        self.blocking.run("looking for devices", PATIENCE, look).await
    }

    /// Types of mediated devices that a node with these labels creates; `None` if it leaves them alone, or if
    /// the settings are not known yet.
    fn types(&self, labels: &Value) -> Option<Vec<String>> {
        let settings = self.settings.borrow();
        let mediated = settings.as_ref()?.mediated.as_ref()?;
        labels.is_object().then(|| mediated.of_node(labels).into_iter().map(str::to_owned).collect())
    }

    /// Creates the mediated devices of these types, and removes those of other types that were created here
    /// before. Without types, none will be removed. `folder`: the kubelet's.
    async fn make(&self, folder: &Path, types: Option<Vec<String>>) {
        let Some(types) = types else {
            return *self.mediated() = Mediated::default();
        };
        let (sysfs, folder) = (self.roots.sysfs.clone(), folder.to_owned());
        let mediated = self.mediated.clone();
        let make = move || {
            let types: Vec<&str> = types.iter().map(String::as_str).collect();
            mediated::make(&sysfs, &folder, &types, &|| held(&mediated).removable())
        };
        match self.making.run("making mediated devices", PATIENCE, make).await {
            Ok(made) => self.mediated().record(made),
            Err(e) => tracing::warn!("cannot create mediated devices: {}", e.chain()),
        }
    }

    fn mediated(&self) -> MutexGuard<'_, Mediated> {
        held(&self.mediated)
    }

    fn usb_assignments(&self) -> MutexGuard<'_, Option<UsbAssignments>> {
        held(&self.given)
    }
}

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mediated {
    /// Devices that have been offered to no pod for long enough: two looks may follow each other at once.
    fn removable(&self) -> BTreeSet<String> {
        let is_over = |since: &Instant| since.elapsed() >= EXAMINE;
        self.leaving.iter().filter(|(_, since)| is_over(since)).map(|(uuid, _)| uuid.clone()).collect()
    }

    /// A note that the last look has logged is not logged again.
    fn record(&mut self, made: MediatedChanges) {
        for note in made.notes.difference(&self.notes) {
            match note {
                Ok(done) => tracing::info!("{done}"),
                Err(why) => tracing::warn!("{why}"),
            }
        }
        self.notes = made.notes;
        let since = |uuid: &String| self.leaving.get(uuid).copied().unwrap_or_else(Instant::now);
        self.leaving = made.leaving.into_iter().map(|uuid| (uuid.clone(), since(&uuid))).collect();
    }
}

fn scan(
    Roots { sysfs, proc }: &Roots,
    permitted: &Permitted,
    given: Option<&UsbAssignments>,
) -> Result<Discovery> {
    let has_usb = permitted.offered().any(|rule| matches!(rule.selector, Selector::Usb(_)));
    let in_use = match given {
        None => InUse::unknown("the assignments of the kubelet to pods are not known"),
        Some(_) if has_usb => InUse::read(sysfs, proc),
        Some(_) => InUse::default(),
    };
    discover(sysfs, permitted, &in_use, given.unwrap_or(&UsbAssignments::default()))
}

/// Running device plug-ins, by extended resource.
struct Plugins {
    folder: PathBuf,
    at_kubelet: Blocking,
    look: DeviceScanner,
    running: BTreeMap<String, Running>,
    tasks: JoinSet<()>,
    notes: BTreeSet<String>,
}

struct Running {
    list: watch::Sender<Devices>,
    task: AbortHandle,
}

impl Plugins {
    /// Starts, updates and ends plug-ins.
    fn offer(&mut self, permitted: &Permitted, found: Discovery) {
        while self.tasks.try_join_next().is_some() {}
        let mut notes = found.notes;
        let wanted: BTreeSet<&str> = permitted.offered().map(|rule| rule.resource.as_str()).collect();
        let gone: Vec<String> =
            self.running.keys().filter(|resource| !wanted.contains(resource.as_str())).cloned().collect();
        for resource in gone {
            self.stop(&resource);
        }
        let nothing = Vec::new();
        for resource in wanted {
            let units = found.units.get(resource).unwrap_or(&nothing);
            match self.running.get(resource) {
                Some(running) => {
                    running.list.send_if_modified(|known| {
                        let now = device_list(units, known);
                        let is_other = *known != now;
                        *known = now;
                        is_other
                    });
                }
                None if units.is_empty() => {}
                None if self.running.len() == RESOURCES => {
                    notes.insert(format!(
                        "{resource} is not offered: this node has {RESOURCES} resources already"
                    ));
                }
                None => self.start(resource, units),
            }
        }
        for note in notes.difference(&self.notes) {
            tracing::info!("{note}");
        }
        self.notes = notes;
    }

    fn start(&mut self, resource: &str, units: &[Unit]) {
        let (list, listed) = watch::channel(device_list(units, &Devices::default()));
        let offer = Offer {
            resource: resource.to_owned(),
            // A socket path has room for 107 characters.
            endpoint: format!("kubevirt-host-{:016x}.sock", fnv(resource)),
            list: listed,
            allocate: allocate(self.look.clone(), resource.to_owned()),
        };
        let task = self.tasks.spawn(plugin::offer(self.folder.clone(), offer, self.at_kubelet.clone()));
        self.running.insert(resource.to_owned(), Running { list, task });
    }

    /// Reports to the kubelet that there are no devices, and then ends the plug-in.
    fn stop(&mut self, resource: &str) {
        let Some(Running { list, task }) = self.running.remove(resource) else { return };
        tracing::info!("{resource} is not offered any more: the KubeVirt object does not permit it");
        list.send_replace(Devices::default());
        self.tasks.spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            task.abort();
            drop(list);
        });
    }
}

/// The list for the kubelet: units that are present, and known ones that are gone.
fn device_list(units: &[Unit], known: &Devices) -> Devices {
    let there = units.iter().map(|unit| wire::Device {
        id: unit.id.clone(),
        topology: unit.numa.map(|numa| Topology { nodes: vec![NumaNode { id: i64::from(numa) }] }),
        ..wire::Device::with_health(true)
    });
    let is_gone = |device: &&wire::Device| units.iter().all(|unit| unit.id != device.id);
    let gone = known.devices.iter().filter(is_gone).take(GONE);
    let gone = gone.map(|device| wire::Device { id: device.id.clone(), ..wire::Device::with_health(false) });
    Devices { devices: there.chain(gone).collect() }
}

fn allocate(look: DeviceScanner, resource: String) -> plugin::Allocate {
    Arc::new(move |asked, permissions| -> plugin::AllocateFuture {
        let (look, resource) = (look.clone(), resource.clone());
        Box::pin(async move {
            let found = look.discover().await.map_err(|e| Status::unavailable(e.chain()))?;
            let units = found.units.get(&resource).map_or(&[][..], Vec::as_slice);
            let response =
                allocation(&resource, units, &asked, permissions).map_err(Status::failed_precondition)?;
            let ids: BTreeSet<&String> =
                asked.containers.iter().flat_map(|container| &container.ids).collect();
            let mut known = look.usb_assignments();
            let mut asked = units.iter().filter(|unit| ids.contains(&unit.id));
            if !known.as_mut().is_none_or(|known| asked.all(|unit| known.note(&resource, unit))) {
                return Err(Status::resource_exhausted(
                    "too many sets of USB devices are remembered; restart virt-handler on this node",
                ));
            }
            Ok(response)
        })
    })
}

/// The answer for containers that get devices. With an error, the kubelet refuses the pod, with that message.
fn allocation(
    resource: &str,
    units: &[Unit],
    asked: &AllocateRequest,
    permissions: &str,
) -> Result<AllocateResponse, String> {
    let mut containers = Vec::new();
    for container in &asked.containers {
        let mut nodes = BTreeSet::new();
        let mut addresses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for id in &container.ids {
            let unit = units.iter().find(|unit| unit.id == *id).ok_or_else(|| {
                let id: String = id.chars().take(64).collect();
                format!(
                    "the device {id:?} of {resource} is not there any more, or has another driver; look at the log of \
                     virt-handler on this node"
                )
            })?;
            nodes.extend(unit.nodes.iter().map(String::as_str));
            addresses.entry(unit.prefix).or_default().extend(unit.addresses.iter().map(String::as_str));
        }
        let envs = addresses.into_iter().map(|(prefix, all)| (variable(prefix, resource), all.join(",")));
        containers.push(ContainerResponse {
            envs: envs.collect::<HashMap<_, _>>(),
            devices: nodes.into_iter().map(|node| DeviceSpec::same_path(node, permissions)).collect(),
        });
    }
    Ok(AllocateResponse { containers })
}

#[cfg(test)]
mod tests;
