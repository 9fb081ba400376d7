//! Why a condition of a machine is as it is, and what its events tell.

use crate::words;

words! {
    /// Why a machine is not ready; while it has an instance, that one's reason stands there.
    pub enum ReadyReason {
        /// There is no instance.
        VmiNotExists = "VMINotExists",
        /// The instance does not say whether it is ready.
        VmiConditionMissing = "VMIConditionMissing",
    }
}

words! {
    /// What happened to a machine, as its events tell.
    #[allow(missing_docs)]
    pub enum EventReason {
        SuccessfulCreate = "SuccessfulCreate",
        FailedCreate = "FailedCreate",
        SuccessfulDelete = "SuccessfulDelete",
        FailedDelete = "FailedDelete",
        SuccessfulDataVolumeCreate = "SuccessfulDataVolumeCreate",
        FailedDataVolumeCreate = "FailedDataVolumeCreate",
        UnauthorizedDataVolumeCreate = "UnauthorizedDataVolumeCreate",
    }
}
