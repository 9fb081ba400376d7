//! The facts of a domain for `virsh`, as libvirt's own program would ask for them.
#![allow(unsafe_code)] // calls that the bindings leave as they are

use super::from_libvirt;
use launcher::hypervisor::Result;
use std::ffi::{CStr, c_char};
use std::ptr;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::sys;

/// Most messages of a domain that are read.
const MESSAGES: usize = 64;

/// The facts of a domain.
pub(super) fn facts(connection: &Connect, domain: &Domain, doing: &str) -> Result<api::launcher::Domain> {
    let own = |e: virt::error::Error| from_libvirt::error(doing, &e);
    let (state, reason) = domain.get_state().map_err(own)?;
    let info = domain.get_info().map_err(own)?;
    Ok(api::launcher::Domain {
        name: domain.get_name().map_err(own)?,
        id: domain.get_id(),
        uuid: domain.get_uuid_string().map_err(own)?,
        os_type: domain.get_os_type().map_err(own)?,
        state,
        reason,
        vcpus: info.nr_virt_cpu,
        cpu_ns: info.cpu_time,
        max_memory_kib: info.max_mem,
        memory_kib: info.memory,
        persistent: domain.is_persistent().map_err(own)?,
        autostart: domain.get_autostart().map_err(own)?,
        managed_save: domain.has_managed_save(0).map_err(own)?,
        security: security(connection),
        messages: messages(domain),
        qemu: connection.get_hyp_version().map(from_libvirt::version).map_err(own)?,
        xml: domain.get_xml_desc(0).map_err(own)?,
        inactive_xml: domain.get_xml_desc(sys::VIR_DOMAIN_XML_INACTIVE).map_err(own)?,
    })
}

/// Model and domain of interpretation of the security driver.
fn security(connection: &Connect) -> Option<(String, String)> {
    let mut found = sys::virSecurityModel { model: [0; 257], doi: [0; 257] };
    // SAFETY: the connection is open, and libvirt writes texts that end inside of the two fields.
    let failed = unsafe { sys::virNodeGetSecurityModel(connection.as_ptr(), &raw mut found) } < 0;
    (!failed && found.model[0] != 0).then(|| (field(&found.model), field(&found.doi)))
}

/// A text that ends inside of its field.
fn field(of: &[c_char]) -> String {
    let bytes: Vec<u8> =
        of.iter().take_while(|letter| **letter != 0).map(|letter| letter.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Notes of libvirt about a domain. A driver without them has none.
fn messages(domain: &Domain) -> Vec<String> {
    let mut list: *mut *mut c_char = ptr::null_mut();
    // SAFETY: the domain is held by the caller; `list` is set where the call succeeds.
    let count = unsafe { sys::virDomainGetMessages(domain.as_ptr(), &raw mut list, 0) };
    if list.is_null() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for at in 0..usize::try_from(count).unwrap_or_default() {
        // SAFETY: libvirt made a list of `count` texts and gave it away; each is freed once, after it was
        // copied.
        unsafe {
            let text = *list.add(at);
            if !text.is_null() {
                if found.len() < MESSAGES {
                    found.push(CStr::from_ptr(text).to_string_lossy().into_owned());
                }
                libc::free(text.cast());
            }
        }
    }
    // SAFETY: the list itself; nothing of it is used any more.
    unsafe { libc::free(list.cast()) };
    found
}
