//! Finds the program virt-launcher and starts one for a VM: detached, so that it outlives the verb that
//! started it.
//!
//! ```text
//!  --launcher, or beside coracle, or in PATH
//!     │ run --root DIR --socket PATH --cache DIR        a session of its own, in /, its log in launcher.log
//!     ▼
//!  polled until it answers; if it ends earlier or exceeds the timeout, the error has the last lines of its log
//! ```
//!
//! A launcher inherits the lock of its log with its standard output, and holds it until its process ends. A
//! process that gets the lock knows that no launcher of this VM is running, not even one that was started a
//! moment ago and does not listen yet.

use super::client::Client;
use super::path::file_at;
use super::place::{Home, gone};
use super::whole_file::sync_names;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::{Life, State};
use launcher_client::process;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "virt-launcher";
/// Timeout until a new launcher answers: libvirt may have to probe QEMU first.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of a launcher that was asked to end.
const END: Duration = Duration::from_secs(10);
/// Maximum size of a log in bytes; a longer one is moved to `launcher.log.1`.
const LOG_MAX: u64 = 1 << 20;
/// Number of log lines in an error message.
const LOG_TOLD: usize = 12;

/// Path of the program virt-launcher: this file, or the one beside this program or in `PATH`.
pub fn find(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return match named.is_file() {
            true => std::path::absolute(named)
                .map_err(|e| Error::io(format!("cannot find {}", named.display()), e)),
            false => Err(Error::new(ErrorKind::NotFound, format!("{} is not a program", named.display()))
                .with_hint("name virt-launcher by --launcher")),
        };
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    beside.into_iter().chain(listed).find(|file| file.is_absolute() && file.is_file()).ok_or_else(|| {
        let what = "the program virt-launcher is neither beside coracle nor in PATH";
        Error::new(ErrorKind::NotFound, what).with_hint("install it, or name it by --launcher")
    })
}

/// Folder for all files of a VM's launcher.
pub fn root(home: &Home, name: &str) -> PathBuf {
    home.vm(name).join("root")
}

/// Log file of a VM's launcher.
pub fn log(home: &Home, name: &str) -> PathBuf {
    home.vm(name).join("launcher.log")
}

/// A client for the VM's launcher, running or not. A launcher of an earlier version may listen at a path that another home
/// uses for a VM of this name, too: it is the VM's if it has the VM's folder.
pub fn client(home: &Home, name: &str) -> Result<Client> {
    let client = Client::new(name, home.socket(name)?).of_home(home);
    let Some(earlier) = home.earlier_socket(name).filter(|_| !client.is_there()) else { return Ok(client) };
    let earlier = Client::new(name, earlier).of_home(home);
    match works_in_root(&earlier, home, name) {
        Ok(true) => Ok(earlier),
        Ok(false) => Ok(client),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(client),
        Err(e) => Err(e),
    }
}

/// Purpose of a launcher that is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// It takes over the VM of the launcher before it.
    TakeOver,
    /// It gets a new request of its caller, and starts nothing by itself.
    NewStart,
}

/// A client of the VM's launcher. If none answers, one is started, which takes over the VM of the launcher before it, and starts
/// none. The caller holds the VM's lock.
pub fn start(program: &Path, home: &Home, name: &str) -> Result<Client> {
    start_for(Purpose::TakeOver, program, home, name)
}

/// Returns a client of the VM's launcher, for a caller that gives it a new request. If no launcher answers, one is started. The request of
/// an earlier launcher is removed before, since the new launcher would start that request by itself. The caller holds the VM's lock.
pub(crate) fn start_anew(program: &Path, home: &Home, name: &str) -> Result<Client> {
    start_for(Purpose::NewStart, program, home, name)
}

