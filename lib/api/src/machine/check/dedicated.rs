//! Dedicated CPUs: their requirements on resources, NUMA nodes and real-time vCPUs.

use super::{Check, Site, text};
use crate::quantity::Quantity;
use crate::vmi;
use crate::wire::Path;
use std::collections::{BTreeMap, BTreeSet};

/// Most threads of a core with dedicated CPUs.
const THREADS: u32 = 2;
/// One CPU in billionths, the unit of quantities.
const WHOLE: i128 = 1_000_000_000;

/// Checks dedicated CPUs with this many sockets, cores and threads. The pod must request whole CPUs, as many
/// as there are vCPUs, and memory without overcommit ([`lends_nothing`]).
pub(super) fn placement(
    domain: &vmi::Domain,
    (sockets, each, threads): (u32, u32, u32),
    domain_at: &Path,
    check: &mut Check<'_>,
) {
    let at = domain_at.child("cpu");
    let field = at.child("dedicatedCpuPlacement");
    let resources_at = domain_at.child("resources");
    let none = vmi::Resources::default();
    let resources = domain.resources.as_ref().unwrap_or(&none);
    let amount = |list: &BTreeMap<String, Quantity>, name: &str| {
        list.get(name).filter(|amount| amount.nanos() > 0).map(Quantity::nanos)
    };
    let [request, limit] = [&resources.requests, &resources.limits].map(|list| amount(list, "cpu"));
    let [request_at, limit_at] = ["requests", "limits"].map(|list| resources_at.child(list).child("cpu"));
    for (amount, at, word) in [(request, &request_at, "requests"), (limit, &limit_at, "limits")] {
        if amount.is_some_and(|amount| amount % WHOLE != 0) {
            // Spelling of upstream: scripts match it.
            check.invalid(at, format!("provided resources CPU {word} must be an interger"));
        }
    }
    let [memory, most] = [&resources.requests, &resources.limits].map(|list| amount(list, "memory"));
    if let (Some(memory), Some(most)) = (memory, most)
        && memory != most
    {
        let [request, limit] = ["requests", "limits"].map(|list| resources_at.child(list).child("memory"));
        check.invalid(&request, format!("{request} must be equal to {limit}"));
    } else {
        lends_nothing((memory, most), domain, domain_at, check);
    }
    let cores = at.child("cores");
    // A fraction was reported above, and is rounded up here.
    let [request, limit] =
        [request, limit].map(|amount| amount.map(|amount| amount.saturating_add(WHOLE - 1) / WHOLE));
    if let (Some(request), Some(limit)) = (request, limit)
        && request != limit
    {
        let message = format!("{request_at} or {limit_at} must be equal when DedicatedCPUPlacement is true ");
        check.invalid(&field, message);
    }
    let vcpus = i128::from(sockets) * i128::from(each) * i128::from(threads);
    if [request, limit].into_iter().flatten().next().is_some()
        && [request, limit].into_iter().all(|amount| amount != Some(vcpus))
    {
        check.invalid(
            &field,
            format!(
                "{request_at} or {limit_at} must not be provided at the same time with {cores} when \
                 DedicatedCPUPlacement is true "
            ),
        );
    }
    if threads > THREADS {
        let threads_at = at.child("threads");
        check.invalid(
            &field,
            format!(
                "Not more than two threads must be provided at {threads_at} (got {threads}) when \
                 DedicatedCPUPlacement is true"
            ),
        );
    }
    if resources.overcommit_guest_overhead == Some(true) {
        let at = resources_at.child("overcommitGuestOverhead");
        check.invalid(
            &at,
            format!("{at} must not be true when {field} is: its pod asks for all that it uses"),
        );
    }
}

/// Checks that the pod requests all memory of the guest: a pod with dedicated CPUs that requests less may be
/// killed for memory. A guest in huge pages does not use that memory. A VMI that was checked before stays as
/// it is. `amounts`: those of the request and the limit.
fn lends_nothing(
    amounts: (Option<i128>, Option<i128>),
    domain: &vmi::Domain,
    domain_at: &Path,
    check: &mut Check<'_>,
) {
    let (list, amount) = match amounts {
        (Some(request), _) => ("requests", request),
        (None, Some(limit)) => ("limits", limit),
        (None, None) => return,
    };
    let is_fixed = check.settings.site != Site::Cluster;
    let has_hugepages = domain.memory.as_ref().is_some_and(|memory| memory.hugepages.is_some());
    let Some((field, guest)) = super::guest_memory(domain).filter(|_| !has_hugepages && !is_fixed) else {
        return;
    };
    // A limit below the guest's memory is reported with the guest's memory, if the cluster does not permit
    // it.
    let is_told = list == "limits" && !check.settings.memory_above_limit;
    if amount < guest.nanos() && !is_told {
        let resource = domain_at.child("resources").child(list).child("memory");
        let (size, field_at) = (domain_at.child(field), domain_at.child("cpu.dedicatedCpuPlacement"));
        check.invalid(
            &resource,
            format!(
                "{resource} must be at least the guest memory {size} '{guest}' when {field_at} is true: the launcher pod gets no \
                 more than it requests"
            ),
        );
    }
}

