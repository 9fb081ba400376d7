//! Values of a preference for the fields that are still unset.

use super::devices;
use crate::instancetype::{
    ClockPreferences, CpuPreferences, FeaturePreferences, FirmwarePreferences, PreferenceSpec,
};
use crate::vm::Template;
use crate::vmi::{Bios, Bootloader, Clock, CpuFeature, Domain, Efi, Features, Firmware, Hyperv};
use std::collections::BTreeSet;

/// Sets the unset fields of the template.
pub(super) fn apply(preference: &PreferenceSpec, template: &mut Template) {
    let PreferenceSpec {
        clock,
        cpu,
        devices,
        features,
        firmware,
        machine,
        // DataVolumes exist before the VMI: see `at_write`.
        volumes: _,
        preferred_subdomain,
        preferred_termination_grace_period_seconds,
        // Checked by `requirements`.
        requirements: _,
        annotations,
        // Used for the vCPUs of the instance type: see `topology`.
        prefer_spread_socket_to_core_ratio: _,
        preferred_architecture,
        preferred_launch_security,
        other: _,
    } = preference;
    let spec = &mut template.spec;
    let domain = &mut spec.domain;
    if let Some(cpu) = cpu {
        of_cpu(cpu, domain);
    }
    if let Some(devices) = devices {
        devices::apply(devices, &spec.networks, &mut domain.devices);
    }
    if let Some(features) = features {
        of_features(features, domain.features.get_or_insert_default());
    }
    if let Some(firmware) = firmware {
        of_firmware(firmware, &mut domain.firmware);
    }
    let board = machine.as_ref().and_then(|machine| machine.preferred_machine_type.as_ref());
    if let Some(preferred) = board.filter(|preferred| !preferred.is_empty()) {
        let board = domain.machine.get_or_insert_default();
        if board.r#type.is_empty() {
            board.r#type.clone_from(preferred);
        }
    }
    if let Some(clock) = clock {
        of_clock(clock, &mut domain.clock);
    }
    open(&mut domain.launch_security, preferred_launch_security);
    text(&mut spec.subdomain, preferred_subdomain);
    text(&mut spec.architecture, preferred_architecture);
    open(&mut spec.termination_grace_period_seconds, preferred_termination_grace_period_seconds);
    if !annotations.is_empty() {
        let said = &mut template.metadata.get_or_insert_default().annotations;
        for (key, value) in annotations {
            said.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// Sets the preferred value if the field is unset.
pub(super) fn open<T: Clone>(said: &mut Option<T>, preferred: &Option<T>) {
    if said.is_none() {
        said.clone_from(preferred);
    }
}

/// Sets the preferred text if the field is unset or empty.
pub(super) fn text(said: &mut Option<String>, preferred: &Option<String>) {
    if said.as_deref().unwrap_or_default().is_empty()
        && let Some(preferred) = preferred.as_ref().filter(|preferred| !preferred.is_empty())
    {
        *said = Some(preferred.clone());
    }
}

fn of_cpu(preferred: &CpuPreferences, domain: &mut Domain) {
    if preferred.preferred_cpu_features.is_empty() {
        return;
    }
    let features = &mut domain.cpu.get_or_insert_default().features;
    let mut known: BTreeSet<&str> = features.iter().map(|feature| feature.name.as_str()).collect();
    let open = preferred.preferred_cpu_features.iter().filter(|feature| known.insert(&feature.name));
    let open: Vec<CpuFeature> = open.cloned().collect();
    features.extend(open);
}

fn of_features(preferred: &FeaturePreferences, features: &mut Features) {
    let FeaturePreferences {
        preferred_acpi,
        preferred_apic,
        preferred_hyperv,
        preferred_kvm,
        preferred_pvspinlock,
        preferred_smm,
        other: _,
    } = preferred;
    open(&mut features.acpi, preferred_acpi);
    open(&mut features.apic, preferred_apic);
    open(&mut features.kvm, preferred_kvm);
    open(&mut features.pvspinlock, preferred_pvspinlock);
    open(&mut features.smm, preferred_smm);
    let passthrough = features.hyperv_passthrough.as_ref();
    let passes = passthrough.is_some_and(|passthrough| passthrough.enabled != Some(false));
    if let Some(preferred) = preferred_hyperv.as_ref().filter(|_| !passes) {
        of_hyperv(preferred, features.hyperv.get_or_insert_default());
    }
}

fn of_hyperv(preferred: &Hyperv, said: &mut Hyperv) {
    let Hyperv {
        relaxed,
        vapic,
        spinlocks,
        vpindex,
        runtime,
        synic,
        synictimer,
        reset,
        vendorid,
        frequencies,
        reenlightenment,
        tlbflush,
        ipi,
        evmcs,
        other: _,
    } = preferred;
    open(&mut said.relaxed, relaxed);
    open(&mut said.vapic, vapic);
    open(&mut said.spinlocks, spinlocks);
    open(&mut said.vpindex, vpindex);
    open(&mut said.runtime, runtime);
    open(&mut said.synic, synic);
    open(&mut said.synictimer, synictimer);
    open(&mut said.reset, reset);
    open(&mut said.vendorid, vendorid);
    open(&mut said.frequencies, frequencies);
    open(&mut said.reenlightenment, reenlightenment);
    open(&mut said.tlbflush, tlbflush);
    open(&mut said.ipi, ipi);
    open(&mut said.evmcs, evmcs);
}

fn of_firmware(preferred: &FirmwarePreferences, firmware: &mut Option<Firmware>) {
    let FirmwarePreferences {
        preferred_use_bios,
        preferred_use_bios_serial,
        preferred_use_efi,
        preferred_use_secure_boot,
        preferred_efi,
        other: _,
    } = preferred;
    let said = firmware.as_ref().and_then(|firmware| firmware.bootloader.clone());
    let mut loader = said.clone().unwrap_or_default();
    let is_open = |loader: &Bootloader| loader.bios.is_none() && loader.efi.is_none();
    if *preferred_use_bios == Some(true) && is_open(&loader) {
        loader.bios = Some(Bios::default());
    }
    if let Some(bios) = &mut loader.bios {
        open(&mut bios.use_serial, preferred_use_bios_serial);
    }
    if is_open(&loader) {
        if preferred_efi.is_some() {
            loader.efi.clone_from(preferred_efi);
        } else if *preferred_use_efi == Some(true) {
            loader.efi = Some(Efi::default());
        }
    }
    // The newer field replaces the older one.
    if let Some(efi) = loader.efi.as_mut().filter(|_| preferred_efi.is_none()) {
        open(&mut efi.secure_boot, preferred_use_secure_boot);
    }
    if !is_open(&loader) && said.as_ref() != Some(&loader) {
        firmware.get_or_insert_default().bootloader = Some(loader);
    }
}

fn of_clock(preferred: &ClockPreferences, clock: &mut Option<Clock>) {
    let ClockPreferences { preferred_clock_offset, preferred_timer, other: _ } = preferred;
    if preferred_clock_offset.is_none() && preferred_timer.is_none() {
        return;
    }
    let clock = clock.get_or_insert_default();
    if let Some(offset) =
        preferred_clock_offset.as_ref().filter(|_| clock.utc.is_none() && clock.timezone.is_none())
    {
        clock.utc.clone_from(&offset.utc);
        clock.timezone.clone_from(&offset.timezone);
    }
    open(&mut clock.timer, preferred_timer);
}
