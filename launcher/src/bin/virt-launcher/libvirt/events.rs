//! Callbacks of libvirt. They run on its event thread; a panic stops here and never unwinds into C.
#![allow(unsafe_code)] // C callbacks: the bindings have none for the events of domains.

use super::from_libvirt;
use launcher::hypervisor::{Error, ErrorKind, Event, Result, Tell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use virt::connect::Connect;
use virt::sys;

/// The receiver of the events of one domain.
struct Listener {
    name: CString,
    tell: Tell,
}

/// Registers for every event of the domain `name`. The connection keeps the listener as long as it lives.
pub(super) fn register(connection: &Connect, name: &str, tell: Tell) -> Result<()> {
    let tell = std::sync::Arc::new(tell);
    for (id, callback) in CALLBACKS {
        let tell = tell.clone();
        let name = CString::new(name).map_err(|e| Error::new(ErrorKind::Invalid, "watch", e.to_string()))?;
        let listener = Box::new(Listener { name, tell: Box::new(move |event| tell(event)) });
        let opaque = Box::into_raw(listener);
        // SAFETY: the connection is open; `callback` has the signature that libvirt's table gives to `id`;
        // `opaque` is a Listener that only `free` takes back, which libvirt calls once, after the last
        // callback.
        let number = unsafe {
            sys::virConnectDomainEventRegisterAny(
                connection.as_ptr(),
                ptr::null_mut(),
                *id as c_int,
                *callback,
                opaque.cast(),
                Some(free),
            )
        };
        if number < 0 {
            let error =
                from_libvirt::error(&format!("watch {}", name_of(opaque)), &virt::error::Error::last_error());
            // SAFETY: registering failed, so libvirt did not keep it.
            drop(unsafe { Box::from_raw(opaque) });
            return Err(error);
        }
    }
    let opaque =
        Box::into_raw(Box::new(Listener { name: CString::default(), tell: Box::new(move |e| tell(e)) }));
    // SAFETY: as above; `closed` has the signature of a close callback.
    let code = unsafe {
        sys::virConnectRegisterCloseCallback(connection.as_ptr(), Some(closed), opaque.cast(), Some(free))
    };
    if code < 0 {
        // A driver inside this process has no connection that could break, and says so.
        // SAFETY: registering failed, so libvirt did not keep it.
        drop(unsafe { Box::from_raw(opaque) });
    }
    Ok(())
}

fn name_of(listener: *const Listener) -> String {
    // SAFETY: called with the pointer of a box that was just made and is not freed yet.
    unsafe { (*listener).name.to_string_lossy().into_owned() }
}

const CALLBACKS: &[(sys::virDomainEventID, sys::virConnectDomainEventGenericCallback)] = &[
    // SAFETY of the transmutations: libvirt's one table of callbacks is typed by the first; it calls each
    // with the arguments that its event has, which are those of our functions.
    (sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE, generic(lifecycle as *const ())),
    (sys::VIR_DOMAIN_EVENT_ID_REBOOT, generic(reboot as *const ())),
    (sys::VIR_DOMAIN_EVENT_ID_WATCHDOG, generic(watchdog as *const ())),
    (sys::VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON, generic(io_error as *const ())),
    (sys::VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, generic(agent as *const ())),
];

const fn generic(f: *const ()) -> sys::virConnectDomainEventGenericCallback {
    // SAFETY: a pointer to a C function becomes a pointer to a C function, or none where it is null; see
    // CALLBACKS.
    unsafe { std::mem::transmute::<*const (), sys::virConnectDomainEventGenericCallback>(f) }
}

unsafe extern "C" fn free(opaque: *mut c_void) {
    // SAFETY: libvirt hands back what `register` gave it, once.
    let listener = unsafe { Box::from_raw(opaque.cast::<Listener>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(listener)));
}

/// Passes an event to the listener, if it is about the listener's domain.
unsafe fn pass(domain: sys::virDomainPtr, opaque: *mut c_void, event: impl FnOnce() -> Option<Event>) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `opaque` is the Listener of `register`, which lives until `free`.
        let listener = unsafe { &*opaque.cast::<Listener>() };
        // SAFETY: libvirt lends a domain for the time of the call, and its name with it.
        let name = unsafe { sys::virDomainGetName(domain) };
        // SAFETY: a name is a C string, or null.
        if !name.is_null() && unsafe { CStr::from_ptr(name) } == listener.name.as_c_str() {
            event().into_iter().for_each(&listener.tell);
        }
    }));
}

/// A text that libvirt lends, if there is one.
unsafe fn text(from: *const c_char) -> Option<String> {
    // SAFETY: not null, so it is a C string that lives for the time of the call.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned())
}

unsafe extern "C" fn lifecycle(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    event: c_int,
    detail: c_int,
    opaque: *mut c_void,
) -> c_int {
    // SAFETY: called by libvirt with what `pass` needs.
    unsafe { pass(domain, opaque, || from_libvirt::lifecycle(event, detail)) };
    0
}

unsafe extern "C" fn reboot(_: sys::virConnectPtr, domain: sys::virDomainPtr, opaque: *mut c_void) {
    // SAFETY: as above.
    unsafe { pass(domain, opaque, || Some(Event::Rebooted)) };
}

unsafe extern "C" fn watchdog(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    action: c_int,
    opaque: *mut c_void,
) {
    let reset = action == sys::VIR_DOMAIN_EVENT_WATCHDOG_RESET as c_int;
    // SAFETY: as above.
    unsafe { pass(domain, opaque, || Some(Event::Watchdog { reset })) };
}

unsafe extern "C" fn io_error(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    path: *const c_char,
    alias: *const c_char,
    action: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: as above; the texts live for the time of the call.
    unsafe {
        pass(domain, opaque, || {
            Some(Event::IoError {
                disk: text(alias).as_deref().map(from_libvirt::disk_of),
                path: text(path).unwrap_or_default(),
                no_space: text(reason).as_deref() == Some("enospc"),
                paused: action == sys::VIR_DOMAIN_EVENT_IO_ERROR_PAUSE as c_int,
            })
        });
    }
}

unsafe extern "C" fn agent(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    state: c_int,
    _: c_int,
    opaque: *mut c_void,
) {
    let here = state == sys::VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED as c_int;
    // SAFETY: as above.
    unsafe { pass(domain, opaque, || Some(Event::Agent(here))) };
}

unsafe extern "C" fn closed(_: sys::virConnectPtr, reason: c_int, opaque: *mut c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `opaque` is the Listener of `register`.
        let listener = unsafe { &*opaque.cast::<Listener>() };
        (listener.tell)(Event::Lost(from_libvirt::closed(reason).to_owned()));
    }));
}
