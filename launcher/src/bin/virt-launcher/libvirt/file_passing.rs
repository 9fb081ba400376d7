//! Files that QEMU gets through its monitor. libvirt 8.2 and later pass one with a command.
#![allow(unsafe_code)] // a call that the bindings leave as it is

use super::from_libvirt;
use launcher::hypervisor::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use virt::domain::Domain;
use virt::sys;

/// Gives QEMU a file under this label. A file that it has under the label is closed.
pub(super) fn pass(domain: &Domain, label: &str, file: BorrowedFd<'_>, doing: &str) -> Result<()> {
    let command = json!({"execute": "getfd", "arguments": {"fdname": label}}).to_string();
    let command = CString::new(command).map_err(|e| Error::new(ErrorKind::Invalid, doing, e.to_string()))?;
    let mut files = [file.as_raw_fd()];
    let mut answer = ptr::null_mut();
    // SAFETY: domain and file are open, libvirt reads one number from `files` and passes a copy of the file on; it accepts that
    // the files of the answer are not wanted, and writes the answer where it is asked to.
    let failed = unsafe {
        sys::virDomainQemuMonitorCommandWithFiles(
            domain.as_ptr(),
            command.as_ptr(),
            1,
            files.as_mut_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            &raw mut answer,
            sys::VIR_DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT,
        )
    } < 0;
    if failed {
        return Err(from_libvirt::error(doing, &virt::error::Error::last_error()));
    }
    // SAFETY: libvirt made the text and gave it away; it is freed once, after it was copied.
    let text = unsafe {
        let text = CStr::from_ptr(answer).to_string_lossy().into_owned();
        libc::free(answer.cast());
        text
    };
    refusal(&text).map_or(Ok(()), |why| Err(Error::new(ErrorKind::Failed, doing, why)))
}

/// QEMU's reason, if it has refused a command. libvirt passes the answer on as it is.
fn refusal(answer: &str) -> Option<String> {
    let answer: Value = match serde_json::from_str(answer) {
        Ok(answer) => answer,
        Err(e) => return Some(format!("QEMU's answer is not JSON: {e}")),
    };
    if answer.get("return").is_some() {
        return None;
    }
    let why = answer.pointer("/error/desc").and_then(Value::as_str);
    Some(why.unwrap_or("QEMU's answer is neither a result nor an error").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_in_the_answer() {
        assert_eq!(refusal(r#"{"return":{},"id":"libvirt-412"}"#), None);
        let refused = r#"{"id":"libvirt-12","error":{"class":"GenericError","desc":"No file descriptor"}}"#;
        assert_eq!(refusal(refused).unwrap(), "No file descriptor");
        for broken in ["", "{}", "[]", "null", r#"{"error":{"desc":1}}"#] {
            assert!(refusal(broken).unwrap().contains("QEMU's answer is"), "{broken}");
        }
    }
}
