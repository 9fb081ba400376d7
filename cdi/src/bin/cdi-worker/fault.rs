//! Conversion of the engine's errors to a reason in one word, a message for the status of a DataVolume, and
//! the decision about another attempt.
//!
//! | reason | retry | cause |
//! |---|---|---|
//! | `NotFound`, `Forbidden` | no | 404 and 410; 401, 403 and 407 |
//! | `ChecksumError` | no | the checksum of the DataVolume |
//! | `DataVolumeTooSmall` | no | the message has the bytes of the disk, of the volume, and the missing ones; virt-controller gets the size as a number, and may enlarge the PVC |
//! | `MemoryLimit` | no | the message has a memory limit that suffices |
//! | `InvalidImage`, `InvalidArchive` | no | hostile, broken, or not supported |
//! | `InvalidJob` | no | the job makes no sense |
//! | `DevicePermission` | no | the pod's user may not write the block device, or not read the disk |
//! | `Refused` | no | export: the disk, or a name that the registry rejects |
//! | `NoSpace` | yes | the file system is full; it may grow. Also of an archive that fits the size of the volume |
//! | `Killed` | yes | the converting process was killed, perhaps by the memory limit; after ten times in a row: `MemoryLimit` |
//! | `Failed` | yes | everything else: a connection, a server |
//!
//! The engine's messages are for a command line. Their advice about flags is of no use in a pod and is left
//! out. Sizes and memory in its errors ([`Detail`]) are reported in the terms of a DataVolume. No kind of
//! error is recognised by the text of a message.

use crate::protocol::Fault;
use api::job::export::Disk;
use api::job::{Export, Import, Target};
use cdi::source::FileSource;
use cdi::{Detail, Error, ErrorKind};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Reason of an error without a more specific one.
pub(crate) const FAILED: &str = "Failed";
/// Reason of a disk, or an archive, that does not fit.
pub(crate) const TOO_SMALL: &str = "DataVolumeTooSmall";
/// Reason of a converting process that was killed, perhaps by the memory limit.
pub(crate) const KILLED: &str = "Killed";
/// Reason of a full file system.
pub(crate) const NO_SPACE: &str = "NoSpace";
/// Reason of a process that was asked to end.
pub(crate) const INTERRUPTED: &str = "Interrupted";

/// Advice on how a user other than root gets access to a block device.
const DEVICES: &str =
    "set device_ownership_from_security_context in the configuration of the container runtime";

/// Memory of a pod that no plan counts: the listening process, the kernel's memory for sockets and pages.
pub(crate) const BASE: u64 = 32 << 20;

/// The fault for an error of an import.
pub(crate) fn of(error: &Error, job: &Import) -> Fault {
    let final_fault = |reason: &str, message: String| Fault {
        reason: reason.to_owned(),
        message,
        may_retry: false,
        ..Fault::default()
    };
    match (error.kind(), error.detail()) {
        (ErrorKind::NotFound, _) => final_fault("NotFound", sentence(error)),
        (ErrorKind::Auth, _) => final_fault("Forbidden", sentence(error)),
        // Other files take the space at present.
        (ErrorKind::Refused, Some(&Detail::Files { bytes, .. }))
            if job.size.is_some_and(|size| bytes <= size) =>
        {
            Fault { may_retry: true, ..final_fault(NO_SPACE, sentence(error)) }
        }
        (ErrorKind::Usage | ErrorKind::Refused, Some(detail)) => {
            let (reason, message) = of_detail(error, detail, job);
            let required = match *detail {
                Detail::TooLarge { disk, .. } => Some(disk),
                _ => None,
            };
            Fault { required, ..final_fault(reason, message) }
        }
        (ErrorKind::Usage, None) => final_fault("InvalidJob", sentence(error)),
        (ErrorKind::Refused, None) => final_fault(invalid(job), sentence(error)),
        (ErrorKind::Failed, Some(Detail::Denied(path))) if is_device(path, job) => {
            final_fault("DevicePermission", format!("{}; {DEVICES}", sentence(error)))
        }
        (ErrorKind::Interrupted | ErrorKind::Failed, _) => {
            let reason = match error.kind() {
                ErrorKind::Interrupted => INTERRUPTED,
                _ if is_full(error) => NO_SPACE,
                _ => FAILED,
            };
            Fault { reason: reason.to_owned(), message: sentence(error), may_retry: true, ..Fault::default() }
        }
    }
}

