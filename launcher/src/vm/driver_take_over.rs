//! The VM of an earlier launcher: it is taken over as it is, and what this launcher cannot get at once is sought again.
//!
//! | the VM | |
//! |---|---|
//! | runs, or is paused | taken over; parts that are missing are sought (`missing_parts`), and the guest goes on without them |
//! | has a QEMU, but no guest yet | its start goes on, with all its checks |
//! | was to start | starts |
//! | has ended | has ended |

use super::{Driver, Parts, TICK};
use crate::domain::host::Host;
use crate::error::{Error, ErrorKind, Result};
use crate::hypervisor::{Condition, DomainState, Pause};
use crate::vm::blocking_work;
use crate::vm::claims::WrittenDevice;
use crate::vm::disk_pressure::DiskPressure;
use crate::vm::handle::CurrentVm;
use crate::vm::keep;
use crate::vm::missing_parts::{MissingParts, Search, Seeker, Tried};
use crate::vm::publish::Publisher;
use crate::vm::queue::Mode;
use crate::vm::work::Work;
use api::launcher::{Life, Sync};
use std::collections::BTreeMap;

impl Driver {
    pub(super) fn take_over(&mut self, sync: Sync) -> Result<()> {
        let machine = keep::machine(&sync)?;
        let name = machine.domain_name();
        self.before.acpi = machine.features.acpi;
        self.disk_pressure = DiskPressure::of_last(&self.publisher.state());
        // That launcher knew the remaining grace period.
        self.publisher.change(|state| (state.grace, state.receives) = (None, false));
        let known = CurrentVm { sync, machine, name, host: None };
        self.learn(known.clone())?;
        let last = self.publisher.state().life;
        let seen = blocking_work::find(&*self.parts.hypervisor, &known.name)
            .map_err(|e| Error::new(ErrorKind::Failed, "cannot read the state of the VM").because(e))?;
        tracing::debug!("the last state was {last:?}, and there is {seen:?}");
        if self.moved_before(seen.as_ref()) {
            return Ok(());
        }
        match seen {
            Some(seen) if blocking_work::is_unbegun(&seen, last) => self.go_on_with_start(known, &seen),
            Some(seen) if !matches!(seen.condition, Condition::Off(_)) => self.take_over_guest(known, &seen),
            _ if last.is_final() => self.mode(Mode::Ended),
            // The launcher was killed before the start of the VM.
            None => self.start(),
            Some(_) if matches!(last, Life::Empty | Life::Preparing) => self.start(),
            Some(seen) => self.saw(&seen),
        }
        Ok(())
    }

    /// Goes on with the start of an earlier launcher, which was killed between the start of QEMU and the resumption of the vCPUs.
    fn go_on_with_start(&mut self, known: CurrentVm, seen: &DomainState) {
        tracing::info!("took over {}, whose guest has not begun", known.name);
        self.mode(Mode::Preparing);
        self.passing = !known.machine.start_paused;
        let (hypervisor, root) = (self.parts.hypervisor.clone(), self.parts.root.clone());
        let (lines, qemu) = (self.parts.lines.clone(), seen.pid);
        let fault = blocking_work::network(&known).map(|servers| self.servers = servers).err();
        let go_on = move || blocking_work::go_on_with_start(&*hypervisor, &known, &root, &lines, qemu, fault);
        self.work = Some(Work::begin("start".to_owned(), go_on));
    }

    pub(super) fn take_over_guest(&mut self, known: CurrentVm, seen: &DomainState) {
        tracing::info!("took over {}, which runs", known.name);
        // The guest has its address already, and runs on without its console.
        let servers = blocking_work::network(&known);
        let console = blocking_work::listen(&*self.parts.hypervisor, &known.name, &self.parts.lines);
        self.mode(Mode::Running);
        let before = self.publisher.state();
        self.saw(seen);
        if seen.condition == Condition::Paused(Pause::IoError) {
            self.resume_with_room(before);
        }
        if console.is_err() {
            self.seek(|missing| missing.console = true);
        }
        match servers {
            Ok(servers) => self.servers = servers,
            Err(_) => self.seek(|missing| missing.dhcp = true),
        }
        let root = self.parts.root.clone();
        self.work = Some(Work::begin("take over".to_owned(), move || blocking_work::locate(&known, &root)));
    }

    /// Takes the locations of the VM's parts. `devices`: those that its guest writes to.
    pub(super) fn located(&mut self, host: Option<Box<Host>>, devices: Vec<WrittenDevice>) {
        let is_unknown = host.is_none();
        if let (Some(host), Some(known)) = (host, &mut self.known) {
            take_sizes(&self.publisher, &host.sizes);
            known.host = Some(*host);
        }
        if !self.queue.mode().is_over() && (is_unknown || !devices.is_empty()) {
            self.seek(|missing| (missing.host, missing.devices) = (is_unknown, devices));
        }
    }

    /// Adds missing parts to those that are sought.
    fn seek(&mut self, add: impl FnOnce(&mut MissingParts)) {
        let Some(known) = self.known.clone() else { return };
        let search = self.search.get_or_insert_with(|| {
            let Parts { hypervisor, root, lines, .. } = &self.parts;
            let (hypervisor, root, lines) = (hypervisor.clone(), root.clone(), lines.clone());
            let qemu = self.publisher.state().qemu_pid;
            Search::new(Seeker { hypervisor, known, root, lines, qemu })
        });
        search.add(add);
    }

    /// Takes the parts that were found, and tells which are missing still.
    pub(super) fn sought(&mut self, tried: std::result::Result<Tried, String>) {
        let Some(mut search) = self.search.take() else { return };
        let mut reasons = Vec::new();
        match tried {
            Ok(tried) => {
                reasons = tried.reasons;
                search.missing.console &= !tried.console;
                search.missing.devices.retain(|device| !tried.devices.contains(device));
                if let (Some(host), Some(known)) = (tried.host, &mut self.known) {
                    take_sizes(&self.publisher, &host.sizes);
                    (known.host, search.missing.host) = (Some(host), false);
                }
            }
            Err(why) => reasons.push(why),
        }
        if search.missing.dhcp {
            match blocking_work::dhcp(&search.seeker.known) {
                Ok(servers) => (self.servers, search.missing.dhcp) = (servers, false),
                Err(why) => reasons.push(why.message),
            }
        }
        let said = (!reasons.is_empty()).then(|| reasons.join("; "));
        let before = std::mem::replace(&mut search.said, said.clone());
        match &said {
            Some(said) if Some(said) != before.as_ref() => {
                tracing::warn!("{said}; it is tried again each {} s", TICK.as_secs());
            }
            None if before.is_some() => {
                tracing::info!("no part of {} is missing now", search.seeker.known.name)
            }
            _ => {}
        }
        // Another message is of something that matters more.
        self.publisher.change(|state| {
            if state.message.is_none() || state.message == before {
                state.message = said;
            }
        });
        search.again_in(TICK);
        self.search = Some(search).filter(|search| !search.missing.is_empty());
    }
}

/// Takes the sizes of disks, unless those of the start are known: a file may have grown under the QEMU that has it open.
fn take_sizes(publisher: &Publisher, sizes: &BTreeMap<String, u64>) {
    publisher.change(|state| {
        if state.sizes.is_empty() {
            state.sizes.clone_from(sizes);
        }
    });
}
