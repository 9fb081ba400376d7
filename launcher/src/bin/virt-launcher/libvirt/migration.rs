//! Migration of a domain: libvirt's flags and parameters, and its statistics of the job.
#![allow(unsafe_code)] // The bindings abort no job, start no post-copy, and panic at parameters of a type that they do not expect.

use super::virt_result;
use api::launcher::{Migrate, MigrationProgress};
use launcher::hypervisor::embed;
use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::ptr;
use virt::domain::{Domain, MigrateParameters};
use virt::sys;

/// The first libvirt that looks for zeroes in copied disks: 10.9.0. An older one refuses the parameter.
const DETECTS_ZEROES: u64 = 10_009_000;
/// Parameter with a disk whose blocks of zeroes become holes, once for each.
const DETECT_ZEROES: &CStr = c"migrate_disks_detect_zeroes";

/// Migrates a running domain. Returns at the end.
pub(super) fn migrate(domain: &Domain, order: &Migrate, disks: &[String]) -> virt_result<()> {
    let destination = format!("qemu+unix:///session?socket={}", embed::escaped(&order.sockets.libvirt));
    let invalid = |_| virt::error::Error::last_error();
    let destination = CString::new(destination).map_err(invalid)?;
    let mut parameters = parameters(order, disks).to_vec();
    let holes: Vec<CString> = match version() >= DETECTS_ZEROES {
        true => disks.iter().filter_map(|disk| CString::new(disk.as_str()).ok()).collect(),
        false => Vec::new(),
    };
    parameters.extend(holes.iter().map(|disk| text_parameter(DETECT_ZEROES, disk)));
    let count = u32::try_from(parameters.len()).unwrap_or_default();
    // SAFETY: the domain is a live object of the bindings; the parameters and their texts live until the call returns.
    done(unsafe {
        let (of, to) = (domain.as_ptr(), destination.as_ptr());
        sys::virDomainMigrateToURI3(of, to, parameters.as_mut_ptr(), count, flags(order, disks))
    })
}

/// Version of the library: 1,000,000 for each major one, 1,000 for each minor one.
fn version() -> u64 {
    let mut version = 0;
    // SAFETY: libvirt writes to one place of ours.
    match unsafe { sys::virGetVersion(&mut version, ptr::null(), ptr::null_mut()) } {
        0 => version,
        _ => 0,
    }
}

/// A parameter with a text, which has to live as long.
fn text_parameter(name: &CStr, text: &CStr) -> sys::virTypedParameter {
    let mut field = [0; 80];
    field.iter_mut().zip(name.to_bytes()).for_each(|(to, from)| *to = *from as std::ffi::c_char);
    let value = sys::_virTypedParameterValue { s: text.as_ptr().cast_mut() };
    sys::virTypedParameter { field, type_: sys::VIR_TYPED_PARAM_STRING as i32, value }
}

fn parameters(order: &Migrate, disks: &[String]) -> MigrateParameters {
    let limits = &order.limits;
    let uri = |socket: &Path| Some(format!("unix://{}", socket.display()));
    MigrateParameters {
        // libvirt counts in MiB, and takes zero for its own limit.
        bandwidth: (limits.bandwidth > 0).then(|| limits.bandwidth.div_ceil(1 << 20)),
        compression: limits.compress.then(|| "zstd".to_owned()),
        parallel_connections: connections(order).and_then(|count| i32::try_from(count).ok()),
        uri: uri(&order.sockets.memory),
        disks_uri: (!disks.is_empty()).then(|| uri(&order.sockets.disks)).flatten(),
        migrate_disks: disks.to_vec(),
        ..MigrateParameters::default()
    }
}

/// Number of parallel connections, where there is more than one.
fn connections(order: &Migrate) -> Option<u32> {
    Some(order.limits.connections).filter(|count| *count > 1)
}

