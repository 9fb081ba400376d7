//! Conditions for a live migration of a VMI, and its disks that are copied. Pure.
//!
//! | part of the VMI | during a migration |
//! |---|---|
//! | PVC that several nodes can write to, shared hostDisk | stays at its place |
//! | overlay of a containerDisk or an ephemeral PVC, emptyDisk, seed | copied |
//! | PVC that one node can write to, as a disk of its own | copied into a new PVC, which virt-controller creates, unless it says in an annotation why not |
//! | EFI variables and a TPM that are kept | move with the guest's memory into a new PVC, unless the guest is paused |
//! | other PVC, other hostDisk | none: `DisksNotLiveMigratable` |
//! | device of the node, dedicated CPU, virtiofs, bridge on the pod network | none, each with its reason |
//!
//! Reasons and messages are upstream's where upstream has them.

use api::launcher::PAUSED_BY_MIGRATION;
use api::machine::network::Network;
use api::machine::{Binding, Disk, Machine, Target, Volume, is_of_one_node};
use api::vmi::{ClaimInfo, ConditionType, MigrationMethod, VirtualMachineInstance};
use cluster_model::claim_moves::NOT_COPIED;
use cluster_model::conditions;

/// Annotation of a VMI whose guest may migrate although it has the pod's address, which changes.
const ALLOWS_BRIDGE: &str = "kubevirt.io/allow-pod-bridge-network-live-migration";
/// Access mode of a PVC that several nodes can write to.
const SHARED: &str = "ReadWriteMany";

/// Cause that prevents a live migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// First cause that prevents a live migration of the VMI; `None` if it can migrate.
pub(crate) fn obstacle(vmi: &VirtualMachineInstance, machine: &Machine) -> Option<Obstacle> {
    let found = network(vmi, machine)
        .map(|message| ("InterfaceNotLiveMigratable", message))
        .or_else(|| device(machine).map(|message| ("HostDeviceNotLiveMigratable", message)))
        .or_else(|| cpu(machine))
        .or_else(|| filesystem(machine).map(|message| ("VirtIOFSNotLiveMigratable", message)))
        .or_else(|| disk(vmi, machine).map(|message| ("DisksNotLiveMigratable", message)));
    found.map(|(reason, message)| Obstacle { reason, message })
}

/// Method of a live migration of the VMI: with or without copied disks.
pub(crate) fn method(vmi: &VirtualMachineInstance, machine: &Machine) -> MigrationMethod {
    let has_own_claim = |disk: &Disk| claim_info(vmi, disk).is_some_and(|info| is_copied_claim(disk, info));
    match copied_disks(machine).is_empty() && !machine.disks.iter().any(has_own_claim) {
        true => MigrationMethod::LiveMigration,
        false => MigrationMethod::BlockMigration,
    }
}

/// Names of the disks whose bytes are copied: those that the launcher made. PVCs are copied as `status.migratedVolumes` has them.
pub(crate) fn copied_disks(machine: &Machine) -> Vec<String> {
    let is_copied = |disk: &&Disk| match &disk.volume {
        Volume::ContainerDisk { .. } | Volume::Ephemeral { .. } | Volume::Empty { .. } => {
            !matches!(disk.target, Target::CdRom { .. })
        }
        // Seeds are the same at both ends, and the guest only reads them as a CD-ROM.
        Volume::NoCloud(_)
        | Volume::ConfigDrive(_)
        | Volume::ConfigMap { .. }
        | Volume::Secret { .. }
        | Volume::DownwardApi { .. }
        | Volume::ServiceAccount { .. }
        | Volume::DownwardMetrics
        | Volume::Sysprep { .. } => !disk.readonly && !matches!(disk.target, Target::CdRom { .. }),
        Volume::Claim { .. }
        | Volume::DataVolume { .. }
        | Volume::Host { .. }
        | Volume::ContainerPath { .. }
        | Volume::NoDisc => false,
    };
    machine.disks.iter().filter(is_copied).map(|disk| disk.name.clone()).collect()
}

