//! Memory: what the guest has, and of which pages.

use super::super::Memory;
use super::{Check, Site, text};
use crate::quantity::Quantity;
use crate::vmi;
use crate::wire::Path;
use std::collections::BTreeMap;

/// The least memory of a VMI.
const LEAST: u64 = 1 << 20;
/// The sizes of pages that PCs have.
const PAGES: [u64; 2] = [2 << 20, 1 << 30];

/// What says how much memory the guest has, and where it stands in the domain: its own field, else the request, the
/// limit, or one huge page.
pub fn guest_memory(domain: &vmi::Domain) -> Option<(&'static str, Quantity)> {
    let memory = domain.memory.as_ref();
    let resource = |of: fn(&vmi::Resources) -> &BTreeMap<String, Quantity>| {
        of(domain.resources.as_ref()?).get("memory").cloned()
    };
    let page = || Quantity::parse(text::said(&memory?.hugepages.as_ref()?.page_size)?).ok();
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
    let mut page = None;
    if let Some(vmi::Memory { hugepages, guest, max_guest, reserved_overhead, other: _ }) = &domain.memory {
        page = hugepages.as_ref().and_then(|hugepages| page_size(hugepages, &memory_at, check));
        if hugepages.is_some() {
            let hint = "leave it out: a pod has no mount of huge pages yet";
            check.not_yet_at(&[Site::Cluster], memory_at.child("hugepages"), hint);
        }
        if let Some(most) = max_guest
            && guest.as_ref().is_none_or(|guest| guest.nanos() != most.nanos())
        {
            // What it may have one day needs memory that comes later.
            check.not_yet(memory_at.child("maxGuest"));
        }
        if let Some(vmi::ReservedOverhead { added_overhead: _, mem_lock, other: _ }) = reserved_overhead {
            check.not_yet_some(mem_lock, memory_at.child("reservedOverhead").child("memLock"));
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
        return Memory { guest: LEAST, hugepage: None };
    };
    let size_at = at.child(field);
    let guest = size.bytes().unwrap_or(0);
    // Requests have a check of their own, of a megabyte; they and it are not said twice.
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
        for (at, size) in request.into_iter().chain([(size_at, &size)]) {
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
    Memory { guest, hugepage: page.map(|(_, page)| page) }
}

fn page_size(hugepages: &vmi::Hugepages, at: &Path, check: &mut Check<'_>) -> Option<(String, u64)> {
    let vmi::Hugepages { page_size, other: _ } = hugepages;
    let at = at.child("hugepages").child("pageSize");
    let Some(text) = text::said(page_size) else {
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
