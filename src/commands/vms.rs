//! Arguments that name VMs, shared by all verbs on VMs, and their completion in a shell.

use super::vm_args::HomeArgs;
use crate::error::{Error, Result};
use crate::ui;
use crate::vm_disk::home_of_environment;
use api::launcher::{Life, Request, State};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use local_vm::place::{Home, Lock};
use local_vm::record::{Standing, Vm};
use local_vm::vm_folder::{self, LeftFolder};
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// Maximum number of launchers that are asked at the same time.
const ASKED_AT_ONCE: usize = 64;

/// Timeout of a VM that is powered off.
const POWER_OFF: Duration = Duration::from_secs(30);

/// Time in which a removal begins again if its VM was started meanwhile.
const REMOVAL: Duration = Duration::from_secs(60);

/// Argument that names a VM.
#[derive(Debug, clap::Args)]
pub(crate) struct VmArgs {
    /// Name of the VM
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete))]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) home: HomeArgs,
}

impl VmArgs {
    /// The VM of this name.
    pub(crate) fn open(&self) -> Result<Vm> {
        Ok(Vm::open(&self.home.home()?, &self.name)?)
    }
}

/// Argument that names several VMs.
#[derive(Debug, clap::Args)]
pub(crate) struct VmsArgs {
    /// Names of the VMs
    #[arg(value_name = "NAME", required = true, add = ArgValueCompleter::new(complete))]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) home: HomeArgs,
}

