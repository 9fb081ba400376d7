//! Reasons and messages of the conditions of a DataImportCron, as upstream has them.

use cluster_model::objects::Failure;

/// Condition types, as upstream names them.
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const UP_TO_DATE: &str = "UpToDate";

/// Reasons. The last one is also that of the condition that is true.
pub(super) const NO_IMPORT: &str = "NoImport";
pub(super) const NO_DIGEST: &str = "NoDigest";
pub(super) const NOT_AUTHORIZED: &str = "NotAuthorized";
pub(super) const OUTDATED: &str = "Outdated";
pub(super) const SCHEDULED: &str = "ImportScheduled";
pub(super) const IN_PROGRESS: &str = "ImportProgressing";

/// Prefix of the failure of the last poll, at the end of the message of `UpToDate`.
const FAILED: &str = "; the last poll failed: ";

/// A message, followed by the failure of the last poll.
pub(super) fn with_trouble(sentence: &str, trouble: Option<&str>) -> String {
    trouble.map_or_else(|| sentence.to_owned(), |trouble| format!("{sentence}{FAILED}{trouble}"))
}

/// The failure of the last poll in a message. After a restart of virt-controller it is the only record.
pub(super) fn trouble_of(message: &str) -> Option<&str> {
    message.split_once(FAILED).map(|(_, trouble)| trouble)
}

/// The message of a DataVolume that could not be made.
pub(super) fn not_made(name: &str, failed: &Failure) -> String {
    format!("DataVolume {name} cannot be created: {}", failed.message)
}