fn start_for(purpose: Purpose, program: &Path, home: &Home, name: &str) -> Result<Client> {
    let client = client(home, name)?;
    if client.is_there() {
        if is_of_folder(&client, home, name)? {
            return Ok(client);
        }
        end_of_moved_folder(&client, name)?;
    }
    let socket = client.socket();
    home.make_runtime()?;
    let root = root(home, name);
    home.make(&root)?;
    home.make(&home.launcher_cache())?;
    // The socket of a launcher that was killed: no process listens on it.
    if let Err(e) = std::fs::remove_file(socket)
        && e.kind() != io::ErrorKind::NotFound
    {
        return Err(Error::io(format!("cannot remove the old socket {}", socket.display()), e));
    }
    let log = log(home, name);
    let words = take_log(&log)?;
    // No other launcher of this VM runs: its log is locked here.
    check_kept(purpose, home, name)?;
    let again = words.try_clone().map_err(|e| Error::io(format!("cannot use {}", log.display()), e))?;
    let mut command = Command::new(program);
    command.arg("run").arg("--root").arg(&root).arg("--socket").arg(socket);
    command.arg("--cache").arg(home.launcher_cache());
    command.arg("--lifeline");
    command.current_dir("/").stdin(Stdio::piped()).stdout(words).stderr(again);
    detach(&mut command);
    let mut child =
        command.spawn().map_err(|e| Error::io(format!("cannot start {}", program.display()), e))?;
    // The pipe stays open until this process ends, however it does. A launcher without a VM ends with it: no
    // other process would ever find that launcher.
    std::mem::forget(child.stdin.take());
    wait(child, &client, &log)?;
    Ok(client)
}

/// True if the launcher that listens is that of the VM's folder: it has locked the log there, and works in the root there. A launcher
/// whose home was moved has the log still, and works in what is at the old path.
fn is_of_folder(client: &Client, home: &Home, name: &str) -> Result<bool> {
    let log = log(home, name);
    let has_log = match File::open(&log) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        Err(e) => return Err(Error::io(format!("cannot read {}", log.display()), e)),
        Ok(words) => !lock(&words, &log, Duration::ZERO)?,
    };
    Ok(has_log && works_in_root(client, home, name)?)
}

/// True if the root of a launcher is that of the VM, by whatever path.
fn works_in_root(client: &Client, home: &Home, name: &str) -> Result<bool> {
    let of_launcher = file_at(&client.info()?.root)?;
    Ok(of_launcher.is_some() && of_launcher == file_at(&root(home, name))?)
}

