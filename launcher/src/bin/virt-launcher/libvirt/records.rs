//! libvirt's statistics of a domain's vCPUs and disks in one call, with times that the bindings do not
//! return.
#![allow(unsafe_code)] // C structures: the bindings leave them as they are.

use super::from_libvirt;
use api::launcher::{DiskStats, VcpuState, VcpuStats};
use launcher::hypervisor::Result;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr;
use virt::domain::Domain;
use virt::sys;

/// Most vCPUs, and most disks, that are read.
const MOST: u64 = 1024;
/// Groups of statistics that are requested.
const WHICH: sys::virDomainStatsTypes =
    sys::VIR_DOMAIN_STATS_CPU_TOTAL | sys::VIR_DOMAIN_STATS_VCPU | sys::VIR_DOMAIN_STATS_BLOCK | DIRTY_RATE;
/// `VIR_DOMAIN_STATS_DIRTYRATE` of libvirt 7.2, which the bindings do not have.
const DIRTY_RATE: sys::virDomainStatsTypes = 1 << 9;
/// Duration of a measurement of the dirty rate, in seconds. QEMU compares a few pages of each GiB, at no
/// notable cost to the guest.
const MEASURED_FOR: c_int = 1;
/// States of the measurement (`virDomainDirtyRateStatus`).
const MEASURING: u64 = 1;
const MEASURED: u64 = 2;

unsafe extern "C" {
    /// Starts a measurement of the dirty rate, and returns at once. The bindings do not have it.
    fn virDomainStartDirtyRateCalc(domain: sys::virDomainPtr, seconds: c_int, flags: c_uint) -> c_int;
}

/// libvirt's fields of a domain, by their names.
#[derive(Debug, Default)]
pub(super) struct Records {
    numbers: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
}

impl Records {
    /// Reads the fields of a domain. The dirty rate is that since the previous call: each call starts a
    /// measurement for the next one.
    pub(super) fn of(domain: &Domain, doing: &str) -> Result<Records> {
        let mut records = Records::default();
        List::of(domain, WHICH, doing)?.each(|name, field| match value(field) {
            Some(Value::Number(number)) => drop(records.numbers.insert(name, number)),
            Some(Value::Text(text)) => drop(records.texts.insert(name, text)),
            None => {}
        });
        // Not started if QEMU cannot measure it.
        if records.number("dirtyrate.calc_status").is_some_and(|status| status != MEASURING) {
            // SAFETY: the domain is held by the caller. A failure leaves the rate unknown.
            unsafe { virDomainStartDirtyRateCalc(domain.as_ptr(), MEASURED_FOR, 0) };
        }
        Ok(records)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    /// CPU time in user mode, and in system mode, in nanoseconds.
    pub(super) fn cpu(&self) -> (Option<u64>, Option<u64>) {
        (self.number("cpu.user"), self.number("cpu.system"))
    }

    /// Bytes that the guest writes to its memory each second.
    pub(super) fn dirty_rate(&self) -> Option<u64> {
        let is_measured = self.number("dirtyrate.calc_status") == Some(MEASURED);
        let mebibytes = self.number("dirtyrate.megabytes_per_second").filter(|_| is_measured)?;
        mebibytes.checked_mul(1 << 20)
    }

    /// The existing vCPUs, by number.
    pub(super) fn vcpus(&self) -> BTreeMap<u32, VcpuStats> {
        let all = self.number("vcpu.maximum").unwrap_or_default().min(MOST);
        let one = |id: u32| {
            let number = |field: &str| self.number(&format!("vcpu.{id}.{field}"));
            let state = match number("state")? {
                1 => VcpuState::Running,
                2 => VcpuState::Blocked,
                _ => VcpuState::Offline,
            };
            let ns = number("time").unwrap_or_default();
            Some((id, VcpuStats { state, ns, wait_ns: number("wait"), delay_ns: number("delay") }))
        };
        (0..u32::try_from(all).unwrap_or_default()).filter_map(one).collect()
    }

    /// The disks with media, by target name.
    pub(super) fn disks(&self) -> BTreeMap<String, DiskStats> {
        let all = self.number("block.count").unwrap_or_default().min(MOST);
        let one = |at: u64| {
            let number = |field: &str| self.number(&format!("block.{at}.{field}"));
            let count = |field: &str| number(field).unwrap_or_default();
            let name = self.texts.get(&format!("block.{at}.name"))?;
            let stats = DiskStats {
                reads: number("rd.reqs")?,
                read_bytes: count("rd.bytes"),
                writes: count("wr.reqs"),
                written_bytes: count("wr.bytes"),
                flushes: count("fl.reqs"),
                read_ns: count("rd.times"),
                write_ns: count("wr.times"),
                flush_ns: count("fl.times"),
            };
            Some((name.clone(), stats))
        };
        (0..all).filter_map(one).collect()
    }
}

/// Value of a field.
enum Value {
    Number(u64),
    Text(String),
}

/// libvirt's list, which is freed with this.
struct List {
    all: *mut sys::virDomainStatsRecordPtr,
    count: usize,
}

/// All fields of a domain in libvirt's order, each value as `virsh` writes it.
pub(super) fn all(domain: &Domain, doing: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    List::of(domain, 0, doing)?.each(|name, field| found.extend(written(field).map(|value| (name, value))));
    Ok(found)
}

impl List {
    /// The fields of a domain: of these groups, or of all that its driver knows.
    fn of(domain: &Domain, which: sys::virDomainStatsTypes, doing: &str) -> Result<List> {
        let mut domains = [domain.as_ptr(), ptr::null_mut()];
        let mut list: *mut sys::virDomainStatsRecordPtr = ptr::null_mut();
        // SAFETY: `domains` ends with null, and its domain is held by the caller; `list` is set where the
        // call succeeds.
        let count = unsafe { sys::virDomainListGetStats(domains.as_mut_ptr(), which, &raw mut list, 0) };
        let list = List { all: list, count: usize::try_from(count).unwrap_or_default() };
        match count < 0 {
            true => Err(from_libvirt::error(doing, &virt::error::Error::last_error())),
            false => Ok(list),
        }
    }

