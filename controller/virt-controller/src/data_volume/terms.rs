//! Phases, event reasons and nouns of an import, of a clone and of an upload. All else is the same for the three.

use api::data_volume::Phase;
use cluster_model::objects::Work;

/// Phases, event reasons and nouns of one kind of work.
#[derive(Debug)]
pub(super) struct Terms {
    /// Phase while the pod does not work yet, and the reason of its event.
    pub(super) scheduled: (Phase, &'static str),
    /// Phase while the pod works, and the reason of its event.
    pub(super) running: (Phase, &'static str),
    /// Phase after a pod broke off, until the next one begins.
    pub(super) broken: Phase,
    /// Reason of the event of a failure.
    pub(super) failed: &'static str,
    /// Reason of the event of a complete disk.
    pub(super) succeeded: &'static str,
    /// The work, as a noun.
    pub(super) noun: &'static str,
    /// The pod, as a noun.
    pub(super) pod: &'static str,
    /// The work, as a participle.
    pub(super) done: &'static str,
}

static IMPORT: Terms = Terms {
    scheduled: (Phase::ImportScheduled, "ImportScheduled"),
    running: (Phase::ImportInProgress, "ImportInProgress"),
    broken: Phase::ImportInProgress,
    failed: "ImportFailed",
    succeeded: "ImportSucceeded",
    noun: "Import",
    pod: "importer pod",
    done: "imported",
};

/// Terms of a clone. Its pod is an importer pod, which imports from a source pod.
pub(super) static CLONE: Terms = Terms {
    scheduled: (Phase::CloneScheduled, "CloneScheduled"),
    running: (Phase::CloneInProgress, "CloneInProgress"),
    broken: Phase::CloneInProgress,
    failed: "CloneFailed",
    succeeded: "CloneSucceeded",
    noun: "Clone",
    pod: "importer pod",
    done: "cloned",
};

static UPLOAD: Terms = Terms {
    scheduled: (Phase::UploadScheduled, "UploadScheduled"),
    running: (Phase::UploadReady, "UploadReady"),
    // No client can send anything to it.
    broken: Phase::UploadScheduled,
    failed: "UploadFailed",
    succeeded: "UploadSucceeded",
    noun: "Upload",
    pod: "upload pod",
    done: "uploaded",
};

/// The terms of a work.
pub(super) fn of_work(work: Work) -> &'static Terms {
    match work {
        // An export fills nothing, and has its own terms (`crate::export`).
        Work::Import | Work::Export => &IMPORT,
        Work::Serve => &CLONE,
        Work::Upload => &UPLOAD,
    }
}
