use super::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A disk of 100 GiB of which the kubelet keeps 15 free. Guests are paused at 16, and resumed at 17.
fn room(available: u64) -> DiskSpace {
    DiskSpace { available, capacity: 100 * GIB, threshold: 15 * GIB }
}

fn vmi(uid: &str, vcpus: Vcpus, taken: u64) -> Growing {
    Growing { uid: uid.into(), vcpus, taken: Some(taken) }
}

fn running(uid: &str, taken: u64) -> Growing {
    vmi(uid, Vcpus::Running, taken)
}

/// UIDs that are paused and resumed.
fn step(pressure: &mut Pressure, available: u64, vmis: &[Growing]) -> (Vec<String>, Vec<String>) {
    let Decision { pause, resume, .. } = pressure.step(room(available), vmis);
    (pause, resume)
}

fn nothing() -> (Vec<String>, Vec<String>) {
    (Vec::new(), Vec::new())
}

fn pauses(uid: &str) -> (Vec<String>, Vec<String>) {
    (vec![uid.into()], Vec::new())
}

#[test]
fn a_guest_that_fills_the_disk_is_paused_before_the_threshold_and_its_neighbour_is_not() {
    let mut pressure = Pressure::default();
    let both = |hog: u64, log: u64| [running("hog", hog * MIB), running("log", log * MIB)];
    assert_eq!(step(&mut pressure, 40 * GIB, &both(0, 0)), nothing());
    assert_eq!(step(&mut pressure, 17 * GIB, &both(1000, 10)), nothing());
    // The first look at the shortage knows already what has grown since the look before it.
    assert_eq!(step(&mut pressure, 16 * GIB, &both(2000, 20)), pauses("hog"));
    let paused = [vmi("hog", Vcpus::PausedForDisk, 2000 * MIB), running("log", 100 * MIB)];
    assert_eq!(step(&mut pressure, 16 * GIB - 80 * MIB, &paused), nothing());
    // A neighbour that goes on writing may use its allowance, and no more: half of 256 MiB.
    let wrote = |log: u64| [vmi("hog", Vcpus::PausedForDisk, 2000 * MIB), running("log", log * MIB)];
    assert_eq!(step(&mut pressure, 16 * GIB - 118 * MIB, &wrote(138)), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB - 119 * MIB, &wrote(139)), pauses("log"));
}

#[test]
fn guests_that_write_one_after_another_do_not_come_to_the_threshold() {
    let count = 100;
    let (mut pressure, mut available) = (Pressure::default(), 16 * GIB);
    let mut all: Vec<Growing> = (0..count).map(|n| running(&format!("vmi{n}"), 0)).collect();
    assert_eq!(step(&mut pressure, available, &all), nothing());
    for at in 0..count {
        while all[at].vcpus == Vcpus::Running {
            (available, all[at].taken) = (available - MIB, all[at].taken.map(|taken| taken + MIB));
            assert!(available > 15 * GIB, "{at} VMIs are paused, and the kubelet evicts");
            for paused in step(&mut pressure, available, &all).0 {
                let vmi = all.iter_mut().find(|vmi| vmi.uid == paused).unwrap();
                vmi.vcpus = Vcpus::PausedForDisk;
            }
        }
    }
}

/// Each VMI comes after the one before it has used what was its allowance by then.
#[test]
fn guests_that_come_one_after_another_do_not_come_to_the_threshold() {
    let (mut pressure, mut available) = (Pressure::default(), 16 * GIB);
    let mut all: Vec<Growing> = Vec::new();
    for at in 0..200 {
        all.push(running(&format!("vmi{at}"), 0));
        assert_eq!(step(&mut pressure, available, &all), nothing());
        while all[at].vcpus == Vcpus::Running {
            (available, all[at].taken) = (available - MIB, all[at].taken.map(|taken| taken + MIB));
            for paused in step(&mut pressure, available, &all).0 {
                let vmi = all.iter_mut().find(|vmi| vmi.uid == paused).unwrap();
                vmi.vcpus = Vcpus::PausedForDisk;
            }
        }
    }
    let used = (16 * GIB - available) / MIB;
    // A quarter of the slack, and one look of each.
    assert!(used <= 256 + 200, "{used} MiB");
}

