//! libvirt's numbers and messages as our types. Pure.

use api::architecture::Arch;
use api::launcher::{InterfaceStats, MemoryStats};
use launcher::hypervisor::{Condition, End, Error, ErrorKind, Event, Pause};
use std::time::Duration;
use virt::error::ErrorNumber;
use virt::sys;

/// A version as a text: libvirt's number has millions and thousands.
pub(super) fn version(number: u32) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000)
}

/// State of a domain.
pub(super) fn condition(state: sys::virDomainState, reason: i32) -> Condition {
    let reason = u32::try_from(reason).unwrap_or_default();
    match state {
        sys::VIR_DOMAIN_RUNNING | sys::VIR_DOMAIN_BLOCKED | sys::VIR_DOMAIN_PMSUSPENDED => Condition::Running,
        sys::VIR_DOMAIN_PAUSED => Condition::Paused(pause(reason)),
        sys::VIR_DOMAIN_SHUTDOWN => Condition::Ending,
        sys::VIR_DOMAIN_CRASHED => Condition::Off(End::Crashed),
        sys::VIR_DOMAIN_SHUTOFF => Condition::Off(match reason {
            sys::VIR_DOMAIN_SHUTOFF_SHUTDOWN => End::Shutdown,
            sys::VIR_DOMAIN_SHUTOFF_DESTROYED => End::Destroyed,
            sys::VIR_DOMAIN_SHUTOFF_CRASHED => End::Crashed,
            sys::VIR_DOMAIN_SHUTOFF_MIGRATED | sys::VIR_DOMAIN_SHUTOFF_SAVED => End::Left,
            sys::VIR_DOMAIN_SHUTOFF_FAILED => End::Failed,
            // "DAEMON": the driver found no process when it came back.
            _ => End::Unknown,
        }),
        _ => Condition::Off(End::Unknown),
    }
}

fn pause(reason: u32) -> Pause {
    match reason {
        sys::VIR_DOMAIN_PAUSED_IOERROR => Pause::IoError,
        sys::VIR_DOMAIN_PAUSED_WATCHDOG => Pause::Watchdog,
        sys::VIR_DOMAIN_PAUSED_CRASHED => Pause::Panicked,
        sys::VIR_DOMAIN_PAUSED_UNKNOWN | sys::VIR_DOMAIN_PAUSED_USER => Pause::Asked,
        // A domain that is starting, too: one that migrates here has no guest yet.
        _ => Pause::Passing,
    }
}

/// An event of a domain's lifecycle; `None` if the launcher does not use it.
pub(super) fn lifecycle(event: i32, detail: i32) -> Option<Event> {
    let detail = u32::try_from(detail).unwrap_or_default();
    match u32::try_from(event).ok()? {
        sys::VIR_DOMAIN_EVENT_STARTED => Some(Event::Started),
        sys::VIR_DOMAIN_EVENT_RESUMED => Some(Event::Resumed),
        sys::VIR_DOMAIN_EVENT_SUSPENDED => Some(Event::Paused(match detail {
            sys::VIR_DOMAIN_EVENT_SUSPENDED_PAUSED => Pause::Asked,
            sys::VIR_DOMAIN_EVENT_SUSPENDED_IOERROR => Pause::IoError,
            sys::VIR_DOMAIN_EVENT_SUSPENDED_WATCHDOG => Pause::Watchdog,
            _ => Pause::Passing,
        })),
        sys::VIR_DOMAIN_EVENT_SHUTDOWN => Some(Event::Ending),
        sys::VIR_DOMAIN_EVENT_CRASHED => Some(Event::Panicked),
        sys::VIR_DOMAIN_EVENT_STOPPED => Some(Event::Ended(match detail {
            sys::VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN => End::Shutdown,
            sys::VIR_DOMAIN_EVENT_STOPPED_DESTROYED => End::Destroyed,
            sys::VIR_DOMAIN_EVENT_STOPPED_CRASHED => End::Crashed,
            sys::VIR_DOMAIN_EVENT_STOPPED_MIGRATED | sys::VIR_DOMAIN_EVENT_STOPPED_SAVED => End::Left,
            // libvirt's name for a process that is suddenly gone. The call that started a domain reports a
            // failed start.
            sys::VIR_DOMAIN_EVENT_STOPPED_FAILED => End::Crashed,
            _ => End::Unknown,
        })),
        _ => None,
    }
}

