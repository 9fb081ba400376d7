//! Start of a VM: checked, its volumes fetched, its launcher started and given the VM.
//!
//! ```text
//!  VMI ─► defaults ─► Machine (or all faults) ─► what is missing, what cannot be had    StartOptions::check
//!     ─► Resolved ─► vm.json ─► launcher ─► PUT /v1/vm ─► Running                            Starter::start
//! ```
//!
//! `--dry-run` ends behind the check, which fetches and makes nothing.
//!
//! The VM's lock is held all the way. An interrupted start leaves either nothing, or a record that `ps` shows
//! and `rm` removes.

use super::client::Client;
use super::confined;
use super::disk_files::check_start;
use super::disk_owners;
use super::earlier_state::EarlierState;
use super::host_disks;
use super::host_file;
use super::kept_disks;
use super::launch;
use super::manifest::{Finding, Located, Objects, refusal};
use super::moved_home;
use super::new_disk;
use super::new_name::{NewName, VmSource};
use super::path::absolute;
use super::place::{Home, Lock, check_name};
use super::raw_disks::{self, StartOf};
use super::record::{Record, Vm};
use super::resolve::accelerator::{self, Choice};
use super::resolve::image::{Images, Policy};
use super::resolve::{Resolver, memory, missing, network, state};
use super::vm_folder::{LeftFolder, forget};
use super::worker::{self, Task};
use crate::Notify;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::{
    Accelerator, Answer, Format, Forward, Hook, Life, NO_SPACE, REFUSED, Request, State, Sync,
};
use api::machine::{Hyperv, Machine};
use api::vmi::VirtualMachineInstance;
use api::wire::Wire as _;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout until a new VM runs.
const START: Duration = Duration::from_secs(120);

/// Options common to all VMs of one command.
pub struct StartOptions<'a> {
    pub images: &'a Images,
    /// Objects of the manifest.
    pub objects: &'a Objects,
    /// Accelerator that the user asked for.
    pub accelerator: Choice,
    /// Pull policy by flag, which overrides those of the manifest.
    pub policy: Option<Policy>,
    /// Port forwards by flag.
    pub forwards: Vec<Forward>,
    /// True if the ports of the manifest are forwarded, too.
    pub publish_all: bool,
    /// Paths of programs that change the domain XML.
    pub hooks: &'a [PathBuf],
    /// HostDisks that are raw by the user's word, by the paths that the VM has them with.
    pub raws: &'a [PathBuf],
    /// Name of the manifest, image or disk, for messages.
    pub source: &'a str,
}

/// Start of the VMs of one command.
pub struct Starter<'a> {
    pub options: StartOptions<'a>,
    /// Path of the launcher's program.
    pub launcher: &'a Path,
    /// True if each VM is removed after its end.
    pub remove: bool,
    /// Source of a VM without a manifest, for its record.
    pub made_from: Option<&'a VmSource>,
    /// Mark of this process for the records of its VMs, if it removes them at its own end.
    pub owner: Option<&'a str>,
}

/// A VM that has passed all checks.
pub struct Checked {
    vmi: VirtualMachineInstance,
    pub machine: Machine,
    forwards: Vec<Forward>,
}

/// The checked `Machine` of a VMI, or every fault with its line.
fn judged(
    written: &Located<VirtualMachineInstance>,
    name: &str,
    what: &str,
) -> Result<(VirtualMachineInstance, Machine)> {
    let mut vmi = written.object.clone();
    vmi.metadata.name = Some(name.to_owned());
    super::check::complete(&mut vmi);
    let machine = super::check::machine(&vmi, &written.origin.spec()).map_err(|faults| {
        let faults = faults.iter().map(|fault| written.origin.fault(fault)).collect();
        refusal(what, faults)
    })?;
    Ok((vmi, machine))
}

/// All faults of a VM's spec.
pub fn faults(written: &Located<VirtualMachineInstance>) -> Vec<Finding> {
    let mut vmi = written.object.clone();
    super::check::complete(&mut vmi);
    let faults = super::check::machine(&vmi, &written.origin.spec()).err().unwrap_or_default();
    faults.iter().map(|fault| written.origin.fault(fault)).collect()
}

impl StartOptions<'_> {
    /// Checks a VM of this name before anything is fetched or created for it.
    pub fn check(&self, written: &Located<VirtualMachineInstance>, name: &str) -> Result<Checked> {
        check_name(name)?;
        self.images.home.socket(name)?;
        let (vmi, machine) = judged(written, name, self.source)?;
        let lacking = missing::find(written, self.objects, self.images)?;
        if !lacking.is_empty() {
            return Err(refusal(self.source, lacking));
        }
        let mut forwards = self.forwards.clone();
        if self.publish_all {
            forwards.extend(network::of_manifest(&machine)?);
        }
        accelerator::check(self.accelerator)?;
        hooks(self.hooks)?;
        self.resolver().check(&machine, &forwards)?;
        Ok(Checked { vmi, machine, forwards })
    }

    fn resolver(&self) -> Resolver<'_> {
        Resolver { images: self.images, objects: self.objects, policy: self.policy, raws: self.raws }
    }
}