    fn each(&self, mut tell: impl FnMut(String, &sys::virTypedParameter)) {
        for at in 0..self.count {
            // SAFETY: libvirt made a list of `count` pointers, and it is not freed yet.
            let record = unsafe { *self.all.add(at) };
            if record.is_null() {
                return;
            }
            // SAFETY: not null, so it is a record, which is freed with the list.
            let record = unsafe { &*record };
            for at in 0..usize::try_from(record.nparams).unwrap_or_default() {
                // SAFETY: a record has `nparams` fields.
                let field = unsafe { &*record.params.add(at) };
                tell(text(field.field.as_ptr()), field);
            }
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.all.is_null() {
            // SAFETY: libvirt made the list and gave it away; nothing of it is used any more.
            unsafe { sys::virDomainStatsRecordListFree(self.all) };
        }
    }
}

/// The value of a field; `None` if it is negative or of a type that is not used here.
fn value(field: &sys::virTypedParameter) -> Option<Value> {
    let kind = sys::virTypedParameterType::try_from(field.type_).ok()?;
    // SAFETY: the kind says which member of the union was written; a text is a C string that is freed with
    // the list.
    let number = unsafe {
        match kind {
            sys::VIR_TYPED_PARAM_INT => i128::from(field.value.i),
            sys::VIR_TYPED_PARAM_UINT => i128::from(field.value.ui),
            sys::VIR_TYPED_PARAM_LLONG => i128::from(field.value.l),
            sys::VIR_TYPED_PARAM_ULLONG => i128::from(field.value.ul),
            sys::VIR_TYPED_PARAM_STRING if !field.value.s.is_null() => {
                return Some(Value::Text(text(field.value.s)));
            }
            _ => return None,
        }
    };
    u64::try_from(number).ok().map(Value::Number)
}

/// The value of a field as `virsh` writes it; `None` for an unknown type.
fn written(field: &sys::virTypedParameter) -> Option<String> {
    let kind = sys::virTypedParameterType::try_from(field.type_).ok()?;
    // SAFETY: the kind says which member of the union was written; a text is a C string that is freed with
    // the list.
    unsafe {
        match kind {
            sys::VIR_TYPED_PARAM_INT => Some(field.value.i.to_string()),
            sys::VIR_TYPED_PARAM_UINT => Some(field.value.ui.to_string()),
            sys::VIR_TYPED_PARAM_LLONG => Some(field.value.l.to_string()),
            sys::VIR_TYPED_PARAM_ULLONG => Some(field.value.ul.to_string()),
            sys::VIR_TYPED_PARAM_DOUBLE => Some(format!("{:.2}", field.value.d)),
            sys::VIR_TYPED_PARAM_BOOLEAN => Some(if field.value.b == 0 { "no" } else { "yes" }.to_owned()),
            sys::VIR_TYPED_PARAM_STRING if !field.value.s.is_null() => Some(text(field.value.s)),
            _ => None,
        }
    }
}

/// A C string of libvirt's.
fn text(from: *const c_char) -> String {
    // SAFETY: called with the name of a field, which ends inside of its 80 bytes, or with a text that is not
    // null.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(numbers: &[(&str, u64)], texts: &[(&str, &str)]) -> Records {
        Records {
            numbers: numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
            texts: texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
        }
    }

