//! Parts of a running VM that its new launcher has not got. They are tried again, each tick, until all are there or the VM has
//! ended.
//!
//! ```text
//!  the VM taken over ──► tick ──► a thread: locations, serial console, claims ──► all there: done
//!                          ▲                └─► some are missing: the log and the state tell which, and why ─┐
//!                          └────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The thread is none of [`super::work::Work`]: a claim that another program has keeps no request waiting. The DHCP servers
//! run in the loop, which starts them.

use super::blocking_work::{host_of, listen};
use super::claims::{self, WrittenDevice};
use super::handle::CurrentVm;
use crate::console::Give;
use crate::domain::host::Host;
use crate::hypervisor::Hypervisor;
use crate::root::Root;
use crate::threads::{self, Running};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Parts that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MissingParts {
    /// Locations of disks and devices.
    pub(super) host: bool,
    pub(super) console: bool,
    /// Devices whose claim QEMU is without.
    pub(super) devices: Vec<WrittenDevice>,
    pub(super) dhcp: bool,
}

impl MissingParts {
    pub(super) fn is_empty(&self) -> bool {
        *self == MissingParts::default()
    }
}

/// The outcome of a try. Other parts may have been added since it began.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) host: Option<Host>,
    /// True if the serial console was opened.
    pub(super) console: bool,
    /// Devices that need no further try.
    pub(super) devices: Vec<WrittenDevice>,
    /// Why parts are missing.
    pub(super) reasons: Vec<String>,
}

/// The VM, as a try needs it.
#[derive(Clone)]
pub(super) struct Seeker {
    pub(super) hypervisor: Arc<dyn Hypervisor>,
    pub(super) known: CurrentVm,
    pub(super) root: Root,
    pub(super) lines: Give,
    /// Process ID of QEMU.
    pub(super) qemu: Option<u32>,
}

impl Seeker {
    /// Tries to get the parts that are missing, but for DHCP servers. Blocks.
    fn seek(&self, missing: MissingParts) -> Tried {
        let Seeker { hypervisor, known, root, lines, qemu } = self;
        let mut tried = Tried::default();
        if missing.host {
            match host_of(known, root) {
                Ok(host) => tried.host = Some(host),
                Err(e) => tried.reasons.push(e.chain()),
            }
        }
        if missing.console {
            match listen(&**hypervisor, &known.name, lines) {
                Ok(()) => tried.console = true,
                Err(e) => tried.reasons.push(e.to_string()),
            }
        }
        let left = claims::complete(&**hypervisor, &known.name, *qemu, missing.devices.clone());
        tried.devices = missing.devices;
        tried.devices.retain(|device| !left.devices.contains(device));
        tried.reasons.extend(left.reasons);
        tried
    }
}

/// The parts that are missing, and the next try.
pub(super) struct Search {
    pub(super) seeker: Seeker,
    pub(super) missing: MissingParts,
    /// Time of the next try.
    at: Instant,
    trying: Option<Running<Tried>>,
    /// Message of the last try, in the log and the state.
    pub(super) said: Option<String>,
}

impl Search {
    /// A search without missing parts yet, whose first try is at once.
    pub(super) fn new(seeker: Seeker) -> Search {
        Search { seeker, missing: MissingParts::default(), at: Instant::now(), trying: None, said: None }
    }

    /// Adds missing parts, and tries at once to get them.
    pub(super) fn add(&mut self, add: impl FnOnce(&mut MissingParts)) {
        add(&mut self.missing);
        self.at = Instant::now();
    }

    /// Sets the next try.
    pub(super) fn again_in(&mut self, wait: Duration) {
        self.at = Instant::now() + wait;
    }

    fn begin(&self) -> Running<Tried> {
        let (seeker, missing) = (self.seeker.clone(), self.missing.clone());
        threads::run("take over", move || seeker.seek(missing))
    }
}

/// Waits for the next try, and returns its outcome. The error is a fault of the launcher. Pending if nothing is missing.
pub(super) async fn tried(search: &mut Option<Search>) -> Result<Tried, String> {
    let Some(search) = search else { return pending().await };
    // This future may be dropped at each wait, and called again.
    if search.trying.is_none() {
        sleep_until(search.at).await;
        search.trying = Some(search.begin());
    }
    let Some(trying) = &mut search.trying else { return pending().await };
    let tried = trying.await;
    search.trying = None;
    tried
}
