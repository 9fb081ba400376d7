//! Histories of DataImportCrons: tags that move, registries that are away, imports that fail, plans that break off.

use super::{Both, cases, come_to_the_same, comes_to_an_end};
use crate::sim::event::{Event, faults, image_event};
use crate::sim::history::Run;
use api::job::Stage;
use kubernetes::objects::{Key, Kind};
use proptest::prelude::*;

/// What a controller may write for each thing that happens, and for the installation at first: polls and an import with its pods.
const AN_EVENT: usize = 50;

/// Everything of images that there is.
fn left(run: &Run) -> Vec<&Key> {
    let ours = [Kind::DataImportCron, Kind::DataVolume, Kind::DataSource, Kind::Pod];
    run.sim.objects.keys().filter(|key| ours.contains(&key.kind)).collect()
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn what_goes_wrong_meanwhile_changes_no_end(
        history in prop::collection::vec((image_event(), faults()), 1..8)
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
        history in prop::collection::vec((image_event(), faults(), 0..6_usize), 1..14)
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
        assert_eq!(run.wrong(), None);
    }
    let source = run.sim.get(&Key::new(Kind::DataSource, "n", "os"));
    assert_eq!(source["spec"]["source"]["pvc"]["name"], "os-030303030303");
}
