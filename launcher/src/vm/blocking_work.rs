//! Blocking work for the VM: the loop passes it to a thread and gets its outcome.

use super::claims::{self, WrittenDevice, written_devices};
use super::handle::CurrentVm;
use super::keep;
use super::kernel_boot;
use super::life::Standing;
use super::migration::Migrated;
use super::prepare::{PrepareMode, check_alone, inserted_media, prepare};
use crate::console::Give;
use crate::domain;
use crate::domain::host::{DiskLocation, Host};
use crate::hooks::{self, Hooks};
use crate::hypervisor::{Condition, DomainState, ErrorKind, Hypervisor, Pause, Result, passt};
use crate::net;
use crate::root::Root;
use api::architecture::Arch;
use api::launcher::{KernelChecksums, Life, Link, REFUSED, Request, START_FAILED};
use api::machine::IoThreads;
use api::machine::hook::SOCKETS;
use error_core::chain;
use guard::confine;
use rustix::fs::{FileType, StatVfs};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Free bytes with which a guest goes on that a full disk has paused.
const ENOUGH: u64 = 16 << 20;
/// Pause between two attempts to end a domain.
const AGAIN: Duration = Duration::from_secs(2);
/// Least number of free bytes. A start that fails while fewer are free counts as failed for want of space, and is tried again.
const LEAST: u64 = 1 << 20;

/// A VM that was started.
pub(super) struct Begun {
    pub(super) host: Host,
    pub(super) seen: DomainState,
    /// Checksums of the kernel that a container image has.
    pub(super) kernel_boot: Option<KernelChecksums>,
}

/// A VM that another launcher has migrated here.
pub(super) enum Arrival {
    /// The guest may run: the other launcher has no domain of it any more.
    Released {
        seen: DomainState,
        /// Checksums of the kernel that a container image has.
        kernel_boot: Option<KernelChecksums>,
    },
    /// The guest is paused, since the other launcher has not said so, or since it could not be resumed for this reason.
    Held(Option<String>),
}

/// The outcome of work.
pub(super) enum Outcome {
    Started(std::result::Result<Box<Begun>, Standing>),
    Done(Request, Result<()>),
    /// A request that came too late: the VM is off.
    FoundOff(Request, DomainState),
    /// A change of the media of a CD-ROM: the disk, and the location of its new media.
    Changed(Request, Result<(String, DiskLocation)>),
    /// Locations of the parts of a VM that was taken over.
    /// The devices are those that its guest writes to.
    Located(Option<Box<Host>>, Vec<WrittenDevice>),
    /// The end of a migration.
    Migrated(Box<Migrated>),
    /// The end of a reception.
    Received(std::result::Result<Arrival, Standing>),
    /// An attempt to resume after a full disk.
    WentOn(Result<()>),
    /// A fault of the launcher in the work.
    Broken(String),
}

/// Prepares the VM and starts it. Its serial console is handed over before the guest's first word.
pub(super) fn start(hypervisor: &dyn Hypervisor, known: &CurrentVm, root: &Root, lines: &Give) -> Outcome {
    let begin = || -> std::result::Result<Begun, Standing> {
        let stands = |e: crate::error::Error| match e.kind() {
            crate::error::ErrorKind::NoSpace => Standing::waits_for_room(e.chain()),
            _ if e.may_retry() => Standing::failed(START_FAILED, e.chain()),
            _ => Standing::failed(REFUSED, e.chain()),
        };
        let resolved = &known.sync.resolved;
        let wishes = hooks_of(known).map_err(stands)?;
        let failed = |e: crate::hypervisor::Error| match e.kind() {
            // A second start is sound only where nothing runs.
            ErrorKind::NoSpace if is_off(hypervisor, &known.name) => Standing::waits_for_room(e.to_string()),
            // Some of libvirt's errors do not name the cause.
            ErrorKind::Failed if !has_room(root.folder(), LEAST) && is_off(hypervisor, &known.name) => {
                let folder = root.folder().display();
                Standing::waits_for_room(format!(
                    "{e}; the file system of {folder} is full: make space there"
                ))
            }
            _ => Standing::failed(START_FAILED, e.to_string()),
        };
        let (mut host, claims) =
            prepare(&known.machine, resolved, root, PrepareMode::Start(&wishes)).map_err(stands)?;
        if let IoThreads::Pool(_) = known.machine.io_threads {
            host.iothread_mapping = hypervisor.has_iothread_mapping().map_err(failed)?;
        }
        let kernel_boot = checksums(known);
        let xml = domain::render(&known.machine, &host).map_err(|e| Standing::failed(REFUSED, chain(&e)))?;
        let xml = wishes.domain(xml).map_err(stands)?;
        // An earlier run may have had another uuid, and libvirt binds a name to its uuid.
        match hypervisor.undefine(&known.name) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
            _ => hypervisor.define(&xml).map_err(failed)?,
        }
        let go = || {
            hypervisor.start(&known.name)?;
            claims.give(hypervisor, &known.name)?;
            begin_guest(hypervisor, known, &host, lines)
        };
        let seen = go().map_err(|e| {
            // A domain without its console, or one that cannot be resumed, must not remain.
            let is_gone = end_once(hypervisor, &known.name);
            let standing = failed(e);
            if !is_gone {
                end_failed_start(hypervisor, &known.name);
            }
            standing
        })?;
        Ok(Begun { host, seen, kernel_boot })
    };
    Outcome::Started(begin().map(Box::new))
}

