//! Histories of clones: sources that go, that a VMI takes meanwhile, targets that are deleted in the middle, pods that die,
//! certificates that end, plans that break off. Whatever is made beside the source is taken away.

use super::{cases, nothing_is_left};
use crate::sim::event::{clone_event, faults};
use cluster_model::clones::{CLIENT, SOURCE};
use cluster_model::objects::{Key, Kind};
use proptest::prelude::*;

/// An object of a clone.
fn is_ours(key: &Key) -> bool {
    key.kind == Kind::DataVolume || key.name.starts_with(SOURCE) || key.name.starts_with(CLIENT)
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn however_quick_it_goes_it_ends_and_leaves_nothing(
        history in prop::collection::vec((clone_event(), faults(), 0..8_usize), 1..14)
    ) {
        nothing_is_left(&history, is_ours)?;
    }
}