impl Starter<'_> {
    /// Starts a VM under the name that `claim` locks once the VM has passed its checks, and waits until it runs.
    pub fn start(
        &self,
        written: &Located<VirtualMachineInstance>,
        name: &str,
        claim: impl FnOnce() -> Result<NewName>,
    ) -> Result<(Vm, State)> {
        let home = &self.options.images.home;
        let checked = self.options.check(written, name)?;
        if let Some(warning) = memory::check(&checked.machine)? {
            (self.options.images.notify)(&warning);
        }
        let claimed = claim()?;
        let before = self.free(home, name, &checked.machine.namespace, claimed.lock()?)?;
        let earlier = before.as_ref().map(|_| EarlierState::copy(home, name)).transpose()?;
        let started = self.begin(home, name, checked, before.as_ref());
        match started {
            Ok(state) => {
                if let Some(Err(e)) = earlier.map(|earlier| earlier.remove()) {
                    tracing::warn!("a copy of the state of the VM before is left: {e}");
                }
                let vm = Vm::open(home, name)?;
                Ok((vm, state))
            }
            Err(e) => {
                match (before.zip(earlier), claimed.into_lock()) {
                    (Some((before, earlier)), Some(lock)) => bring_back(home, before, &earlier, &lock),
                    // The VM was new, so all its files are removed.
                    (None, Some(lock)) => clean(home, name, lock),
                    (_, None) => {}
                }
                Err(e)
            }
        }
    }

    /// Frees the name: ends the launcher of an earlier VM that has stopped, and returns its record. A running
    /// VM is an error, and one of another namespace: libvirt has its domain under another name.
    fn free(&self, home: &Home, name: &str, namespace: &str, lock: &Lock) -> Result<Option<Record>> {
        let Some(vm) = Vm::find(home, name)? else {
            let left = LeftFolder::examine(home, name)?;
            return match (&left, left.message(home, name)) {
                (LeftFolder::LostRecord(_), Some(message)) => {
                    Err(Error::refused(format!("{name} is not started: {message}"))
                        .with_hint("--name starts another"))
                }
                _ => Ok(None),
            };
        };
        vm.refuse_copy()?;
        check_stopped(&vm, lock).map_err(|e| e.with_hint("--name starts another"))?;
        let other = vm.record.namespace();
        if other != namespace {
            let what = format!(
                "{name} is a VM of the namespace {}, and the new one is of the namespace {}",
                printable::line(other),
                printable::line(namespace)
            );
            return Err(Error::refused(what)
                .with_hint(format!("'coracle rm {name}' removes that VM; --name starts another")));
        }
        launch::end(home, name)?;
        Ok(Some(vm.record))
    }

    fn begin(&self, home: &Home, name: &str, checked: Checked, before: Option<&Record>) -> Result<State> {
        let Checked { vmi, machine, forwards } = checked;
        let notify = self.options.images.notify;
        let accelerator = accelerator::choose(self.options.accelerator, self.launcher, home, notify)?;
        if accelerator == Accelerator::Emulation && machine.features.hyperv != Hyperv::None {
            notify(&format!(
                "coracle: warning: {name} is emulated, and the Hyper-V enlightenments of its spec are KVM's: it runs without them"
            ));
        }
        let vmi = vmi.write();
        host_disks::settle(&vmi, &BTreeMap::new());
        // The files are looked at before their formats are told, and again behind that: minutes may lie between.
        let files = host_file::files(&vmi)?;
        let held = super::disks::hold(home)?;
        let resolver = self.options.resolver();
        let claims = resolver.hold(&machine)?;
        let mut resolved = resolver.resolve(name, &machine, forwards, accelerator, &claims)?;
        resolved.hooks = hooks(self.options.hooks)?;
        // A start that ends before leaves the word without an effect.
        self.options.raws.iter().try_for_each(|raw| host_disks::note_raw(home, raw))?;
        if let Some(before) = before {
            raw_disks::keep(home, None, before.disks())?;
        }
        let earlier_volumes = before.map(Record::all_volumes).unwrap_or_default();
        let generation = before.map_or(1, |record| record.sync.generation.saturating_add(1));
        let sync = Sync { vmi, generation, resolved };
        let mut record = Record::new(name, self.options.source, self.remove, sync, self.launcher);
        record.made_from = self.made_from.map(|source| source.made_from.clone());
        record.lasting_drives = self.made_from.map(VmSource::lasting_drives).transpose()?;
        record.owner = self.owner.map(str::to_owned);
        record.host_disks = host_disks::recorded(&record, files);
        record.devices = host_disks::devices(&record.sync)?;
        record.pool_disks = kept_disks::pool_disks(home, &record)?;
        record.earlier_volumes = earlier_volumes;
        record.folder = before.and_then(|before| before.folder.clone());
        host_disks::check_unchanged(&record)?;
        check_start(home, &record)?;
        new_disk::make_disks(&mut record, &machine)?;
        // New disks and those of the pool are there now.
        host_disks::settle(&record.sync.vmi, &record.sync.resolved.volumes);
        note_disks(home, &record)?;
        record.save(home)?;
        drop((claims, held));
        let client = launch::start_anew(self.launcher, home, name)?;
        host_disks::check_unchanged(&record)?;
        let given = host_disks::with_new_files(&record);
        let vm = Vm { home: home.clone(), record };
        let state = wait_for_start(&vm, &client, &given)?;
        confined::tell_vm(&client, &state);
        Ok(state)
    }
}