/// The reason of a closed connection.
pub(super) fn closed(reason: i32) -> &'static str {
    match u32::try_from(reason).unwrap_or_default() {
        sys::VIR_CONNECT_CLOSE_REASON_EOF => "libvirt's daemon has gone away",
        sys::VIR_CONNECT_CLOSE_REASON_KEEPALIVE => "libvirt's daemon does not answer any more",
        sys::VIR_CONNECT_CLOSE_REASON_CLIENT => "the connection to libvirt was closed",
        _ => "the connection to libvirt broke",
    }
}

/// Name of the disk with an alias of ours.
pub(super) fn disk_of(alias: &str) -> String {
    alias.strip_prefix("ua-").unwrap_or(alias).to_owned()
}

/// True if a running domain's description shows the guest agent's channel as open.
pub(super) fn agent_is_connected(xml: &str) -> bool {
    let has =
        |tag: &str, text: &str| tag.contains(&format!("'{text}'")) || tag.contains(&format!("\"{text}\""));
    xml.split("<target ")
        .skip(1)
        .filter_map(|rest| rest.split('>').next())
        .any(|tag| has(tag, "org.qemu.guest_agent.0") && has(tag, "connected"))
}

/// The terminal of a domain's first serial port, where the port is one.
pub(super) fn serial(xml: &str) -> Option<&str> {
    let (_, line) = xml.split_once("<serial type='pty'")?;
    let (line, _) = line.split_once("</serial>")?;
    let (_, path) = line.split_once("<source path='")?;
    path.split('\'').next()
}

/// The devices of a kind (`disk`, `interface`) in a running domain's description, by their libvirt targets.
pub(super) fn targets<'a>(xml: &'a str, kind: &str) -> Vec<&'a str> {
    let (begin, end) = (format!("<{kind} "), format!("</{kind}>"));
    let each = xml.split(begin.as_str()).skip(1).filter_map(|rest| {
        let (device, _) = rest.split_once(end.as_str())?;
        let (_, target) = device.split_once("<target dev='")?;
        target.split('\'').next()
    });
    each.collect()
}

/// Memory statistics of a domain. libvirt counts in KiB.
pub(super) fn memory(domain: u64, stats: &[(u32, u64)]) -> MemoryStats {
    let find = |tag: u32| stats.iter().find(|(known, _)| *known == tag).map(|(_, value)| *value);
    let bytes = |tag: u32| find(tag).map(|value| value.saturating_mul(1024));
    MemoryStats {
        domain: domain.saturating_mul(1024),
        balloon: bytes(sys::VIR_DOMAIN_MEMORY_STAT_ACTUAL_BALLOON),
        resident: bytes(sys::VIR_DOMAIN_MEMORY_STAT_RSS),
        unused: bytes(sys::VIR_DOMAIN_MEMORY_STAT_UNUSED),
        available: bytes(sys::VIR_DOMAIN_MEMORY_STAT_AVAILABLE),
        usable: bytes(sys::VIR_DOMAIN_MEMORY_STAT_USABLE),
        cached: bytes(sys::VIR_DOMAIN_MEMORY_STAT_DISK_CACHES),
        swapped_in: bytes(sys::VIR_DOMAIN_MEMORY_STAT_SWAP_IN),
        swapped_out: bytes(sys::VIR_DOMAIN_MEMORY_STAT_SWAP_OUT),
        major_faults: find(sys::VIR_DOMAIN_MEMORY_STAT_MAJOR_FAULT),
        minor_faults: find(sys::VIR_DOMAIN_MEMORY_STAT_MINOR_FAULT),
    }
}

