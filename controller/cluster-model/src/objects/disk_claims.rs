//! Disks of VMIs on PersistentVolumeClaims, and which two of them cannot run at once.
//!
//! | disk of one VMI | disk of another VMI on the same PVC | both at once |
//! |---|---|---|
//! | is written | is not `shareable` | no |
//! | is read | is read | yes |
//! | is `shareable` | is `shareable` | yes |
//!
//! An overlay (`ephemeral`), a CD-ROM and a read-only disk are read. A file system that containers of the
//! launcher pods serve to the guests (virtiofs) is not a disk: the PVC is shared on purpose. QEMU locks its
//! disks by the same rule, but a lock on a block device belongs to the device node, and each container has
//! its own; and some network file systems keep no locks between nodes. So virt-controller judges before a
//! launcher pod is created.

use super::{IndexKey, Key, Kind, World, claim_of, destinations_of, key};
use api::vmi::{VirtualMachineInstance, Volume};

/// Use of a PVC by the disks of one VMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiskUse {
    writes: bool,
    is_shareable: bool,
}

/// Conflict with a VMI that cannot run at the same time as a given one.
#[derive(Clone, Copy, Debug)]
pub struct DiskConflict<'a> {
    /// The other VMI, in any phase.
    pub other: &'a VirtualMachineInstance,
    /// Name of the PVC on which both have a disk.
    pub claim: &'a str,
    pub cause: ConflictCause,
}

/// Cause of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictCause {
    OtherWrites,
    /// The other VMI reads the PVC, to which the given one writes.
    OtherReads,
    /// The spec of the other VMI is unknown ([`World::is_unread`]): it may have any PVC of its namespace.
    OtherUnread,
}

impl World {
    /// The VMIs that cannot run at the same time as this one, in the order of their names for each PVC.
    pub fn disk_conflicts<'a>(&'a self, vmi: &'a VirtualMachineInstance) -> Vec<DiskConflict<'a>> {
        let own_key = key(Kind::VirtualMachineInstance, &vmi.metadata);
        let mut claims: Vec<&str> = vmi.spec.volumes.iter().filter_map(claim_of).collect();
        claims.sort_unstable();
        claims.dedup();
        let own = claims.into_iter().filter_map(|claim| Some((claim, disk_use(vmi, claim)?)));
        let own: Vec<(&str, DiskUse)> = own.collect();
        let Some(&(first, _)) = own.first() else { return Vec::new() };
        let cause = ConflictCause::OtherUnread;
        let unread = self.unread_vmis(&own_key);
        let mut found: Vec<_> = unread.map(|other| DiskConflict { other, claim: first, cause }).collect();
        for (claim, own) in own {
            let mark = IndexKey::PersistentVolumeClaim(own_key.namespace.clone(), claim.to_owned());
            let others =
                self.indexed_by(&mark).filter(|other| other.kind == own_key.kind && **other != own_key);
            let others = others.filter_map(|other| self.vmis.get(&other.namespace, &other.name));
            found.extend(others.filter_map(|other| {
                let its = disk_use(other, claim)?;
                let cause = if its.writes { ConflictCause::OtherWrites } else { ConflictCause::OtherReads };
                own.excludes(its).then_some(DiskConflict { other, claim, cause })
            }));
        }
        found
    }

    /// Other VMIs of the namespace that were never read whole.
    fn unread_vmis(&self, own: &Key) -> impl Iterator<Item = &VirtualMachineInstance> {
        let others = self.in_part.iter().filter(|key| key.kind == own.kind && key.namespace == own.namespace);
        let others = others.filter(move |key| *key != own);
        let others = others.filter_map(|key| self.vmis.get(&key.namespace, &key.name));
        // The volumes of a VMI do not change once they are known.
        others.filter(|other| other.spec.volumes.is_empty())
    }
}

impl DiskUse {
    fn excludes(self, other: DiskUse) -> bool {
        (self.writes && !other.is_shareable) || (other.writes && !self.is_shareable)
    }
}