/// Ends the launcher of a folder that was moved while it ran. It would keep the files of the VM in another folder. The VM that it runs is
/// not ended.
fn end_of_moved_folder(client: &Client, name: &str) -> Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let (info, state) = (client.info()?, client.state()?);
    if !state.life.is_final() && state.life != Life::Empty {
        let what = format!(
            "{name} is not started: the launcher of that name (process {}) runs a VM whose folder was moved away",
            info.pid
        );
        let hint = "give that folder its name again, and end the VM; or choose another --name";
        return Err(Error::failed(what).with_hint(hint));
    }
    let pid = i32::try_from(info.pid).ok().and_then(Pid::from_raw);
    // An error means that the process has ended already.
    let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
    let since = Instant::now();
    while client.is_there() {
        if since.elapsed() > END {
            let what = format!(
                "the launcher of {name} (process {}) did not end within {} s",
                info.pid,
                END.as_secs()
            );
            return Err(Error::failed(what));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Removes the request of an earlier launcher unless its VM runs or has ended: a new launcher would start that one by itself.
fn check_kept(purpose: Purpose, home: &Home, name: &str) -> Result<()> {
    let root = root(home, name);
    match (purpose, qemu(home, name)?) {
        (Purpose::TakeOver, Some(_)) => Ok(()),
        (Purpose::NewStart, Some((pid, file))) => {
            let what = format!("{name} is not started: the QEMU of its earlier run (process {pid}) runs");
            Err(Error::failed(what).with_hint(format!(
                "'coracle stop {name}' ends it; if that process is not the QEMU of {name}, remove {}",
                file.display()
            )))
        }
        (Purpose::TakeOver, None) if has_ended(&root) => Ok(()),
        (_, None) => retire(&root),
    }
}

/// True if the last state that a launcher saved is the end of its VM.
fn has_ended(root: &Path) -> bool {
    let state = std::fs::read(root.join("state.json")).ok();
    let state = state.and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
    state.is_some_and(|state| state.life.is_final())
}

/// Removes, durably, the request and the state that a launcher has kept.
fn retire(root: &Path) -> Result<()> {
    // The request first: without it a launcher starts nothing, whatever the state is.
    for file in ["vm.json", "state.json"].map(|file| root.join(file)) {
        gone(std::fs::remove_file(&file))
            .map_err(|e| Error::io(format!("cannot remove {}", file.display()), e))?;
    }
    sync_names(root)
}

/// Detaches the process from the terminal, so that neither keys nor a hangup reach it.
#[allow(unsafe_code)]
fn detach(command: &mut Command) {
    let setsid = || rustix::process::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec only one system call is made, and no memory is taken.
    unsafe {
        command.pre_exec(setsid);
    }
}

fn wait(mut child: Child, client: &Client, log: &Path) -> Result<()> {
    let since = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        if client.is_there() {
            return client.info().map(drop);
        }
        let ended = child.try_wait().map_err(|e| Error::io("cannot wait for the launcher", e))?;
        if let Some(status) = ended {
            return Err(Error::failed(format!("the launcher ended with {status}{}", tail(log))));
        }
        if since.elapsed() > PATIENCE {
            // No other process would ever find it.
            let _ = child.kill();
            let _ = child.wait();
            let what = format!(
                "the launcher did not listen on {} within {} s{}",
                client.socket().display(),
                PATIENCE.as_secs(),
                tail(log)
            );
            return Err(Error::failed(what));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Ends the launcher of a VM that has nothing left to do, and waits until its process has ended. A launcher
/// that does not listen yet, because its starter was interrupted, ends by itself. The caller holds the VM's
/// lock.
pub fn end(home: &Home, name: &str) -> Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let (which, patience) = match client(home, name)?.info() {
        Err(e) if e.kind() == ErrorKind::NotFound => ("which is starting".to_owned(), PATIENCE),
        Err(e) => return Err(e),
        Ok(info) => {
            let pid = i32::try_from(info.pid).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or_else(|| Error::failed("the launcher reported an invalid process ID"))?;
            // An error means that the process has ended already.
            let _ = kill_process(pid, Signal::TERM);
            (format!("process {}", info.pid), END)
        }
    };
    let log = log(home, name);
    match File::open(&log) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io(format!("cannot read {}", log.display()), e)),
        Ok(words) if lock(&words, &log, patience)? => Ok(()),
        // It is not killed: it may still run a VM.
        Ok(_) => {
            let seconds = patience.as_secs();
            let what = format!("the launcher of {name} ({which}) did not end within {seconds} s");
            Err(Error::failed(what))
        }
    }
}

/// The QEMU of a VM by the pid files of libvirt, which have the name of its guest: its process ID and its file, if such a process runs.
/// This holds without the launcher and its record.
pub fn qemu(home: &Home, name: &str) -> Result<Option<(u32, PathBuf)>> {
    let folder = root(home, name).join("run/qemu");
    let cannot = |path: &Path, e| {
        Error::io(format!("cannot read {}, so the QEMU of {name} may still run", path.display()), e)
    };
    let entries = match std::fs::read_dir(&folder) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        other => other.map_err(|e| cannot(&folder, e))?,
    };
    for entry in entries {
        let path = entry.map_err(|e| cannot(&folder, e))?.path();
        if path.extension().is_none_or(|extension| extension != "pid") {
            continue;
        }
        let text = match std::fs::read_to_string(&path) {
            // QEMU has ended meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(|e| cannot(&path, e))?,
        };
        // The process ID may be that of another VM's QEMU by now. A file without a number was cut short by a crash of the host, which
        // no QEMU outlives.
        let guest = path.file_stem().unwrap_or_default().to_string_lossy();
        if let Some(pid) = text.trim().parse().ok().filter(|&pid| process::is_qemu_of(pid, &guest)) {
            return Ok(Some((pid, path)));
        }
    }
    Ok(None)
}

/// Opens and locks the log for a new launcher. A long log is moved aside.
fn take_log(path: &Path) -> Result<File> {
    let words = locked_log(path)?;
    let cannot = |e| Error::io(format!("cannot write {}", path.display()), e);
    if words.metadata().map_err(cannot)?.len() <= LOG_MAX {
        return Ok(words);
    }
    std::fs::rename(path, path.with_extension("log.1")).map_err(cannot)?;
    locked_log(path)
}

