//! The pause of a VM whose disks fill the disk of its node.
//!
//! ```text
//!  virt-handler ── PauseForDiskPressure ──► paused, PausedByDiskPressure ── ResumeAfterDiskPressure ──► runs
//!                                             │ Pause of a user
//!                                             ▼
//!                                           paused, PausedByUser ── ResumeAfterDiskPressure: ignored
//! ```
//!
//! libvirt has one word for both pauses, so the cause is kept here, from the admission of the request until
//! the VM runs. A new launcher takes it from the last state.

use super::life::Standing;
use super::queue::{DISK_PRESSURE, Queue};
use crate::hypervisor::Pause;
use api::launcher::{Answer, Life, PAUSED_BY_DISK_PRESSURE, Request, State};

/// The message of a pause that began while its launcher was killed.
const UNKNOWN: &str =
    "VMI was paused: the disk of its node is nearly full. It goes on by itself when there is room";

/// The cause of a pause for disk pressure that is asked for, or in effect.
#[derive(Debug, Default)]
pub(super) struct DiskPressure {
    message: Option<String>,
    /// True from the admission of the request until the hypervisor reports the pause: a resumption that is
    /// reported in between belongs to an earlier request.
    is_coming: bool,
}

impl DiskPressure {
    /// The pause that the last state of an earlier launcher tells of.
    pub(super) fn of_last(state: &State) -> DiskPressure {
        let message = match (state.reason.as_deref(), state.doing.as_deref()) {
            (Some(PAUSED_BY_DISK_PRESSURE), _) => {
                Some(state.message.clone().unwrap_or_else(|| UNKNOWN.to_owned()))
            }
            (_, Some(DISK_PRESSURE)) => Some(UNKNOWN.to_owned()),
            _ => None,
        };
        DiskPressure { message, is_coming: false }
    }

    /// Queues a request, or refuses it with a reason.
    pub(super) fn admit(&mut self, queue: &mut Queue, request: Request) -> Answer {
        match &request {
            Request::ResumeAfterDiskPressure if self.message.is_none() => {
                Answer::Ignored { reason: "the VM is not paused for disk pressure".into() }
            }
            // The pause is the user's from now on, and lasts until the user ends it. A VM that is being resumed
            // is paused once more.
            Request::Pause => match queue.admit(request) {
                Answer::Ignored { .. } if self.is_there() => {
                    self.end();
                    Answer::Queued
                }
                Answer::Queued => {
                    self.end();
                    Answer::Queued
                }
                answer => answer,
            },
            Request::PauseForDiskPressure { message } => {
                let message = message.clone();
                let answer = queue.admit(request);
                if answer == Answer::Queued {
                    (self.message, self.is_coming) = (Some(message), true);
                }
                answer
            }
            _ => queue.admit(request),
        }
    }

    /// True while the VM is paused, or about to be paused, for disk pressure.
    pub(super) fn is_there(&self) -> bool {
        self.message.is_some()
    }

    /// Forgets the pause: the VM starts, or could not be paused.
    pub(super) fn end(&mut self) {
        *self = DiskPressure::default();
    }

    /// Forgets a pause that does not come: its request failed, or was dropped.
    pub(super) fn failed(&mut self) {
        if self.is_coming {
            self.end();
        }
    }

    /// Forgets a pause that is in effect: the VM runs.
    pub(super) fn resumed(&mut self) {
        if !self.is_coming {
            self.end();
        }
    }

    /// State of a VM that is paused for disk pressure. Another cause of the pause takes its place.
    pub(super) fn standing(&mut self, pause: Pause) -> Option<Standing> {
        self.is_coming = false;
        if pause != Pause::Asked {
            self.end();
        }
        let message = self.message.clone()?;
        Some(Standing { life: Life::Paused, reason: PAUSED_BY_DISK_PRESSURE, message })
    }
}
