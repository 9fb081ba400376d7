//! The verbs `ssh` and `scp`: programs of this computer, which reach the guest by `port-forward --stdio` of
//! this program.

use crate::error::{Error, ErrorKind, Result};
use crate::virt::client::Cluster;
use crate::virt::connect::{ConnectArgs, TOKEN};
use crate::virt::target::{Login, Target, username};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Log in to a VM or VMI by ssh
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle virt ssh me@vm/web\n  \
    coracle virt ssh me@vmi/web/blue -i ~/.ssh/id_ed25519 -c 'uname -a'")]
pub(super) struct SshArgs {
    #[arg(value_name = "TARGET", help = "VM or VMI to log in to: [USER@]vm/NAME[/NAMESPACE]")]
    login: Login,

    #[command(flatten)]
    options: Options,

    /// Command to run in the guest
    #[arg(short, long, value_name = "COMMAND")]
    command: Option<String>,
}

/// Copy files to or from a VM or VMI by scp
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle virt scp notes.txt me@vm/web:notes.txt\n  \
    coracle virt scp -r me@vm/web/blue:logs .")]
pub(super) struct ScpArgs {
    #[arg(value_name = "SOURCE", help = "File to copy: a path, or [USER@]vm/NAME[/NAMESPACE]:PATH")]
    source: String,

    #[arg(value_name = "DESTINATION", help = "Copy of the file: a path, or [USER@]vm/NAME[/NAMESPACE]:PATH")]
    destination: String,

    #[command(flatten)]
    options: Options,

    /// Copy folders with all that is in them
    #[arg(short, long)]
    recursive: bool,

    /// Preserve times and permissions of the files
    #[arg(long)]
    preserve: bool,
}

/// Options of both programs.
#[derive(Debug, clap::Args)]
struct Options {
    /// User to log in as, where no USER@ stands before the VM [default: your
    /// own]
    #[arg(short = 'l', long, value_name = "USER")]
    username: Option<String>,

    /// Private key file for the login [default: those that ssh finds]
    #[arg(short, long, value_name = "FILE")]
    identity_file: Option<PathBuf>,

    /// Port of the ssh server in the guest
    #[arg(short, long, value_name = "PORT", default_value_t = 22)]
    port: u16,

    /// File with the known keys of hosts
    #[arg(long, value_name = "FILE")]
    known_hosts: Option<PathBuf>,

    /// Option for the program ssh or scp; repeat for several
    #[arg(short = 't', long = "local-ssh-opts", value_name = "OPTION", allow_hyphen_values = true)]
    more: Vec<String>,
}

pub(super) fn ssh(args: &SshArgs, connect: &ConnectArgs, cluster: &Cluster) -> Result<()> {
    let SshArgs { login, options, command } = args;
    let mut line = options.line(login, connect, cluster)?;
    line.push(options.at(login, cluster.namespace(), own())?.into());
    line.extend(command.iter().map(OsString::from));
    run("ssh", &line, connect)
}

pub(super) fn scp(args: &ScpArgs, connect: &ConnectArgs, cluster: &Cluster) -> Result<()> {
    let (login, path, to_guest) = sides(&args.source, &args.destination)?;
    let options = &args.options;
    let mut line = options.line(&login, connect, cluster)?;
    line.extend(args.recursive.then(|| OsString::from("-r")));
    line.extend(args.preserve.then(|| OsString::from("-p")));
    // A path may begin with a dash, and must not be taken for an option.
    line.push("--".into());
    let remote = OsString::from(format!("{}:{path}", options.at(&login, cluster.namespace(), own())?));
    match to_guest {
        true => line.extend([OsString::from(&args.source), remote]),
        false => line.extend([remote, OsString::from(&args.destination)]),
    }
    run("scp", &line, connect)
}

/// Name of the current user.
fn own() -> Option<String> {
    std::env::var("USER").ok().filter(|user| !user.is_empty())
}