fn locked_log(path: &Path) -> Result<File> {
    let words = File::options().create(true).append(true).mode(0o600).open(path);
    let words = words.map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
    if lock(&words, path, PATIENCE)? {
        return Ok(words);
    }
    let seconds = PATIENCE.as_secs();
    let what = format!("another launcher of this VM did not end within {seconds} s{}", tail(path));
    Err(Error::failed(what))
}

/// Locks a launcher's log; false if a launcher still holds it at the end of `patience`.
fn lock(words: &File, path: &Path, patience: Duration) -> Result<bool> {
    let since = Instant::now();
    loop {
        match words.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if since.elapsed() > patience => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::Error(e)) => {
                return Err(Error::io(format!("cannot lock {}", path.display()), e));
            }
        }
    }
}

/// The last lines of the log, to be appended to an error message.
pub fn tail(log: &Path) -> String {
    use io::{Read as _, Seek as _, SeekFrom};
    let mut bytes = vec![];
    let read = File::open(log).and_then(|mut file| {
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(16 << 10)))?;
        file.take(16 << 10).read_to_end(&mut bytes)
    });
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LOG_TOLD)..).unwrap_or_default();
    let full = if is_full(log) { ", whose file system is full: make space there" } else { "" };
    if read.is_err() || last.is_empty() {
        return format!("; it wrote nothing to {}{full}", log.display());
    }
    let last: Vec<String> = last.iter().map(|line| format!("\n  {}", printable::line(line))).collect();
    format!("; the last lines of {}{full} are:{}", log.display(), last.concat())
}

