//! Histories of uploads, and of exports of what was uploaded: pods that die, certificates that end, disks that are deleted in the middle, plans that break off.

use super::{cases, nothing_changes_the_end, nothing_is_left};
use crate::sim::event::{faults, upload_event};
use cluster_model::objects::{Key, Kind};
use cluster_model::uploads::UPLOADER;
use cluster_model::worker::EXPORTER;
use proptest::prelude::*;

/// What a controller may write for each thing that happens, and for the installation at first; it follows a pod from its
/// certificate to its end. What goes wrong costs no more than a pod does.
const AN_EVENT: usize = 50;

/// An object of an upload or of an export.
fn is_ours(key: &Key) -> bool {
    key.kind == Kind::DataVolume
        || [Kind::Pod, Kind::Service, Kind::Secret].contains(&key.kind)
            && [UPLOADER, EXPORTER].iter().any(|prefix| key.name.starts_with(prefix))
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn what_goes_wrong_meanwhile_changes_no_end(
        history in prop::collection::vec((upload_event(), faults()), 1..8)
    ) {
        nothing_changes_the_end(&history, AN_EVENT)?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn however_quick_it_goes_it_ends_and_leaves_nothing(
        history in prop::collection::vec((upload_event(), faults(), 0..6_usize), 1..14)
    ) {
        nothing_is_left(&history, is_ours)?;
    }
}