/// The fault for an attempt that did not start. A node that has no process, file or memory to spare may have
/// one later.
pub(crate) fn of_start(error: &Error) -> Fault {
    const SPARE: [Errno; 4] = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let is_spare = |e: &io::Error| Errno::from_io_error(e).is_some_and(|e| SPARE.contains(&e));
    let may_retry = error_core::causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| is_spare(e) || e.kind() == io::ErrorKind::OutOfMemory);
    Fault { reason: FAILED.to_owned(), message: sentence(error), may_retry, ..Fault::default() }
}

/// The fault for an error of an export.
pub(crate) fn of_export(error: &Error, job: &Export) -> Fault {
    let text = error.to_string();
    let is_denied = matches!(error.detail(), Some(Detail::Denied(path)) if path == job.disk.path());
    let (reason, message) = match (error.kind(), &job.disk) {
        (ErrorKind::NotFound, _) => ("NotFound", sentence(error)),
        (ErrorKind::Auth, _) => ("Forbidden", sentence(error)),
        (ErrorKind::Usage, _) => ("InvalidJob", sentence(error)),
        (ErrorKind::Refused, _) => match error.detail() {
            Some(&Detail::Memory(bytes)) => memory_limit(error, bytes),
            _ => ("Refused", sentence(error)),
        },
        (ErrorKind::Failed, Disk::Device(_)) if is_denied => {
            ("DevicePermission", format!("{}; {DEVICES}", sentence(error)))
        }
        (ErrorKind::Failed, Disk::File(_)) if is_denied => ("DevicePermission", sentence(error)),
        (ErrorKind::Failed, _) if is_refused(&text) => ("Refused", sentence(error)),
        (ErrorKind::Interrupted, _) => (INTERRUPTED, sentence(error)),
        (ErrorKind::Failed, _) => (FAILED, sentence(error)),
    };
    let may_retry = matches!(reason, INTERRUPTED | FAILED);
    Fault { reason: reason.to_owned(), message, may_retry, ..Fault::default() }
}

/// True if the registry rejects a name, a document or a method, and will do so again. Errors of an upload in
/// progress are not final, since the registry may have lost its part.
fn is_refused(text: &str) -> bool {
    let Some((url, rest)) = text.split_once(": the server answered ") else { return false };
    let is_final =
        ["400 ", "405 ", "406 ", "411 ", "413 ", "415 ", "422 "].iter().any(|code| rest.starts_with(code));
    is_final && !url.contains("/blobs/uploads/")
}

/// Reason of an input that is hostile, broken or not supported.
fn invalid(job: &Import) -> &'static str {
    if matches!(job.target, Target::Folder(_)) { "InvalidArchive" } else { "InvalidImage" }
}

/// Reason and message of an error with structured data, in the terms of a DataVolume.
fn of_detail(error: &Error, detail: &Detail, job: &Import) -> (&'static str, String) {
    const KNOWN: &str = "DataVolume too small to contain image";
    match *detail {
        // Tools match the words before the colon.
        Detail::TooLarge { disk, room } => {
            let missing = disk.saturating_sub(room);
            let message = format!(
                "{KNOWN}: the disk has {disk} bytes, the volume holds {room}, {missing} are missing; request a larger volume"
            );
            (TOO_SMALL, message)
        }
        // The size of the stream is known at its end only, and it exceeded the volume before.
        Detail::Behind { size } if volume(job) == Some(size) => {
            let message = format!(
                "{KNOWN}: the volume holds {size} bytes and the disk has more; how many more, a compressed stream tells at its \
                 end alone; request a larger volume"
            );
            (TOO_SMALL, message)
        }
        Detail::Files { ref name, bytes, room } => {
            let what = format!(
                "DataVolume too small to contain archive: with {name} its files have {bytes} bytes, the volume holds {room}, {} \
                 are missing; request a larger volume",
                bytes.saturating_sub(room)
            );
            (TOO_SMALL, printable::line(&what))
        }
        Detail::Memory(bytes) => memory_limit(error, bytes),
        Detail::Checksum => ("ChecksumError", sentence(error)),
        Detail::Behind { .. } | Detail::Denied(_) => (invalid(job), sentence(error)),
    }
}

