//! Histories: whatever happens and whatever goes wrong meanwhile, all comes to the same end, and then there is silence.
//!
//! What each write is judged by stands in `sim`: a VMI never has two pods that live, and phases go only where they
//! may. Histories that failed once are kept in `proptest-regressions/`.

mod clones;
mod images;
mod migrations;
mod uploads;

use super::sim::event::{Event, Fault, event, faults};
use super::sim::history::Run;
use super::sim::shape::{difference, shape};
use api::job::Stage;
use cluster_model::objects::{Key, Kind};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Bound of a controller's writes for each VMI that ever existed, …
const A_LIFE: usize = 20;
/// … for each thing that happens beside, …
const AN_EVENT: usize = 20;
/// … and more for each that goes wrong.
const A_FAULT: usize = 20;

/// Faults to inject, each after this many ticks.
type Faults = Vec<(usize, Fault)>;

/// Passes without a failure message.
fn none(said: Option<String>) -> Result<(), TestCaseError> {
    said.map_or(Ok(()), |said| Err(TestCaseError::fail(said)))
}

/// The same history twice: without faults, and with them.
struct Both {
    calm: Run,
    rough: Run,
    /// Number of faults that occurred.
    wrong: usize,
}

/// After each event both are the same.
fn come_to_the_same(history: &[(Event, Faults)]) -> Result<Both, TestCaseError> {
    let (mut calm, mut rough) = (Run::new(), Run::new());
    let mut wrong = 0;
    for (event, faults) in history {
        calm.happen(event);
        calm.settle();
        none(calm.failure())?;
        rough.expect(faults);
        rough.happen(event);
        rough.settle();
        none(rough.failure())?;
        none(difference(&shape(&calm.sim), &shape(&rough.sim)))?;
        wrong += faults.len();
    }
    Ok(Both { calm, rough, wrong })
}

/// The end is the same whatever goes wrong, and no end takes more writes than so many for each thing that happens.
fn nothing_changes_the_end(history: &[(Event, Faults)], an_event: usize) -> Result<(), TestCaseError> {
    let Both { calm, rough, wrong } = come_to_the_same(history)?;
    let most = |more: usize| (history.len() + 1 + more) * an_event;
    prop_assert!(calm.sim.writes <= most(0), "{} writes", calm.sim.writes);
    prop_assert!(rough.sim.writes <= most(wrong), "{} writes", rough.sim.writes);
    Ok(())
}

/// Runs a history without settling between its events. The cluster still comes to rest, and none of these
/// objects is left.
fn nothing_is_left(
    history: &[(Event, Faults, usize)],
    is_ours: impl Fn(&Key) -> bool,
) -> Result<(), TestCaseError> {
    let mut run = Run::new();
    for (event, faults, ticks) in history {
        run.expect(faults);
        run.happen(event);
        run.hurry(*ticks);
    }
    comes_to_an_end(&mut run)?;
    let left: Vec<&Key> = run.sim.objects.keys().filter(|key| is_ours(key)).collect();
    prop_assert!(left.is_empty(), "left: {left:#?}");
    Ok(())
}

/// Stops all faults, lets the cluster come to rest, and deletes everything.
fn comes_to_an_end(run: &mut Run) -> Result<(), TestCaseError> {
    run.heal();
    run.settle();
    none(run.failure())?;
    run.clear();
    run.settle();
    none(run.failure())
}

/// The number of histories in the long tier (CORACLE_TEST_TIER=all, which `make test-all` sets), always the same ones; a
/// quarter of them otherwise. PROPTEST_CASES gives another number of new ones.
fn cases(count: u32) -> ProptestConfig {
    let config = ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return config;
    }
    let is_long = std::env::var_os("CORACLE_TEST_TIER").is_some_and(|tier| tier == "all");
    let cases = if is_long { count } else { count / 4 };
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), ..config }
}

proptest! {
    #![proptest_config(cases(120))]

    /// The controller is restarted, hears nothing, is told of nothing for a while, is not answered, comes too late, is
    /// two: after each event the end is the one that there is without all that.
    #[test]
    fn what_goes_wrong_meanwhile_changes_no_end(
        history in prop::collection::vec((event(), faults()), 1..8)
    ) {
        let Both { calm, rough, wrong } = come_to_the_same(&history)?;
        let most = |run: &Run| run.sim.lives * A_LIFE + (history.len() + 1) * AN_EVENT;
        prop_assert!(calm.sim.writes <= most(&calm), "{} writes", calm.sim.writes);
        prop_assert!(rough.sim.writes <= most(&rough) + wrong * A_FAULT, "{} writes", rough.sim.writes);
    }
}