#[test]
fn where_all_allowances_are_used_each_guest_that_writes_is_paused_and_no_other() {
    let mut pressure = Pressure::default();
    let hog = |state| vmi("hog", state, 300 * MIB);
    assert_eq!(step(&mut pressure, 16 * GIB, &[running("hog", 0)]), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB - 300 * MIB, &[hog(Vcpus::Running)]), pauses("hog"));
    let come = |log: u64| [hog(Vcpus::PausedForDisk), running("idle", 5), running("log", log)];
    assert_eq!(step(&mut pressure, 16 * GIB - 300 * MIB, &come(0)), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB - 300 * MIB, &come(1)), pauses("log"));
    // What was used stays used while it is not measured, and is free once the VMI is gone with its disks.
    let unknown = [Growing { taken: None, ..hog(Vcpus::PausedForDisk) }, running("log", 1)];
    assert_eq!(step(&mut pressure, 16 * GIB - 300 * MIB, &unknown), pauses("log"));
    assert_eq!(step(&mut pressure, 16 * GIB - MIB, &[running("log", 1)]), nothing());
}

#[test]
fn the_allowances_of_all_are_a_quarter_of_the_slack() {
    for count in [1_u64, 2, 10, 100] {
        let mut pressure = Pressure::default();
        let all =
            |taken: u64| -> Vec<Growing> { (0..count).map(|n| running(&format!("vmi{n}"), taken)).collect() };
        assert_eq!(step(&mut pressure, 16 * GIB, &all(0)), nothing(), "first seen now");
        let allowance = 256 * MIB / count;
        assert_eq!(step(&mut pressure, 15 * GIB + 1, &all(allowance)), nothing());
        let (paused, _) = step(&mut pressure, 15 * GIB + 1, &all(allowance + 1));
        assert_eq!(u64::try_from(paused.len()).unwrap(), count);
    }
}

#[test]
fn a_disk_that_others_have_filled_pauses_no_guest_that_does_not_write() {
    let mut pressure = Pressure::default();
    let idle = [running("a", 5 * GIB), running("b", 0)];
    for available in [20 * GIB, 16 * GIB, 15 * GIB, GIB, 0] {
        assert_eq!(step(&mut pressure, available, &idle), nothing(), "{available}");
    }
}

#[test]
fn paused_vmis_are_resumed_when_there_is_room_and_no_others() {
    let mut pressure = Pressure::default();
    let all = [
        vmi("full", Vcpus::PausedForDisk, GIB),
        vmi("by a user, or starting", Vcpus::Other, GIB),
        running("runs", GIB),
    ];
    assert_eq!(step(&mut pressure, 16 * GIB, &all), nothing());
    assert_eq!(
        step(&mut pressure, 17 * GIB - 1, &all),
        nothing(),
        "more room than for a pause, less than enough"
    );
    assert_eq!(step(&mut pressure, 17 * GIB, &all), (vec![], vec!["full".to_owned()]));
    // A restarted virt-handler resumes VMIs that the earlier one paused.
    assert_eq!(step(&mut Pressure::default(), 30 * GIB, &all), (vec![], vec!["full".to_owned()]));
    assert_eq!(step(&mut Pressure::default(), 16 * GIB, &all), nothing());
}

#[test]
fn between_pause_and_resumption_a_guest_that_runs_may_write() {
    let mut pressure = Pressure::default();
    let wrote = |mib: u64| [running("a", mib * MIB)];
    assert_eq!(step(&mut pressure, 16 * GIB, &wrote(0)), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB + 1, &wrote(1000)), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB, &wrote(1000)), pauses("a"));
}