/// True if a launcher finds no space for its files beside this one.
fn is_full(log: &Path) -> bool {
    const LEAST: u64 = 1 << 20;
    rustix::fs::statvfs(log).is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    fn home(folder: &Path) -> Home {
        Home::from_env(Some(folder.to_owned()), |_| None).unwrap()
    }

    fn program(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join("launcher");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn a_launcher_that_ends_is_told_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), "echo \"$1 $2\"; echo 'libvirt is not there' >&2; exit 3");
        let e = start(&program, &home(folder.path()), "m").unwrap_err();
        let text = e.to_string();
        assert!(text.contains("exit status: 3") && text.contains("\n  run --root\n"), "{text}");
        assert!(text.contains("libvirt is not there"), "{text}");
    }

    /// It answers `info` at the socket that an earlier version gave to the VM.
    fn earlier_launcher(home: &Home, name: &str, root: &Path) -> UnixListener {
        launcher_at(&home.earlier_socket(name).unwrap(), root)
    }

    /// It answers `info` at this socket.
    fn launcher_at(path: &Path, root: &Path) -> UnixListener {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(std::fs::remove_file(path));
        let listener = UnixListener::bind(path).unwrap();
        let serving = listener.try_clone().unwrap();
        let info = serde_json::json!({
            "version": "0", "pid": std::process::id(), "libvirt": "0", "uri": "", "root": root,
        });
        let text = info.to_string();
        std::thread::spawn(move || {
            while let Ok((mut socket, _)) = serving.accept() {
                let mut head = [0; 4096];
                // A client that only looks whether somebody listens sends nothing.
                if socket.read(&mut head).unwrap_or(0) > 0 {
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
                    socket.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        listener
    }

    #[test]
    fn a_launcher_of_an_earlier_version_is_found_by_its_folder() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let of = |state: &str| {
            let variable = |name: &str| match name {
                "XDG_RUNTIME_DIR" => Some(place.path().into()),
                _ => Some(place.path().join(state).into_os_string()),
            };
            Home::from_env(None, variable).unwrap()
        };
        let (own, other) = (of("own"), of("other"));
        let folder = root(&own, "web");
        let new = own.socket("web").unwrap();
        assert_eq!(client(&own, "web").unwrap().socket(), new, "no launcher runs");
        let _listener = earlier_launcher(&own, "web", &folder);
        assert_eq!(client(&own, "web").unwrap().socket(), new, "the VM has no folder");
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(client(&own, "web").unwrap().socket(), own.earlier_socket("web").unwrap());
        // The VM of the other home is not that of this launcher.
        std::fs::create_dir_all(root(&other, "web")).unwrap();
        assert_eq!(client(&other, "web").unwrap().socket(), other.socket("web").unwrap());
        let _now = UnixListener::bind(&new).unwrap();
        assert_eq!(client(&own, "web").unwrap().socket(), new, "a new launcher listens");
    }

    /// It worked in the folder of another VM, at the old path.
    #[test]
    fn a_launcher_whose_home_was_moved_is_not_that_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let (own, other) = (root(&home, "m"), folder.path().join("other"));
        for root in [&own, &other] {
            std::fs::create_dir_all(root).unwrap();
        }
        let _log = locked_log(&log(&home, "m")).unwrap();
        for (root, is_own) in [(&own, true), (&other, false), (&folder.path().join("none"), false)] {
            let _listener = launcher_at(&home.socket("m").unwrap(), root);
            let client = client(&home, "m").unwrap();
            assert_eq!(is_of_folder(&client, &home, "m").unwrap(), is_own, "{}", root.display());
        }
    }

    /// It started the VM that it found, on the disk of an earlier `run`, before it was given the new one.
    #[test]
    fn a_launcher_that_gets_a_new_request_finds_none_of_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let found = folder.path().join("found");
        let program = program(folder.path(), &format!("ls \"$3\" > {}; exit 3", found.display()));
        let root = root(&home, "m");
        let seen = |start: fn(&Path, &Home, &str) -> Result<Client>, state: &str| {
            home.make(&root).unwrap();
            for (file, text) in [("vm.json", "{}"), ("state.json", state), ("nvram", "")] {
                std::fs::write(root.join(file), text).unwrap();
            }
            start(&program, &home, "m").unwrap_err();
            std::fs::read_to_string(&found).unwrap()
        };
        let state = |life| serde_json::to_string(&State { life, ..State::default() }).unwrap();
        let all = "nvram\nstate.json\nvm.json\n";
        assert_eq!(seen(start, &state(Life::Succeeded)), all, "the VM has ended");
        for state in [state(Life::Succeeded), state(Life::Preparing), String::new()] {
            assert_eq!(seen(start_anew, &state), "nvram\n", "{state}");
        }
        for state in [state(Life::Preparing), state(Life::Running), String::new()] {
            assert_eq!(seen(start, &state), "nvram\n", "nothing runs: {state}");
        }
    }

    #[test]
    fn nothing_is_started_beside_a_qemu_of_an_earlier_run() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let program = program(folder.path(), "exit 3");
        let root = root(&home, "m");
        home.make(&root.join("run/qemu")).unwrap();
        std::fs::write(root.join("vm.json"), "{}").unwrap();
        let qemu = crate::fake_qemu::Qemu::start(folder.path(), "m");
        std::fs::write(root.join("run/qemu/m.pid"), qemu.id().to_string()).unwrap();
        let e = start_anew(&program, &home, "m").unwrap_err().to_string();
        assert!(e.contains(&format!("earlier run (process {}) runs", qemu.id())), "{e}");
        assert!(root.join("vm.json").exists(), "a launcher can take it over");
    }

    /// The QEMU of another VM, which had got the process ID, passed for that of this one.
    #[test]
    fn the_qemu_of_another_vm_is_not_that_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let file = root(&home, "m").join("run/qemu/default_m.pid");
        home.make(file.parent().unwrap()).unwrap();
        for (guest, is_own) in [("default_m", true), ("default_m2", false), ("other_m", false)] {
            let started = crate::fake_qemu::Qemu::start(folder.path(), guest);
            std::fs::write(&file, started.id().to_string()).unwrap();
            let found = qemu(&home, "m").unwrap();
            assert_eq!(found, is_own.then(|| (started.id(), file.clone())), "{guest}");
        }
    }

    #[test]
    fn a_launcher_that_is_nowhere_is_told_with_where_it_was_looked_for() {
        let named = Path::new("/nowhere/virt-launcher");
        assert_eq!(find(Some(named)).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn only_the_end_of_a_log_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(&log, (0..5000).map(|i| format!("line\u{202e} {i}\x1b[2J\n")).collect::<String>())
            .unwrap();
        let told = tail(&log);
        assert!(told.ends_with("line  4999 [2J") && told.lines().count() == LOG_TOLD + 1, "{told}");
        assert!(tail(&folder.path().join("none")).contains("wrote nothing"));
    }
}