/// Reason and message with the memory limit that a plan, or a decoder, needs.
fn memory_limit(error: &Error, bytes: u64) -> (&'static str, String) {
    let limit = bytes.saturating_add(BASE);
    ("MemoryLimit", format!("{}; the pod needs a memory limit of {limit} bytes", sentence(error)))
}

fn is_device(path: &Path, job: &Import) -> bool {
    matches!(&job.target, Target::Device(device) if device == path)
}

/// Bytes of the volume: the requested size, or that of a device.
fn volume(job: &Import) -> Option<u64> {
    let device = match &job.target {
        Target::Device(path) => FileSource::size_of_device(path).ok(),
        Target::File(_) | Target::Folder(_) => None,
    };
    device.max(job.size)
}

/// True if a file system is full.
pub(crate) fn is_full(error: &Error) -> bool {
    error_core::causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// An error and its causes, without advice for a command line.
fn sentence(error: &Error) -> String {
    let mut line = without_flags(&error.to_string());
    for cause in error_core::causes(error) {
        let text = without_flags(&cause.to_string());
        // A cause that the text contains already is not repeated.
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
    }
    printable::line(&line)
}

fn without_flags(text: &str) -> String {
    let is_advice = |part: &&str| part.contains("--") || part.contains("the same command");
    let (first, rest) = text.split_once("; ").unwrap_or((text, ""));
    let kept = rest.split("; ").filter(|part| !part.is_empty() && !is_advice(part));
    std::iter::once(first).chain(kept).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::job::Source;
    use cdi::plan::{ConvertOptions, Facts, Output, SourceAccess, plan};
    use cdi::source::SourceFacts;
    use cdi::target::Destination;
    use disk_format::Format;

    fn job(target: Target) -> Import {
        Import { source: Source::Blank, target, size: None, preallocate: false }
    }

    fn device() -> Target {
        Target::Device("/dev/cdi-block-volume".into())
    }

    /// A busy node has none to spare for a moment; a program that is not there stays away.
    #[test]
    fn an_attempt_that_did_not_start_is_tried_again_where_the_node_may_have_a_process_later() {
        for (errno, may_retry) in [
            (Errno::AGAIN, true),
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOMEM, true),
            (Errno::NOENT, false),
            (Errno::ACCESS, false),
        ] {
            let fault = of_start(&Error::io("cannot start the process that converts", errno));
            assert_eq!((fault.may_retry, fault.reason.as_str()), (may_retry, FAILED), "{errno:?}");
            assert!(fault.message.starts_with("cannot start the process that converts"), "{}", fault.message);
        }
    }

    #[test]
    fn a_device_that_is_too_small_is_told_with_its_missing_bytes() {
        let source = SourceFacts {
            name: "http://h/x".into(),
            size: None,
            seekable: true,
            remote: true,
            plain: false,
            reentry: false,
            identity: None,
        };
        let facts = Facts {
            source,
            layers: vec![],
            format: Format::Raw,
            kept: None,
            leftover: None,
            virtual_size: Some(3 << 20),
            target: Destination::Device("/dev/cdi-block-volume".into()),
            room: Some(1 << 20),
            output: Output::Raw,
        };
        let way: SourceAccess = SourceAccess::Seek(());
        let error = plan(facts, way, &ConvertOptions::with_threads(1)).unwrap_err();
        let fault = of(&error, &job(device()));
        assert_eq!((fault.reason.as_str(), fault.may_retry), ("DataVolumeTooSmall", false));
        let begins = "DataVolume too small to contain image: the disk has 3145728 bytes, the volume holds 1048576, \
                      2097152 are missing";
        assert!(fault.message.starts_with(begins), "{}", fault.message);
        assert_eq!(fault.required, Some(3 << 20));
    }

    #[test]
    fn a_device_of_another_user_ends_the_job_with_the_setting_that_gives_it() {
        for text in [
            "no permission to read /dev/cdi-block-volume",
            "no permission to write the device /dev/cdi-block-volume",
        ] {
            let denied = || Error::failed(text).with_detail(Detail::Denied("/dev/cdi-block-volume".into()));
            let fault = of(&denied(), &job(device()));
            assert_eq!((fault.reason.as_str(), fault.may_retry), ("DevicePermission", false));
            assert!(fault.message.contains("device_ownership_from_security_context"), "{}", fault.message);
            assert!(of(&denied(), &job(Target::File("/data/disk.img".into()))).may_retry);
            assert!(of(&Error::failed(text), &job(device())).may_retry, "words alone say nothing");
        }
    }

    #[test]
    fn an_export_ends_where_the_registry_will_say_no_again() {
        let target = api::job::Registry {
            url: "docker://h/os:1".into(),
            architecture: None,
            login: None,
            ca: None,
            insecure: false,
            settings: std::collections::BTreeMap::new(),
        };
        let job = Export {
            disk: Disk::Device("/dev/cdi-block-volume".into()),
            target,
            format: None,
            layer: api::job::export::Compression::Zstd,
            labels: std::collections::BTreeMap::new(),
        };
        let reason = |error: Error| {
            let fault = of_export(&error, &job);
            (fault.reason, fault.may_retry)
        };
        let is = |reason: &str, may_retry: bool| (reason.to_owned(), may_retry);
        let answered = |path: &str, status: &str| {
            reason(Error::failed(format!("https://h/v2/os/{path}: the server answered {status}")))
        };
        assert_eq!(answered("manifests/1", "400 Bad Request"), is("Refused", false));
        assert_eq!(answered("blobs/sha256:00", "405 Method Not Allowed"), is("Refused", false));
        assert_eq!(answered("blobs/uploads/1", "400 Bad Request"), is("Failed", true), "it lost the upload");
        assert_eq!(answered("manifests/1", "503 Service Unavailable"), is("Failed", true));
        assert_eq!(answered("manifests/1", "429 Too Many Requests"), is("Failed", true));
        assert_eq!(reason(Error::new(ErrorKind::Auth, "401")), is("Forbidden", false));
        assert_eq!(
            reason(Error::failed("denied").with_detail(Detail::Denied("/dev/cdi-block-volume".into()))),
            is("DevicePermission", false)
        );
        let other = Error::failed("denied").with_detail(Detail::Denied("/dev/other".into()));
        assert_eq!(reason(other), is("Failed", true));
    }

    #[test]
    fn advice_for_a_command_line_is_left_out_and_causes_are_kept() {
        let cause = io::Error::other("invalid peer certificate");
        let error = Error::failed("https://h/x: TLS with h failed; name a file with its CA: --cacert FILE")
            .with_hint("x.partial and its journal stay; the same command goes on from there")
            .because(cause);
        let fault = of(&error, &job(device()));
        let expected =
            "https://h/x: TLS with h failed; x.partial and its journal stay: invalid peer certificate";
        assert_eq!(fault.message, expected);
        let full = Error::failed("the disk is full").because(io::Error::from(io::ErrorKind::StorageFull));
        let fault = of(&full, &job(device()));
        assert_eq!((fault.reason.as_str(), fault.may_retry), ("NoSpace", true));
    }
}
