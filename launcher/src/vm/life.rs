//! Outcomes of a VM, with KubeVirt's reasons. Pure.
//!
//! ```text
//!  crashed, panicked                      Failed
//!  destroyed, the guest has ACPI          Failed      (the grace period ran out)
//!  destroyed, the guest has none          Succeeded   (there was no other way)
//!  shut down by the guest, saved          Succeeded
//!  not observed                           Failed
//!  no room for its start                  Preparing   (it is tried again)
//! ```

use crate::hypervisor::{End, Pause};
use api::launcher::{Life, MIGRATED, NO_SPACE, PAUSED_BY_IO_ERROR, START_FAILED};

/// A life with its reason and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub life: Life,
    /// CamelCase reason, KubeVirt's if it has one.
    pub reason: &'static str,
    /// Text for the status of the VMI.
    pub message: String,
}

impl Standing {
    pub fn failed(reason: &'static str, message: String) -> Standing {
        Standing { life: Life::Failed, reason, message }
    }

    /// A start that waits for room.
    pub fn waits_for_room(message: String) -> Standing {
        Standing { life: Life::Preparing, reason: NO_SPACE, message }
    }
}

/// Events before an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// True if the guest has ACPI, so it could react to the power button.
    pub acpi: bool,
    /// True if the guest reported a panic.
    pub panicked: bool,
    /// True if the guest did not feed its watchdog.
    pub watchdog: bool,
    /// Grace period in seconds, if it is over.
    pub grace_over: Option<u64>,
    /// Last line of QEMU's log.
    pub last_words: Option<String>,
}

/// The outcome of a domain's end.
pub fn ended(end: End, before: &Before) -> Standing {
    let standing = |life, reason, message: &str| Standing { life, reason, message: message.to_owned() };
    let with_last_words = |text: &str| match &before.last_words {
        Some(words) => format!("{text}; its last line: {words}"),
        None => text.to_owned(),
    };
    match end {
        End::Crashed | End::Shutdown | End::Destroyed if before.panicked => {
            standing(Life::Failed, "GuestPanicked", "the guest panicked")
        }
        End::Shutdown | End::Destroyed | End::Crashed if before.watchdog => standing(
            Life::Failed,
            "WatchdogExpired",
            "the guest did not feed its watchdog, and was forced off",
        ),
        End::Shutdown => standing(Life::Succeeded, "Shutdown", "the guest shut down"),
        End::Destroyed if before.acpi => match before.grace_over {
            Some(seconds) => standing(
                Life::Failed,
                "GracePeriodExpired",
                &format!("the guest did not shut down within {seconds} s, and was forced off"),
            ),
            None => standing(Life::Failed, "Destroyed", "the VM was forced off"),
        },
        End::Destroyed => {
            standing(Life::Succeeded, "Destroyed", "the VM was forced off: its guest has no ACPI")
        }
        End::Crashed => standing(Life::Failed, "Crashed", &with_last_words("QEMU ended by itself")),
        End::Failed => standing(Life::Failed, START_FAILED, &with_last_words("the VM could not start")),
        End::Left => standing(Life::Succeeded, MIGRATED, "the VM runs at the target of its migration"),
        End::Unknown => {
            standing(Life::Failed, "Lost", &with_last_words("the VM ended while no launcher watched it"))
        }
    }
}

/// An I/O error of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// Name of the disk in the VM.
    pub disk: Option<String>,
    /// Path of the file or device.
    pub path: String,
    /// True if the host has no space for the guest's writes.
    pub no_space: bool,
}

/// The outcome of a pause.
pub fn paused(pause: Pause, error: Option<&DiskError>) -> Standing {
    let standing = |reason, message: String| Standing { life: Life::Paused, reason, message };
    let text = "VMI was paused, low-level IO error detected";
    match (pause, error) {
        (Pause::IoError, Some(error)) => {
            let disk = error.disk.as_ref().map_or_else(String::new, |disk| format!("disk '{disk}' "));
            let why = match error.no_space {
                true => "has no space left; free space, and the VM goes on by itself",
                false => "could not be read or written",
            };
            standing(PAUSED_BY_IO_ERROR, format!("{text}: {disk}({}) {why}", error.path))
        }
        (Pause::IoError, None) => standing(PAUSED_BY_IO_ERROR, text.to_owned()),
        (Pause::Asked, _) => standing("PausedByUser", "VMI was paused by user".to_owned()),
        (Pause::Watchdog, _) => {
            standing("PausedByWatchdog", "the guest did not feed its watchdog".to_owned())
        }
        (Pause::Panicked, _) => standing("GuestPanicked", "the guest panicked".to_owned()),
        (Pause::Passing, _) => {
            standing("PausedByHypervisor", "the hypervisor paused the VM for a while".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_become_phases_and_reasons_of_kubevirt() {
        let acpi = Before { acpi: true, ..Before::default() };
        let none = Before::default();
        let over = Before { grace_over: Some(3), ..acpi.clone() };
        for (end, before, life, reason) in [
            (End::Shutdown, &acpi, Life::Succeeded, "Shutdown"),
            (End::Destroyed, &acpi, Life::Failed, "Destroyed"),
            (End::Destroyed, &over, Life::Failed, "GracePeriodExpired"),
            (End::Destroyed, &none, Life::Succeeded, "Destroyed"),
            (End::Crashed, &acpi, Life::Failed, "Crashed"),
            (End::Failed, &acpi, Life::Failed, START_FAILED),
            (End::Left, &acpi, Life::Succeeded, "Migrated"),
            (End::Unknown, &acpi, Life::Failed, "Lost"),
            (End::Crashed, &Before { panicked: true, ..acpi.clone() }, Life::Failed, "GuestPanicked"),
            (End::Shutdown, &Before { watchdog: true, ..acpi.clone() }, Life::Failed, "WatchdogExpired"),
        ] {
            let got = ended(end, before);
            assert_eq!((got.life, got.reason), (life, reason), "{end:?} {before:?}");
        }
    }

    #[test]
    fn a_full_disk_is_named_with_a_remedy() {
        let error = DiskError { disk: Some("root".into()), path: "/d/root.qcow2".into(), no_space: true };
        let got = paused(Pause::IoError, Some(&error));
        assert_eq!(got.reason, "PausedIOError");
        assert!(
            got.message.starts_with("VMI was paused, low-level IO error detected: disk 'root'"),
            "{}",
            got.message
        );
        assert!(got.message.contains("free space"), "{}", got.message);
    }
}