/// Traffic of an interface, from the guest's side.
pub(super) fn interface(stats: &virt::domain::InterfaceStats) -> InterfaceStats {
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    InterfaceStats {
        received_bytes: count(stats.rx_bytes),
        received_packets: count(stats.rx_packets),
        received_errors: count(stats.rx_errs),
        received_dropped: count(stats.rx_drop),
        sent_bytes: count(stats.tx_bytes),
        sent_packets: count(stats.tx_packets),
        sent_errors: count(stats.tx_errs),
        sent_dropped: count(stats.tx_drop),
    }
}

/// An error of libvirt as ours.
pub(super) fn error(doing: &str, e: &virt::error::Error) -> Error {
    let why = sentence(e.message());
    let (kind, hint) = judge(e.code(), &why);
    let error = Error::new(kind, doing, why);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// An error of a request to the guest agent.
pub(super) fn agent_error(doing: &str, patience: Duration, e: &virt::error::Error) -> Error {
    let why = sentence(e.message());
    if why.contains("not connected") || why.contains("not responding") {
        let hint = "is qemu-guest-agent installed and running in the guest?";
        Error::new(ErrorKind::NoAgent, doing, why).with_hint(hint)
    } else if why.contains("timed out") {
        let why = format!("the guest agent did not answer within {} s", patience.as_secs().max(1));
        Error::new(ErrorKind::TimedOut, doing, why)
    } else {
        error(doing, e)
    }
}

/// libvirt puts the kind of a failure before the failure ("internal error: …"); our errors have a kind of
/// their own.
fn sentence(message: &str) -> String {
    const PREFIXES: &[&str] = &[
        "internal error: ",
        "Requested operation is not valid: ",
        "operation failed: ",
        "unsupported configuration: ",
        "argument unsupported: ",
        "invalid argument: ",
    ];
    let mut text = message.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    // QEMU's output has lines and times; the last line is the reason.
    match text.split_once("process exited while connecting to monitor: ") {
        Some((_, lines)) => {
            let last = lines.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or(lines);
            format!("QEMU would not start: {}", Arch::of_host().facts().without_program(last))
        }
        None => text.lines().map(str::trim).collect::<Vec<_>>().join(" "),
    }
}

fn judge(code: ErrorNumber, why: &str) -> (ErrorKind, Option<String>) {
    let has = |text: &str| why.contains(text);
    // libvirt has one number for all of QEMU's errors, so QEMU's own sentences come first.
    if has("Failed to get \"write\" lock")
        || has("Failed to get shared \"write\" lock")
        || has("another process using")
    {
        return (ErrorKind::Busy, Some("another VM uses this disk; stop that VM first".into()));
    }
    if has("Cannot allocate memory") || has("cannot set up guest memory") {
        return (ErrorKind::NoMemory, Some("free memory on the host, or give the VM less".into()));
    }
    if has("No space left on device") || has("Disk quota exceeded") {
        return (ErrorKind::NoSpace, None);
    }
    if has("Could not access KVM kernel module") || has("failed to initialize kvm") {
        return (ErrorKind::Unsupported, Some("this host does not run KVM guests; use emulation".into()));
    }
    if has("'libvirt-qemu'") || has("user 'libvirt") {
        return (ErrorKind::Unavailable, Some(launcher::hypervisor::embed::ACCOUNT.into()));
    }
    let kind = match code {
        ErrorNumber::NoDomain => ErrorKind::NotFound,
        ErrorNumber::OperationInvalid => ErrorKind::NotNow,
        ErrorNumber::ResourceBusy => ErrorKind::Busy,
        ErrorNumber::OperationTimeout => ErrorKind::TimedOut,
        ErrorNumber::AgentUnresponsive | ErrorNumber::AgentUnsynced => ErrorKind::NoAgent,
        ErrorNumber::NoMemory => ErrorKind::NoMemory,
        ErrorNumber::OperationDenied | ErrorNumber::AuthFailed => ErrorKind::Denied,
        ErrorNumber::NoConnect | ErrorNumber::Rpc => ErrorKind::Unavailable,
        ErrorNumber::NoSupport | ErrorNumber::ConfigUnsupported | ErrorNumber::OperationUnsupported => {
            ErrorKind::Unsupported
        }
        ErrorNumber::XmlError | ErrorNumber::XmlDetail | ErrorNumber::InvalidArg => ErrorKind::Invalid,
        _ if has("Permission denied") => ErrorKind::Denied,
        _ => ErrorKind::Failed,
    };
    (kind, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_numbers_become_text() {
        assert_eq!(version(9_000_000), "9.0.0");
        assert_eq!(version(11_003_012), "11.3.12");
    }

    #[test]
    fn the_guest_agent_is_read_from_its_own_channel_alone() {
        let connected =
            "<channel><target type='virtio' name='org.qemu.guest_agent.0' state='connected'/></channel>";
        let other = "<target type='virtio' name='org.qemu.guest_agent.0' state='disconnected'/>\
                     <target type='virtio' name='x' state='connected'/>";
        assert!(agent_is_connected(connected));
        assert!(!agent_is_connected(other));
    }

    #[test]
    fn the_terminal_of_the_serial_console_is_found() {
        let line =
            "<serial type='pty'>\n  <source path='/dev/pts/3'/>\n  <log file='/a' append='on'/>\n</serial>";
        assert_eq!(
            serial(&format!("<devices><disk><source path='/b'/></disk>{line}</devices>")),
            Some("/dev/pts/3")
        );
        assert_eq!(serial("<serial type='pty'><target port='0'/></serial><source path='/b'/>"), None);
        assert_eq!(serial("<serial type='unix'><source path='/b'/></serial>"), None);
    }

    #[test]
    fn targets_of_disks_and_interfaces_are_apart() {
        let xml = "<devices><disk type='file' device='disk'>\n <source file='/a'/>\n <target dev='vda' bus='virtio'/></disk>\
                   <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>\
                   <interface type='ethernet'><mac address='x'/><target dev='tap0' managed='no'/></interface>\
                   <interface type='user'><mac address='y'/></interface></devices>";
        assert_eq!(targets(xml, "disk"), ["vda", "sda"]);
        assert_eq!(targets(xml, "interface"), ["tap0"]);
        assert_eq!(
            memory(4, &[(sys::VIR_DOMAIN_MEMORY_STAT_RSS, 2), (sys::VIR_DOMAIN_MEMORY_STAT_MAJOR_FAULT, 7)]),
            MemoryStats {
                domain: 4096,
                resident: Some(2048),
                major_faults: Some(7),
                ..MemoryStats::default()
            }
        );
    }

    /// A start without room on a disk is repeated; one that wants more memory than there is comes to an end.
    #[test]
    fn a_full_disk_is_not_a_lack_of_memory() {
        let kind = |why: &str| judge(ErrorNumber::InternalError, why).0;
        assert_eq!(kind("cannot write data to file 'x': No space left on device"), ErrorKind::NoSpace);
        assert_eq!(kind("cannot write data to file 'x': Disk quota exceeded"), ErrorKind::NoSpace);
        let memory = "QEMU would not start: cannot set up guest memory 'pc.ram': Cannot allocate memory";
        assert_eq!(kind(memory), ErrorKind::NoMemory);
        assert_eq!(judge(ErrorNumber::NoMemory, "out of memory").0, ErrorKind::NoMemory);
    }

    #[test]
    fn the_last_line_of_qemu_is_the_reason() {
        let text = "internal error: process exited while connecting to monitor: 2026-11-21T19:41:21Z \
                    qemu-system-x86_64: -blockdev {}: Failed to get \"write\" lock\nIs another process using the image?";
        assert_eq!(sentence(text), "QEMU would not start: Is another process using the image?");
        assert_eq!(judge(ErrorNumber::InternalError, &sentence(text)).0, ErrorKind::Busy);
        assert_eq!(
            sentence("Requested operation is not valid: domain is not running"),
            "domain is not running"
        );
    }
}
