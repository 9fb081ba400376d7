//! Reasons of the conditions and events of a VM.

use crate::words;

words! {
    /// Reasons for a false Ready condition of a VM; while a VMI exists, the reason of the VMI is copied.
    pub enum ReadyReason {
        /// VMI not created yet.
        VmiNotExists = "VMINotExists",
        /// VMI without a Ready condition.
        VmiConditionMissing = "VMIConditionMissing",
    }
}

words! {
    /// Reasons of events about a VM.
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
