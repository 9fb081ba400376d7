//! Arguments that name VMs, shared by all verbs on VMs, and their completion in a shell.

use super::vm_args::HomeArgs;
use crate::error::{Error, Result};
use api::launcher::{Life, Request, State};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use local_vm::place::Home;
use local_vm::record::{Standing, Vm};
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// Timeout of a VM that is powered off.
const POWER_OFF: Duration = Duration::from_secs(30);

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
                    Some(_) => crate::ui::failure(&e),
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
    let home =
        Home::from_env(std::env::var_os("CORACLE_HOME").map(Into::into), |name| std::env::var_os(name));
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

/// Removes a VM that has ended. With `force` a running VM is powered off first.
pub(super) fn remove(home: &Home, name: &str, force: bool) -> Result<()> {
    local_vm::place::check_name(name)?;
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
            return Ok(Vm::forget(home, name, lock)?);
        }
        Err(e) => return Err(e.into()),
    };
    let standing = vm.standing()?;
    if standing.is_up() {
        if !force {
            let what = format!("{name} is {}; stop it first, or remove it with -f", standing.word());
            return Err(Error::failed(what));
        }
        cut_off(&vm)?;
    }
    let lock = home.lock_vm(name)?;
    local_vm::launch::end(home, name)?;
    Ok(Vm::forget(home, name, lock)?)
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

/// Removes VMs that were started with --rm and have ended, and the files of starts that were killed.
pub(super) fn sweep(home: &Home) -> Result<()> {
    home.clear_gone();
    for name in home.names()? {
        let over = match Vm::find(home, &name) {
            Ok(Some(vm)) if vm.record.remove => match vm.standing()? {
                Standing::Known(state) => state.life.is_final(),
                Standing::Left(state) => state.is_none_or(|state| state.life.is_final()),
            },
            Ok(Some(_)) | Err(_) => false,
            // A start in progress holds the lock.
            Ok(None) => match home.lock_vm(&name) {
                Ok(lock) if matches!(Vm::find(home, &name), Ok(None)) => {
                    Vm::forget(home, &name, lock)?;
                    false
                }
                _ => false,
            },
        };
        if over && let Err(e) = remove(home, &name, false) {
            tracing::info!("{name} is not removed yet: {e}");
        }
    }
    Ok(())
}
