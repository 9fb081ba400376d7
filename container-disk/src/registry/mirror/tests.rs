//! Tables of events and the resulting decisions.

use super::*;

const ZERO: Duration = Duration::ZERO;

fn fault(why: FaultKind) -> Fault {
    Fault::from_kind(why, format!("m: {why:?}"))
}

fn busy(seconds: u64) -> Fault {
    Fault { retry_after: Some(Duration::from_secs(seconds)), ..fault(FaultKind::Busy) }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A walk with its first mirror chosen.
fn begun(well: &[bool]) -> Walk {
    let mut walk = Walk::new(well.len());
    walk.start(well);
    walk
}

#[test]
fn the_first_that_is_well_is_asked_and_those_that_are_down_after_them() {
    for (well, first) in
        [(&[true, true][..], 0), (&[false, true], 1), (&[false, false], 0), (&[false, true, true], 1)]
    {
        assert_eq!(Walk::new(well.len()).start(well), Step::Ask(first, ZERO), "{well:?}");
    }
    assert_eq!(Walk::new(0).start(&[]), Step::GiveUp);
    let mut walk = Walk::new(2);
    walk.last(0);
    assert_eq!(
        walk.start(&[true, false]),
        Step::Ask(1, ZERO),
        "one that gave bad bytes comes after one that is down"
    );
}

#[test]
fn each_fault_of_the_first_leads_to_the_second_at_once() {
    for why in [
        FaultKind::Unreachable,
        FaultKind::Silent,
        FaultKind::Tls,
        FaultKind::Broken,
        FaultKind::Cut,
        FaultKind::Missing,
        FaultKind::Denied,
        FaultKind::Wrong,
        FaultKind::Slow,
        FaultKind::NoRanges,
        FaultKind::Odd,
    ] {
        let mut walk = begun(&[true, true]);
        assert_eq!(walk.failed(fault(why), false, &[true, true]), Step::Ask(1, ZERO), "{why:?}");
        assert_eq!(walk.at(), Some(1));
    }
}

#[test]
fn what_may_pass_is_tried_again_in_rounds_with_longer_pauses_and_what_may_not_is_over() {
    let mut walk = begun(&[true]);
    for pause in [500, 1000, 2000, 4000] {
        assert_eq!(walk.failed(fault(FaultKind::Broken), false, &[true]), Step::Ask(0, ms(pause)));
    }
    assert_eq!(walk.failed(fault(FaultKind::Broken), false, &[true]), Step::GiveUp);
    for why in [
        FaultKind::Tls,
        FaultKind::Missing,
        FaultKind::Denied,
        FaultKind::Wrong,
        FaultKind::Odd,
        FaultKind::NoRanges,
    ] {
        assert_eq!(begun(&[true]).failed(fault(why), false, &[true]), Step::GiveUp, "{why:?}");
    }
    // Of two mirrors, only the recoverable one is in the second round.
    let well = [true, true];
    let mut walk = begun(&well);
    assert_eq!(walk.failed(fault(FaultKind::Missing), false, &well), Step::Ask(1, ZERO));
    assert_eq!(walk.failed(fault(FaultKind::Unreachable), false, &well), Step::Ask(1, ms(500)));
}

#[test]
fn a_connection_that_breaks_after_good_progress_is_opened_again_once() {
    let well = [true, true];
    let mut walk = begun(&well);
    assert_eq!(walk.failed(fault(FaultKind::Cut), true, &well), Step::Ask(0, ZERO));
    assert_eq!(walk.failed(fault(FaultKind::Cut), true, &well), Step::Ask(1, ZERO));
    assert_eq!(walk.failed(fault(FaultKind::Cut), true, &well), Step::Ask(1, ZERO));
    assert_eq!(walk.failed(fault(FaultKind::Cut), true, &well), Step::Ask(0, ZERO), "and back");
    let mut alone = begun(&[true]);
    for _ in 0..100 {
        assert_eq!(
            alone.failed(fault(FaultKind::Cut), true, &[true]),
            Step::Ask(0, ZERO),
            "progress is no failure"
        );
    }
}

#[test]
fn retry_after_is_obeyed() {
    let well = [true, true];
    // A short pause is waited for, then the next mirror is asked. A long one is not waited for if another
    // mirror is well.
    let mut walk = begun(&well);
    assert_eq!(walk.failed(busy(3), false, &well), Step::Ask(0, ms(3000)));
    assert_eq!(walk.failed(busy(3), false, &well), Step::Ask(1, ZERO));
    assert_eq!(begun(&well).failed(busy(30), false, &well), Step::Ask(1, ZERO));
    // A single mirror is waited for up to a minute, in every round.
    let mut alone = begun(&[true]);
    assert_eq!(alone.failed(busy(30), false, &[true]), Step::Ask(0, ms(30_000)));
    assert_eq!(alone.failed(busy(30), false, &[true]), Step::Ask(0, ms(30_000)), "not after half a second");
    assert_eq!(begun(&[true]).failed(busy(61), false, &[true]), Step::GiveUp);
    assert_eq!(begun(&[true]).failed(fault(FaultKind::Busy), false, &[true]), Step::Ask(0, ms(1000)));
}

#[test]
fn a_slow_one_is_left_only_for_somebody_else() {
    let well = [true, true];
    let mut walk = begun(&well);
    assert!(walk.has_others(&well));
    assert!(!walk.has_others(&[true, false]), "not for one that is down");
    assert_eq!(walk.failed(fault(FaultKind::Slow), true, &well), Step::Ask(1, ZERO));
    assert!(!walk.has_others(&well), "not back to the first");
    assert!(!begun(&[true]).has_others(&[true]));
}

#[test]
fn one_that_failed_rests_longer_each_time_and_then_one_may_try_it() {
    let now = Instant::now();
    let mut state = State::default();
    assert!(state.is_well(now));
    for rest in [10, 20, 40, 80, 160, 300, 300] {
        state.failed(&fault(FaultKind::Broken), now);
        assert!(!state.is_well(now + Duration::from_secs(rest) - ms(1)), "{rest}");
        assert!(state.is_well(now + Duration::from_secs(rest)), "{rest}");
    }
    let later = now + Duration::from_secs(300);
    state.chosen(later);
    assert!(!state.is_well(later), "half open: one tries, the others do not");
    assert!(state.is_well(later + FIRST_REST), "whoever tried has never come back");
    state.well(now - ms(1));
    assert!(!state.is_well(later), "what was on its way when it went down proves nothing");
    state.well(later);
    assert!(state.is_well(later));
    state.failed(&busy(100), now);
    assert!(!state.is_well(now + Duration::from_secs(99)), "its own word");
    let mut other = State::default();
    for why in [FaultKind::Missing, FaultKind::Denied, FaultKind::Odd, FaultKind::Cut, FaultKind::NoRanges] {
        other.failed(&fault(why), now);
        assert!(other.is_well(now), "{why:?} says nothing of other blobs");
    }
}

#[test]
fn if_all_fail_each_is_listed_and_the_strongest_kind_wins() {
    for (whys, origin, kind) in [
        (&[FaultKind::Unreachable, FaultKind::Broken][..], None, ErrorKind::Failed),
        (&[FaultKind::Wrong, FaultKind::Broken], None, ErrorKind::Refused),
        (&[FaultKind::Missing, FaultKind::Wrong], Some(0), ErrorKind::NotFound),
        (&[FaultKind::Missing, FaultKind::Denied, FaultKind::Tls], None, ErrorKind::Auth),
        // A name is missing if the origin says so, or everybody.
        (&[FaultKind::Broken, FaultKind::Missing], Some(1), ErrorKind::NotFound),
        (&[FaultKind::Missing, FaultKind::Missing], None, ErrorKind::NotFound),
        (&[FaultKind::Missing, FaultKind::Missing], Some(1), ErrorKind::NotFound),
        (&[FaultKind::Missing, FaultKind::Broken], Some(1), ErrorKind::Failed),
        (&[FaultKind::Missing, FaultKind::Unreachable], None, ErrorKind::Failed),
        (&[FaultKind::Missing, FaultKind::Missing, FaultKind::Tls], Some(2), ErrorKind::Failed),
        (&[FaultKind::Missing, FaultKind::Wrong], Some(1), ErrorKind::Refused),
        (&[FaultKind::Missing, FaultKind::Denied], Some(1), ErrorKind::Auth),
    ] {
        let well = vec![true; whys.len()];
        let mut walk = begun(&well);
        for why in whys {
            walk.failed(fault(*why), false, &well);
        }
        let e = walk.verdict("docker://h/r:t", None, origin);
        assert_eq!(e.kind(), kind, "{whys:?} {origin:?}");
        for why in whys {
            assert!(e.to_string().contains(&format!("m: {why:?}")), "{e}");
        }
    }
    let mut alone = begun(&[true]);
    alone.failed(fault(FaultKind::Missing), false, &[true]);
    assert_eq!(alone.verdict("x", None, None).to_string(), "m: Missing", "one reason is the error itself");
    // A mirror that denies access does not end the walk while the registry itself is only down.
    for (decides, kind) in [(None, ErrorKind::Auth), (Some(1), ErrorKind::Failed), (Some(9), ErrorKind::Auth)]
    {
        let well = [true, true];
        let mut walk = begun(&well);
        walk.failed(fault(FaultKind::Denied), false, &well);
        walk.failed(fault(FaultKind::Unreachable), false, &well);
        assert_eq!(walk.verdict("x", decides, None).kind(), kind, "{decides:?}");
    }
}