impl VmsArgs {
    /// Calls `verb` for each VM. It goes on after a failure, and returns the first one.
    pub(crate) fn each(&self, mut verb: impl FnMut(&Home, &str) -> Result<()>) -> Result<()> {
        let home = self.home.home()?;
        let mut first: Option<Error> = None;
        for name in &self.names {
            if let Err(e) = verb(&home, name) {
                match first {
                    None => first = Some(e),
                    Some(_) => ui::failure(&e),
                }
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// Completes names of VMs.
pub(super) fn complete(begin: &OsStr) -> Vec<CompletionCandidate> {
    complete_names(begin, Home::names)
}

/// Completes names of the user's home. Errors complete nothing: a shell must not print them.
pub(super) fn complete_names(
    begin: &OsStr,
    list: impl FnOnce(&Home) -> local_vm::Result<Vec<String>>,
) -> Vec<CompletionCandidate> {
    let home = home_of_environment();
    let names = home.and_then(|home| list(&home)).unwrap_or_default();
    let begin = begin.to_string_lossy();
    names.iter().filter(|name| name.starts_with(&*begin)).map(CompletionCandidate::new).collect()
}

/// The result of a verb that waited for the end of a VM: a failed VM is an error.
pub(super) fn ended(vm: &Vm, state: &State) -> Result<()> {
    let why = state.message.as_deref().or(state.reason.as_deref()).unwrap_or("unknown reason");
    match state.life {
        Life::Failed => Err(Error::failed(format!("{} failed: {why}", vm.name()))),
        _ => Ok(()),
    }
}

/// Removes a VM that has ended. With `force` a running VM is powered off first. A copied record is removed without its VM.
pub(super) fn remove(home: &Home, name: &str, force: bool) -> Result<()> {
    if vm_folder::remove_copy(home, name)? {
        return Ok(());
    }
    remove_chosen(home, name, force, |_, _| true, || {})
}

/// Removes the VM of this name that the process with the mark `owner` has made, whether it runs or not. Another VM stays.
pub(super) fn remove_owned(home: &Home, name: &str, owner: &str) -> Result<()> {
    let is_owned = |vm: &Vm| vm.record.owner.as_deref() == Some(owner);
    match Vm::find(home, name)? {
        Some(vm) if is_owned(&vm) => remove_chosen(home, name, true, |vm, _| is_owned(vm), || {}),
        _ => Ok(()),
    }
}

/// Removes a VM of which `is_chosen` is true, also when no other process can start it any more. `meanwhile` is called before that.
fn remove_chosen(
    home: &Home,
    name: &str,
    force: bool,
    is_chosen: impl Fn(&Vm, &Standing) -> bool,
    meanwhile: impl Fn(),
) -> Result<()> {
    local_vm::place::check_name(name)?;
    let begun = Instant::now();
    loop {
        if let Some(lock) = ended_and_locked(home, name, force, &is_chosen, &meanwhile)? {
            let vm = Vm::open(home, name)?;
            let standing = vm.standing_locked(&lock)?;
            if !is_chosen(&vm, &standing) {
                return Err(another_vm(name));
            }
            // A start that came before the lock. Without force the next round refuses it.
            if standing.is_up() {
                if begun.elapsed() > REMOVAL {
                    let what = format!("{name} is not removed: it is {} again each time", standing.word());
                    return Err(Error::failed(what));
                }
                continue;
            }
            local_vm::launch::end(home, name)?;
            vm_folder::forget(home, name, lock)?;
        }
        return Ok(());
    }
}

/// The lock of a VM that had ended before. `None` if it is removed: by another process, or as one without a readable record.
fn ended_and_locked(
    home: &Home,
    name: &str,
    force: bool,
    is_chosen: impl Fn(&Vm, &Standing) -> bool,
    meanwhile: impl Fn(),
) -> Result<Option<Lock>> {
    let vm = match Vm::open(home, name) {
        Ok(vm) => vm,
        // The VM has files, but its record cannot be read.
        Err(_) if force && home.vm(name).is_dir() => {
            let lock = home.lock_vm(name)?;
            let client = local_vm::launch::client(home, name)?;
            if client.is_there() {
                let _ = client.request(&Request::Destroy);
                wait_for_qemu(home, name)?;
            }
            local_vm::launch::end(home, name)?;
            vm_folder::forget(home, name, lock)?;
            return Ok(None);
        }
        Err(e) => return Err(e.into()),
    };
    let standing = vm.standing()?;
    if standing.is_up() {
        if !force {
            let what = format!("{name} is {}; stop it first, or remove it with -f", standing.word());
            return Err(Error::failed(what));
        }
        if !is_chosen(&vm, &standing) {
            return Err(another_vm(name));
        }
        cut_off(&vm)?;
    }
    meanwhile();
    let lock = home.lock_vm(name)?;
    if Vm::find(home, name)?.is_none() {
        // Another process has removed it, and the lock has made its folder again.
        vm_folder::remove_left(home, name, &lock)?;
        return Ok(None);
    }
    Ok(Some(lock))
}

fn another_vm(name: &str) -> Error {
    Error::failed(format!("{name} was started again meanwhile"))
}

/// Waits for the end of a QEMU that was powered off. One that stays keeps its files, by an error of the removal.
fn wait_for_qemu(home: &Home, name: &str) -> Result<()> {
    let begun = Instant::now();
    while local_vm::launch::qemu(home, name)?.is_some() && begun.elapsed() < POWER_OFF {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Powers a VM off, and waits until it has ended. A launcher that has ended is replaced first.
pub(super) fn cut_off(vm: &Vm) -> Result<()> {
    let client = vm.launcher()?;
    if vm.ask(&client, &Request::Destroy)? {
        vm.wait_for_end(&client, Some(POWER_OFF))?;
    }
    Ok(())
}

/// A VM and its standing, or why that is not known.
pub(super) type Listed = (String, local_vm::Result<(Vm, Standing)>);

/// All VMs by name, after a sweep.
pub(super) fn list(home: &Home) -> Result<Vec<Listed>> {
    kept(home, |_| true, |message| ui::say(&format!("coracle: warning: {message}")))
}

/// Removes VMs that were started with --rm and have ended, but those of these names, and the files of starts that were killed.
pub(super) fn sweep(home: &Home, but: &[&str]) -> Result<()> {
    kept(home, |vm| vm.record.remove && !but.contains(&vm.name()), |message| tracing::info!("{message}"))
        .map(drop)
}

/// The chosen VMs that a sweep keeps. `tell` gets a message about each folder that is not a VM, and is kept.
fn kept(home: &Home, is_asked: impl Fn(&Vm) -> bool, tell: impl Fn(&str)) -> Result<Vec<Listed>> {
    vm_folder::clear_gone(home);
    for name in home.names()? {
        if let Ok(None) = Vm::find(home, &name) {
            match clear_start(home, &name) {
                Ok(left) => left.message(home, &name).iter().for_each(|message| tell(message)),
                Err(e) => tracing::info!("the files of {name} are not removed: {e}"),
            }
        }
    }
    let chosen = Vm::all(home)?.into_iter().filter(|(_, vm)| vm.as_ref().map_or(true, &is_asked));
    let mut listed = standings(chosen);
    listed.retain(|(name, asked)| match asked {
        Ok((vm, standing)) if vm.record.remove && is_over(standing) => match remove_after_end(home, name) {
            Ok(()) => false,
            Err(e) => {
                tracing::info!("{name} is not removed yet: {e}");
                true
            }
        },
        _ => true,
    });
    Ok(listed)
}

/// Removes the files of a start that was killed. A folder with other files stays as it is, without a lock of ours.
fn clear_start(home: &Home, name: &str) -> local_vm::Result<LeftFolder> {
    match LeftFolder::examine(home, name)? {
        // A start in progress holds the lock.
        LeftFolder::KilledStart => vm_folder::remove_left(home, name, &home.lock_vm(name)?),
        other => Ok(other),
    }
}

/// Removes a VM that was started with --rm and has ended. One of its name may have been made since.
pub(super) fn remove_after_end(home: &Home, name: &str) -> Result<()> {
    remove_chosen(home, name, false, |vm, standing| vm.record.remove && is_over(standing), || {})
}

/// True for a VM whose run has ended.
fn is_over(standing: &Standing) -> bool {
    match standing {
        Standing::Known(state) => state.life.is_final(),
        Standing::Left(state) => state.as_ref().is_none_or(|state| state.life.is_final()),
    }
}

/// Asks the launchers at the same time: one that does not answer delays no other.
fn standings(vms: impl Iterator<Item = (String, local_vm::Result<Vm>)>) -> Vec<Listed> {
    let mut vms = vms.peekable();
    let mut listed = vec![];
    let ask = |vm: Vm| vm.standing().map(|standing| (vm, standing));
    while vms.peek().is_some() {
        std::thread::scope(|scope| {
            let some = vms.by_ref().take(ASKED_AT_ONCE);
            let asked = some.map(|(name, vm)| (name, scope.spawn(move || vm.and_then(ask))));
            for (name, answer) in asked.collect::<Vec<_>>() {
                let failed = |_| Err(local_vm::Error::failed("the request to its launcher failed"));
                listed.push((name, answer.join().unwrap_or_else(failed)));
            }
        });
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::{Resolved, Sync};
    use local_vm::record::Record;
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Arc, Condvar, Mutex};

    /// Records of VMs whose launchers answer none, and leave their clients when all of them have one. Returns whether one gave up
    /// the wait for the others.
    fn silent(home: &Home, names: &[&str]) -> Arc<AtomicBool> {
        let (asked, gave_up) = (Arc::new((Mutex::new(BTreeSet::new()), Condvar::new())), Arc::default());
        for name in names {
            std::fs::create_dir_all(home.vm(name)).unwrap();
            let sync = Sync { vmi: serde_json::json!({}), generation: 1, resolved: Resolved::default() };
            Record::new(name, "x", true, sync, Path::new("/launcher")).save(home).unwrap();
            let socket = local_vm::launch::client(home, name).unwrap().socket().to_owned();
            std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
            let listener = UnixListener::bind(&socket).unwrap();
            let (all, own, count) = (Arc::clone(&asked), (*name).to_owned(), names.len());
            let is_late = Arc::<AtomicBool>::clone(&gave_up);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut asked = all.0.lock().unwrap();
                    asked.insert(own.clone());
                    all.1.notify_all();
                    let limit = Duration::from_secs(20);
                    let waits = |asked: &mut BTreeSet<String>| asked.len() < count;
                    let (_asked, end) = all.1.wait_timeout_while(asked, limit, waits).unwrap();
                    is_late.fetch_or(end.timed_out(), Relaxed);
                    drop(stream);
                }
            });
        }
        gave_up
    }

    /// Its launcher was asked to end, and shut the guest down.
    #[test]
    fn a_vm_that_is_started_while_it_is_removed_is_kept() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let record = |remove| {
            let sync = Sync { vmi: serde_json::json!({}), generation: 1, resolved: Resolved::default() };
            Record::new("web", "x", remove, sync, Path::new("/launcher"))
        };
        std::fs::create_dir_all(home.vm("web")).unwrap();
        record(true).save(&home).unwrap();
        let root = local_vm::launch::root(&home, "web");
        std::fs::create_dir_all(&root).unwrap();
        // A QEMU that runs is known by its start: this process.
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let started = own.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
        let state = |life| {
            let (qemu_pid, qemu_started) = (Some(std::process::id()), Some(started));
            let state = State { life, qemu_pid, qemu_started, ..State::default() };
            std::fs::write(root.join("state.json"), serde_json::to_string(&state).unwrap()).unwrap();
        };
        state(Life::Succeeded);
        let said = remove_chosen(&home, "web", false, |_, _| true, || state(Life::Running)).unwrap_err();
        assert!(said.to_string().contains("stop it first"), "{said}");
        assert!(home.vm("web").join("vm.json").exists());
        // The next one of that name was not started with --rm.
        state(Life::Succeeded);
        let is_swept = |vm: &Vm, standing: &Standing| vm.record.remove && is_over(standing);
        let next = || record(false).save(&home).unwrap();
        let said = remove_chosen(&home, "web", false, is_swept, next).unwrap_err();
        assert!(said.to_string().contains("was started again meanwhile"), "{said}");
        remove(&home, "web", false).unwrap();
        assert!(!home.vm("web").exists());
    }

    /// VMs of --rm were asked one after another, and one that did not answer ended the list.
    #[test]
    fn vms_that_are_removed_at_their_end_are_asked_at_the_same_time() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let names: Vec<String> = (0..8).map(|i| format!("vm{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let gave_up = silent(&home, &names);
        let listed = list(&home).unwrap();
        let found: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, names);
        assert!(listed.iter().all(|(_, asked)| asked.is_err()), "{listed:?}");
        assert!(!gave_up.load(Relaxed), "one was asked behind another");
    }
}