/// Login and path in the guest, and true if the copy goes there.
fn sides<'a>(source: &'a str, destination: &'a str) -> Result<(Login, &'a str, bool)> {
    let (remote, to_guest) = match (source.contains(':'), destination.contains(':')) {
        (true, false) => (source, false),
        (false, true) => (destination, true),
        (true, true) => {
            let what = "copying from a remote location to another remote location is not supported";
            return Err(Error::new(ErrorKind::Usage, what));
        }
        (false, false) => {
            let what = "none of the two provided locations seems to be a remote location";
            return Err(Error::new(ErrorKind::Usage, what).with_hint("write one as vm/NAME:PATH"));
        }
    };
    let (login, path) = remote.split_once(':').unwrap_or((remote, ""));
    match login.parse() {
        Ok(login) => Ok((login, path, to_guest)),
        Err(e) => Err(Error::new(ErrorKind::Usage, format!("{remote}: {e}"))),
    }
}

impl Options {
    /// User and host name for ssh. The name is not resolved: ssh only looks it up among the known keys.
    fn at(&self, login: &Login, namespace: &str, own: Option<String>) -> Result<String> {
        let target = &login.target;
        let namespace = target.namespace.as_deref().unwrap_or(namespace);
        let host = format!("{}.{}.{namespace}", target.word(), target.name);
        let Some(user) = login.user.clone().or_else(|| self.username.clone()).or(own) else {
            return Ok(host);
        };
        match username(&user) {
            Ok(user) => Ok(format!("{user}@{host}")),
            Err(what) => {
                let error = Error::new(ErrorKind::Usage, what);
                Err(error.with_hint("say --username NAME, or USER@ before the VM"))
            }
        }
    }

    fn line(&self, login: &Login, connect: &ConnectArgs, cluster: &Cluster) -> Result<Vec<OsString>> {
        let program = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
        let proxy = proxy_command(&program, &login.target, self.port, connect, cluster.namespace());
        let mut line: Vec<OsString> = vec!["-o".into(), proxy];
        if let Some(file) = &self.known_hosts {
            line.extend(["-o".into(), setting("UserKnownHostsFile", file.as_os_str())]);
        }
        line.extend(self.more.iter().flat_map(|more| more.split_whitespace()).map(OsString::from));
        if let Some(file) = &self.identity_file {
            line.extend(["-i".into(), file.clone().into_os_string()]);
        }
        Ok(line)
    }
}

/// Option of ssh with the command that connects it to the guest: quoted for a shell, and with `%` escaped for
/// ssh.
fn proxy_command(
    program: &std::path::Path,
    target: &Target,
    port: u16,
    connect: &ConnectArgs,
    namespace: &str,
) -> OsString {
    let mut words = vec![program.as_os_str().to_owned()];
    if super::called(Some(program.as_os_str())).is_none() {
        words.push("virt".into());
    }
    words.extend(connect.again());
    words.extend(["port-forward", "--stdio=true"].map(OsString::from));
    let namespace = target.namespace.as_deref().unwrap_or(namespace);
    words.push(format!("{}/{}/{namespace}", target.word(), target.name).into());
    words.push(port.to_string().into());
    let mut setting = b"ProxyCommand=".to_vec();
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            setting.push(b' ');
        }
        for byte in quoted(word) {
            setting.push(byte);
            if byte == b'%' {
                setting.push(b'%');
            }
        }
    }
    OsString::from_vec(setting)
}

