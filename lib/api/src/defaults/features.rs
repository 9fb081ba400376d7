//! Defaults of features and timers, and features that others require.

use crate::machine::hyperv::{SPINLOCKS, VMX};
use crate::vmi::{CpuFeature, Domain, FeatureState, Hyperv};

pub(super) fn features(domain: &mut Domain, architecture: &str) {
    if architecture == "s390x" {
        let acpi = &mut domain.features.get_or_insert_default().acpi;
        acpi.get_or_insert_with(|| FeatureState { enabled: Some(false), ..FeatureState::default() });
    }
    if let Some(features) = &mut domain.features {
        enable(&mut features.acpi);
        enable(&mut features.smm);
        enable(&mut features.pvspinlock);
        if let Some(apic) = &mut features.apic {
            apic.enabled.get_or_insert(true);
        }
        if let Some(passthrough) = &mut features.hyperv_passthrough {
            passthrough.enabled.get_or_insert(true);
        }
        if let Some(hyperv) = &mut features.hyperv {
            enlightenments(hyperv);
        }
    }
    vmx(domain);
    if let Some(timers) = domain.clock.as_mut().and_then(|clock| clock.timer.as_mut()) {
        let present = [
            timers.hpet.as_mut().map(|timer| &mut timer.present),
            timers.kvm.as_mut().map(|timer| &mut timer.present),
            timers.pit.as_mut().map(|timer| &mut timer.present),
            timers.rtc.as_mut().map(|timer| &mut timer.present),
            timers.hyperv.as_mut().map(|timer| &mut timer.present),
        ];
        for present in present.into_iter().flatten() {
            present.get_or_insert(true);
        }
    }
}

/// An empty feature is enabled.
fn enable(state: &mut Option<FeatureState>) {
    if let Some(state) = state {
        state.enabled.get_or_insert(true);
    }
}

/// Enables a feature, unless the spec disables it.
fn require(state: &mut Option<FeatureState>) {
    state.get_or_insert_default().enabled.get_or_insert(true);
}

fn is_on(state: &Option<FeatureState>) -> bool {
    state.as_ref().is_some_and(|state| state.enabled != Some(false))
}

/// Requires the CPU feature `vmx`: an enlightened VMCS needs nested virtualization.
fn vmx(domain: &mut Domain) {
    let hyperv = domain.features.as_ref().and_then(|features| features.hyperv.as_ref());
    if !hyperv.is_some_and(|hyperv| is_on(&hyperv.evmcs)) {
        return;
    }
    let features = &mut domain.cpu.get_or_insert_default().features;
    let policy = Some("require".to_owned());
    match features.iter_mut().find(|feature| feature.name == VMX) {
        Some(feature) => feature.policy = policy,
        None => features.push(CpuFeature { name: VMX.to_owned(), policy, ..CpuFeature::default() }),
    }
}

fn enlightenments(hyperv: &mut Hyperv) {
    if hyperv.synictimer.as_ref().is_some_and(|timer| timer.enabled != Some(false)) {
        require(&mut hyperv.synic);
    }
    let flushes = hyperv.tlbflush.as_ref().is_some_and(|flush| flush.enabled != Some(false));
    if is_on(&hyperv.synic) || is_on(&hyperv.ipi) || flushes {
        require(&mut hyperv.vpindex);
    }
    let is_direct = hyperv.tlbflush.as_ref().is_some_and(|flush| flushes && is_on(&flush.direct));
    if is_on(&hyperv.evmcs) || is_direct {
        require(&mut hyperv.vapic);
    }
    for state in [
        &mut hyperv.relaxed,
        &mut hyperv.vapic,
        &mut hyperv.vpindex,
        &mut hyperv.runtime,
        &mut hyperv.synic,
        &mut hyperv.reset,
        &mut hyperv.frequencies,
        &mut hyperv.reenlightenment,
        &mut hyperv.ipi,
        &mut hyperv.evmcs,
    ] {
        enable(state);
    }
    if let Some(spinlocks) = &mut hyperv.spinlocks {
        spinlocks.enabled.get_or_insert(true);
        spinlocks.spinlocks.get_or_insert(SPINLOCKS);
    }
    if let Some(vendor) = &mut hyperv.vendorid {
        vendor.enabled.get_or_insert(true);
    }
    if let Some(timer) = &mut hyperv.synictimer {
        timer.enabled.get_or_insert(true);
        enable(&mut timer.direct);
    }
    if let Some(flush) = &mut hyperv.tlbflush {
        flush.enabled.get_or_insert(true);
        enable(&mut flush.direct);
        enable(&mut flush.extended);
    }
}
