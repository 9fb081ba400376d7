//! Why a condition of an instance is as it is: the words that others look for, and the sentences that go with them.

use crate::words;

words! {
    /// Why an instance is not ready; once it runs, its pod's reason stands there.
    pub enum ReadyReason {
        /// There is no pod.
        PodNotExists = "PodNotExists",
        /// The pod is going down.
        PodTerminating = "PodTerminating",
        /// The pod is there, the guest is not.
        GuestNotRunning = "GuestNotRunning",
        /// The pod does not say whether it is ready.
        PodConditionMissing = "PodConditionMissing",
    }
}

words! {
    /// Why an instance stands still.
    pub enum PausedReason {
        /// Somebody wanted it.
        PausedByUser = "PausedByUser",
        /// A disk could not be read or written.
        PausedIoError = "PausedIOError",
        /// A move took too long.
        PausedByMigrationMonitor = "PausedByMigrationMonitor",
    }
}

words! {
    /// What an instance waits for, or why it could not be carried out.
    pub enum SynchronizedReason {
        /// A claim is not there.
        FailedPvcNotFound = "FailedPvcNotFound",
        /// A DataVolume failed.
        FailedDataVolumeImport = "FailedDataVolumeImport",
        /// The claim for what outlives the machine could not be made.
        FailedBackendStorageCreate = "FailedBackendStorageCreate",
        /// The pod could not be made.
        FailedCreate = "FailedCreate",
        /// The pod could not be deleted.
        FailedDelete = "FailedDelete",
        /// The pod did not get processors of its own.
        FailedGuaranteeResources = "FailedGuaranteeResources",
        /// An image could not be pulled.
        ErrImagePull = "ErrImagePull",
        /// An image could not be pulled, and it is tried again later.
        ImagePullBackOff = "ImagePullBackOff",
    }
}

words! {
    /// Whether the DataVolumes of an instance are ready.
    pub enum DataVolumesReadyReason {
        /// All of them.
        AllDvsReady = "AllDVsReady",
        /// Not all of them.
        NotAllDvsReady = "NotAllDVsReady",
    }
}

words! {
    /// Why an instance cannot move to another node.
    #[allow(missing_docs)]
    pub enum LiveMigratableReason {
        Disks = "DisksNotLiveMigratable",
        Interface = "InterfaceNotLiveMigratable",
        HostDevice = "HostDeviceNotLiveMigratable",
        Sev = "SEVNotLiveMigratable",
        Tdx = "TDXNotLiveMigratable",
        SecureExecution = "SecureExecutionNotLiveMigratable",
        /// The literal is what others look for, odd as it is.
        CpuMode = "CPUModeLiveMigratable",
        NoTscFrequency = "NoTSCFrequencyNotLiveMigratable",
        HypervPassthrough = "HypervPassthroughNotLiveMigratable",
        Hotplug = "HotplugNotLiveMigratable",
        Virtiofs = "VirtIOFSNotLiveMigratable",
        PersistentReservation = "PersistentReservationNotLiveMigratable",
        Decentralized = "DecentralizedNotLiveMigratable",
        /// Of its storage.
        NotMigratable = "NotMigratable",
    }
}

words! {
    /// What happened to an instance, as its events tell.
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
