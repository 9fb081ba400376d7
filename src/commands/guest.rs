//! The verbs that run programs in a guest: `ssh` and `exec`.

use super::vm_args::HomeArgs;
use super::vms::{VmArgs, complete};
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use api::launcher::{Exec, Link};
use clap_complete::engine::ArgValueCompleter;
use local_vm::record::Vm;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Log in to a VM by ssh, through the forwarding of its port 22
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle run -d os.qcow2 -p 2222:22 --user me --ssh-key ~/.ssh/id_ed25519.pub\n  \
    coracle ssh me@os\n  \
    coracle ssh me@os uname -a")]
pub(crate) struct SshArgs {
    /// Name of the VM, and user to log in as: NAME or USER@NAME
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete))]
    name: String,

    /// Private key file for the login
    #[arg(short, long, value_name = "FILE")]
    identity: Option<std::path::PathBuf>,

    #[command(flatten)]
    home: HomeArgs,

    /// Command for the guest's shell, preceded by options of ssh
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Run a program in a VM through the guest agent
///
/// The exit code is the program's; 127 if the guest has no such program, 126
/// if it may not be run. With --tty the program has a terminal, if coracle has
/// one; the guest needs 'script', which most Linux systems have.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle exec os -- systemctl is-system-running\n  \
    coracle exec -it os -- bash\n  \
    coracle exec -i os -- sh -c 'cat >/etc/motd' <motd")]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// Send standard input to the program, up to 96 KiB of text
    #[arg(short, long)]
    interactive: bool,

    /// Give the program a terminal, and send it all keys; without effect in a
    /// pipe
    #[arg(short, long)]
    tty: bool,

    /// Seconds to wait before giving up; a program on a terminal has no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,

    /// Program to run, with its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub(crate) fn ssh(args: &SshArgs) -> Result<()> {
    let (user, name) = match args.name.rsplit_once('@') {
        Some((user, name)) => (Some(user), name),
        None => (None, args.name.as_str()),
    };
    let vm = Vm::open(&args.home.home()?, name)?;
    vm.up()?;
    let (address, port) = port_of_ssh(&vm).ok_or_else(|| {
        let what = format!("no port is forwarded to port 22 of {name}");
        Error::new(ErrorKind::Usage, what)
            .with_hint(format!("'coracle forward add {name} 2222:22' forwards one"))
    })?;
    let known = vm.home.vm(name).join("known_hosts");
    let mut command = Command::new("ssh");
    command.arg("-p").arg(port.to_string());
    // Each VM has a file of host keys of its own, which is removed with it.
    command.arg("-o").arg(known_hosts(&known));
    command.arg("-o").arg("StrictHostKeyChecking=accept-new");
    command.arg("-o").arg(format!("HostKeyAlias={name}"));
    if let Some(identity) = &args.identity {
        command.arg("-i").arg(identity);
    }
    if let Some(user) = user {
        // The user is an argument of its own: in front of an address a leading `-` would make an option.
        command.arg("-l").arg(user);
    }
    command.arg(address);
    command.args(&args.command);
    let e = command.exec();
    let error = match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, "ssh is not installed; as root: apt-get install openssh-client")
        }
        _ => Error::io("cannot start ssh", e),
    };
    Err(error)
}

/// Option of ssh for a file of host keys, quoted: a blank would end the path, and `%` begins a placeholder.
fn known_hosts(path: &Path) -> OsString {
    let mut setting = b"UserKnownHostsFile=\"".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' => setting.extend(b"%%"),
            b'"' | b'\\' => setting.extend([b'\\', byte]),
            _ => setting.push(byte),
        }
    }
    setting.push(b'"');
    OsString::from_vec(setting)
}

/// Address and port that are forwarded to the guest's port 22.
fn port_of_ssh(vm: &Vm) -> Option<(String, u16)> {
    let links = vm.record.sync.resolved.interfaces.values();
    let found = links.flat_map(Link::forwards).find(|f| f.guest_port == 22 && f.protocol == "tcp")?;
    let address = match found.address.as_str() {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        other => other,
    };
    Some((address.to_owned(), found.port))
}

pub(crate) fn exec(args: &ExecArgs) -> Result<()> {
    let vm = args.vm.open()?;
    let client = vm.up()?;
    if args.tty && std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return match super::guest_terminal::run(vm.name(), &client, &args.command)? {
            0 => Ok(()),
            code => ui::leave(code),
        };
    }
    let (program, rest) =
        args.command.split_first().ok_or_else(|| Error::new(ErrorKind::Usage, "no program"))?;
    let input = if args.interactive { Some(input(vm.name())?) } else { None };
    let exec = Exec { command: program.clone(), args: rest.to_vec(), input, timeout: Some(args.timeout) };
    let patience = Duration::from_secs(args.timeout.saturating_add(10).min(86_400));
    let done = match client.exec(&exec, patience).map_err(Error::from) {
        Ok(done) => done,
        Err(e) => match code_without_program(&e.to_string()) {
            Some(code) => {
                ui::failure(&e);
                ui::leave(code)
            }
            None => return Err(e),
        },
    };
    ui::out(&done.stdout)?;
    ui::err(&done.stderr);
    match done.exit_code {
        0 => Ok(()),
        code => ui::leave(code),
    }
}

/// Maximum size of standard input in bytes: a launcher takes a command of 160 KiB, with the input in base64.
const INPUT_MAX: u64 = 96 << 10;

/// Standard input to its end.
fn input(name: &str) -> Result<String> {
    let mut bytes = vec![];
    let read = std::io::stdin().lock().take(INPUT_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| Error::io("cannot read standard input", e))?;
    let hint = format!("coracle cp FILE {name}:PATH copies a file of any size");
    if bytes.len() as u64 > INPUT_MAX {
        return Err(Error::refused("standard input is longer than 96 KiB").with_hint(hint));
    }
    String::from_utf8(bytes).map_err(|_| Error::refused("standard input is not text (UTF-8)").with_hint(hint))
}

/// Exit code of a shell for a program that cannot be run, by the message of the guest agent.
fn code_without_program(said: &str) -> Option<i32> {
    let why = said.split_once("Failed to execute child process")?.1;
    match why {
        why if why.contains("No such file or directory") => Some(127),
        why if why.contains("Permission denied") => Some(126),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_has_the_exit_code_of_shells() {
        let said = |why: &str| {
            format!(
                "ask the guest agent in os for guest-exec: Guest agent command failed, error was 'Failed to execute child process “nope” ({why})'"
            )
        };
        assert_eq!(code_without_program(&said("No such file or directory")), Some(127));
        assert_eq!(code_without_program(&said("Permission denied")), Some(126));
        assert_eq!(code_without_program(&said("Exec format error")), None);
        assert_eq!(code_without_program("the guest agent does not answer: No such file or directory"), None);
    }

    #[test]
    fn ssh_takes_the_file_of_keys_whatever_it_is_called() {
        let path = Path::new("/a b/100%h/\"q\"/k=v#x");
        let done = Command::new("ssh").arg("-G").arg("-o").arg(known_hosts(path)).arg("127.0.0.1").output();
        let Ok(done) = done else {
            eprintln!("skipped: there is no ssh here");
            return;
        };
        let text = String::from_utf8_lossy(&done.stdout);
        let file = text.lines().find_map(|line| line.strip_prefix("userknownhostsfile "));
        assert_eq!(file, Some("/a b/100%h/\"q\"/k=v#x"), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
