//! Mediated devices that this node creates on its cards (`mediatedDevicesConfiguration`).
//!
//! ```text
//!  KubeVirt object, labels of the node ─► types ─┐
//!  class/mdev_bus, bus/mdev ─────────────► cards ┼─► decide (pure) ─► make    TYPE/create ◄─ UUID
//!  what pods have (the kubelet's file) ──────────┘                 ─► leave   no longer offered
//!                                                                  ─► remove  UUID/remove ◄─ 1
//! ```
//!
//! A card has devices of one type: as many as the card has room for. Cards without devices get the types in
//! turn, beginning with the type that has the fewest cards.
//!
//! **Guarantees.** Only devices that virt-handler has created are removed: their UUIDs follow from card, type and
//! number. A device is removed after it was not offered for the time between two looks, and if no pod has it then:
//! until then the kubelet may have given it to a pod. If the kubelet's file is not understood, all devices stay.
//! Each removal checks again that its device is still leaving, since the steps before may have taken long. So no
//! state is kept, and the next look completes a look that ended at any line.
//!
//! **Caveats.** If a device of an unwanted type stays, because a pod has it or another program has created it, the
//! card has as much room as its driver reports.

use super::assignments::mediated_of_kubelet;
use super::sysfs::{Sysfs, decimal, text};
use crate::error::{Error, Result};
use crate::pod::confined::Access;
use api::uuid::of_mediated;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

/// Most devices of one card.
const MOST: u32 = 64;
/// Maximum number of devices that are created and removed in one call of [`make`].
const STEPS: usize = 256;

/// A card that supports mediated devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Card {
    name: String,
    kinds: Vec<Kind>,
    there: Vec<MediatedDevice>,
}

/// A device type that a card supports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    /// Name of its folder: `nvidia-222`.
    id: String,
    /// Name by the driver, with `_` for each blank.
    name: String,
    free: u32,
}

/// An existing device of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MediatedDevice {
    uuid: String,
    kind: String,
}

/// One change of the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Make { card: String, kind: String, uuid: String },
    Remove { uuid: String },
}

/// Result of one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MediatedChanges {
    /// Devices that will be removed: they are offered to no pod.
    pub(super) leaving: BTreeSet<String>,
    /// Changes that were made, or errors.
    pub(super) notes: BTreeSet<Result<String, String>>,
}

/// Creates the mediated devices of these types, and removes those that were created here before. `left`:
/// devices that have been leaving for long enough, at the time of the call; `kubelet`: its folder of device
/// plug-ins.
pub(super) fn make(
    sysfs: &Path,
    kubelet: &Path,
    types: &[&str],
    left: &dyn Fn() -> BTreeSet<String>,
) -> Result<MediatedChanges> {
    let sysfs = Sysfs::open(sysfs)?;
    let cards = cards(&sysfs)?;
    let leaving: BTreeSet<String> = cards.iter().flat_map(|card| card.unwanted(types)).collect();
    let mut free: BTreeSet<String> = leaving.intersection(&left()).cloned().collect();
    let mut notes = BTreeSet::new();
    if !free.is_empty() {
        match mediated_of_kubelet(kubelet) {
            Ok(given) => free.retain(|uuid| !given.contains(uuid)),
            // Nothing is removed; wanted devices are created all the same.
            Err(e) => {
                free.clear();
                notes.insert(Err(e.chain()));
            }
        }
    }
    let steps = decide(&cards, types, &free);
    let holds = |step: &&Step| match step {
        Step::Make { .. } => true,
        Step::Remove { uuid } => left().contains(uuid),
    };
    notes.extend(steps.iter().filter(holds).map(|step| apply_step(&sysfs, step).map_err(|e| e.chain())));
    Ok(MediatedChanges { leaving, notes })
}

impl Kind {
    fn matches(&self, said: &str) -> bool {
        self.id == said || self.name == said
    }
}

impl Card {
    fn kind(&self, said: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.matches(said))
    }

    /// Index in `types` of the type of an existing device.
    fn type_index(&self, device: &MediatedDevice, types: &[&str]) -> Option<usize> {
        let kind = self.kinds.iter().find(|kind| kind.id == device.kind)?;
        types.iter().position(|said| kind.matches(said))
    }

    /// Devices that were created here and are of none of these types.
    fn unwanted(&self, types: &[&str]) -> impl Iterator<Item = String> {
        let is_ours = |device: &MediatedDevice| {
            (0..MOST).any(|n| of_mediated(&self.name, &device.kind, n) == device.uuid)
        };
        let unwanted = self.there.iter().filter(move |device| self.type_index(device, types).is_none());
        unwanted.filter(move |device| is_ours(device)).map(|device| device.uuid.clone())
    }

    /// Creates as many devices of a type as there is room for.
    fn fill<'c>(&'c self, kind: &'c Kind) -> impl Iterator<Item = Step> + 'c {
        let is_there = |uuid: &String| self.there.iter().any(|device| device.uuid == *uuid);
        let uuids =
            (0..MOST).map(|n| of_mediated(&self.name, &kind.id, n)).filter(move |uuid| !is_there(uuid));
        let room = usize::try_from(kind.free).unwrap_or(usize::MAX);
        uuids.take(room).map(|uuid| Step::Make { card: self.name.clone(), kind: kind.id.clone(), uuid })
    }
}