/// Use of a PVC by the disks of a VMI; `None` if no disk is on it. A live migration writes to the PVC that it copies a disk into.
fn disk_use(vmi: &VirtualMachineInstance, claim: &str) -> Option<DiskUse> {
    if destinations_of(vmi).any(|destination| destination == claim) {
        return Some(DiskUse { writes: true, is_shareable: false });
    }
    let volumes = vmi.spec.volumes.iter().filter(|volume| claim_of(volume) == Some(claim));
    let uses = volumes.filter_map(|volume| volume_use(vmi, volume));
    uses.reduce(|one, more| DiskUse {
        writes: one.writes || more.writes,
        is_shareable: one.is_shareable && more.is_shareable,
    })
}

fn volume_use(vmi: &VirtualMachineInstance, volume: &Volume) -> Option<DiskUse> {
    let devices = &vmi.spec.domain.devices;
    let disk = devices.disks.iter().find(|disk| disk.name == volume.name);
    if disk.is_none() && devices.filesystems.iter().any(|filesystem| filesystem.name == volume.name) {
        return None;
    }
    let is_read_volume = volume.ephemeral.is_some()
        || volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.read_only == Some(true));
    // A volume without a disk gets one by default.
    let is_read_disk = disk.is_some_and(|disk| {
        disk.cdrom.is_some()
            || disk.disk.as_ref().is_some_and(|target| target.readonly == Some(true))
            || disk.lun.as_ref().is_some_and(|target| target.readonly == Some(true))
    });
    Some(DiskUse {
        writes: !is_read_volume && !is_read_disk,
        is_shareable: disk.is_some_and(|disk| disk.shareable == Some(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn vmi(name: &str, disk: &Value, volume: &Value) -> Value {
        let (mut disk, mut volume) = (disk.clone(), volume.clone());
        let devices = match disk.get("virtiofs").is_some() {
            true => "filesystems",
            false => "disks",
        };
        (disk["name"], volume["name"]) = (json!("data"), json!("data"));
        json!({
            "metadata": {"namespace": "n", "name": name, "uid": name},
            "spec": {"domain": {"devices": {devices: [disk]}}, "volumes": [volume]},
        })
    }

    #[test]
    fn two_vmis_exclude_one_another_if_one_writes_what_the_other_does_not_share() {
        let claim = json!({"persistentVolumeClaim": {"claimName": "disk"}});
        let data = json!({"dataVolume": {"name": "disk"}});
        let overlay = json!({"ephemeral": {"persistentVolumeClaim": {"claimName": "disk"}}});
        let read = json!({"persistentVolumeClaim": {"claimName": "disk", "readOnly": true}});
        let other = json!({"persistentVolumeClaim": {"claimName": "other"}});
        let (plain, shared) = (json!({"disk": {}}), json!({"disk": {}, "shareable": true}));
        let (cdrom, files) = (json!({"cdrom": {}}), json!({"virtiofs": {}}));
        let cases = [
            ((&plain, &claim), (&plain, &data), true),
            ((&plain, &claim), (&plain, &other), false),
            ((&shared, &claim), (&shared, &claim), false),
            ((&shared, &claim), (&plain, &claim), true),
            ((&plain, &claim), (&plain, &overlay), true),
            ((&plain, &overlay), (&plain, &overlay), false),
            ((&plain, &read), (&cdrom, &claim), false),
            ((&cdrom, &claim), (&plain, &claim), true),
            ((&files, &claim), (&files, &claim), false),
            ((&files, &claim), (&plain, &claim), false),
        ];
        for ((disk, volume), (other_disk, other_volume), wanted) in cases {
            let mut world = World::default();
            for object in [vmi("a", disk, volume), vmi("b", other_disk, other_volume)] {
                world.put(Kind::VirtualMachineInstance, object, Timestamp::UNIX_EPOCH);
            }
            for (one, other) in [("a", "b"), ("b", "a")] {
                let found = world.disk_conflicts(world.vmis.get("n", one).unwrap());
                let names: Vec<_> =
                    found.iter().filter_map(|found| found.other.metadata.name.clone()).collect();
                let expected = if wanted { vec![other.to_owned()] } else { Vec::new() };
                assert_eq!(names, expected, "{one}: {disk} {volume}, {other_disk} {other_volume}");
            }
        }
    }
}