fn flags(order: &Migrate, disks: &[String]) -> u32 {
    let limits = &order.limits;
    let optional = [
        (!disks.is_empty() && order.whole_disks, sys::VIR_MIGRATE_NON_SHARED_DISK),
        (!disks.is_empty() && !order.whole_disks, sys::VIR_MIGRATE_NON_SHARED_INC),
        (limits.auto_converge, sys::VIR_MIGRATE_AUTO_CONVERGE),
        (limits.post_copy, sys::VIR_MIGRATE_POSTCOPY),
        // The guest goes on at the target when that one is told that the domain here is gone. By post-copy it runs there before.
        (!limits.post_copy, sys::VIR_MIGRATE_PAUSED),
        (limits.compress, sys::VIR_MIGRATE_COMPRESSED),
        // zstd is a method of parallel connections.
        (limits.compress || connections(order).is_some(), sys::VIR_MIGRATE_PARALLEL),
    ];
    let always = sys::VIR_MIGRATE_LIVE
        | sys::VIR_MIGRATE_PEER2PEER
        | sys::VIR_MIGRATE_PERSIST_DEST
        | sys::VIR_MIGRATE_UNDEFINE_SOURCE;
    optional.into_iter().filter(|(is_set, _)| *is_set).fold(always, |flags, (_, flag)| flags | flag)
}

/// Progress of the job; `None` while there is none, or no number of it.
pub(super) fn progress(domain: &Domain) -> virt_result<Option<MigrationProgress>> {
    let (mut kind, mut count, mut parameters) = (0, 0, ptr::null_mut());
    // SAFETY: the domain is a live object of the bindings, and libvirt writes to three places of ours.
    let code =
        unsafe { sys::virDomainGetJobStats(domain.as_ptr(), &mut kind, &mut parameters, &mut count, 0) };
    done(code)?;
    // SAFETY: libvirt has made that many parameters, and frees them here.
    unsafe {
        let progress = progress_of(parameters, count);
        sys::virTypedParamsFree(parameters, count);
        Ok(progress)
    }
}

/// Progress in the parameters of a job; `None` before there are numbers.
///
/// # Safety
/// There are `count` parameters, or none and no place.
unsafe fn progress_of(parameters: *const sys::virTypedParameter, count: c_int) -> Option<MigrationProgress> {
    let count = usize::try_from(count).ok().filter(|_| !parameters.is_null())?;
    // SAFETY: as the caller says.
    let parameters = unsafe { std::slice::from_raw_parts(parameters, count) };
    let number = |name: &CStr| {
        let found = parameters.iter().find(|parameter| is_named(parameter, name))?;
        match found.type_ as u32 {
            // SAFETY: the type says which number it is.
            sys::VIR_TYPED_PARAM_ULLONG => Some(unsafe { found.value.ul }),
            _ => None,
        }
    };
    let of = |name| number(name).unwrap_or_default();
    Some(MigrationProgress {
        total: number(c"data_total")?,
        processed: of(c"data_processed"),
        remaining: of(c"data_remaining"),
        bytes_per_second: of(c"memory_bps"),
        // libvirt tells pages.
        dirty_bytes_per_second: of(c"memory_dirty_rate").saturating_mul(of(c"memory_page_size")),
        iteration: of(c"memory_iteration"),
        downtime_ms: of(c"downtime"),
    })
}

fn is_named(parameter: &sys::virTypedParameter, name: &CStr) -> bool {
    let field = parameter.field.iter().map(|letter| *letter as u8);
    field.take_while(|letter| *letter != 0).eq(name.to_bytes().iter().copied())
}

/// Aborts the job of the domain.
pub(super) fn abort(domain: &Domain) -> virt_result<()> {
    // SAFETY: the domain is a live object of the bindings.
    done(unsafe { sys::virDomainAbortJob(domain.as_ptr()) })
}

/// Lets the guest go on at the target.
pub(super) fn start_post_copy(domain: &Domain) -> virt_result<()> {
    // SAFETY: the domain is a live object of the bindings.
    done(unsafe { sys::virDomainMigrateStartPostCopy(domain.as_ptr(), 0) })
}