/// Finds the hooks of the VM, and the points at which they want to be called. The networks are written to the file for the hooks first.
pub(super) fn hooks_of(known: &CurrentVm) -> crate::error::Result<Hooks> {
    let resolved = &known.sync.resolved;
    hooks::tell_networks(resolved.network_info.as_deref(), Path::new(SOCKETS))?;
    Hooks::collect(&resolved.hooks, &known.sync.vmi)
}

/// Lets the guest of a QEMU that waits begin, if its disks are used by no other.
fn begin_guest(
    hypervisor: &dyn Hypervisor,
    known: &CurrentVm,
    host: &Host,
    lines: &Give,
) -> Result<DomainState> {
    check_alone(&known.machine, host).map_err(|e| busy(&known.name, &e.chain()))?;
    listen(hypervisor, &known.name, lines)?;
    if !known.machine.start_paused {
        hypervisor.resume(&known.name)?;
    }
    hypervisor.state(&known.name)
}

fn busy(name: &str, why: &str) -> crate::hypervisor::Error {
    crate::hypervisor::Error::new(ErrorKind::Busy, format!("start {name}"), why)
}

/// True for a QEMU whose launcher was killed before its guest began. `last`: the state that this launcher published last.
pub(super) fn is_unbegun(seen: &DomainState, last: Life) -> bool {
    matches!(seen.condition, Condition::Paused(Pause::Asked | Pause::Passing)) && last == Life::Preparing
}

/// Goes on with the start of a launcher that was killed, from the QEMU that it has started. `fault`: that start has failed.
pub(super) fn go_on_with_start(
    hypervisor: &dyn Hypervisor,
    known: &CurrentVm,
    root: &Root,
    lines: &Give,
    qemu: Option<u32>,
    fault: Option<Standing>,
) -> Outcome {
    let begin = || -> Result<Begun> {
        let host = host_of(known, root).map_err(|e| busy(&known.name, &e.chain()))?;
        let devices = written_devices(&known.machine, &known.sync.resolved);
        let left = claims::complete(hypervisor, &known.name, qemu, devices);
        if !left.reasons.is_empty() {
            return Err(busy(&known.name, &left.reasons.join("; ")));
        }
        let seen = begin_guest(hypervisor, known, &host, lines)?;
        Ok(Begun { host, seen, kernel_boot: checksums(known) })
    };
    let begun = match fault {
        Some(why) => Err(why),
        None => begin().map_err(|e| Standing::failed(START_FAILED, e.to_string())),
    };
    if begun.is_err() {
        end_failed_start(hypervisor, &known.name);
    }
    Outcome::Started(begun.map(Box::new))
}

/// Ends the domain of a start that failed. Returns when it is known not to run, so that a VM which is said to have
/// failed has no QEMU. Only QEMU's process can delay that: it ends once its storage answers.
pub(super) fn end_failed_start(hypervisor: &dyn Hypervisor, name: &str) {
    while !end_once(hypervisor, name) {
        tracing::warn!("{name} has failed to start, and runs still; it is forced off again");
        thread::sleep(AGAIN);
    }
}

/// Ends a domain, if it runs. Returns true if it is known not to run.
fn end_once(hypervisor: &dyn Hypervisor, name: &str) -> bool {
    if is_off(hypervisor, name) {
        return true;
    }
    let _ = hypervisor.destroy(name).inspect_err(|e| tracing::warn!("{e}"));
    is_off(hypervisor, name)
}

/// True if the domain is known not to run.
fn is_off(hypervisor: &dyn Hypervisor, name: &str) -> bool {
    match hypervisor.state(name) {
        Ok(seen) => matches!(seen.condition, Condition::Off(_)),
        Err(e) => e.kind() == ErrorKind::NotFound,
    }
}

/// Checksums of the kernel, where a container image has it. A VM starts without them, too.
pub(super) fn checksums(known: &CurrentVm) -> Option<KernelChecksums> {
    known.machine.firmware.kernel.as_ref()?.image.as_ref()?;
    let told = |e: &std::io::Error| tracing::warn!("cannot read the kernel for its checksum: {e}");
    kernel_boot::checksums(known.sync.resolved.kernel.as_ref()?).inspect_err(told).ok()
}