/// Notes the disks of a VM before its guest can write to them: in the list of its home, in those of the homes that own one of them, and in
/// that of the environment, where the verbs that read disks look (another `--root`).
pub(crate) fn note_disks(home: &Home, record: &Record) -> Result<()> {
    let (vms, noted) = (home.vms(), record.folder.as_ref());
    let moved_from = noted.and_then(|noted| noted.vms()).filter(|before| *before != vms);
    let start = Some(StartOf { vms: &vms, moved_from });
    raw_disks::keep(home, start, record.disks())?;
    for owner in disk_owners::owners(home, &record.files()) {
        raw_disks::keep(&owner, start, record.disks())?;
    }
    if let Some(own) = home.environment_to_note()
        && own.raw_disks() != home.raw_disks()
        && let Err(e) = raw_disks::keep(own, start, record.disks())
    {
        tracing::warn!(
            "the disks of {} are not noted where 'coracle convert' looks: give it '-f raw' for a raw disk of this VM, whose guest may \
             have written another format's header ({e})",
            record.name
        );
    }
    Ok(())
}

/// Fails if the VM runs. `lock` is the lock of the VM: while it is held, no other process starts the VM.
fn check_stopped(vm: &Vm, lock: &Lock) -> Result<()> {
    let (name, standing) = (vm.name(), vm.standing_locked(lock)?);
    match standing.is_up() {
        true => Err(Error::failed(format!(
            "{name} runs already ({}); 'coracle console {name}' shows it, 'coracle stop {name}' ends it",
            standing.word()
        ))),
        false => Ok(()),
    }
}

/// Checks, while a VM may still run, that its disk files let it start again.
pub fn check_again(vm: &Vm) -> Result<()> {
    check_home(vm)?;
    kept_disks::check(vm)?;
    check_state(&vm.record)?;
    host_disks::refresh(&vm.home, &mut vm.record.clone(), judge)
}

/// Checks that a VM has its own place and the disks of its own home.
fn check_home(vm: &Vm) -> Result<()> {
    moved_home::check(&vm.home, vm.name(), vm.record.folder.as_ref(), &vm.record.sync)
}

/// Checks that other users can change neither the EFI variables nor the TPM beside the disk of a VM.
fn check_state(record: &Record) -> Result<()> {
    record.sync.resolved.state.as_ref().map_or(Ok(()), state::ready)
}

/// Format of a disk file by its first bytes.
fn judge(path: &Path) -> Result<Format> {
    worker::run_job(None, true, Task::Judge { path: path.to_owned() })
}

/// Starts a VM again that has ended, with the settings of its record.
pub fn again(vm: &Vm, notify: Notify) -> Result<State> {
    let lock = vm.home.lock_vm(vm.name())?;
    let mut vm = Vm::open(&vm.home, vm.name())?;
    check_stopped(&vm, &lock)?;
    check_home(&vm)?;
    // No disk is removed later on: a removal locks the VM, too.
    let held = kept_disks::hold(&vm, notify)?;
    vm.record.pool_disks = kept_disks::pool_disks(&vm.home, &vm.record)?;
    drop(held);
    check_state(&vm.record)?;
    check_start(&vm.home, &vm.record)?;
    host_disks::settle(&vm.record.sync.vmi, &vm.record.sync.resolved.volumes);
    // Those of the last start, which earlier versions did not note, and then those of this one.
    note_disks(&vm.home, &vm.record)?;
    host_disks::refresh(&vm.home, &mut vm.record, judge)?;
    note_disks(&vm.home, &vm.record)?;
    vm.record.sync.generation = vm.record.sync.generation.saturating_add(1);
    vm.record.save(&vm.home)?;
    let client = launch::start_anew(&vm.record.launcher, &vm.home, vm.name())?;
    host_disks::check_unchanged(&vm.record)?;
    wait_for_start(&vm, &client, &vm.record.sync)
}