/// True if the images below copied overlays may differ at the target: an image without a digest may have another
/// content by now.
pub(crate) fn images_may_differ(machine: &Machine) -> bool {
    machine.disks.iter().any(|disk| match &disk.volume {
        Volume::ContainerDisk { image, .. } => !image.name.contains("@sha256:"),
        Volume::Ephemeral { .. } => true,
        _ => false,
    })
}

fn network(vmi: &VirtualMachineInstance, machine: &Machine) -> Option<String> {
    let allows_bridge = || vmi.metadata.annotations.contains_key(ALLOWS_BRIDGE);
    machine.interfaces.iter().find_map(|interface| {
        let is_of_pod = matches!(interface.network, Network::Pod { .. });
        let name = &interface.name;
        match interface.binding {
            Binding::Bridge if is_of_pod && !allows_bridge() => Some(
                "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network"
                    .to_owned(),
            ),
            Binding::Sriov => {
                Some(format!("cannot migrate VMI with the SR-IOV interface {name}, a device of its node"))
            }
            Binding::ManagedTap | Binding::Tap | Binding::Sidecar => Some(format!(
                "cannot migrate VMI with the interface {name}: live migration with network binding plugins is not supported"
            )),
            Binding::Bridge | Binding::Masquerade | Binding::Passt => None,
        }
    })
}

fn device(machine: &Machine) -> Option<String> {
    let uses = !machine.host_devices.is_empty();
    uses.then(|| "VMI uses a PCI, mediated or USB device of its node".to_owned())
}

fn cpu(machine: &Machine) -> Option<(&'static str, String)> {
    let uses = machine.cpu.dedicated;
    let message =
        || "cannot migrate VMI with dedicated CPUs: they are numbers of CPUs of its node".to_owned();
    uses.then(|| ("DedicatedCPUNotLiveMigratable", message()))
}

fn filesystem(machine: &Machine) -> Option<String> {
    let first = machine.filesystems.first()?;
    Some(format!("cannot migrate VMI with the virtiofs file system {}", first.name))
}

fn disk(vmi: &VirtualMachineInstance, machine: &Machine) -> Option<String> {
    let has_copied = || {
        let mut disks = machine.disks.iter();
        machine.keeps_state()
            || disks.any(|disk| claim_info(vmi, disk).is_some_and(|info| is_copied_claim(disk, info)))
    };
    let not_copied = || {
        let why = vmi.metadata.annotations.get(NOT_COPIED).filter(|_| has_copied())?;
        Some(format!("cannot migrate VMI: {why}"))
    };
    // QEMU writes EFI variables to their new file when the guest goes on.
    let paused = || {
        let said = conditions::find(&vmi.status.as_ref()?.conditions, &ConditionType::Paused)?;
        if said.status != "True" || !machine.keeps_state() {
            return None;
        }
        let is_passing = said.reason.as_deref() == Some(PAUSED_BY_MIGRATION);
        (!is_passing).then(|| {
            "cannot migrate VMI while it is paused: its EFI variables and TPM move with a guest that runs"
                .to_owned()
        })
    };
    machine.disks.iter().find_map(|disk| volume(vmi, disk)).or_else(not_copied).or_else(paused)
}

fn volume(vmi: &VirtualMachineInstance, disk: &Disk) -> Option<String> {
    let claim = match &disk.volume {
        Volume::Claim { name, .. } | Volume::DataVolume { name } | Volume::Ephemeral { claim: name } => name,
        Volume::Host { shared: false, .. } => {
            return Some("cannot migrate VMI with non-shared HostDisk".to_owned());
        }
        _ => return None,
    };
    let wanted = "live migration requires that all PVCs must be shared (using ReadWriteMany access mode)";
    match claim_info(vmi, disk) {
        None => Some(format!("cannot migrate VMI: Unable to determine if PVC {claim} is shared, {wanted}")),
        Some(info) if info.access_modes.iter().any(|mode| mode == SHARED) => None,
        Some(info) if is_copied_claim(disk, info) => None,
        Some(info) => {
            // Upstream's message alone would blame the access mode, which other disks may have.
            let why = disk.unmovable_reason().filter(|_| is_of_one_node(&info.access_modes));
            let why = why.map_or_else(String::new, |why| {
                format!(". The disk {} {why}: other disks on a PVC of one node are copied", disk.name)
            });
            Some(format!("cannot migrate VMI: PVC {claim} is not shared, {wanted}{why}"))
        }
    }
}

