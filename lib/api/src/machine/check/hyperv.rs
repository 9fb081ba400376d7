//! Hyper-V enlightenments, with the ones that each requires.
//!
//! ```text
//!  synictimer ─► synic ─► vpindex ◄─ tlbflush, ipi        evmcs, tlbflush.direct ─► vapic        evmcs ─► CPU feature vmx
//! ```
//!
//! The defaults have added unset enlightenments that are required. Any other missing one is refused, by both
//! names.

use super::super::hyperv::{Enlightenments, Hyperv, SPINLOCKS, SynicTimer, TlbFlush, VMX};
use super::{Check, text};
use crate::vmi::{self, FeatureState};
use crate::wire::Path;

/// Longest vendor ID in CPUID.
const VENDOR: usize = 12;

/// True if the feature is enabled; an empty feature is.
pub(super) fn on(state: Option<&FeatureState>) -> Option<bool> {
    let FeatureState { enabled, other: _ } = state?;
    Some(enabled.unwrap_or(true))
}

pub(super) fn hyperv(
    passthrough: Option<&vmi::HypervPassthrough>,
    hyperv: Option<&vmi::Hyperv>,
    cpu: Option<&vmi::Cpu>,
    domain: &Path,
    check: &mut Check<'_>,
) -> Hyperv {
    let passed =
        passthrough.map(|vmi::HypervPassthrough { enabled, other: _ }| enabled.unwrap_or(true)) == Some(true);
    let Some(hyperv) = hyperv else {
        return if passed { Hyperv::Passthrough } else { Hyperv::None };
    };
    if passed {
        let message = "Cannot explicitly set hyperV features if HypervPassthrough is being used. Please use either \
                       HyperV or HypervPassthrough.";
        check.invalid(domain.child("features").child("hypervPassthrough"), message);
    }
    let at = domain.child("features").child("hyperv");
    let these = enlightenments(hyperv, &at, check);
    required(&these, cpu, domain, &at, check);
    if these == Enlightenments::default() { Hyperv::None } else { Hyperv::These(Box::new(these)) }
}

fn enlightenments(hyperv: &vmi::Hyperv, at: &Path, check: &mut Check<'_>) -> Enlightenments {
    let vmi::Hyperv {
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
    } = hyperv;
    let is_on = |state: &Option<FeatureState>| on(state.as_ref()) == Some(true);
    Enlightenments {
        relaxed: is_on(relaxed),
        vapic: is_on(vapic),
        spinlocks: spinlocks.as_ref().and_then(|spinlocks| retries(spinlocks, at, check)),
        vpindex: is_on(vpindex),
        runtime: is_on(runtime),
        synic: is_on(synic),
        synictimer: synictimer.as_ref().and_then(|vmi::SynicTimer { enabled, direct, other: _ }| {
            enabled.unwrap_or(true).then(|| SynicTimer { direct: is_on(direct) })
        }),
        reset: is_on(reset),
        vendor_id: vendorid.as_ref().and_then(|vendor| vendor_id(vendor, at, check)),
        frequencies: is_on(frequencies),
        reenlightenment: is_on(reenlightenment),
        tlbflush: tlbflush.as_ref().and_then(|vmi::TlbFlush { enabled, direct, extended, other: _ }| {
            let flush = TlbFlush { direct: is_on(direct), extended: is_on(extended) };
            enabled.unwrap_or(true).then_some(flush)
        }),
        ipi: is_on(ipi),
        evmcs: is_on(evmcs),
    }
}

fn retries(spinlocks: &vmi::Spinlocks, at: &Path, check: &mut Check<'_>) -> Option<u32> {
    /// Least number of retries that the hypervisor accepts.
    const LEAST: u32 = 4095;
    let vmi::Spinlocks { enabled, spinlocks, other: _ } = spinlocks;
    if !enabled.unwrap_or(true) {
        return None;
    }
    let retries = spinlocks.unwrap_or(SPINLOCKS);
    if retries < LEAST {
        let at = at.child("spinlocks").child("spinlocks");
        check.invalid(&at, format!("{at} must be {LEAST} or more: {retries}"));
    }
    Some(retries)
}

fn vendor_id(vendor: &vmi::VendorId, at: &Path, check: &mut Check<'_>) -> Option<String> {
    let vmi::VendorId { enabled, vendorid, other: _ } = vendor;
    if !enabled.unwrap_or(true) {
        return None;
    }
    let said = text::non_empty(vendorid)?;
    // A comma would separate properties of QEMU's CPU option.
    let is_plain = |c: char| c.is_ascii_graphic() && c != ',' || c == ' ';
    if said.len() > VENDOR || !said.chars().all(is_plain) {
        let at = at.child("vendorid").child("vendorid");
        check.invalid(
            &at,
            format!("{at} must be at most {VENDOR} characters of ASCII without a comma: {said:?}"),
        );
    }
    Some(said.to_owned())
}

fn required(these: &Enlightenments, cpu: Option<&vmi::Cpu>, domain: &Path, at: &Path, check: &mut Check<'_>) {
    let direct = these.tlbflush.is_some_and(|flush| flush.direct);
    for (is_on, what, has, required) in [
        (these.evmcs, "evmcs", these.vapic, "vapic"),
        (these.ipi, "ipi", these.vpindex, "vpindex"),
        (these.tlbflush.is_some(), "tlbflush", these.vpindex, "vpindex"),
        (direct, "tlbflush.direct", these.vapic, "vapic"),
        (these.synictimer.is_some(), "synictimer", these.synic, "synic"),
        (these.synic, "synic", these.vpindex, "vpindex"),
    ] {
        if is_on && !has {
            let at_what = format!("{at}.{what}");
            let message = format!("'{at_what}' requires '{at}.{required}', which was disabled.");
            check.invalid(at_what, message);
        }
    }
    if these.evmcs {
        vmx(cpu, &domain.child("cpu").child("features"), check);
    }
}

/// Checks that the CPU has `vmx` (nested virtualization): evmcs needs a VMCS.
fn vmx(cpu: Option<&vmi::Cpu>, at: &Path, check: &mut Check<'_>) {
    let features = cpu.map_or(&[][..], |cpu| &cpu.features);
    let found = features.iter().enumerate().find(|(_, feature)| feature.name == VMX);
    match found {
        None => check.required(at, "vmx cpu feature is required when evmcs is set"),
        Some((i, feature)) if !matches!(text::non_empty(&feature.policy), None | Some("require")) => {
            let at = at.index(i).child("policy");
            check.invalid(at, "vmx cpu feature has to be set to require policy");
        }
        Some(_) => {}
    }
}