fn done(code: i32) -> virt_result<()> {
    match code {
        0 => Ok(()),
        _ => Err(virt::error::Error::last_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::{MigrationLimits, MigrationSockets};

    fn order(limits: MigrationLimits) -> Migrate {
        let sockets = MigrationSockets {
            libvirt: "/r/l".into(),
            memory: "/r/m".into(),
            disks: "/r/d".into(),
            release: "/r/l-release".into(),
        };
        Migrate { id: "m".into(), sockets, copied_disks: Vec::new(), whole_disks: false, limits }
    }

    fn parameter(name: &str, kind: u32, value: u64) -> sys::virTypedParameter {
        let mut field = [0; 80];
        field.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as std::ffi::c_char);
        sys::virTypedParameter {
            field,
            type_: kind as i32,
            value: sys::_virTypedParameterValue { ul: value },
        }
    }

    #[test]
    fn parameters_of_a_job_become_its_progress_and_others_are_passed_over() {
        let number = sys::VIR_TYPED_PARAM_ULLONG;
        let all = [
            parameter("operation", sys::VIR_TYPED_PARAM_INT, 5),
            parameter("data_total", number, 100),
            parameter("data_remaining", number, 40),
            parameter("data_remaining_of_later", number, 9),
            parameter("memory_dirty_rate", number, 3),
            parameter("memory_page_size", number, 4096),
            parameter("downtime", sys::VIR_TYPED_PARAM_INT, 7),
        ];
        let of = |all: &[sys::virTypedParameter]| unsafe { progress_of(all.as_ptr(), all.len() as c_int) };
        let expected = MigrationProgress {
            total: 100,
            remaining: 40,
            dirty_bytes_per_second: 12288,
            ..MigrationProgress::default()
        };
        assert_eq!(of(&all), Some(expected));
        assert_eq!(of(&all[..1]), None, "there is no number yet");
        assert_eq!(unsafe { progress_of(ptr::null(), 0) }, None);
    }

    #[test]
    fn a_text_is_a_parameter_of_libvirts_form() {
        assert!(version() >= 8_002_000, "{}", version());
        let made = text_parameter(DETECT_ZEROES, c"vda");
        assert!(is_named(&made, DETECT_ZEROES) && made.type_ == sys::VIR_TYPED_PARAM_STRING as i32);
        // SAFETY: the text is a constant.
        assert_eq!(unsafe { CStr::from_ptr(made.value.s) }, c"vda");
    }

    #[test]
    fn an_order_becomes_flags_and_parameters() {
        let plain = order(MigrationLimits::default());
        let always = flags(&plain, &[]);
        assert_eq!(always & sys::VIR_MIGRATE_PEER2PEER, sys::VIR_MIGRATE_PEER2PEER);
        assert_eq!(always & (sys::VIR_MIGRATE_TUNNELLED | sys::VIR_MIGRATE_UNSAFE), 0);
        assert_eq!(always & sys::VIR_MIGRATE_PAUSED, sys::VIR_MIGRATE_PAUSED);
        let post_copy = order(MigrationLimits { post_copy: true, ..MigrationLimits::default() });
        assert_eq!(flags(&post_copy, &[]) & sys::VIR_MIGRATE_PAUSED, 0);
        let set = parameters(&plain, &[]);
        assert_eq!((set.uri.as_deref(), set.disks_uri, set.bandwidth), (Some("unix:///r/m"), None, None));

        let disks = ["vda".to_owned()];
        let limits = MigrationLimits {
            bandwidth: (64 << 20) + 1,
            compress: true,
            connections: 4,
            ..Default::default()
        };
        let hurried = order(limits);
        let added = flags(&hurried, &disks) & !always;
        let wanted =
            sys::VIR_MIGRATE_NON_SHARED_INC | sys::VIR_MIGRATE_COMPRESSED | sys::VIR_MIGRATE_PARALLEL;
        assert_eq!(added, wanted);
        let set = parameters(&hurried, &disks);
        assert_eq!((set.bandwidth, set.parallel_connections), (Some(65), Some(4)));
        assert_eq!((set.disks_uri.as_deref(), &set.migrate_disks[..]), (Some("unix:///r/d"), &disks[..]));
        let whole = Migrate { whole_disks: true, ..order(MigrationLimits::default()) };
        assert_eq!(flags(&whole, &disks) & !always, sys::VIR_MIGRATE_NON_SHARED_DISK);
    }
}
