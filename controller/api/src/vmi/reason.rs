//! Reasons of the conditions and events of a VMI, and the messages of some.

use crate::words;

words! {
    /// Reasons for a false Ready condition of a VMI; once the VMI runs, the reason of the launcher pod is
    /// copied.
    pub enum ReadyReason {
        /// Launcher pod not created yet.
        PodNotExists = "PodNotExists",
        /// Launcher pod in deletion.
        PodTerminating = "PodTerminating",
        /// Launcher pod present, guest not running.
        GuestNotRunning = "GuestNotRunning",
        /// Launcher pod without a Ready condition.
        PodConditionMissing = "PodConditionMissing",
    }
}

words! {
    /// Reasons for the Paused condition of a VMI.
    pub enum PausedReason {
        /// Pause requested through the API.
        PausedByUser = "PausedByUser",
        /// I/O error on a volume with error policy `stop`.
        PausedIoError = "PausedIOError",
        /// Live migration that exceeded its time.
        PausedByMigrationMonitor = "PausedByMigrationMonitor",
    }
}

words! {
    /// Reasons for a false Synchronized condition of a VMI.
    pub enum SynchronizedReason {
        /// PersistentVolumeClaim not found.
        FailedPvcNotFound = "FailedPvcNotFound",
        /// DataVolume failed.
        FailedDataVolumeImport = "FailedDataVolumeImport",
        /// Creation of the PersistentVolumeClaim for TPM and EFI state failed.
        FailedBackendStorageCreate = "FailedBackendStorageCreate",
        /// Creation of the launcher pod failed.
        FailedCreate = "FailedCreate",
        /// Deletion of the launcher pod failed.
        FailedDelete = "FailedDelete",
        /// Launcher pod without dedicated CPUs.
        FailedGuaranteeResources = "FailedGuaranteeResources",
        /// Pull of an image failed.
        ErrImagePull = "ErrImagePull",
        /// Pull of an image failed and is retried later.
        ImagePullBackOff = "ImagePullBackOff",
    }
}

words! {
    /// Reasons for the DataVolumesReady condition of a VMI.
    pub enum DataVolumesReadyReason {
        /// All DataVolumes ready.
        AllDvsReady = "AllDVsReady",
        /// At least one DataVolume not ready.
        NotAllDvsReady = "NotAllDVsReady",
    }
}

words! {
    /// Reasons for a false LiveMigratable condition of a VMI.
    #[allow(missing_docs)]
    pub enum LiveMigratableReason {
        Disks = "DisksNotLiveMigratable",
        Interface = "InterfaceNotLiveMigratable",
        HostDevice = "HostDeviceNotLiveMigratable",
        Sev = "SEVNotLiveMigratable",
        Tdx = "TDXNotLiveMigratable",
        SecureExecution = "SecureExecutionNotLiveMigratable",
        /// Upstream's literal, without "Not".
        CpuMode = "CPUModeLiveMigratable",
        NoTscFrequency = "NoTSCFrequencyNotLiveMigratable",
        HypervPassthrough = "HypervPassthroughNotLiveMigratable",
        Hotplug = "HotplugNotLiveMigratable",
        Virtiofs = "VirtIOFSNotLiveMigratable",
        PersistentReservation = "PersistentReservationNotLiveMigratable",
        Decentralized = "DecentralizedNotLiveMigratable",
        /// Storage without support for live migration.
        NotMigratable = "NotMigratable",
    }
}

words! {
    /// Reasons of events about a VMI.
    #[allow(missing_docs)]
    pub enum EventReason {
        SuccessfulCreate = "SuccessfulCreate",
        FailedCreate = "FailedCreate",
        SuccessfulDelete = "SuccessfulDelete",
        FailedDelete = "FailedDelete",
        FailedPvcNotFound = "FailedPvcNotFound",
        FailedDataVolumeImport = "FailedDataVolumeImport",
        FailedBackendStorageCreate = "FailedBackendStorageCreate",
        FailedGuaranteeResources = "FailedGuaranteeResources",
        SuccessfulMigration = "SuccessfulMigration",
        FailedMigration = "FailedMigration",
        Created = "Created",
        Started = "Started",
        ShuttingDown = "ShuttingDown",
        Deleted = "Deleted",
        Stopped = "Stopped",
        SyncFailed = "SyncFailed",
        NicHotplug = "NicHotplug",
        HotplugFailed = "HotplugFailed",
        VolumeReady = "VolumeReady",
        VolumeMountedToPod = "VolumeMountedToPod",
        VolumeUnmountedFromPod = "VolumeUnMountedFromPod",
        VolumeUnplugged = "VolumeUnplugged",
    }
}

impl ReadyReason {
    /// The sentence that goes with it; nothing for one that is told by the pod.
    pub fn message(&self) -> Option<&'static str> {
        match self {
            ReadyReason::PodNotExists => Some("virt-launcher pod has not yet been scheduled"),
            ReadyReason::PodTerminating => Some("virt-launcher pod is terminating"),
            ReadyReason::GuestNotRunning => Some("Guest VM is not reported as running"),
            ReadyReason::PodConditionMissing | ReadyReason::Other(_) => None,
        }
    }
}

impl PausedReason {
    /// The sentence that goes with it; nothing for one that has none.
    pub fn message(&self) -> Option<&'static str> {
        match self {
            PausedReason::PausedByUser => Some("VMI was paused by user"),
            PausedReason::PausedIoError => Some("VMI was paused, low-level IO error detected"),
            PausedReason::PausedByMigrationMonitor | PausedReason::Other(_) => None,
        }
    }
}