/// Tells the hooks of the VM that the launcher ends.
pub fn farewell(root: &Root) {
    match keep::kept(root) {
        Ok((Some(sync), _)) => hooks::farewell(&sync.resolved.hooks),
        Ok((None, _)) => {}
        Err(e) => tracing::warn!("no hook hears that the launcher ends: {}", e.chain()),
    }
}

/// Starts the DHCP servers of the guest, before it runs. Tells how passt is confined.
pub(super) fn network(known: &CurrentVm) -> std::result::Result<net::Servers, Standing> {
    if known.sync.resolved.interfaces.values().any(|link| matches!(link, Link::Passt { .. })) {
        let _ = passt::unconfined(&confine::offered().landlock).inspect(|told| tracing::warn!("{told}"));
    }
    dhcp(known)
}

/// Starts the DHCP servers of the guest.
pub(super) fn dhcp(known: &CurrentVm) -> std::result::Result<net::Servers, Standing> {
    net::serve(&known.machine, &known.sync.resolved).map_err(|e| Standing::failed(START_FAILED, e.chain()))
}

/// Passes the VM's serial console to the relay.
pub(super) fn listen(hypervisor: &dyn Hypervisor, name: &str, lines: &Give) -> Result<()> {
    if let Some(line) = hypervisor.line(name)? {
        // The relay is gone if the launcher is ending.
        let _ = lines.send(line);
    }
    Ok(())
}

/// Carries out a request on a running VM.
pub(super) fn request(
    hypervisor: &dyn Hypervisor,
    mut known: CurrentVm,
    paused: bool,
    request: Request,
) -> Outcome {
    let name = known.name.as_str();
    let result = match &request {
        Request::Shutdown { grace } => match grace.unwrap_or(known.machine.grace_period) {
            0 => hypervisor.destroy(name),
            // A paused guest does not notice the power button.
            _ if paused => hypervisor.resume(name).and_then(|()| hypervisor.shutdown(name)),
            _ => hypervisor.shutdown(name),
        },
        Request::Destroy => hypervisor.destroy(name),
        Request::Reboot => hypervisor.reboot(name),
        Request::Reset => hypervisor.reset(name),
        Request::Pause | Request::PauseForDiskPressure { .. } => hypervisor.pause(name),
        Request::Unpause | Request::ResumeAfterDiskPressure => hypervisor.resume(name),
        Request::Eject { .. } | Request::Insert { .. } => {
            let changed = change_media(hypervisor, &mut known, paused, &request);
            return Outcome::Changed(request, changed);
        }
        Request::Link { interface, .. } => change_link(hypervisor, &known, interface),
        Request::Start
        | Request::Hotplug
        | Request::Snapshot
        | Request::Migrate(_)
        | Request::AbortMigration { .. }
        | Request::Release(_) => Err(unsupported(name)),
    };
    match result {
        Err(e) if e.kind() == ErrorKind::NotNow => match hypervisor.state(name) {
            Ok(seen) if matches!(seen.condition, Condition::Off(_)) => Outcome::FoundOff(request, seen),
            _ => Outcome::Done(request, Err(e)),
        },
        result => Outcome::Done(request, result),
    }
}

/// Changes the media of a CD-ROM, or ejects them. Returns the disk, and the location of its media.
///
/// libvirt changes media in four steps: the tray opens, the old ones are removed, the new ones inserted, the
/// tray closes. A guest that opens its drive meanwhile closes the tray itself. Between the last two steps
/// QEMU then does not report the new media to it: the drive stays empty for the guest, and the change counts
/// as a success. So a running guest is paused for these few milliseconds.
fn change_media(
    hypervisor: &dyn Hypervisor,
    known: &mut CurrentVm,
    paused: bool,
    request: &Request,
) -> Result<(String, DiskLocation)> {
    let (disk, wanted) = match request {
        Request::Insert { disk, path, format } => (disk, Some((path, *format))),
        Request::Eject { disk } => (disk, None),
        _ => return Err(unsupported(&known.name)),
    };
    let doing = || format!("change the media of '{disk}'");
    let invalid = |why: String| crate::hypervisor::Error::new(ErrorKind::Invalid, doing(), why);
    let place = match wanted {
        // They existed when the request was queued.
        Some((path, format)) => {
            inserted_media(&known.machine, disk, path, format).map_err(|e| invalid(e.chain()))?
        }
        None => DiskLocation::Nothing,
    };
    let host =
        known.host.as_mut().ok_or_else(|| invalid("the locations of the VM's disks are not known".into()))?;
    host.disks.insert(disk.clone(), place.clone());
    let xml = domain::render_disk(&known.machine, host, disk).map_err(|e| invalid(chain(&e)))?;
    if paused {
        hypervisor.change_media(&known.name, &xml)?;
    } else {
        hypervisor.pause(&known.name)?;
        let changed = hypervisor.change_media(&known.name, &xml);
        let resumed = hypervisor.resume(&known.name);
        changed.and(resumed)?;
    }
    Ok((disk.clone(), place))
}

