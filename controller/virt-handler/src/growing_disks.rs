//! Disks of a VMI that use space of the node as the guest writes: overlays and emptyDisks. The keeper of the VMI lists them
//! with its launcher; disk_pressure measures them.

use super::pod::PodFolder;
use api::launcher::{Life, PAUSED_BY_DISK_PRESSURE, State};
use api::vmi::{VirtualMachineInstance, Volume};
use std::sync::Arc;

/// State of the vCPUs of a VMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vcpus {
    Running,
    /// Paused because of disk pressure.
    PausedForDisk,
    /// The VMI is paused for another reason, starts, or ends.
    Other,
}

/// Disks of a VMI that grow on the node, and the state of its vCPUs.
#[derive(Clone, Debug)]
pub(crate) struct GrowingDisks {
    pub(crate) place: Arc<PodFolder>,
    pub(crate) names: Arc<[String]>,
    pub(crate) vcpus: Vcpus,
}

impl GrowingDisks {
    /// Growing disks of a VMI; `None` if it has none. Also `None` for a VMI with a liveness probe, which must not be paused: the probe
    /// of a paused guest fails, and the kubelet then ends the launcher and the guest with it.
    pub(crate) fn for_vmi(vmi: &VirtualMachineInstance, place: &Arc<PodFolder>) -> Option<GrowingDisks> {
        if vmi.spec.liveness_probe.is_some() {
            return None;
        }
        let grows = |volume: &&Volume| {
            volume.container_disk.is_some() || volume.ephemeral.is_some() || volume.empty_disk.is_some()
        };
        let names: Arc<[String]> =
            vmi.spec.volumes.iter().filter(grows).map(|volume| volume.name.clone()).collect();
        (!names.is_empty()).then(|| GrowingDisks { place: Arc::clone(place), names, vcpus: Vcpus::Other })
    }

    /// Takes a state that the launcher reports.
    pub(crate) fn update(&mut self, state: &State) {
        self.vcpus = match state.life {
            Life::Running => Vcpus::Running,
            Life::Paused if state.reason.as_deref() == Some(PAUSED_BY_DISK_PRESSURE) => Vcpus::PausedForDisk,
            _ => Vcpus::Other,
        };
    }

    /// True while the VMI is paused for the disk of the node.
    pub(crate) fn is_paused(&self) -> bool {
        self.vcpus == Vcpus::PausedForDisk
    }
}
