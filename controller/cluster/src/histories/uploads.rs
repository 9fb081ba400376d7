//! Histories of uploads, and of exports of what was uploaded: pods that die, certificates that end, disks that are deleted in the middle, plans that break off.

use super::{Both, cases, come_to_the_same, comes_to_an_end};
use crate::sim::event::{faults, upload_event};
use crate::sim::history::Run;
use kubernetes::objects::{Key, Kind};
use kubernetes::uploads::UPLOADER;
use kubernetes::worker::EXPORTER;
use proptest::prelude::*;

/// What a controller may write for each thing that happens, and for the installation at first; it follows a pod from its
/// certificate to its end. What goes wrong costs no more than a pod does.
const AN_EVENT: usize = 50;

/// Everything of uploads that there is.
fn left(run: &Run) -> Vec<&Key> {
    let is_ours = |key: &Key| {
        key.kind == Kind::DataVolume
            || [Kind::Pod, Kind::Service, Kind::Secret].contains(&key.kind)
                && [UPLOADER, EXPORTER].iter().any(|prefix| key.name.starts_with(prefix))
    };
    run.sim.objects.keys().filter(|key| is_ours(key)).collect()
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn what_goes_wrong_meanwhile_changes_no_end(
        history in prop::collection::vec((upload_event(), faults()), 1..8)
    ) {
        let Both { calm, rough, wrong } = come_to_the_same(&history)?;
        let most = |more: usize| (history.len() + 1 + more) * AN_EVENT;
        prop_assert!(calm.sim.writes <= most(0), "{} writes", calm.sim.writes);
        prop_assert!(rough.sim.writes <= most(wrong), "{} writes", rough.sim.writes);
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn however_quick_it_goes_it_ends_and_leaves_nothing(
        history in prop::collection::vec((upload_event(), faults(), 0..6_usize), 1..14)
    ) {
        let mut run = Run::new();
        for (event, faults, ticks) in &history {
            run.expect(faults);
            run.happen(event);
            run.hurry(*ticks);
        }
        comes_to_an_end(&mut run)?;
        prop_assert!(left(&run).is_empty(), "left: {:#?}", left(&run));
    }
}
