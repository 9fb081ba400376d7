//! CPU topology, model and features.

use super::super::Cpu;
use super::super::cpu::{Feature, Model, Policy};
use super::{Check, dedicated, text};
use crate::vmi;
use crate::wire::Path;
use std::collections::BTreeSet;

/// Most vCPUs of a PC without an IOMMU: libvirt defines no domain with more.
pub(in super::super) const MOST: u32 = 255;

/// Sockets, cores and threads: those of the spec, else a socket for each CPU of the limit or the request,
/// else one of each.
pub fn topology(domain: &vmi::Domain) -> (u32, u32, u32) {
    let said = |of: fn(&vmi::Cpu) -> Option<u32>| domain.cpu.as_ref().and_then(of).filter(|&n| n > 0);
    let (sockets, cores, threads) = (said(|cpu| cpu.sockets), said(|cpu| cpu.cores), said(|cpu| cpu.threads));
    if sockets.or(cores).or(threads).is_some() {
        return (sockets.unwrap_or(1), cores.unwrap_or(1), threads.unwrap_or(1));
    }
    let resources = domain.resources.as_ref();
    let amount = resources.and_then(|of| of.limits.get("cpu").or_else(|| of.requests.get("cpu")));
    let sockets = amount.and_then(|amount| u32::try_from(amount.ceil()?).ok());
    (sockets.unwrap_or(1).max(1), 1, 1)
}

/// `hints`: topology hints that virt-controller has chosen for the VMI.
pub(super) fn cpu(
    domain: &vmi::Domain,
    hints: Option<&vmi::TopologyHints>,
    domain_at: &Path,
    check: &mut Check<'_>,
) -> Cpu {
    let at = domain_at.child("cpu");
    let (sockets, cores, threads) = topology(domain);
    let count = sockets.checked_mul(cores).and_then(|n| n.checked_mul(threads));
    if check.settings.defines && count.is_none_or(|count| count > MOST) {
        check.invalid(
            &at,
            format!("{sockets} sockets of {cores} cores of {threads} threads are more than {MOST} vCPUs"),
        );
    }
    let empty = vmi::Cpu::default();
    let vmi::Cpu {
        cores: _,
        sockets: _,
        max_sockets,
        threads: _,
        model,
        features,
        dedicated_cpu_placement,
        numa,
        isolate_emulator_thread,
        realtime,
        other: _,
    } = domain.cpu.as_ref().unwrap_or(&empty);

    let has_own = *dedicated_cpu_placement == Some(true);
    if has_own {
        dedicated::placement(domain, (sockets, cores, threads), domain_at, check);
    }
    let isolated_emulator = *isolate_emulator_thread == Some(true);
    if isolated_emulator && !has_own {
        let message = "IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement";
        check.invalid(at.child("isolateEmulatorThread"), message);
    }
    let numa_of_host = numa.as_ref().is_some_and(|numa| {
        let vmi::Numa { guest_mapping_passthrough, other: _ } = numa;
        guest_mapping_passthrough.is_some()
    });
    if numa_of_host {
        dedicated::numa(domain, has_own, domain_at, check);
    }
    let realtime = realtime.as_ref().map(|realtime| {
        let vcpus = count.filter(|count| *count <= MOST).unwrap_or(1);
        dedicated::realtime(realtime, vcpus, (has_own, numa_of_host), &at, check)
    });

    let max_sockets = max_sockets.filter(|&n| n > 0);
    if let Some(most) = max_sockets {
        if sockets > most {
            check.invalid(
                at.child("sockets"),
                "Number of sockets in CPU topology is greater than the maximum sockets allowed",
            );
        }
        let count = most.checked_mul(cores).and_then(|n| n.checked_mul(threads));
        if check.settings.defines && count.is_none_or(|count| count > MOST) {
            let message =
                format!("{most} sockets of {cores} cores of {threads} threads are more than {MOST} vCPUs");
            check.invalid(at.child("maxSockets"), message);
        }
    }
    let mut cpu = Cpu {
        sockets,
        cores,
        threads,
        max_sockets,
        model: model_of(text::non_empty(model), &at, check),
        features: features_of(features, &at.child("features"), check),
        dedicated: has_own,
        isolated_emulator,
        numa_of_host,
        tsc: None,
        realtime: realtime.unwrap_or_default(),
    };
    cpu.tsc = hints
        .filter(|_| cpu.wants_invariant_tsc())
        .and_then(|hints| u64::try_from(hints.tsc_frequency?).ok())
        .filter(|frequency| *frequency > 0);
    cpu
}

fn model_of(model: Option<&str>, at: &Path, check: &mut Check<'_>) -> Model {
    match model {
        None | Some("host-model") => Model::HostModel,
        Some("host-passthrough") => Model::HostPassthrough,
        Some(name) => {
            if !is_name(name) {
                let at = at.child("model");
                check.invalid(&at, format!("{at} {name:?} is not the name of a processor"));
            }
            Model::Named(name.to_owned())
        }
    }
}

fn features_of(features: &[vmi::CpuFeature], at: &Path, check: &mut Check<'_>) -> Vec<Feature> {
    let mut names = BTreeSet::new();
    let mut result = Vec::new();
    for (i, vmi::CpuFeature { name, policy, other: _ }) in features.iter().enumerate() {
        let at = at.index(i);
        if !is_name(name) {
            check.invalid(
                at.child("name"),
                format!("{at} {name:?} is not the name of a feature of a processor"),
            );
        } else if !names.insert(name) {
            check.duplicate(at.child("name"), format!("CPU feature {name} is given twice"));
        }
        let policy = match text::non_empty(policy) {
            None | Some("require") => Policy::Require,
            Some("force") => Policy::Force,
            Some("optional") => Policy::Optional,
            Some("disable") => Policy::Disable,
            Some("forbid") => Policy::Forbid,
            Some(other) => {
                let message = format!("CPU feature {name} uses policy {other} that is not supported.");
                check.not_supported(at.child("policy"), message);
                Policy::Require
            }
        };
        result.push(Feature { name: name.clone(), policy });
    }
    result
}

/// True if the text has only characters of libvirt's names of CPU models and features.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+'))
}
