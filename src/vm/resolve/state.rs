//! Where EFI variables and the TPM of a VM are kept on this computer.
//!
//! ```text
//!  disk.qcow2           the first disk of the VM that is a file, and is written
//!  disk.qcow2.state/    efi-vars.fd, tpm2/
//! ```
//!
//! They belong to the system on the disk, and not to the VM: without its TPM a disk that is sealed to it does not start. So
//! they stay when the VM is removed, and come along when the disk is run under another name. A VM without such a disk keeps
//! them in its own folder, and they go with it.

use api::launcher::{Resolved, Source, StatePlace};
use api::machine::{Disk, Machine, Target, Volume};
use std::ffi::OsString;
use std::path::PathBuf;

/// The ending of the folder beside a disk.
const FOLDER: &str = ".state";

/// Where what outlives a VM is kept; nothing, where nothing does, or no disk of it is a file.
pub(super) fn place(machine: &Machine, resolved: &Resolved) -> Option<StatePlace> {
    if !machine.keeps_state() {
        return None;
    }
    let disk = machine.disks.iter().find_map(|disk| file(disk, resolved))?;
    let mut folder = OsString::from(disk);
    folder.push(FOLDER);
    let folder = PathBuf::from(folder);
    Some(StatePlace { variables: folder.join("efi-vars.fd"), tpm: folder.join("tpm2") })
}

/// The file of a disk that is written and stays.
fn file(disk: &Disk, resolved: &Resolved) -> Option<PathBuf> {
    if disk.readonly || !matches!(disk.target, Target::Disk) {
        return None;
    }
    match (&disk.volume, resolved.volumes.get(&disk.name)) {
        (
            Volume::Host { .. } | Volume::Claim { .. } | Volume::DataVolume { .. },
            Some(Source::File { path, .. }),
        ) => Some(path.clone()),
        // One that the launcher makes.
        (Volume::Host { path, .. }, None) => Some(path.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::Format;
    use api::vmi::VirtualMachineInstance;
    use serde_json::{Value, json};

    fn machine(tpm: &Value) -> Machine {
        let host = |path: &str| json!({"path": path, "type": "DiskOrCreate", "capacity": "1Gi"});
        let object = json!({"metadata": {"name": "m", "namespace": "n"}, "spec": {
            "domain": {
                "memory": {"guest": "64Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"tpm": tpm, "disks": [
                    {"name": "iso", "cdrom": {"bus": "sata"}}, {"name": "image", "disk": {}},
                    {"name": "root", "disk": {}}, {"name": "more", "disk": {}},
                ]},
            },
            "volumes": [
                {"name": "iso", "hostDisk": host("/i.iso")}, {"name": "image", "containerDisk": {"image": "os:1"}},
                {"name": "root", "hostDisk": host("/d.img")}, {"name": "more", "hostDisk": host("/e.img")},
            ],
        }});
        let vmi: VirtualMachineInstance = serde_json::from_value(object).unwrap();
        Machine::handed(&vmi).unwrap()
    }

    #[test]
    fn the_state_lies_beside_the_first_disk_that_is_kept() {
        let image = Source::Image { path: "/pulled".into(), format: Format::Raw };
        let mut resolved = Resolved::default();
        resolved.volumes.insert("image".into(), image);
        let kept = machine(&json!({"persistent": true}));
        let place = place(&kept, &resolved).unwrap();
        assert_eq!(place.tpm, PathBuf::from("/d.img.state/tpm2"));
        assert_eq!(place.variables, PathBuf::from("/d.img.state/efi-vars.fd"));
        let there = Source::File { path: "/d.img".into(), format: Format::Raw, preallocated: false };
        resolved.volumes.insert("root".into(), there);
        assert_eq!(super::place(&kept, &resolved), Some(place));
        resolved.volumes.insert("root".into(), Source::Block { path: "/dev/sdz".into() });
        let next = super::place(&kept, &resolved).unwrap();
        assert_eq!(next.tpm, PathBuf::from("/e.img.state/tpm2"));
        assert_eq!(super::place(&machine(&json!({"persistent": false})), &resolved), None);
    }
}