/// Hook programs, checked to be executable.
fn hooks(files: &[PathBuf]) -> Result<Vec<Hook>> {
    use rustix::fs::{Access, access};
    let hook = |file: &PathBuf| {
        let path = absolute(file)?;
        if let Err(e) = access(&path, Access::EXEC_OK) {
            let error =
                Error::io(format!("--hook {} cannot be run", file.display()), std::io::Error::from(e));
            return Err(error.with_hint("make it executable: chmod +x"));
        }
        match path.is_file() {
            true => Ok(Hook::Script { path }),
            false => Err(Error::refused(format!("--hook {} is not a file", file.display()))),
        }
    };
    files.iter().map(hook).collect()
}

/// Gives the VM to its launcher, and waits until that very request runs or has ended.
fn wait_for_start(vm: &Vm, client: &Client, given: &Sync) -> Result<State> {
    match client.sync(given)? {
        Answer::Queued => {}
        // The launcher knows this VM, which has ended, and starts it on request alone.
        Answer::Ignored { .. } => drop(vm.ask(client, &Request::Start)?),
        Answer::Denied(denial) => return Err(Error::failed(format!("{}: {denial}", vm.name()))),
    }
    // The first state may still be the end of an earlier run.
    let is_given = |state: &State| state.generation == given.generation;
    let is_other = |state: &State| !is_given(state) && !state.life.is_final() && state.life != Life::Empty;
    let lacks_room = |state: &State| state.reason.as_deref() == Some(NO_SPACE);
    let state = vm.wait_for(client, "start", Some(START), |state| match state.life {
        _ if is_other(state) => true,
        _ if !is_given(state) => false,
        Life::Empty | Life::Preparing => lacks_room(state),
        _ => true,
    })?;
    if is_other(&state) {
        // It may run from other disks than those that were checked.
        vm.ask(client, &Request::Destroy)?;
        vm.wait_for(client, "end", Some(START), |state| state.life.is_final())?;
        let what = format!(
            "{} could not start: its launcher ran request {} in place of {}, and that guest was ended",
            vm.name(),
            state.generation,
            given.generation
        );
        return Err(Error::failed(what).with_hint("the same command again starts it"));
    }
    if lacks_room(&state) {
        // The launcher would wait for free space; a user at a terminal gets an error, and can free some.
        vm.ask(client, &Request::Destroy)?;
        vm.wait_for(client, "end", Some(START), |state| state.life.is_final())?;
        let why = state.message.unwrap_or_default();
        return Err(Error::failed(format!("{} could not start: {why}", vm.name())));
    }
    if state.life == Life::Failed && state.qemu_pid.is_none() {
        let why = state.message.clone().or(state.reason.clone()).unwrap_or_else(|| "unknown reason".into());
        let kind = match state.reason.as_deref() {
            Some(REFUSED) => ErrorKind::Refused,
            _ => ErrorKind::Failed,
        };
        let error = Error::new(kind, format!("{} could not start: {why}", vm.name()));
        // Message of libvirt if QEMU's package is not installed.
        return Err(match why.contains("No emulator found") {
            true => error
                .with_hint("QEMU is missing; as root: apt-get install qemu-system-x86 (see 'coracle host')"),
            false => error,
        });
    }
    Ok(state)
}

/// Brings back the record and the state of a VM whose place a new one could not take: the next start is of the VM that was there. A new
/// guest that runs in spite of the error keeps its own.
fn bring_back(home: &Home, mut before: Record, earlier: &EarlierState, lock: &Lock) {
    let result = Vm::open(home, &before.name).and_then(|vm| {
        if vm.record.sync.generation == before.sync.generation {
            return earlier.remove();
        }
        if vm.standing_locked(lock)?.is_up() {
            return Ok(());
        }
        earlier.bring_back()?;
        // The launcher knows this request as the one that failed.
        before.sync.generation = vm.record.sync.generation;
        before.save(home)
    });
    if let Err(e) = result {
        tracing::warn!("the record of the VM {} before is not brought back: {e}", before.name);
    }
}

/// Removes the files of a failed start; `rm -f` removes those that could not be removed here.
fn clean(home: &Home, name: &str, lock: Lock) {
    if let Err(e) = launch::end(home, name).and_then(|()| forget(home, name, lock)) {
        tracing::warn!("the files of {name} were not removed: {e}");
    }
}

#[cfg(test)]
#[path = "start_tests.rs"]
pub(crate) mod tests;
