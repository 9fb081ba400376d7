//! The platform: machine type, features, clock, chassis, and I/O threads.

use super::super::cpu::{Apic, Offset};
use super::super::machine_type_map;
use super::super::{Chassis, Clock, Features, Hyperv, IoThreads, Reboot, Timer};
use super::hyperv::{self, on};
use super::{Check, text};
use crate::vmi::{self, TickPolicy};
use crate::wire::Path;

/// libvirt's name of Hyper-V's reference time counter.
const HYPERV: &str = "hypervclock";
/// Most threads of a pool.
const MOST_THREADS: u32 = 4096;

/// `is_known_arch`: false if the architecture is a fault, whose machine types are then no other one.
pub(super) fn machine_type(
    machine: Option<&vmi::MachineType>,
    is_known_arch: bool,
    at: &Path,
    check: &mut Check<'_>,
) -> String {
    let at = at.child("machine").child("type");
    let name = match machine {
        Some(vmi::MachineType { r#type, other: _ }) if !r#type.is_empty() => r#type.as_str(),
        _ => "q35",
    };
    let is_permitted = !is_known_arch || check.settings.permits_type(name);
    if !is_permitted || text::not_plain(name).is_some() {
        let allowed = check.settings.machine_types.join(" ");
        check.invalid(&at, format!("{at} is not supported: {name} (allowed values: [{allowed}])"));
    }
    machine_type_map::of_distribution(name).unwrap_or_else(|| name.to_owned())
}

pub(super) fn features(
    features: Option<&vmi::Features>,
    cpu: Option<&vmi::Cpu>,
    domain: &Path,
    check: &mut Check<'_>,
) -> Features {
    let empty = vmi::Features::default();
    let vmi::Features { acpi, apic, hyperv_passthrough, hyperv, smm, kvm, pvspinlock, other: _ } =
        features.unwrap_or(&empty);
    let apic = apic.as_ref().and_then(|vmi::Apic { enabled, end_of_interrupt, other: _ }| {
        enabled.unwrap_or(true).then_some(Apic { eoi: *end_of_interrupt })
    });
    let kvm_hidden = kvm.as_ref().and_then(|vmi::KvmFeatures { hidden, other: _ }| *hidden);
    Features {
        acpi: on(acpi.as_ref()).unwrap_or(true),
        apic,
        smm: on(smm.as_ref()),
        kvm_hidden,
        pvspinlock: on(pvspinlock.as_ref()),
        hyperv: hyperv::hyperv(hyperv_passthrough.as_ref(), hyperv.as_ref(), cpu, domain, check),
    }
}

/// Checks the clock. Synthetic timers of Hyper-V need the reference time counter, so a guest with them gets
/// it too.
pub(super) fn clock(
    clock: Option<&vmi::Clock>,
    hyperv: &Hyperv,
    at: &Path,
    check: &mut Check<'_>,
) -> Option<Clock> {
    let at = at.child("clock");
    let mut made = clock.map(|clock| clock_of(clock, &at, check));
    if hyperv.has_timers() {
        let timers = &mut made.get_or_insert(Clock { offset: Offset::Utc(None), timers: Vec::new() }).timers;
        match timers.iter().find(|timer| timer.name == HYPERV) {
            Some(counter) if !counter.present => {
                let at = at.child("timer").child("hyperv").child("present");
                check.invalid(&at, format!("{at} must be true: features.hyperv.synictimer requires it"));
            }
            Some(_) => {}
            None => timers.push(Timer { name: HYPERV, present: true, tick_policy: None, track: None }),
        }
        timers.sort_by_key(|timer| timer.name);
    }
    made
}

fn clock_of(clock: &vmi::Clock, at: &Path, check: &mut Check<'_>) -> Clock {
    let vmi::Clock { utc, timezone, timer, other: _ } = clock;
    let offset = match (utc, text::non_empty(timezone)) {
        (Some(_), Some(_)) => {
            check.invalid(
                at,
                format!("{at} has both utc and timezone configured, but they are mutually exclusive."),
            );
            Offset::Utc(None)
        }
        (None, Some(zone)) => {
            let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '+' | '-');
            if !zone.chars().all(letter) || zone.len() > 64 {
                let at = at.child("timezone");
                check.invalid(
                    &at,
                    format!("{at} {zone:?} is not the name of a time zone, like Europe/Berlin"),
                );
            }
            Offset::Timezone(zone.to_owned())
        }
        (Some(vmi::UtcOffset { offset_seconds, other: _ }), None) => Offset::Utc(*offset_seconds),
        (None, None) => Offset::Utc(None),
    };
    let timers = timer.as_ref().map(|timer| timers(timer, &at.child("timer"), check)).unwrap_or_default();
    Clock { offset, timers }
}

/// Timers in the order of their names.
fn timers(timers: &vmi::Timers, at: &Path, check: &mut Check<'_>) -> Vec<Timer> {
    let vmi::Timers { hpet, kvm, pit, rtc, hyperv, other: _ } = timers;
    let bare = |name, present: Option<bool>| Timer {
        name,
        present: present.unwrap_or(true),
        tick_policy: None,
        track: None,
    };
    let mut result = Vec::new();
    if let Some(vmi::HpetTimer { tick_policy, present, other: _ }) = hpet {
        let allowed = ["delay", "catchup", "merge", "discard"];
        let tick_policy = ticks(tick_policy, &allowed, &at.child("hpet"), check);
        result.push(Timer { tick_policy, ..bare("hpet", *present) });
    }
    if let Some(vmi::HypervTimer { present, other: _ }) = hyperv {
        result.push(bare(HYPERV, *present));
    }
    if let Some(vmi::KvmTimer { present, other: _ }) = kvm {
        result.push(bare("kvmclock", *present));
    }
    if let Some(vmi::PitTimer { tick_policy, present, other: _ }) = pit {
        let tick_policy = ticks(tick_policy, &["delay", "catchup", "discard"], &at.child("pit"), check);
        result.push(Timer { tick_policy, ..bare("pit", *present) });
    }
    if let Some(vmi::RtcTimer { tick_policy, present, track, other: _ }) = rtc {
        let at = at.child("rtc");
        let tick_policy = ticks(tick_policy, &["delay", "catchup"], &at, check);
        let track = track.as_ref().map(vmi::RtcTrack::as_str).filter(|word| !word.is_empty());
        one_of(track, &["guest", "wall"], &at.child("track"), check);
        result.push(Timer { tick_policy, track: track.map(str::to_owned), ..bare("rtc", *present) });
    }
    result
}

fn ticks(policy: &Option<TickPolicy>, allowed: &[&str], at: &Path, check: &mut Check<'_>) -> Option<String> {
    let policy = policy.as_ref().map(TickPolicy::as_str).filter(|word| !word.is_empty());
    one_of(policy, allowed, &at.child("tickPolicy"), check);
    policy.map(str::to_owned)
}

fn one_of(word: Option<&str>, allowed: &[&str], at: &Path, check: &mut Check<'_>) {
    if let Some(word) = word.filter(|word| !allowed.contains(word)) {
        let allowed = allowed.join(" ");
        check.invalid(
            at,
            format!("{at} is set with an unrecognized option: {word}, must be one of: [{allowed}]"),
        );
    }
}

pub(super) fn chassis(chassis: Option<&vmi::Chassis>, at: &Path, check: &mut Check<'_>) -> Chassis {
    let Some(vmi::Chassis { manufacturer, version, serial, asset, sku, other: _ }) = chassis else {
        return Chassis::default();
    };
    let at = at.child("chassis");
    let mut plain = |name: &str, value: &Option<String>| {
        let value = text::non_empty(value)?;
        if let Some(why) = text::not_plain(value) {
            check.invalid(at.child(name), format!("{at}.{name} {why}"));
        }
        Some(value.to_owned())
    };
    Chassis {
        manufacturer: plain("manufacturer", manufacturer),
        version: plain("version", version),
        serial: plain("serial", serial),
        asset: plain("asset", asset),
        sku: plain("sku", sku),
    }
}

pub(super) fn io_threads(
    policy: Option<&vmi::IoThreadsPolicy>,
    threads: Option<&vmi::IoThreads>,
    at: &Path,
    check: &mut Check<'_>,
) -> IoThreads {
    let count = threads.and_then(|vmi::IoThreads { supplemental_pool_thread_count, other: _ }| {
        *supplemental_pool_thread_count
    });
    let count_at = at.child("ioThreads").child("supplementalPoolThreadCount");
    let result = match policy {
        None => IoThreads::Default,
        Some(vmi::IoThreadsPolicy::Shared) => IoThreads::Shared,
        Some(vmi::IoThreadsPolicy::Auto) => IoThreads::Auto,
        Some(vmi::IoThreadsPolicy::SupplementalPool) => match count {
            Some(count) if (1..=MOST_THREADS).contains(&count) => return IoThreads::Pool(count),
            None | Some(0) => {
                let message = "the number of iothreads needs to be set and positive for the dedicated policy";
                check.invalid(count_at, message);
                return IoThreads::Default;
            }
            Some(_) => {
                let message = format!("{count_at} must be no more than {MOST_THREADS}");
                check.invalid(&count_at, message);
                return IoThreads::Default;
            }
        },
        Some(vmi::IoThreadsPolicy::Other(other)) => {
            check.invalid(at.child("ioThreadsPolicy"), format!("Invalid IOThreadsPolicy ({other})"));
            IoThreads::Default
        }
    };
    if count.is_some() {
        check.invalid(&count_at, format!("{count_at} is only used with the policy supplementalPool"));
    }
    result
}

pub(super) fn reboot(policy: Option<&vmi::RebootPolicy>, at: &Path, check: &mut Check<'_>) -> Reboot {
    let at = at.child("rebootPolicy");
    if policy.is_some() && !check.settings.gate("RebootPolicy") {
        check.invalid(&at, "RebootPolicy is specified but the RebootPolicy feature gate is not enabled");
    }
    match policy {
        None | Some(vmi::RebootPolicy::Reboot) => Reboot::Reboot,
        Some(vmi::RebootPolicy::Terminate) => Reboot::Terminate,
        Some(vmi::RebootPolicy::Other(word)) => {
            check.invalid(&at, format!("{at} is set with an unrecognized option: {word}"));
            Reboot::Reboot
        }
    }
}
