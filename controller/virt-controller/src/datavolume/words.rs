//! The words of an import, of a clone and of an upload: phases, reasons of events, and the beginnings of sentences. All else is the same
//! for both.

use api::datavolume::Phase;
use cluster_model::objects::Work;

/// The words of one kind of work.
#[derive(Debug)]
pub(super) struct Words {
    /// The phase while the pod does not work yet, and the event of that.
    pub(super) scheduled: (Phase, &'static str),
    /// The phase while the pod works, and the event of that.
    pub(super) works: (Phase, &'static str),
    /// The phase of a pod that broke off, until the next one begins.
    pub(super) broke: Phase,
    /// The event of what went wrong.
    pub(super) failed: &'static str,
    /// The event of a disk that is whole.
    pub(super) succeeded: &'static str,
    /// The work, as a noun.
    pub(super) noun: &'static str,
    /// The pod, as a noun.
    pub(super) pod: &'static str,
    /// The work, as a participle.
    pub(super) done: &'static str,
}

static IMPORT: Words = Words {
    scheduled: (Phase::ImportScheduled, "ImportScheduled"),
    works: (Phase::ImportInProgress, "ImportInProgress"),
    broke: Phase::ImportInProgress,
    failed: "ImportFailed",
    succeeded: "ImportSucceeded",
    noun: "Import",
    pod: "importer pod",
    done: "imported",
};

/// A clone is an import, from a source pod.
pub(super) static CLONE: Words = Words {
    scheduled: (Phase::CloneScheduled, "CloneScheduled"),
    works: (Phase::CloneInProgress, "CloneInProgress"),
    broke: Phase::CloneInProgress,
    failed: "CloneFailed",
    succeeded: "CloneSucceeded",
    noun: "Clone",
    pod: "importer pod",
    done: "cloned",
};

static UPLOAD: Words = Words {
    scheduled: (Phase::UploadScheduled, "UploadScheduled"),
    works: (Phase::UploadReady, "UploadReady"),
    // Nobody can send it anything.
    broke: Phase::UploadScheduled,
    failed: "UploadFailed",
    succeeded: "UploadSucceeded",
    noun: "Upload",
    pod: "upload pod",
    done: "uploaded",
};

/// The words of this work.
pub(super) fn of(work: Work) -> &'static Words {
    match work {
        // An export fills nothing, and has its own words in its own folder.
        Work::Import | Work::Export => &IMPORT,
        Work::Serve => &CLONE,
        Work::Upload => &UPLOAD,
    }
}