fn unsupported(name: &str) -> crate::hypervisor::Error {
    let why = "the launcher does not support it";
    crate::hypervisor::Error::new(ErrorKind::Unsupported, format!("do this with {name}"), why)
}

/// Changes the link of an interface to its state in `known`, which the loop has updated before.
fn change_link(hypervisor: &dyn Hypervisor, known: &CurrentVm, interface: &str) -> Result<()> {
    let doing = || format!("change the link of '{interface}'");
    let invalid = |why: String| crate::hypervisor::Error::new(ErrorKind::Invalid, doing(), why);
    let host = known.host.as_ref().ok_or_else(|| invalid("the VM's devices are not known".into()))?;
    let xml = domain::render_interface(&known.machine, host, interface).map_err(|e| invalid(chain(&e)))?;
    hypervisor.change_link(&known.name, &xml)
}

/// Finds the VM of an earlier launcher.
pub(super) fn find(hypervisor: &dyn Hypervisor, name: &str) -> Result<Option<DomainState>> {
    match hypervisor.state(name) {
        Ok(seen) => Ok(Some(seen)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Locates the files and devices of a VM that an earlier launcher started. They are needed only for changes of
/// media and links, and for claims, so a file that is missing does not end the guest.
pub(super) fn locate(known: &CurrentVm, root: &Root) -> Outcome {
    let devices = written_devices(&known.machine, &known.sync.resolved);
    // Why one is not found is told where it is sought again.
    Outcome::Located(host_of(known, root).ok().map(Box::new), devices)
}

/// Locations of the parts of a VM that an earlier launcher has prepared.
pub(super) fn host_of(known: &CurrentVm, root: &Root) -> crate::error::Result<Host> {
    prepare(&known.machine, &known.sync.resolved, root, PrepareMode::TakeOver).map(|(host, _)| host)
}

/// The last line that QEMU wrote to its log, without its own name.
pub(super) fn last_words(root: &Root, domain: &str) -> Option<String> {
    let mut file = fs::File::open(root.qemu_log(domain)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(4096))).ok()?;
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // Lines that libvirt itself writes to the log.
    let theirs = [": starting up ", ": shutting down", " is tainted: "];
    let ours = |line: &&str| !line.is_empty() && !theirs.iter().any(|text| line.contains(text));
    let line = text.lines().map(str::trim).rfind(ours)?;
    // The command line is one long line, and has no information about the end.
    let said = Arch::of_host().facts().without_program(line);
    (said.len() < 300 && !said.starts_with('-') && !said.ends_with('\\')).then(|| said.to_owned())
}

/// Resumes a VM after a full disk, if there is space again.
pub(super) fn go_on_with_room(hypervisor: &dyn Hypervisor, name: &str, path: &Path) -> Outcome {
    if !has_room(path, ENOUGH) {
        return Outcome::WentOn(Ok(()));
    }
    tracing::info!("there is space again, the VM goes on");
    Outcome::WentOn(hypervisor.resume(name))
}

/// True if so many bytes are free, or if only a write can tell. Unreachable storage does not answer, and blocks.
fn has_room(path: &Path, bytes: u64) -> bool {
    // The file system of a device's node says nothing about the room on the device.
    let is_device = rustix::fs::stat(path)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice);
    // A path that cannot be checked (a daemon's, elsewhere) counts as having space.
    let is_free = |found: StatVfs| found.f_bavail.saturating_mul(found.f_frsize) >= bytes;
    is_device || rustix::fs::statvfs(path).map_or(true, is_free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::full_disk::FullDisk;
    use rustix::fs::{CWD, Mode, makedev, mknodat};

    #[test]
    fn a_block_device_is_not_judged_by_the_file_system_of_its_node() {
        let Some(disk) = FullDisk::of_bytes(1 << 20) else { return };
        let node = disk.path().join("device");
        if let Err(e) = mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR, makedev(7, 0)) {
            return eprintln!("left out: no device nodes here: {e}");
        }
        disk.fill_but(0);
        let link = disk.path().join("link");
        std::os::unix::fs::symlink("device", &link).unwrap();
        assert!(has_room(&node, ENOUGH) && has_room(&link, ENOUGH));
        assert!(!has_room(disk.path(), LEAST), "a file system is");
    }
}