proptest! {
    #![proptest_config(cases(160))]

    /// Histories without settling between events: users are quicker than the controller, and faults overlap.
    /// The cluster still comes to rest, and deleted objects disappear.
    #[test]
    fn however_quick_it_goes_it_ends_and_leaves_nothing(
        history in prop::collection::vec((event(), faults(), 0..6_usize, prop::option::of(1..4_usize)), 1..14)
    ) {
        let mut run = Run::new();
        for (event, faults, ticks, late) in &history {
            run.expect(faults);
            run.expect(&late.map(|late| (0, Fault::Late(late))).into_iter().collect::<Vec<_>>());
            run.happen(event);
            run.hurry(*ticks);
        }
        comes_to_an_end(&mut run)?;
        let ours = [Kind::VirtualMachine, Kind::VirtualMachineInstance, Kind::VirtualMachineInstanceReplicaSet, Kind::Pod, Kind::ControllerRevision, Kind::DataVolume];
        // A start that broke off leaves a revision that only its VM knows, and the deletion with orphans
        // leaves it.
        let orphans = history.iter().any(|(event, ..)| matches!(event, Event::Delete(0 | 1, true)));
        let is_left = |key: &Key| ours.contains(&key.kind) && !(orphans && key.kind == Kind::ControllerRevision);
        let left: Vec<_> = run.sim.objects.iter().filter(|(key, _)| is_left(key)).collect();
        prop_assert!(left.is_empty(), "left: {left:#?}");
    }
}

// ── Histories that once failed, by what was wrong ───────────────────────────────────────────────────────────────────

fn vm(strategy: &'static str) -> Event {
    Event::Vm(0, strategy)
}

const VM: &str = "first";

#[test]
fn a_start_whose_answer_was_lost_is_no_failure() {
    let mut run = Run::new();
    // The revision and the VMI are created, but the answers are lost.
    run.expect(&[(0, Fault::Break(1, true))]);
    run.happen(&vm("Always"));
    run.settle();
    assert_eq!(run.failure(), None);
    assert_eq!(run.sim.condition(&Key::new(Kind::VirtualMachine, "n", VM), "Failure"), None);
}

#[test]
fn an_installation_that_was_taken_away_stays_away_for_a_leader_that_hears_of_it_late() {
    for after in 0..10 {
        let mut run = Run::new();
        let deaf = Fault::Deaf(Kind::ConfigMap, 6, false);
        run.expect(&[(after, Fault::Twin(8)), (after + 1, deaf)]);
        run.happen(&Event::Removal);
        run.settle();
        assert_eq!(run.failure(), None);
        assert!(run.sim.keys(Kind::KubeVirt).is_empty(), "{after}");
    }
}

#[test]
fn what_a_vm_leaves_behind_takes_its_revision_along() {
    let mut run = Run::new();
    for event in [vm("Always"), Event::Delete(0, true)] {
        run.happen(&event);
        run.settle();
    }
    assert_eq!(
        (run.sim.keys(Kind::VirtualMachine).len(), run.sim.keys(Kind::VirtualMachineInstance).len()),
        (0, 1)
    );
    run.clear();
    run.settle();
    assert!(run.sim.keys(Kind::ControllerRevision).is_empty());
}

#[test]
fn a_vmi_that_is_to_leave_its_pod_takes_it_along() {
    for ticks in 0..8 {
        let mut run = Run::new();
        for event in [Event::Claim(true), Event::Alone] {
            run.happen(&event);
        }
        run.hurry(ticks);
        run.happen(&Event::Delete(2, true));
        run.settle();
        assert_eq!(run.failure(), None);
        let left = [Kind::VirtualMachineInstance, Kind::Pod].map(|kind| run.sim.keys(kind).len());
        assert_eq!(left, [0, 0], "after {ticks} ticks");
    }
}

#[test]
fn what_is_said_of_data_is_said_though_somebody_was_quicker() {
    for tick in 0..8 {
        let mut run = Run::new();
        run.happen(&Event::Vm(1, "Always"));
        run.settle();
        run.expect(&[(tick, Fault::Meddle)]);
        run.happen(&Event::Work(Some(Stage::Done)));
        run.settle();
        let said =
            run.sim.condition(&Key::new(Kind::VirtualMachineInstance, "n", "second"), "DataVolumesReady");
        assert_eq!(said.map(|said| said.0).as_deref(), Some("True"), "{tick}");
    }
}

#[test]
fn a_node_that_is_back_before_its_heartbeat_is_seen_does_not_write_in_turn_with_the_controller() {
    let mut run = Run::new();
    for event in [vm("Always"), Event::Silence(true), Event::Silence(false)] {
        run.happen(&event);
        run.settle();
    }
    assert_eq!(run.failure(), None);
    assert_eq!(run.sim.condition(&Key::new(Kind::VirtualMachineInstance, "n", VM), "Synchronized"), None);
}
