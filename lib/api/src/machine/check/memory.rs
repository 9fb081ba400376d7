//! Memory: size and page size.

use super::super::Memory;
use super::{Check, text};
use crate::quantity::Quantity;
use crate::vmi;
use crate::wire::Path;
use std::collections::BTreeMap;

/// Least memory of a VMI.
const LEAST: u64 = 1 << 20;
/// Most memory of a VMI: the 52-bit address space of a PC.
pub(in super::super) const MOST: u64 = 1 << 52;
/// Block size of memory hotplug.
const BLOCK: u64 = 2 << 20;
/// Page sizes of PCs.
const PAGES: [u64; 2] = [2 << 20, 1 << 30];

/// Memory of the guest, and the field of the domain that sets it: its own field, else the request, the limit,
/// or one huge page.
pub fn guest_memory(domain: &vmi::Domain) -> Option<(&'static str, Quantity)> {
    let memory = domain.memory.as_ref();
    let resource = |of: fn(&vmi::Resources) -> &BTreeMap<String, Quantity>| {
        of(domain.resources.as_ref()?).get("memory").cloned()
    };
    let page = || Quantity::parse(text::non_empty(&memory?.hugepages.as_ref()?.page_size)?).ok();
    if let Some(guest) = memory.and_then(|memory| memory.guest.clone()) {
        Some(("memory.guest", guest))
    } else if let Some(request) = resource(|resources| &resources.requests) {
        Some(("resources.requests.memory", request))
    } else if let Some(limit) = resource(|resources| &resources.limits) {
        Some(("resources.limits.memory", limit))
    } else {
        Some(("memory.hugepages.pageSize", page()?))
    }
}

pub(super) fn memory(domain: &vmi::Domain, at: &Path, check: &mut Check<'_>) -> Memory {
    let memory_at = at.child("memory");
    let (mut page, mut most, mut locked) = (None, None, false);
    if let Some(vmi::Memory { hugepages, guest: _, max_guest, reserved_overhead, other: _ }) = &domain.memory
    {
        page = hugepages.as_ref().and_then(|hugepages| page_size(hugepages, &memory_at, check));
        most = max_guest.as_ref();
        if let Some(vmi::ReservedOverhead { added_overhead: _, mem_lock, other: _ }) = reserved_overhead {
            locked = match text::non_empty(mem_lock) {
                None | Some("NotRequired") => false,
                Some("Required") => true,
                Some(word) => {
                    let at = memory_at.child("reservedOverhead").child("memLock");
                    let message = format!("{at} {word:?} is not one of Required, NotRequired");
                    check.invalid(at, message);
                    false
                }
            };
        }
    }

    let Some((field, size)) = guest_memory(domain) else {
        check.required(
            &memory_at,
            format!(
                "no memory requested, at least one of '{memory_at}.guest', '{memory_at}.hugepages.pageSize' or \
                 '{at}.resources.requests.memory' must be set"
            ),
        );
        return Memory { guest: LEAST, hugepage: None, most: None, locked };
    };
    let size_at = at.child(field);
    let guest = size.bytes().unwrap_or(0);
    // Requests below a megabyte have their own fault; one fault is enough.
    let small = guest < LEAST && !(field.ends_with("requests.memory") && guest < 1_000_000);
    if small && size.nanos() >= 0 {
        let why = if size.bytes().is_none() {
            "must be less than 16Ei."
        } else {
            "must be greater than or equal to 1Mi."
        };
        check.invalid(&size_at, format!("{size_at} '{size}': {why}"));
    } else if small {
        check.invalid(&size_at, format!("{size_at} '{size}': must be greater than or equal to 0."));
    }

    let resources = domain.resources.as_ref();
    if let Some(limit) = resources.and_then(|resources| resources.limits.get("memory"))
        && field == "memory.guest"
        && !check.settings.memory_above_limit
        && size.nanos() > limit.nanos()
    {
        check.invalid(
            &size_at,
            format!(
                "{size_at} '{size}' must be equal to or less than the memory limit {at}.resources.limits.memory '{limit}'"
            ),
        );
    }
    if let Some((page_text, page)) = &page {
        let page_at = memory_at.child("hugepages").child("pageSize");
        let request = resources.and_then(|resources| resources.requests.get("memory"));
        let request = request.filter(|request| !request.is_zero());
        let request = request.map(|request| (at.child("resources.requests.memory"), request));
        for (at, size) in request.into_iter().chain([(size_at.clone(), &size)]) {
            let bytes = size.bytes().unwrap_or(0);
            let problem = if bytes < *page {
                "must be equal to or larger than page size"
            } else if bytes % page != 0 {
                "is not a multiple of the page size"
            } else {
                continue;
            };
            check.invalid(&at, format!("{at} '{size}' {problem} {page_at} '{page_text}'"));
            break;
        }
    }
    if check.settings.defines && guest > MOST {
        let message =
            format!("{size_at} '{size}': must be less than or equal to 4Pi, which no CPU addresses more of.");
        check.invalid(&size_at, message);
    }
    let most = most.and_then(|most| after_hotplug(domain, most, (&size_at, &size), at, check));
    Memory { guest, hugepage: page.map(|(_, page)| page), most, locked }
}

/// Maximum memory after hotplug, if that is more than at the start.
fn after_hotplug(
    domain: &vmi::Domain,
    most: &Quantity,
    (size_at, size): (&Path, &Quantity),
    at: &Path,
    check: &mut Check<'_>,
) -> Option<u64> {
    let most_at = at.child("memory").child("maxGuest");
    let bytes = most.bytes().filter(|bytes| *bytes <= MOST);
    let (Some(bytes), Some(guest)) = (bytes, size.bytes()) else {
        check.invalid(&most_at, format!("{most_at} '{most}': must be from the guest memory to 4Pi."));
        return None;
    };
    if bytes < guest {
        let message = format!("{size_at} '{size}' is greater than the configured {most_at} '{most}'");
        check.invalid(size_at, message);
        return None;
    }
    if bytes == guest {
        return None;
    }
    for (at, amount, bytes) in [(size_at, size, guest), (&most_at, most, bytes)] {
        if !bytes.is_multiple_of(BLOCK) {
            check.invalid(at, format!("{at} '{amount}': must be a multiple of 2Mi when {most_at} is set"));
        }
    }
    let cpu = domain.cpu.as_ref();
    let numa = cpu.and_then(|cpu| cpu.numa.as_ref()?.guest_mapping_passthrough.as_ref());
    if numa.is_some() || cpu.is_some_and(|cpu| cpu.realtime.is_some()) {
        let other = if numa.is_some() { "numa.guestMappingPassthrough" } else { "realtime" };
        let other = at.child("cpu").child(other);
        let message =
            format!("{most_at} must not be set with {other}: memory that is added has no place of its own");
        check.invalid(&most_at, message);
    }
    Some(bytes)
}

fn page_size(hugepages: &vmi::Hugepages, at: &Path, check: &mut Check<'_>) -> Option<(String, u64)> {
    let vmi::Hugepages { page_size, other: _ } = hugepages;
    let at = at.child("hugepages").child("pageSize");
    let Some(text) = text::non_empty(page_size) else {
        check.required(&at, format!("{at} is a required field"));
        return None;
    };
    match Quantity::parse(text).ok().and_then(|size| size.bytes()) {
        Some(size) if PAGES.contains(&size) => Some((text.to_owned(), size)),
        _ => {
            check.invalid(&at, format!("{at} '{text}' is not a size of huge pages: must be 2Mi or 1Gi"));
            None
        }
    }
}
