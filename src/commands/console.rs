//! The verb `coracle console`.

use super::vms::{self, VmArgs};
use crate::console::{Input, LeaveReason, close_at_end, join};
use crate::error::{Error, ErrorKind, Result};
use crate::terminal;
use crate::ui;
use api::launcher::State;
use launcher_client::Access;
use local_vm::record::Vm;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Connect the terminal to a VM's serial console; Ctrl-] leaves the console
///
/// The last screen is shown first. One client at a time can type; --read-only
/// connects further clients. Where standard input is no terminal, its bytes are
/// typed, and at its end the console is left once the guest is quiet.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    vm: VmArgs,

    /// Watch the console without typing
    #[arg(long)]
    read_only: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let vm = args.vm.open()?;
    vm.up()?;
    match attach(&vm, if args.read_only { Input::Unread } else { Input::LeavesAtEnd })? {
        Some(state) => vms::ended(&vm, &state),
        None => Ok(()),
    }
}

/// Joins the console until the user leaves it (`None`) or the VM ends. A launcher that ends meanwhile is
/// replaced by a new one, which takes over the VM.
pub(super) fn attach(vm: &Vm, input: Input) -> Result<Option<State>> {
    let name = vm.name();
    let write = input != Input::Unread;
    ui::on_signal(|| {
        terminal::restore();
        std::process::exit(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
    })?;
    if write && std::io::stdin().is_terminal() {
        ui::say(&format!("coracle: the console of {name}; Ctrl-] leaves it, and the VM keeps running"));
    }
    loop {
        let client = vm.launcher()?;
        if vm.record.sync.vmi["spec"]["domain"]["devices"]["autoattachSerialConsole"] == false {
            ui::say(&format!("coracle: {name} has no serial console; this waits until it ends"));
            return Ok(Some(vm.wait_for_end(&client, None)?));
        }
        let access = if write { Access::Write } else { Access::Read };
        let mut stream = client.console(access).map_err(|e| advised(e.into(), name))?;
        close_at_end(vm, &client, &stream)?;
        match join(&mut stream, input)? {
            LeaveReason::End => {}
            LeaveReason::Keys => {
                ui::say(&format!(
                    "\ncoracle: left; 'coracle console {name}' comes back, 'coracle stop {name}' ends it"
                ));
                return Ok(None);
            }
            LeaveReason::InputEnd => {
                ui::say(&format!(
                    "\ncoracle: left at the end of standard input; 'coracle logs -f {name}' prints the console, \
                     and 'coracle console --read-only {name}' watches it"
                ));
                return Ok(None);
            }
        }
        // The stream ended with the VM or with its launcher.
        match vm.standing()? {
            standing if !standing.is_up() => {
                return match standing {
                    local_vm::record::Standing::Known(state) => Ok(Some(state)),
                    local_vm::record::Standing::Left(None) => {
                        let what = format!("{name} has ended, and its last state is not known");
                        Err(Error::new(ErrorKind::NotFound, what))
                    }
                    local_vm::record::Standing::Left(state) => Ok(state),
                };
            }
            local_vm::record::Standing::Known(_) => {
                // The stream ends a moment before the state changes.
                match vm.wait_for_end(&client, Some(Duration::from_secs(2))) {
                    Ok(state) => return Ok(Some(state)),
                    Err(e) => tracing::info!("the console is joined again: {e}"),
                }
            }
            local_vm::record::Standing::Left(_) => {
                ui::say(&format!("coracle: the launcher of {name} has ended; a new one takes over"));
            }
        }
    }
}

/// Names the way to a console on which another client types.
fn advised(e: Error, name: &str) -> Error {
    match e.sentence().contains("another client types") {
        true => e.with_hint(format!("'coracle console --read-only {name}' watches it")),
        false => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_that_is_taken_names_the_flag_that_watches_it() {
        let told = |what: &str| advised(Error::refused(what), "web").to_string();
        let busy = told("another client types on this console");
        assert!(
            busy.contains("types on this console") && busy.contains("'coracle console --read-only web'"),
            "{busy}"
        );
        assert_eq!(told("this console has 32 clients already"), "this console has 32 clients already");
    }
}