/// True for the PVC of a disk that is copied into a new PVC.
fn is_copied_claim(disk: &Disk, info: &ClaimInfo) -> bool {
    disk.has_movable_claim() && is_of_one_node(&info.access_modes)
}

/// The PVC of a disk in the status of the VMI.
fn claim_info<'a>(vmi: &'a VirtualMachineInstance, disk: &Disk) -> Option<&'a ClaimInfo> {
    let known = vmi.status.as_ref()?.volume_status.iter().find(|known| known.name == disk.name);
    known?.persistent_volume_claim_info.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn vmi(change: impl FnOnce(&mut Value)) -> (VirtualMachineInstance, Machine) {
        let mut object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u"},
            "spec": {
                "domain": {
                    "memory": {"guest": "64Mi"}, "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {
                        "disks": [{"name": "root", "disk": {}}, {"name": "more", "disk": {}}, {"name": "cd", "cdrom": {}}],
                        "interfaces": [{"name": "default", "masquerade": {}}],
                    },
                },
                "networks": [{"name": "default", "pod": {}}],
                "volumes": [
                    {"name": "root", "containerDisk": {"image": "r/a:1"}}, {"name": "more", "emptyDisk": {"capacity": "1Gi"}},
                    {"name": "cd", "cloudInitNoCloud": {"userData": "#"}},
                ],
            },
        });
        change(&mut object);
        let vmi: VirtualMachineInstance = api::wire::read(object).unwrap();
        let machine = Machine::check_again(&vmi).unwrap();
        (vmi, machine)
    }

    fn reason(change: impl FnOnce(&mut Value)) -> Option<&'static str> {
        let (vmi, machine) = vmi(change);
        obstacle(&vmi, &machine).map(|found| found.reason)
    }

    fn on_claim(object: &mut Value, modes: &Value) {
        object["spec"]["volumes"][0] = json!({"name": "root", "persistentVolumeClaim": {"claimName": "c"}});
        object["status"] =
            json!({"volumeStatus": [{"name": "root", "persistentVolumeClaimInfo": {"accessModes": modes}}]});
    }

    #[test]
    fn a_vmi_migrates_unless_a_part_of_it_cannot_leave_its_node() {
        assert_eq!(reason(|_| {}), None);
        let disks = Some("DisksNotLiveMigratable");
        assert_eq!(reason(|o| on_claim(o, &json!(["ReadWriteMany"]))), None);
        for mode in ["ReadWriteOnce", "ReadWriteOncePod"] {
            assert_eq!(reason(|o| on_claim(o, &json!([mode]))), None, "it is copied into a new PVC");
        }
        assert_eq!(reason(|o| on_claim(o, &json!(["ReadOnlyMany"]))), disks);
        // virt-controller knows why it cannot be copied.
        for (mode, expected) in [("ReadWriteOnce", disks), ("ReadWriteMany", None)] {
            let noted = |o: &mut Value| {
                on_claim(o, &json!([mode]));
                o["metadata"]["annotations"] = json!({NOT_COPIED: "its VM is of a pool"});
            };
            assert_eq!(reason(noted), expected, "{mode}");
        }
        for (disk, why) in [
            (json!({"disk": {}, "shareable": true}), "is shareable"),
            (json!({"disk": {"readonly": true, "bus": "virtio"}}), "is read-only"),
            (json!({"cdrom": {}}), "is a CD-ROM"),
            (json!({"lun": {"bus": "scsi"}}), "is a LUN"),
        ] {
            let other = |o: &mut Value| {
                on_claim(o, &json!(["ReadWriteOnce"]));
                o["spec"]["domain"]["devices"]["disks"][0] = disk.clone();
                o["spec"]["domain"]["devices"]["disks"][0]["name"] = json!("root");
            };
            let (object, machine) = vmi(other);
            let found = obstacle(&object, &machine).unwrap();
            assert_eq!(Some(found.reason), disks, "{disk}");
            // Upstream's message, and then what else is in the way than the access mode.
            let is_told =
                found.message.starts_with("cannot migrate VMI: PVC c is not shared, live migration requires")
                    && found.message.contains(&format!(". The disk root {why}: "));
            assert!(is_told, "{}", found.message);
        }
        let unknown = |o: &mut Value| {
            on_claim(o, &json!([]));
            o["status"] = json!({});
        };
        assert_eq!(reason(unknown), disks);
        let host = |shared: bool| {
            move |o: &mut Value| {
                let disk = json!({"path": "/d/disk.img", "type": "Disk", "shared": shared});
                o["spec"]["volumes"][0] = json!({"name": "root", "hostDisk": disk});
            }
        };
        assert_eq!((reason(host(false)), reason(host(true))), (disks, None));
        let state = |o: &mut Value| o["spec"]["domain"]["devices"]["tpm"] = json!({"persistent": true});
        assert_eq!(reason(state), None, "it moves with the guest's memory");
        let paused = |reason: &'static str| {
            move |o: &mut Value| {
                state(o);
                o["status"] = json!({"conditions": [{"type": "Paused", "status": "True", "reason": reason}]});
            }
        };
        assert_eq!((reason(paused("PausedByUser")), reason(paused(PAUSED_BY_MIGRATION))), (disks, None));
        let refused = |o: &mut Value| {
            state(o);
            o["metadata"]["annotations"] = json!({NOT_COPIED: "a volume has the name of its PVC"});
        };
        assert_eq!(reason(refused), disks);
        let bridge = |o: &mut Value| {
            o["spec"]["domain"]["devices"]["interfaces"][0] = json!({"name": "default", "bridge": {}});
        };
        assert_eq!(reason(bridge), Some("InterfaceNotLiveMigratable"));
        let allowed = |o: &mut Value| {
            bridge(o);
            o["metadata"]["annotations"] = json!({ALLOWS_BRIDGE: ""});
        };
        assert_eq!(reason(allowed), None);
        let secondary = |o: &mut Value| {
            bridge(o);
            o["spec"]["networks"][0] = json!({"name": "default", "multus": {"networkName": "n"}});
        };
        assert_eq!(reason(secondary), None);
        let dedicated =
            |o: &mut Value| o["spec"]["domain"]["cpu"] = json!({"cores": 1, "dedicatedCpuPlacement": true});
        assert_eq!(reason(dedicated), Some("DedicatedCPUNotLiveMigratable"));
    }

    #[test]
    fn disks_that_the_launcher_made_are_copied_and_their_images_compared_by_digest() {
        let (_, machine) = vmi(|_| {});
        assert_eq!(copied_disks(&machine), ["root", "more"]);
        let method_of = |change: fn(&mut Value)| {
            let (vmi, machine) = vmi(change);
            method(&vmi, &machine)
        };
        assert!(images_may_differ(&machine) && method_of(|_| {}) == MigrationMethod::BlockMigration);
        let digest = format!("r/a@sha256:{}", "0".repeat(64));
        let (_, machine) = vmi(|o| o["spec"]["volumes"][0]["containerDisk"]["image"] = json!(digest));
        assert!(!images_may_differ(&machine));
        for (mode, expected) in [
            ("ReadWriteMany", MigrationMethod::LiveMigration),
            ("ReadWriteOnce", MigrationMethod::BlockMigration),
        ] {
            let (vmi, machine) = vmi(|o| {
                on_claim(o, &json!([mode]));
                o["spec"]["volumes"][1] =
                    json!({"name": "more", "persistentVolumeClaim": {"claimName": "d"}});
            });
            assert!(copied_disks(&machine).is_empty() && method(&vmi, &machine) == expected, "{mode}");
        }
    }
}