    #[test]
    fn times_of_vcpus_and_disks_are_read_by_number() {
        let found = records(
            &[
                ("cpu.user", 5),
                ("vcpu.maximum", 3),
                ("vcpu.0.state", 1),
                ("vcpu.0.time", 7),
                ("vcpu.0.delay", 8),
                ("vcpu.2.state", 2),
                ("block.count", 2),
                ("block.0.rd.reqs", 1),
                ("block.0.rd.times", 2),
                ("block.0.fl.reqs", 3),
                ("block.0.fl.times", 4),
            ],
            &[("block.0.name", "vda"), ("block.1.name", "sda")],
        );
        assert_eq!(found.cpu(), (Some(5), None));
        let running = VcpuStats { state: VcpuState::Running, ns: 7, wait_ns: None, delay_ns: Some(8) };
        let blocked = VcpuStats { state: VcpuState::Blocked, ..VcpuStats::default() };
        assert_eq!(found.vcpus(), [(0, running), (2, blocked)].into());
        let disk = DiskStats { reads: 1, read_ns: 2, flushes: 3, flush_ns: 4, ..DiskStats::default() };
        // The tray of the other is empty.
        assert_eq!(found.disks(), [("vda".to_owned(), disk)].into());
        assert!(records(&[("vcpu.maximum", u64::MAX), ("block.count", u64::MAX)], &[]).vcpus().is_empty());
    }

    #[test]
    fn a_dirty_rate_is_known_when_it_was_measured() {
        let rate = |status: u64, rate: u64| {
            let fields = [("dirtyrate.calc_status", status), ("dirtyrate.megabytes_per_second", rate)];
            records(&fields, &[]).dirty_rate()
        };
        assert_eq!(rate(MEASURED, 3), Some(3 << 20));
        assert_eq!((rate(MEASURING, 3), rate(0, 0), rate(MEASURED, u64::MAX)), (None, None, None));
        assert_eq!(records(&[], &[]).dirty_rate(), None);
    }

    #[test]
    fn fields_are_read_by_their_kind() {
        let mut field = sys::virTypedParameter {
            field: [0; 80],
            type_: 3,
            value: sys::_virTypedParameter__bindgen_ty_1 { l: -1 },
        };
        assert!(value(&field).is_none(), "below zero");
        field.value.l = 9;
        assert!(matches!(value(&field), Some(Value::Number(9))));
        field.type_ = 5;
        assert!(value(&field).is_none(), "a fraction");
        (field.type_, field.value.s) = (7, ptr::null_mut());
        assert!(value(&field).is_none(), "no text");
        field.type_ = -1;
        assert!(value(&field).is_none() && written(&field).is_none(), "no kind");
        (field.type_, field.value.l) = (3, -1);
        assert_eq!(written(&field).as_deref(), Some("-1"));
        (field.type_, field.value.b) = (6, 1);
        assert_eq!(written(&field).as_deref(), Some("yes"));
        (field.type_, field.value.d) = (5, 1.5);
        assert_eq!(written(&field).as_deref(), Some("1.50"));
    }
}
