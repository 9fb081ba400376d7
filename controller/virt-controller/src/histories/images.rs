//! Histories of DataImportCrons: tags that move, registries that are away, imports that fail, plans that break off.

use super::{cases, nothing_changes_the_end, nothing_is_left};
use crate::sim::event::{Event, faults, image_event};
use crate::sim::history::Run;
use api::job::Stage;
use cluster_model::objects::{Key, Kind};
use proptest::prelude::*;

/// What a controller may write for each thing that happens, and for the installation at first: polls and an import with its pods.
const AN_EVENT: usize = 50;

/// An object of an image.
fn is_ours(key: &Key) -> bool {
    [Kind::DataImportCron, Kind::DataVolume, Kind::DataSource, Kind::Pod].contains(&key.kind)
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn what_goes_wrong_meanwhile_changes_no_end(
        history in prop::collection::vec((image_event(), faults()), 1..8)
    ) {
        nothing_changes_the_end(&history, AN_EVENT)?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn however_quick_it_goes_it_ends_and_leaves_nothing(
        history in prop::collection::vec((image_event(), faults(), 0..6_usize), 1..14)
    ) {
        nothing_is_left(&history, is_ours)?;
    }
}

/// Whatever happened before: the tag leads somewhere, imports end well, and the DataSource leads there in the end.
#[test]
fn the_datasource_leads_to_the_newest_image_in_the_end() {
    let mut run = Run::new();
    for event in [
        Event::Cron(true),
        Event::Work(Some(Stage::Done)),
        Event::Tag(1),
        Event::Work(Some(Stage::Failed)),
        Event::Tag(2),
        Event::Tag(0),
        Event::Work(Some(Stage::Done)),
        Event::Tag(3),
    ] {
        run.happen(&event);
        run.settle();
        assert_eq!(run.failure(), None);
    }
    let source = run.sim.get(&Key::new(Kind::DataSource, "n", "os"));
    assert_eq!(source["spec"]["source"]["pvc"]["name"], "os-030303030303");
}