#[test]
fn a_vmi_that_a_user_resumes_while_the_node_is_short_is_paused_again() {
    let mut pressure = Pressure::default();
    assert_eq!(step(&mut pressure, 17 * GIB, &[running("a", 0)]), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB, &[running("a", GIB)]), pauses("a"));
    assert_eq!(step(&mut pressure, 16 * GIB, &[vmi("a", Vcpus::PausedForDisk, GIB)]), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB, &[running("a", GIB)]), pauses("a"));
}

#[test]
fn a_vmi_that_comes_to_a_node_that_is_short_is_measured_from_then_on() {
    let mut pressure = Pressure::default();
    assert_eq!(step(&mut pressure, 16 * GIB, &[]), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB, &[running("new", 3 * GIB)]), nothing());
    assert_eq!(step(&mut pressure, 15 * GIB, &[running("new", 4 * GIB)]), pauses("new"));
    // Its UID is forgotten with it.
    assert_eq!(step(&mut pressure, 15 * GIB, &[]), nothing());
    assert!(pressure.before.is_empty());
}

#[test]
fn disks_that_are_not_measured_decide_nothing() {
    let mut pressure = Pressure::default();
    let unknown = [Growing { taken: None, ..running("a", 0) }];
    assert_eq!(step(&mut pressure, 17 * GIB, &[running("a", 0)]), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB, &unknown), nothing());
    assert_eq!(step(&mut pressure, 16 * GIB, &[running("a", GIB)]), pauses("a"));
}

#[test]
fn looks_come_soon_enough_for_a_guest_that_writes_at_a_gigabyte_a_second() {
    let (mut pressure, mut available, mut taken, mut looks) = (Pressure::default(), 60 * GIB, 0, 0);
    loop {
        let decision = pressure.step(room(available), &[running("hog", taken)]);
        looks += 1;
        if !decision.pause.is_empty() {
            break;
        }
        let wrote = u64::try_from(decision.after.as_millis()).unwrap() * GIB / 1000;
        (available, taken) = (available - wrote, taken + wrote);
    }
    // More than half a second is left until the threshold, for the launcher and for QEMU.
    assert!(available > 15 * GIB + 640 * MIB, "{} MiB above the threshold", (available - 15 * GIB) / MIB);
    assert!(looks < 100, "{looks} looks");
}

#[test]
fn a_small_disk_has_a_small_slack_and_strange_numbers_pause_nobody() {
    let small = |available: u64| DiskSpace { available, capacity: 2 * GIB, threshold: 204 * MIB };
    let grew = |available: u64| {
        let mut pressure = Pressure::default();
        pressure.step(small(GIB), &[running("a", 0)]);
        pressure.step(small(available), &[running("a", GIB)]).pause.len()
    };
    // 5 % of 2 GiB are 102.4 MiB.
    assert_eq!((grew(307 * MIB), grew(306 * MIB)), (0, 1));
    for strange in [DiskSpace::default(), DiskSpace { available: 0, capacity: u64::MAX, threshold: u64::MAX }]
    {
        assert_eq!(Pressure::default().step(strange, &[running("a", u64::MAX)]).pause, Vec::<String>::new());
    }
}

#[test]
fn looks_are_rare_while_there_is_room() {
    let after = |available: u64, vmis: &[Growing]| Pressure::default().step(room(available), vmis).after;
    let runs = [running("a", 0)];
    assert_eq!(after(80 * GIB, &runs), Duration::from_secs(2));
    assert_eq!(after(17 * GIB, &runs), Duration::from_millis(500));
    assert_eq!(after(16 * GIB + 1, &runs), Duration::from_millis(50));
    assert_eq!(after(16 * GIB, &runs), Duration::from_millis(100));
    assert_eq!(after(16 * GIB, &[vmi("a", Vcpus::PausedForDisk, 0)]), Duration::from_secs(1));
}