/// A word quoted for a shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return bytes.to_vec();
    }
    let mut quoted = vec![b'\''];
    for &byte in bytes {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            other => quoted.push(other),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Option of ssh with a path, quoted: a blank would end it, and `%` begins a placeholder.
fn setting(name: &str, path: &OsStr) -> OsString {
    let mut setting = format!("{name}=\"").into_bytes();
    for &byte in path.as_bytes() {
        match byte {
            b'%' => setting.extend(b"%%"),
            b'"' | b'\\' => setting.extend([b'\\', byte]),
            _ => setting.push(byte),
        }
    }
    setting.push(b'"');
    OsString::from_vec(setting)
}

/// Replaces this process by the program, which starts this one again for its connection.
fn run(program: &str, line: &[OsString], connect: &ConnectArgs) -> Result<()> {
    tracing::info!("{program} {line:?}");
    let e = Command::new(program).args(line).envs(connect.token().map(|token| (TOKEN, token))).exec();
    Err(match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("{program} is not installed"))
                .with_hint("as root: apt-get install openssh-client")
        }
        _ => Error::io(format!("cannot start {program}"), e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn proxy(program: &str) -> String {
        let target = "vm/web".parse().unwrap();
        let setting = proxy_command(Path::new(program), &target, 2222, &ConnectArgs::default(), "blue");
        setting.into_string().unwrap()
    }

    #[test]
    fn ssh_reaches_the_guest_by_this_program() {
        assert_eq!(
            proxy("/usr/bin/coracle"),
            "ProxyCommand=/usr/bin/coracle virt port-forward --stdio=true vm/web/blue 2222"
        );
        assert_eq!(
            proxy("/opt/virtctl"),
            "ProxyCommand=/opt/virtctl port-forward --stdio=true vm/web/blue 2222"
        );
        assert_eq!(
            proxy("/my dir/it's 100%/coracle"),
            "ProxyCommand='/my dir/it'\\''s 100%%/coracle' virt port-forward --stdio=true vm/web/blue 2222"
        );
    }

    #[test]
    fn nobody_is_an_option_of_ssh() {
        let options = |username: Option<&str>| Options {
            username: username.map(str::to_owned),
            identity_file: None,
            port: 22,
            known_hosts: None,
            more: Vec::new(),
        };
        let at = |login: &str, username: Option<&str>, own: Option<&str>| {
            options(username).at(&login.parse().unwrap(), "blue", own.map(str::to_owned))
        };
        assert_eq!(at("me@vm/web", Some("you"), Some("own")).unwrap(), "me@vm.web.blue");
        assert_eq!(at("vm/web/red", Some("you"), Some("own")).unwrap(), "you@vm.web.red");
        assert_eq!(at("vm/web", None, Some("own")).unwrap(), "own@vm.web.blue");
        assert_eq!(at("vm/web", None, None).unwrap(), "vm.web.blue");
        let option = Some("-oProxyCommand=x");
        for refused in [at("vm/web", option, None), at("vm/web", None, option)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("'-oProxyCommand=x' is not a username"), "{error}");
        }
    }

    #[test]
    fn ssh_reads_the_line_as_it_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("it's 100%");
        std::fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$0.said\"\n").unwrap();
        let mut permissions = std::fs::metadata(&program).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        std::fs::set_permissions(&program, permissions).unwrap();
        let setting = proxy(program.to_str().unwrap());
        let ran = Command::new("ssh").args(["-F", "none", "-o", &setting, "vm.web.blue"]).output();
        if ran.is_err() {
            eprintln!("skipped: there is no ssh here");
            return;
        }
        let said = std::fs::read_to_string(folder.path().join("it's 100%.said")).unwrap();
        assert_eq!(said, "virt\nport-forward\n--stdio=true\nvm/web/blue\n2222\n");
    }

    #[test]
    fn one_side_of_a_copy_is_in_the_guest() {
        let (login, path, to_guest) = sides("a b", "me@vm/web/ns:/x:y").unwrap();
        assert_eq!((login.user.as_deref(), path, to_guest), (Some("me"), "/x:y", true));
        let (login, path, to_guest) = sides("vmi/web:", ".").unwrap();
        assert_eq!((login.target.word(), path, to_guest), ("vmi", "", false));
        for (source, destination) in [("a", "b"), ("vm/a:b", "vm/c:d"), ("web:a", "b")] {
            assert_eq!(sides(source, destination).unwrap_err().kind(), ErrorKind::Usage);
        }
    }

    #[test]
    fn a_path_is_a_setting_of_ssh_whatever_it_is_called() {
        let made = setting("UserKnownHostsFile", OsStr::new("/a b/100%/\"q\""));
        assert_eq!(made, "UserKnownHostsFile=\"/a b/100%%/\\\"q\\\"\"");
    }
}
