//! Histories of clones: sources that go, that a VMI takes meanwhile, targets that are deleted in the middle, pods that die,
//! certificates that end, plans that break off. Whatever is made beside the source is taken away.

use super::{cases, comes_to_an_end};
use crate::sim::event::{clone_event, faults};
use crate::sim::history::Run;
use kubernetes::clones::{CLIENT, SOURCE};
use kubernetes::objects::{Key, Kind};
use proptest::prelude::*;

/// Everything of clones that there is.
fn left(run: &Run) -> Vec<&Key> {
    let is_ours = |key: &Key| {
        key.kind == Kind::DataVolume || key.name.starts_with(SOURCE) || key.name.starts_with(CLIENT)
    };
    run.sim.objects.keys().filter(|key| is_ours(key)).collect()
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn however_quick_it_goes_it_ends_and_leaves_nothing(
        history in prop::collection::vec((clone_event(), faults(), 0..8_usize), 1..14)
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