/// Decides the steps. `free`: devices that can be removed now.
fn decide(cards: &[Card], types: &[&str], free: &BTreeSet<String>) -> Vec<Step> {
    let mut steps: Vec<Step> = free.iter().map(|uuid| Step::Remove { uuid: uuid.clone() }).collect();
    let place = |card: &Card| card.there.iter().find_map(|device| card.type_index(device, types));
    let mut counts = vec![0_usize; types.len()];
    for at in cards.iter().filter_map(place) {
        counts.iter_mut().skip(at).take(1).for_each(|count| *count += 1);
    }
    for card in cards {
        // Removed devices make room, which the next look sees.
        if card.there.iter().any(|device| free.contains(&device.uuid)) {
            continue;
        }
        let at = place(card).or_else(|| {
            let can = |at: &usize| {
                types.get(*at).and_then(|said| card.kind(said)).is_some_and(|kind| kind.free > 0)
            };
            let at = (0..types.len()).filter(can).min_by_key(|at| counts.get(*at).copied())?;
            counts.iter_mut().skip(at).take(1).for_each(|count| *count += 1);
            Some(at)
        });
        if let Some(kind) = at.and_then(|at| types.get(at)).and_then(|said| card.kind(said)) {
            steps.extend(card.fill(kind));
        }
    }
    steps.truncate(STEPS);
    steps
}

fn apply_step(sysfs: &Sysfs, step: &Step) -> Result<String> {
    let (folder, file, word, done) = match step {
        Step::Make { card, kind, uuid } => (
            kind_path(card, kind),
            "create",
            uuid.as_str(),
            format!("created the mediated device {uuid} of type {kind} on {card}"),
        ),
        Step::Remove { uuid } => (
            format!("bus/mdev/devices/{uuid}"),
            "remove",
            "1",
            format!(
                "removed the mediated device {uuid}: mediatedDevicesConfiguration does not name its type"
            ),
        ),
    };
    let folder = sysfs.folder(&folder)?;
    let mut attribute = folder.held(file)?.open(Access::WriteOnly)?;
    let cannot = || format!("cannot write to {}", folder.display_path().join(file).display());
    attribute.write_all(word.as_bytes()).map_err(|e| Error::io(cannot(), e))?;
    Ok(done)
}

fn kind_path(card: &str, kind: &str) -> String {
    format!("class/mdev_bus/{card}/mdev_supported_types/{kind}")
}

/// Cards of the node by name, with their devices.
fn cards(sysfs: &Sysfs) -> Result<Vec<Card>> {
    let mut there = devices(sysfs)?;
    let mut names = sysfs.names("class/mdev_bus")?;
    names.sort();
    let card = |name: String| -> Result<Card> {
        let kinds = sysfs.names(&format!("class/mdev_bus/{name}/mdev_supported_types"))?;
        let kinds = kinds.into_iter().filter_map(|id| kind(sysfs, &name, id)).collect();
        Ok(Card { kinds, there: there.remove(&name).unwrap_or_default(), name })
    };
    names.into_iter().map(card).collect()
}

fn kind(sysfs: &Sysfs, card: &str, id: String) -> Option<Kind> {
    let folder = sysfs.folder(&kind_path(card, &id)).ok()?;
    // A type without this attribute has no room, but its existing devices count.
    let free = text(&folder, "available_instances").ok().and_then(|said| decimal(&said)).unwrap_or_default();
    let name = text(&folder, "name").map_or_else(|_| id.clone(), |name| name.replace(' ', "_"));
    Some(Kind { id, name, free })
}

/// Existing mediated devices by card.
fn devices(sysfs: &Sysfs) -> Result<BTreeMap<String, Vec<MediatedDevice>>> {
    let names = sysfs.names("bus/mdev/devices")?;
    let bus = sysfs.folder("bus/mdev/devices");
    let mut all: BTreeMap<String, Vec<MediatedDevice>> = BTreeMap::new();
    for name in names {
        let read = || {
            let uuid = api::machine::uuid(&name)?;
            let link = bus.as_ref().ok()?.link(&name).ok()?;
            let card = link.rsplit('/').nth(1)?.to_owned();
            let kind = sysfs.folder(&format!("bus/mdev/devices/{name}")).ok()?.link("mdev_type").ok()?;
            Some((card, MediatedDevice { uuid, kind: kind.rsplit('/').next()?.to_owned() }))
        };
        if let Some((card, device)) = read() {
            all.entry(card).or_default().push(device);
        }
    }
    Ok(all)
}

#[cfg(test)]
#[path = "mediated_tests.rs"]
mod tests;