/// Checks that the NUMA nodes of the host are shown only to a guest with dedicated CPUs and huge pages.
pub(super) fn numa(domain: &vmi::Domain, dedicated: bool, domain_at: &Path, check: &mut Check<'_>) {
    let at = domain_at.child("cpu");
    let numa = at.child("numa").child("guestMappingPassthrough");
    if !dedicated {
        let dedicated = at.child("dedicatedCpuPlacement");
        let message = format!("{dedicated} must be set to true when NUMA topology strategy is set in {numa}");
        check.invalid(&numa, message);
    }
    if domain.memory.as_ref().is_none_or(|memory| memory.hugepages.is_none()) {
        let hugepages = domain_at.child("memory").child("hugepages");
        let message = format!("{hugepages} must be requested when NUMA topology strategy is set in {numa}");
        check.invalid(&numa, message);
    }
}

/// Checks the vCPUs with real-time scheduling. `with`: the VMI has dedicated CPUs and sees their NUMA nodes.
pub(super) fn realtime(
    realtime: &vmi::Realtime,
    count: u32,
    with: (bool, bool),
    at: &Path,
    check: &mut Check<'_>,
) -> Vec<u32> {
    let vmi::Realtime { mask, other: _ } = realtime;
    let field = at.child("realtime");
    let numa = at.child("numa").child("guestMappingPassthrough");
    let dedicated = at.child("dedicatedCpuPlacement");
    if !with.0 {
        check.required(&dedicated, format!("{dedicated} must be set to true when {field} is used"));
    }
    if !with.1 {
        check.required(&numa, format!("{numa} must be defined when {field} is used"));
    }
    let Some(mask) = text::non_empty(mask) else { return (0..count).collect() };
    match vcpus(mask, count) {
        Ok(vcpus) => vcpus.into_iter().collect(),
        Err(why) => {
            let at = field.child("mask");
            check.invalid(
                &at,
                format!(
                    "{at} {mask:?} {why}: write vCPUs from 0 to {}, like `0-3,^1`",
                    count.saturating_sub(1)
                ),
            );
            Vec::new()
        }
    }
}

/// Parses a list like `0-3,^1`, whose numbers must be below `count`.
fn vcpus(mask: &str, count: u32) -> Result<BTreeSet<u32>, String> {
    let mut found = BTreeSet::new();
    let mut without = BTreeSet::new();
    for part in mask.split(',') {
        let part = part.trim();
        let (into, range) = match part.strip_prefix('^') {
            Some(range) => (&mut without, range),
            None => (&mut found, part),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| digits)
        };
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(format!("has {part:?}, which is not a number or a range"));
        };
        if first > last || last >= count {
            return Err(format!("has {part:?}, which names a vCPU that there is not"));
        }
        into.extend(first..=last);
    }
    let left: BTreeSet<u32> = found.difference(&without).copied().collect();
    if left.is_empty() { Err("leaves no vCPU".to_owned()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::vcpus;
    use crate::machine::{Machine, Settings};
    use crate::vmi::VirtualMachineInstance;
    use crate::wire;
    use serde_json::{Value, json};

    #[test]
    fn a_pod_with_cpus_of_its_own_asks_for_all_of_the_guests_memory() {
        let faults = |resources: Value, memory: Value, settings: &Settings| {
            let vmi: VirtualMachineInstance = wire::read(json!({
                "metadata": {"name": "one", "namespace": "here"},
                "spec": {"domain": {
                    "cpu": {"cores": 2, "dedicatedCpuPlacement": true},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "memory": memory,
                    "resources": resources,
                    "devices": {},
                }},
            }))
            .unwrap();
            let faults = Machine::check(&vmi, settings).err().unwrap_or_default();
            faults.into_iter().map(|fault| (fault.field, fault.message)).collect::<Vec<_>>()
        };
        let cluster = Settings::of_cluster(&json!({"spec": {}}));
        let plain = || json!({"guest": "4Gi"});
        let huge = || json!({"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}});
        let of = |resources: Value| faults(resources, plain(), &cluster);
        for list in ["requests", "limits"] {
            let field = format!("spec.domain.resources.{list}.memory");
            let message = format!(
                "{field} must be at least the guest memory spec.domain.memory.guest '4Gi' when \
                 spec.domain.cpu.dedicatedCpuPlacement is true: the launcher pod gets no more than it requests"
            );
            let less = || json!({(list): {"memory": "1Gi"}});
            assert_eq!(of(less()), [(field, message)]);
            assert_eq!(of(json!({(list): {"memory": "4Gi"}})), []);
            assert_eq!(faults(less(), huge(), &cluster), [], "the guest is not in that memory");
            assert_eq!(faults(less(), plain(), &Settings::of_checked()), [], "it is there already");
        }
        let staged = json!({"spec": {"configuration": {"vmRolloutStrategy": "Stage"}}});
        let told = faults(json!({"limits": {"memory": "1Gi"}}), plain(), &Settings::of_cluster(&staged));
        assert_eq!(told.len(), 1, "one sentence is enough: {told:?}");
    }

    #[test]
    fn a_mask_names_vcpus_that_there_are() {
        let all = |mask: &str| vcpus(mask, 4).map(|vcpus| vcpus.into_iter().collect::<Vec<_>>());
        assert_eq!(all("0-3,^1"), Ok(vec![0, 2, 3]));
        assert_eq!(all("^0, 0-1 ,3"), Ok(vec![1, 3]));
        assert_eq!(all("2"), Ok(vec![2]));
        for wrong in ["", "a", "4", "0-4", "3-1", "^0", "0,^0", "-1", "1-", "+1", "0-4294967295", ",", "0--1"]
        {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }
}
